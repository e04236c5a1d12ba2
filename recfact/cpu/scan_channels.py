"""The whole recurrence of a few channels next to each other, all channels of a tile at once.

A lane of the tile is a step of all channels (`recfact.cpu.side_by_side`). The same order of arithmetic holds for any
number of channels. A tile that isn't whole, or whose states aren't all finite, is solved once for each channel, with
zeros in place of the others. So no channel spoils another, and each has the same bits whatever is beside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.channel_runs import channel_row
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.language import operation
from recfact.cpu.numbers import I64, Lanes, from_vector, read, to_vector, write
from recfact.cpu.operations import accumulator, all_finite, drain, load, single, size, store
from recfact.cpu.row_steps import Row, copy, is_whole, row_at, tile_position, whole_from
from recfact.cpu.scan_rows import leave_tile, left_in_span, scan_tiles, step_through, true_state
from recfact.cpu.tile_solvers import number, tile_steps, units


@operation
def channels_of(tile: Any) -> Any:
    """Return the number of channels."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return ir.Constant(I64, tile.channels)

    return types.int64(tile), codegen


@operation
def load_each(tile: Any, address: Any, step: Any) -> Any:
    """Load an accumulator of each channel. They are `step` bytes apart."""
    one = Lanes(tile.state.storage, 1)

    def codegen(context: Any, b: Any, args: Any) -> Any:
        offsets = [b.mul(args[2], ir.Constant(I64, channel)) for channel in range(tile.channels)]
        return [from_vector(b, one, read(context, b, one, one.vector.count, args[1], offset)) for offset in offsets]

    return tile.passed(tile, types.int64, types.int64), codegen


@operation
def store_each(tile: Any, address: Any, step: Any, values: Any) -> Any:
    """Store what `load_each` loads."""
    one = Lanes(tile.state.storage, 1)

    def codegen(context: Any, b: Any, args: Any) -> Any:
        for channel, value in enumerate(args[3]):
            offset = b.mul(args[2], ir.Constant(I64, channel))
            write(context, b, one, args[1], offset, to_vector(b, one, value))

    return types.void(tile, types.int64, types.int64, tile.passed), codegen


@helper
def scan_from(tile: Any, a: int, u: int, x: int, count: int, states: int) -> Any:
    """Solve `count` whole tiles that follow each other, up to the first whose numbers aren't all finite.

    At `states` are the accumulators of `scan_rows` for each channel. They are updated. Returns the number of tiles.
    """
    word = size(accumulator(single(tile)))
    done, local, factor = scan_tiles(
        tile,
        a,
        u,
        x,
        count,
        load_each(tile, states, 3 * word),
        load_each(tile, states + word, 3 * word),
        load_each(tile, states + 2 * word, 3 * word),
        True,
    )
    store_each(tile, states + word, 3 * word, local)
    store_each(tile, states + 2 * word, 3 * word, factor)
    return done


@helper
def solve_together(tile: Any, row: Row, turn: int, together: int, start: int, span: int, states: int) -> Any:
    """Solve up to `together` whole tiles of all channels from tile `turn` on, and return how many."""
    kept = accumulator(single(tile))
    first = tile_position(tile, turn, row.steps)
    done = scan_from(
        tile, row.a + first * row.a_step, row.u + first * row.u_step, row.x + first * row.x_step, together, states
    )
    if done > 0:
        position = tile_position(tile, turn + done - 1, row.steps)
        for channel in range(channels_of(tile)):
            at = states + channel * 3 * size(kept)
            entry, local = load(kept, at, 0), load(kept, at, size(kept))
            leave_tile(tile, row, position, start, span, at, entry, local, load(kept, at, 2 * size(kept)))
    return done


@helper
def solve_beside_zeros(
    tile: Any, row: Row, channel: int, turn: int, entry: Any, local: Any, factor: Any, scratch: int
) -> Any:
    """Solve a channel in tile `turn`, beside channels of zeros. Return whether all is finite.

    Returns `local` and `factor` behind the tile as well. If not all is finite, nothing is written.
    """
    one = single(tile)
    kept = accumulator(one)
    own = 3 * size(kept)
    unit, _, _ = units(tile)
    room = tile_steps(tile) * unit
    position = tile_position(tile, turn, row.steps)
    length = min(row.steps - position, tile_steps(tile))
    alone = channel_row(tile, row, channel)
    a, u, x = scratch, scratch + room, scratch + 2 * room
    for place in range(0, room, size(one)):
        store(one, a, place, number(one, 1.0))
        store(one, u, place, number(one, 0.0))
    place = channel * size(one)
    known = min(row.known - position, tile_steps(tile))
    copy(tile, alone.a + position * row.a_step, row.a_step, a + place, unit, known)
    copy(tile, alone.u + position * row.u_step, row.u_step, u + place, unit, length)
    states = scratch + 3 * room
    for other in range(channels_of(tile)):
        mine = other == channel
        store(kept, states + other * own, 0, entry if mine else number(kept, 0.0))
        store(kept, states + other * own, size(kept), local if mine else number(kept, 0.0))
        store(kept, states + other * own, 2 * size(kept), factor if mine else number(kept, 1.0))
    finite = scan_from(tile, a, u, x, 1, states) > 0
    if finite:
        copy(tile, x + place, unit, alone.x + position * row.x_step, row.x_step, length)
    states += channel * own
    return finite, load(kept, states, size(kept)), load(kept, states, 2 * size(kept))


@helper
def solve_alone(
    tile: Any, row: Row, channel: int, turn: int, start: int, fresh: bool, span: int, state_at: int, scratch: int
) -> Any:
    """Solve a channel in tile `turn`, beside channels of zeros, or step by step. Return whether step by step.

    `state_at` has the accumulators of this channel. `fresh` is as in `solve_tiles`.
    """
    kept = accumulator(single(tile))
    position = tile_position(tile, turn, row.steps)
    entry, local = load(kept, state_at, 0), load(kept, state_at, size(kept))
    factor = load(kept, state_at, 2 * size(kept))
    finite = all_finite(kept, entry)  # or else no state of the tile is
    if finite:
        finite, local, factor = solve_beside_zeros(tile, row, channel, turn, entry, local, factor, scratch)
    if not finite:
        alone = channel_row(tile, row, channel)
        entry = step_through(tile, alone, position, true_state(kept, entry, local, factor), fresh)
        local, factor = number(kept, 0.0), number(kept, 1.0)
    leave_tile(tile, row, position, start, span, state_at, entry, local, factor)
    return not finite


@kernel
def scan_channels(
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
    """Solve the recurrence in rows of a few channels, and return how many tiles had to be repeated step by step.

    There are no gaps between the numbers of a row. `states` has three accumulators of each channel of each row. The
    other parameters are those of `scan_rows`.
    """
    channels = channels_of(tile)
    own = 3 * size(accumulator(single(tile)))
    repeated = 0
    tiles = (steps + tile_steps(tile) - 1) // tile_steps(tile)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        state_at = states + index * channels * own
        turn = 0
        while turn < tiles:
            done = 0
            if is_whole(tile, row, turn, tiles):
                position = tile_position(tile, turn, steps)
                together = min(whole_from(tile, row, turn, tiles), left_in_span(tile, start + position, span))
                done = solve_together(tile, row, turn, together, start, span, state_at)
            if done == 0:
                fresh = alone != 0 and turn == 0
                for channel in range(channels):
                    repeated += solve_alone(
                        tile, row, channel, turn, start, fresh, span, state_at + channel * own, scratch
                    )
                done = 1
            turn += done
    drain(tile)
    return repeated
