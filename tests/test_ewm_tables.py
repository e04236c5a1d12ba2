"""Averages of tables: their labels, their missing values, and columns that hold no numbers."""

import numpy as np
import pandas as pd
import pytest

import recfact as rf
from recfact.errors import DTypeError, ShapeError


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


def test_labels_of_times_are_those_of_the_values():
    values = pd.Series([1.0, 2.0, 3.0], ["a", "b", "c"])
    times = pd.Series([0.0, 1.0, 3.0], values.index)
    expected = rf.ewm(values.to_numpy(), tau=2, times=times.to_numpy())
    np.testing.assert_array_equal(rf.ewm(values, tau=2, times=times), expected)
    with pytest.raises(ShapeError, match="labels of the Series beside it"):
        rf.ewm(values, tau=2, times=times[::-1])
    with pytest.raises(DTypeError, match=r"u must hold real numbers, got float64 in 'value', .* in 'name'"):
        rf.ewm(pd.DataFrame({"value": [1.0], "name": ["x"]}), tau=2)


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


@pytest.mark.parametrize(
    "given",
    [
        [1, 2, None],
        [None, 1.5, None, 4],
        [None, None],
        [True, None, False],
        [3, None, np.nan, np.float64(0.25)],
        np.array([1, None, 3], dtype=object),
    ],
    ids=str,
)
@pytest.mark.parametrize("stat", ["mean", "std"])
def test_none_is_missing_in_lists_as_in_pandas(given, stat):
    expected = getattr(pd.Series(given, dtype=float).ewm(halflife=1), stat)()
    found = rf.ewm(given, halflife=1, stat=stat)
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected.to_numpy(), rtol=1e-12)
    with_na = [pd.NA if value is None else value for value in given]
    np.testing.assert_array_equal(rf.ewm(with_na, halflife=1, stat=stat), found)


def test_none_is_missing_in_nested_lists_and_keeps_the_number_type():
    table = [[1, None, 3], [None, 5, 6]]
    np.testing.assert_array_equal(rf.ewm(table, alpha=0.4), rf.ewm(np.array(table, dtype=float), alpha=0.4))
    single = [np.float32(1.5), None, np.float32(4)]
    assert rf.ewm(single, alpha=0.4).dtype == np.float32


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
