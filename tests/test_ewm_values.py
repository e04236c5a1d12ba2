"""Values that averages find hard: gaps, equal ones, tiny and huge ones, none, and those of every number type."""

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from gaps import gappy

import recfact as rf

pytestmark = pytest.mark.usefixtures("pieces")


def test_no_time_passes_in_a_window_at_missing_values():
    values = np.array([8.0, np.nan, 4.0, 0.0])
    for stat, expected in {"sum": [8.0, 8.0, 8.0, 2.0], "mean": [8.0, 8.0, 16 / 3, 4 / 3]}.items():
        found = rf.ewm(values, alpha=0.5, ignore_na=True, window=rf.Uniform(3), stat=stat)
        np.testing.assert_allclose(found, expected)


def test_what_a_window_does_not_show_does_not_count():
    values = np.array([1.0, np.nan, np.nan, np.nan, 5.0])
    found = rf.ewm(values, alpha=0.5, window=rf.Uniform(2))
    np.testing.assert_array_equal(found, [1.0, 1.0, np.nan, np.nan, 5.0])


def test_a_gap_of_any_length_keeps_the_mean():
    values = np.full(5000, np.nan)
    values[[0, 1, -1]] = 1.0, 3.0, 9.0
    found = rf.ewm(values, alpha=0.9)
    assert (found[1:-1] == found[1]).all()
    assert found[-1] == 9.0
    pd.testing.assert_series_equal(pd.Series(found), pd.Series(values).ewm(alpha=0.9).mean())


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


def test_small_losses_keep_their_digits():
    """A weight that is 1 up to rounding: what is lost is what counts."""
    found = rf.ewm([0.0, 1.0], halflife=1e12, times=[0.0, 1e-6], adjust=False)
    assert found[1] == pytest.approx(np.log(2) * 1e-18, rel=1e-12)


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


def test_nothing_is_something():
    assert rf.ewm([], alpha=0.5).shape == (0,)
    assert rf.ewm(np.empty((0, 3)), alpha=0.5, axis=0, stat="var").shape == (0, 3)
    assert rf.ewm(np.empty((3, 0)), alpha=0.5, axis=0).shape == (3, 0)
    assert rf.ewm(np.empty(0), alpha=0.5, offsets=[0, 0]).shape == (0,)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", ">f8"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_and_number_type(dtype, axis, rng):
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    values = gappy(rng, (4, 5, 6), 0.2).astype(kind)
    found = rf.ewm(values, com=2, axis=axis, stat="var")
    assert (found.shape, found.dtype) == (values.shape, kind.newbyteorder("="))
    one = np.moveaxis(found, axis, 0)[:, 1, 2].astype(float)
    wide = pd.Series(np.moveaxis(values, axis, 0)[:, 1, 2].astype(float)).ewm(com=2).var()
    np.testing.assert_allclose(one, wide, rtol={"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-3}.get(dtype, 1e-9))


def test_arguments_stay_as_they_are(rng):
    values = gappy(rng, 40, 0)
    kept = values.copy()
    for stat in ("mean", "sum", "var", "std"):
        for adjust in (True, stat == "sum"):
            assert not np.shares_memory(rf.ewm(values, span=3, stat=stat, adjust=adjust), values)
            np.testing.assert_array_equal(values, kept)
