"""Computational horizons: the integers of the definition, decided also where floats and formulas are wrong."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recfact import precision as pr
from recfact.errors import DTypeError, OptionError
from recfact.precision.horizons.horizon import last_power

# Exact integers of floor(log t / log rho), which 60-digit logarithms gave independently:
# pointwise normal and subnormal, tail normal and subnormal, at each format's largest number below 1.
LITERAL = {
    "binary64": (6380667693064996757, 6705320061009595418, 6711563375777760776, 7036215743722359437),
    "binary32": (1465264032, 1732732863, 1744361943, 2011830774),
    "tf32": (178821, 193013, 194432, 208625),
    "bfloat16": (22314, 23554, 23731, 24970),
    "binary16": (19869, 34061, 35480, 49672),
    "float8_e5m2": (72, 83, 88, 98),
    "float8_e4m3fn": (64, 96, 107, 139),
    "float6_e3m2fn": (10, 20, 25, 36),
    "float6_e2m3fn": (0, 15, 15, 31),
    "float4_e2m1fn": (0, 1, 1, 2),
}
CASES = [("pointwise", "normal"), ("pointwise", "subnormal"), ("tail", "normal"), ("tail", "subnormal")]


@pytest.mark.parametrize("name", LITERAL)
def test_the_horizons_of_formats(name):
    fmt = pr.format(name)
    assert tuple(pr.horizon(fmt.largest_below_one, fmt, *case) for case in CASES) == LITERAL[name]


def test_the_format_without_a_zero():
    assert (pr.horizon(0.5, "e8m0"), pr.horizon(0.5, "e8m0", "tail")) == (127, 128)
    with pytest.raises(OptionError, match="no subnormals"):
        pr.horizon(0.5, "e8m0", underflow="subnormal")


@pytest.mark.parametrize("name", pr.FORMATS)
@pytest.mark.parametrize(("kind", "underflow"), CASES)
def test_every_format_against_logarithms_of_many_digits(name, kind, underflow):
    fmt = pr.FORMATS[name]
    if underflow == "subnormal" and not fmt.subnormals:
        pytest.skip("the format has no subnormals")
    rho = Fraction(fmt.largest_below_one)
    eps = Fraction(fmt.smallest_normal if underflow == "normal" else fmt.smallest_subnormal)
    level = eps * (1 - rho) if kind == "tail" else eps
    context = mpmath.MPContext()
    context.dps = 120
    rate, log = (context.log(context.mpf(x.numerator) / x.denominator) for x in (rho, level))
    quotient = log / rate
    nearest = int(context.nint(quotient))
    # A power of two other than 1 is no power of an odd number over a power of two: rho = 1/2 alone has more integers.
    whole = rho == Fraction(1, 2) or level == 1
    expected = nearest if whole else int(context.floor(quotient))
    assert whole or abs(quotient - nearest) > context.mpf(10) ** -40
    assert pr.horizon(rho, fmt, kind, underflow) == max(expected, 0)


def definition(rho, eps, kind):
    """Return the horizon by its definition, step by step in exact arithmetic."""
    k, power = 0, rho
    while (power if kind == "pointwise" else power / (1 - rho)) >= eps:
        k, power = k + 1, power * rho
    return k


rates = st.fractions(0, Fraction(19, 20), max_denominator=50)
levels = st.fractions(Fraction(1, 10**6), 3, max_denominator=10**6).filter(bool)


@given(rates, levels, st.sampled_from(["pointwise", "tail"]))
def test_the_definition(rho, eps, kind):
    assert pr.horizon(rho, eps, kind) == definition(rho, eps, kind)


@given(rates.filter(bool), st.integers(0, 60), st.sampled_from(["pointwise", "tail"]), st.sampled_from([-1, 0, 1]))
def test_the_definition_where_the_quotient_is_an_integer_or_all_but(rho, k, kind, side):
    """A distance of 10^-300 is decided as well as equality."""
    eps = rho**k / (1 if kind == "pointwise" else 1 - rho)
    eps *= 1 + Fraction(side, 10**300)
    assert pr.horizon(rho, eps, kind) == definition(rho, eps, kind)


def test_equality():
    assert pr.horizon(0.5, 0.25) == 2
    assert pr.horizon(0.5, 0.25, "tail") == 3  # the paper's formula gives 2, whose tail is 1/4 and not below it
    assert pr.horizon(0.5, 0.5, "tail") == 2
    assert pr.horizon(Fraction(7, 8), 1) == 0
    assert pr.horizon(0.5, 2.0**-11) == 11
    assert last_power(Fraction(2, 3), Fraction(2, 3) ** 1000) == 1000
    assert last_power(Fraction(2, 3), Fraction(2, 3) ** 1000 + Fraction(1, 10**1000)) == 999


@pytest.mark.parametrize(
    ("rho", "eps", "pointwise", "tail"),
    [
        ("0.5", 2.0**-11, 11, 12),
        ("0.8", 2.0**-8, 24, 32),
        ("0.8", 2.0**-11, 34, 41),
        ("0.9", 2.0**-11, 72, 94),
        ("0.9", "1e-3", 65, 87),
        ("0.95", 2.0**-11, 148, 207),
        ("0.99", 2.0**-11, 758, 1216),
        ("0.99", 2.0**-24, 1655, 2113),
        ("0.999", 2.0**-24, 16627, 23531),
    ],
)
def test_examples(rho, eps, pointwise, tail):
    assert (pr.horizon(rho, eps), pr.horizon(rho, eps, "tail")) == (pointwise, tail)


def test_float64_logarithms_would_be_wrong_in_binary64():
    fmt = pr.format("binary64")
    naive = math.floor(math.log(2.0**-1022) / math.log(fmt.largest_below_one))
    assert naive != pr.horizon(fmt.largest_below_one, fmt) == 6380667693064996757


def test_rho_is_taken_exactly():
    """0.9 is a float64 a little above nine tenths; at eps = 0.9^10 that decides."""
    eps = Fraction(9, 10) ** 10
    assert pr.horizon("0.9", eps) == pr.horizon(Fraction(9, 10), eps) == pr.horizon(Decimal("0.9"), eps) == 10
    assert pr.horizon(0.9, eps) == pr.horizon(np.float64(0.9), eps) == pr.horizon(mpmath.mpf(0.9), eps) == 10
    above = eps * (1 + Fraction(1, 10**17))
    assert (pr.horizon("0.9", above), pr.horizon(0.9, above)) == (9, 10)
    assert pr.horizon("63/64", "1/2") == pr.horizon(Fraction(63, 64), Fraction(1, 2)) == 44
    assert pr.horizon(np.float32(0.5), np.float16(0.25)) == pr.horizon(mpmath.mpf(0.5), mpmath.mpf(0.25)) == 2


def test_formats_may_be_given_in_every_way():
    assert (
        pr.horizon(0.99, "half")
        == pr.horizon(0.99, np.float16)
        == pr.horizon(0.99, np.dtype("float16"))
        == pr.horizon(0.99, pr.format("binary16"))
        == pr.horizon(0.99, 2.0**-14)
    )
    mine = pr.FloatFormat.from_bits(5, 10, name="mine")
    assert pr.horizon(0.99, mine, underflow="subnormal") == pr.horizon(0.99, 2.0**-24)
    assert pr.horizon(0.99, float) == pr.horizon(0.99, "binary64")


@pytest.mark.parametrize("kind", ["pointwise", "tail"])
@pytest.mark.parametrize(
    ("rho", "eps", "expected"),
    [
        (0, 0.5, {0}),
        (0, 5, {0}),
        (0.0, math.inf, {0}),
        (0, 0, {math.inf}),
        (0.5, 0, {math.inf}),
        (0.5, math.inf, {0}),
        (1, 0.5, {math.inf}),
        (1, 1, {math.inf}),
        (1, 1.5, {0, math.inf}),  # 1 < 1.5 always, but a sum of ones isn't
        (1.5, 100, {math.inf}),
        (1.5, math.inf, {0, math.inf}),
        (math.inf, 1, {math.inf}),
        (math.inf, math.inf, {math.inf}),
    ],
)
def test_ends_of_the_range(rho, eps, expected, kind):
    found = pr.horizon(rho, eps, kind)
    assert found in expected
    if len(expected) == 2:
        assert found == (0 if kind == "pointwise" else math.inf)


def test_a_level_above_one_needs_no_steps_or_the_sum_of_some():
    assert pr.horizon(0.5, 1.5) == 0
    assert pr.horizon(0.9, 5, "tail") == definition(Fraction(0.9), 5, "tail") == 6
    assert pr.horizon(0.9, 100, "tail") == 0


@pytest.mark.parametrize("rho", [math.nan, -0.5, "-1", "nan", "x", mpmath.mpf("nan"), Decimal("nan"), -math.inf])
def test_rates_that_bound_nothing(rho):
    with pytest.raises(OptionError, match="rho"):
        pr.horizon(rho, "half")


@pytest.mark.parametrize("eps", [math.nan, -1.0, Fraction(-1, 3), "-0.5"])
def test_levels_that_are_none(eps):
    with pytest.raises(OptionError, match="eps"):
        pr.horizon(0.5, eps)


@pytest.mark.parametrize("rho", [True, None, 1j, [0.5]])
def test_no_numbers(rho):
    with pytest.raises(DTypeError):
        pr.horizon(rho, "half")


def test_options():
    with pytest.raises(OptionError, match="kind"):
        pr.horizon(0.5, "half", "sum")
    with pytest.raises(OptionError, match="underflow"):
        pr.horizon(0.5, "half", underflow="gradual")
    with pytest.raises(OptionError, match="pass the smaller number"):
        pr.horizon(0.5, 0.25, underflow="subnormal")
    with pytest.raises(OptionError, match="could mean"):
        pr.horizon(0.5, "fp8 e4m3")
    with pytest.raises(DTypeError):
        pr.horizon(0.5, np.int32)
    with pytest.raises(DTypeError):
        pr.horizon(0.5, True)


def test_numbers_of_any_size():
    assert pr.horizon("0.5", Fraction(1, 2**100_000)) == 100_000
    assert pr.horizon(1 - Fraction(1, 10**400), Fraction(1, 2)) == definition_near_one(400)
    assert pr.horizon("1e-100000", "1e-99999") == 0


def definition_near_one(digits):
    """Return floor(log 2 / -log(1 - 10^-digits)), from log 2 (10^digits - 1/2) up to a part in 10^digits."""
    context = mpmath.MPContext()
    context.dps = 2 * digits + 20
    return int(context.floor(context.log(2) * (context.mpf(10) ** digits - context.mpf(1) / 2)))


def test_the_precision_of_mpmath_stays_the_users():
    mpmath.mp.dps, mpmath.iv.dps = 21, 22
    pr.horizon("0.99", "binary128")
    assert (mpmath.mp.dps, mpmath.iv.dps) == (21, 22)
