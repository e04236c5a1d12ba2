"""How far back an input matters, against the literal products in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recfact.precision.effective_horizons import effective_horizon, row_growth


def lags(a, eps):
    return effective_horizon(a, eps).lags


def exact_rows(a):
    """Return |L[i, i - d]| for d = 0 .. i of every row, as fractions."""
    rows = []
    for i in range(len(a)):
        row = [Fraction(1)]
        for j in range(i, 0, -1):
            row.append(row[-1] * abs(Fraction(float(a[j]))))
        rows.append(row)
    return rows


# Products of up to 33 of these are exact in float64 (3^33 < 2^53): ties with a power of two are decided, not rounded.
dyadic = st.sampled_from([0.0, 0.5, -0.5, 0.25, 1.0, -1.0, 2.0, 1.5, 0.75, 4.0])


@given(arrays(np.float64, st.integers(1, 30), elements=dyadic), st.sampled_from([1.0, 0.5, 0.25, 2.0**-10]))
def test_horizon_is_the_last_lag_that_counts(a, threshold):
    expected = [max(d for d, entry in enumerate(row) if entry >= threshold) for row in exact_rows(a)]
    assert lags(a, threshold).tolist() == expected


@given(arrays(np.float64, st.integers(1, 30), elements=dyadic))
def test_growth_is_the_largest_entry_of_a_row(a):
    assert row_growth(a).tolist() == [float(max(row)) for row in exact_rows(a)]


def test_general_coefficients(rng):
    for spread in (0.3, 1.0, 1.4):
        a = rng.uniform(-spread, spread, 200)
        expected = [max(d for d, entry in enumerate(row) if entry >= 2.0**-23) for row in exact_rows(a)]
        assert lags(a, 2.0**-23).tolist() == expected


def test_the_horizon_of_one_half_is_its_closed_form():
    """H_pt(rho, eps) = max{k: rho^k >= eps}, with equality at powers of one half."""
    a = np.full(100, 0.5)
    assert lags(a, 2.0**-52).max() == 52
    assert lags(a, np.nextafter(2.0**-52, 1)).max() == 51


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.complex128])
def test_other_number_types(dtype):
    a = np.full(40, 0.5).astype(dtype)
    assert lags(a, 2.0**-10).max() == 10


def test_short_and_unread():
    assert lags(np.zeros(0), 0.5).tolist() == []
    assert lags(np.array([np.nan]), 0.5).tolist() == [0]  # a[0] isn't part of L
    assert row_growth(np.array([np.nan])).tolist() == [1.0]


def test_nothing_is_forgotten_where_all_is_kept():
    assert lags(np.ones(1000), 2.0**-52).tolist() == list(range(1000))
    assert lags(np.full(1000, 1.5), 2.0**-52).tolist() == list(range(1000))
