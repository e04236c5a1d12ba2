"""Pieces of a sequence that are solved apart: where they cut segments, on which other steps they depend, what passes.

A piece takes what enters it, s, to c s + v. Here c is None if a segment starts in the piece, so that nothing passes
through it. Arrays may be of any library.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from recfact.array_functions import namespace
from recfact.recurrence import first_kept
from recfact.windows import Window, blocks_and_terms


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps that lie one behind the other, and the segments that they belong to.

    Parameters
    ----------
    number : int
        Number of the piece along time.
    start, end : int
        The first step, and the step after the last one.
    cuts : list of int
        Where its segments start, and where the last one ends, counted from `start`.
    before, behind : int
        Number of steps of its first segment that lie before it, and of its last segment that lie after it.
    segment : int
        The number of the first segment.
    """

    number: int
    start: int
    end: int
    cuts: list[int]
    before: int
    behind: int
    segment: int

    @property
    def has_one_segment(self) -> bool:
        """Whether all steps belong to one segment."""
        return len(self.cuts) == 2

    def steps_before(self, window: Window) -> int:
        """Return how many steps before the piece its first step sees."""
        return self.before - first_kept(self.before, window)

    def steps_behind(self, window: Window) -> int:
        """Return how many steps after the piece see its last step."""
        block, terms = blocks_and_terms(window)
        last = self.before * self.has_one_segment + self.cuts[-1] - self.cuts[-2] - 1  # its place in its segment
        return min(self.behind, (last // block + terms + 1) * block - 1 - last)


def pieces(lengths: Sequence[int], offsets: Sequence[int]) -> Iterator[Piece]:
    """Yield the pieces that aren't empty.

    Parameters
    ----------
    lengths : sequence of int
        Number of steps of each piece.
    offsets : sequence of int
        Where segments start, and where the last one ends. No segment is empty.
    """
    for number, (start, end) in enumerate(pairwise(accumulate(lengths, initial=0))):
        if start < end:
            first, last = bisect_right(offsets, start) - 1, bisect_left(offsets, end)
            cuts = [0, *(cut - start for cut in offsets[first + 1 : last]), end - start]
            yield Piece(number, start, end, cuts, start - offsets[first], offsets[last] - end, first)


def mapped(pair: tuple[Any, Any], entering: Any) -> Any:
    """Return what leaves a piece from its map and what enters it."""
    c, v = pair
    if c is None or v is None or entering is None:
        return v
    with np.errstate(all="ignore"):
        # If the entering state is 0, a product beyond the number type must not multiply it.
        return namespace(v).where(entering == 0, v, c * entering + v)


def scanned(through: Callable[[Any, Any], Any], maps: Iterable[Any], entering: Any = None) -> list[Any]:
    """Return what enters each of some pieces that follow each other, and what leaves the last one.

    `through` takes the map of a piece and what enters the piece to what leaves it.
    """
    found = [entering]
    for one in maps:
        found.append(through(one, found[-1]))
    return found


def composed(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the map of pieces that follow each other."""
    c, v = pairs[0]
    with np.errstate(all="ignore"):
        for pair in pairs[1:]:
            v = mapped(pair, v)
            c = None if c is None or pair[0] is None else pair[0] * c
    return c, v


def product_with_zeros(c: Any, a: Any) -> Any:
    """Return a product of floats along the first axis: 0 if one of them is 0, even if that of the others overflowed."""
    xp = namespace(c)
    if xp.isfinite(c).all():
        return c
    return xp.where((a == 0).any(0) & xp.isfinite(a).all(0), 0, c)
