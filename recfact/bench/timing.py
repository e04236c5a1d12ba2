"""Time calls against each other on a machine that others use too.

The calls alternate, and the order within a round alternates too. Each round gives one ratio. If something slows the
machine for a while, it slows both sides of the ratio. The median ignores the rounds that were disturbed in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]

SHORTEST = 5e-3
"""Seconds that one run takes at least: shorter calls are repeated within it."""


@dataclass(frozen=True)
class Effort:
    """How much time a measurement may take.

    Parameters
    ----------
    seconds : float
        Time after which no new round begins.
    least, most : int
        The smallest and the largest number of rounds.
    pause : float
        Seconds of rest before each run.
    """

    seconds: float
    least: int
    most: int
    pause: float


class Quartiles(NamedTuple):
    """The middle half of a sample.

    Examples
    --------
    >>> Quartiles.of([1.0, 2.0, 3.0, 4.0, 10.0])
    Quartiles(low=2.0, median=3.0, high=4.0)
    >>> round(Quartiles.of([1.0, 2.0, 3.0, 4.0, 10.0]).spread, 3)
    0.667
    """

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, sample: Sequence[float]) -> Quartiles:
        """Return the quartiles of `sample`, interpolated linearly."""
        return cls(*map(float, np.quantile(sample, (0.25, 0.5, 0.75))))

    @property
    def spread(self) -> float:
        """The interquartile range, relative to the median."""
        return (self.high - self.low) / self.median


def interleave(calls: Sequence[Call], effort: Effort) -> list[tuple[float, ...]]:
    """Run `calls` in turn, round after round, every other round backwards.

    Each call first runs once, to compile, to touch its memory, and to find how often it fits into a run.

    Returns
    -------
    list of tuple of float
        The seconds that one run of each call took, for each round.
    """
    repeats = []
    for call in calls:
        run_once(call, 1)
        repeats.append(max(1, math.ceil(SHORTEST / max(run_once(call, 1), 1e-9))))
    order = list(range(len(calls)))
    rounds: list[tuple[float, ...]] = []
    end = time.perf_counter() + effort.seconds
    while len(rounds) < effort.least or (len(rounds) < effort.most and time.perf_counter() < end):
        seconds = [0.0] * len(calls)
        for index in order:
            time.sleep(effort.pause)
            seconds[index] = run_once(calls[index], repeats[index])
        rounds.append(tuple(seconds))
        order.reverse()
    return rounds


def run_once(call: Call, repeats: int) -> float:
    """Return the seconds that `call` takes, on average over `repeats` calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


@dataclass(frozen=True)
class Comparison:
    """A call against its baseline.

    Parameters
    ----------
    ratio : Quartiles
        Quartiles of the ratios of all rounds.
    ours, baseline : Quartiles
        Quartiles of the times in seconds.
    """

    ratio: Quartiles
    ours: Quartiles
    baseline: Quartiles

    @classmethod
    def of(cls, rounds: Sequence[tuple[float, ...]]) -> Comparison:
        """Return the comparison that rounds of a call and its baseline give."""
        return cls(
            Quartiles.of([first / second for first, second in rounds]),
            Quartiles.of([first for first, _ in rounds]),
            Quartiles.of([second for _, second in rounds]),
        )


def compare(ours: Call, baseline: Call, effort: Effort) -> Comparison:
    """Time `ours` against `baseline`."""
    return Comparison.of(interleave((ours, baseline), effort))
