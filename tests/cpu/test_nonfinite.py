"""NaN, infinities and overflowing products: where the plain loop puts them, and nowhere else."""

import numpy as np
import pytest
from fused import parts
from noted import in_turn
from oracle import definition

import recfact as rf

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
    rf.Uniform(300),
]


def plain(a, u, window, reverse, x0=None):
    with np.errstate(all="ignore"):
        return definition(a, u, window, x0, reverse)


def same_kind(x, expected):
    """Return where both are finite, both NaN, or the same infinity."""
    finite = np.isfinite(expected)
    return np.where(finite, np.isfinite(x), (np.isnan(expected) & np.isnan(x)) | (x == expected))


def draw(n, dtype, rng):
    """Return the parts of n coefficients and of as many inputs, with some special numbers among them."""
    kind = parts(np.zeros(0, dtype)).dtype
    count = n * np.dtype(dtype).itemsize // kind.itemsize
    for values in (rng.uniform(-0.7, 0.7, count), rng.standard_normal(count)):
        k = int(rng.integers(0, 4))
        places = rng.integers(0, count, k)
        values[places] = rng.choice([np.inf, -np.inf, np.nan, 0.0], k)
        if count > n and rng.random() < 0.5:  # in both parts
            values[places ^ 1] = values[places]
        yield values.astype(kind)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("reverse", [False, True])
@in_turn("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_special_numbers_stay_in_their_place(rng, window, reverse, dtype):
    for _ in range(6):
        n = int(rng.integers(1, 700))
        a, u = (values.view(dtype) for values in draw(n, dtype, rng))
        expected = parts(plain(a, u, window, reverse))
        assert same_kind(parts(rf.solve(a, u, window=window, reverse=reverse)), expected).all()
        assert same_kind(parts(rf.solve(a, u, window=window, reverse=reverse, out=u)), expected).all()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("x0", [np.inf, complex(0.5, np.inf), complex(np.nan, 0.5)])
@in_turn("growth", [0.5, 0.0, 1.0, 4.0])
def test_an_initial_state_that_isnt_finite(window, x0, growth):
    """To the end of its part in states; infinities of complex numbers are no more than one step away from NaN."""
    for dtype in (np.complex64, np.complex128) if isinstance(x0, complex) else (np.float32, np.complex64):
        a, u = np.full(600, growth, dtype), np.ones(600, dtype)
        expected = parts(plain(a, u, window, False, np.array(x0, dtype)))
        assert same_kind(parts(rf.solve(a, u, x0=np.array(x0, dtype), window=window)), expected).all()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("reverse", [False, True])
@in_turn("dtype", [np.float32, np.complex64])
def test_products_that_overflow_leave_finite_states_alone(window, reverse, dtype):
    a, u = np.full(600, 1e30, dtype), np.zeros(600, dtype)
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
