"""Many rows at once: each is solved as if it were alone, from its own initial state, to its own place."""

from itertools import permutations, product

import ml_dtypes
import numpy as np
import pytest
from fused import assert_same
from layouts import Layout
from walks import DTYPES

import recfact as rf
from recfact.cpu import limits, rows, short_rows
from recfact.cpu.limits import BATCH
from recfact.cpu.row_job import initial_states
from recfact.cpu.tiles import Tile
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300)]


def problem(shape, rng, dtype=np.float32):
    turn = np.exp(1j * rng.uniform(-3, 3, shape)) if np.dtype(dtype).kind == "c" else 1
    return (turn * rng.uniform(-1, 1, shape)).astype(dtype), (turn * rng.standard_normal(shape)).astype(dtype)


def alone(a, u, x0, **options):
    """Solve each row by a call of its own."""
    a = np.broadcast_to(a, u.shape)
    x = np.empty_like(u)
    for row in np.ndindex(u.shape[:-1]):
        x[row] = rf.solve(a[row], u[row], x0=None if x0 is None else x0[row], **options)
    return x


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_rows_in_any_order_of_axes_are_solved_as_alone(window, threads, rng, monkeypatch):
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    a, u = problem((2, 3, 600), rng)
    x0 = rng.standard_normal((2, 3)).astype(np.float32)
    expected, reverse = alone(a, u, x0, window=window), alone(a, u, None, window=window, reverse=True)
    shared = alone(a[:1], u, x0, window=window)
    for order in permutations((0, 1)):
        for steps in ((1, 1, 1), (-1, 2, 1), (3, -1, 1)):
            layout = Layout((*order, 2), steps)
            out, _ = layout.empty(u.shape, u.dtype)
            given = {"window": window, "threads": threads, "out": out}
            rf.solve(layout.array(a), layout.array(u), x0=x0, **given)
            np.testing.assert_array_equal(out, expected)
            rf.solve(a, layout.array(u), reverse=True, **given)
            np.testing.assert_array_equal(out, reverse)
            rf.solve(a[:1], u, x0=layout.array(x0[..., None])[..., 0], **given)
            np.testing.assert_array_equal(out, shared)


# What is read backwards in the default run. Each of these is a dozen kernels to be compiled. Of the other pairs of type
# and window each has one or the other in the slow run, in turn.
ONE_OR_ALL, TWO = ([flips for flips in product((1, -1), repeat=3) if (flips.count(-1) == 2) == two] for two in (0, 1))
FLIPPED = [("bfloat16", Full()), *product(["float32"], [Full(), Jagged(16)])]
SELDOM = [("float32", Uniform(9)), ("complex64", Uniform(9))]
"""Pairs that are read backwards in all ways, by the slow run alone."""
SLOW = [pair for pair in product(DTYPES, [Full(), Jagged(16), Uniform(9)]) if pair not in FLIPPED + SELDOM]


@pytest.mark.parametrize(
    ("dtype", "window", "flips"),
    [
        *((*pair, ONE_OR_ALL) for pair in FLIPPED),
        *(pytest.param(*pair, TWO, marks=pytest.mark.slow) for pair in FLIPPED + SELDOM),
        *(pytest.param(*pair, ONE_OR_ALL, marks=pytest.mark.slow) for pair in SELDOM),
        *(
            pytest.param(*pair, flips, marks=pytest.mark.slow if k % 2 == place else pytest.mark.exhaustive)
            for k, pair in enumerate(SLOW)
            for place, flips in enumerate((ONE_OR_ALL, TWO))
        ),
    ],
    ids=lambda value: f"{len(value)} flips" if isinstance(value, list) else str(value),
)
@pytest.mark.parametrize("shape", [(1,), (63,), (700,), (3, 512), (2, 5, 600), (3, 64)], ids=str)
def test_flipped_arrays_have_the_bits_of_others(dtype, shape, window, flips, rng, monkeypatch):
    """Some or all of them, on several threads too, and where states aren't finite."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    monkeypatch.setattr(limits, "SPAN", 256)
    a, u = problem(shape, rng, DTYPES[dtype])
    u[..., len(u.T) // 2] = np.inf
    x0 = rng.standard_normal(shape[:-1]).astype(np.float32)
    for options in ({}, {"reverse": True}, {"x0": x0}):
        options["window"] = window
        expected = rf.solve(a, u, threads=1, **options)
        for flipped in flips:
            layouts = [Layout(tuple(range(u.ndim)), (*[1] * (u.ndim - 1), step)) for step in flipped]
            if u.ndim > 1 and len(u.T) >= limits.least_steps(window == Full()):
                tile = rows.tile_of(*(layout.array(u).T for layout in layouts), False, window)
                assert set(tile.flipped) == {name for name, step in zip("aux", flipped, strict=True) if step < 0}
            for threads in (1, 3):
                out, _ = layouts[2].empty(u.shape, u.dtype)
                rf.solve(layouts[0].array(a), layouts[1].array(u), out=out, threads=threads, **options)
                np.testing.assert_array_equal(out, expected)
    shared, turned = np.broadcast_to(a[..., :1], u.shape), u[..., ::-1].copy()[..., ::-1]
    np.testing.assert_array_equal(rf.solve(shared, turned, window=window), rf.solve(shared, u, window=window))


def test_flipped_rows_of_long_blocks_and_of_segments_are_channels(rng):
    a, u = (array[:, ::-1] for array in problem((3, 1200), rng))
    for window, segments in ((Jagged(600), False), (Uniform(600), False), (Full(), True)):
        assert rows.tile_of(a.T, u.T, u.T, False, window, segments) is None
        assert rows.tile_of(a[0], u[0], u[0], False, window, segments).flipped == ""


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_coefficients_without_strides(window, rng):
    _, u = problem((3, 600), rng)
    a = np.array([[0.5], [-0.9], [0.0]], np.float32)
    expected = alone(a, u, None, window=window)
    np.testing.assert_array_equal(rf.solve(a, u, window=window), expected)
    np.testing.assert_array_equal(rf.solve(a[1, 0], u, window=window)[1], expected[1])
    np.testing.assert_array_equal(rf.solve(a[1], u[1:2], window=window)[0], expected[1])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_what_spoils_a_row_stays_in_it(window, rng):
    a, u = problem((5, 600), rng)
    clean = rf.solve(a, u, window=window)
    u[2, 130], a[2, 300], a[4, 0] = np.nan, np.inf, np.nan
    x = rf.solve(a, u, window=window)
    np.testing.assert_array_equal(x[[0, 1, 3]], clean[[0, 1, 3]])
    assert np.isfinite(x[4]).all()
    assert np.isnan(x[2, 130])


@pytest.mark.parametrize("direction", [{}, {"reverse": True}], ids=str)
def test_more_rows_than_a_table_of_addresses_holds(direction, monkeypatch):
    monkeypatch.setattr(limits, "SHORT_ROW", 64)
    count = BATCH + 3
    a = np.ones((1, 64), np.float32)
    u = np.broadcast_to(np.arange(count, dtype=np.float32)[:, None], (count, 64))
    x = rf.solve(a, u, **direction)
    steps = np.arange(1, 65)[:: -1 if direction else 1]
    np.testing.assert_array_equal(x[::997], (u * steps)[::997])
    np.testing.assert_array_equal(x[-5:], (u * steps)[-5:])


@pytest.mark.parametrize("steps", [1, 63, 64, 65, 300, 511, 512])
def test_short_rows_take_another_path_to_the_same_states(steps, rng):
    """Below 512 steps, or 64 of a window, many rows are solved side by side, by plain loops; one row never is."""
    a, u = (rng.integers(-1, 2, (9, steps)).astype(np.float32) for _ in "au")  # exact in any order
    for options in ({}, {"window": Jagged(16)}, {"window": Uniform(32)}, {"reverse": True}):
        np.testing.assert_array_equal(rf.solve(a, u, **options), alone(a, u, None, **options))


# Coefficients of their own, of all rows, and of all steps.
COEFFICIENTS = [(slice(None),), (..., slice(1), slice(None)), (..., slice(1))]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, pytest.param(np.float16, marks=pytest.mark.slow), ml_dtypes.bfloat16]
)
@pytest.mark.parametrize("way", ["forward", "from x0", "reverse"])
@pytest.mark.parametrize("spoilt", [False, True])
def test_short_rows_have_the_bits_of_channels(dtype, way, spoilt, rng, monkeypatch):
    """Rows without gaps, whose coefficients are their own or shared, in every number of whole runs and rows left."""
    for name, value in (("WORTH_THREADS", 1), ("MANY_ROWS", 2), ("RUN", 60), ("TABLED_RUN", 60), ("BATCH", 2)):
        monkeypatch.setattr(limits, name, value)
    shapes = [(1, 2, 5), (9, 1), (40, 2), (70, 3), (33, 4), (50, 7), (17, 37), (3, 5, 90), (19, 511)]
    for shape, part in product(shapes, COEFFICIENTS):
        a, u = problem(shape, rng, dtype)
        if spoilt:
            a[rng.random(shape) < 0.03], u[rng.random(shape) < 0.03] = np.inf, np.nan
        options = {"reverse": way == "reverse"}
        if way == "from x0":
            options["x0"] = rng.standard_normal(shape[:-1]).astype(rf.number_types.accumulator(np.dtype(dtype)))
        columns = (np.moveaxis(np.broadcast_to(array, shape), -1, 0).copy() for array in (a[part], u))
        with np.errstate(all="ignore"):
            expected = np.moveaxis(rf.solve(*columns, axis=0, **options), 0, -1)
            assert_same(rf.solve(a[part], u, **options), expected)
            assert_same(rf.solve(a[part], u, threads=3, **options), expected)
            assert_same(rf.solve(a[part], u, out=u, **options), expected)


def test_which_short_rows_are_one_sequence(rng):
    a, u = (array[..., :9] for array in problem((2, 70, 10), rng))
    a, u, dense = a[:, :, ::-1], u[:, :, ::-1], (a.copy(), u.copy())
    for given in (dense, (a, u), (dense[0][:, :, :1], dense[1]), (dense[0], dense[1][:, :1]), (a, dense[1])):
        ours, theirs = (np.moveaxis(np.broadcast_to(array, (2, 70, 9)), -1, 0) for array in given)
        x = np.moveaxis(np.empty((2, 70, 9), np.float32), -1, 0)
        taken = short_rows.solve_into(ours, theirs, x, None, reverse=False, window=Full(), threads=1)
        assert taken == (given[1] is dense[1] and given[0] is not a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("count", [1, 3])
def test_states_that_are_kept_go_on_at_any_tile(dtype, count, rng):
    tile = Tile(np.dtype(dtype).name, False)
    n = 9 * tile.steps + 17
    a, u = problem((count, n), rng, dtype)
    expected = rf.solve(a, u)
    states = initial_states(np.empty((n, count), dtype), None)
    x = np.empty_like(u)
    for start in range(0, n, 2 * tile.steps):
        piece = (slice(None), slice(start, start + 2 * tile.steps))
        arrays = (array[piece].T for array in (a, u, x))
        rows.solve_into(tile, *arrays, None, window=Full(), threads=1, states=states, start=start)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("dtype", "window"), [(np.float32, Full()), (np.float64, Jagged(100)), (np.float16, Uniform(32))]
)
def test_tiles_exist_for_reals_whose_blocks_are_worth_one(dtype, window):
    assert rows.tile_for(np.dtype(dtype), False, window).storage == np.dtype(dtype).name


def test_long_blocks_and_segments_of_complex_numbers_have_no_tiles():
    kind = np.dtype(np.complex64)
    assert rows.tile_for(kind, False, Full()).sub_tiles == 1
    assert rows.tile_for(kind, False, Full(), segments=True) is None
    most, many = limits.LONG_RUN // 8, limits.MOST_STATES
    for window in (Jagged(most), Uniform(most), Jagged(limits.LONG_BLOCK // 8 // many, many)):
        assert rows.tile_for(kind, False, window) is not None
    for window in (Jagged(most + 1), Uniform(most + 1), Jagged(limits.LONG_BLOCK // 8 // many + 1, many)):
        assert rows.tile_for(kind, False, window) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("real", "dtype"), [(np.float32, np.complex64), (np.float64, np.complex128)])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(7, 2), Uniform(32)], ids=str)
@pytest.mark.parametrize("way", ["forward", "from x0", "reverse"])
def test_complex_numbers_on_an_axis_have_the_bits_of_reals(real, dtype, window, way, rng):
    """Coefficients on the real or the imaginary axis: each part of an input stays on an axis."""
    n = 700
    a, u = problem((n,), rng, real)
    options = {"window": window, "reverse": way == "reverse"}
    x0 = real(0.7) if way == "from x0" else 0
    expected = rf.solve(a, u, **options, **({"x0": x0} if x0 else {}))
    steps = np.arange(n)[:: -1 if way == "reverse" else 1]
    for turn in ([1, 1, 1, 1], [1, 1j, -1, -1j]):  # turns of states from step to step
        turns = np.array(turn)[steps % 4]
        before = {"x0": x0 * np.array(turn)[-1]} if x0 else {}
        given_a = (a * turn[1]).astype(dtype)
        for part in (1, 1j):
            found = rf.solve(
                given_a, (u * turns * part).astype(dtype), **options, **{k: v * part for k, v in before.items()}
            )
            np.testing.assert_array_equal(found, (expected * turns * part).astype(dtype))
