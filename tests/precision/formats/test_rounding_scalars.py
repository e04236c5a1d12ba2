"""Rounding single numbers, integers and exact scalars, to formats of any width, and what it refuses."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError


def test_scalars_stay_scalars():
    fmt = pr.format("bfloat16")
    assert (type(fmt.round(0.3)), type(fmt.round(np.float32(0.3))), type(fmt.round(np.array(0.3)))) == (
        float,
        np.float64,
        np.float64,
    )
    assert type(fmt.round(Fraction(1, 3))) is Fraction
    assert fmt.round(257) == Fraction(256)
    assert fmt.round(10**40) == math.inf


def test_integers_and_long_doubles_are_rounded_once():
    fmt = pr.format("binary32")
    between = 2**60 + 2**36  # halfway between two numbers of binary32
    x = np.array([between - 1, between, between + 1, -between - 1])
    assert fmt.round(x).tolist() == [2.0**60, 2.0**60, 2.0**60 + 2.0**37, -(2.0**60) - 2.0**37]
    assert fmt.round(x).dtype == np.float64
    assert fmt.round(np.uint64(2**64 - 1)) == 2.0**64
    assert pr.format("binary64").round(np.array([2**53 + 1, -(2**53) - 1]), "up").tolist() == [2.0**53 + 2, -(2.0**53)]
    if np.finfo(np.longdouble).nmant > 52:
        assert fmt.round(np.longdouble(1) + np.longdouble(2) ** -24 + np.longdouble(2) ** -60) == 1 + 2.0**-23
    with pytest.raises(DTypeError, match="more digits than float64"):
        pr.format("binary128").round(x)
    assert pr.format("binary128").round(x.astype(object)).tolist() == x.tolist()


def test_exact_scalars_of_other_kinds():
    from decimal import Decimal

    import sympy

    fmt = pr.format("binary16")
    context = mpmath.MPContext()
    third = fmt.round(Fraction(1, 3))
    assert fmt.round(Decimal("0.1")) == fmt.round(Fraction(1, 10))
    assert fmt.round(-context.mpf(1) / 3) == -third
    assert fmt.round(context.mpf("1e-400")) == 0
    assert fmt.round(context.mpf("-inf")) == -math.inf
    assert math.isnan(fmt.round(context.mpf("nan")))
    assert fmt.round(sympy.Rational(1, 3)) == third
    mixed = fmt.round(np.array([1, 0.1, Fraction(1, 3), np.float32(2), math.nan, np.int64(5)], dtype=object))
    assert mixed[:4].tolist() == [1, fmt.round(0.1), third, 2]
    assert math.isnan(mixed[4])
    assert fmt.round(Fraction(10) ** 100_000) == math.inf
    assert fmt.round(Fraction(1, 10**100_000), "up") == fmt.smallest_subnormal


def test_formats_wider_than_float64():
    wide = pr.FloatFormat.from_bits(13, 20)  # reaches further, with fewer digits
    x = np.array([1 + 2.0**-21, np.finfo(np.float64).max, 5e-324, math.inf])
    assert wide.round(x, "down").tolist()[0] == 1
    np.testing.assert_array_equal(wide.round(x[2:]), x[2:])
    with pytest.raises(DTypeError, match="float64 doesn't hold"):
        wide.round(x)
    assert wide.round(Fraction(x[1])) == Fraction(2) ** 1024
    long = pr.FloatFormat.from_bits(8, 60)  # has more digits, and reaches less far
    y = np.array([1 / 3, 1e38, 2.0**-150 / 3, 1e39])
    np.testing.assert_array_equal(long.round(y), [1 / 3, 1e38, float(long.round(Fraction(y[2]))), math.inf])
    assert long.round(2.0**-186 * 1.25) == 2.0**-186
    assert long.round([2.0**128, np.nextafter(2.0**128, 0)]).tolist() == [math.inf, np.nextafter(2.0**128, 0)]
    with pytest.raises(DTypeError, match="float64 doesn't hold"):
        long.round(y, "toward-zero")
    assert pr.format("binary128").round([1e-310, math.inf, 0.1]).tolist() == [1e-310, math.inf, 0.1]


def test_errors_say_what_to_do():
    fmt = pr.format("float8_e4m3fn")
    with pytest.raises(OptionError, match="rounding must be one of 'nearest-even'"):
        fmt.round(1.0, "nearest")
    with pytest.raises(OptionError, match="underflow must be one of"):
        fmt.round(1.0, underflow="flush")
    with pytest.raises(OptionError, match="float8_e4m3fn has no infinity"):
        fmt.round(1.0, overflow="infinity")
    with pytest.raises(OptionError, match="float4_e2m1fn has no nan"):
        pr.format("fp4").round(1.0, overflow="nan")
    with pytest.raises(OptionError, match="no zero to flush to"):
        pr.format("e8m0").round(1.0, underflow="flush-after")
    with pytest.raises(DTypeError, match="real numbers"):
        fmt.round([1j])
    with pytest.raises(DTypeError, match="real numbers"):
        fmt.round("0.3")
    with pytest.raises(DTypeError, match="exact scalars must be"):
        fmt.round(np.array([None]))
    with pytest.raises(DTypeError, match="part by part"):
        fmt.round(np.array([1j], dtype=object))
