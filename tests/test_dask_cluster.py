"""`recfact.dask` on workers that are processes of their own, one of which dies, and the memory that a task needs."""

import os
import tracemalloc

import numpy as np
import pytest
from samples import one_in

import recfact as rf
from recfact.windows import Full, Jagged, Uniform, blocks_and_terms

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def numbers(shape):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, shape), rng.standard_normal(shape)


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(40)], ids=str)
def test_two_processes_solve_what_one_does(window, method, cluster):
    a, u = numbers((1000, 3))
    chunks = {"chunks": (130, 2)}
    for options in ({"x0": 1.0}, {"offsets": [0, 333, 1000]}, {"reverse": True}):
        if options.get("reverse") and window != Full() and method == "chain":
            continue
        given = {"axis": 0, "window": window, **options}
        x = rf.dask.solve(da.from_array(a, **chunks), da.from_array(u, **chunks), method=method, **given)
        np.testing.assert_allclose(x.compute(), rf.solve(a, u, **given), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", one_in(2, ["carriers", "chain"]))
def test_a_worker_that_dies_changes_nothing(method, cluster, tmp_path):
    a, u = numbers((600, 2))
    mark = tmp_path / "died"

    def deadly(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 7 and not mark.exists():
            mark.touch()
            os._exit(1)
        return block

    inputs = da.from_array(u, chunks=(50, 1)).map_blocks(deadly, meta=np.empty((0, 0)))
    x = rf.dask.solve(da.from_array(a, chunks=(50, 1)), inputs, axis=0, method=method).compute()
    assert mark.exists()
    np.testing.assert_allclose(x, rf.solve(a, u, axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("options", [{"method": "chain"}, {"method": "carriers"}, {"window": "jagged:16"}], ids=str)
def test_two_processes_average_what_one_does(options, cluster):
    _, u = numbers((1000, 3))
    given = {"axis": 0, "halflife": 9.0, "times": np.arange(1000.0) ** 1.1, "window": options.get("window", "full")}
    x = rf.dask.ewm(da.from_array(u, chunks=(130, 2)), **given, method=options.get("method", "auto"))
    np.testing.assert_allclose(x.compute(), rf.ewm(u, **given), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("default")
def test_what_workers_hold_already_is_taken_as_it_is(cluster):
    a, u = numbers((400, 2))
    held = [da.from_array(array, chunks=(70, 1)).persist() for array in (a, u)]
    for method in ("chain", "carriers"):
        x = rf.dask.solve(*held, axis=0, method=method).compute()
        np.testing.assert_allclose(x, rf.solve(a, u, axis=0), rtol=1e-12, atol=1e-12)


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
@pytest.mark.parametrize("options", [{}, {"offsets": [0, 1000, 70_000, 4 << 16]}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(40), Jagged(5, 0)], ids=str)
def test_gradients_need_each_chunk_that_is_read_or_written_once(window, options, monkeypatch):
    """Three are read and two are written. In a window there are up to 40 arrays of the parts that it is cut into."""
    room, steps, channels = 1 << 12, 1 << 16, 4
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
