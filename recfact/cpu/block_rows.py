"""Jagged windows and segments in each row, tile by tile.

What passes from tile to tile is the last state with 0, 1, 2, ... carrier terms. A tile whose states aren't all finite
is mended by the definition: each of these states is a plain loop that takes over at a start from the one with a term
less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.block_tiles import blocks_tile
from recfact.cpu.compilation import helper, kernel, seldom
from recfact.cpu.cuts import (
    Cuts,
    bit,
    block_starts,
    first_cut,
    moved,
    read_cuts,
    segment_before,
    segment_near,
    segment_start,
    starts_among,
)
from recfact.cpu.numbers import accumulator, drain, fma, load, single, size, store
from recfact.cpu.row_steps import (
    Row,
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
    """Where a row stands.

    Parameters
    ----------
    done : int
        Tiles solved.
    starts, fresh : int
        The bits of the tile at which it stopped, as of `starts_among`.
    near, offset : int
        What `starts_among` and `block_starts` take for the next tile.
    carried, left : address
        Accumulators: the last states before the next tile, and as many for those of the tile.
    """

    done: int
    starts: int
    fresh: int
    near: int
    offset: int
    carried: int
    left: int


@helper
def all_finite(one: Any, at: int, first: int, last: int) -> Any:
    """Return whether the numbers first .. last-1 at an address are finite."""
    for k in range(first, last):
        value = load(one, at, k * size(one))
        if value - value != value - value:
            return False
    return True


@seldom
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
    """Write a tile that isn't finite, and replace the states before it with those that it hands on.

    What nothing passes is taken apart: the parts that are finite are as the tile left them at `unsure`, so that they
    don't depend on the others. The rest is solved by the definition, and so is everything if `unsure` is 0. Nothing
    enters the first step if it is `lonely`; `entries` are the initial states of segments, or 0.
    """
    one = single(tile)
    kept = accumulator(one)
    length = min(row.steps - position, tile_steps(tile))
    apart = progress.starts if terms == 0 else progress.fresh
    done = 0
    while done < length:
        stop = done + 1
        while stop < length and bit(apart, length - 1 - stop if runs_in_reverse(tile) else stop) == 0:
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
    """Take the steps first .. last-1 of a tile by the definition, from the states with 0 .. `terms` terms before it.

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
    """Copy a tile's inputs to `target`, and fold in the initial states of the segments that start there.

    The tile lies at a position, and `a` and `u` are the addresses of its coefficients and inputs. `fresh` and `near`
    are what `starts_among` says of it.
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


@seldom
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
) -> Progress:
    """Solve `count` tiles that lie next to each other in memory, and stop at one that isn't finite.

    What isn't finite is left at `unsure`. `entries` are the initial states of segments, or 0; the inputs of halves have
    no room for them, so before a tile that they enter it stops too.

    This is where the time goes, so nothing else is done here. `a`, `u` and `x` are the addresses of the first tile,
    `position` is where its starts are looked for among `length` steps, and `mask` has the bits that may be starts.
    """
    near, offset, carried, left = progress.near, progress.offset, progress.carried, progress.left
    starts, fresh, done = 0, 0, 0
    step = -tile_steps(tile) if runs_in_reverse(tile) else tile_steps(tile)
    hop = step % cuts.block
    while done < count:
        if cuts.segments == 1:
            starts = block_starts(cuts, offset, length) & mask
        else:
            starts, fresh, near = starts_among(cuts, position, length, near)
            starts &= mask
        inputs = u
        if entries != 0 and fresh != 0:
            if not holds_states(tile):
                break
            enter_segments(tile, a, u, unsure, cuts, position, fresh, near, entries)
            inputs = unsure
        if not blocks_tile(tile, a, inputs, x, starts, fresh, terms, carried, left, unsure):
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
        As of `scan_kernels.scan_rows`.
    cuts : address
        The segments and blocks (`cuts.Cuts`), by positions counted from `origin` steps before the rows.
    terms : int
        How many carrier terms to keep.
    states : address of accumulators, shape (count, terms + 1)
        The last states before the rows, with 0 .. `terms` terms; in the end, those of the rows.
    alone : int
        Whether nothing enters the rows, so that the first coefficient is not read.
    entries : address of accumulators, shape (count, segments)
        The initial states of the segments but for the first, which `states` has; or 0.
    skip : int
        How many tiles are solved for what they pass on and not written.
    scratch : address
        Room for four tiles, and ``terms + 1`` accumulators.
    """
    kept = accumulator(single(tile))
    word = size(kept)
    where = read_cuts(cuts)
    length = tile_steps(tile)
    other = spare(tile, scratch) + length * word
    # In reverse, a step starts anew if the step behind it in memory is the first of a block.
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
            if turn == 0 and alone == 0 and origin == 0 and where.begin == 0 and not runs_in_reverse(tile):
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
