"""Coefficients of 0: numbers don't pass them, NaN and infinities do, everywhere as in the loop."""

import numpy as np
import pytest
from noted import in_turn

import recfact as rf
from recfact.recurrence import forward

N = 300


def loop(a, u, x0):
    """Return the states step by step, in the arithmetic of NumPy's scalars."""
    x, states = x0, []
    for i in range(len(u)):
        x = u[i] if x is None else a[i] * x + u[i]
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@in_turn("bad", [np.nan, np.inf, -np.inf])
@in_turn("place", [None, 0, 100, 127, 128, 299])
def test_what_passes_a_reset(dtype, bad, place):
    # Halves add and multiply exactly here, so that the loop's order of roundings is no matter.
    a, u = np.zeros(N, dtype), np.ones(N, dtype)
    a[1::3] = 0.5
    x0 = dtype(bad) if place is None else None
    if place is not None:
        u[place] = bad
    with np.errstate(all="ignore"):
        expected = loop(a, u, x0)
        assert np.isnan(expected[(place or 0) + 3 :]).all()  # resets let it through, for good
        for threads in (1, 3):
            np.testing.assert_array_equal(rf.solve(a, u, x0=x0, threads=threads), expected)
        wide = np.stack([a, a], axis=1), np.stack([u, np.ones_like(u)], axis=1)
        both = rf.solve(*wide, x0=x0 if x0 is None else np.array([x0, 0], dtype), axis=0)
        np.testing.assert_array_equal(both[:, 0], expected)
        assert np.isfinite(both[:, 1]).all()
        if place is not None:
            np.testing.assert_array_equal(rf.TransferOperator(a) @ u, expected)
            exact = forward(*(values.astype(object) for values in (a, u)))
            np.testing.assert_array_equal(exact.astype(float), expected)


def test_numbers_do_not():
    a, u = np.full(N, 0.5), np.zeros(N)
    a[150], u[149] = 0.0, 1e300
    x = rf.solve(a, u)
    assert x[149] == 1e300
    assert not x[150:].any()
