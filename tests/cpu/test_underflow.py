"""What products of coefficients lose where they become too small, on coefficients that make most of it.

Where no coefficient passes 1, the term of an input u_j in a state is wrong, besides its roundings, by no more than

    (min(K, 1 / (1 - t)) + 6) s |u_j|

with the smallest number s of the type computed in, the number K of sub-tiles in a span or a block, and the largest
product t of the coefficients of a sub-tile: the page on the engine has the proof. What a sum loses comes on top, s/2.
"""

from functools import cache

import mpmath
import numpy as np
import pytest
from walks import first_steps

import recfact as rf
from recfact import precision as pr
from recfact.cpu import limits
from recfact.cpu.rows import tile_for
from recfact.cpu.tiles import Tile
from recfact.windows import Full, Jagged, Uniform


def constant(a, scale, below_one):
    a[:] = 0.9984  # products of sub-tiles, rounded to nearest, would stick at five times the smallest number


def alternating(a, scale, below_one):
    a[:] = -0.9984
    a[1::100] *= -1


def hardly_smaller(a, scale, below_one):
    a[: scale + 2] = 0.5  # to a subnormal number, which no rounding to nearest makes smaller from here on
    a[scale + 2 :: 32] = below_one


def slowly(a, scale, below_one):
    a[: scale + 2] = 0.5
    a[scale + 2 :] = 0.9999


KINDS = [constant, alternating, hardly_smaller, slowly]


@cache
def case(kind, n, dtype):
    """Return coefficients, a large first input, and its states: numbers nearest to them, and what these leave out."""
    numbers = np.finfo(dtype)
    a = np.ones(n, dtype)
    kind(a, -int(numbers.minexp), 1 - numbers.epsneg)
    first = float(np.ldexp(1.0, int(numbers.maxexp) - 28))
    with mpmath.workprec(200):  # a product is wrong by 2^-183 of itself in the end
        exact = [mpmath.mpf(first)]
        for coefficient in a[1:].tolist():
            exact.append(exact[-1] * coefficient)
        near = [float(value) for value in exact]
        rest = [float(value - number) for value, number in zip(exact, near, strict=True)]
    return a, first, np.array(near), np.array(rest)


def largest_of_sub_tiles(a, steps):
    """Return a bound of the products of the coefficients of any sub-tile."""
    logs = np.cumsum(np.log2(abs(a[1:].astype(float))))
    return float(np.exp2(np.max(logs[steps:] - logs[:-steps]))) * (1 + 2.0**-16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [Full(), Jagged(20_000), Uniform(20_000), Uniform(64), Jagged(16)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_terms_lose_no_more_than_stated(kind, dtype, window, reverse):
    n = limits.SPAN + 1
    a, first, near, rest = case(kind, n, dtype)
    u = np.zeros(n, dtype)
    if reverse:  # the first step is a span of its own
        u[-1] = first
        x = rf.solve(np.concatenate([a[:1], a[:0:-1]]), u, window=window, reverse=True)[::-1].astype(float)
    else:
        n, near, rest = n - 1, near[1:], rest[1:]
        x = rf.solve(a[1:], u[1:], x0=first, window=window).astype(float)
    kept = first_steps(n, window, reverse) == 0

    tile = tile_for(np.dtype(dtype), reverse, window)
    sub_tile = tile.sub_tile if isinstance(tile, Tile) else 1  # runs multiply step by step
    length = {Full: lambda: limits.SPAN, Jagged: lambda: window.block, Uniform: lambda: window.lags}[type(window)]()
    passed = largest_of_sub_tiles(a, sub_tile)
    rounds = min(-(-length // sub_tile), 1 / (1 - passed) if passed < 1 else np.inf)
    smallest = float(np.finfo(dtype).smallest_subnormal)
    counts = np.arange(n) + 7 + (length / sub_tile if isinstance(window, Uniform) else 0)
    gamma = counts * np.finfo(dtype).epsneg / (1 - counts * np.finfo(dtype).epsneg)
    lost = smallest * ((rounds + 6) * first + counts / 2)
    most = (gamma * abs(near) + lost * (1 + gamma)) * (1 + 2.0**-40)
    assert (abs((x - near) - rest)[kept] <= most[kept]).all()
    assert (x[~kept] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_engine_covers_it(kind):
    a, first, near, rest = case(kind, 700, np.float32)
    u = np.zeros_like(a)
    u[0] = first
    assert (abs((rf.solve(a, u) - near) - rest) <= pr.engine_bound(a, u, "float32")).all()
    a, u = a[1:], u[1:]
    assert (abs((rf.solve(a, u, x0=first) - near[1:]) - rest[1:]) <= pr.engine_bound(a, u, "float32", x0=first)).all()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("turn", [0.0, 0.3, np.pi / 4, np.pi / 2])
def test_complex_terms_lose_three_times_as_much_and_vanish(dtype, turn):
    """A product that is turned as it is rounded doesn't stick either."""
    numbers, n = np.finfo(dtype), limits.SPAN
    coefficient = dtype(0.9984 * np.exp(1j * turn))
    first = float(np.ldexp(1.0, int(numbers.maxexp) - 28))
    a, u = np.full(n, coefficient), np.zeros(n, dtype)
    x = rf.solve(a, u, x0=first).astype(complex)
    with mpmath.workprec(200):
        exact = [mpmath.mpc(first)]
        for _ in range(n):
            exact.append(exact[-1] * mpmath.mpc(complex(coefficient)))
        errors = np.array([float(abs(mpmath.mpc(found) - state)) for found, state in zip(x, exact[1:], strict=True)])
        sizes = np.array([float(abs(state)) for state in exact[1:]])
    counts = 3 * (np.arange(n) + 8)  # roundings of both parts: twice in a sum, and sqrt(5) / 2 times in a product
    gamma = counts * numbers.epsneg / (1 - counts * numbers.epsneg)
    sub_tile = tile_for(np.dtype(dtype), False, Full()).sub_tile
    rounds = min(n / sub_tile, 1 / (1 - abs(complex(coefficient)) ** sub_tile))
    lost = 3 * float(numbers.smallest_subnormal) * ((rounds + 6) * first + counts)
    assert (errors <= (gamma * sizes + lost) * (1 + 2.0**-30)).all()
    a[:] = (0.99 if dtype == np.complex64 else 0.98) * np.exp(1j * turn)
    assert rf.solve(a, u, x0=first)[-1] == 0
