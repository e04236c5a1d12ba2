"""Exponentially weighted statistics of tables of values, time first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.decay import Decay, passed
from recfact.solve import solve
from recfact.windows import Window

PIECE = 1 << 15
"""Values that are averaged at a time, so that they and the weights beside them stay in the caches."""

LEAST_ROWS = 64
"""Rows that are averaged at a time, at least."""


@dataclass(frozen=True)
class Weighting:
    """How values are weighted along time.

    Parameters
    ----------
    starts : ndarray of int64
        Where groups start, and where the last one ends. No group is empty.
    times : ndarray or None, shape (n,)
        When the values were measured. None means one step apart.
    decay : Decay
        How weights decay.
    adjust : bool
        Whether means are divided by the sum of the weights.
    ignore_na : bool
        Whether no time passes at missing values.
    least : int
        Number of values that are needed before a result.
    """

    starts: Array
    times: Array | None
    decay: Decay
    adjust: bool
    ignore_na: bool
    least: int

    def ages(self, first: int, end: int) -> Array:
        """Return the time that passes before each of some rows, or before any row. It is 0 at the start of a group."""
        if self.times is None:
            return np.ones(1)
        later = self.times[first:end]
        earlier = np.concatenate([self.times[max(first - 1, 0)][None], later[:-1]])
        inside = self.starts[slice(*np.searchsorted(self.starts, (first, end)))] - first
        earlier[inside] = later[inside]
        return passed(later, earlier, first, self.decay.unit)


def statistics(values: Array, found: Array, weighting: Weighting, kind: str, root: bool) -> None:
    """Put statistics of values, shape (n, columns), into `found`: "mean", "sum", "biased" or "unbiased" variances.

    With `root` the result is their square roots, computed in float64 because squares may be out of range of the type.
    """
    steps, columns = values.shape
    average, kinds, kept = _engine()
    newest = np.ones(1) if weighting.adjust else weighting.decay.losses(np.ones(1))
    state = np.zeros((columns, kept))
    rows = max(LEAST_ROWS, PIECE // columns)
    for first in range(0, steps, rows):
        end = min(steps, first + rows)
        ages = weighting.ages(first, end)
        weights = weighting.decay.weights(ages)
        losses = weights if weighting.adjust else weighting.decay.losses(ages)
        given = values[first:end].astype(float) if root else values[first:end]
        place = np.empty_like(given) if root else found[first:end]
        average(
            given,
            place,
            weights,
            losses,
            newest,
            weighting.starts,
            state,
            first,
            kinds[kind],
            weighting.adjust,
            weighting.times is not None,
            not weighting.ignore_na,
            weighting.least,
        )
        if root:
            found[first:end] = np.sqrt(place, out=place)


def windowed(values: Array, weighting: Weighting, window: Window, kind: str) -> Array:
    """Return means or sums of the values in a window, shape (n, columns), in float64."""
    seen, values = np.isfinite(values), values.astype(float)
    weights = np.broadcast_to(weighting.decay.weights(weighting.ages(0, len(values)))[:, None], values.shape)
    if weighting.ignore_na:
        weights = np.where(seen, weights, 1)

    def summed(weights: Any, numbers: Array) -> Array:
        result: Array = solve(weights, numbers, axis=0, offsets=weighting.starts, window=window)
        return result

    found = summed(weights, np.where(seen, values, 0))
    if kind == "mean":
        found /= summed(weights, seen.astype(float))
    found[summed(1.0, seen.astype(float)) < weighting.least] = np.nan
    return found


@cache
def _engine() -> tuple[Callable[..., None], dict[str, int], int]:
    """Return the function that averages rows (which imports LLVM), its statistics, and how many numbers it carries."""
    from recfact.cpu.average_kernels import KEPT, KINDS, average_rows

    return average_rows, KINDS, KEPT
