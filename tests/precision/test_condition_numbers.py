"""Condition numbers, against matrices of Fractions, changes that attain them, and forward errors."""

from fractions import Fraction

import numpy as np
import pytest
from oracle import definition

import recfact as rf
from recfact.errors import DTypeError, ShapeError
from recfact.precision import exact
from recfact.precision.conditioning import backward_error, condition
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.run import rounded_solve


def fractions(rng, n):
    return np.array([Fraction(int(k), 8) for k in rng.integers(-9, 10, n)] + [None], dtype=object)[:-1]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_is_what_the_matrices_say(n, rng):
    a, u = fractions(rng, n), fractions(rng, n)
    c = condition(a, u)
    inverse = np.array([[Fraction(0)] * n] * n, dtype=object)
    for i in range(n):
        inverse[i, i] = Fraction(1)
        if i:
            inverse[i, i - 1] = -a[i]
    matrix = np.array([definition(a, np.array([Fraction(i == j) for i in range(n)], dtype=object)) for j in range(n)]).T
    x = matrix @ u
    changes = np.abs(matrix) @ (np.abs(inverse - np.eye(n, dtype=int)) @ np.abs(x) + np.abs(u))
    assert c.normwise == max(np.abs(matrix).sum(axis=1)) * max(np.abs(inverse).sum(axis=1))
    assert c.skeel == max((np.abs(matrix) @ np.abs(inverse)).sum(axis=1))
    assert c.mixed == (max(changes) / max(np.abs(x)) if any(x) else 0)
    expected = [e / abs(s) if s else (np.inf if e else 0) for e, s in zip(changes, x, strict=True)]
    assert c.componentwise.tolist() == expected
    floats = condition(a.astype(float), u.astype(float))
    # Everything is a multiple of 8^-(n + 1), at most 10^10 of them, which float64 holds; only quotients round, once.
    assert floats.componentwise.tolist() == [float(value) for value in expected]
    assert (floats.normwise, floats.skeel, floats.mixed) == (float(c.normwise), float(c.skeel), float(c.mixed))


def test_the_changes_are_attained(rng):
    n, small = 8, Fraction(1, 10**12)
    a, u = fractions(rng, n), fractions(rng, n)
    x, c = exact.solve(a, u), condition(a, u)
    products = np.array([np.prod(a[k + 1 :]) for k in range(n)], dtype=object)  # dx[-1] / dx[k]

    def sign(value):
        return (value > 0) - (value < 0)

    before = [0, *x[:-1]]
    da = [small * abs(a[k]) * sign(products[k] * before[k]) for k in range(n)]
    du = [small * abs(u[k]) * sign(products[k]) for k in range(n)]
    change = exact.solve(a + np.array(da, dtype=object), u + np.array(du, dtype=object))[-1] - x[-1]
    # A product of m changed factors changes by about m small, up to a factor (1 +- small)^(m - 1).
    largest = c.componentwise[-1]
    assert largest * (1 - small) ** n <= abs(change / small / x[-1]) <= largest * (1 + small) ** n


def test_a_constant_coefficient():
    # Of positive numbers: near (1 + rho^2 + ...) (rho x + 1) / x = 1 / (1 - rho).
    n = 2000  # 0.9^2000 is nothing
    c = condition(np.full(n, 0.9), np.ones(n))
    slack = 6 * n * 2.0**-53
    assert c.componentwise[-1] == pytest.approx(10, rel=slack)
    assert c.normwise == pytest.approx(19, rel=slack)
    assert c.skeel == pytest.approx(19, rel=slack)


def test_bounds_forward_errors_together_with_backward_errors(rng):
    fmt = FORMATS["binary16"]
    a, u = fmt.round(rng.uniform(-1, 1, (2, 60)))
    x = rounded_solve(a, u, fmt)
    reference = exact.solve(a, u)
    c = condition(a, u)
    e = backward_error(a, u, x).largest
    errors = np.array(
        [float(abs((Fraction(p) - Fraction(q)) / Fraction(q))) for p, q in zip(x, reference, strict=True)]
    )
    # To first order in e; its square times the growth of products below 1 is next to nothing here.
    assert np.all(errors <= c.componentwise * e * (1 + 60 * e))


def test_zero_states():
    c = condition([0.5, 0.5, 0.0], [1.0, -0.5, 0.0])
    assert c.componentwise.tolist() == [1, np.inf, 0]
    assert condition(np.zeros(3), np.zeros(3)).mixed == 0


def test_initial_state_and_channels():
    c = condition(np.full((3, 1), 0.5), np.zeros((3, 2)), x0=[1.0, 0.0], axis=0)
    assert c.componentwise.tolist() == [[1, 0], [2, 0], [3, 0]]
    assert c.mixed.tolist() == [1, 0]
    assert c.normwise.shape == (2,)
    operator = rf.TransferOperator(np.full(3, 0.5))
    assert c.normwise[0] == operator.cond(np.inf)


def test_shortest():
    c = condition(np.ones(0), np.ones(0))
    assert (c.mixed, c.skeel, c.componentwise.shape) == (0, 0, (0,))


def test_what_it_refuses():
    with pytest.raises(DTypeError, match="need real coefficients"):
        condition([1j], [1.0])
    with pytest.raises(ShapeError, match="x0 must broadcast"):
        condition([1.0, 2.0], [1.0, 2.0], x0=[1.0, 2.0])


def test_one_sequence_has_plain_numbers():
    numbers = condition([0.5] * 4, [1.0] * 4)
    assert {type(number) for number in (numbers.normwise, numbers.skeel, numbers.mixed)} == {float}


def test_long_condition_numbers_are_shown_short():
    huge = condition(np.full(3, Fraction(10**5000 + 1, 10**10)), np.full(3, Fraction(1)))
    assert repr(huge).startswith("Condition(normwise=1.0000e+14970, skeel=")
    assert repr(condition(np.full(2, Fraction(1, 2)), np.full(2, Fraction(1)))) == (
        "Condition(normwise=Fraction(9, 4), skeel=Fraction(2, 1), mixed=Fraction(4, 3), "
        "componentwise=array([Fraction(1, 1), Fraction(4, 3)], dtype=object))"
    )
