"""Runs: windows of short blocks, solved side by side in pieces of one sequence."""

from itertools import product

import numpy as np
import pytest
from noted import in_turn
from walks import DTYPES, EACH_DTYPE

import recfact as rf
from recfact.cpu import limits
from recfact.cpu.rows import few_channels, runs_of_channels, tile_for
from recfact.cpu.runs import Runs
from recfact.cpu.tiles import Tile
from recfact.number_types import accumulator
from recfact.windows import Full, Jagged, Uniform

JAGGED = [Jagged(2), Jagged(5, 3), Jagged(7, 0), Jagged(13, 2), Jagged(16), Jagged(52), Jagged(64, 2)]
UNIFORM = [Uniform(1), Uniform(3), Uniform(9), Uniform(32), Uniform(53), Uniform(100)]
LENGTHS = [1, 7, 64, 200, 777, 2001]


def draw(n, dtype, rng):
    turn = np.exp(1j * rng.uniform(-3, 3, n)) if np.dtype(dtype).kind == "c" else 1
    return (turn * rng.uniform(-1, 1, n)).astype(dtype), (turn * rng.standard_normal(n)).astype(dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", EACH_DTYPE)
@in_turn("way", ["forward", "from x0", "reverse"])
@pytest.mark.parametrize("window", JAGGED, ids=str)
def test_jagged_windows_have_the_bits_of_plain_loops(window, way, dtype, rng):
    """Which is how channels next to each other are solved."""
    for n in LENGTHS:
        a, u = draw(n, DTYPES[dtype], rng)
        options = {"window": window, "reverse": way == "reverse", "x0": np.float32(0.7) if way == "from x0" else None}
        channels = rf.solve(np.stack([a] * 3, 1), np.stack([u] * 3, 1), axis=0, **options)
        np.testing.assert_array_equal(rf.solve(a, u, **options), channels[:, 1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", EACH_DTYPE)
@in_turn("way", ["forward", "from x0", "reverse"])
@pytest.mark.parametrize("window", [*JAGGED, *UNIFORM[:2], Uniform(8), Uniform(9), Uniform(21)], ids=str)
def test_few_channels_have_the_bits_of_many(window, way, dtype, monkeypatch, rng):
    """With coefficients of their own, of all channels and of all steps; in batches, in place and on threads."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    for n, channels, batch in [(64, 3, 1), (777, 2, 1), (2001, 5, 1), (1999, 7, 3), (400, 2, 4)]:
        shape = (batch, n, channels)
        options = {"window": window, "reverse": way == "reverse", "axis": 1}
        x0 = rng.standard_normal((batch, channels)).astype(np.float32)
        for shared in [shape, (batch, n, 1), (1, 1, 1)]:
            a, u = draw(shared, DTYPES[dtype], rng)[0], draw(shape, DTYPES[dtype], rng)[1]
            many = [np.concatenate([np.broadcast_to(own, shape)] * 8, 2) for own in (a, u)]
            few, entries = ({"x0": x0}, {"x0": np.tile(x0, 8)}) if way == "from x0" else ({}, {})
            expected = rf.solve(*many, **options, **entries)[..., :channels]
            for threads in (1, 3):
                np.testing.assert_array_equal(rf.solve(a, u, threads=threads, **options, **few), expected)
            np.testing.assert_array_equal(rf.solve(a, u, out=u, **options, **few), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, pytest.param(np.float16, marks=pytest.mark.slow), np.complex64]
)
@pytest.mark.parametrize("lags", [9, 21])
@pytest.mark.parametrize("wild", ["nan", "inf", "large inputs", "growth", "overflow"])
def test_few_channels_have_the_bits_of_many_where_states_may_overflow(wild, lags, dtype, monkeypatch, rng):
    """Some groups of runs are solved as windows slide, and the others by runs."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    n = 2500
    for channels, reverse, threads in product((2, 5), (False, True), (1, 3)):
        a, u = draw((n, channels), dtype, rng)
        places = rng.integers(0, n, 2), rng.integers(0, channels, 2)
        if wild == "nan":
            u[places] = a[places[0] // 3, places[1]] = u[700:720, 0] = np.nan
        elif wild == "inf":
            u[places] = np.inf
            a[places[0] // 2] = -np.inf
        elif wild == "large inputs":
            u[300:900] *= 1e4 if dtype == np.float16 else 1e30
        elif wild == "growth":
            a[1000:1100] *= 1.5
        else:
            a[500:560] *= 60 if dtype == np.float16 else 1e20
        options = {"axis": 0, "window": Uniform(lags), "reverse": reverse}
        with np.errstate(all="ignore"):
            many = [np.concatenate([own] * 8, 1) for own in (a, u)]
            expected = rf.solve(*many, **options)[:, :channels]
            x = np.full_like(u, np.nan)
            rf.solve(a, u, out=x, threads=threads, **options)
        np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("storage", ["float32", "complex64"])
def test_which_channels_are_few(storage):
    """Those without gaps, in whose window some blocks lie next to each other; several states have a step each."""
    x = np.zeros((1000, 2, 3), storage)
    one, all_ = np.broadcast_to(x[:, :1, :1], x.shape), np.broadcast_to(x[0, 0, 0], x.shape)
    shared = np.broadcast_to(np.zeros((1000, 1, 1), storage), x.shape)
    for a in (x, shared, all_):
        assert few_channels(a, x, x) == 6
    assert few_channels(one, x, x) == few_channels(x[..., ::-1], x, x) == few_channels(x, x[::-1], x) == 0
    assert few_channels(x[:, :1], x[:, :1], x[:, :1]) == few_channels(x[:, 0, 0], x[:, 0, 0], x[:, 0, 0]) == 0
    many = np.zeros((1000, limits.FEW_LANES), storage)
    assert few_channels(many, many, many) == 0
    dtype = np.dtype(storage)
    for window in (
        Jagged(16),
        Jagged(31, 2),
        Uniform(limits.MOST_STATES),
        Uniform(limits.MOST_STATES + 1),
        Uniform(61),
    ):
        assert runs_of_channels(dtype, False, window, 3, 1000, False).channels == 3
    for window in (Full(), Jagged(32, 2), Jagged(100), Jagged(2, limits.MOST_STATES), Uniform(63)):
        assert runs_of_channels(dtype, False, window, 3, 1000, False) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [*JAGGED, *UNIFORM], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_bits_dont_depend_on_how_long_runs_are(window, reverse, monkeypatch, rng):
    a, u = draw(3001, np.float32, rng)
    some = [np.stack([own] * 3, 1) for own in (a, u)]
    expected = rf.solve(a, u, window=window, reverse=reverse)
    channels = rf.solve(*some, axis=0, window=window, reverse=reverse)
    for size in (1, 100, 1 << 20):
        monkeypatch.setattr(limits, "RUN", size)
        monkeypatch.setattr(limits, "TABLED_RUN", size)
        np.testing.assert_array_equal(rf.solve(a, u, window=window, reverse=reverse), expected)
        np.testing.assert_array_equal(rf.solve(*some, axis=0, window=window, reverse=reverse), channels)


@pytest.mark.parametrize("window", [*JAGGED, *UNIFORM], ids=str)
def test_one_coefficient_for_all_steps(window, rng):
    u = rng.standard_normal(2001)
    np.testing.assert_array_equal(rf.solve(0.875, u, window=window), rf.solve(np.full(2001, 0.875), u, window=window))


@pytest.mark.parametrize("window", [Jagged(5, 3), Jagged(52), Uniform(9), Uniform(53)], ids=str)
@pytest.mark.parametrize("place", [0, 40, 400, 999])
def test_what_isnt_finite_stays_in_its_windows(window, place, rng):
    a, u = draw(1000, np.float64, rng)
    expected = rf.solve(a, u, window=window)
    u[place] = np.nan
    found = rf.solve(a, u, window=window)
    i = np.arange(1000)
    first = i - window.lags + 1 if isinstance(window, Uniform) else (i // window.block - window.terms) * window.block
    inside = (i >= place) & (first <= place)
    assert np.isnan(found[inside]).all()
    assert np.isfinite(found[~inside]).all()
    repeated = inside
    if isinstance(window, Uniform):  # by the definition, which rounds in another order
        repeated = np.isin(i // window.lags, i[inside] // window.lags)
    np.testing.assert_array_equal(found[~repeated], expected[~repeated])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_bound_that_is_too_large_changes_no_bit_where_steps_are_cut(reverse, monkeypatch, rng):
    """|re| + |im| of coefficients multiply to more than the largest number, though their moduli are below 1."""
    lags, n = 400, 8017
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    a = (0.995 * np.exp(1j * rng.uniform(-3, 3, (n, 2)))).astype(np.complex64)
    u = rng.standard_normal((n, 4)).astype(np.float32).view(np.complex64)
    assert runs_of_channels(u.dtype, reverse, Uniform(lags), 2, n, False)
    options = {"axis": 0, "window": Uniform(lags), "reverse": reverse}
    many = rf.solve(np.tile(a, 8), np.tile(u, 8), threads=1, **options)
    for threads in (1, 2, 3, 5):
        np.testing.assert_array_equal(rf.solve(a, u, threads=threads, **options), many[:, :2])


@pytest.mark.parametrize("storage", ["float32", "float64", "float16"])
def test_long_blocks_are_left_to_tiles(storage):
    dtype = np.dtype(storage)
    block, terms = limits.ONE_START, limits.LONG_BLOCK // accumulator(dtype).itemsize // limits.ONE_START
    lags = limits.LONG_LAGS
    for window in (Jagged(block), Jagged(block, terms), Uniform(lags)):
        assert isinstance(tile_for(dtype, False, window), Runs)
    for window in (Full(), Jagged(block + 1, 0), Jagged(block, terms + 1), Uniform(lags + 1)):
        assert isinstance(tile_for(dtype, False, window), Tile)


def test_groups_of_short_windows_wait_in_the_first_cache(monkeypatch):
    monkeypatch.setattr(limits, "TABLED_RUN", 256)
    monkeypatch.setattr(limits, "LEAST_BLOCKS", 4)
    monkeypatch.setattr(limits, "NEAR_RUN", 1024)
    kinds = {Uniform(64): True, Uniform(65): False, Jagged(64): True, Jagged(21, 3): True, Jagged(22, 3): False}
    for window, near in kinds.items():
        tile = tile_for.__wrapped__(np.dtype(np.float32), False, window)
        assert isinstance(tile, Runs)
        assert tile.near == tile.side("a").near == near
        assert tile.name.endswith("_near") == near, "kernels are kept by their names"
    for block, near in {16: True, 42: True, 43: False}.items():
        few = runs_of_channels.__wrapped__(np.dtype(np.float32), False, Jagged(block), 3, 10_000, False)
        assert few is not None
        assert few.near == near
