"""What the kernels of rows share: a row in memory, its tiles, and plain steps for the tiles that need them.

A row is the addresses of its first coefficient, input and state and the bytes between neighbours. Steps in reverse
read the coefficient behind each input, x_i = a_{i+1} x_{i+1} + u_i, so their first coefficient is a_1 and there is one
less of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.compilation import helper
from recfact.cpu.numbers import accumulator, fma, integer, load, single, size, store
from recfact.cpu.tile_solvers import number, runs_in_reverse, tile_steps


class Row(NamedTuple):
    """A row in memory.

    ``a``, ``u``, ``x`` are addresses and ``a_step``, ``u_step``, ``x_step`` bytes between neighbours. There are `steps`
    inputs and states, and `known` coefficients.
    """

    a: int
    u: int
    x: int
    a_step: int
    u_step: int
    x_step: int
    steps: int
    known: int


@helper
def row_at(
    tile: Any, rows: int, count: int, index: int, steps: int, a_step: int, u_step: int, x_step: int, alone: bool
) -> Row:
    """Return row `index`, whose addresses of x, u and a stand at `rows`, in three runs of `count`.

    `alone` says that nothing enters the row, so that in reverse its last coefficient isn't there.
    """
    a = integer(rows, 2 * count + index)
    known = steps
    if runs_in_reverse(tile):
        a += a_step
        if alone:
            known -= 1
    return Row(a, integer(rows, count + index), integer(rows, index), a_step, u_step, x_step, steps, known)


@helper
def tile_position(tile: Any, index: int, steps: int) -> Any:
    """Return where tile `index`, in the order of the steps, starts in a row."""
    if runs_in_reverse(tile):
        index = (steps + tile_steps(tile) - 1) // tile_steps(tile) - 1 - index
    return index * tile_steps(tile)


@helper
def copy(tile: Any, source: int, step: int, target: int, target_step: int, count: int) -> None:
    """Copy numbers from one place to another."""
    one = single(tile)
    for i in range(count):
        store(one, target, i * target_step, load(one, source, i * step))


@helper
def side_by_side(tile: Any, base: int, step: int, position: int, end: int, scratch: int, padding: float) -> Any:
    """Return the address of a tile's numbers next to each other: in place, or copied to scratch and filled up."""
    one = single(tile)
    whole = tile_steps(tile)
    count = min(end - position, whole)
    if step == size(one) and count == whole:
        return base + position * step
    copy(tile, base + position * step, step, scratch, size(one), count)
    for i in range(count, whole):
        store(one, scratch, i * size(one), number(one, padding))
    return scratch


@helper
def tile_coefficients(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return the address of a tile's coefficients; those that the row doesn't have are 1."""
    return side_by_side(tile, row.a, row.a_step, position, row.known, scratch, 1.0)


@helper
def tile_inputs(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return the address of a tile's inputs; those that the row doesn't have are 0."""
    scratch += tile_steps(tile) * size(single(tile))
    return side_by_side(tile, row.u, row.u_step, position, row.steps, scratch, 0.0)


@helper
def tile_target(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return where a tile may write its states: in place, or to scratch from where `put` takes them."""
    one = single(tile)
    if row.x_step == size(one) and position + tile_steps(tile) <= row.steps:
        return row.x + position * row.x_step
    return scratch + 2 * tile_steps(tile) * size(one)


@helper
def put(tile: Any, row: Row, position: int, target: int) -> None:
    """Copy a tile's states from scratch to their place, if they aren't there."""
    place = row.x + position * row.x_step
    if target != place:
        count = min(row.steps - position, tile_steps(tile))
        copy(tile, target, size(single(tile)), place, row.x_step, count)


@helper
def take_steps(tile: Any, row: Row, first: int, count: int, state: float, fresh: bool, write: bool) -> Any:
    """Take `count` plain steps from position `first` on, in the tile's direction, and return the last state.

    If `fresh`, nothing enters the first step and it reads no coefficient.
    """
    one = single(tile)
    kept = accumulator(one)
    forward = -1 if runs_in_reverse(tile) else 1
    for step in range(count):
        i = first + step * forward
        value = load(one, row.u, i * row.u_step)
        if not fresh:
            value = fma(kept, load(one, row.a, i * row.a_step), state, value)
        state = value
        fresh = False
        if write:
            store(one, row.x, i * row.x_step, state)
    return state


@helper
def spare(tile: Any, scratch: int) -> Any:
    """Return where a tile may write states that nobody wants; behind it follow a tile's length of accumulators."""
    return scratch + 3 * tile_steps(tile) * size(single(tile))


@helper
def is_whole(tile: Any, row: Row, turn: int, tiles: int) -> Any:
    """Return whether tile `turn`, in the order of the steps, is whole and has all its coefficients."""
    if runs_in_reverse(tile):
        return (tiles - turn) * tile_steps(tile) <= row.known
    return (turn + 1) * tile_steps(tile) <= row.steps


@helper
def whole_from(tile: Any, row: Row, turn: int, tiles: int) -> Any:
    """Return how many tiles follow each other from a whole one on, in the order of the steps, that are whole."""
    if runs_in_reverse(tile):
        return tiles - turn
    return row.steps // tile_steps(tile) - turn
