"""Rounding: every number and midpoint of all formats up to 16 bits, and what the definition says in Fractions."""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import gfloat
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noted import in_turn, noted
from rounding_oracle import (
    HOME_MADE,
    REPRESENTED,
    float_magnitudes,
    gfloat_info,
    magnitudes,
    ml_dtype,
    round_by_definition,
)
from samples import one_in

from recfact import precision as pr
from recfact.precision.formats.array_rounding import PIECE
from recfact.precision.formats.rounding import OVERFLOWS, ROUNDINGS, UNDERFLOWS

MODES = [mode for mode in ROUNDINGS if mode != "stochastic"]


def same(actual, expected):
    """Hold numbers equal, with the sign of zeros and with NaN equal to itself."""
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual)[~np.isnan(actual)], np.signbit(expected)[~np.isnan(expected)])


def by_definition(fmt, x, mode):
    """Return float64 numbers rounded to a format that has a zero: the nearer neighbour, or the one in the direction."""
    sizes = float_magnitudes(fmt)
    negative, size = np.signbit(x), np.abs(x)
    code = np.minimum(np.searchsorted(sizes, size, side="right") - 1, sizes.size - 2)
    low, high = sizes[code], sizes[code + 1]
    with np.errstate(over="ignore"):
        middle = low + (high - low) / 2  # exact, or equal to low where no float64 lies between the two
    even = (code % 2 == 0) | (low == 0)
    up = {
        "nearest-even": (size > middle) | ((size == middle) & ~even),
        "nearest-away": size >= middle,
        "toward-zero": False,
        "up": ~negative,
        "down": negative,
    }[mode]
    rounded = np.where((size > low) & (up | (size >= high)), high, low)

    largest = float(fmt.max)
    inward = {"toward-zero": True, "up": negative, "down": ~negative}.get(mode, False)
    filler = {"infinity": np.inf, "nan": np.nan, "saturate": largest}[fmt.overflow]
    rounded = np.where(rounded > largest, np.where(inward, largest, filler), rounded)
    rounded = np.where(negative, -rounded, rounded)
    if not fmt.signed:
        rounded = np.where(rounded < 0, np.nan if fmt.has_nan else 0.0, rounded)
    return rounded if fmt.negative_zero else rounded + 0.0


@cache
def points(fmt):
    """Return all numbers of a format, all midpoints, the float64 next to each, and some far out; of both signs."""
    sizes = float_magnitudes(fmt)
    with np.errstate(over="ignore"):
        at = np.concatenate([sizes, sizes[:-1] + np.diff(sizes) / 2, [sizes[-1] * 2, 1e300, 5e-324]])
        at = np.concatenate([at, np.nextafter(at, 0), np.nextafter(at, np.inf)])
    at = at[np.isfinite(at)]
    return np.concatenate([at, -at])


@in_turn("fmt", [fmt for fmt in REPRESENTED if fmt.zero and fmt.emax < 1023], one_in=3)
def test_every_number_every_midpoint_and_their_neighbours(fmt):
    x = points(fmt)
    for mode in MODES:
        with noted(mode=mode):
            same(fmt.round(x, mode), by_definition(fmt, x, mode))


@in_turn("fmt", [fmt for fmt in REPRESENTED if ml_dtype(fmt) is not None])
def test_nearest_is_the_cast_of_ml_dtypes(fmt):
    x = np.concatenate([points(fmt), [np.inf, -np.inf], [np.nan] * fmt.has_nan])
    with np.errstate(all="ignore"):
        x = x.astype(np.float32)  # a cast from float64 rounds twice
        if fmt.fraction_bits == 0:  # ml_dtypes 0.5 takes ties between powers to the even code but for one, 0.6 up
            x = x[np.abs(np.frexp(x)[0]) != 0.75]
        expected = x.astype(ml_dtype(fmt)).astype(np.float64)
    same(fmt.round(x), expected)


@in_turn("fmt", [fmt for fmt in REPRESENTED if gfloat_info(fmt)], one_in=3)
def test_all_modes_are_those_of_gfloat(fmt):
    info = gfloat_info(fmt)
    x = points(fmt) if fmt.signed else np.abs(points(fmt))  # gfloat takes no negative numbers there
    if not fmt.zero:
        x = x[x >= fmt.smallest_normal]
    modes = {
        "nearest-even": gfloat.RoundMode.TiesToEven,
        "nearest-away": gfloat.RoundMode.TiesToAway,
        "toward-zero": gfloat.RoundMode.TowardZero,
        "up": gfloat.RoundMode.TowardPositive,
        "down": gfloat.RoundMode.TowardNegative,
    }
    for mode, theirs in modes.items():
        for saturate in (False, True):
            if fmt.overflow == "saturate" and not saturate:
                continue
            with np.errstate(all="ignore"):
                expected = gfloat.round_ndarray(info, x, theirs, saturate)
            same(fmt.round(x, mode, overflow="saturate" if saturate else None), expected)


@st.composite
def rationals(draw, fmt):
    """Draw a Fraction at, near or between numbers of the format, or anywhere."""
    sizes = magnitudes(fmt)
    code = draw(st.integers(0, len(sizes) - 2))
    low, high = sizes[code], sizes[code + 1]
    share = draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)]) | st.fractions(0, 1))
    nudge = draw(st.sampled_from([0, 1, -1])) * Fraction(1, 10 ** draw(st.integers(1, 400)))
    size = abs(low + share * (high - low) + nudge * (high - low))
    return draw(st.sampled_from([1, -1])) * size * draw(st.sampled_from([1, 1, 1, Fraction(1, 3), 3]))


SHAPES = [*HOME_MADE, *(pr.format(n) for n in ("e5m2", "e4m3fn", "e8m0", "e2m1", "k8p1", "k8p3uf"))]


@pytest.mark.parametrize("fmt", one_in(4, SHAPES), ids=str)
@given(st.data())
def test_exact_scalars_in_every_mode(fmt, data):
    x = data.draw(rationals(fmt))
    mode = data.draw(st.sampled_from(ROUNDINGS))
    underflow = data.draw(st.sampled_from(UNDERFLOWS)) if fmt.zero else "gradual"
    possible = ["saturate"] + ["infinity"] * fmt.infinities + ["nan"] * fmt.has_nan
    overflow = data.draw(st.sampled_from(possible))
    seed = data.draw(st.integers(0, 99))
    uniform = np.random.default_rng(seed).random()
    expected = round_by_definition(fmt, x, mode, underflow, overflow, uniform)
    rounded = fmt.round(x, mode, underflow=underflow, overflow=overflow, seed=seed)
    assert rounded == expected or (math.isnan(rounded) and math.isnan(expected))
    # The float64 next to it is rounded to the same number, alone and in an array.
    if abs(x) >= 2**1024 - 2**970:
        return
    nearby = float(x)
    expected = float(round_by_definition(fmt, nearby, mode, underflow, overflow, uniform))
    rounded = fmt.round(nearby, mode, underflow=underflow, overflow=overflow, seed=seed)
    assert type(rounded) is float
    np.testing.assert_array_equal(rounded, expected)
    exactly = fmt.round(Fraction(nearby), mode, underflow=underflow, overflow=overflow, seed=seed)
    np.testing.assert_array_equal(float(exactly), expected)


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e308, -1e308, 2.0**-1022, -(2.0**-1022)]


SPECIAL_FORMATS = [*REPRESENTED, *map(pr.format, ("tf32", "binary32", "binary64"))]


@pytest.mark.parametrize("part", one_in(6, range(6)))
@in_turn("fmt", SPECIAL_FORMATS)
def test_special_numbers_in_every_combination(fmt, part):
    """Each sixth of the combinations with every format; the default run has one of them, of each format another one."""
    edges = [fmt.smallest_normal, fmt.smallest_subnormal, float(fmt.max)]
    x = np.array(SPECIAL + [sign * f * e for sign in (1, -1) for e in edges for f in (1, 0.75, 1 - 2.0**-52)])
    combinations = list(product(ROUNDINGS, UNDERFLOWS, (None, *OVERFLOWS)))
    for mode, underflow, overflow in combinations[(SPECIAL_FORMATS.index(fmt) + part) % 6 :: 6]:
        if (overflow == "infinity" and not fmt.infinities) or (overflow == "nan" and not fmt.has_nan):
            continue
        if underflow != "gradual" and not fmt.zero:
            continue
        options = {"underflow": underflow, "overflow": overflow, "seed": 1}
        rounded = fmt.round(x, mode, **options)
        exact = fmt.round(x.astype(object), mode, **options).astype(np.float64)
        np.testing.assert_array_equal(rounded, exact)  # the two arithmetics agree
        kept = ~np.isnan(rounded) if not fmt.has_nan else slice(None)
        np.testing.assert_array_equal(fmt.decode(fmt.encode(rounded[kept])), rounded[kept])
        signs = np.signbit(rounded) == np.signbit(x)
        assert signs[(rounded == 0) & np.full(x.shape, fmt.negative_zero)].all()
        assert fmt.negative_zero or not np.signbit(rounded[rounded == 0]).any()


@pytest.mark.parametrize("mode", MODES)
def test_binary32_is_numpys(mode, rng):
    bits = rng.integers(0, 1 << 32, 20000, dtype=np.uint32)
    number = bits.view(np.float32)[np.isfinite(bits.view(np.float32))]
    with np.errstate(over="ignore"):
        beside = np.nextafter(number, np.float32(np.inf))
    with np.errstate(invalid="ignore"):
        middle = (number.astype(np.float64) + beside) / 2
    x = np.concatenate([number, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]).astype(np.float64)
    x = x[np.isfinite(x)]
    with np.errstate(over="ignore", under="ignore"):
        nearest = x.astype(np.float32)
        lower = np.where(nearest > x, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(np.float64)
        upper = np.where(nearest < x, np.nextafter(nearest, np.float32(np.inf)), nearest).astype(np.float64)
    nearest = nearest.astype(np.float64)
    tie = (x - lower == upper - x) & (lower < upper)
    expected = {
        "nearest-even": nearest,
        "nearest-away": np.where(tie, np.where(x > 0, upper, lower), nearest),
        "toward-zero": np.where(x > 0, lower, upper),
        "up": upper,
        "down": lower,
    }[mode]
    np.testing.assert_array_equal(pr.format("binary32").round(x, mode), expected)


@given(st.fractions() | st.integers(-(10**400), 10**400).map(Fraction) | st.floats(allow_nan=False).map(float))
def test_binary64_is_pythons(x):
    try:
        expected = float(x)
    except OverflowError:
        expected = math.inf if x > 0 else -math.inf
    assert pr.format("binary64").round(np.array([x], dtype=object))[0] == expected


@pytest.mark.parametrize(("mode", "letter"), [("nearest-even", "n"), ("toward-zero", "d"), ("up", "c"), ("down", "f")])
@given(numerator=st.integers(-(2**300), 2**300), denominator=st.integers(1, 2**300))
def test_binary128_is_mpmaths(mode, letter, numerator, denominator):
    context = mpmath.MPContext()
    context.prec = 113
    quotient = context.fdiv(numerator, denominator, rounding=letter)
    rounded = pr.format("binary128").round(Fraction(numerator, denominator), mode)
    assert rounded == Fraction(*mpmath.libmp.to_rational(quotient._mpf_))


def test_values_of_the_theory():
    assert pr.format("bfloat16").round(1 + 2**-8 + 2**-30) == 1.0078125
    assert pr.format("float8_e4m3fn").round(1 + 2**-4 + 2**-40) == 1.125
    assert pr.format("binary16").round([65519.99, 65520]).tolist() == [65504, math.inf]
    e4m3fn = pr.format("float8_e4m3fn")
    np.testing.assert_equal(e4m3fn.round([464.0, 465.0]), [448, math.nan])
    assert e4m3fn.round(465.0, overflow="saturate") == 448
    assert pr.format("float4_e2m1fn").round([5.0, 7.0]).tolist() == [4, 6]


def test_a_sigmoid_that_rounds_to_one():
    context = mpmath.MPContext()
    context.prec = 200

    def sigmoid(x):
        return 1 / (1 + context.exp(-context.mpf(x)))

    for name, below, above in [("bfloat16", "6.23", "6.24"), ("binary32", "17.328", "17.329")]:
        fmt = pr.format(name)
        assert fmt.round(sigmoid(above)) == 1
        assert fmt.round(sigmoid(below)) == fmt.largest_below_one


@pytest.mark.parametrize(
    ("underflow", "just_below", "tie", "just_above_tie"),
    [
        # The tie lies between the largest subnormal number and the smallest normal one; with an unbounded exponent
        # the numbers there are closer, and it is one of them.
        ("gradual", "subnormal", "normal", "normal"),
        ("flush-before", 0, 0, 0),
        ("flush-after", 0, 0, 0),
        ("flush-result", 0, "normal", "normal"),
    ],
)
def test_three_ways_to_flush(underflow, just_below, tie, just_above_tie):
    fmt = pr.format("binary16")
    smallest, unit = fmt.smallest_normal, fmt.smallest_subnormal
    named = {"normal": smallest, "subnormal": smallest - unit, 0: 0}
    x = smallest - unit / 2 + np.array([-unit / 8, 0, unit / 8])
    assert fmt.round(x, underflow=underflow).tolist() == [named[just_below], named[tie], named[just_above_tie]]
    # Where the rounding with an unbounded exponent reaches the smallest normal number, x86 keeps it.
    close = smallest - unit / 8
    assert fmt.round(close, underflow=underflow) == (0 if underflow == "flush-before" else smallest)
    assert fmt.round(-close, "toward-zero", underflow=underflow) == (-smallest + unit if underflow == "gradual" else 0)
    assert math.copysign(1, fmt.round(-unit, underflow=underflow)) == -1


@pytest.mark.parametrize(("name", "stuck", "step"), [("binary16", 2.0**-14, 14336), ("float8_e5m2", 2.0**-14, 56)])
def test_products_of_the_largest_number_below_one(name, stuck, step):
    fmt = pr.format(name)
    rho, x = fmt.largest_below_one, 1.0
    for _ in range(step):
        assert x > stuck
        x = fmt.round(x * rho)
    assert x == stuck
    flushed = {underflow: fmt.round(x * rho, underflow=underflow) for underflow in UNDERFLOWS}
    assert flushed == {"gradual": stuck, "flush-before": 0, "flush-after": 0, "flush-result": stuck}


def test_stochastic_rounding_takes_the_neighbours_with_the_right_odds():
    fmt = pr.format("binary16")
    n = 200_000
    for x in (1 + 2.0**-10 * 0.3, -1 - 2.0**-10 * 0.3, 2.0**-24 * 0.3, 1 - 2.0**-11 * 0.3):
        rounded = fmt.round(np.full(n, x), "stochastic", seed=5)
        low, high = fmt.round(x, "down"), fmt.round(x, "up")
        assert set(rounded) == {low, high}
        share = (x - low) / (high - low)
        # A binomial count strays more than 6 standard deviations once in 5e8 seeds; this seed is fixed.
        assert abs(np.mean(rounded == high) - share) < 6 * math.sqrt(share * (1 - share) / n)


def test_stochastic_rounding_repeats_with_its_seed():
    fmt = pr.format("bfloat16")
    x = np.linspace(-3, 3, 3 * PIECE + 7)
    rounded = fmt.round(x, "stochastic", seed=3)
    np.testing.assert_array_equal(rounded, fmt.round(x, "stochastic", seed=3))
    np.testing.assert_array_equal(rounded, fmt.round(x, "stochastic", seed=np.random.default_rng(3)))
    np.testing.assert_array_equal(rounded, fmt.round(x.reshape(-1, 1)[:, ::1], "stochastic", seed=3)[:, 0])
    np.testing.assert_array_equal(rounded, fmt.round(x.astype(object), "stochastic", seed=3).astype(np.float64))
    assert (rounded != fmt.round(x, "stochastic", seed=4)).any()
    assert (fmt.round(x, "stochastic") != fmt.round(x, "stochastic")).any()


@in_turn("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 3])
@pytest.mark.parametrize("mode", MODES)
def test_lengths_around_the_pieces(size, mode, rng):
    fmt = pr.format("float8_e5m2")
    x = rng.standard_normal(size)
    same(fmt.round(x, mode), by_definition(fmt, x, mode))


def test_layouts_and_number_types(rng):
    import ml_dtypes

    fmt = pr.format("float8_e4m3fn")
    x = rng.standard_normal((6, 5, 4))
    expected = fmt.round(x)
    assert expected.shape == x.shape
    for view in (x[::-1, ::2, 1:], x.T, np.asfortranarray(x), x[:, :0], x[2, 3, 1:2], x.astype(">f8")):
        rounded = fmt.round(view)
        assert rounded.dtype == np.float64
        np.testing.assert_array_equal(rounded, by_definition(fmt, np.asarray(view, dtype=np.float64), "nearest-even"))
    for kind in (np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.int8, np.uint16, np.int64, bool):
        numbers = (4 * x).astype(kind)
        rounded = fmt.round(numbers)
        assert rounded.dtype == np.float64
        np.testing.assert_array_equal(rounded, by_definition(fmt, numbers.astype(np.float64), "nearest-even"))
    x.flags.writeable = False
    np.testing.assert_array_equal(fmt.round(x), expected)
