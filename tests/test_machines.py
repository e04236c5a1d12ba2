"""The formulas for many machines: against the bytes that real calls load and exchange, and against their page."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import recfact as rf

ROOT = Path(__file__).parents[1]
C, WIDTH = 3, 8


def loaded():
    spec = spec_from_file_location("machines", ROOT / "benchmarks" / "machines.py")
    module = sys.modules["machines"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machines = loaded()


class Counted:
    """A file that counts the bytes read from it."""

    def __init__(self, array):
        self.array, self.read = array, 0
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, place):
        part = self.array[place]
        self.read += part.nbytes
        return part.copy()


@pytest.mark.parametrize("pieces", [1, 2, 5, 12])
@pytest.mark.parametrize("method", ["chain", "carriers"])
def test_tasks_move_what_the_formulas_say(method, pieces):
    dask, da = (pytest.importorskip(name, reason="dask is not installed") for name in ("dask", "dask.array"))
    rng = np.random.default_rng(0)
    n = 60
    files = [Counted(rng.uniform(0, 1, (n, C))), Counted(rng.standard_normal((n, C)))]
    a, u = (da.from_array(file, chunks=(n // pieces, C), name=False, meta=np.empty((0, 0))) for file in files)
    counts = {"state": 0, "map": 0, "entry": 0}

    def size(result):
        return sum(map(size, result)) if isinstance(result, tuple | list) else getattr(result, "nbytes", 0)

    def count(key, result, *_):
        kind = str(key[0]).split("-")[1] if isinstance(key, tuple) else ""
        if kind in counts:
            counts[kind] += size(result)

    from dask.callbacks import Callback

    with Callback(posttask=count), dask.config.set(scheduler="synchronous"):
        x = rf.dask.solve(a, u, axis=0, method=method).compute()
    np.testing.assert_allclose(x, rf.solve(files[0].array, files[1].array, axis=0))
    work = machines.Work(n, C, machines=pieces, width=WIDTH)
    moves = getattr(machines, method)(work)
    assert sum(file.read for file in files) == moves.read
    assert sum(counts.values()) == moves.exchanged


@pytest.mark.torch
@pytest.mark.parametrize(("window", "reach"), [("full", 0), ("jagged:5", 5), ("uniform:8", 7), ("jagged:5:2", 10)])
def test_ranks_exchange_what_the_formulas_say(window, reach, exchanges):
    world, share = 3, 20
    work = machines.Work(world * share, C, machines=world, reach=reach, width=WIDTH)
    found = exchanges[window]
    moves = machines.gathered(work) if window == "full" else machines.halo(work)
    for backward in (False, True):
        total = 0
        for counts in found:
            for kind, size in counts[backward]:
                total += size * (world - 1 if kind == "gather" else 1)
        check = world * (world - 1) * machines.CHECK
        assert total == moves.exchanged - backward * check


@pytest.fixture(scope="module")
def exchanges(tmp_path_factory):
    """Return what three processes gave to gathers and sends, by window."""
    torch = pytest.importorskip("torch")
    from rank_cases import run

    generator = torch.Generator().manual_seed(0)
    a, u, g = (torch.randn(C, 60, dtype=torch.float64, generator=generator) for _ in range(3))
    windows = ["full", "jagged:5", "uniform:8", "jagged:5:2"]
    given = {"a": a, "u": u, "g": g, "lengths": [20] * 3}
    cases = [("counted", given | {"window": window}) for window in windows]
    return dict(zip(windows, run(cases, 3, tmp_path_factory.mktemp("bytes")), strict=True))


def test_the_page_shows_the_newest_record():
    text = machines.PAGE.read_text(encoding="utf-8")
    assert text.partition(machines.BEGIN)[2].partition(machines.END)[0].strip() == machines.table(machines.newest())
    assert machines.FIGURE.exists()


def test_times_fall_with_machines_until_they_stop():
    constants = machines.Constants(rate=1e10, latency=1e-5, bandwidth=1e9, scan=1e-5, scan_number=1e-9)
    work = machines.Work(10**10, 64, reach=32)
    times = [machines.seconds(machines.at(work, count), constants) for count in (1, 64, 10**7)]
    for name in ("carriers, gathered", "halo"):
        assert times[0][name] > times[1][name] < times[2][name]
    one = machines.seconds(machines.Work(10**10, 1), constants)["chain"]
    assert machines.seconds(machines.Work(10**10, 1, machines=100), constants)["chain"] >= one
    # Without latency and scan, a gather takes as long as the solves where the page says so.
    wide = machines.Constants(rate=1e10, latency=0, bandwidth=1e9, scan=0, scan_number=0)
    count = round((3.5 * 10**10 * 0.1) ** 0.5)
    many = machines.seconds(machines.Work(10**10, 10**4, machines=count), wide)["carriers, gathered"]
    solves = 7 * 10**10 * 10**4 * 4 / count / 1e10
    assert many == pytest.approx(2 * solves, rel=0.01)
