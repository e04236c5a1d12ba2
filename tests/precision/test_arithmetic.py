"""Operations of a format, against Fractions that are rounded once."""

import operator
from fractions import Fraction

import numpy as np
import pytest

from recfact.errors import OptionError, OptionTypeError
from recfact.precision.arithmetic import Arithmetic, Rounded, odd_sum
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.run import Task, rounded_solve
from recfact.windows import Full, Jagged

OPERATIONS = {
    "multiply": operator.mul,
    "add": operator.add,
    "fma": lambda x, y, z: x * y + z,
}
NAMES = ["float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "binary16", "bfloat16", "tf32", "binary32", "binary64"]
WIDE = FloatFormat.from_bits(exponent=10, fraction=30)


class Single:
    """The operations of a format on plain arrays."""

    def __init__(self, *arithmetic, **options):
        how = Arithmetic(*arithmetic, **options)
        self.rounded, self.round = Rounded(how.format, how, how.random()), Rounded(how.format, how).round

    def __getattr__(self, name):
        return lambda *operands: getattr(self.rounded, name)(*((x,) for x in operands))[0]


def make_numbers(fmt, rng, size):
    """Return numbers near 1, all over the range, and exact opposites of others but for an ulp."""
    low, high = max(fmt.emin - fmt.fraction_bits, -1074), min(fmt.emax, 1000)
    near = np.ldexp(rng.uniform(-2, 2, size), rng.integers(-3, 3, size))
    far = np.ldexp(rng.uniform(-2, 2, size), rng.integers(low, high + 1, size))
    return fmt.round(np.where(rng.random(size) < 0.5, near, far), overflow="saturate")


def expected(operation, operands, fmt, rounding, underflow):
    exact = (OPERATIONS[operation](*map(Fraction, values)) for values in zip(*operands, strict=True))
    return np.array([float(fmt.round(value, rounding, underflow=underflow)) for value in exact])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fmt", [*(FORMATS[name] for name in NAMES), WIDE], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rounding(fmt, operation, rng):
    for rounding in ROUNDINGS[:-1]:
        for underflow in UNDERFLOWS:
            arithmetic = Single(fmt, rounding=rounding, underflow=underflow)
            operands = [make_numbers(fmt, rng, 50) for _ in range(3 if operation == "fma" else 2)]
            if operation == "fma":  # products that nearly cancel, which a product rounded by itself would lose
                with np.errstate(over="ignore"):
                    operands[2][:20] = -fmt.round(operands[0][:20] * operands[1][:20], overflow="saturate")
            found = getattr(arithmetic, operation)(*operands)
            np.testing.assert_array_equal(found, expected(operation, operands, fmt, rounding, underflow))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sign", [1, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("operation", ["multiply", "add"])
def test_all_pairs(name, operation, sign):
    fmt = FORMATS[name]
    values = fmt.values()
    x, y = (np.ravel(grid) for grid in np.meshgrid(values[values * sign >= 0], values))
    found = getattr(Single(fmt), operation)(x, y)
    np.testing.assert_array_equal(found, expected(operation, (x, y), fmt, "nearest-even", "gradual"))


def test_sums_round_once_where_float64_would_have_rounded_before():
    # The product is 2^-24 - 2^-54, which leaves the sum just below a tie; float64 drops 2^-54.
    fmt = FORMATS["binary32"]
    x, y = np.array([2.0**-12 + 2.0**-27]), np.array([2.0**-12 - 2.0**-27])
    assert Single(fmt).fma(x, y, np.array([1 + 2.0**-23]))[0] == 1 + 2.0**-23
    x, small = np.array([1.0]), np.array([2.0**-60])
    assert Single(fmt, rounding="up").add(x, small)[0] == 1 + 2.0**-23
    assert Single(fmt, rounding="down").add(-x, -small)[0] == -1 - 2.0**-23
    assert Single(fmt, rounding="down").add(x, -small)[0] == 1 - 2.0**-24


def test_odd_sums(rng):
    x, y = rng.standard_normal(3000), np.ldexp(rng.standard_normal(3000), rng.integers(-70, 70, 3000))
    for p, q, total in zip(x.tolist(), y.tolist(), odd_sum(x, y), strict=True):
        exact = Fraction(p) + Fraction(q)
        assert abs(Fraction(float(total)) - exact) < Fraction(float(np.spacing(abs(total))))
        assert Fraction(float(total)) == exact or total.view(np.int64) & 1
    special = np.array([np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(odd_sum(special, special), special)


def test_infinities_and_nan():
    for fmt in (FORMATS["binary16"], WIDE, FORMATS["binary64"]):
        inf, one = np.array([np.inf]), np.array([1.0])
        arithmetic = Single(fmt)
        assert arithmetic.multiply(inf, -one)[0] == -np.inf
        assert arithmetic.add(inf, one)[0] == np.inf
        assert np.isnan(arithmetic.add(inf, -inf)[0])
        assert np.isnan(arithmetic.fma(inf, 0 * one, one)[0])
        assert arithmetic.fma(one, one, -inf)[0] == -np.inf


def test_stochastic_sums_are_right_on_average():
    arithmetic = Single("bfloat16", rounding="stochastic", seed=1)
    total = arithmetic.add(np.ones(40000), np.full(40000, 2.0**-9))
    assert set(total) == {1, 1 + 2.0**-7}
    # One in four goes up; six standard deviations.
    assert abs(np.mean(total > 1) - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 40000)


def test_binary128_in_fractions():
    arithmetic = Single("binary128")
    third = arithmetic.round(np.array([Fraction(1, 3)], dtype=object))
    assert Arithmetic("binary128").dtype == object
    total = arithmetic.add(third, third)[0]
    assert total == 2 * third[0]
    assert arithmetic.multiply(third, third)[0] == FORMATS["binary128"].round(third[0] ** 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["binary32", "binary64"])
@pytest.mark.parametrize(
    ("algorithm", "window"),
    [
        ("sequential", Full()),
        ("kogge-stone", Full()),
        ("brent-kung", Full()),
        ("b2p", Jagged(4)),
        ("materialized", Full()),
    ],
)
def test_the_types_of_numpy_are_bitwise_the_same(name, algorithm, window, rng):
    fmt = FORMATS[name]
    numbers = [fmt.round(np.ldexp(rng.uniform(-1, 1, (40, 30)), rng.integers(-5, 1, (40, 30)) * 25)) for _ in range(2)]
    native = rounded_solve(*numbers, fmt, algorithm, window=window, axis=0)
    by_hand = Rounded(fmt, Arithmetic(fmt))
    by_hand.native = None
    (x,) = Task.of(fmt, algorithm, window).run(by_hand, by_hand, [(*numbers, None)])
    np.testing.assert_array_equal(native, x)
    assert np.array_equal(np.signbit(native), np.signbit(x))


def test_what_it_refuses():
    with pytest.raises(OptionError, match="rounding must be"):
        Arithmetic("float16", rounding="odd")
    with pytest.raises(OptionError, match="underflow must be one of"):
        Arithmetic("float16", underflow="sudden")
    with pytest.raises(OptionError, match="has no zero to flush to"):
        Arithmetic("float8_e8m0fnu", underflow="flush-before")
    with pytest.raises(OptionError, match="zero and the sign"):
        Arithmetic("float16", accumulate="float8_e8m0fnu")
    with pytest.raises(OptionTypeError, match="fma must be True or False"):
        Arithmetic("float16", fma="yes")
    with pytest.raises(OptionError, match="seed must be"):
        Arithmetic("float16", rounding="stochastic", seed="one")


def test_is_a_value_that_prints_what_is_not_plain():
    how = Arithmetic("bf16", "float32", fma=True, rounding="up", seed=3)
    assert (how.format, how.accumulate) == (FORMATS["bfloat16"], FORMATS["binary32"])
    assert str(how) == "bfloat16, accumulate=binary32, fma=True, rounding=up"
    assert how == Arithmetic.of(how) == Arithmetic("bfloat16", "fp32", True, "up", "gradual", 3)
    assert Arithmetic.of("float16") == Arithmetic("float16", accumulate="half")
    assert (how.contained, Arithmetic("float16", accumulate="bfloat16").contained) == (True, False)
    assert Arithmetic("float16").options == {}


def test_infinity_and_exact_numbers_beyond_float64():
    arithmetic = Single("float64")
    large, infinite = np.array([1e200]), np.array([np.inf])
    assert arithmetic.fma(large, large, infinite)[0] == np.inf
    assert np.isnan(arithmetic.fma(infinite, large, -infinite)[0])
