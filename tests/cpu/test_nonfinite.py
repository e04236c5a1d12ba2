"""NaN, infinities and overflowing products: where the plain loop puts them, and nowhere else."""

import numpy as np
import pytest

import recfact as rf
from recfact.recurrence import backward, forward, windowed

WINDOWS = [
    rf.Full(),
    rf.Jagged(4),
    rf.Jagged(16),
    rf.Jagged(64),
    rf.Jagged(100),
    rf.Jagged(64, 2),
    rf.Jagged(256),
    rf.Uniform(3),
    rf.Uniform(4),
    rf.Uniform(32),
    rf.Uniform(100),
    rf.Uniform(256),
]


def plain(a, u, window, reverse):
    with np.errstate(all="ignore"):
        if window == rf.Full():
            return backward(a, u) if reverse else forward(a, u)
        return windowed(a, u, window, reverse=reverse)


def same_kind(x, expected):
    """Return where both are finite, both NaN, or the same infinity."""
    finite = np.isfinite(expected)
    return np.where(finite, np.isfinite(x), (np.isnan(expected) & np.isnan(x)) | (x == expected))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_numbers_stay_in_their_place(rng, window, reverse, dtype):
    for _ in range(6):
        n = int(rng.integers(1, 700))
        a, u = rng.uniform(-1, 1, n).astype(dtype), rng.standard_normal(n).astype(dtype)
        for array in (a, u):
            k = int(rng.integers(0, 4))
            array[rng.integers(0, n, k)] = rng.choice([np.inf, -np.inf, np.nan, 0.0], k)
        expected = plain(a, u, window, reverse)
        assert same_kind(rf.solve(a, u, window=window, reverse=reverse), expected).all()
        assert same_kind(rf.solve(a, u, window=window, reverse=reverse, out=u), expected).all()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_products_that_overflow_leave_finite_states_alone(window, reverse):
    a, u = np.full(600, 1e30, np.float32), np.zeros(600, np.float32)
    u[[100, 500, 501, 599]] = 1e-30
    expected = plain(a, u, window, reverse)
    assert (expected == 1).any()
    np.testing.assert_array_equal(rf.solve(a, u, window=window, reverse=reverse), expected)


def test_the_first_coefficient_is_not_read_without_an_initial_state():
    a, u = np.full(700, 0.5), np.ones(700)
    for window in WINDOWS:
        clean = rf.solve(a, u, window=window)
        for special in (np.nan, np.inf):
            spoiled = a.copy()
            spoiled[0] = special
            np.testing.assert_allclose(rf.solve(spoiled, u, window=window), clean, rtol=1e-15)
