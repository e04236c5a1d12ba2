"""`recfact.dask` on workers that are processes of their own, one of which dies."""

import os

import numpy as np
import pytest
from samples import one_in

import recfact as rf
from recfact.windows import Full, Jagged, Uniform

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
