"""Where sequences and blocks begin in a row: the bits that tell a tile so.

A row is one sequence, or several next to each other, its segments. Each is cut into blocks, from its start on or, for
bands in reverse, from its end. Both kinds of cut are starts; those of segments are fresh, nothing passes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.cpu.compilation import helper
from recfact.cpu.layout import address
from recfact.cpu.numbers import integer

WIDEST = 64  # steps of a sub-tile, at most: the bits of an integer


class Cuts(NamedTuple):
    """The cuts of a row, for kernels.

    Parameters
    ----------
    block : int
        Steps in a block.
    pattern : int
        Bits at its multiples.
    begin, end : int
        Where the first segment's blocks are counted from, and where the row ends.
    listed : address
        The starts of the segments, or 0 if there is but one. An empty one starts where the next does; the first isn't.
    segments : int
        How many segments there are.
    backwards : int
        Whether blocks are counted from the ends of segments.
    """

    block: int
    pattern: int
    begin: int
    end: int
    listed: int
    segments: int
    backwards: int


def pattern_of(block: int) -> int:
    """Return the signed 64-bit integer with a bit at each multiple of `block`."""
    bits = sum(1 << place for place in range(0, WIDEST, block))
    return bits - (1 << WIDEST) if bits >> (WIDEST - 1) else bits


def cuts_in_memory(
    block: int, steps: int, *, phase: int = 0, starts: Array | None = None, backwards: bool = False
) -> Array:
    """Return the cuts of a row as an array for `read_cuts`; `starts` has to stay alive beside it."""
    listed, segments = (0, 1) if starts is None else (address(starts), len(starts))
    return np.array([block, pattern_of(block), -phase, steps, listed, segments, backwards], np.int64)


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
        integer(at, 6),
    )


@helper
def segment_start(cuts: Cuts, index: int) -> Any:
    """Return where a segment starts; the one behind the last starts at the end of the row."""
    if index <= 0:
        return cuts.begin
    if index >= cuts.segments:
        return cuts.end
    return integer(cuts.listed, index)


@helper
def segment_before(cuts: Cuts, position: int, near: int) -> Any:
    """Return the last segment that starts before a position, or the first one, looked for from segment `near` on."""
    while near > 0 and integer(cuts.listed, near) >= position:
        near -= 1
    while near + 1 < cuts.segments and integer(cuts.listed, near + 1) < position:
        near += 1
    return near


@helper
def segment_near(cuts: Cuts, position: int) -> Any:
    """Return what `segment_before` does, by halving: where no segment near the position is known."""
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
    """Return two integers whose bits say which of `length` steps from a position on are starts, and which are fresh.

    The third result is the last segment that starts at one of them or before, as `near` for the next call.
    """
    index = segment_before(cuts, position, near)
    starts = block_starts(cuts, first_cut(cuts, index, position), length)
    fresh = 0
    following = index + 1
    if cuts.block >= WIDEST and cuts.backwards == 0:  # no block but a segment's first starts among the steps behind it
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


@helper
def block_starts(cuts: Cuts, offset: int, length: int) -> int:
    """Return the bits of the starts among `length` steps in a single segment, the first of which is at `offset`."""
    starts = cuts.pattern << offset if offset < length else 0
    if length < WIDEST:
        starts &= (1 << length) - 1
    return starts


@helper
def moved(cuts: Cuts, offset: int, hop: int) -> int:
    """Return the steps to the next start of a block from a position that is moved by `hop` steps, modulo blocks."""
    offset -= hop
    return offset + cuts.block if offset < 0 else offset


@helper
def bit(word: int, place: int) -> int:
    """Return a bit of an integer."""
    return word >> place & 1
