"""Many rows at once: each is solved as if it were alone, from its own initial state, to its own place."""

from itertools import permutations

import numpy as np
import pytest
from layouts import Layout

import recfact as rf
from recfact.cpu import limits, rows
from recfact.cpu.limits import BATCH
from recfact.cpu.row_job import initial_states
from recfact.cpu.tiles import Tile
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(100)]


def problem(shape, rng, dtype=np.float32):
    return rng.uniform(-1, 1, shape).astype(dtype), rng.standard_normal(shape).astype(dtype)


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
    a, u = problem((2, 3, 300), rng)
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


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_coefficients_without_strides(window, rng):
    _, u = problem((3, 300), rng)
    a = np.array([[0.5], [-0.9], [0.0]], np.float32)
    expected = alone(a, u, None, window=window)
    np.testing.assert_array_equal(rf.solve(a, u, window=window), expected)
    np.testing.assert_array_equal(rf.solve(a[1, 0], u, window=window)[1], expected[1])
    np.testing.assert_array_equal(rf.solve(a[1], u[1:2], window=window)[0], expected[1])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_what_spoils_a_row_stays_in_it(window, rng):
    a, u = problem((5, 400), rng)
    clean = rf.solve(a, u, window=window)
    u[2, 130], a[2, 300], a[4, 0] = np.nan, np.inf, np.nan
    x = rf.solve(a, u, window=window)
    np.testing.assert_array_equal(x[[0, 1, 3]], clean[[0, 1, 3]])
    assert np.isfinite(x[4]).all()
    assert np.isnan(x[2, 130])


@pytest.mark.parametrize("direction", [{}, {"reverse": True}], ids=str)
def test_more_rows_than_a_table_of_addresses_holds(direction):
    count = BATCH + 3
    a = np.ones((1, 64), np.float32)
    u = np.broadcast_to(np.arange(count, dtype=np.float32)[:, None], (count, 64))
    x = rf.solve(a, u, **direction)
    steps = np.arange(1, 65)[:: -1 if direction else 1]
    np.testing.assert_array_equal(x[::997], (u * steps)[::997])
    np.testing.assert_array_equal(x[-5:], (u * steps)[-5:])


@pytest.mark.parametrize("steps", [1, 63, 64, 65, 300])
def test_short_rows_take_another_path_to_the_same_states(steps, rng):
    """Below 64 steps many rows are solved side by side, by plain loops; one row never is."""
    a, u = (rng.integers(-1, 2, (9, steps)).astype(np.float32) for _ in "au")  # exact in any order
    for options in ({}, {"window": Jagged(16)}, {"window": Uniform(32)}, {"reverse": True}):
        np.testing.assert_array_equal(rf.solve(a, u, **options), alone(a, u, None, **options))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("spoilt", [False, True])
def test_rows_of_one_sub_tile_have_the_bits_of_a_row_alone(dtype, spoilt, rng):
    a, u = problem((7, 64), rng, dtype)
    x0 = rng.standard_normal(7).astype(np.float32)
    if spoilt:
        u[1, 20], u[2, 63], a[3, 30] = np.nan, np.inf, np.inf
        a[4, 10:13] = np.finfo(dtype).max  # their product overflows, no state does
        u[4, :10], x0[4] = 0, 0
        u[4, 10:] = 0
    for options in ({}, {"reverse": True}, {"x0": x0}):
        given = {"x0": None, **options}
        np.testing.assert_array_equal(rf.solve(a, u, **given), alone(a, u, **given))
    tile = rows.tile_of(a.T, u.T, np.empty_like(u).T, False, Full())
    assert tile.sub_tiles == 64 // tile.sub_tile  # the sub-tile has 64 steps of float32 and of the halves


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("count", [1, 3])
def test_states_that_are_kept_go_on_at_any_tile(dtype, count, rng):
    tile = Tile(np.dtype(dtype).name, False)
    n = 5 * tile.steps + 17
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
    assert rows.tile_for(np.dtype(np.complex64), False, window) is None
