"""Proved losses of windows against their definition, in fractions."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from recfact import Jagged, Uniform
from recfact.precision.truncation.window_losses import WindowLosses

WINDOWS = [Uniform(1), Uniform(2), Uniform(5), Uniform(16), Jagged(1), Jagged(3), Jagged(4, 0), Jagged(7, 2), Jagged(6)]


def loss(a, window, relative_to):
    """Return the largest product of what a row's window sees, times what the state before it can be at most."""
    a = [abs(Fraction(each)) for each in a]
    states, largest = [], Fraction(0)
    for factor in a:
        states.append((factor * states[-1] if states else 0) + 1)
    for i in range(len(a)):
        if isinstance(window, Uniform):
            first = i - window.lags + 1
        else:
            first = (i // window.block - window.terms) * window.block
        if first > 0:
            weight = math.prod(a[first : i + 1], start=Fraction(1))
            largest = max(largest, weight * (states[first - 1] if relative_to == "input" else 1))
    return largest


def families(rng):
    yield rng.uniform(-1, 1, 33)
    yield rng.uniform(0.5, 1.7, 33)  # grows
    yield np.where(rng.uniform(size=33) < 0.2, 0, rng.uniform(0.9, 1.3, 33))
    yield np.full(33, 0.5)
    yield np.full(33, 1e-80)  # products beyond float64
    yield np.full(33, 1e80)
    yield np.repeat(rng.uniform(0.5, 1, 5), 7)
    yield np.tile(rng.uniform(0.5, 1, 3), 11)
    yield rng.uniform(0, 1, 33).astype(np.float32)
    yield rng.uniform(0, 1, 33).astype(ml_dtypes.bfloat16).astype(np.float64)
    yield np.array([Fraction(int(k), 7) for k in rng.integers(-8, 8, 33)], dtype=object)
    yield np.zeros(5)
    yield np.ones(1)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("relative_to", ["state", "input"])
def test_bounds_are_above_the_truth_and_close(window, relative_to, rng):
    for a in families(rng):
        exact = loss(a.tolist(), window, relative_to)
        bound = WindowLosses(a, relative_to).bound(window)
        assert exact <= bound
        if exact > Fraction(np.finfo(float).tiny) and bound < np.inf:
            # One rounding up by 2^-52 for each coefficient, factor and product, and two for each state.
            assert bound <= exact * (1 + Fraction(2) ** -52) ** (4 * len(a))
        if not exact:
            assert bound == 0


def test_products_of_powers_of_two_are_exact():
    a = np.full(40, 0.5)
    for window, expected in ((Uniform(9), 2.0**-9), (Jagged(4), 2.0**-5), (Jagged(5, 3), 2.0**-16)):
        assert WindowLosses(a, "state").bound(window) == expected


def test_what_leaves_the_range_of_float64():
    assert WindowLosses(np.full(200, 1e10), "input").bound(Uniform(199)) == np.inf
    assert WindowLosses(np.full(200, 1e10), "state").bound(Uniform(199)) == np.inf
    assert WindowLosses(np.full(200, 1e-10), "state").bound(Uniform(199)) == np.finfo(float).smallest_subnormal


def test_products_of_a_few_bits_do_not_tell_which_state_loses_most():
    """In 40 steps of this seed, the largest float is not that of the largest product."""
    rng = np.random.default_rng(2909)
    a = np.where(np.arange(40) % 5 < 2, 10.0 ** rng.uniform(-161.5, -160.5, 40), rng.uniform(0.6, 1, 40))
    assert loss(a.tolist(), Uniform(5), "state") <= WindowLosses(a, "state").bound(Uniform(5))
