"""`recfact.dask.ewm` beside `recfact.ewm` wherever chunks are cut, and beside xarray's own exponential averages."""

import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from labelled import xarray

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

N = 29
CHUNKS = [1, 7, (0, 5, 0, 1, 18, 5, 0)]
TIMES = np.random.default_rng(1).integers(0, 5, N).cumsum()
MODES = {
    "plain": {},
    "ignored": {"ignore_na": True},
    "times": {"times": TIMES},
    "instants": {"times": np.datetime64("2001-01-01") + TIMES, "halflife": "60h"},
    "times, ignored": {"times": TIMES, "ignore_na": True},
    "groups": {"offsets": [0, 3, 3, 20, N]},
    "groups at times": {"offsets": [0, 7, 21, N], "times": TIMES, "min_periods": 3},
}


def modes(*names):
    return pytest.mark.parametrize("mode", [MODES[name] for name in names or MODES], ids=names or MODES)


@pytest.fixture(autouse=True)
def _():
    with dask.config.set(scheduler="synchronous"):
        yield


def gappy(rng, shape, share=0.3):
    values = rng.standard_normal(shape) + 5
    values[rng.random(shape) < share] = np.nan
    return values


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("axis", "shape", "dtype"), [(0, (N,), float), (1, (2, N, 3), np.float32), (1, (3, N), np.float16)], ids=str
)
@pytest.mark.parametrize("adjust", [True, False])
@modes()
def test_a_chain_gives_the_bits_of_one_call(mode, adjust, axis, shape, dtype, rng):
    options = {"halflife": 3.0, "adjust": adjust, **mode}
    u = gappy(rng, shape).astype(dtype)
    for stat in ("mean", "var", "std") + (("sum",) if adjust else ()):
        expected = rf.ewm(u, axis=axis, stat=stat, **options)
        for cut in CHUNKS:
            chunks = tuple(cut if d == axis else 2 for d in range(u.ndim))
            lazy = da.from_array(u, chunks=chunks)
            x = rf.dask.ewm(lazy, axis=axis, stat=stat, method="chain", **options)
            assert (x.chunks, x.dtype) == (lazy.chunks, expected.dtype)
            np.testing.assert_array_equal(x.compute(), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", [0, 0.4, 0.95])
@pytest.mark.parametrize("stat", ["mean", "sum", "std"])
@modes()
def test_carriers_merge_what_chunks_find(mode, stat, share, rng, monkeypatch):
    options = {"halflife": 3.0, **mode}
    u = gappy(rng, (2, N, 2), share)
    expected = rf.ewm(u, axis=1, stat=stat, **options)
    for cut, at_once in ((1, 10_000), (1, 3), (7, 2), (CHUNKS[-1], 10_000)):
        monkeypatch.setattr("recfact.dask.plans.AT_ONCE", at_once)
        lazy = da.from_array(u, chunks=(1, cut, 2))
        x = rf.dask.ewm(lazy, axis=1, stat=stat, method="carriers", **options)
        np.testing.assert_allclose(x.compute(), expected, rtol=1e-12, atol=1e-12)


def test_carriers_are_within_their_bound_of_exact_means(rng):
    """Every value of a mean is rounded 3 times a step and 4 times a chunk at most, and decays once a chunk more."""
    u = rng.standard_normal(N) * 10.0 ** rng.integers(-3, 4, N)
    found = rf.dask.ewm(da.from_array(u, 4), alpha=0.25, method="carriers").compute()
    for i in range(N):
        weights = [Fraction(3, 4) ** (i - j) for j in range(i + 1)]
        mean, size = (
            sum(w * abs(Fraction(x)) if absolute else w * Fraction(x) for w, x in zip(weights, u, strict=False))
            / sum(weights)
            for absolute in (False, True)
        )
        roundings = 8 * (i + 1) + 16 * (i // 4 + 1)
        assert abs(Fraction(found[i]) - mean) <= size * roundings * Fraction(1, 2**53)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", ["uniform:5", "jagged:4", "jagged:3:2", "jagged:4:0", "uniform:60"])
@modes("plain", "times, ignored", "groups at times")
@pytest.mark.parametrize(("axis", "shape", "dtype"), [(1, (2, N, 3), float), (0, (N,), np.float32)], ids=str)
def test_chunks_read_what_a_window_sees(mode, window, axis, shape, dtype, rng):
    options = {"halflife": 3.0, "window": window, **mode}
    u = gappy(rng, shape).astype(dtype)
    for stat in ("mean", "sum"):
        expected = rf.ewm(u, axis=axis, stat=stat, **options)
        for cut in CHUNKS:
            lazy = da.from_array(u, chunks=tuple(cut if d == axis else 2 for d in range(u.ndim)))
            x = rf.dask.ewm(lazy, axis=axis, stat=stat, **options)
            assert (x.chunks, x.dtype) == (lazy.chunks, expected.dtype)
            rounding = 1e-12 if dtype is float else 1e-6
            np.testing.assert_allclose(x.compute(), expected, rtol=rounding, atol=rounding)


def test_values_before_a_long_gap_keep_their_shares():
    """All weights are 0 at the end of the second chunk, but its mean is that of both chunks."""
    u = np.array([1.0, 3.0, np.nan, np.nan, np.nan])
    times = [0.0, 1.0, 1e5, 1e5, 2e5]
    for cut in ((1, 4), (1, 3, 1), (1, 1, 3), (1, 2, 2)):
        for stat in ("mean", "var"):
            lazy = da.from_array(u, chunks=(cut,))
            x = rf.dask.ewm(lazy, halflife=1.0, times=times, stat=stat, method="carriers")
            np.testing.assert_allclose(x.compute(), rf.ewm(u, halflife=1.0, times=times, stat=stat), rtol=1e-15)


@pytest.mark.parametrize("method", ["chain", "carriers"])
def test_equal_values_have_their_mean_and_no_variance(method):
    u = da.full(50, 0.1, chunks=7)
    assert set(rf.dask.ewm(u, span=9.0, method=method).compute()) == {0.1}
    assert set(rf.dask.ewm(u, span=9.0, stat="var", bias=True, method=method).compute()) == {0.0}


@pytest.mark.parametrize(
    ("options", "kinds", "each"),
    [
        ({"method": "chain"}, {"chain", "state", "states", "turn"}, 4),
        ({"method": "carriers"}, {"map", "scan", "entry", "states"}, 4),
        ({"window": "jagged:16"}, {"border", "states"}, 2),
    ],
)
def test_a_chunk_takes_four_tasks_at_most(options, kinds, each):
    u = da.ones((1000, 4), chunks=(10, 2))
    x = rf.dask.ewm(u, span=9.0, axis=0, **options)
    counted = Counter(dask.utils.key_split(key) for key in dict(x.__dask_graph__()))
    ours = {name: count for name, count in counted.items() if name.startswith("average-")}
    assert set(ours) == {f"average-{kind}" for kind in kinds}
    assert sum(ours.values()) <= each * u.npartitions


def test_what_is_chosen_depends_on_workers_and_options():
    u = da.ones((60, 4), chunks=(5, 2))
    for workers, options, kind in ((2, {}, "chain"), (3, {}, "map"), (3, {"adjust": False}, "chain")):
        with dask.config.set(scheduler="threads", num_workers=workers):
            x = rf.dask.ewm(u, span=9.0, axis=0, **options)
            assert f"average-{kind}" in {dask.utils.key_split(key) for key in dict(x.__dask_graph__())}


def test_equal_calls_have_equal_names():
    u = da.ones(8, chunks=3)
    calls = [
        {"span": 2.0},
        {"span": 3.0},
        {"span": 2.0, "window": "jagged:4"},
        {"span": 2.0, "stat": "sum"},
        {"halflife": 1.0, "times": np.arange(8)},
        {"halflife": 1.0, "times": np.arange(8) * 2},
    ]
    first, second = ([rf.dask.ewm(u, **call).name for call in calls] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(calls)


def test_integers_are_averaged_in_float64():
    for dtype in (np.int16, bool):
        u = np.arange(6).astype(dtype)
        x = rf.dask.ewm(da.from_array(u, 4), span=3.0)
        assert x.dtype == float
        np.testing.assert_array_equal(x.compute(), rf.ewm(u, span=3.0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0), (1,)])
def test_no_values_and_no_columns(shape):
    for options in ({"method": "chain"}, {"method": "carriers"}, {"window": "uniform:2"}):
        x = rf.dask.ewm(da.ones(shape, chunks=2), alpha=0.5, axis=0, **options).compute()
        np.testing.assert_array_equal(x, np.ones(shape))


def test_xarray_keeps_its_labels_and_stays_lazy(rng):
    days = np.datetime64("2001-01-01") + TIMES
    array = xarray().DataArray(gappy(rng, (2, N)), {"time": days, "channel": ["p", "q"]}, ("channel", "time"), name="c")
    chunked = array.chunk({"time": 6, "channel": 1})
    for method in ("chain", "carriers"):
        x = rf.dask.ewm(chunked, halflife="2D", times=chunked.time, axis="time", method=method)
        assert x.chunks == chunked.chunks
        expected = rf.ewm(array, halflife="2D", times=array.time, axis="time")
        xarray().testing.assert_allclose(x.compute(), expected, rtol=1e-13)
        assert x.name == "c"


@pytest.mark.parametrize("stat", ["mean", "sum", "var", "std"])
def test_averages_are_those_of_rolling_exp(stat, rng):
    pytest.importorskip("numbagg", reason="numbagg, which xarray averages with, is not installed")
    array = xarray().DataArray(gappy(rng, (2, N)), dims=("channel", "time"))
    theirs = getattr(array.rolling_exp(time=4, window_type="span"), stat)()
    lazy = array.chunk({"time": 6, "channel": 1})
    for method in ("chain", "carriers"):
        x = rf.dask.ewm(lazy, span=4.0, axis="time", stat=stat, method=method).compute()
        later = array.notnull().cumsum("time") > (1 if stat in ("var", "std") else 0)  # before, the two may differ
        xarray().testing.assert_allclose(x.where(later), theirs.where(later), rtol=1e-8)


REFUSED = {
    "nothing lazy": (lambda _: np.ones(3), {}, ArrayTypeError, "u must be an array of dask, got ndarray"),
    "unknown sizes": (lambda u: u[u > 0], {}, ShapeError, "u must have chunks of known sizes"),
    "complex": (lambda u: u * 1j, {}, DTypeError, "u must hold real numbers, got complex128"),
    "carriers": (lambda u: u, {"adjust": False, "method": "carriers"}, OptionError, 'must be "chain" or "auto" with'),
    "window": (lambda u: u, {"window": "jagged:2", "method": "chain"}, OptionError, 'must be "carriers" or "auto" in'),
    "falling": (
        lambda u: u,
        {"times": [0, 1, 2, 3, 4, 5, 4, 5], "halflife": 1.0, "alpha": None},
        OptionError,
        "times must not fall, got 4 after 5 at index 6",
    ),
    "times": (lambda u: u, {"times": [0, 1], "halflife": 1.0, "alpha": None}, ShapeError, "must be one list of 8"),
    "method": (lambda u: u, {"method": "scan"}, OptionError, "method must be one of 'auto'"),
    "stat": (lambda u: u, {"stat": "median"}, OptionError, "stat must be one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_computed(name):
    make, options, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        rf.dask.ewm(make(da.ones(8, chunks=3)), **{"alpha": 0.5, **options})


def test_chunks_on_gpus_are_refused(monkeypatch):
    elsewhere = type("ndarray", (np.ndarray,), {"__module__": "cupy"})
    monkeypatch.setitem(sys.modules, "cupy", np)
    u = da.from_array(np.ones(4).view(elsewhere), chunks=2, asarray=False, meta=np.empty(0).view(elsewhere))
    with pytest.raises(ArrayTypeError, match="u must have chunks on the host"):
        rf.dask.ewm(u, alpha=0.5)
