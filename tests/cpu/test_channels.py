"""The channels path against the definition: bit for bit where it is a plain loop, within the proved bound elsewhere."""

import numpy as np
import pytest
from fused import DTYPES, assert_same, defined, parts, problems, real_type, solve, to_storage
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import one_in

from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

# Windows that are followed by plain loops, and those that slide because their loops would be too many.
PLAIN = [Full(), Uniform(1), Uniform(3), Uniform(8), Jagged(4), Jagged(3, 0), Jagged(2, 3), Jagged(1, 7), Jagged(50)]
LONG = [Uniform(9), Uniform(12), Jagged(2, 8), Jagged(3, 9)]


@settings(max_examples=80)
@given(problem=problems(), window=st.sampled_from(PLAIN))
def test_plain_loops_bit_for_bit(problem, window):
    """Every dtype, shape, window of few blocks and direction; NaN, infinities and signed zeros included."""
    a, u, x0, reverse = problem
    assert_same(solve(a, u, x0, reverse, window), to_storage(defined(a, u, x0, reverse, window), u.dtype))


def error_bound(a, u, x0, reverse, window):
    """Bound |x - x~| of a sliding window and of the plain loop together, by the number of roundings.

    A term passes d steps. In the plain loop it is rounded d + 1 times. Sliding, it is rounded once for each step of
    its product, once for each later term of its suffix and once more: fewer than d + span times. A complex step rounds
    twice where a real one rounds once, and |re| + |im| bounds its parts. Products below the smallest number lose at
    most eta a step, which the factors before and after, at most `growth` in all, magnify.
    """
    kind = np.finfo(real_type(u.dtype))
    unit, eta = float(kind.eps) / 2, float(kind.smallest_subnormal)
    rounds = 2 if u.dtype.kind == "c" else 1
    span = window.lags if isinstance(window, Uniform) else window.block * (window.terms + 1)

    def sizes(array):
        wide = array.astype(np.complex128)
        return abs(wide.real) + abs(wide.imag)

    with np.errstate(all="ignore"):
        a, u = np.broadcast_arrays(sizes(a), sizes(u))
        x0 = None if x0 is None else sizes(x0)
        gamma = [rounds * count * unit / (1 - rounds * count * unit) for count in (span + 1, 2 * span)]
        reach = windowed(a, u, window, x0, reverse)
        ones = np.ones_like(a)
        # A product that takes in NaN or infinity isn't used.
        factors = np.where(np.isfinite(a), np.maximum(a, 1), 1)
        growth = 2 ** windowed(ones, np.log2(factors), Uniform(2 * span), None, reverse)
        entries = windowed(ones, u, window, x0, reverse)
        return sum(gamma) * reach + 2 * span * eta * growth**2 * (1 + entries)


@pytest.mark.parametrize("window", one_in(2, LONG), ids=str)
@settings(max_examples=24)
@given(problem=problems(most=45))
def test_long_windows_within_the_bound_and_with_exact_special_values(window, problem):
    a, u, x0, reverse = problem
    if u.dtype.itemsize == 2:
        u, a = u.astype(np.float32), a.astype(np.float32)
    x, exact = solve(a, u, x0, reverse, window), defined(a, u, x0, reverse, window)
    special = ~np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(x), ~special)
    assert_same(np.where(special, x, 0), np.where(special, exact, 0))
    error = abs(parts(np.where(special, 0, x)).astype(np.float64) - parts(np.where(special, 0, exact)))
    error = error.max(axis=-1) if u.dtype.kind == "c" else error
    # The bound is NaN, and says nothing, where the sizes of finite numbers overflow.
    assert not (error > error_bound(a, u, x0, reverse, window)).any()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_states_that_overflow_on_the_way_stay_infinite(dtype, reverse):
    """Also where the product of all coefficients brings the input back, wherever the way crosses an edge.

    In each channel one input is large and two coefficients take it beyond the largest number and back.
    """
    n, window = 40, Uniform(12)
    pairs = [(j, i) for j in range(1, 28) for i in range(j + 1, j + 10)]
    a, u = np.ones((n, len(pairs)), dtype=dtype), np.zeros((n, len(pairs)), dtype=dtype)
    for channel, (j, i) in enumerate(pairs):
        u[j, channel] = 2.0 ** (np.finfo(dtype).maxexp - 3)
        a[i, channel], a[i + 1, channel] = 16, 1 / 16
    if reverse:
        a[1:], u = a[:0:-1].copy(), u[::-1].copy()
    if dtype.kind == "c":
        expected = defined(a[:, ::5], u[:, ::5], None, reverse, window)
        assert_same(solve(a, u, None, reverse, window)[:, ::5], expected)
        return
    with np.errstate(all="ignore"):
        expected = windowed(a, u, window, None, reverse)  # powers of two: nothing is rounded
    assert np.isinf(expected).any()
    assert_same(solve(a, u, None, reverse, window), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [*PLAIN, Jagged(3, 9), Uniform(20), Uniform(33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_wide_rows_have_the_bits_of_narrow_ones(window, reverse):
    """Rows of four vectors and more are walked in the order of memory, several vectors at a time.

    Windows that slide are walked sixteen steps at a time.
    """
    rng = np.random.default_rng(4)
    a, u = rng.uniform(-1, 1, (45, 2, 150)).astype(np.float32), rng.standard_normal((45, 2, 150)).astype(np.float32)
    for groups, first, last in [(2, 0, 150), (1, 3, 147), (1, 10, 74)]:
        wide = (slice(None), slice(groups), slice(first, last))
        wide_u = u[wide].copy()
        for wide_a in (a[wide].copy(), a[wide][..., :1].copy()):
            x = solve(wide_a, wide_u, None, reverse, window)
            for at in range(0, last - first, 30):
                piece = (slice(None), slice(0, 1), slice(at, at + 30))
                narrow_a = np.broadcast_to(wide_a, x.shape)[piece].copy()
                np.testing.assert_array_equal(x[piece], solve(narrow_a, wide_u[piece].copy(), None, reverse, window))
