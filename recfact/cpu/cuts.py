"""Where sequences and blocks begin in a row: the bits that tell a tile about them.

A row is one sequence, or several sequences one after the other, its segments. Each segment is cut into blocks, counted
from its start, or from its end for bands in reverse. Both kinds of cut are starts. The starts of segments are fresh:
nothing passes them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.cpu.addresses import address
from recfact.cpu.compilation import apart, helper
from recfact.cpu.marks import mark, marked
from recfact.cpu.operations import accumulator, integer, nought, size, store
from recfact.cpu.tile_solvers import runs_in_reverse, tile_steps

WIDEST = 64  # most steps of a sub-tile: the bits of an integer
MARKED = 1024  # steps that are marked at once, whole tiles; if something isn't finite, all of them are marked again


class Cuts(NamedTuple):
    """The cuts of a row, for kernels.

    Parameters
    ----------
    block : int
        Steps in a block.
    pattern : int
        Bits at the multiples of `block`.
    end : int
        The end of the row.
    listed : address
        The starts of the segments, or 0 if there is only one. The first segment isn't empty. An empty one starts where
        the next one does.
    segments : int
        Number of segments.
    backwards : int
        Whether blocks are counted from the ends of segments.
    """

    block: int
    pattern: int
    end: int
    listed: int
    segments: int
    backwards: int


@cache
def pattern_of(block: int) -> int:
    """Return the signed 64-bit integer with a bit at each multiple of `block`."""
    bits = sum(1 << place for place in range(0, WIDEST, block))
    return bits - (1 << WIDEST) if bits >> (WIDEST - 1) else bits


def cuts_in_memory(block: int, steps: int, starts: Array | None, backwards: bool = False) -> Array:
    """Return the cuts of a row as an array for `read_cuts`. The caller must keep `starts` alive as well."""
    listed, segments = (0, 1) if starts is None else (address(starts), len(starts))
    pattern = pattern_of(min(block, WIDEST))
    return np.array([block, pattern, steps, listed, segments, backwards], np.int64)


@helper
def read_cuts(at: int) -> Cuts:
    """Return the cuts of a row from memory."""
    return Cuts(
        integer(at, 0),
        integer(at, 1),
        integer(at, 2),
        integer(at, 3),
        integer(at, 4),
        integer(at, 5),
    )


@helper
def segment_start(cuts: Cuts, index: int) -> Any:
    """Return where a segment starts. The one behind the last starts at the end of the row."""
    if index <= 0:
        return 0
    if index >= cuts.segments:
        return cuts.end
    return integer(cuts.listed, index)


@helper
def segment_before(cuts: Cuts, position: int, near: int) -> Any:
    """Return the last segment that starts before a position, or the first one. The search begins at segment `near`."""
    while near > 0 and integer(cuts.listed, near) >= position:
        near -= 1
    while near + 1 < cuts.segments and integer(cuts.listed, near + 1) < position:
        near += 1
    return near


@helper
def segment_near(cuts: Cuts, position: int) -> Any:
    """Return what `segment_before` does if no segment near the position is known. The search is by halving."""
    first, last = 0, cuts.segments - 1
    while first < last:
        middle = (first + last + 1) // 2
        if integer(cuts.listed, middle) < position:
            first = middle
        else:
            last = middle - 1
    return first


@helper
def first_cut(cuts: Cuts, index: int, position: int) -> Any:
    """Return the steps from a position in a segment to the next start of a block."""
    if cuts.backwards != 0:
        return (segment_start(cuts, index + 1) - position) % cuts.block
    return (segment_start(cuts, index) - position) % cuts.block


@helper
def starts_among(cuts: Cuts, position: int, length: int, near: int) -> Any:
    """Return the bits of the starts among `length` steps from a position on, and those of the fresh starts.

    The third result is the last segment that starts at one of the steps or before. It is `near` for the next call.
    """
    index = segment_before(cuts, position, near)
    starts = block_starts(cuts, first_cut(cuts, index, position), length)
    fresh = 0
    following = index + 1
    # Blocks are so long that behind the start of a segment, only first blocks of segments start among the steps.
    if cuts.block >= WIDEST and cuts.backwards == 0:
        while following + 4 <= cuts.segments and integer(cuts.listed, following + 3) - position < length:
            for k in range(4):
                fresh |= 1 << (integer(cuts.listed, following + k) - position)
            following += 4
        while following < cuts.segments and integer(cuts.listed, following) - position < length:
            fresh |= 1 << (integer(cuts.listed, following) - position)
            following += 1
        return starts & ((fresh & -fresh) - 1) | fresh, fresh, following - 1
    while following < cuts.segments:
        start = integer(cuts.listed, following)
        place = start - position
        if place >= length:
            break
        ahead = first_cut(cuts, following, start) if cuts.backwards != 0 else 0
        starts = starts & ((1 << place) - 1) | block_starts(cuts, place + ahead, length)
        if cuts.backwards != 0:
            starts |= 1 << place
        fresh |= 1 << place
        following += 1
    return starts, fresh, following - 1


@apart
def mark_fresh(tile: Any, cuts: Cuts, position: int, near: int, table: int) -> Any:
    """Mark for `fresh_in` those of `MARKED` steps, from the tile at a position on, at which segments start.

    Takes and returns a segment nearby. The number of short segments that start in a tile can't be predicted, so no
    branch depends on it.
    """
    many = accumulator(tile)
    for place in range(0, MARKED, size(many)):
        store(many, table, place, nought(many))
    if runs_in_reverse(tile):
        first = position + tile_steps(tile) - MARKED
        segment = segment_before(cuts, first + MARKED, near)
        while segment > 0 and integer(cuts.listed, segment) >= first:
            mark(table + integer(cuts.listed, segment) - first)
            segment -= 1
        return segment
    segment = segment_before(cuts, position, near) + 1
    while segment < cuts.segments and integer(cuts.listed, segment) < position + MARKED:
        mark(table + integer(cuts.listed, segment) - position)
        segment += 1
    return segment - 1


@helper
def fresh_in(tile: Any, table: int, index: int) -> Any:
    """Return the bits of tile number `index`, in the order of the steps, from a table of `mark_fresh`."""
    place = index * tile_steps(tile)
    return marked(tile, table + (MARKED - tile_steps(tile) - place if runs_in_reverse(tile) else place))


@helper
def block_starts(cuts: Cuts, offset: int, length: int) -> int:
    """Return the bits of the starts among `length` steps in a single segment. The first start is at `offset`."""
    starts = cuts.pattern << offset if offset < length else 0
    if length < WIDEST:
        starts &= (1 << length) - 1
    return starts


@helper
def moved(cuts: Cuts, offset: int, hop: int) -> int:
    """Return the steps to the next start of a block from a position that has moved by `hop` steps, modulo blocks."""
    offset -= hop
    return offset + cuts.block if offset < 0 else offset


@helper
def bit(word: int, place: int) -> int:
    """Return a bit of an integer."""
    return word >> place & 1
