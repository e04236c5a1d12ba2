"""The whole recurrence in each row, tile by tile.

If numbers lie side by side, a tile works on them in place. Otherwise they are copied to scratch memory first. So is the
last tile, which is filled up with coefficients 1 and inputs 0. If only the last state is wanted, all states stay in the
scratch memory. A tile whose states aren't all finite is repeated step by step from the true state. So the order of the
arithmetic depends only on the position in time, and not on the length, the layout or the number of threads.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.operations import accumulator, all_finite, drain, fma, load, single, size, store, vanishes
from recfact.cpu.row_steps import (
    Row,
    is_whole,
    put,
    row_at,
    take_steps,
    tile_coefficients,
    tile_inputs,
    tile_position,
    tile_target,
    whole_from,
)
from recfact.cpu.tile_solvers import (
    fetch_tile,
    further,
    number,
    runs_in_reverse,
    scan_tile,
    scan_totals,
    tile_steps,
    units,
)

# How many tiles ahead memory is asked for the next one, in order. That is about a page, as far as processors read ahead
# by themselves. They need help because LLVM reads the numbers of a tile in any order.
AHEAD = 8


@helper
def true_state(kept: Any, entry: float, local: float, factor: float) -> Any:
    """Return local + factor entry, and `local` alone once the product has underflowed to zero.

    Behind an entry that isn't finite every tile is repeated, so `local` is 0 and the product is 1. The entry is then
    returned unchanged, because a product by 1 makes NaN of complex infinities.
    """
    if not all_finite(kept, entry):
        return entry
    if vanishes(kept, factor):
        return local
    return fma(kept, factor, entry, local)


@helper
def ends_span(tile: Any, position: int, span: int) -> Any:
    """Return whether a span ends with the tile at a position. It has `span` steps, a power of two."""
    return (position if runs_in_reverse(tile) else position + tile_steps(tile)) & (span - 1) == 0


@helper
def left_in_span(tile: Any, position: int, span: int) -> Any:
    """Return how many tiles of a span remain from the tile at a position on, in the order of the steps."""
    done = position & (span - 1)
    return (done if runs_in_reverse(tile) else span - tile_steps(tile) - done) // tile_steps(tile) + 1


@apart
def scan_tiles(tile: Any, a: int, u: int, x: int, count: int, entry: Any, local: Any, factor: Any, kept: bool) -> Any:
    """Solve `count` tiles of a span that lie next to each other in memory, and stop at one that isn't finite.

    Most of the time is spent here, so nothing else is done here. `a`, `u` and `x` are the addresses of the first tile.
    Unless states are `kept`, all tiles write them to the same place. Returns the number of tiles solved, and `local`
    and `factor` behind them.
    """
    hop = -tile_steps(tile) if runs_in_reverse(tile) else tile_steps(tile)
    x_unit, u_unit, a_unit = units(tile)
    x_hop = hop * x_unit if kept else 0
    done = 0
    while done < count:
        if done + AHEAD < count:
            fetch_tile(tile, a + AHEAD * hop * a_unit)
            fetch_tile(tile, further(u + AHEAD * hop * u_unit, hop * u_unit < 0))
        after, product, finite = scan_tile(tile, a, u, x, entry, local, factor)
        if not finite:
            break
        local, factor = after, product
        a += hop * a_unit
        u += hop * u_unit
        x += x_hop
        done += 1
    return done, local, factor


@helper
def solve_tiles(
    tile: Any,
    row: Row,
    turn: int,
    tiles: int,
    together: int,
    start: int,
    fresh: bool,
    span: int,
    state_at: int,
    scratch: int,
) -> Any:
    """Solve up to `together` tiles from tile `turn` on, or repeat this one step by step.

    At `state_at` are the accumulators of `scan_rows`. They are replaced by those after the last tile, if it is whole.
    `fresh` says that nothing enters the first step. Returns how many tiles were solved, and whether one was repeated.
    """
    kept = accumulator(single(tile))
    entry, local = load(kept, state_at, 0), load(kept, state_at, size(kept))
    factor = load(kept, state_at, 2 * size(kept))
    position = tile_position(tile, turn, row.steps)
    target = tile_target(tile, row, position, scratch)
    coefficients = tile_coefficients(tile, row, position, scratch)
    inputs = tile_inputs(tile, row, position, scratch)
    done, local, factor = scan_tiles(
        tile, coefficients, inputs, target, together, entry, local, factor, row.x_step != 0
    )
    repeated = done == 0
    if repeated:
        entry = step_through(tile, row, position, true_state(kept, entry, local, factor), fresh)
        local, factor = number(kept, 0.0), number(kept, 1.0)
        done = 1
    else:
        put(tile, row, position, target)
    leave_tile(tile, row, tile_position(tile, turn + done - 1, row.steps), start, span, state_at, entry, local, factor)
    return done, repeated


@helper
def step_through(tile: Any, row: Row, position: int, entry: Any, fresh: bool) -> Any:
    """Solve the tile at a position step by step, and return its last state."""
    length = min(row.steps - position, tile_steps(tile))
    first = position + length - 1 if runs_in_reverse(tile) else position
    return take_steps(tile, row, first, length, entry, fresh, True)


@helper
def leave_tile(
    tile: Any, row: Row, position: int, start: int, span: int, state_at: int, entry: Any, local: Any, factor: Any
) -> None:
    """Keep what passes on from the tile at a position, unless it is the last one and not whole."""
    kept = accumulator(single(tile))
    if ends_span(tile, start + position, span):
        entry = true_state(kept, entry, local, factor)
        local, factor = number(kept, 0.0), number(kept, 1.0)
    if runs_in_reverse(tile) or position + tile_steps(tile) <= row.steps:
        store(kept, state_at, 0, entry)
        store(kept, state_at, size(kept), local)
        store(kept, state_at, 2 * size(kept), factor)


@kernel
def scan_rows(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    states: int,
    start: int,
    alone: int,
    span: int,
    scratch: int,
) -> int:
    """Solve the recurrence in each row, and return how many tiles had to be repeated step by step.

    `states` points at three accumulators of each row: the state that enters the span, the state that the span has
    reached from zero, and the product of its coefficients so far. In the end they are those after the last whole tile.
    `start` is the time of the row's first step, a multiple of a tile. `alone` says that no state enters the row. `span`
    is the number of steps in a span, a power of two and at least a tile.
    """
    repeated = 0
    tiles = (steps + tile_steps(tile) - 1) // tile_steps(tile)
    x_unit, u_unit, a_unit = units(tile)
    dense = (x_step == x_unit or x_step == 0) and u_step == u_unit and a_step == a_unit
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        state_at = states + 3 * index * size(accumulator(single(tile)))
        turn = 0
        while turn < tiles:
            together = 1
            if dense and is_whole(tile, row, turn, tiles):
                position = tile_position(tile, turn, steps)
                together = min(whole_from(tile, row, turn, tiles), left_in_span(tile, start + position, span))
            fresh = alone != 0 and turn == 0
            done, again = solve_tiles(tile, row, turn, tiles, together, start, fresh, span, state_at, scratch)
            turn += done
            repeated += again
    drain(tile)
    return repeated


@kernel
def span_totals(
    tile: Any, rows: int, steps: int, x_step: int, u_step: int, a_step: int, totals: int, span: int, scratch: int
) -> int:
    """Find the totals of a row's spans, up to the first one whose product is zero. Return how many, or -1.

    `totals` gets two accumulators for each span: the state reached from zero, and the product. -1 means that not all
    are finite. A state enters the row, so it has as many coefficients as inputs.
    """
    kept = accumulator(single(tile))
    row = row_at(tile, rows, 1, 0, steps, a_step, u_step, x_step, False)
    local, factor = number(kept, 0.0), number(kept, 1.0)
    found = 0
    tiles = (steps + tile_steps(tile) - 1) // tile_steps(tile)
    for number_of_tile in range(tiles):
        position = tile_position(tile, number_of_tile, steps)
        coefficients = tile_coefficients(tile, row, position, scratch)
        inputs = tile_inputs(tile, row, position, scratch)
        local, factor, finite = scan_totals(tile, coefficients, inputs, local, factor)
        if not finite:
            return -1
        if ends_span(tile, position, span) or number_of_tile == tiles - 1:
            store(kept, totals, 2 * found * size(kept), local)
            store(kept, totals, (2 * found + 1) * size(kept), factor)
            found += 1
            if vanishes(kept, factor):
                return found
            local, factor = number(kept, 0.0), number(kept, 1.0)
    return found


@kernel
def chain_spans(tile: Any, totals: int, count: int, states: int) -> int:
    """Carry a state through spans of known totals: from the entry at `states` to the entry behind them."""
    kept = accumulator(single(tile))
    entry = load(kept, states, 0)
    for i in range(count):
        at = 2 * i * size(kept)
        entry = true_state(kept, entry, load(kept, totals, at), load(kept, totals, at + size(kept)))
    store(kept, states, 0, entry)
    return 0
