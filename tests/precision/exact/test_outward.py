"""Rounding outward, against Fractions."""

from fractions import Fraction
from math import inf, isinf, nextafter

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recfact.errors import OptionError
from recfact.precision.exact.outward import Upward, enclose_value, outward, round_up

REALS = st.one_of(
    st.builds(Upward, st.integers(0, 2**140), st.integers(-1300, 1100)),
    st.fractions(min_value=0).map(Upward.of),
)


def fraction(x):
    return Fraction(x.significand) * Fraction(2) ** x.exponent


def above(result, exact):
    """Check that a result is at least the exact value and larger by two units of its last place at most."""
    assert exact <= fraction(result) <= exact * (1 + Fraction(1, 2**126))


@given(REALS, REALS)
def test_upward_results_are_next_above_the_exact_ones(x, y):
    p, q = fraction(x), fraction(y)
    above(x + y, p + q)
    above(x * y, p * q)
    above(x**2, p * p)
    assert (x < y, x <= y, x > y, x >= y, x == y) == (p < q, p <= q, p > q, p >= q, p == q)
    if y.significand:
        above(y.reciprocal(), 1 / q)
    quotient = x.over_complement(y)
    assert (quotient is None) == (q >= 1)
    if quotient is not None:
        above(quotient, p / (1 - q))
    root = fraction(x**0.5)
    assert p <= root**2 <= p * (1 + Fraction(1, 2**124))


@given(REALS)
def test_floats_are_the_next_above(x):
    value, above_ = fraction(x), float(x)
    assert isinf(above_) or Fraction(above_) >= value
    if above_ > 0:
        assert Fraction(nextafter(above_, 0)) < value


@given(st.integers(0, 2**3000), st.integers(-2000, 4000))
def test_numbers_lie_between_their_floats(number, scale):
    (low,), (high,) = outward([number], scale, -1), outward([number], scale, 1)
    value = Fraction(number) / Fraction(2) ** scale
    assert Fraction(float(low)) <= value
    assert isinf(high) or value <= Fraction(float(high))
    assert high in (low, nextafter(low, inf))


def test_reals_of_all_kinds():
    assert round_up(Fraction(1, 3)) == nextafter(1 / 3, 1)
    assert round_up(0.1) == 0.1
    assert round_up(mpmath.mpf(-2)) == 2.0
    assert round_up(Fraction(1, 10**400)) == 5e-324
    assert round_up(10**400) == inf
    for value in (inf, float("nan")):
        with pytest.raises(OptionError, match="finite"):
            Upward.of(value)
    with pytest.raises(OptionError, match="power"):
        Upward(2) ** 3


def test_values_are_enclosed_without_touching_a_context():
    before = mpmath.mp.prec, mpmath.iv.prec
    geometric = enclose_value(lambda _, x, y: (1 - x**1000) / y, Fraction(9, 10), Fraction(1, 10))
    assert geometric == (nextafter(10, 0), 10.0)
    assert enclose_value(lambda _, x: x**5, Fraction(1, 2)) == (1 / 32, 1 / 32)
    assert enclose_value(lambda _, x: x - x, Fraction(1, 3)) == (0.0, 5e-324)
    assert enclose_value(lambda context, x: context.exp(x), 5000) == (np.finfo(float).max, inf)
    root = enclose_value(lambda context, x: context.sqrt(x), 2)
    assert Fraction(root[0]) ** 2 < 2 < Fraction(root[1]) ** 2
    assert (mpmath.mp.prec, mpmath.iv.prec) == before


def test_a_cancelling_difference_takes_more_digits():
    tiny = Fraction(1, 2**500)
    low, high = enclose_value(lambda _, x: 1 - x**3, 1 - tiny)
    assert Fraction(low) <= 3 * tiny - 3 * tiny**2 + tiny**3 <= Fraction(high)
    assert high == nextafter(low, 1)
