"""The uniform window of any number of lags in each row: suffix sums backwards over some tiles, then states forwards.

The sums of a tile need the end of its block. So a turn takes some tiles, up to one in which a block ends. It first
walks back over them, and over the last tile of the previous turn, whose end was not known then. After that it solves
them. The second reading finds the numbers in the cache. Meanwhile memory is asked for the tiles of the next turn.

A tile whose states aren't all finite is repeated by the definition, a plain loop over the window of each step.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.band_tiles import band_tile, suffix_tile
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.cuts import (
    Cuts,
    block_starts,
    first_cut,
    moved,
    read_cuts,
    segment_before,
    segment_near,
    segment_start,
    starts_among,
)
from recfact.cpu.operations import accumulator, drain, load, single, size, store
from recfact.cpu.row_steps import (
    Row,
    all_finite,
    is_whole,
    put,
    row_at,
    spare,
    tile_coefficients,
    tile_inputs,
    tile_position,
    tile_target,
    whole_from,
)
from recfact.cpu.tile_solvers import fetch_tile, further, number, runs_in_reverse, tile_steps
from recfact.cpu.window_steps import window_steps


@apart
def follow_band(
    tile: Any,
    row: Row,
    position: int,
    cuts: Cuts,
    origin: int,
    near: int,
    x0: Any,
    initial: bool,
    entries: int,
    unsure: int,
) -> None:
    """Repeat by the definition the segments of a tile that aren't finite. The other segments are at `unsure`."""
    one = single(tile)
    kept = accumulator(single(tile))
    length = min(row.steps - position, tile_steps(tile))
    done = 0
    while done < length:
        i = position + (length - 1 - done if runs_in_reverse(tile) else done)
        index = segment_before(cuts, origin + i + 1, near)
        low, high = segment_start(cuts, index) - origin, segment_start(cuts, index + 1) - origin
        start = high - 1 if runs_in_reverse(tile) else max(low, 0)
        left = i - low + 1 if runs_in_reverse(tile) else high - i
        count = min(left, length - done)
        state, enters = x0, initial and index == 0
        if index > 0 and entries != 0:
            state, enters = load(kept, entries, index * size(kept)), True
        first = i - position - (count - 1 if runs_in_reverse(tile) else 0)
        if all_finite(kept, unsure, first, first + count):
            for k in range(first, first + count):
                store(one, row.x, (position + k) * row.x_step, load(kept, unsure, k * size(kept)))
        else:
            window_steps(tile, row, i, count, cuts.block, start, state, enters)
        done += count


@helper
def starts_in_tile(tile: Any, cuts: Cuts, position: int, near: int, offset: int) -> Any:
    """Return the bits of the starts among the steps of the tile at a position, and the next `near`.

    `near` and `offset` are arguments of `starts_among` and `block_starts`.
    """
    if cuts.segments == 1:
        return block_starts(cuts, offset, tile_steps(tile)), near
    starts, _, index = starts_among(cuts, position, tile_steps(tile), near)
    return starts, index


@apart
def sum_tiles(
    tile: Any,
    a: int,
    u: int,
    sums: int,
    count: int,
    cuts: Cuts,
    position: int,
    near: int,
    factor: Any,
    scale: Any,
    added: Any,
) -> Any:
    """Find the suffix sums of `count` tiles that lie next to each other in memory, walking against the steps.

    `a`, `u` and `sums` are the addresses of the first tile. `position` is its position among the ends of blocks.
    Returns the map of the steps from the last tile on, as `suffix_tile` does.
    """
    one = number(accumulator(single(tile)), 1.0)
    step = tile_steps(tile) if runs_in_reverse(tile) else -tile_steps(tile)
    hop = step % cuts.block
    offset = first_cut(cuts, 0, position)
    for _ in range(count):
        ends, near = starts_in_tile(tile, cuts, position, near, offset)
        if ends == 0 and scale == one:  # the constants let the compiler drop the flags and the scale
            factor, scale, added = suffix_tile(tile, a, u, sums, 0, factor, one, added)
        else:
            factor, scale, added = suffix_tile(tile, a, u, sums, ends, factor, scale, added)
        offset = moved(cuts, offset, hop)
        position += step
        a += step * size(single(tile))
        u += step * size(single(tile))
        sums += step * size(accumulator(single(tile)))
    return factor, scale, added


@apart
def band_tiles(
    tile: Any,
    a: int,
    u: int,
    x: int,
    sums: int,
    count: int,
    cuts: Cuts,
    position: int,
    near: int,
    state: Any,
    product: Any,
    scale: Any,
    unsure: int,
) -> Any:
    """Solve `count` tiles that lie next to each other in memory. Stop behind one that isn't finite: it is at `unsure`.

    `a`, `u`, `x` and `sums` are the addresses of the first tile. `position` is its position among the starts. Returns
    the number of tiles solved, `state`, `product` and `scale` behind them, and whether the last one is finite.
    """
    one = number(accumulator(single(tile)), 1.0)
    step = -tile_steps(tile) if runs_in_reverse(tile) else tile_steps(tile)
    hop = step % cuts.block
    offset = first_cut(cuts, 0, position)
    done, finite = 0, True
    ahead = count * step * size(single(tile))
    while done < count and finite:
        fetch_tile(tile, a + ahead)  # the next turn begins there, at its other end
        fetch_tile(tile, further(u + ahead, runs_in_reverse(tile)))
        starts, near = starts_in_tile(tile, cuts, position, near, offset)
        if starts == 0 and scale == one:
            state, product, scale, finite = band_tile(tile, a, u, x, sums, 0, state, product, one, unsure)
        else:
            state, product, scale, finite = band_tile(tile, a, u, x, sums, starts, state, product, scale, unsure)
        offset = moved(cuts, offset, hop)
        position += step
        a += step * size(single(tile))
        u += step * size(single(tile))
        x += step * size(single(tile))
        sums += step * size(accumulator(single(tile)))
        done += 1
    return done, state, product, scale, finite


@helper
def fill(tile: Any, sums: int, first: int, last: int, value: Any) -> None:
    """Set the suffix sums of the positions first .. last-1."""
    kept = accumulator(single(tile))
    for i in range(first, last):
        store(kept, sums, i * size(kept), value)


@apart
def enter_segments(tile: Any, cuts: Cuts, origin: int, low: int, high: int, near: int, entries: int, sums: int) -> None:
    """Set those suffix sums from position `low` to `high` that the first block of a segment reads.

    They belong to the segment before. What enters the segment replaces them: its initial state, or nothing.
    """
    kept = accumulator(single(tile))
    lags = cuts.block
    index = segment_before(cuts, origin + low - (lags if runs_in_reverse(tile) else 0), near)
    while index < cuts.segments:
        start, end = segment_start(cuts, index) - origin, segment_start(cuts, index + 1) - origin
        if start > high + lags:
            break
        if runs_in_reverse(tile):
            fill(tile, sums, max(end, start + lags, low), min(end + lags, high), number(kept, 0.0))
        elif index > 0:
            state = load(kept, entries, index * size(kept)) if entries != 0 else number(kept, 0.0)
            fill(tile, sums, max(start - lags, low), min(start, end - lags, high), state)
        index += 1


@helper
def move(tile: Any, sums: int, source: int, target: int, count: int) -> None:
    """Move `count` suffix sums, and up to one vector more, from one position to another."""
    kept = accumulator(tile)
    one = size(accumulator(single(tile)))
    vectors = (count * one + size(kept) - 1) // size(kept)
    for turn in range(vectors):
        at = (vectors - 1 - turn if target > source else turn) * size(kept)
        store(kept, sums, target * one + at, load(kept, sums, source * one + at))


@kernel
def band_rows(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    cuts: int,
    x0: int,
    alone: int,
    entries: int,
    origin: int,
    skip: int,
    turn_tiles: int,
    sums: int,
    scratch: int,
) -> int:
    """Solve the uniform window in each row. The states must not overwrite the inputs.

    Parameters
    ----------
    rows, count, steps, x_step, u_step, a_step, cuts, alone, entries, origin, skip
        As in `block_rows`. A block has as many steps as there are lags.
    x0 : address of accumulators, shape (count,)
        The initial states, or 0.
    turn_tiles : int
        Least number of tiles to take at a time.
    sums : address of accumulators
        Room for the suffix sums of ``turn_tiles + 3`` tiles and of two blocks.
    scratch : address
        Room for four tiles.
    """
    kept = accumulator(single(tile))
    word = size(kept)
    where = read_cuts(cuts)
    lags = where.block
    length = tile_steps(tile)
    tiles = (steps + length - 1) // length
    dense = x_step == size(single(tile)) and u_step == x_step and a_step == x_step
    # Distances in memory from the first step behind a start, and from the last step before it, to that start.
    behind, before, hop = 0, 1, length % lags
    if runs_in_reverse(tile):
        behind, before, hop = 1, 0, -length % lags
    unsure = spare(tile, scratch)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        own_entries = entries + index * where.segments * word if entries != 0 else 0
        initial = load(kept, x0, index * word) if x0 != 0 else number(kept, 0.0)
        state, product, scale = number(kept, 0.0), number(kept, 1.0), number(kept, 1.0)
        begun, next_tile, near = 0, 0, 0
        if where.segments > 1:
            near = segment_near(where, origin + tile_position(tile, 0, steps))
        low = tile_position(tile, 0, steps)
        base = sums + lags * word - low * word  # where the sum of position 0 would be
        fill(tile, base, low - lags, low, initial)
        while next_tile < tiles:
            last = min(next_tile + turn_tiles, tiles) - 1
            position = origin + tile_position(tile, last, steps)
            offset = first_cut(where, 0, position + before)
            ends, near = starts_in_tile(tile, where, position + before, near, offset)
            while ends == 0 and last + 1 < tiles:
                last += 1
                position = origin + tile_position(tile, last, steps)
                offset = moved(where, offset, hop)
                ends, near = starts_in_tile(tile, where, position + before, near, offset)
            first_at, last_at = tile_position(tile, begun, steps), tile_position(tile, last, steps)
            if runs_in_reverse(tile):
                # The sums behind the tiles move to their place in the order of memory.
                target = sums - last_at * word
                if next_tile == 0:
                    fill(tile, target, first_at + length, first_at + length + lags, initial)
                else:
                    move(tile, target, first_at + length + (base - target) // word, first_at + length, lags)
                base = target
            else:
                target = sums + lags * word - first_at * word
                if next_tile != 0:
                    move(tile, target, first_at - lags + (base - target) // word, first_at - lags, lags)
                base = target
            low, high = min(first_at, last_at), max(first_at, last_at) + length
            factor, factor_scale, added = number(kept, 1.0), number(kept, 1.0), number(kept, 0.0)
            turn = last
            while turn >= begun:
                position = tile_position(tile, turn, steps)
                together = 1
                if dense and is_whole(tile, row, turn, tiles):
                    while turn - together >= begun and is_whole(tile, row, turn - together, tiles):
                        together += 1
                factor, factor_scale, added = sum_tiles(
                    tile,
                    tile_coefficients(tile, row, position, scratch),
                    tile_inputs(tile, row, position, scratch),
                    base + position * word,
                    together,
                    where,
                    origin + position + before,
                    near,
                    factor,
                    factor_scale,
                    added,
                )
                turn -= together
            if where.segments > 1:
                if next_tile == 0 and not runs_in_reverse(tile):
                    low -= lags  # include the values that stand for the sums before the first tile
                enter_segments(tile, where, origin, low, high, near, own_entries, base)
            turn = next_tile
            while turn <= last:
                position = tile_position(tile, turn, steps)
                written = turn >= skip
                together = 1
                if dense and written and is_whole(tile, row, turn, tiles):
                    together = min(whole_from(tile, row, turn, tiles), last + 1 - turn)
                target = tile_target(tile, row, position, scratch) if written else unsure
                done, state, product, scale, finite = band_tiles(
                    tile,
                    tile_coefficients(tile, row, position, scratch),
                    tile_inputs(tile, row, position, scratch),
                    target,
                    base + (position + (lags if runs_in_reverse(tile) else -lags)) * word,
                    together,
                    where,
                    origin + position + behind,
                    near,
                    state,
                    product,
                    scale,
                    unsure,
                )
                if written and finite:
                    put(tile, row, position, target)
                elif written:
                    position = tile_position(tile, turn + done - 1, steps)
                    enters = alone == 0 and x0 != 0
                    follow_band(tile, row, position, where, origin, near, initial, enters, own_entries, unsure)
                turn += done
            begun, next_tile = last, last + 1
    drain(tile)
    return 0
