"""log, exp and quotients rounded to formats, against mpmath and fractions at neighbouring numbers."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from samples import one_in

from recfact.precision.elementary import exponential, logarithm, quotient
from recfact.precision.formats.catalogue import FORMATS, format
from recfact.precision.formats.float_format import FloatFormat

EIGHT_BITS = [name for name, each in FORMATS.items() if each.bits <= 8 and each.zero]


def is_nearest(computed, exact, values):
    """Whether no neighbour of `computed` among the numbers of its format is nearer to the mpf `exact`."""
    place = np.searchsorted(values, computed)
    assert values[place] == computed
    error = abs(mpmath.mpf(float(computed)) - exact)
    neighbours = values[max(place - 1, 0) : place + 2]
    return all(error <= abs(mpmath.mpf(float(other)) - exact) for other in neighbours)


@pytest.mark.parametrize("name", [*EIGHT_BITS, "bfloat16", "float16"])
def test_logarithms_of_all_numbers(name):
    fmt = format(name)
    values = fmt.values()
    x = values[values > 0]
    computed = logarithm(x, fmt)
    with mpmath.workprec(200):
        for value, result in list(zip(x, computed, strict=True))[:: 1 if fmt.bits <= 8 else 7]:
            if np.isfinite(result):
                assert is_nearest(result, mpmath.log(float(value)), values), value


@pytest.mark.parametrize("name", [*EIGHT_BITS, "bfloat16", "float16"])
def test_exponentials_of_all_numbers(name):
    fmt = format(name)
    values = fmt.values()
    computed = exponential(values, fmt)
    with mpmath.workprec(200):
        for value, result in list(zip(values, computed, strict=True))[:: 1 if fmt.bits <= 8 else 7]:
            exact = mpmath.exp(float(value))
            if np.isfinite(result):
                assert is_nearest(result, exact, values), value
            else:
                assert exact > float(fmt.max)


@pytest.mark.parametrize("function", ["log", "exp"])
@pytest.mark.parametrize(("name", "count"), [("float32", 2000), ("float64", 200)])
def test_wide_formats_round_correctly(function, name, count, rng):
    fmt = format(name)
    dtype = np.dtype(name)
    x = rng.uniform(0.001, 3, count).astype(dtype).astype(np.float64)
    x[:3] = 1, 1 - 2.0**-fmt.fraction_bits, 1 + 2.0**-fmt.fraction_bits
    computed = logarithm(x, fmt) if function == "log" else exponential(x, fmt)
    with mpmath.workprec(200):
        for value, result in zip(x, computed, strict=True):
            exact = getattr(mpmath, function)(float(value))
            assert dtype.type(result) == result
            for other in np.nextafter(dtype.type(result), np.array([-9, 9], dtype)):
                assert abs(mpmath.mpf(float(result)) - exact) <= abs(mpmath.mpf(float(other)) - exact)


def test_what_numpy_leaves_open_is_settled(monkeypatch, rng):
    # With a margin that leaves everything open, mpmath decides everything, and the answers stay the same.
    fmt = format("float16")
    x = fmt.round(rng.uniform(0, 2, 300))
    quick = logarithm(x, fmt), exponential(-x, fmt)
    monkeypatch.setattr("recfact.precision.elementary._MARGIN", 0.25)
    settled = logarithm(x, fmt), exponential(-x, fmt)
    assert np.array_equal(quick, settled)


def test_special_arguments():
    half, e4m3 = format("float16"), format("float8_e4m3fn")
    x = np.array([0.0, -0.0, -1.0, 1.0, np.inf, np.nan])
    assert np.array_equal(logarithm(x, half), [-np.inf, -np.inf, np.nan, 0, np.inf, np.nan], equal_nan=True)
    assert np.isnan(logarithm(x[:1], e4m3)).all()  # no infinity there
    x = np.array([0.0, -0.0, -np.inf, np.inf, np.nan, 60000.0, -60000.0])
    assert np.array_equal(exponential(x, half), [1, 1, 0, np.inf, np.nan, np.inf, 0], equal_nan=True)
    assert logarithm(np.zeros((0, 3)), half).shape == (0, 3)


def test_exponents_that_fill_float64():
    wide = FloatFormat.from_bits(11, 10, name="wide")
    x = wide.round(np.array([-708.0, -744.0, 709.0]))
    with mpmath.workprec(100):
        for value, result in zip(x, exponential(x, wide), strict=True):
            exact = mpmath.exp(float(value))
            spacing = max(2.0**-1032, 2.0 ** (np.frexp(result)[1] - 11))
            assert abs(result - exact) <= spacing / 2


@pytest.mark.parametrize("sign", [1, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", one_in(2, ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]))
def test_all_quotients(name, sign):
    fmt = format(name)
    values = fmt.values()
    x, y = (grid.ravel() for grid in np.meshgrid(values[values * sign >= 0], values[values != 0]))
    expected = [float(fmt.round(Fraction(p) / Fraction(q))) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    assert np.array_equal(quotient(x, y, fmt), expected, equal_nan=True)


@pytest.mark.parametrize("bits", [(8, 23), (8, 30), (11, 40), (11, 52), (11, 10)])
def test_quotients_round_once(bits, rng):
    fmt = FloatFormat.from_bits(*bits)
    x, y = fmt.round(rng.uniform(0.5, 2, (2, 500)))
    x[:50] = y[:50] * (1 + 2.0**-fmt.fraction_bits)  # near boundaries
    x = fmt.round(x)
    expected = [float(fmt.round(Fraction(p) / Fraction(q))) for p, q in zip(x.tolist(), y.tolist(), strict=True)]
    assert np.array_equal(quotient(x, y, fmt), expected)


def test_quotients_that_float64_rounds_onto_a_boundary(rng):
    # Quotients that lie next to a boundary of 49 bits, so near that float64 takes some of them for the boundary.
    fmt = FloatFormat.from_bits(11, 48)
    eps = 2.0**-48
    found = 0
    for k, m in rng.integers(0, 1 << 47, (400, 2)).tolist():
        y = 1 + (2 * k + 1) * eps
        boundary = 1 + Fraction(eps) * (m + Fraction(1, 2))
        x = float(fmt.round(boundary * Fraction(y)))
        exact = Fraction(x) / Fraction(y)
        found += float(fmt.round(exact)) != float(fmt.round(x / y))
        assert quotient(np.array([x]), np.array([y]), fmt)[0] == float(fmt.round(exact))
    assert found > 0


def test_quotients_of_special_numbers():
    for fmt in (format("float16"), FloatFormat.from_bits(8, 30)):
        result = quotient(np.array([1.0, 0.0, np.inf, 1.0, 0.0]), np.array([0.0, 0.0, 2.0, np.inf, -3.0]), fmt)
        assert np.array_equal(result, [np.inf, np.nan, np.inf, 0, -0.0], equal_nan=True)


def test_mpmath_is_left_alone():
    before = mpmath.mp.prec
    exponential(np.array([0.3]), format("float64"))
    assert mpmath.mp.prec == before


@pytest.mark.parametrize("function", [logarithm, exponential])
def test_what_float64_rounds_onto_a_boundary(function, rng):
    fmt = FloatFormat.from_bits(8, 47)
    x = fmt.round(rng.uniform(0.1, 3, 300))
    name = {logarithm: "log", exponential: "exp"}[function]
    with mpmath.workprec(200):
        exact = [fmt.round(getattr(mpmath, name)(value)) for value in x.tolist()]
    assert function(x, fmt).tolist() == exact
    assert fmt.round(getattr(np, name)(x)).tolist() != exact


@pytest.mark.parametrize("remainder", [-1, 1])
def test_quotients_next_to_the_middle_of_two_numbers(remainder):
    """Integers x, y with b y = 2^32 x + r: x / y is r / (2^32 y) from b / 2^32, which 31 bits don't hold."""
    fmt, wrong = FloatFormat.from_bits(6, 30), 0
    for y in range((1 << 30) + 1, (1 << 30) + 81, 2):
        b = remainder * pow(y, -1, 1 << 32) % (1 << 32)
        x = (b * y - remainder) >> 32
        exact = float(fmt.round(Fraction(x, y)))
        assert quotient(np.array([float(x)]), np.array([float(y)]), fmt).tolist() == [exact]
        wrong += fmt.round(x / y) != exact
    assert wrong > 0


def nearest_quadruple(exact):
    """Return an mpf, exact to far more than 113 bits, as the nearest number of binary128."""
    with mpmath.workprec(1000):
        if abs(exact) >= mpmath.ldexp(2 - mpmath.ldexp(1, -113), 16383):
            return math.copysign(math.inf, exact)
        spacing = max(mpmath.frexp(exact)[1] - 113, -16494)
        # mpmath's nearest integer is the even one of two.
        return int(mpmath.nint(mpmath.ldexp(exact, -spacing))) * Fraction(2) ** spacing


def exact_scalars(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize("function", [logarithm, exponential])
def test_quadruple_precision_rounds_correctly(function, rng):
    fmt, eps = format("binary128"), Fraction(1, 2**112)
    drawn = [Fraction(value) / 3 for value in rng.uniform(0, 3, 100)]
    spread = [value * Fraction(2) ** int(k) for value, k in zip(drawn, rng.integers(-120, 13, 100), strict=True)]
    edges = [1 + eps, 1 - eps / 2, 1 - eps, eps / 4, eps / 2, eps, Fraction(2) ** -16494, Fraction(2) ** -16382]
    x = fmt.round(exact_scalars([*drawn, *spread, *edges]))
    if function is exponential:
        # Into the subnormal numbers and below, and to both sides of the largest number.
        x = np.concatenate([x, -x, fmt.round(exact_scalars([Fraction(k, 7) for k in range(-80200, -79300, 9)]))])
        x = np.concatenate([x, fmt.round(exact_scalars([Fraction(k, 7) for k in range(79000, 79900, 9)]))])
    name = {logarithm: "log", exponential: "exp"}[function]
    with mpmath.workprec(1000):
        exact = [getattr(mpmath, name)(mpmath.mpf(v.numerator) / v.denominator) for v in x]
    computed = function(x, fmt)
    assert computed.tolist() == [nearest_quadruple(value) for value in exact]
    assert all(isinstance(value, Fraction) or math.isinf(value) for value in computed)
    if function is exponential:
        sizes = abs(computed)
        assert {0, math.inf} < set(sizes)
        assert ((sizes > 0) & (sizes < Fraction(2) ** -16382)).any()


def same(computed, expected):
    """Whether scalars are equal, NaN to NaN, and floats only where they are infinite or NaN."""
    return all(
        (math.isnan(given) and math.isnan(wanted) if wanted != wanted else given == wanted)
        and isinstance(given, Fraction) == (wanted == wanted and abs(wanted) != math.inf)
        for given, wanted in zip(computed, expected, strict=True)
    )


def test_special_arguments_of_wide_formats():
    inf, nan = math.inf, math.nan
    quadruple = format("binary128")
    finite = FloatFormat.from_bits(15, 112, infinities=False)
    x = exact_scalars([Fraction(0), Fraction(-1), Fraction(1), inf, -inf, nan])
    assert same(logarithm(x, quadruple), [-inf, nan, 0, inf, nan, nan])
    assert same(logarithm(x, finite), [nan, nan, 0, nan, nan, nan])
    largest = Fraction(quadruple.max)
    x = exact_scalars([Fraction(0), largest, -largest, inf, -inf, nan])
    assert same(exponential(x, quadruple), [1, inf, 0, inf, 0, nan])
    assert same(exponential(x, finite), [1, nan, 0, nan, 0, nan])
    x = exact_scalars([Fraction(1), Fraction(-2), Fraction(0), Fraction(0), inf, Fraction(1), inf, -inf, nan])
    y = exact_scalars([Fraction(0), Fraction(0), Fraction(0), Fraction(3), inf, -inf, Fraction(-2), Fraction(0), inf])
    assert same(quotient(x, y, quadruple), [inf, -inf, nan, 0, nan, 0, -inf, -inf, nan])
    x, y = exact_scalars([largest, Fraction(1, 2**16494)]), exact_scalars([Fraction(1, 2), Fraction(2)])
    assert same(quotient(x, y, quadruple), [inf, 0])
    assert logarithm(np.zeros((0, 3), dtype=object), quadruple).shape == (0, 3)


def test_exponentials_of_the_largest_numbers():
    fmt = format("float64")
    assert exponential(np.array([1.7e308, -1.7e308, 709.79, -745.2]), fmt).tolist() == [np.inf, 0, np.inf, 0]
    assert 0 < exponential(np.array([-745.1]), fmt)[0] < exponential(np.array([709.78]), fmt)[0] < np.inf


def test_quotients_of_wide_formats_round_once(rng):
    fmt = format("binary128")
    x, y = (fmt.round(exact_scalars([Fraction(value) / 3 for value in rng.uniform(-4, 4, 200)])) for _ in "xy")
    context = mpmath.MPContext()
    context.prec = 113
    x_mpf, y_mpf = ([context.mpf(value.numerator) / value.denominator for value in values] for values in (x, y))
    expected = [p / q for p, q in zip(x_mpf, y_mpf, strict=True)]
    assert quotient(x, y, fmt).tolist() == [nearest_quadruple(value) for value in expected]
