"""Where rounded products end: the skipping walk against the step-by-step one, closed forms, and other libraries."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from samples import one_in

from recfact import precision as pr
from recfact.errors import OptionError
from recfact.precision.formats.rounding import REPEATABLE, UNDERFLOWS
from recfact.precision.horizons.rounded_powers import iterated_product

NARROW = [fmt for fmt in pr.FORMATS.values() if fmt.bits <= 8]
# What numerics of formats with normal numbers below 1/2 have in common.
REGULAR = [name for name, fmt in pr.FORMATS.items() if fmt.fraction_bits > 0 and fmt.emin < 0]


def underflows(fmt):
    return UNDERFLOWS if fmt.zero else UNDERFLOWS[:1]


def follow(fmt, rho, rounding, underflow, square=False):
    """Return the products rounded one by one, down to zero or to the first that repeats."""
    products = [rho if square else Fraction(1)]
    while products[-1]:
        exact = products[-1] ** 2 if square else rho * products[-1]
        rounded = Fraction(fmt.round(exact, rounding, underflow=underflow))
        if rounded == products[-1]:
            break
        products.append(rounded)
    return products


def check_sequential(fmt, rho, rounding, underflow):
    products = follow(fmt, rho, rounding, underflow)
    found = pr.actual_horizon(fmt, rho, rounding=rounding, underflow=underflow)
    normal = sum(product >= fmt.smallest_normal for product in products) - 1
    if products[-1] == 0:
        assert (found.last_nonzero, found.last_normal) == (len(products) - 2, normal)
        assert found.stagnates_at is None
        assert found.stagnates_from is None
    else:
        assert found.last_nonzero == math.inf
        assert (found.stagnates_from, found.stagnates_at) == (len(products) - 1, products[-1])
        assert found.last_normal == (math.inf if products[-1] >= fmt.smallest_normal else normal)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rounding", REPEATABLE)
@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_the_walk_is_the_product_step_by_step(fmt, rounding):
    below = [Fraction(v) for v in fmt.values() if 0 <= v <= 1]
    for rho in (*below[-5:], *below[:3], *below[:: max(1, len(below) // 6)]):
        for underflow in underflows(fmt):
            check_sequential(fmt, rho, rounding, underflow)


@st.composite
def formats(draw):
    """Formats with 1, of any shape: without subnormals, zero, normal numbers below 1, fraction bits."""
    fraction, zero = draw(st.integers(0, 7)), draw(st.booleans())
    bias = draw(st.integers(-2, 20))
    assume(fraction or zero)
    fmt = pr.FloatFormat.from_bits(
        draw(st.integers(2, 5)), fraction, bias, infinities=False, subnormals=draw(st.booleans()), zero=zero
    )
    assume(fmt.round(Fraction(1)) == 1)
    return fmt


@given(st.data(), formats(), st.sampled_from(REPEATABLE))
def test_the_walk_in_formats_of_any_shape(data, fmt, rounding):
    below = [Fraction(v) for v in fmt.values() if 0 <= v <= 1]
    rho = data.draw(st.sampled_from(below[-16:]))
    underflow = data.draw(st.sampled_from(underflows(fmt)))
    assume(fmt.round(Fraction(1), underflow=underflow) == 1)
    check_sequential(fmt, rho, rounding, underflow)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["binary16", "bfloat16", "tf32"])
@pytest.mark.parametrize("rounding", REPEATABLE)
def test_the_walk_in_wider_formats(name, rounding):
    fmt = pr.format(name)
    rng = np.random.default_rng(5)
    for rho in (0.5, 0.75, *rng.uniform(0.6, 0.99, 1)):
        for underflow in UNDERFLOWS:
            check_sequential(fmt, Fraction(fmt.round(rho)), rounding, underflow)


@pytest.mark.parametrize("name", REGULAR)
def test_the_closed_forms(name):
    """A binade takes 2^p steps; then nearest stops, truncation goes through the subnormals, and flushing ends."""
    fmt = pr.format(name)
    p, emin = fmt.fraction_bits, fmt.emin
    down = 2**p * -emin
    nearest = pr.actual_horizon(fmt)
    assert nearest.last_nonzero == math.inf
    assert (nearest.stagnates_from, nearest.stagnates_at) == (down, fmt.smallest_normal)
    assert pr.actual_horizon(fmt, underflow="flush-result").stagnates_from == down
    for rounding in ("toward-zero", "down"):
        truncated = pr.actual_horizon(fmt, rounding=rounding)
        assert (truncated.last_nonzero, truncated.last_normal) == (2**p * (1 - emin) - 1, down)
    for underflow in ("flush-before", "flush-after"):
        flushed = pr.actual_horizon(fmt, underflow=underflow)
        assert (flushed.last_nonzero, flushed.last_normal, flushed.stagnates_at) == (down, down, None)
    up = pr.actual_horizon(fmt, rounding="up")
    assert (up.stagnates_from, up.stagnates_at) == (1, fmt.largest_below_one)


# format: nearest (from, at), toward zero, flushed, distance whose Kogge-Stone factor is the first to be zero
LITERAL = {
    "binary64": (4602678819172646912, 2.0**-1022, 4607182418800017407, 4602678819172646912, 2**63),
    "binary32": (1056964608, 2.0**-126, 1065353215, 1056964608, 2**31),
    "tf32": (129024, 2.0**-126, 130047, 129024, 2**18),
    "bfloat16": (16128, 2.0**-126, 16255, 16128, 2**15),
    "binary16": (14336, 2.0**-14, 15359, 14336, 2**16),
    "float8_e5m2": (56, 2.0**-14, 59, 56, 2**7),
    "float8_e4m3fn": (48, 2.0**-6, 55, 48, 2**7),
    "float6_e3m2fn": (8, 2.0**-2, 11, 8, 2**5),
    "float6_e2m3fn": (4, 2.0**-1, 7, 0, 2**4),
    "float4_e2m1fn": (None, None, 1, 0, 2),
}


@pytest.mark.parametrize("name", LITERAL)
def test_literal_values(name):
    start, value, truncated, flushed, distance = LITERAL[name]
    nearest = pr.actual_horizon(name)
    assert (nearest.stagnates_from, nearest.stagnates_at) == (start, value)
    assert nearest.last_nonzero == (1 if start is None else math.inf)
    assert pr.actual_horizon(name, rounding="toward-zero").last_nonzero == truncated
    assert pr.actual_horizon(name, underflow="flush-after").last_nonzero == flushed
    assert pr.actual_horizon(name, algorithm="kogge-stone").zero_factor == distance


def test_binary128():
    found = pr.actual_horizon("binary128")
    assert found.stagnates_from == 2**112 * 16382
    assert found.stagnates_at == Fraction(1, 2**16382)


def test_half_precision_steps():
    """float16 halves in 1024 steps what exact powers take 1420 for."""
    rho, x = np.float16(1 - 2.0**-11), np.float16(1)
    seen = {}
    for k in range(1, 14340):
        x = rho * x
        seen[k] = float(x)
    assert seen[1024] == 0.5
    assert seen[14336] == seen[14337] == 2.0**-14
    fmt = pr.format("half")
    truncated = follow(fmt, Fraction(float(rho)), "toward-zero", "gradual")
    assert (truncated[15359], truncated[15360]) == (Fraction(1, 2**24), 0)
    flushed = follow(fmt, Fraction(float(rho)), "nearest-even", "flush-after")
    assert (flushed[14336], flushed[14337]) == (Fraction(1, 2**14), 0)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float16, "half"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e5m2, "e5m2"),
        (ml_dtypes.float8_e4m3fn, "e4m3fn"),
        (ml_dtypes.float8_e3m4, "e3m4"),
        (ml_dtypes.float6_e3m2fn, "e3m2"),
        (ml_dtypes.float6_e2m3fn, "e2m3"),
        (ml_dtypes.float4_e2m1fn, "e2m1"),
    ],
)
def test_the_products_of_other_libraries_end_there(dtype, name):
    found = pr.actual_horizon(name)
    rho, x, k = np.array(found.rho, dtype), np.array(1, dtype), 0
    while True:
        # Products of such narrow numbers are exact in float32, so this rounds once.
        following = np.multiply(rho, x, dtype=np.float32).astype(dtype)
        if following == x or following == 0:
            break
        x, k = following, k + 1
    assert (k if following == 0 else math.inf) == found.last_nonzero
    assert following == 0 or (k, float(x)) == (found.stagnates_from, found.stagnates_at)


def test_a_binade_of_binary32_loses_one_unit_a_step():
    """Every significand of a binade, and every subnormal, in float32 itself."""
    rho = np.float32(1 - 2.0**-24)
    ones = np.arange(2**23, 2**24, dtype=np.int32).astype(np.float32)
    assert np.array_equal((rho * ones)[1:], ones[:-1])
    assert rho * ones[0] == np.float32(2**23 - 0.5)
    subnormals = np.arange(2**23 + 1, dtype=np.int32).view(np.float32)
    assert np.array_equal(rho * subnormals, subnormals)


def test_nearest_never_loses_what_coefficients_above_one_half_leave():
    fmt = pr.format("half")
    smallest = Fraction(fmt.smallest_subnormal)
    assert fmt.round(smallest * Fraction(513, 1024)) == smallest
    assert fmt.round(smallest / 2) == 0
    for rho in (0.51, 0.6, 0.75, 0.999):
        assert pr.actual_horizon(fmt, rho).last_nonzero == math.inf
    assert pr.actual_horizon(fmt, 0.5).last_nonzero == 24


def weights(fmt, factors, rounding, underflow):
    """Return the weight at every lag that these factors of Kogge-Stone reach, each product rounded."""
    reached = [Fraction(1)]
    for factor in factors:
        reached += [Fraction(fmt.round(factor * w, rounding, underflow=underflow)) for w in reached]
    return reached


@pytest.mark.parametrize("fmt", one_in(2, [*NARROW, pr.format("half"), pr.format("bf16")]), ids=str)
def test_kogge_stone_against_every_lag(fmt):
    below = [Fraction(v) for v in fmt.values() if 0 <= v <= 1]
    for rho in (below[-2], below[0], below[len(below) // 2], below[-len(below) // 8]):
        for rounding in REPEATABLE:
            for underflow in underflows(fmt):
                factors = follow(fmt, rho, rounding, underflow, square=True)
                found = pr.actual_horizon(fmt, rho, rounding=rounding, underflow=underflow, algorithm="kogge-stone")
                stuck = factors[-1]
                if stuck:
                    assert found.last_nonzero == math.inf
                    assert (found.stagnates_from, found.stagnates_at) == (2 ** (len(factors) - 1), stuck)
                    assert found.zero_factor is None
                elif len(factors) < 14:
                    reached = weights(fmt, factors[:-1], rounding, underflow)
                    assert found.last_nonzero == max(lag for lag, w in enumerate(reached) if w)
                    assert found.last_normal == max(lag for lag, w in enumerate(reached) if w >= fmt.smallest_normal)
                    assert found.zero_factor == 2 ** (len(factors) - 1)


@pytest.mark.parametrize(
    ("name", "normal", "start", "exponent"),
    [
        ("half", 178821, 197034, -139),
        ("bf16", 22314, 25118, -142),
        ("e4m3fn", 1353, 1566, -146),
        ("e5m2", 654, 762, -147),
    ],
)
def test_narrow_coefficients_in_binary32(name, normal, start, exponent):
    """They follow the exact powers down to the subnormals, and stagnate there."""
    found = pr.actual_horizon(name, algorithm="fp32-accumulate")
    assert found.last_normal == normal == pr.horizon(found.rho, "binary32")
    assert (found.stagnates_from, found.stagnates_at) == (start, 2.0**exponent)


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.97, 0.998])
def test_float32_itself_walks_there(rho):
    found = pr.actual_horizon("float32", rho)
    factor, x, k = np.float32(rho), np.float32(1), 0
    normal = 0
    while (following := factor * x) != x and following:
        x, k = following, k + 1
        normal = k if x >= np.finfo(np.float32).tiny else normal
    assert found.last_normal == normal
    if following:
        assert (found.stagnates_from, found.stagnates_at) == (k, x)
    else:
        assert found.last_nonzero == k


def test_coefficients_are_stored_first():
    assert pr.actual_horizon("half", "0.99").rho == float(np.float16(0.99))
    assert pr.actual_horizon("e4m3fn", "0.99").stagnates_at == 1  # 0.99 is 1 there


@pytest.mark.parametrize("algorithm", ["sequential", "kogge-stone", "fp32-accumulate"])
def test_ends_of_the_range(algorithm):
    zero = pr.actual_horizon("half", 0, algorithm=algorithm)
    assert (zero.last_nonzero, zero.last_normal) == (0, 0)
    one = pr.actual_horizon("half", 1, algorithm=algorithm)
    assert (one.last_nonzero, one.last_normal, one.stagnates_at) == (math.inf, math.inf, 1)
    grows = pr.actual_horizon("half", 1.5, algorithm=algorithm)
    assert (grows.last_nonzero, grows.last_normal, grows.stagnates_at) == (math.inf, math.inf, None)
    assert "grows" in str(grows)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("half", -0.5), {}, "at least 0, got -0.5"),
        (("half", math.nan), {}, "at least 0, got nan"),
        (("half", math.inf), {}, "range"),
        (("half", 1e6), {}, "range"),
        (("e8m0", 0), {}, "range"),
        (("half",), {"rounding": "stochastic"}, "rounding"),
        (("half",), {"algorithm": "brent-kung"}, "algorithm"),
        (("half",), {"underflow": "normal"}, "underflow"),
        (("e8m0",), {"underflow": "flush-after"}, "no zero"),
        (("binary64",), {"algorithm": "fp32-accumulate"}, "binary32 doesn't hold"),
        (("binary64", 1 - 2.0**-26), {}, "too long"),
        (("binary128", 1 - 2.0**-40), {}, "too long"),
        ((pr.FloatFormat.from_bits(2, 2, 9, infinities=False),), {}, "doesn't have"),
        ((pr.FloatFormat.from_bits(3, 2, -1),), {"underflow": "flush-before"}, "doesn't have"),
    ],
)
def test_what_cannot_be(arguments, options, message):
    with pytest.raises(OptionError, match=message):
        pr.actual_horizon(*arguments, **options)


def test_a_walk_of_too_many_runs_stops(monkeypatch):
    monkeypatch.setattr("recfact.precision.horizons.rounded_powers.MOST_RUNS", 10)
    monkeypatch.setattr("recfact.precision.horizons.rounded_powers._Walk.expected_runs", lambda walk: 1.0)
    with pytest.raises(OptionError, match="too long"):
        iterated_product(pr.format("half"), Fraction(3, 4), "nearest-even", "gradual")


def test_what_it_says():
    assert str(pr.actual_horizon("float16")) == (
        "1 - 2^-11 in binary16, sequential, nearest-even, gradual: stays at 2^-14 from lag 14336 on, and never is 0"
    )
    assert pr.actual_horizon("float16", underflow="flush-after").end == "last other than 0 at lag 14336"
    assert pr.actual_horizon("e5m2", algorithm="kogge-stone").end == (
        "last other than 0 at lag 67; the factor of distance 128 is 0"
    )
    assert pr.actual_horizon("e8m0", algorithm="kogge-stone").end.startswith("factors stay at 2^-127 from distance 128")
    assert repr(pr.actual_horizon("half", 0)).startswith("<ActualHorizon 0 in binary16")


def stagnation(fmt, a):
    """Return where x <- round(round(a x) + 1) stops, and after how many steps."""
    x, k = Fraction(0), 0
    while True:
        following = fmt.round(fmt.round(a * x) + 1)
        if following == x:
            return x, k
        x, k = following, k + 1


@pytest.mark.parametrize(("name", "state", "steps"), [("half", 1024, 1644), ("bf16", 128, 205)])
def test_sums_stagnate_at_half_of_their_limit(name, state, steps):
    fmt = pr.format(name)
    a = Fraction(fmt.largest_below_one)
    assert stagnation(fmt, a) == (state, steps)
    assert 1 / (1 - a) == 2 * state


def weights_by_stages(fmt, rho, rounding, underflow, lags):
    """Return the weights of Kogge-Stone's algorithm up to a lag by its definition, factor by factor."""

    def rounded(value):
        return Fraction(fmt.round(value, rounding, underflow=underflow, overflow="saturate"))

    factors = [Fraction(rho)]
    while 1 << len(factors) <= lags:
        factors.append(rounded(factors[-1] ** 2))
    weights = []
    for lag in range(lags + 1):
        weight = Fraction(1)
        for t, factor in enumerate(factors):
            if lag >> t & 1:
                weight = factor if weight == 1 and not lag & ((1 << t) - 1) else rounded(weight * factor)
        weights.append(weight)
    return weights


@pytest.mark.parametrize(
    ("bias", "subnormals"), [(-1, True), (0, True), *((bias, keeps) for bias in (1, 2, 3) for keeps in (True, False))]
)
def test_both_algorithms_in_every_tiny_format_by_the_definition(bias, subnormals):
    fmt = pr.FloatFormat.from_bits(3, 2, bias=bias, subnormals=subnormals)
    for rounding in ("nearest-even", "toward-zero", "up"):
        for rho in (number for number in fmt.values() if 0 <= number < 1):
            for algorithm in ("sequential", "kogge-stone"):
                result = pr.actual_horizon(fmt, rho, rounding=rounding, algorithm=algorithm)
                if algorithm == "kogge-stone":
                    weights = weights_by_stages(fmt, rho, rounding, "gradual", 63)
                else:
                    weights = [Fraction(1)]
                    for _ in range(63):
                        weights.append(Fraction(fmt.round(Fraction(rho) * weights[-1], rounding)))
                for last, level in ((result.last_normal, fmt.smallest_normal), (result.last_nonzero, 0)):
                    reach = [lag for lag, weight in enumerate(weights) if (weight >= level if level else weight)]
                    assert max(reach, default=-1) == min(last, 63)
