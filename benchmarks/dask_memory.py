"""Print how many chunks a task of `recfact.dask` holds at most, by window and method: the table of docs/dask.md."""

from __future__ import annotations

import tracemalloc
from typing import Any

import dask.array as da

import recfact as rf

STEPS, CHANNELS, CHUNKS = 1024, 256, 6
WINDOWS = ("full", "jagged:16", "jagged:1024", "jagged:2048", "uniform:1024")


class Nowhere:
    """A target that keeps nothing."""

    def __setitem__(self, place: Any, values: Any) -> None:
        pass


def peak(window: str, method: str) -> float:
    """Return the most memory that one task after another takes, in chunks."""
    lazy = [
        da.random.default_rng(seed).uniform(-0.9, 0.9, (CHUNKS * STEPS, CHANNELS), chunks=(STEPS, CHANNELS))
        for seed in range(3)
    ]
    if method == "vjp":
        found = list(rf.dask.vjp(*lazy, window=window, axis=0)[:2])
    else:
        found = [rf.dask.solve(*lazy[:2], window=window, axis=0, method=method)]
    for _ in range(2):  # the first time compiles
        tracemalloc.start()
        da.store(found, [Nowhere()] * len(found), scheduler="synchronous", lock=False)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most / (STEPS * CHANNELS * 8)


if __name__ == "__main__":
    for window in WINDOWS:
        print(window, *(f"{method} {peak(window, method):.1f}" for method in ("carriers", "chain", "vjp")), sep="  ")
