"""Common parts of the kernels of rows: a row in memory, its tiles, and plain steps for the tiles that need them.

A row consists of the addresses of its first coefficient, input and state, and of the bytes between neighbours. Steps in
reverse read the coefficient after each input, x_i = a_{i+1} x_{i+1} + u_i. So their first coefficient is a_1, and there
is one coefficient less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.compilation import helper
from recfact.cpu.operations import accumulator, fma, integer, load, single, size, store
from recfact.cpu.tile_solvers import number, runs_in_reverse, tile_steps, units


class Row(NamedTuple):
    """A row in memory.

    ``a``, ``u``, ``x`` are addresses, and ``a_step``, ``u_step``, ``x_step`` are bytes between neighbours. There are
    `steps` inputs and states, and `known` coefficients.
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
    """Return row `index`. The addresses of x, u and a of all rows are at `rows`, in three runs of `count`.

    `alone` says that nothing enters the row. In reverse its last coefficient then isn't there.
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
    """Return the position in a row at which tile `index`, in the order of the steps, starts."""
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
def below(tile: Any, unit: int) -> Any:
    """Return the bytes from a tile's first position to its lowest address, if numbers are `unit` bytes apart."""
    return (tile_steps(tile) - 1) * min(unit, 0)


@helper
def side_by_side(
    tile: Any, base: int, step: int, unit: int, position: int, end: int, scratch: int, padding: float
) -> Any:
    """Return the address of a tile's numbers, `unit` bytes apart: in place, or copied to scratch and filled up."""
    one = single(tile)
    whole = tile_steps(tile)
    count = min(end - position, whole)
    if step == unit and count == whole:
        return base + position * step + below(tile, unit)
    first = scratch - below(tile, unit)
    copy(tile, base + position * step, step, first, unit, count)
    for i in range(count, whole):
        store(one, first, i * unit, number(one, padding))
    return scratch


@helper
def tile_coefficients(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return the address of a tile's coefficients. Coefficients that the row doesn't have are 1."""
    _, _, unit = units(tile)
    return side_by_side(tile, row.a, row.a_step, unit, position, row.known, scratch, 1.0)


@helper
def tile_inputs(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return the address of a tile's inputs. Inputs that the row doesn't have are 0."""
    scratch += tile_steps(tile) * size(single(tile))
    _, unit, _ = units(tile)
    return side_by_side(tile, row.u, row.u_step, unit, position, row.steps, scratch, 0.0)


@helper
def tile_target(tile: Any, row: Row, position: int, scratch: int) -> Any:
    """Return the address at which a tile may write its states: in place, or in scratch, where `put` finds them."""
    one = single(tile)
    unit, _, _ = units(tile)
    if row.x_step == unit and position + tile_steps(tile) <= row.steps:
        return row.x + position * row.x_step + below(tile, unit)
    return scratch + 2 * tile_steps(tile) * size(one)


@helper
def put(tile: Any, row: Row, position: int, target: int) -> None:
    """Copy a tile's states from scratch to their place, if they aren't there yet."""
    unit, _, _ = units(tile)
    place = row.x + position * row.x_step
    if target != place + below(tile, unit):
        count = min(row.steps - position, tile_steps(tile))
        copy(tile, target - below(tile, unit), unit, place, row.x_step, count)


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
    """Return the address for states that nobody wants. It is followed by as many accumulators as a tile has steps."""
    return scratch + 3 * tile_steps(tile) * size(single(tile))


@helper
def is_whole(tile: Any, row: Row, turn: int, tiles: int) -> Any:
    """Return whether tile `turn`, in the order of the steps, is whole and has all its coefficients."""
    if runs_in_reverse(tile):
        return (tiles - turn) * tile_steps(tile) <= row.known
    return (turn + 1) * tile_steps(tile) <= row.steps


@helper
def whole_from(tile: Any, row: Row, turn: int, tiles: int) -> Any:
    """Return how many whole tiles follow each other from a whole one on, in the order of the steps."""
    if runs_in_reverse(tile):
        return tiles - turn
    return row.steps // tile_steps(tile) - turn


@helper
def all_finite(one: Any, at: int, first: int, last: int) -> Any:
    """Return whether the numbers first .. last-1 at an address are finite."""
    for k in range(first, last):
        value = load(one, at, k * size(one))
        if value - value != value - value:
            return False
    return True
