"""What products of coefficients lose where they become too small, on coefficients that make most of it.

Where no coefficient passes 1, the term of an input u_j in a state is wrong, besides its roundings, by no more than

    (min(K, 1 / (1 - t)) + 6) s |u_j|

with the smallest number s of the type computed in, the number K of sub-tiles in a span or a block, and the largest
product t of the coefficients of a sub-tile: the page on the engine has the proof. What a sum loses comes on top, s/2.
"""

from functools import cache

import numpy as np
import pytest
from running_products import split_products
from walks import first_steps

import recfact as rf
from recfact import precision as pr
from recfact.cpu import limits
from recfact.cpu.rows import tile_for
from recfact.cpu.scales import SPACING
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
    near, rest = split_products(first, a[1:].tolist())
    return a, first, near.real, rest.real


def largest_of_sub_tiles(a, steps):
    """Return a bound of the products of the coefficients of any sub-tile."""
    logs = np.cumsum(np.log2(abs(a[1:].astype(float))))
    return float(np.exp2(np.max(logs[steps:] - logs[:-steps]))) * (1 + 2.0**-16)


@pytest.mark.sampled(1)
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
    most_rounds = -(-length // sub_tile) if isinstance(tile, Tile) else min(length, 9)
    rounds = min(most_rounds, 1 / (1 - passed) if passed < 1 else np.inf)
    smallest = float(np.finfo(dtype).smallest_subnormal)
    counts = np.arange(n) + 7 + (length / sub_tile if isinstance(window, Uniform) else 0)
    gamma = counts * np.finfo(dtype).epsneg / (1 - counts * np.finfo(dtype).epsneg)
    lost = smallest * ((rounds + 6) * first + counts / 2)
    most = (gamma * abs(near) + lost * (1 + gamma)) * (1 + 2.0**-40)
    assert (abs((x - near) - rest)[kept] <= most[kept]).all()
    assert (x[~kept] == 0).all()


def along(a, u, reverse, window, channels):
    """Solve in the order of the steps, or the same steps in reverse. Several channels are all the same."""
    if reverse:
        a, u = np.concatenate([a[:1], a[:0:-1]]), u[::-1]
    if channels > 1:
        a, u = (np.repeat(array[:, None], channels, axis=1) for array in (a, u))
    x = rf.solve(a, u, window=window, reverse=reverse, axis=0)
    if channels > 1:
        assert (x == x[:, :1]).all()
        x = x[:, 0]
    return x[::-1] if reverse else x


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_terms_lose_less_in_long_windows_of_channels(kind, dtype, reverse, large):
    """K is 9. So many steps lie before the edge that the term crosses, and the others behind it.

    Inputs beyond `TAME` are solved by another loop.
    """
    steps = limits.SPAN + 1
    coefficients, largest, *parts = case(kind, steps, dtype)
    first = largest if large else 2.0**49
    near, rest = (part * (first / largest) for part in parts)
    smallest, unit = (float(value) for value in (np.finfo(dtype).smallest_subnormal, np.finfo(dtype).epsneg))
    counts = np.arange(steps) + 7 + steps
    gamma = counts * unit / (1 - counts * unit)
    most = (gamma * abs(near) + smallest * ((9 + 6) * first + counts / 2) * (1 + gamma)) * (1 + 2.0**-40)
    for before in (0, 1, -int(np.finfo(dtype).minexp) + 30, steps // 2):
        a, u = np.ones(2 * steps, dtype), np.zeros(2 * steps, dtype)
        begin = steps - 1 - before
        a[begin + 1 : begin + steps], u[begin] = coefficients[1:], first
        x = along(a, u, reverse, Uniform(steps), channels=20).astype(float)
        seen = x[begin : begin + steps]
        assert (abs((seen - near) - rest) <= most).all()
        assert not x[:begin].any()
        assert not x[begin + steps :].any()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("dtype", "coefficient"), [(np.float32, 0.97), (np.float32, -0.6), (np.float64, 0.8)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("channels", [1, 20])
def test_long_products_of_a_uniform_window_keep_their_digits(dtype, coefficient, reverse, channels):
    """In the block of the state, and in the block before it, from the smallest number that isn't 0 on."""
    lags, numbers = 10_000, np.finfo(dtype)
    first = float(np.ldexp(1.0, int(numbers.maxexp) - 28))
    a, u = np.full(2 * lags, coefficient, dtype), np.zeros(2 * lags, dtype)
    smallest = float(numbers.smallest_subnormal)
    most = int(np.log(smallest) / np.log(abs(coefficient)))  # coefficients whose product isn't smaller
    near, rest = (part.real for part in split_products(first, a[1 : lags + 1].tolist()))
    for split in (0, 1, most // 3, most // 2, most - 1):  # so many before the block of the state, and others in it
        u[:] = 0
        u[lags - 1 - split] = first
        x = along(a, u, reverse, Uniform(lags), channels)
        steps = np.arange(split + 1, lags)
        found = x[lags : lags + len(steps)].astype(float)
        gamma = (steps + 8 + (lags if channels > 1 else lags // 32)) * numbers.epsneg * (1 + 2.0**-10)
        lost = (steps > most) * smallest * first
        assert (abs((found - near[steps]) - rest[steps]) <= gamma * abs(near[steps]) + lost).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lags", [46, 51, 96])
def test_products_of_runs_keep_their_digits(dtype, reverse, lags):
    """Wherever an input lies in its block, if no coefficients are so small that turns come too late for them."""
    numbers, apart, blocks = np.finfo(dtype), 3 * lags, 60
    first = float(np.ldexp(1.0, int(numbers.maxexp) - 28))
    least = (float(numbers.smallest_normal) * (2.0**512 if dtype == np.float64 else 2.0**80)) ** (1 / SPACING)
    coefficient = dtype(max(1.01 * least, float(numbers.smallest_subnormal) ** (1 / (lags - 1))))
    a = np.full(blocks * lags, coefficient)
    near, rest = (part.real for part in split_products(first, a[1 : lags + 1].tolist()))
    gamma = (np.arange(lags) + 8 + lags) * numbers.epsneg * (1 + 2.0**-10)
    for place in range(lags):
        u = np.zeros_like(a)
        u[place::apart] = first
        found = along(a, u, reverse, Uniform(lags), 1)[place:].astype(float)
        found = found[: len(found) // apart * apart].reshape(-1, apart)
        assert (abs((found[:, :lags] - near[:lags]) - rest[:lags]) <= gamma * abs(near[:lags])).all()
        assert not found[:, lags:].any()


@pytest.mark.parametrize(("dtype", "turn"), [(np.float32, 120), (np.float64, 1000)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("channels", [1, 20])
def test_products_of_a_uniform_window_return_from_where_they_are_small(dtype, turn, reverse, channels):
    """Powers of two: the states are exact, however often the products become small and large again."""
    lags = 8 * (4 * turn + turn // 8)
    powers = abs((np.arange(2 * lags) // 8 + turn) % (2 * turn) - turn)  # 0 .. turn and back, one every eighth step
    a = np.ldexp(1.0, np.diff(-powers, prepend=0)).astype(dtype)
    for split, power in [(0, 0), (0, -3 * turn // 4), (turn // 2, 0), (lags - 9, 0)]:
        u = np.zeros(2 * lags, dtype)
        u[lags - 1 - split] = 2.0**power
        found = along(a, u, reverse, Uniform(lags), channels)[lags : 2 * lags - 1 - split]
        changes = powers[lags - 1 - split] - powers[lags : 2 * lags - 1 - split]
        seen = (power == 0) | (changes > -turn // 4)  # what is lost of a small sum may grow back a little
        np.testing.assert_array_equal(found[seen], np.ldexp(dtype(1), changes + power)[seen])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lags", [17, 18, 19, 32, 33, 47, 95, 96])
def test_small_products_have_the_same_bits_however_channels_are_solved(dtype, reverse, lags):
    """Many channels, a few by runs, one of them, and many beside one that overflows: each way has loops of its own."""
    rng, window = np.random.default_rng(5), Uniform(lags)
    shape = 2000, 20
    power = np.linspace(0.2, 1, 20) * (1600 if dtype == np.float64 else 200) / lags  # products of blocks end anywhere
    a = (rng.uniform(0.2, 0.6, shape) ** power * rng.choice([1, 1, 1, 0.03], shape)).astype(dtype)
    a[rng.random(shape) < 0.02] *= 2.0 ** (-440 if dtype == np.float64 else -60)  # two of them need a scale at once
    a *= rng.choice([1, -1, 0.6 + 0.8j] if a.dtype.kind == "c" else [1, -1], shape).astype(dtype)
    u = (rng.standard_normal(shape) * (np.arange(len(a)) % 29 == 0)[:, None]).astype(dtype)
    x = rf.solve(a, u, axis=0, window=window, reverse=reverse)
    assert (abs(x[x != 0]) < np.finfo(dtype).smallest_normal).any()
    few = rf.solve(a[:, :3].copy(), u[:, :3].copy(), axis=0, window=window, reverse=reverse)
    np.testing.assert_array_equal(few, x[:, :3])
    one = [rf.solve(*(array[:, k].copy() for array in (a, u)), window=window, reverse=reverse) for k in range(8)]
    np.testing.assert_array_equal(np.transpose(one), x[:, :8])
    a[:, -1] = 10
    np.testing.assert_array_equal(rf.solve(a, u, axis=0, window=window, reverse=reverse)[:, :-1], x[:, :-1])


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_engine_covers_it(kind):
    a, first, near, rest = case(kind, 300, np.float32)
    u = np.zeros_like(a)
    u[0] = first
    assert (abs((rf.solve(a, u) - near) - rest) <= pr.engine_bound(a, u, "float32")).all()
    a, u = a[1:], u[1:]
    assert (abs((rf.solve(a, u, x0=first) - near[1:]) - rest[1:]) <= pr.engine_bound(a, u, "float32", x0=first)).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("turn", [0.0, 0.3, np.pi / 4, np.pi / 2])
def test_complex_terms_lose_three_times_as_much_and_vanish(dtype, turn):
    """A product that is turned as it is rounded doesn't stick either."""
    numbers, n = np.finfo(dtype), limits.SPAN
    coefficient = dtype(0.9984 * np.exp(1j * turn))
    first = float(np.ldexp(1.0, int(numbers.maxexp) - 28))
    a, u = np.full(n, coefficient), np.zeros(n, dtype)
    x = rf.solve(a, u, x0=first).astype(complex)
    near, rest = (part[1:] for part in split_products(first, a.tolist()))
    errors, sizes = abs((x - near) - rest), abs(near)
    counts = 3 * (np.arange(n) + 8)  # roundings of both parts: twice in a sum, and sqrt(5) / 2 times in a product
    gamma = counts * numbers.epsneg / (1 - counts * numbers.epsneg)
    sub_tile = tile_for(np.dtype(dtype), False, Full()).sub_tile
    rounds = min(n / sub_tile, 1 / (1 - abs(complex(coefficient)) ** sub_tile))
    lost = 3 * float(numbers.smallest_subnormal) * ((rounds + 6) * first + counts)
    assert (errors <= (gamma * sizes + lost) * (1 + 2.0**-30)).all()
    a[:] = (0.99 if dtype == np.complex64 else 0.98) * np.exp(1j * turn)
    assert rf.solve(a, u, x0=first)[-1] == 0


@pytest.mark.parametrize(("dtype", "powers"), [(np.float32, (3, 3, 3, 2)), (np.float64, (42, 42, 42, 40))])
@pytest.mark.parametrize(
    "options",
    [{}, {"offsets": [0, 30, 70]}, {"offsets": [0, 61, 70]}, {"window": Jagged(100, 2)}, {"window": Jagged(30, 3)}],
    ids=str,
)
def test_what_enters_a_sub_tile_meets_its_products_one_after_the_other(dtype, powers, options):
    """The product of a sub-tile underflows, and its two halves don't. Powers of two: the states are exact."""
    halves, seen = {np.float32: 32, np.float64: 16}[dtype], {np.float32: 62, np.float64: 30}[dtype]
    n, largest = 70, np.finfo(dtype).maxexp - 1
    falls = np.resize(powers, n)
    assert falls[:halves].sum() < -np.finfo(dtype).minexp
    assert falls[: seen - 3].sum() > -np.finfo(dtype).minexp + np.finfo(dtype).nmant
    first = dtype(2.0**largest)
    x0 = np.full(len(options["offsets"]) - 1, first) if "offsets" in options else first
    x = rf.solve(np.ldexp(dtype(1), -falls), np.zeros(n, dtype), x0=x0, **options)
    start = options["offsets"][1] if "offsets" in options else seen
    reached = min(seen, start)
    np.testing.assert_array_equal(x[:reached], np.ldexp(dtype(1), largest - np.cumsum(falls))[:reached])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lags", [17, 29, 30, 31, 32, 33, 46, 47, 63, 100, 255, 256])
def test_small_products_have_the_same_bits_in_runs_and_step_by_step(dtype, reverse, lags):
    """Strided arrays are solved step by step. Few inputs show each bit of products that begin and end beside them."""
    rng, blocks, wide = np.random.default_rng(lags), 300, dtype == np.float64
    a, u = rng.uniform(0.9, 1, blocks * lags), np.zeros(blocks * lags)
    for end in range(lags, (blocks - 1) * lags, lags):
        small = end + rng.integers(-4, 4)  # needs a scale, but not before its turn
        a[small] *= 2.0 ** (-700 if wide else -100)
        a[small + rng.choice([-1, 1]) * rng.integers(1, 16)] *= 2.0 ** (-360 if wide else -40)  # is subnormal till then
        u[end + rng.integers(-lags, lags)] = rng.standard_normal() * 2.0 ** (900 if wide else 100)
    a, u = a.astype(dtype), u.astype(dtype)
    if a.dtype.kind == "c":
        a *= np.exp(1j * rng.uniform(0, 6, len(a))).astype(dtype)
    apart = np.zeros(2 * len(u), dtype)[::2]
    apart[:] = u
    window = Uniform(lags)
    x = rf.solve(a, u, window=window, reverse=reverse)
    found = rf.solve(a, apart, window=window, reverse=reverse, out=np.empty(2 * len(u), dtype)[::2])
    np.testing.assert_array_equal(x, found)
