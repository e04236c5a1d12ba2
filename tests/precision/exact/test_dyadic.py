"""Dyadic against Fraction."""

import math
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from recfact.errors import DTypeError, OptionError
from recfact.precision.exact.dyadic import MAX_SHIFT, Dyadic
from recfact.precision.exact.solving import solve

NUMBERS = st.builds(Dyadic, st.integers(-(2**200), 2**200), st.integers(-2300, 1200))


def fraction(x):
    return Fraction(x.significand) * Fraction(2) ** x.exponent


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_prints_as_a_number_that_reads_back(x):
    text = str(Dyadic.of(x)).replace("^", "**")
    assert eval(text) == x


def test_a_number_of_many_digits_prints_rounded_or_as_what_makes_it():
    assert str(Dyadic(12345678901234567890, -20)) == "1.177375689e+13"
    assert str(Dyadic(-3, 10**6)) == repr(Dyadic(-3, 10**6)) == "Dyadic(-3, 1000000)"


@given(NUMBERS, NUMBERS)
def test_operations_and_comparisons_are_those_of_fractions(x, y):
    p, q = fraction(x), fraction(y)
    assert (fraction(x + y), fraction(x - y), fraction(x * y)) == (p + q, p - q, p * q)
    assert (x == y, x < y, x <= y, x > y, x >= y) == (p == q, p < q, p <= q, p > q, p >= q)
    assert (x + q, q + x, x * q, q * x, x - q, q - x) == (p + q, q + p, p * q, q * p, p - q, q - p)
    assert x == p
    assert p == x
    assert hash(x) == hash(p)
    assert (-x, abs(x), bool(x), Fraction(x)) == (-p, abs(p), bool(p), p)
    if y:
        assert x / y == p / q


@given(NUMBERS)
def test_float_is_the_nearest_one(x):
    try:
        nearest = float(fraction(x))
    except OverflowError:
        nearest = math.copysign(math.inf, 1 if x.significand > 0 else -1)
    assert float(x) == nearest


@given(st.integers(2**52, 2**54), st.integers(-1130, -1020))
def test_float_rounds_subnormal_numbers_once(m, e):
    assert float(Dyadic(m, e)) == m / 2**-e


def test_numbers_of_all_kinds_are_taken_as_they_are():
    context = mpmath.MPContext()
    context.prec = 300
    third = context.mpf(1) / 3
    same = {
        Dyadic(3, -2): (0.75, np.float32(0.75), np.float16(0.75), ml_dtypes.bfloat16(0.75), np.longdouble(0.75)),
        Dyadic(-3): (-3, np.int8(-3), Fraction(-3), mpmath.mpf(-3), Decimal(-3)),
        Dyadic(1, -100000): (mpmath.ldexp(1, -100000),),
    }
    for number, values in same.items():
        assert all(Dyadic.of(value) == number for value in values)
    assert abs(3 * Dyadic.of(third) - 1) < Fraction(1, 2**299)
    assert Dyadic.of(third) * 2**400 == int(third * 2**400)
    assert Dyadic.of(-third) == -Dyadic.of(third)


def test_mixed_operations_stay_exact():
    x = Dyadic(1, -60)
    assert np.float64(1.0) - x == 1 - Fraction(1, 2**60)
    assert x + np.float32(2) == 2 + Fraction(1, 2**60)
    assert x + mpmath.mpf(1) == 1 + Fraction(1, 2**60)
    assert x < math.inf
    assert -math.inf < x
    assert not x < math.nan
    assert not x >= math.nan
    assert x != math.nan
    assert x != "a"


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("-inf"), mpmath.inf, mpmath.nan])
def test_no_infinity_and_no_nan(value):
    with pytest.raises(OptionError, match="needs finite numbers"):
        Dyadic.of(value)


@pytest.mark.parametrize(
    "value", ["1", 1j, None, Fraction(1, 3), Decimal("0.1"), mpmath.iv.mpf(1), sympy.Rational(1, 3)]
)
def test_no_other_numbers(value):
    with pytest.raises(DTypeError):
        Dyadic.of(value)


def test_exponents_too_far_apart_for_memory():
    with pytest.raises(OptionError, match="scale them"):
        Dyadic(1, MAX_SHIFT + 1) + 1
    assert Dyadic(1, 10**15) * Dyadic(3, -(10**15)) == 3
    assert Dyadic(0, 10**15) + 1 == 1


def test_long_numbers_are_shown_short():
    assert repr(Dyadic(-(2**511), 7)) == f"Dyadic({-(2**511)}, 7)"
    assert repr(Dyadic(-(10**5000))) == "<Dyadic of 16610 bits, -1.0000e+5000>"
    assert repr(Dyadic(3 << 20_000, -20_000)) == "<Dyadic of 20002 bits, 3.0000e+0>"
    assert repr(Dyadic(1, 1 << 600)) == "<Dyadic of 1 bits, its exponent of 601>"
    assert "<Dyadic of 15" in repr(solve([0.3] * 300, [0.7] * 300))
