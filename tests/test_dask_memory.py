"""The memory that tasks of `recfact.dask` need.

What Python allocates is counted, whoever asks for it, so no cluster may live in the same process: this file has none.
"""

import tracemalloc

import numpy as np
import pytest

import recfact as rf
from recfact.windows import Full, Jagged, Uniform, blocks_and_terms

da = pytest.importorskip("dask.array", reason="dask is not installed")


class Nowhere:
    """Takes what is stored, and forgets it."""

    def __setitem__(self, place, values):
        pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("window", [Full(), Jagged(16)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_task_needs_the_memory_of_three_chunks(reverse, window, method, scheduler):
    if reverse and window != Full() and method == "chain":
        pytest.skip("windows have no chain backwards")
    steps, channels = 1 << 16, 4

    def load(block_info=None):
        return np.full(block_info[None]["chunk-shape"], 0.5)

    cut = ((steps,) * 12, (channels,))
    a, u = (da.map_blocks(load, chunks=cut, dtype=float, meta=np.empty((0, 0)), token=name) for name in "au")
    x = rf.dask.solve(a, u, axis=0, window=window, method=method, reverse=reverse)
    assert peak([x], scheduler) <= 3 * steps * channels * 8 * 1.1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, {"offsets": [0, 1000, 140_000, 4 << 17]}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(40), Jagged(5, 0)], ids=str)
def test_gradients_need_each_chunk_that_is_read_or_written_once(window, options, monkeypatch):
    """Three are read and two are written. In a window there are up to 40 arrays of the parts that it is cut into."""
    room, steps, channels = 1 << 12, 1 << 17, 4
    monkeypatch.setattr("recfact.dask.chunk_gradients.ROOM", room)

    def load(block_info=None):
        return np.full(block_info[None]["chunk-shape"], 0.5)

    cut = ((steps,) * 4, (channels,))
    given = (da.map_blocks(load, chunks=cut, dtype=float, meta=np.empty((0, 0)), token=name) for name in "aug")
    both = rf.dask.vjp(*given, axis=0, window=window, **options)[:2]
    chunk, part = steps * channels * 8, 0
    if window != Full():
        block, terms = blocks_and_terms(window)
        part = (max(room // channels, 4 * block * (terms + 1)) + 2 * block * (terms + 1)) * channels * 8
    assert peak(both, "threads") <= 5 * chunk * 1.03 + 40 * part


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("stat", ["mean", "std"])
def test_an_average_needs_the_memory_of_three_chunks(stat, method):
    steps, channels = 1 << 16, 4

    def load(block_info=None):
        return np.full(block_info[None]["chunk-shape"], 0.5)

    u = da.map_blocks(load, chunks=((steps,) * 7, (channels,)), dtype=float, meta=np.empty((0, 0)))
    x = rf.dask.ewm(u, span=9.0, axis=0, stat=stat, method=method)
    assert peak([x], "threads") <= 3 * steps * channels * 8 * 1.1


def peak(arrays, scheduler):
    """Return the most bytes in use while lazy arrays are computed together and forgotten."""
    given = arrays, [Nowhere() for _ in arrays]
    options = {"lock": False, "scheduler": scheduler, "num_workers": 1}
    da.store(*given, **options)  # compiles, and imports
    tracemalloc.start()
    da.store(*given, **options)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found
