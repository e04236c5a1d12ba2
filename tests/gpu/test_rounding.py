"""The bounds that the pages of the kernels state, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from gpu.bare_run import need_compiler
from gpu.bounds import HALF_SPACING, RAISED, TENSOR_CORE, UNIT, bound, reference
from gpu.cases import H100, NUMPY, Case
from gpu.test_kernels import make_case, solve

from recfact.windows import Full, Jagged, Uniform, Window
from tools.gpu.emulator import execute

HEADS = "head, time, channel"


@pytest.fixture(autouse=True)
def compiler() -> None:
    need_compiler()


def gamma(count: int, unit: float = UNIT["float32"]) -> Fraction:
    return count * Fraction(unit) / (1 - count * Fraction(unit))


def blocks_of(window: Window) -> tuple[int, int]:
    """Return the steps of a block, and how many blocks before its own a step sees."""
    return (1, window.lags - 1) if isinstance(window, Uniform) else (window.block, window.terms)


def exact(
    case: Case, window: Window, reverse: bool, wrong: Callable[[int, int, int], Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """Return the states of the first channel, and what they may be off by, for terms from so many steps and blocks ago.

    The third number that `wrong` gets is how many blocks before its own a step sees.
    """
    a, u = ([Fraction(float(value)) for value in array[0, :, 0]] for array in (case.a, case.u))
    block, terms = blocks_of(window)
    states, most = ([Fraction(0)] * len(u) for _ in range(2))
    for i in range(len(u)):
        product = Fraction(1)
        for j in range(i, -1, -1):
            if i // block - j // block > terms:
                break
            to, source = (j, i) if reverse else (i, j)
            terms_here = [product * u[source]]
            product *= a[j]
            if j == 0 and case.x0 is not None:
                terms_here.append(product * Fraction(float(case.x0[0, 0, 0])))
            for term in terms_here:
                states[to] += term
                most[to] += abs(term) * wrong(i - j, i // block - j // block, terms)
    return states, most


def sliding(d: int, blocks: int, m: int, fewer: int = 0) -> Fraction:
    return gamma(d + 1 + (0 if blocks == 0 else max(1, m - blocks)) - fewer)


def errors(case: Case, states: list[Fraction]) -> list[Fraction]:
    return [abs(Fraction(float(value)) - state) for value, state in zip(case.x[0, :, 0], states, strict=True)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Uniform(3), Uniform(17), Jagged(5, 3), Jagged(2, 9), Jagged(16, 2)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_sliding_is_within_the_bound_of_its_page(window, reverse):
    for seed, positive in enumerate((False, True)):
        case = make_case(HEADS, 1, 90, 2, "float32", initial=not reverse, seed=seed, size=1.0)
        if positive:
            for array in (case.a, case.u):
                np.abs(array, out=array)
        assert solve(case, window, reverse=reverse).kernel == "sliding"
        states, most = exact(case, window, reverse, sliding)
        assert all(error <= limit for error, limit in zip(errors(case, states), most, strict=True))


def test_a_rounding_fewer_would_be_wrong_of_sliding():
    # Coefficients of 1, and inputs just too small to change a sum: each is lost, in the same direction.
    m, lost = 40, 2.0**-24 * (1 - 2.0**-20)
    case = make_case(HEADS, 1, 5 * m, 2, "float32")
    case.a[...], case.u[...] = 1, 0
    case.u[0, 1 : 2 * m : 2] = lost  # one in each block, beside which there are zeros
    case.u[0, 2 * m - 2 : 2 * m + 1] = np.float32([lost, 1, lost])[:, None]  # the last two of a group, and the next
    assert solve(case, Jagged(2, m)).kernel == "sliding"
    for fewer in (0, 1):
        states, most = exact(case, Jagged(2, m), False, partial(sliding, fewer=fewer))
        assert (errors(case, states)[2 * m] <= most[2 * m]) == (fewer == 0)


def b2p(case: Case, precision: str, reverse: bool) -> tuple[list[Fraction], list[Fraction]]:
    """Return the states of the first channel, and what they may be off by in `b2p` with blocks of 16 steps."""
    dtype, out = case.u.dtype.name, case.x.dtype.name
    stored = Fraction(UNIT[dtype]) ** (2 if precision == "full" else 1)
    spacing = RAISED if dtype == "float16" and precision == "full" else HALF_SPACING[dtype]
    states, most = exact(case, Jagged(16), reverse, lambda d, *_: gamma(d + 37, TENSOR_CORE) + stored)
    # Entries below the normal numbers: each of 16 in the row, and of 16 in what entered, which g_t passes on.
    small = 32 * Fraction(spacing) * Fraction(float(abs(case.u).max()))
    most = [limit + small for limit in most]
    if out != "float32":
        ends = zip(states, most, strict=True)
        most = [limit + Fraction(UNIT[out]) * (abs(x) + limit) + Fraction(HALF_SPACING[out]) for x, limit in ends]
    return states, most


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("precision", ["full", "paper"])
@pytest.mark.parametrize("reverse", [False, True])
def test_b2p_is_within_the_bound_of_its_page(dtype, precision, reverse):
    for out in (dtype, "float32"):
        case = make_case(HEADS, 1, 90, 16, dtype, a_dtype=out, out=out, initial=not reverse, size=1.0)
        assert solve(case, Jagged(16), reverse=reverse, precision=precision).kernel == "b2p"
        states, most = b2p(case, precision, reverse)
        assert all(error <= limit for error, limit in zip(errors(case, states), most, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_where_terms_cancel_the_rounding_at_the_end_is_not_the_largest(dtype):
    case = make_case(HEADS, 1, 90, 16, dtype, a_dtype="float32", out=dtype)
    coefficient = np.float32(1 / 3)
    first = coefficient.astype(NUMPY[dtype])
    rest = (coefficient - first.astype("f4")).astype(NUMPY[dtype])
    case.a[...], case.u[...] = 1, 0
    case.a[0, 1], case.u[0, 0], case.u[0, 1], case.u[0, 2] = coefficient, 1, -first, -rest
    assert solve(case, Jagged(16)).kernel == "b2p"
    states, most = b2p(case, "full", False)
    assert Fraction(UNIT[dtype]) * abs(states[2]) < errors(case, states)[2] <= most[2]


SMALLEST = 2.0**-149  # of float32, which these runs don't flush
# Number type, window, steps, the only input, and where its state is divided by 2^80 twice; later it grows back.
VANISHING = {
    "sweep": ("float32", Full(), 60, 3, 10),
    "chain": ("float32", Full(), 3000, 3, 1030),
    "sliding": ("float32", Uniform(31), 120, 29, 40),
    "b2p": ("bfloat16", Jagged(16), 96, 33, 46),
}


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("kernel", VANISHING)
def test_a_product_that_underflows_loses_the_smallest_number_of_what_it_multiplies(kernel, grows):
    dtype, window, n, first, down = VANISHING[kernel]
    case = make_case(HEADS, 1, n, 16, dtype, out="float32")
    case.a[...], case.u[...] = 1, 0
    case.u[0, first], case.a[0, [down, down + 1]] = 2.0**50, 2.0**-80
    if grows:
        case.a[0, [down + 6, down + 12]] = 2.0**80
    assert solve(case, window).kernel == kernel
    plain, got = reference(case, window, False)[0][:, 0, 0], case.x[0, :, 0].astype(np.float64)  # powers of 2: exact
    lost = np.flatnonzero(got != plain)
    assert not got[lost].any()  # all of a state or nothing
    assert bool(lost.size) == (kernel != "sweep")
    assert (2.0**50 in plain[lost]) == (grows and kernel != "sweep")
    # What came before the product is lost, as if an input had been wrong there, and all that comes later multiplies it.
    later = np.cumprod(np.where(np.arange(n) < down + 2, 1, case.a[0, :, 0].astype(np.float64)))
    assert (plain[lost] <= SMALLEST * 2.0**50 * later[lost]).all()


@pytest.mark.machine_code
@pytest.mark.parametrize("small", [True, False], ids=["states", "products"])
@pytest.mark.parametrize("kernel", VANISHING)
def test_what_is_flushed_to_zero_is_within_its_bound(kernel, small):
    dtype, window, n, first, down = VANISHING[kernel]
    case = make_case(HEADS, 1, n, 16, dtype, out="float32", size=1.0)
    if small:
        case.u[...] = case.u.astype(np.float32) * np.float32(2.0**-124)
    else:
        case.a[...], case.u[...] = 1, 0
        case.u[0, first], case.a[0, [down, down + 1]] = 2.0**50, 2.0**-70
    launch = case.plan(window)
    assert launch.kernel == kernel
    arrays = {"a": case.a, "u": case.u, "x": case.x}
    execute(launch, arrays, H100.capability).check()
    got = np.moveaxis(case.x, case.axis, 0)
    within = []
    for flushed in (False, True):
        right, most = bound(launch, case, window, False, flushed=flushed)
        within.append((abs(got - right) <= most).all())
    # `sweep` has no products of coefficients, and those of `b2p` are halves, whose bound allows for as much.
    assert within == [kernel in ("sweep", "b2p") and not small, True]
