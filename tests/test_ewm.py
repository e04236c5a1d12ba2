"""`ewm` against pandas in every mode, against the literal weighted sums in exact arithmetic, and what it refuses."""

from datetime import timedelta
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

import recfact as rf
from recfact import weighted
from recfact.cpu import limits
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, ShapeError

DECAYS = [{"alpha": 0.3}, {"span": 5.0}, {"com": 0.0}, {"com": 2.5}, {"halflife": 3.0}, {"alpha": 1.0}]
MODES = [
    dict(zip(("adjust", "ignore_na", "min_periods"), values, strict=True))
    for values in product((True, False), (True, False), (0, 3))
]


@pytest.fixture(autouse=True, params=[8, 1 << 15], ids=["small pieces", "large pieces"])
def pieces(request, monkeypatch):
    """Sequences that are longer than a piece, and shorter ones."""
    monkeypatch.setattr(weighted, "PIECE", request.param)
    monkeypatch.setattr(weighted, "LEAST_ROWS", 3)


def gappy(rng, shape, share):
    values = rng.standard_normal(shape) + 100
    values[rng.random(shape) < share] = np.nan
    return values


@pytest.mark.parametrize("share", [0, 0.3, 0.9, 1])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_means_and_variances_are_those_of_pandas(mode, share, rng):
    for decay, n in product(DECAYS, (1, 2, 3, 17, 200)):
        frame = pd.DataFrame(gappy(rng, (n, 3), share))
        theirs = frame.ewm(**decay, **mode)
        pd.testing.assert_frame_equal(rf.ewm(frame, **decay, **mode), theirs.mean(), rtol=1e-12)
        for bias in (True, False):
            for stat in ("var", "std"):
                found = rf.ewm(frame, **decay, **mode, bias=bias, stat=stat)
                expected = getattr(theirs, stat)(bias=bias)
                if not bias:  # of one value pandas gives 0 or NaN, as its roundings have it
                    expected = expected.where(frame.notna().cumsum() > 1)
                # What pandas corrects by cancels across gaps; `test_nothing_cancels_across_a_gap` says who is right.
                pd.testing.assert_frame_equal(found, expected, rtol=1e-3 if share == 0.9 else 1e-8, atol=1e-9)
        if mode["adjust"]:
            pd.testing.assert_frame_equal(rf.ewm(frame, **decay, **mode, stat="sum"), theirs.sum(), rtol=1e-12)


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_means_at_uneven_times_are_those_of_pandas(mode, share, rng):
    for n, zone in product((1, 2, 50, 300), (None, "Europe/Berlin")):
        times = pd.Timestamp("2001-01-01", tz=zone) + pd.to_timedelta(rng.integers(0, 10**7, n).cumsum(), "s")
        series = pd.Series(gappy(rng, n, share), times)
        theirs = series.ewm(halflife="30D", times=series.index, **mode).mean()
        for halflife in ("30D", pd.Timedelta("30D"), np.timedelta64(30, "D"), "720 hours"):
            found = rf.ewm(series, halflife=halflife, times=series.index, **mode)
            pd.testing.assert_series_equal(found, theirs, rtol=1e-11)
        seconds = times.as_unit("s").asi8
        found = rf.ewm(series.to_numpy(), halflife=30 * 86400, times=seconds, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-11)
        found = rf.ewm(series.to_numpy(), tau=30 * 86400 / np.log(2), times=seconds, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-11)


@pytest.mark.parametrize("share", [0, 0.4])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_groups_are_those_of_pandas(mode, share, rng):
    lengths = [3, 1, 0, 40, 2, 0, 7]
    offsets = np.cumsum([0, *lengths])
    groups = np.repeat(np.arange(len(lengths)), lengths)
    values = pd.Series(gappy(rng, offsets[-1], share))
    times = pd.Series(pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(1, 100, offsets[-1]).cumsum(), "h"))
    for stat in ("mean", "var", "std") + (("sum",) if mode["adjust"] else ()):
        theirs = getattr(values.groupby(groups).ewm(span=4, **mode), stat)()
        found = rf.ewm(values, span=4, offsets=offsets, stat=stat, **mode)
        np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-9)
    grouped = [part.ewm(halflife="2D", times=times[part.index], **mode).mean() for _, part in values.groupby(groups)]
    times = pd.concat([part - part.iloc[0] + pd.Timestamp("2001-01-01") for _, part in times.groupby(groups)])
    found = rf.ewm(values, halflife="2D", times=times, offsets=offsets, **mode)
    np.testing.assert_allclose(found, pd.concat(grouped), rtol=1e-12)


def literal(values, weights_of_age, stat, adjust, bias, window=None):
    """Weighted statistics by their definition, in Fractions; weights of the recursive form are those it implies.

    Values may be missing, None, with `adjust`.
    """
    found = []
    for i in range(len(values)):
        first = 0 if window is None else rf.recurrence.first_kept(i, window)
        w = [weights_of_age(i - j) for j in range(first, i + 1)]
        if not adjust and stat != "sum":
            alpha = 1 - weights_of_age(1)
            w = [alpha * weight for weight in w]
            w[0] /= alpha
        w, seen = zip(*((x, y) for x, y in zip(w, values[first : i + 1], strict=True) if y is not None), strict=True)
        total = sum(w)
        mean = sum(x * y for x, y in zip(w, seen, strict=True)) / total
        if stat == "sum":
            found.append(mean * total)
        elif stat == "mean":
            found.append(mean)
        else:
            biased = sum(x * (y - mean) ** 2 for x, y in zip(w, seen, strict=True)) / total
            unbiased = 1 - sum(x * x for x in w) / total**2
            found.append(biased if bias else biased / unbiased if unbiased else np.nan)
    return np.array(found, float)


@pytest.mark.parametrize(
    ("stat", "adjust", "bias"), [(s, a, b) for s in ("mean", "var") for a in (0, 1) for b in (0, 1)]
)
def test_statistics_are_their_definition(stat, adjust, bias, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(-40, 40, 30)]
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, adjust, bias)
    found = rf.ewm(np.array(values, float), alpha=0.25, stat=stat, adjust=bool(adjust), bias=bool(bias))
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("stat", ["mean", "var"])
@pytest.mark.parametrize("gap", [1, 5, 60])
def test_nothing_cancels_across_a_gap(stat, gap, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(800, 900, 30)]
    values[3 : 3 + gap] = [None] * gap
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, True, False)
    found = rf.ewm(np.array([np.nan if value is None else float(value) for value in values]), alpha=0.25, stat=stat)
    np.testing.assert_allclose(found, exact, rtol=1e-13)


@pytest.mark.parametrize("window", [rf.Jagged(4), rf.Jagged(3, 0), rf.Uniform(5)], ids=str)
@pytest.mark.parametrize("stat", ["mean", "sum"])
def test_windows_show_what_they_keep(window, stat, rng):
    values = [Fraction(int(i), 8) for i in rng.integers(-40, 40, 30)]
    exact = literal(values, lambda age: Fraction(3, 4) ** age, stat, True, False, window)
    found = rf.ewm(np.array(values, float), alpha=0.25, stat=stat, window=window)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


def test_no_time_passes_in_a_window_at_missing_values():
    values = np.array([8.0, np.nan, 4.0, 0.0])
    for stat, expected in {"sum": [8.0, 8.0, 8.0, 2.0], "mean": [8.0, 8.0, 16 / 3, 4 / 3]}.items():
        found = rf.ewm(values, alpha=0.5, ignore_na=True, window=rf.Uniform(3), stat=stat)
        np.testing.assert_allclose(found, expected)


def test_what_a_window_does_not_show_does_not_count():
    values = np.array([1.0, np.nan, np.nan, np.nan, 5.0])
    found = rf.ewm(values, alpha=0.5, window=rf.Uniform(2))
    np.testing.assert_array_equal(found, [1.0, 1.0, np.nan, np.nan, 5.0])


@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("adjust", [True, False])
def test_equal_values_have_themselves_for_a_mean_and_no_variance(adjust, share, rng):
    for value in (0.1, 1e17 / 3, 1e-300):
        values = np.where(np.isnan(gappy(rng, 300, share)), np.nan, value)
        values[0] = value
        assert (rf.ewm(values, halflife=7.3, adjust=adjust) == value).all()
        for bias in (False, True):
            spread = rf.ewm(values, halflife=7.3, adjust=adjust, stat="var", bias=bias)
            assert (spread[np.flatnonzero(~np.isnan(spread))] == 0).all()


def test_a_gap_of_any_length_keeps_the_mean():
    values = np.full(5000, np.nan)
    values[[0, 1, -1]] = 1.0, 3.0, 9.0
    found = rf.ewm(values, alpha=0.9)
    assert (found[1:-1] == found[1]).all()
    assert found[-1] == 9.0
    pd.testing.assert_series_equal(pd.Series(found), pd.Series(values).ewm(alpha=0.9).mean())


def test_small_losses_keep_their_digits():
    """A weight that is 1 up to rounding: what is lost is what counts."""
    found = rf.ewm([0.0, 1.0], halflife=1e12, times=[0.0, 1e-6], adjust=False)
    assert found[1] == pytest.approx(np.log(2) * 1e-18, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", ">f8"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_and_number_type(dtype, axis, rng):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    values = gappy(rng, (4, 5, 6), 0.2).astype(kind)
    found = rf.ewm(values, com=2, axis=axis, stat="var")
    assert (found.shape, found.dtype) == (values.shape, kind.newbyteorder("="))
    one = np.moveaxis(found, axis, 0)[:, 1, 2].astype(float)
    wide = pd.Series(np.moveaxis(values, axis, 0)[:, 1, 2].astype(float)).ewm(com=2).var()
    np.testing.assert_allclose(one, wide, rtol={"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-3}.get(dtype, 1e-9))


def test_what_is_missing_elsewhere_is_missing_here():
    expected = pd.Series([1.0, np.nan, 3.0]).ewm(alpha=0.4).mean().to_numpy()
    pl = pytest.importorskip("polars")
    for given in (
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1.0, None, 3.0], dtype="Float32"),
        pl.Series([1, None, 3]),
        pl.Series([1.0, float("nan"), 3.0]),
        np.ma.masked_equal([1, 7, 3], 7),
        [1.0, np.inf, 3.0],
    ):
        found = rf.ewm(given, alpha=0.4)
        assert type(found) is (np.ndarray if isinstance(given, list | np.ma.MaskedArray) else type(given))
        np.testing.assert_allclose(np.asarray(found, float), expected, rtol=1e-12)


def test_tables_keep_their_labels(rng):
    xr = pytest.importorskip("xarray")
    index = pd.date_range("2001-01-01", periods=6)
    frame = pd.DataFrame(rng.random((6, 2)), index, ["x", "y"])
    pd.testing.assert_frame_equal(rf.ewm(frame, span=3), frame.ewm(span=3).mean())
    pd.testing.assert_frame_equal(rf.ewm(frame, span=3, axis="columns"), frame.T.ewm(span=3).mean().T)
    array = xr.DataArray(frame.to_numpy(), dims=("time", "place"), coords={"time": index})
    found = rf.ewm(array, halflife="2D", times=array.time, axis="time")
    assert found.dims == array.dims
    np.testing.assert_allclose(found, frame.ewm(halflife="2D", times=index).mean(), rtol=1e-12)


def test_nothing_is_something():
    assert rf.ewm([], alpha=0.5).shape == (0,)
    assert rf.ewm(np.empty((0, 3)), alpha=0.5, axis=0, stat="var").shape == (0, 3)
    assert rf.ewm(np.empty((3, 0)), alpha=0.5, axis=0).shape == (3, 0)
    assert rf.ewm(np.empty(0), alpha=0.5, offsets=[0, 0]).shape == (0,)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 1000), ("float32", 1e25), ("float32", 1e-25)])
def test_deviations_whose_squares_their_type_does_not_hold(dtype, size):
    values = np.array([0, size, 0, size, size], dtype)
    found = rf.ewm(values, alpha=0.5, stat="std")
    assert found.dtype == dtype
    wide = pd.Series(values.astype(float)).ewm(alpha=0.5).std()
    np.testing.assert_allclose(found, wide, rtol=float(np.finfo(dtype).eps))


def test_means_of_numbers_near_the_largest_stay_between_them():
    values = np.array([1.7e308, -1.7e308, 1.7e308, 1.0, 2.0])
    for adjust in (True, False):
        expected = pd.Series(values).ewm(alpha=0.5, adjust=adjust).mean()
        np.testing.assert_allclose(rf.ewm(values, alpha=0.5, adjust=adjust), expected, rtol=1e-14)


def test_means_in_a_window_know_nothing_of_other_values():
    values = np.array([1e300, 1e17, 1.0, 1.0, 2.0, 1e-3, 2e-3])
    found = rf.ewm(values, alpha=0.5, window=rf.Uniform(2), offsets=[0, 1, 5, 7])
    np.testing.assert_allclose(found, [1e300, 1e17, (1e17 + 2) / 3, 1.0, 5 / 3, 1e-3, 5e-3 / 3], rtol=1e-15)


def test_times_are_subtracted_before_they_are_rounded():
    expected = rf.ewm([1.0, 2.0, 4.0], halflife=2, times=[0, 1, 2])
    for times in (10**18 + np.arange(3), 2**64 - 3 + np.arange(3, dtype=np.uint64), np.arange(3, dtype=np.int8)):
        np.testing.assert_array_equal(rf.ewm([1.0, 2.0, 4.0], halflife=2, times=times), expected)
    for kind in ("M8[D]", "M8[h]", "M8[s]", "M8[2h]", "M8[ms]", "M8[us]", "M8[ns]", ">M8[ns]"):
        instants = np.arange(9, 12).astype("M8[D]").astype(kind)
        np.testing.assert_array_equal(rf.ewm([1.0, 2.0, 4.0], halflife="2D", times=instants), expected)


def test_times_and_durations_that_64_bits_of_a_unit_do_not_hold():
    far = np.array(["1678-01-01", "2262-01-01", "2262-01-02"], "M8[ns]")
    expected = pd.Series([1.0, 2.0, 4.0]).ewm(halflife="365D", times=far).mean()
    np.testing.assert_allclose(rf.ewm([1.0, 2.0, 4.0], halflife="365D", times=far), expected, rtol=1e-12)
    days = far.astype("M8[D]").astype(int)
    for duration, length in {"999999D": 999999, timedelta(days=10**8): 1e8, np.timedelta64(10**9, "W"): 7e9}.items():
        found = rf.ewm([1.0, 2.0, 4.0], halflife=duration, times=far)
        np.testing.assert_allclose(found, rf.ewm([1.0, 2.0, 4.0], halflife=length, times=days), rtol=1e-15)
    months = np.array(["2001-01", "2001-02", "2001-03"], "M8[M]")
    found = rf.ewm([1.0, 2.0, 4.0], halflife="7D", times=months)
    np.testing.assert_array_equal(found, rf.ewm([1.0, 2.0, 4.0], halflife=7, times=[0, 31, 59]))


def test_listed_instants_of_pandas_keep_their_nanoseconds():
    found = rf.ewm([1.0, 2.0], halflife="1ns", times=[pd.Timestamp(1), pd.Timestamp(2)])
    np.testing.assert_array_equal(found, rf.ewm([1.0, 2.0], halflife=1, times=[1, 2]))
    with pytest.raises(OptionError, match="NaT at index 1"):
        rf.ewm([1.0, 2.0], halflife="1D", times=[pd.Timestamp("2001"), pd.NaT])


def test_series_of_polars_that_hold_no_numbers_are_refused():
    pl = pytest.importorskip("polars")
    for given in (
        pl.Series(["a"]),
        pl.Series([[1.0]]),
        pl.Series([1], dtype=pl.Date),
        pl.Series([1], dtype=pl.Duration),
    ):
        with pytest.raises(DTypeError, match="real numbers"):
            rf.ewm(given, alpha=0.5)
    assert rf.ewm(pl.Series([None, True, False]), alpha=0.5).to_list()[1:] == [1.0, pytest.approx(1 / 3)]
    assert rf.ewm(pl.Series([None]), alpha=0.5).is_nan().all()


def test_tables_with_text_are_refused_by_the_name_of_its_column():
    with pytest.raises(DTypeError, match="'y'"):
        rf.ewm(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}), alpha=0.5)


def test_arguments_stay_as_they_are(rng):
    values = gappy(rng, 40, 0)
    kept = values.copy()
    for stat in ("mean", "sum", "var", "std"):
        for adjust in (True, stat == "sum"):
            assert not np.shares_memory(rf.ewm(values, span=3, stat=stat, adjust=adjust), values)
            np.testing.assert_array_equal(values, kept)


def test_labels_of_times_are_those_of_the_values():
    values = pd.Series([1.0, 2.0, 3.0], ["a", "b", "c"])
    times = pd.Series([0.0, 1.0, 3.0], values.index)
    expected = rf.ewm(values.to_numpy(), tau=2, times=times.to_numpy())
    np.testing.assert_array_equal(rf.ewm(values, tau=2, times=times), expected)
    with pytest.raises(ShapeError, match="labels of the Series beside it"):
        rf.ewm(values, tau=2, times=times[::-1])
    with pytest.raises(DTypeError, match=r"u must hold real numbers, got float64 in 'value', .* in 'name'"):
        rf.ewm(pd.DataFrame({"value": [1.0], "name": ["x"]}), tau=2)


def test_times_may_be_listed():
    moments = pd.date_range("2001-01-01", periods=3)
    expected = rf.ewm([1.0, 2.0, 4.0], tau="2D", times=moments)
    for zone in (None, "Asia/Tokyo"):
        listed = list(moments.tz_localize(zone))
        for times in (listed, tuple(moment.to_pydatetime() for moment in listed)):
            np.testing.assert_array_equal(rf.ewm([1.0, 2.0, 4.0], tau="2D", times=times), expected)


def on_threads(monkeypatch, threads, warm_up, forgotten=2.0**-100):
    monkeypatch.setattr(limits, "MOST_THREADS", threads)
    monkeypatch.setattr(weighted, "WORTH_THREADS", 20)
    monkeypatch.setattr(weighted, "WARM_UP", warm_up)
    monkeypatch.setattr(weighted, "FORGOTTEN", forgotten)


@pytest.mark.parametrize(("warm_up", "forgotten"), [(120, 2.0**-100), (3, 2.0)], ids=["good guesses", "bad guesses"])
@pytest.mark.parametrize("adjust", [True, False])
def test_any_number_of_threads_gives_the_same_bits(adjust, warm_up, forgotten, rng, monkeypatch):
    n = 500
    modes = [{}, {"times": rng.integers(1, 10, n).cumsum()}, {"ignore_na": True}, {"offsets": [0, 3, 3, 240, 245, n]}]
    modes.append(modes[1] | modes[3] | {"min_periods": 40})
    modes = [mode | {"halflife": halflife} for mode in modes for halflife in (0.5, 100)]
    for values in (gappy(rng, n, 0), gappy(rng, (n, 2), 0.2), gappy(rng, (n, 9), 0.1)):
        for mode, stat in product(modes, ("mean", "std") + (("sum",) if adjust else ())):
            options = mode | {"stat": stat, "adjust": adjust, "axis": 0}
            on_threads(monkeypatch, 1, 0)
            expected = rf.ewm(values, **options)
            for threads in (2, 5):
                on_threads(monkeypatch, threads, warm_up, forgotten)
                found = rf.ewm(values, **options)
                np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize(
    ("halflife", "offsets", "calls"),
    [(1, None, 5), (40, None, 1), (40, [0, 10, 700], 1), (40, [0, 345, 700], 2)],
    ids=["forgotten", "not forgotten", "groups elsewhere", "a group close by"],
)
def test_rows_are_read_twice_only_before_a_thread_starts(halflife, offsets, calls, rng, monkeypatch):
    rows = []
    monkeypatch.setattr(weighted, "_rows", lambda values, *_: rows.append(len(values)))
    on_threads(monkeypatch, 5 if halflife == 1 else 2, 120)
    rf.ewm(rng.random(700), halflife=halflife, offsets=offsets)
    assert sum(map(bool, rows)) == (calls if calls == 1 else 2 * calls - 1)
    assert sum(rows) == 700 + {5: 480, 1: 0, 2: 5}[calls]


def test_times_further_apart_than_float64_holds_warn_on_no_thread(monkeypatch):
    on_threads(monkeypatch, 2, 120)
    times = np.repeat([-1.7e308, 1.7e308], 350)
    times[:350] += 1e303 * np.arange(350)
    found = rf.ewm(np.repeat([3.0, 5.0], 350), halflife=1e300, times=times)
    np.testing.assert_array_equal(found, np.repeat([3.0, 5.0], 350))


def test_the_first_time_that_falls_is_named_on_any_thread(monkeypatch):
    on_threads(monkeypatch, 5, 120)
    times = np.arange(700)
    times[[10, 550]] = 0  # the second one lies before a thread of its own
    with pytest.raises(OptionError, match="got 0 after 9 at index 10"):
        rf.ewm(np.ones(700), halflife=1, times=times)


REFUSED = {
    "no decay": ({}, OptionError, "exactly one of halflife, tau, span, com and alpha must be given, got none"),
    "two decays": ({"alpha": 0.5, "tau": 3}, OptionError, "got tau and alpha"),
    "alpha": ({"alpha": 1.5}, OptionError, "alpha must be a number above 0 and at most 1, got 1.5"),
    "span": ({"span": 0.5}, OptionError, "span must be a number of at least 1"),
    "NaN": ({"com": np.nan}, OptionError, "com must be a number of at least 0"),
    "infinite": ({"tau": np.inf}, OptionError, "tau must be a number above 0"),
    "text": ({"halflife": "3D"}, OptionTypeError, "pass times="),
    "duration for numbers": ({"halflife": "1D", "times": [0, 1, 2]}, OptionTypeError, "times are numbers"),
    "boolean": ({"alpha": True}, OptionTypeError, "alpha must be a number"),
    "steps beside times": ({"span": 3, "times": [0, 1, 2]}, OptionError, "span counts steps"),
    "number for instants": ({"tau": 3, "times": pd.date_range("2001", periods=3)}, OptionTypeError, "duration"),
    "unit": ({"tau": "3 moons", "times": pd.date_range("2001", periods=3)}, OptionError, "unit of time"),
    "duration": ({"tau": "0D", "times": pd.date_range("2001", periods=3)}, OptionError, "above 0"),
    "falling": ({"tau": 3, "times": [0, 2, 1]}, OptionError, r"must not fall, got 1 after 2 at index 2"),
    "times' shape": ({"tau": 3, "times": [0, 1]}, ShapeError, "one list of 3"),
    "name of a column": ({"tau": 3, "times": "day"}, ShapeError, r"got 'day'; pass the column, as in table\['day'\]"),
    "no time": ({"tau": "1D", "times": np.array(["2001", "NaT", "2003"], "M8[D]")}, OptionError, "index 1"),
    "infinite time": ({"tau": 3, "times": [0, np.inf, 1]}, OptionError, "inf at index 1"),
    "times' type": ({"tau": 3, "times": ["a", "b", "c"]}, DTypeError, "numbers or instants"),
    "sum": ({"tau": 3, "stat": "sum", "adjust": False}, OptionError, "adjust=False has no sums"),
    "statistic": ({"tau": 3, "stat": "median"}, OptionError, "'mean', 'sum', 'var', 'std'"),
    "window": ({"tau": 3, "stat": "var", "window": "jagged:4"}, OptionError, "means and sums"),
    "window of the recursion": ({"tau": 3, "adjust": False, "window": "jagged:4"}, OptionError, "adjust=True"),
    "offsets": ({"tau": 3, "offsets": [0, 5]}, ShapeError, "end with 3"),
    "periods": ({"tau": 3, "min_periods": -1}, OptionError, "at least 0"),
    "axis": ({"tau": 3, "axis": 1}, ShapeError, "axis"),
    "months": ({"tau": np.timedelta64(1, "M"), "times": pd.date_range("2001", periods=3)}, OptionError, "so many days"),
    "no unit": ({"tau": "1D", "times": np.arange(3).view("M8")}, DTypeError, "numbers or instants"),
    "masked complex": ({"tau": 3, "u": np.ma.array([1j])}, DTypeError, "real numbers"),
    "complex series": ({"tau": 3, "u": pd.Series([1j, 2j, 3j])}, DTypeError, "real numbers"),
    "instants": ({"tau": 3, "u": pd.Series(pd.date_range("2001", periods=3))}, DTypeError, "real numbers"),
    "complex": ({"tau": 3, "u": [1j]}, DTypeError, "real numbers"),
    "objects": ({"tau": 3, "u": [Fraction(1, 3)]}, DTypeError, "real numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    options, kind, message = REFUSED[name]
    options = {"u": [1.0, 2.0, 3.0], **options}
    with pytest.raises(kind, match=message):
        rf.ewm(options.pop("u"), **options)


def test_arrays_on_a_gpu_are_refused():
    class OnGPU:
        __cuda_array_interface__ = {}  # noqa: RUF012

    with pytest.raises(ArrayTypeError, match="on the host"):
        rf.ewm(OnGPU(), alpha=0.5)


@pytest.mark.parametrize("dtype", ["m8[s]", "m8[ns]", ">m8[us]"])
def test_elapsed_times_are_instants_from_any_start(dtype):
    days = np.array([0, 1, 3, 10])
    elapsed = (days * np.timedelta64(1, "D")).astype(dtype)
    expected = rf.ewm([1.0, 2.0, 4.0, 3.0], halflife=2.0, times=days)
    for times in (elapsed, pd.TimedeltaIndex(elapsed)):
        assert np.array_equal(rf.ewm([1.0, 2.0, 4.0, 3.0], halflife="2D", times=times), expected)
    elapsed[2] = "NaT"
    with pytest.raises(ValueError, match="times must all be known, got NaT at index 2"):
        rf.ewm([1.0, 2.0, 4.0, 3.0], halflife="2D", times=elapsed)
