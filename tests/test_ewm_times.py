"""The times of averages: numbers, instants and elapsed times, in arrays and lists of every kind."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

import recfact as rf
from recfact.errors import OptionError


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


def test_times_may_be_listed():
    moments = pd.date_range("2001-01-01", periods=3)
    expected = rf.ewm([1.0, 2.0, 4.0], tau="2D", times=moments)
    for zone in (None, "Asia/Tokyo"):
        listed = list(moments.tz_localize(zone))
        for times in (listed, tuple(moment.to_pydatetime() for moment in listed)):
            np.testing.assert_array_equal(rf.ewm([1.0, 2.0, 4.0], tau="2D", times=times), expected)


def test_listed_instants_of_pandas_keep_their_nanoseconds():
    found = rf.ewm([1.0, 2.0], halflife="1ns", times=[pd.Timestamp(1), pd.Timestamp(2)])
    np.testing.assert_array_equal(found, rf.ewm([1.0, 2.0], halflife=1, times=[1, 2]))
    with pytest.raises(OptionError, match="NaT at index 1"):
        rf.ewm([1.0, 2.0], halflife="1D", times=[pd.Timestamp("2001"), pd.NaT])
