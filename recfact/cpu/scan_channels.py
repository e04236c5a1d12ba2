"""The whole recurrence of a few channels next to each other, all channels of a tile at once.

A lane of the tile is a step of all channels (`recfact.cpu.side_by_side`). The same order of arithmetic holds for any
number of channels. A channel that isn't finite takes single steps, and the others are solved with zeros in its place.
Which one it is shows in the state that enters, or when each channel is solved beside zeros. So no channel spoils
another, and each has the same bits whatever is beside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.channel_runs import channel_row
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.language import operation
from recfact.cpu.numbers import I64, Lanes, from_vector, read, to_vector, write
from recfact.cpu.operations import accumulator, all_finite, drain, load, single, size, store, width
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
def finite_channels(tile: Any, states: int) -> Any:
    """Return the bits of the channels that a finite state enters. The others stay as they are for ever."""
    kept = accumulator(single(tile))
    found = 0
    for channel in range(channels_of(tile)):
        if all_finite(kept, load(kept, states, 3 * channel * size(kept))):
            found += 1 << channel
    return found


@helper
def fill_beside(
    tile: Any, row: Row, chosen: int, base: int, position: int, end: int, target: int, other: float
) -> None:
    """Copy one of the arrays of a tile to `target`, with the number `other` in place of all that isn't chosen."""
    one = single(tile)
    unit, _, _ = units(tile)
    count = min(end - position, tile_steps(tile))
    vector = width(tile) * size(one)
    whole = count == tile_steps(tile)
    if whole:
        for offset in range(0, count * unit, vector):
            store(tile, target, offset, load(tile, base + position * unit, offset))
    for channel in range(channels_of(tile)):
        place = channel * size(one)
        done = 0
        if chosen & (1 << channel) != 0:
            done = count
            if not whole:
                copy(tile, base + position * unit + place, unit, target + place, unit, count)
        for k in range(done, tile_steps(tile)):
            store(one, target + place, k * unit, number(one, other))


@helper
def solve_beside_zeros(tile: Any, row: Row, chosen: int, turn: int, states: int, scratch: int) -> Any:
    """Solve the channels whose bits are `chosen` in tile `turn`, beside zeros. Return whether all is finite.

    If it is, their accumulators behind the tile are at `accumulators_beside`. If not, nothing is written to the row.
    """
    one = single(tile)
    kept = accumulator(one)
    own = 3 * size(kept)
    unit, _, _ = units(tile)
    room = tile_steps(tile) * unit
    position = tile_position(tile, turn, row.steps)
    a, u, x, passed = scratch, scratch + room, scratch + 2 * room, accumulators_beside(tile, scratch)
    fill_beside(tile, row, chosen, row.a, position, row.known, a, 1.0)
    fill_beside(tile, row, chosen, row.u, position, row.steps, u, 0.0)
    for channel in range(channels_of(tile)):
        mine, at = chosen & (1 << channel) != 0, channel * own
        store(kept, passed + at, 0, load(kept, states + at, 0) if mine else number(kept, 0.0))
        store(kept, passed + at, size(kept), load(kept, states + at, size(kept)) if mine else number(kept, 0.0))
        store(kept, passed + at, 2 * size(kept), load(kept, states + at, 2 * size(kept)) if mine else number(kept, 1.0))
    finite = scan_from(tile, a, u, x, 1, passed) > 0
    if finite:
        length = min(row.steps - position, tile_steps(tile))
        for channel in range(channels_of(tile)):
            if chosen & (1 << channel) != 0:
                place = channel * size(one)
                copy(tile, x + place, unit, row.x + position * unit + place, unit, length)
    return finite


@helper
def accumulators_beside(tile: Any, scratch: int) -> Any:
    """Return the address of the accumulators of `solve_beside_zeros`."""
    unit, _, _ = units(tile)
    return scratch + 3 * tile_steps(tile) * unit


@helper
def solve_apart(
    tile: Any,
    row: Row,
    chosen: int,
    failed: bool,
    turn: int,
    start: int,
    fresh: bool,
    span: int,
    states: int,
    scratch: int,
) -> Any:
    """Solve tile `turn`: the chosen channels beside zeros, and the others step by step. Return how many these are.

    If the chosen ones aren't all finite together, which `failed` says is known, each of them is solved without the
    others. `fresh` is as in `solve_tiles`.
    """
    kept = accumulator(single(tile))
    own = 3 * size(kept)
    position = tile_position(tile, turn, row.steps)
    together = not failed and chosen != 0
    if together:
        together = solve_beside_zeros(tile, row, chosen, turn, states, scratch)
    repeated = 0
    for channel in range(channels_of(tile)):
        at = states + channel * own
        solved = chosen & (1 << channel) != 0
        if solved and not together:
            solved = solve_beside_zeros(tile, row, 1 << channel, turn, states, scratch)
        entry, source = load(kept, at, 0), accumulators_beside(tile, scratch) + channel * own if solved else at
        local, factor = load(kept, source, size(kept)), load(kept, source, 2 * size(kept))
        if not solved:
            alone = channel_row(tile, row, channel)
            entry = step_through(tile, alone, position, true_state(kept, entry, local, factor), fresh)
            local, factor = number(kept, 0.0), number(kept, 1.0)
            repeated += 1
        leave_tile(tile, row, position, start, span, at, entry, local, factor)
    return repeated


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
            done, failed = 0, False
            chosen = finite_channels(tile, state_at)
            if chosen == (1 << channels) - 1 and is_whole(tile, row, turn, tiles):
                position = tile_position(tile, turn, steps)
                together = min(whole_from(tile, row, turn, tiles), left_in_span(tile, start + position, span))
                done = solve_together(tile, row, turn, together, start, span, state_at)
                failed = done == 0
            if done == 0:
                fresh = alone != 0 and turn == 0
                repeated += solve_apart(tile, row, chosen, failed, turn, start, fresh, span, state_at, scratch)
                done = 1
            turn += done
    drain(tile)
    return repeated
