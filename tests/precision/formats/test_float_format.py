"""Formats as data: limits against NumPy, ml_dtypes and gfloat, and what can't be a format."""

import pickle
from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import cache
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from noted import in_turn
from rounding_oracle import ALL, REPRESENTED, float_magnitudes, gfloat_info, magnitudes, ml_dtype

from recfact import precision as pr
from recfact.errors import OptionError
from recfact.precision import FORMATS, FloatFormat

SMALL = [fmt for fmt in ALL if fmt.bits <= 16]
FINFO = ("bits", "eps", "epsneg", "max", "min", "smallest_normal", "smallest_subnormal")
OTHERWISE = {"nmant": "fraction_bits", "nexp": "exponent_bits", "minexp": "emin"}
WITH_DTYPE = [fmt for fmt in FORMATS.values() if ml_dtype(fmt) is not None]


@in_turn("fmt", WITH_DTYPE)
def test_limits_are_those_of_finfo(fmt):
    dtype = ml_dtype(fmt)
    infos = [ml_dtypes.finfo(dtype), *([np.finfo(dtype)] if np.dtype(dtype).isbuiltin == 1 else [])]
    for info, name in product(infos, FINFO):
        assert getattr(fmt, name) == float(getattr(info, name)), name
    for info, (name, ours) in product(infos, OTHERWISE.items()):
        assert getattr(fmt, ours) == getattr(info, name), name
    assert all(fmt.emax == info.maxexp - 1 for info in infos)


@in_turn("fmt", [fmt for fmt in ALL if gfloat_info(fmt) and fmt.fits_float64])
def test_limits_are_those_of_gfloat(fmt):
    info = gfloat_info(fmt)
    assert (fmt.bits, fmt.fraction_bits, fmt.exponent_bits) == (info.k, info.precision - 1, info.expBits)
    assert (fmt.bias, fmt.signed, fmt.negative_zero) == (info.bias, info.is_signed, info.has_nz)
    assert (fmt.max, fmt.min) == (info.max, info.min)
    assert fmt.emax == info.emax or fmt.name == "binary64"  # gfloat takes a rounded logarithm
    assert fmt.smallest_subnormal == info.smallest
    assert (fmt.has_nan, fmt.infinities, fmt.zero) == (info.num_nans > 0, info.num_posinfs > 0, info.has_zero)


@in_turn("fmt", SMALL)
def test_limits_are_those_of_the_numbers(fmt):
    sizes = magnitudes(fmt)[:-1]
    assert sizes == sorted(sizes)
    assert (fmt.max, fmt.smallest_subnormal) == (sizes[-1], next(size for size in sizes if size > 0))
    assert fmt.min == (-sizes[-1] if fmt.signed else sizes[0])
    assert Fraction(2) ** fmt.emax <= fmt.max < Fraction(2) ** (fmt.emax + 1)
    assert fmt.smallest_normal == Fraction(2) ** fmt.emin
    above = bisect_right(sizes, 1)
    below = bisect_left(sizes, 1)
    if below:
        assert fmt.largest_below_one == sizes[below - 1]
    if below < above < len(sizes):
        assert fmt.eps == sizes[above] - 1
        assert fmt.epsneg == 1 - sizes[below - 1]
    assert fmt.unit_roundoff == Fraction(1, 2 ** (fmt.fraction_bits + 1))
    assert [fmt.magnitude(code) for code in (0, fmt.max_code)] == [sizes[0], sizes[-1]]


def test_rho_and_counts_of_the_theory():
    assert pr.format("e2m3").largest_below_one == Fraction(7, 8)
    assert pr.format("e2m1").largest_below_one == Fraction(1, 2)
    for name in ("binary16", "binary32", "bfloat16", "tf32", "float8_e5m2", "float8_e4m3fn", "float6_e3m2fn"):
        assert pr.format(name).largest_below_one == 1 - pr.format(name).unit_roundoff
    counts = {name: len(pr.format(name).values()) for name in ("float8_e4m3fn", "float8_e5m2", "e2m3", "e2m1")}
    assert counts == {"float8_e4m3fn": 253, "float8_e5m2": 247, "e2m3": 63, "e2m1": 15}
    between = {
        name: np.count_nonzero((v := pr.format(name).values()) > 0) - np.count_nonzero(v >= 1) for name in counts
    }
    assert between == {"float8_e4m3fn": 55, "float8_e5m2": 59, "e2m3": 7, "e2m1": 1}
    assert np.count_nonzero((pr.format("e3m2").values() > 0) & (pr.format("e3m2").values() < 1)) == 11


def test_binary128_in_fractions():
    fmt = pr.format("binary128")
    assert fmt.max == (2 - Fraction(1, 2**112)) * 2**16383
    assert fmt.smallest_subnormal == Fraction(1, 2**16494)
    assert fmt.smallest_normal == Fraction(1, 2**16382)
    assert fmt.largest_below_one == 1 - Fraction(1, 2**113)
    assert (type(fmt.eps), fmt.eps, fmt.unit_roundoff) == (float, 2.0**-112, 2.0**-113)
    assert (fmt.emin, fmt.emax, fmt.bits) == (-16382, 16383, 128)
    assert not fmt.fits_float64
    assert repr(fmt) == "<FloatFormat binary128: 1 + 15 + 112 bits, bias 16383, max 1.1897e+4932, inf, nan>"


def test_what_float64_holds():
    held = {name for name, fmt in FORMATS.items() if fmt.fits_float64}
    assert held == set(FORMATS) - {"binary128"}
    assert not FloatFormat.from_bits(4, 53).fits_float64
    assert not FloatFormat.from_bits(12, 2, bias=1000).fits_float64
    assert not FloatFormat.from_bits(5, 2, bias=1074).fits_float64
    assert FloatFormat.from_bits(5, 2, bias=1073).fits_float64


SETS = [
    *(fmt for fmt in REPRESENTED if fmt.bits <= 8),
    *(pr.format(name) for name in ("binary16", "bfloat16")),
    # The largest number above that of float8_e4m3fn at the same exponent; the smallest alone further up.
    FloatFormat.from_bits(4, 3, nan="none", name="m480"),
    FloatFormat.from_bits(3, 3, bias=-1, infinities=False, name="from one quarter"),
    # Numbers below one's subnormals that aren't multiples of the lowest.
    FloatFormat.from_bits(1, 2, bias=0, zero=False, nan="none", name="one to 3.5"),
    FloatFormat.from_bits(3, 2, bias=-1, nan="none", name="multiples of 1"),
    FloatFormat.from_bits(3, 3, bias=0, nan="none", name="multiples of 1/4"),
    FloatFormat("one number", 1, 2, 0, nan_codes=3, infinities=False, subnormals=False),
]


@cache
def numbers(fmt):
    return frozenset(fmt.values().tolist())


@in_turn("fmt", SETS)
def test_a_format_holds_those_whose_numbers_are_its_own(fmt):
    for other in SETS:
        assert fmt.holds(other) == (numbers(other) <= numbers(fmt)), other


def test_wide_formats_hold_each_other_by_their_fields():
    names = ["binary16", "tf32", "binary32", "binary64", "binary128"]
    for place, name in enumerate(names):
        assert [pr.format(name).holds(pr.format(other)) for other in names] == [at <= place for at in range(5)]
    assert not FloatFormat.from_bits(8, 30).holds(pr.format("binary64"))
    assert not FloatFormat.from_bits(18, 51).holds(pr.format("binary64"))


def test_where_one_is_out_of_reach():
    assert FloatFormat.from_bits(3, 2, bias=40).largest_below_one == FloatFormat.from_bits(3, 2, bias=40).max
    assert FloatFormat.from_bits(3, 2, bias=-2).largest_below_one == 0
    assert FloatFormat.from_bits(3, 2, bias=1, subnormals=False).largest_below_one == 0


def test_a_home_made_format_is_the_one_of_the_catalogue():
    made = FloatFormat.from_bits(exponent=5, fraction=10)
    assert made == pr.format("binary16")
    assert hash(made) == hash(pr.format("binary16"))
    assert (made.name, str(made), f"{made}") == ("e5m10", "e5m10", "e5m10")
    assert FloatFormat.from_bits(4, 3, infinities=False) == pr.format("float8_e4m3fn")
    assert FloatFormat.from_bits(4, 3) == pr.format("float8_e4m3") != pr.format("float8_e4m3fn")
    assert FloatFormat.from_bits(8, 0, signed=False, zero=False) == pr.format("float8_e8m0fnu")
    assert FloatFormat.from_bits(4, 3, nan="ieee", infinities=False).nan_codes == 8
    assert type(FloatFormat.from_bits(np.int8(5), np.int8(10)).max) is float
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.bias = 3


def test_repr_tells_the_parts():
    assert repr(pr.format("float8_e8m0fnu")) == (
        "<FloatFormat float8_e8m0fnu: 8 + 0 bits, bias 127, max 1.7014118346046923e+38, "
        "nan, no sign, no zero, no subnormals>"
    )
    assert repr(pr.format("float4_e2m1fn")) == "<FloatFormat float4_e2m1fn: 1 + 2 + 1 bits, bias 1, max 6>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exponent": 0, "fraction": 3}, "exponent must be at least 1"),
        ({"exponent": 20, "fraction": 3}, "at most 19 exponent bits"),
        ({"exponent": 3, "fraction": -1}, "fraction must be at least 0"),
        ({"exponent": 3, "fraction": 1, "nan": "all"}, "nan must be one of 'ieee', 'top'"),
        ({"exponent": 3, "fraction": 1, "nan": "negative-zero", "signed": False}, "needs signed=True and zero=True"),
        ({"exponent": 5, "fraction": 3, "bias": 10**9}, "biases up to 1048576"),
        ({"exponent": 1, "fraction": 0}, "a format needs a number above zero"),
        ({"exponent": 1, "fraction": 0, "nan": "ieee"}, "a format needs a number above zero"),
        ({"exponent": 1, "fraction": 4, "subnormals": False}, "a format needs a number above zero"),
    ],
)
def test_parts_that_make_no_format(options, message):
    with pytest.raises(OptionError, match=message):
        FloatFormat.from_bits(**options)


def test_fields_that_exclude_each_other():
    with pytest.raises(OptionError, match="subnormals need a zero"):
        FloatFormat("x", 3, 2, 3, nan_codes=0, zero=False, negative_zero=False)
    with pytest.raises(OptionError, match="a negative zero needs"):
        FloatFormat("x", 3, 2, 3, nan_codes=0, signed=False)
    with pytest.raises(TypeError, match=r"bias must be an integer, got 1.5"):
        FloatFormat.from_bits(3, 2, bias=1.5)
    with pytest.raises(TypeError, match="zero must be True or False"):
        FloatFormat("x", 3, 2, 3, nan_codes=0, zero=1)


@in_turn("fmt", REPRESENTED)
def test_values_are_all_the_numbers_in_order(fmt):
    sizes = set(float_magnitudes(fmt)[:-1].tolist())
    assert fmt.values().tolist() == sorted(sizes | ({-size for size in sizes} if fmt.signed else set()))
    assert not np.signbit(fmt.values()[fmt.values() == 0]).any()


def test_values_of_wide_formats():
    with pytest.raises(OptionError, match="up to 16 bits are listed, tf32 has 19"):
        pr.format("tf32").values()
    assert FloatFormat.from_bits(12, 0, infinities=True, nan="none").values()[-1] == Fraction(2) ** 2047
