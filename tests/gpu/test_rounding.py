"""The bounds that the pages of the kernels state, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from gpu.bare_run import need_compiler
from gpu.cases import Case
from gpu.test_kernels import make_case, solve

from recfact.windows import Jagged, Uniform, Window

ROUNDING = Fraction(1, 2**24)  # of float32
HEADS = "head, time, channel"


@pytest.fixture(autouse=True)
def compiler() -> None:
    need_compiler()


def gamma(count: int) -> Fraction:
    return count * ROUNDING / (1 - count * ROUNDING)


def blocks_of(window: Window) -> tuple[int, int]:
    """Return the steps of a block, and how many blocks before its own a step sees."""
    return (1, window.lags - 1) if isinstance(window, Uniform) else (window.block, window.terms)


def exact(
    case: Case, window: Window, reverse: bool, roundings: Callable[[int, int, int], int]
) -> tuple[list[Fraction], list[Fraction]]:
    """Return the states of the first channel, and bounds for terms rounded so often for their steps and blocks ago."""
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
                most[to] += abs(term) * gamma(roundings(i - j, i // block - j // block, terms))
    return states, most


def sliding(d: int, blocks: int, m: int) -> int:
    """Return the roundings of a term in `sliding`."""
    return d + 1 + (0 if blocks == 0 else max(1, m - blocks))


def errors(case: Case, states: list[Fraction]) -> list[Fraction]:
    return [abs(Fraction(float(value)) - state) for value, state in zip(case.x[0, :, 0], states, strict=True)]


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
        states, most = exact(case, Jagged(2, m), False, lambda *where, fewer=fewer: sliding(*where) - fewer)
        assert (errors(case, states)[2 * m] <= most[2 * m]) == (fewer == 0)
