"""Calls timed on a GPU, by its own clock, several in a row.

Copies before them keep the GPU busy while the host submits the calls, so the time of Python isn't included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

Call = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """The amount of timing: `lengths`, each in `rounds` of `calls` in a row, after copies of `busy` bytes."""

    lengths: tuple[int, ...]
    rounds: int
    calls: int
    busy: int


def time_calls(calls: dict[str, Call], effort: Effort) -> dict[str, float]:
    """Return the median seconds of each call. The calls take turns in each round."""
    import cupy

    ballast = [cupy.empty(min(effort.busy, 1 << 28), np.uint8) for _ in range(2)]
    busy = partial(ballast[0].data.copy_from_device_async, ballast[1].data, ballast[0].nbytes)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # compiles, and touches its memory
    for _ in range(effort.rounds):
        for name, call in calls.items():
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            for _ in range(max(effort.busy // ballast[0].nbytes, 1)):
                busy()
            start.record()
            for _ in range(effort.calls):
                call()
            end.record()
            end.synchronize()
            found[name].append(1e-3 * cupy.cuda.get_elapsed_time(start, end) / effort.calls)
    return {name: median(seconds) for name, seconds in found.items()}
