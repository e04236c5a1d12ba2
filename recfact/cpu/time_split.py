"""One long row on several threads, without changing a bit of the result.

A piece of a window needs some tiles before it, and segments start anew. A piece of the whole recurrence needs the state
that enters it, which isn't known yet. So its spans of `limits.SPAN` steps are only summed up first, until the product
of a span's coefficients has underflowed to zero. The steps after that don't depend on the state, and are solved at
once. Then the states that enter the pieces are known, and the spans that were only summed up are solved. If no product
underflows, this means reading the whole piece twice. A gain is then certain only with more than two threads.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.row_job import SCRATCH, Job, Table, initial_states
from recfact.cpu.scan_rows import chain_spans, span_totals
from recfact.cpu.threads import run_all
from recfact.number_types import accumulator
from recfact.windows import Full, Jagged, Uniform, Window, blocks_and_terms

# Memory traffic of a piece: the inverse of reading two arrays and writing one, with or without reading them before.
ONE_PASS, TWO_PASSES = 3, 2


def split(job: Job, x0: Array | None, threads: int, entries: Array | None) -> bool:
    """Solve a single row on several threads. Return False if one thread must do it.

    `entries` are the initial states of its segments, as in `Job.run`.
    """
    if isinstance(job.window, Full) and job.starts is None:
        return job.tile.channels == 1 and RowOfSpans(job, x0).solve(threads)  # others have a kernel of their own
    return split_window(job, x0, threads, entries)


def split_window(job: Job, x0: Array | None, threads: int, entries: Array | None) -> bool:
    """Solve a window, or segments, on several threads. Each starts where the state before its piece is known.

    Return False if that is too far away.
    """
    n, whole = len(job.x), job.tile.steps
    tiles = -(-n // whole)
    pieces = list(pairwise(cuts_in_time(job, threads)))
    if len(pieces) == 1:
        return False

    def solve(first: int, last: int) -> int:
        """Solve the tiles first .. last-1, in the order of memory."""
        begins, ends = first, last
        if job.tile.reverse:
            ends = min(-(-known_from(job, min(last * whole, n)) // whole), tiles)
        else:
            begins = known_from(job, first * whole) // whole
        skip = (ends - begins) - (last - first)
        low, high = begins * whole, min(ends * whole, n)
        at_edge = high == n if job.tile.reverse else job.start + low == 0
        initial = x0 is not None and begins == 0
        states = initial_states(job.x, x0 if initial else None)
        return job.run(
            job.table(low),
            high - low,
            states,
            initial=initial,
            alone=at_edge and not initial,
            start=job.start + low,
            skip=skip,
            entries=entries,
        )

    run_all([partial(solve, first, last) for first, last in pieces])
    return True


def cuts_in_time(job: Job, threads: int) -> list[int]:
    """Return the tiles at which to cut a row for threads.

    The state that enters at a cut may be known only far before it. Such a cut moves to the start of a segment. Without
    segments the row isn't cut at all.
    """
    n, whole = len(job.x), job.tile.steps
    tiles = -(-n // whole)
    cuts = {0, tiles}
    for index in range(1, threads):
        cut = tiles * index // threads
        before = known_from(job, cut * whole)
        if abs(cut * whole - before) * threads * limits.WORTH_HALO > n:
            if job.starts is None:
                return [0, tiles]
            start = segment_edge(job, cut * whole)
            cut = start // whole if job.tile.reverse else -(-start // whole)
        cuts.add(cut)
    return sorted(cuts)


def known_from(job: Job, position: int) -> int:
    """Return the step at which to start, in the direction of the steps, to get the state that enters at a position.

    It is as many steps away as the window reaches, or at the edge of a segment. With carrier terms it is twice as far:
    the tile in which the reach begins is solved step by step if something in it isn't finite, and the cause may lie
    before it.
    """
    reach = warm_up_steps(job.window)
    if isinstance(job.window, Jagged) and job.window.terms:
        reach *= 2
    if job.tile.reverse:
        return min(position + reach, segment_edge(job, position))
    return max(position - reach, segment_edge(job, position))


def segment_edge(job: Job, position: int) -> int:
    """Return the start of the segment of a position, or in reverse the first start at or after the position.

    Without segments, these are the edges of the row.
    """
    starts = np.zeros(1, np.int64) if job.starts is None else job.starts
    if job.tile.reverse:
        behind = int(np.searchsorted(starts, position))
        return int(starts[behind]) if behind < len(starts) else len(job.x)
    return int(starts[np.searchsorted(starts, position, "right") - 1])


def warm_up_steps(window: Window) -> int:
    """Return how far before a step a solve must start, at most, to get the state of the step."""
    if isinstance(window, Uniform):
        return 2 * window.lags
    block, terms = blocks_and_terms(window)
    return (terms + 1) * block


class RowOfSpans:
    """A single row of the whole recurrence, seen as spans numbered in the order of its steps."""

    def __init__(self, job: Job, x0: Array | None) -> None:
        self.job = job
        self.x0 = x0
        self.span = limits.SPAN
        self.count = -(-len(job.x) // self.span)

    def solve(self, threads: int) -> bool:
        """Solve the row on several threads. Return False if a span isn't finite, or if one thread is faster."""
        if self.count < 2 * threads:
            return False
        probe = self.totals(self.count // 2, self.count // 2 + 1)
        if probe is None:
            return False
        twice = probe[-1, 1] != 0
        if twice and threads < limits.WORTH_TWO_PASSES:
            return False
        shares = np.full(threads, TWO_PASSES if twice else ONE_PASS)
        shares[0] = ONE_PASS
        cuts = self.count * np.concatenate([[0], np.cumsum(shares)]) // shares.sum()
        pieces = [(int(first), int(last)) for first, last in pairwise(cuts)]
        states = [initial_states(self.job.x, self.x0 if index == 0 else None) for index in range(threads)]

        found = run_all([partial(self.solve_ahead, *piece, state) for piece, state in zip(pieces, states, strict=True)])
        waiting = []
        for index in range(1, threads):
            before = found[index]
            if found[index - 1] is None or before is None:
                return False
            entry = initial_states(self.job.x, None)
            entry[0, 0] = states[index - 1][0, 0]
            first = pieces[index][0]
            waiting.append(partial(self.run, first, first + len(before), entry.copy()))
            if before[-1, 1]:  # the end of the piece still depends on the state that enters it
                chain_spans[self.job.tile](before, len(before), entry)
                states[index][0, 0] = entry[0, 0]
        return all(run_all(waiting))

    def solve_ahead(self, first: int, last: int, states: Array) -> Array | None:
        """Solve a piece from where the state that enters it no longer matters.

        Returns the totals of the spans before that place, or None if something isn't finite. `states` becomes the
        state at the end of the piece, as far as it can be known.
        """
        if first == 0:
            return np.zeros((0, 2)) if self.run(first, last, states) else None
        before = self.totals(first, last)
        if before is None or before[-1, 1]:
            return before
        states[0, 0] = before[-1, 0]
        return before if self.run(first + len(before), last, states) else None

    def run(self, first: int, last: int, states: Array) -> bool:
        """Solve spans that a state enters, and return whether no tile had to be repeated."""
        if first == last:
            return True
        table, steps = self._place(first, last)
        start = first == 0
        initial, alone = start and self.x0 is not None, start and self.x0 is None
        return self.job.run(table, steps, states, initial=initial, alone=alone) == 0

    def totals(self, first: int, last: int) -> Array | None:
        """Return the totals of the spans up to the first whose product is zero, or None if they aren't finite."""
        table, steps = self._place(first, last)
        found = np.empty((last - first, 2), accumulator(self.job.x.dtype))
        scratch = np.empty(SCRATCH, np.uint8)
        strides = (array.strides[0] for array in (self.job.x, self.job.u, self.job.a))
        count = span_totals[self.job.tile](table, steps, *strides, found, self.span, scratch)
        return None if count < 0 else found[:count]

    def _place(self, first: int, last: int) -> tuple[Table, int]:
        """Return the arrays and the number of steps of the spans first .. last-1."""
        if self.job.tile.reverse:
            first, last = self.count - last, self.count - first
        low, high = first * self.span, min(last * self.span, len(self.job.x))
        return self.job.table(low), high - low
