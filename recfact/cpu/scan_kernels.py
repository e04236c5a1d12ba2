"""The whole recurrence in each row, tile by tile.

Where numbers lie side by side a tile works on them in place. Numbers with gaps between them, and the last tile, whose
rest is filled up with coefficients 1 and inputs 0, are copied to scratch memory first. A tile whose states aren't all
finite is repeated step by step from the true state. So the order of the arithmetic depends on the position in time
alone, never on the length, the layout or the number of threads.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import helper, kernel, seldom
from recfact.cpu.numbers import accumulator, drain, fma, load, single, size, store
from recfact.cpu.row_steps import (
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
from recfact.cpu.tile_solvers import number, runs_in_reverse, scan_tile, scan_totals, tile_steps


@helper
def true_state(kept: Any, entry: float, local: float, factor: float) -> Any:
    """Return local + factor entry, and `local` alone once the product has underflowed to zero."""
    if factor == 0:
        return local
    return fma(kept, factor, entry, local)


@helper
def ends_segment(tile: Any, position: int, segment: int) -> Any:
    """Return whether a segment of so many steps, a power of two, ends with the tile at a position."""
    return (position if runs_in_reverse(tile) else position + tile_steps(tile)) & (segment - 1) == 0


@helper
def left_in_segment(tile: Any, position: int, segment: int) -> Any:
    """Return how many tiles of a segment there are from the one at a position on, in the order of the steps."""
    done = position & (segment - 1)
    return (done if runs_in_reverse(tile) else segment - tile_steps(tile) - done) // tile_steps(tile) + 1


@seldom
def scan_tiles(tile: Any, a: int, u: int, x: int, count: int, entry: Any, local: Any, factor: Any) -> Any:
    """Solve `count` tiles of a segment that lie next to each other in memory, and stop at one that isn't finite.

    This is where the time goes, so nothing else is done here. `a`, `u` and `x` are the addresses of the first tile.
    Returned are how many were solved, and `local` and `factor` behind them.
    """
    step = tile_steps(tile) * size(single(tile))
    if runs_in_reverse(tile):
        step = -step
    done = 0
    while done < count:
        after, product, finite = scan_tile(tile, a, u, x, entry, local, factor)
        if not finite:
            break
        local, factor = after, product
        a += step
        u += step
        x += step
        done += 1
    return done, local, factor


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
    segment: int,
    scratch: int,
) -> int:
    """Solve the recurrence in each row; return how many tiles had to be repeated step by step.

    `states` points at three accumulators of each row: the state that enters the segment, the state reached in it from
    zero and the product of its coefficients so far; in the end, they are those after the last whole tile. `start` is
    the time of the row's first step, a multiple of a tile. `alone` says that no state enters the row. `segment` is the
    number of steps in a segment, a power of two and at least a tile.
    """
    kept = accumulator(single(tile))
    repeated = 0
    tiles = (steps + tile_steps(tile) - 1) // tile_steps(tile)
    dense = x_step == size(single(tile)) and u_step == x_step and a_step == x_step
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        state_at = states + 3 * index * size(kept)
        entry, local = load(kept, state_at, 0), load(kept, state_at, size(kept))
        factor = load(kept, state_at, 2 * size(kept))
        turn = 0
        while turn < tiles:
            position = tile_position(tile, turn, steps)
            together = 1
            if dense and is_whole(tile, row, turn, tiles):
                together = min(whole_from(tile, row, turn, tiles), left_in_segment(tile, start + position, segment))
            target = tile_target(tile, row, position, scratch)
            done, local, factor = scan_tiles(
                tile,
                tile_coefficients(tile, row, position, scratch),
                tile_inputs(tile, row, position, scratch),
                target,
                together,
                entry,
                local,
                factor,
            )
            if done > 0:
                put(tile, row, position, target)
                turn += done
                position = tile_position(tile, turn - 1, steps)
            else:
                length = min(steps - position, tile_steps(tile))
                first = position + length - 1 if runs_in_reverse(tile) else position
                fresh = alone != 0 and turn == 0
                entry = take_steps(tile, row, first, length, true_state(kept, entry, local, factor), fresh, True)
                local, factor = number(kept, 0.0), number(kept, 1.0)
                repeated += 1
                turn += 1
            if ends_segment(tile, start + position, segment):
                entry = true_state(kept, entry, local, factor)
                local, factor = number(kept, 0.0), number(kept, 1.0)
            if position + tile_steps(tile) <= steps:
                store(kept, state_at, 0, entry)
                store(kept, state_at, size(kept), local)
                store(kept, state_at, 2 * size(kept), factor)
    drain(tile)
    return repeated


@kernel
def segment_totals(
    tile: Any, rows: int, steps: int, x_step: int, u_step: int, a_step: int, totals: int, segment: int, scratch: int
) -> int:
    """Find the totals of a row's segments, up to the first whose product is zero; return how many, or -1.

    `totals` takes two accumulators for each: the state reached from zero and the product. -1 says that they aren't all
    finite. A state enters the row, so it has as many coefficients as inputs.
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
        if ends_segment(tile, position, segment) or number_of_tile == tiles - 1:
            store(kept, totals, 2 * found * size(kept), local)
            store(kept, totals, (2 * found + 1) * size(kept), factor)
            found += 1
            if factor == 0:
                return found
            local, factor = number(kept, 0.0), number(kept, 1.0)
    return found


@kernel
def chain_segments(tile: Any, totals: int, count: int, states: int) -> int:
    """Carry a state through segments of known totals: from the entry at `states` to the entry behind them."""
    kept = accumulator(single(tile))
    entry = load(kept, states, 0)
    for i in range(count):
        at = 2 * i * size(kept)
        entry = true_state(kept, entry, load(kept, totals, at), load(kept, totals, at + size(kept)))
    store(kept, states, 0, entry)
    return 0
