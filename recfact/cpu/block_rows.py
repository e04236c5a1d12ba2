"""Jagged windows and segments in each row, tile by tile.

From tile to tile pass the last states with 0, 1, 2, ... carrier terms. A tile whose states aren't all finite is mended
by the definition: each of these states is a plain loop. At the start of a block it continues from the state with one
term less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.block_tiles import blocks_tile, inner_tile, one_start_tile
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.cuts import (
    MARKED,
    Cuts,
    bit,
    block_starts,
    first_cut,
    fresh_in,
    mark_fresh,
    moved,
    read_cuts,
    segment_before,
    segment_near,
    segment_start,
    starts_among,
)
from recfact.cpu.operations import accumulator, drain, fma, load, single, size, store
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
from recfact.cpu.tile_solvers import runs_in_reverse, tile_steps


class Progress(NamedTuple):
    """How far a row is solved.

    Parameters
    ----------
    done : int
        Tiles solved.
    starts, fresh : int
        The bits of the tile at which it stopped, as from `starts_among`.
    near, offset : int
        Arguments of `starts_among` and `block_starts` for the next tile.
    carried, left : address
        Accumulators: the last states before the next tile, and room for the last states of that tile.
    """

    done: int
    starts: int
    fresh: int
    near: int
    offset: int
    carried: int
    left: int


@apart
def mend_blocks(
    tile: Any,
    row: Row,
    position: int,
    progress: Progress,
    terms: int,
    lonely: bool,
    cuts: Cuts,
    origin: int,
    entries: int,
    write: bool,
    unsure: int,
) -> None:
    """Write a tile that isn't finite, and replace the states before it by those after it.

    Starts that nothing passes cut the tile into parts. Finite parts are taken from `unsure`, where the tile left them,
    so they don't depend on the other parts. The others are solved by the definition. If `unsure` is 0, all are. Nothing
    enters the first step if it is `lonely`. `entries` are the initial states of segments, or 0.
    """
    one = single(tile)
    kept = accumulator(one)
    length = min(row.steps - position, tile_steps(tile))
    parting = progress.starts if terms == 0 else progress.fresh
    done = 0
    while done < length:
        stop = done + 1
        while stop < length and bit(parting, length - 1 - stop if runs_in_reverse(tile) else stop) == 0:
            stop += 1
        low, high = (length - stop, length - done) if runs_in_reverse(tile) else (done, stop)
        finite = unsure != 0 and all_finite(kept, unsure, low, high)
        if stop == length:
            finite = finite and all_finite(kept, progress.left, 0, terms + 1)
        if not finite:
            follow_blocks(tile, row, position, done, stop, progress, terms, lonely, cuts, origin, entries, write)
        elif write:
            for k in range(low, high):
                store(one, row.x, (position + k) * row.x_step, load(kept, unsure, k * size(kept)))
        if finite and stop == length:
            for term in range(terms + 1):
                store(kept, progress.carried, term * size(kept), load(kept, progress.left, term * size(kept)))
        done = stop


@helper
def follow_blocks(
    tile: Any,
    row: Row,
    position: int,
    first: int,
    last: int,
    progress: Progress,
    terms: int,
    lonely: bool,
    cuts: Cuts,
    origin: int,
    entries: int,
    write: bool,
) -> None:
    """Solve the steps first .. last-1 of a tile by the definition, from the states with 0 .. `terms` terms before it.

    The other parameters are those of `mend_blocks`.
    """
    one = single(tile)
    kept = accumulator(one)
    starts, fresh, states = progress.starts, progress.fresh, progress.carried
    near = segment_before(cuts, origin + position, progress.near)
    length = min(row.steps - position, tile_steps(tile))
    for turn in range(first, last):
        place = length - 1 - turn if runs_in_reverse(tile) else turn
        i = position + place
        value = load(one, row.u, i * row.u_step)
        if bit(fresh, place) and entries != 0:
            while near + 1 < cuts.segments and segment_start(cuts, near + 1) <= origin + i:
                near += 1
            value = fma(kept, load(one, row.a, i * row.a_step), load(kept, entries, near * size(kept)), value)
        nothing = bit(fresh, place) or (lonely and turn == 0)
        for term in range(terms, -1, -1):
            state = value
            source = term - 1 if bit(starts, place) else term
            if source >= 0 and not nothing:
                state = fma(kept, load(one, row.a, i * row.a_step), load(kept, states, source * size(kept)), value)
            store(kept, states, term * size(kept), state)
        if write:
            store(one, row.x, i * row.x_step, load(kept, states, terms * size(kept)))


@helper
def enter_segments(
    tile: Any, a: int, u: int, target: int, cuts: Cuts, position: int, fresh: int, near: int, entries: int
) -> None:
    """Copy a tile's inputs to `target`, and add the contributions of initial states of the segments that start there.

    The tile lies at `position`. `a` and `u` are the addresses of its coefficients and inputs. `fresh` and `near` are
    results of `starts_among` for it.
    """
    one = single(tile)
    kept = accumulator(one)
    many = accumulator(tile)
    for offset in range(0, tile_steps(tile) * size(one), size(many)):
        store(many, target, offset, load(many, u, offset))
    segment = segment_before(cuts, position + 1, near)
    while segment < cuts.segments:
        place = segment_start(cuts, segment) - position
        last = segment + 1 >= cuts.segments or segment_start(cuts, segment + 1) > position + place
        if place >= tile_steps(tile):
            break
        if place >= 0 and last and bit(fresh, place):
            state, value = load(kept, entries, segment * size(kept)), load(one, target, place * size(one))
            store(one, target, place * size(one), fma(kept, load(one, a, place * size(one)), state, value))
        segment += 1


@helper
def holds_states(tile: Any) -> Any:
    """Return whether numbers in memory are as wide as states."""
    return size(single(tile)) == size(accumulator(single(tile)))


@apart
def solve_tiles(
    tile: Any,
    a: int,
    u: int,
    x: int,
    count: int,
    position: int,
    length: int,
    cuts: Cuts,
    mask: int,
    terms: int,
    entries: int,
    progress: Progress,
    unsure: int,
    table: int,
) -> Progress:
    """Solve `count` tiles that lie next to each other in memory, and stop at one that isn't finite.

    The tile that isn't finite is left at `unsure`. `entries` are the initial states of segments, or 0. Inputs of halves
    have no room for them, so the solve also stops before a tile that they enter.

    Most of the time is spent here, so nothing else is done here. `a`, `u` and `x` are the addresses of the first tile.
    `position` is its position among the starts, `length` the number of steps in which to look for them, and `mask` has
    the bits that may be starts. At `table` is room for `MARKED` bytes.
    """
    near, offset, carried, left = progress.near, progress.offset, progress.carried, progress.left
    starts, fresh, done = 0, 0, 0
    step = -tile_steps(tile) if runs_in_reverse(tile) else tile_steps(tile)
    hop = step % cuts.block
    together = MARKED // tile_steps(tile)
    listed = cuts.segments > 1 and cuts.block >= cuts.end and entries == 0
    while done < count:
        if cuts.segments == 1:
            starts = block_starts(cuts, offset, length) & mask
        elif listed:
            if done % together == 0:
                near = mark_fresh(tile, cuts, position, near, table)
            fresh = fresh_in(tile, table, done % together)
            if length < tile_steps(tile):
                fresh &= (1 << length) - 1
            starts = fresh
        else:
            starts, fresh, near = starts_among(cuts, position, length, near)
            starts &= mask
        inputs = u
        if entries != 0 and fresh != 0:
            if not holds_states(tile):
                break
            enter_segments(tile, a, u, unsure, cuts, position, fresh, near, entries)
            inputs = unsure
        if starts == 0:
            finite = inner_tile(tile, a, inputs, x, terms, carried, left, unsure)
        elif terms > 0 and starts & (starts - 1) == 0:
            finite = one_start_tile(tile, a, inputs, x, starts, fresh, terms, carried, left, unsure)
        else:
            finite = blocks_tile(tile, a, inputs, x, starts, fresh, terms, carried, left, unsure)
        if not finite:
            break
        carried, left = left, carried
        offset = moved(cuts, offset, hop)
        mask = -1
        position += step
        a += step * size(single(tile))
        u += step * size(single(tile))
        x += step * size(single(tile))
        done += 1
    return Progress(done, starts, fresh, near, offset, carried, left)


@kernel
def block_rows(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    cuts: int,
    terms: int,
    states: int,
    alone: int,
    entries: int,
    origin: int,
    skip: int,
    scratch: int,
) -> int:
    """Solve blocks with carrier terms in each row.

    Parameters
    ----------
    rows, count, steps, x_step, u_step, a_step
        As in `scan_rows.scan_rows`.
    cuts : address
        The segments and blocks (`cuts.Cuts`). Their positions are counted from `origin` steps before the rows.
    terms : int
        How many carrier terms to keep.
    states : address of accumulators, shape (count, terms + 1)
        The last states before the rows, with 0 .. `terms` terms. In the end they are the last states of the rows.
    alone : int
        Whether nothing enters the rows. The first coefficient then isn't read.
    entries : address of accumulators, shape (count, segments)
        The initial states of all segments but the first, or 0. That of the first is in `states`.
    skip : int
        Number of tiles at the start that are only solved for the states that they pass on, and not written.
    scratch : address
        Room for seven tiles, `MARKED` bytes, and ``terms + 1`` accumulators.
    """
    kept = accumulator(single(tile))
    word = size(kept)
    where = read_cuts(cuts)
    length = tile_steps(tile)
    table = spare(tile, scratch) + 4 * length * word
    other = table + MARKED
    # In reverse, a step is a start if the step behind it in memory is the first of a block.
    ahead = 1 if runs_in_reverse(tile) else 0
    tiles = (steps + length - 1) // length
    dense = x_step == size(single(tile)) and u_step == x_step and a_step == x_step
    unsure = spare(tile, scratch)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        own_entries = entries + index * where.segments * word if entries != 0 else 0
        offset = first_cut(where, 0, origin + tile_position(tile, 0, steps) + ahead)
        near = segment_near(where, origin + tile_position(tile, 0, steps) + ahead) if where.segments > 1 else 0
        progress = Progress(0, 0, 0, near, offset, states + index * (terms + 1) * word, other)
        turn = 0
        while turn < tiles:
            position = tile_position(tile, turn, steps)
            written = turn >= skip
            together = 1
            if dense and written and is_whole(tile, row, turn, tiles):
                together = whole_from(tile, row, turn, tiles)
            mask = -1
            if turn == 0 and alone == 0 and origin == 0 and not runs_in_reverse(tile):
                mask = -2  # an initial state enters
            target = unsure
            if written:
                target = tile_target(tile, row, position, scratch)
            progress = solve_tiles(
                tile,
                tile_coefficients(tile, row, position, scratch),
                tile_inputs(tile, row, position, scratch),
                target,
                together,
                origin + position + ahead,
                min(steps - position, length),
                where,
                mask,
                terms,
                own_entries,
                progress,
                unsure,
                table,
            )
            if progress.done > 0 and written:
                put(tile, row, position, target)
            turn += progress.done
            if progress.done < together:
                position = tile_position(tile, turn, steps)
                lonely = alone != 0 and turn == 0
                tried = own_entries == 0 or progress.fresh == 0 or holds_states(tile)
                left = unsure if tried else 0
                mend_blocks(
                    tile, row, position, progress, terms, lonely, where, origin, own_entries, turn >= skip, left
                )
                hop = (-length if runs_in_reverse(tile) else length) % where.block
                offset = moved(where, progress.offset, hop)
                progress = Progress(0, 0, 0, progress.near, offset, progress.carried, progress.left)
                turn += 1
        if progress.carried == other:
            for term in range(terms + 1):
                store(kept, progress.left, term * word, load(kept, progress.carried, term * word))
    drain(tile)
    return 0
