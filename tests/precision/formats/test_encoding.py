"""Codes: each of every format up to 16 bits against ml_dtypes and gfloat, and wider ones against NumPy."""

import math
from fractions import Fraction

import gfloat
import numpy as np
import pytest
from noted import in_turn
from rounding_oracle import REPRESENTED, float_magnitudes, gfloat_info, ml_dtype

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError


def codes_of(fmt):
    return np.arange(1 << fmt.bits)


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[kept], np.signbit(expected)[kept])


@in_turn("fmt", REPRESENTED)
def test_every_code_by_definition(fmt):
    sizes = float_magnitudes(fmt)[:-1].tolist()
    half = sizes + [math.inf] * fmt.infinities
    half += [math.nan] * ((1 << (fmt.exponent_bits + fmt.fraction_bits)) - len(half))
    expected = half + [-size for size in half] if fmt.signed else half
    if fmt.signed and fmt.zero and not fmt.negative_zero:
        expected[len(half)] = math.nan
    same(fmt.decode(codes_of(fmt)), np.array(expected))


@pytest.mark.parametrize("fmt", [fmt for fmt in REPRESENTED if ml_dtype(fmt) is not None], ids=str)
def test_every_code_is_that_of_ml_dtypes(fmt):
    dtype = ml_dtype(fmt)
    codes = codes_of(fmt).astype(f"uint{8 * dtype.itemsize}")
    theirs = codes.view(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN
        same(fmt.decode(codes), theirs.astype(np.float64))
    numbers = ~np.isnan(fmt.decode(codes))
    encoded = fmt.encode(theirs[numbers])
    assert encoded.dtype == codes.dtype
    np.testing.assert_array_equal(encoded, codes[numbers])
    if fmt.has_nan:
        assert fmt.encode(math.nan) == int(np.array(math.nan).astype(dtype).view(codes.dtype))


@in_turn("fmt", [fmt for fmt in REPRESENTED if gfloat_info(fmt)])
def test_every_code_is_that_of_gfloat(fmt):
    codes = codes_of(fmt)
    with np.errstate(all="ignore"):
        same(fmt.decode(codes), gfloat.decode_ndarray(gfloat_info(fmt), codes))


@in_turn("fmt", REPRESENTED)
def test_codes_return(fmt):
    numbers = fmt.decode(codes_of(fmt))
    kept = ~np.isnan(numbers)
    back = fmt.encode(numbers[kept])
    same(fmt.decode(back), numbers[kept])
    if fmt.subnormals or not fmt.zero:  # else several codes are zero
        np.testing.assert_array_equal(back, codes_of(fmt)[kept])
    few = slice(None, None, 1 + fmt.bits // 10 * 100)
    np.testing.assert_array_equal(fmt.encode(numbers[kept][few].astype(object)), back[few])
    if fmt.has_nan:
        assert np.isnan(fmt.decode(fmt.encode(np.array([math.nan, -math.nan])))).all()
        assert fmt.encode(np.array([math.nan], dtype=object))[0] == fmt.encode(math.nan)


@pytest.mark.parametrize(("name", "integers"), [("binary32", np.uint32), ("binary64", np.uint64)])
def test_wide_codes_are_numpys(name, integers, rng):
    fmt = pr.format(name)
    codes = np.frombuffer(rng.bytes(8 * 4000), dtype=integers)
    codes = np.concatenate([codes, [0, 1, np.iinfo(integers).max // 2 + 1]]).astype(integers)
    with np.errstate(invalid="ignore"):
        expected = codes.view(ml_dtype(fmt)).astype(np.float64)
    same(fmt.decode(codes), expected)
    kept = ~np.isnan(expected)
    encoded = fmt.encode(expected[kept])
    assert encoded.dtype == integers
    np.testing.assert_array_equal(encoded, codes[kept])


def test_binary128():
    fmt = pr.format("binary128")
    assert fmt.encode(Fraction(1)) == 0x3FFF << 112
    assert fmt.encode(-2.0) == 0xC000 << 112
    assert fmt.encode(fmt.max) == (0x7FFF << 112) - 1
    assert fmt.encode(fmt.smallest_subnormal) == 1
    codes = np.array([0, 1, 0x7FFF << 112, (0x7FFF << 112) - 1, 0xFFFF << 112, 0x3FFF << 112 | 1], dtype=object)
    numbers = fmt.decode(codes)
    assert numbers.tolist() == [0, fmt.smallest_subnormal, math.inf, fmt.max, -math.inf, 1 + Fraction(1, 2**112)]
    assert fmt.encode(numbers).tolist() == codes.tolist()
    assert math.isnan(fmt.decode(fmt.encode(math.nan)))
    assert fmt.encode([0.1, -0.0]).dtype == object
    assert fmt.encode(-0.0) == 1 << 127


def test_scalars_and_shapes():
    fmt = pr.format("bfloat16")
    assert (type(fmt.encode(1.0)), type(fmt.encode(np.float64(1))), type(fmt.decode(16256))) == (int, np.uint16, float)
    assert fmt.decode(np.array([[16256]], dtype=np.uint16)).shape == (1, 1)
    assert fmt.encode(np.ones((2, 0))).shape == (2, 0)
    assert fmt.decode([]).tolist() == []
    table = pr.format("e2m1").decode(np.arange(16))
    table[:] = 0  # a caller's array, not the format's
    assert pr.format("e2m1").decode(7) == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bfloat16", 1.001),
        ("bfloat16", 1e39),
        ("binary16", 2.0**-25),
        ("float8_e4m3fn", math.inf),
        ("float8_e4m3fn", 480.0),
        ("float4_e2m1fn", math.nan),
        ("float8_e8m0fnu", 0.0),
        ("float8_e8m0fnu", -1.0),
        ("p3109_k8p3uf", -1.0),
        ("binary16", Fraction(1, 3)),
        ("binary64", 1 + Fraction(1, 2**60)),
        ("binary128", Fraction(1, 3)),
        ("float8_e4m3fn", Fraction(480)),
    ],
)
def test_numbers_that_the_format_does_not_have(name, value):
    fmt = pr.format(name)
    for given in (value, np.array([value]), np.array([value], dtype=object)):
        with pytest.raises(OptionError, match=f"must be numbers of {name}, got .*; round them first"):
            fmt.encode(given)


def test_negative_zero_is_zero_where_there_is_one_zero():
    fmt = pr.format("float8_e4m3fnuz")
    assert fmt.encode(-0.0) == 0
    assert fmt.encode(np.array([-0.0], dtype=object)).tolist() == [0]
    assert np.isnan(fmt.decode(0x80))


def test_codes_out_of_range():
    fmt = pr.format("float6_e3m2fn")
    for codes in (64, -1, [3, 64], np.array([-1])):
        with pytest.raises(OptionError, match="go from 0 to 2\\^6 - 1"):
            fmt.decode(codes)
    with pytest.raises(DTypeError, match="codes must be integers"):
        fmt.decode([1.0])
    with pytest.raises(DTypeError, match="codes must be integers"):
        fmt.decode(np.array([Fraction(1)]))
