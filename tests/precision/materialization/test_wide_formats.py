"""The constructions in binary128, against mpmath in 113 bits step by step."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from market import fractions, literal_matrix

from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import format
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.constructions import METHODS, rounded_materialize

QUAD = mpmath.MPContext()
QUAD.prec = 113


def rounded(function, x):
    """Return a function of an mpf, rounded to 113 bits from 400: these decide, unless 287 bits in a row are alike."""
    with QUAD.workprec(400):
        value = function(x)
    return +value


def literal(a, method):
    """Return one block, formed step by step in 113 bits; a list of lists of mpf, down to the diagonal."""
    steps = len(a)
    start, combine = (QUAD.one, QUAD.fmul) if method in ("cumprod", "ratio", "reciprocal") else (QUAD.zero, QUAD.fadd)
    terms = a if combine == QUAD.fmul else [rounded(QUAD.log, x) for x in a]
    prefix, rows = [], []
    for term in terms:
        prefix.append(combine(prefix[-1], term) if prefix else term)
    for i in range(steps):
        row = []
        for j in range(i + 1):
            if method in ("cumprod", "segsum"):
                value = start
                for term in terms[j + 1 : i + 1]:
                    value = combine(value, term)
            elif method == "log-outer":
                value = prefix[i] - prefix[j]
            else:
                value = prefix[i] / prefix[j] if method == "ratio" else prefix[i] * (QUAD.one / prefix[j])
            row.append(value if combine == QUAD.fmul else rounded(QUAD.exp, value))
        rows.append(row)
    return rows


def as_fraction(x):
    sign, significand, exponent, _ = x._mpf_
    return (-1) ** sign * int(significand) * Fraction(2) ** exponent


def coefficients(family, rng):
    draw = {"gates": lambda: rng.uniform(0.05, 1, 7), "growth": lambda: rng.uniform(1, 30, 7)}
    return [Fraction(value) / 3 for value in draw[family]()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["gates", "growth"])
def test_every_step_is_rounded_to_113_bits(method, family, rng):
    a = coefficients(family, rng)
    expected = literal([QUAD.mpf(x.numerator) / x.denominator for x in a], method)
    blocks = rounded_materialize(a, method, format="binary128")
    assert blocks.dtype == object
    assert all(type(value) is Fraction for value in blocks.flat)
    for i, row in enumerate(expected):
        assert blocks[i, : i + 1].tolist() == [as_fraction(value) for value in row]
        assert not blocks[i, i + 1 :].any()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["float16", "float8_e4m3fn", "float64"])
def test_binary128_inside(method, name, rng):
    fmt = format(name)
    a = fmt.round(rng.uniform(0.3, 1, (2, 6)))
    blocks = rounded_materialize(a, method, format=Arithmetic(name, accumulate="binary128"))
    assert blocks.dtype == np.float64
    for block, row in zip(blocks, a, strict=True):
        for i, values in enumerate(literal([QUAD.mpf(float(x)) for x in row], method)):
            assert block[i, : i + 1].tolist() == [float(fmt.round(as_fraction(value))) for value in values]


@pytest.mark.parametrize("method", ["cumprod", "ratio", "reciprocal"])
def test_negative_coefficients_and_a_leading_zero(method, rng):
    a = [Fraction(value) / 3 for value in rng.uniform(-2, 2, 6)]
    expected = literal([QUAD.mpf(x.numerator) / x.denominator for x in a], method)
    blocks = rounded_materialize(a, method, format="binary128")
    assert blocks[5].tolist() == [as_fraction(value) for value in expected[5]]
    blocks = rounded_materialize([0, *a[1:]], method, format="binary128")
    if method == "cumprod":
        assert blocks[5].tolist() == [as_fraction(value) for value in expected[5]]
    else:
        assert all(math.isnan(value) for value in blocks[np.tri(6, dtype=bool)])


def test_zeros_and_negative_numbers_have_logarithms_of_their_own():
    blocks = rounded_materialize([0.5, 0, 0.5, -0.5, 0.5], "segsum", format="binary128")
    assert blocks[:3].tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, Fraction(1, 2), 1, 0, 0]]
    assert all(math.isnan(value) for value in blocks[3:, :3].flat)
    assert blocks[4, 3:].tolist() == [Fraction(1, 2), 1]
    blocks = rounded_materialize([0.5, 0, 0.5], "log-outer", format="binary128")
    assert blocks[0].tolist() == [1, 0, 0]
    assert all(math.isnan(blocks[place]) for place in [(1, 1), (2, 1), (2, 2)])
    assert blocks[1, 0] == blocks[2, 0] == 0  # the exponential of -inf


def test_failures_of_quotients_beyond_the_range():
    tiny = Fraction(1, 2**10000)
    a = [tiny, tiny, tiny]
    products = rounded_materialize(a, format="binary128")
    assert products[1:, 0].tolist() == [tiny, 0]
    quotients = rounded_materialize(a, "ratio", format="binary128")
    assert quotients[1, 0] == 0  # 2^-20000 is 0 there
    assert math.isnan(quotients[2, 1])
    reciprocals = rounded_materialize(a, "reciprocal", format="binary128")
    assert reciprocals[0, 0] == 1
    assert math.isnan(reciprocals[1, 1])
    # 1 / 2^-16400 is beyond the largest number.
    assert rounded_materialize([Fraction(1, 2**16400)], "reciprocal", format="binary128").tolist() == [[math.inf]]
    huge = rounded_materialize([1, 2**10000, 2**10000], format="binary128")
    assert huge[2].tolist() == [math.inf, 2**10000, 1]
    # exp overflows and underflows: the sum of two logarithms is no infinity.
    assert rounded_materialize([1, 2**10000, 2**10000], "segsum", format="binary128")[2, 0] == math.inf
    assert rounded_materialize(a, "segsum", format="binary128")[2, 0] == 0


def test_subnormal_products_are_those_of_fractions(rng):
    a = [Fraction(value) / 3 / 2**5480 for value in rng.uniform(0.5, 1, 4)]
    fmt = format("binary128")
    held = [fmt.round(x) for x in a]
    blocks = rounded_materialize(a, format=fmt)
    assert blocks[3, 0] == fmt.round(fmt.round(held[1] * held[2]) * held[3])
    assert 0 < blocks[3, 0] < fmt.smallest_normal


def test_wide_formats_of_your_own():
    # So wide that no operation on these is rounded, and too narrow in its exponents for float64's smallest number.
    mine = FloatFormat.from_bits(exponent=8, fraction=200)
    a = np.array([0.75, 0.3, -0.7])
    exact = literal_matrix(fractions(a))
    assert rounded_materialize(a, format=mine).tolist() == exact.tolist()
    assert rounded_materialize([1, 2.0**-1000], format=mine)[1, 0] == 0
    assert rounded_materialize(np.array([1, 2**62 + 1]), format=mine)[1, 0] == 2**62 + 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 4), (2, 3, 5)])
def test_any_shape(method, shape, rng):
    a = rng.uniform(0.5, 1, shape)
    blocks = rounded_materialize(a, method, format="binary128")
    assert blocks.shape == (*shape, shape[-1])
    assert blocks.dtype == object
    for place in np.ndindex(shape[:-1]):
        assert blocks[place].tolist() == rounded_materialize(a[place], method, format="binary128").tolist()


def test_mpmath_is_left_alone():
    before = mpmath.mp.prec
    rounded_materialize([0.3, 0.7], "segsum", format="binary128")
    assert mpmath.mp.prec == before
