"""What Hierarchical loses to rounding: counted by hand for every strategy and nesting, and held to in fractions."""

from fractions import Fraction
from itertools import product
from math import ceil, log2

import market
import ml_dtypes
import pytest
from market import fractions

from recfact.factorizations.hierarchical import Hierarchical

STRATEGIES = list(product(("gemm", "scan", "sequential"), repeat=2))


def roundings(i, j, levels, n, local="gemm", carrier="sequential", carries=0):
    """Return how many rounded operations the term L[i, j] u[j] passes through at most.

    Each of the n coefficients `carries` some already: those of the product that it is, at the deeper levels.
    """

    def inside(lag, steps, solver, carries):
        if solver == "gemm":  # an entry of lag - 1 products, and a dot product
            return lag * carries + max(lag - 1, 0) + steps
        if solver == "scan":  # lag products, and an addition in every stage
            return lag * carries + lag + ceil(log2(steps))
        return lag * carries + 2 * lag + 1

    length = min(levels[0], n)
    (t, k), (s, m) = divmod(i, length), divmod(j, length)
    if t == s:
        return inside(k - m, length, local, carries) + 1
    read = inside(length - 1 - m, length, local, carries)
    product = length * carries + length - 1
    if len(levels) > 1:
        carried = roundings(t - 1, s, levels[1:], ceil(n / length), local, carrier, product)
    else:
        carried = inside(t - 1 - s, ceil(n / length), carrier, product)
    propagated = (k + 1) * carries + k
    return read + carried + propagated + 2


def test_count_of_roundings_is_the_classical_one():
    for i in range(24):
        for j in range(i // 4 * 4):
            read_as_it_is = j % 4 == 3  # the entry 1 at the end of a row takes no product, and isn't one less than none
            assert roundings(i, j, (4,), 24) == (i - j) + 4 + (i // 4 - j // 4) + read_as_it_is


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("local", "carrier"), STRATEGIES)
@pytest.mark.parametrize("block", [1, 4, 16, (4, 4)])
@pytest.mark.parametrize("name", ["decaying", "random", "reset", "near one", "above one"])
def test_float64_errs_within_its_bound(local, carrier, block, name):
    n = 40
    a, u = market.coefficients(name, n), market.inputs(n)
    h = Hierarchical(a, block, local_solve=local, carrier_solve=carrier)

    def count(i, j):
        return roundings(i, j, h.block, n, local, carrier)

    bound = market.rounding_bound(fractions(a), fractions(u), count, market.unit_roundoff("float64"))
    assert (abs(fractions(h @ u) - market.exact_solution(a, u)) <= bound).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", market.FLOATS)
@pytest.mark.parametrize("name", market.MARKET)
def test_small_floats_round_once(dtype, name):
    n = 33
    a, u = market.coefficients(name, n, dtype), market.inputs(n, dtype)
    computed = Hierarchical(a, 8) @ u
    assert computed.dtype == a.dtype
    unit, wide = market.unit_roundoff(dtype), market.unit_roundoff("float32" if a.dtype.itemsize < 8 else "float64")
    exact = market.exact_solution(a, u)
    bound = market.rounding_bound(fractions(a), fractions(u), lambda i, j: roundings(i, j, (8,), n), wide)
    if wide != unit:
        bound = bound + unit * (abs(exact) + bound)
    info = ml_dtypes.finfo(a.dtype)
    # Products that underflow lose up to half the smallest number each, times what follows: at most n of them a term.
    lost = Fraction(float(info.smallest_subnormal)) * n * n
    largest = Fraction(float(info.max))
    assert all(
        abs(x - y) <= z + lost for x, y, z in zip(fractions(computed), exact, bound, strict=True) if abs(y) < largest
    )
