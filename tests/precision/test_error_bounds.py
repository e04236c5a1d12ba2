"""Bounds of rounding errors, against the sums with counted factors that they stand for."""

from fractions import Fraction
from math import ceil, floor, log2

import numpy as np
import pytest

from recfact.errors import OptionError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import MOST_CHANNELS, forward_bound
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.run import rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.windows import Full, Jagged, Uniform

# A format without underflow to speak of, so that a bound is nothing but counted factors.
FORMAT = FloatFormat.from_bits(exponent=10, fraction=10)
UNIT = Fraction(1, 2**11)

UPWARD = (1 + 2.0**-48) ** 48
"""What bounds of 24 steps are rounded up by: twice a step, by 2^-49 and roundings of float64."""


def factors(count):
    """Return the sum of |L_ij| |u_j| ((1 + u)^N(i, j) - 1), step by step, with indices from 1."""

    def bound(a, u):
        a, u = ([Fraction(abs(value)) for value in values.tolist()] for values in (a, u))
        sums = []
        for i in range(1, len(u) + 1):
            weight, total = Fraction(1), Fraction(0)
            for j in range(i, 0, -1):
                total += weight * u[j - 1] * ((1 + UNIT) ** count(i, j) - 1)
                weight *= a[j - 1]
            sums.append(float(total))
        return np.array(sums)

    return bound


def kogge_stone_additions(i, j, fma=False):
    """Return the additions on the way from u_j to x_i that round by themselves: a stage that changes a row has one."""
    row, count, lag = j - 1, 0, 1
    while lag < i:
        if (i - j) & lag:
            row += lag
            count += not fma
        else:
            count += row >= lag
        lag *= 2
    return count


@pytest.fixture
def numbers(rng):
    return FORMAT.round(rng.uniform(0.25, 1, 24)), FORMAT.round(rng.uniform(0.25, 1, 24))


@pytest.mark.parametrize(
    ("algorithm", "window", "fma", "count"),
    [
        ("sequential", Full(), False, lambda i, j: 2 * (i - j) + (j > 1)),
        ("sequential", Full(), True, lambda i, j: i - j + (j > 1)),
        ("kogge-stone", Full(), False, lambda i, j: i - j + kogge_stone_additions(i, j)),
        ("kogge-stone", Full(), True, lambda i, j: i - j + kogge_stone_additions(i, j, fma=True)),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_is_the_sum_with_counted_factors(numbers, algorithm, window, fma, count):
    bound, expected = (
        forward_bound(*numbers, Arithmetic(FORMAT, fma=fma), algorithm, window=window),
        factors(count)(*numbers),
    )
    assert np.all(bound >= expected)
    assert np.all(bound <= expected * UPWARD)


@pytest.mark.parametrize("underflow", ["gradual", "flush-after"])
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_sequences_are_bounded_one_by_one_as_all_together(family, fma, underflow):
    fmt = FORMATS["binary16"]
    a, u = draw(family, fmt, 12, 2 * MOST_CHANNELS, seed=3)
    for x0 in (None, np.linspace(-1, 1, 2 * MOST_CHANNELS)):
        how = Arithmetic(fmt, fma=fma, underflow=underflow)
        together = forward_bound(a, u, how, x0=x0, axis=0)
        for c in range(2 * MOST_CHANNELS):
            start = None if x0 is None else x0[c]
            np.testing.assert_array_equal(forward_bound(a[:, c], u[:, c], how, x0=start), together[:, c])


def test_brent_kung_is_within_its_count(numbers):
    expected = factors(lambda i, j: i - j + 2 * floor(log2(i)))(*numbers)
    assert np.all(forward_bound(*numbers, FORMAT, "brent-kung") <= expected * UPWARD)


def test_a_single_block(numbers):
    # One block, started by Full() with more steps in a block than there are: the sequential algorithm.
    a, u = (values[:16] for values in numbers)
    np.testing.assert_array_equal(
        forward_bound(a, u, FORMAT, "hierarchical"), forward_bound(a, u, FORMAT, "sequential")
    )


@pytest.mark.parametrize(("fma", "extra"), [(False, 1), (True, 0)])
def test_b2p_is_within_its_count_however_long(numbers, fma, extra):
    block = 4
    bound = forward_bound(*numbers, Arithmetic(FORMAT, fma=fma), "hierarchical", window=Jagged(block))
    expected = factors(lambda i, j: i - j + block + extra)
    for i in range(24):
        first = max(0, i // block - 1) * block
        assert bound[i] <= expected(*(values[first : i + 1] for values in numbers))[-1] * UPWARD


def test_kogge_stone_is_within_its_count(numbers):
    for fma in (False, True):
        expected = factors(lambda i, j: i - j + ceil(log2(i)))(*numbers)
        assert np.all(forward_bound(*numbers, Arithmetic(FORMAT, fma=fma), "kogge-stone") <= expected * UPWARD)


def test_windows_of_the_sequential_algorithm_forget(numbers):
    bound = forward_bound(*numbers, FORMAT, window=Uniform(3))
    for i in range(24):
        own = (values[max(0, i - 2) : i + 1] for values in numbers)
        assert bound[i] == forward_bound(*own, FORMAT)[-1]


def test_nothing_is_lost_where_nothing_is_rounded():
    assert forward_bound([0.5, 0.0, 0.5], [1.0, 2.0, 0.0], "float16").tolist()[:2] == [0, 0]
    assert not forward_bound(np.ones(9), np.zeros(9), "float16", "kogge-stone").any()


def test_underflow_counts_half_of_the_smallest_number():
    a, u = [1.0, 2.0**-12, 1.0], [2.0**-13, 0.0, 0.0]
    bound = forward_bound(a, u, "float16")
    assert 2.0**-25 <= bound[1] <= 2.0**-25 * UPWARD
    assert rounded_solve(a, u, "float16")[1] == 0
    # A product and a sum may be flushed each.
    assert 2.0**-13 <= forward_bound(a, u, Arithmetic("float16", underflow="flush-after"))[1] <= 2.0**-13 * UPWARD


def test_a_subnormal_input_is_flushed_by_a_sum():
    a, u = [0.0, 0.0], [1.0, 2.0**-20]
    assert rounded_solve(a, u, Arithmetic("float16", underflow="flush-before"))[1] == 0
    assert forward_bound(a, u, Arithmetic("float16", underflow="flush-before"))[1] >= 2.0**-20


def test_directed_roundings_lose_up_to_twice_as_much(numbers):
    nearest, up = (
        forward_bound(*numbers, Arithmetic(FORMAT, rounding=rounding)) for rounding in ("nearest-even", "up")
    )
    assert np.all(up[1:] >= 2 * nearest[1:] / UPWARD)


def test_a_cast_at_the_end_counts_once(numbers):
    inner = forward_bound(*numbers, "float32")
    bound = forward_bound(*numbers, Arithmetic(FORMAT, accumulate="float32"))
    sizes = rounded_solve(*numbers, "float64")
    np.testing.assert_allclose(bound, inner + 2.0**-11 * (sizes + inner), rtol=UPWARD - 1)


def test_a_narrower_accumulation_rounds_inputs_too():
    # 1 + 2^-8 isn't a bfloat16, so even adding it to 0 rounds it.
    a, u = [0.0, 0.0], [1.0, 1 + 2.0**-8]
    x = rounded_solve(a, u, Arithmetic("float16", accumulate="bfloat16"))
    error = abs(x[1] - u[1])
    assert 0 < error <= forward_bound(a, u, Arithmetic("float16", accumulate="bfloat16"))[1]


def test_what_a_narrower_accumulation_holds_is_not_rounded_first():
    how = Arithmetic("float16", accumulate="bfloat16")
    assert 2.0**-11 <= forward_bound([0.0], [1.0], how)[0] <= 2.0**-11 * UPWARD
    assert forward_bound([0.0], [1 + 2.0**-9], how)[0] >= 2.0**-9


def test_channels_are_bounded_one_by_one(rng):
    a, u = rng.uniform(-1, 1, (9, 1)), rng.standard_normal((9, 4))
    bound = forward_bound(a, u, "float64", "brent-kung", x0=[1.0, 2.0, 3.0, 4.0], axis=0)
    for c in range(4):
        np.testing.assert_array_equal(bound[:, c], forward_bound(a[:, 0], u[:, c], "float64", "brent-kung", x0=c + 1))


def test_sizes_beyond_float64_have_no_bound():
    bound = forward_bound([1e300, 1e300, 1e300], [1.0, 1.0, 1.0], "float64")
    assert bound[2] == np.inf


def test_large_units():
    # With one bit and many steps the counts' own bound N u / (1 - N u) has no value; this one has.
    bound = forward_bound(np.full(40, 0.5), np.ones(40), FORMATS["float4_e2m1fn"])
    assert np.all(np.isfinite(bound))


@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize(
    ("format", "accumulate", "a", "u"),
    [
        ("float32", "float16", [0.0, 0.0], [2.0**-30, 2.0**-30]),  # lost before anything is added
        ("float64", "float32", [1.0, 1.0], [1 + 2.0**-24, 2.0**-24]),
        ("float64", "float32", [1.0, 0.5], [2.0**-200, 2.0**-200]),
        ("binary128", "float32", [1.0, 1.0], [1 + Fraction(1, 2**24) + Fraction(1, 2**60), 1]),
    ],
)
def test_operations_in_a_narrower_format_round_their_operands_first(format, accumulate, a, u, fma):
    how = Arithmetic(format, accumulate, fma)
    x, bound = rounded_solve(a, u, how), forward_bound(a, u, how)
    state = Fraction(0)
    for i in range(2):
        state = Fraction(a[i]) * state + Fraction(u[i])
        assert abs(Fraction(x[i]) - state) <= Fraction(bound[i])


def test_operations_need_the_zero_and_the_sign_of_their_operands():
    with pytest.raises(OptionError, match="zero and the sign"):
        Arithmetic("float16", accumulate=FloatFormat.from_bits(5, 10, zero=False, nan="none"))
