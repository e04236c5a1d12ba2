"""Forms of the recurrence that the docs write down for `solve`."""

import mpmath
import numpy as np
import pytest

import recfact as rf
from recfact.recurrence import forward


def logarithms(dtype):
    """Return logarithms of coefficients from next to 1 down to next to the subnormal numbers."""
    rng = np.random.default_rng(0)
    lowest = np.log(float(np.finfo(dtype).smallest_normal)) + 1
    return np.concatenate([-np.exp(rng.uniform(-30, np.log(-lowest), 1500)), rng.uniform(lowest, 1, 1500)]).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_exponential_is_wrong_by_less_than_four_units_in_the_last_place(dtype):
    logs = logarithms(dtype)
    with mpmath.workprec(100):
        for log, a in zip(logs, np.exp(logs), strict=True):
            assert abs(mpmath.mpf(float(a)) / mpmath.exp(mpmath.mpf(float(log))) - 1) < 4 * float(np.finfo(dtype).eps)
    assert np.exp(dtype(-np.inf)) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_of_logarithms_keep_to_the_bound(dtype, rng):
    """N(i, j) = 9 (i - j) + 7: eight for the exponential and one for the step, and seven of the engine."""
    n, unit = 120, float(np.finfo(dtype).eps) / 2
    log_a = (-rng.exponential(0.3, n)).astype(dtype)
    log_a[50] = -np.inf
    u = rng.standard_normal(n).astype(dtype)
    x = rf.solve(np.exp(log_a), u)
    with mpmath.workprec(120):
        a = np.array([mpmath.exp(mpmath.mpf(float(log))) for log in log_a], object)
        exact = forward(a, np.array([mpmath.mpf(float(value)) for value in u], object))
        terms = np.array([], object)
        for i in range(n):
            terms = np.append(terms * a[i], abs(mpmath.mpf(float(u[i]))))
            count = 9 * (i - np.arange(i + 1)) + 7
            assert abs(mpmath.mpf(float(x[i])) - exact[i]) <= (terms * count * unit / (1 - count * unit)).sum()
    np.testing.assert_array_equal(x[50], u[50])


def test_a_flip_runs_from_the_end_with_a_value_beyond_it(rng):
    a, u, beyond = rng.integers(-2, 3, (3, 9, 2)) / 2
    x = rf.solve(np.flip(a, 0), np.flip(u, 0), x0=beyond[0], axis=0)[::-1]
    state = beyond[0]
    for i in range(8, -1, -1):
        state = a[i] * state + u[i]
        np.testing.assert_array_equal(x[i], state)
    moved, last = np.concatenate([np.zeros((1, 2)), a[:-1]]), u.copy()
    last[-1] += a[-1] * beyond[0]
    np.testing.assert_array_equal(rf.solve(moved, last, axis=0, reverse=True), x)
