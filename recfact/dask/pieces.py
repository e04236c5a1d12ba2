"""Where chunks cut the segments of a sequence, and which steps outside a chunk its states depend on in a window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from recfact.recurrence import first_kept
from recfact.windows import Window, blocks_and_terms


@dataclass(frozen=True, slots=True)
class Piece:
    """The steps of a chunk, and the segments that they belong to.

    Parameters
    ----------
    number : int
        Number of the chunk along time.
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
    """Yield the pieces of all chunks that aren't empty.

    Parameters
    ----------
    lengths : sequence of int
        Number of steps of each chunk.
    offsets : sequence of int
        Where segments start, and where the last one ends. No segment is empty.
    """
    for number, (start, end) in enumerate(pairwise(accumulate(lengths, initial=0))):
        if start < end:
            first, last = bisect_right(offsets, start) - 1, bisect_left(offsets, end)
            cuts = [0, *(cut - start for cut in offsets[first + 1 : last]), end - start]
            yield Piece(number, start, end, cuts, start - offsets[first], offsets[last] - end, first)
