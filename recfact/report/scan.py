"""What all sequences need whose files are larger than memory. An interrupted look at them goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from recfact import __version__
from recfact.arrays import Array
from recfact.gpu.b2p import TILE
from recfact.precision import BlockFormat, FloatFormat, Spread, effective_horizon
from recfact.precision.exact.outward import round_up
from recfact.precision.sequence_spread import spread_of
from recfact.precision.truncation.window_choice import Candidate
from recfact.report import boxes
from recfact.report.batch import Batch, SequenceNeeds
from recfact.report.boxes import Box
from recfact.report.files import system_errors
from recfact.report.partial import Notes
from recfact.report.safety import computed_in, count_out_of_range, rounded
from recfact.windows import Jagged

LOOK = 1 << 17
"""Steps that are looked at together, and the steps before them to which their horizons may reach."""

NEAR = 1 << 12
"""The steps before them that are looked at first. They do unless a horizon reaches back to the first one."""

WHOLE = 64
"""What is looked at begins at a multiple of this, so that blocks that share a scale are those of the sequence."""

COMPUTED = 160
"""Bytes that are computed for a coefficient that is looked at, at most: 20 numbers."""

NOTED = 10.0
"""Seconds between two notes."""

CLOSE = Fraction(1, 1 << 20)
"""By how much less than this horizons may be wrong, as a part of the weight."""


class Scan:
    """A look at the coefficients of a batch, box after box.

    Parameters
    ----------
    batch : Batch
        The sequences, without offsets.
    formats : sequence of FloatFormat and BlockFormat
        The formats.
    out : Path, optional
        The page. Notes lie beside it. Without it there are none.

    Attributes
    ----------
    nbytes : int
        The bytes of all coefficients.
    done : int
        How many boxes have been looked at, by an earlier run at first.
    """

    def __init__(self, batch: Batch, formats: Sequence[FloatFormat | BlockFormat], out: Path | None) -> None:
        self.batch, self.formats, self.a = batch, formats, batch.given.a
        self.axis = batch.axis
        self.width = self.a.dtype.itemsize
        self.nbytes = int(np.prod(self.a.shape, dtype=object)) * self.width
        self.boxes = boxes.boxes(self.a.shape, self.axis, self.a.chunks, self.nbytes)
        first = self.boxes[0][self.axis]
        self.reach = min(LOOK, first.stop)
        rest = (*self.a.shape[: self.axis], *self.a.shape[self.axis + 1 :])
        self.lost = np.zeros(len(formats), dtype=np.int64)
        self.largest, self.steps = (np.zeros((len(formats), *rest), dtype=np.int64) for _ in range(2))
        self.unseen = np.zeros((len(formats), *rest), dtype=bool)
        self.done = 0
        about = [self.a.identity(), self.axis, [each.name for each in formats], boxes.PIECE, LOOK, __version__]
        self.notes = None if out is None else Notes(out, json.dumps(about))
        self._resume()

    @property
    def seen(self) -> int:
        """How many bytes of the coefficients have been looked at."""
        return sum(map(boxes.size, self.boxes[: self.done])) * self.width

    def run(self, step: Callable[[int], None]) -> list[SequenceNeeds]:
        """Return what the sequences need. After each box `step` gets the bytes looked at so far."""
        seen, noted = self.seen, monotonic()
        past: Array | None = None
        for box in self.boxes[self.done :]:
            past = self._look(box, past)
            self.done += 1
            seen += boxes.size(box) * self.width
            if self.notes is not None and monotonic() - noted > NOTED:
                with system_errors(self.notes.path):
                    self.notes.write({name: getattr(self, name) for name in _NOTED})
                noted = monotonic()
            step(seen)
        return [self._needs(number) for number in range(len(self.formats))]

    def remove(self) -> None:
        """Remove the notes."""
        if self.notes is not None:
            self.notes.remove()

    def _look(self, box: Box, past: Array | None) -> Array:
        """Look at a box, and return the steps that matter to the next one."""
        start, stop = box[self.axis].start, box[self.axis].stop
        before = self._before(start)
        if start == 0:
            past = None
        elif past is None:  # an earlier run has looked at it
            past = self.a[(*box[: self.axis], slice(before, start), *box[self.axis + 1 :])]
        own = self.a[box]
        both = own if past is None else np.concatenate([past, own], axis=self.axis)
        rest = (*box[: self.axis], *box[self.axis + 1 :])
        steps = np.moveaxis(both, self.axis, 0)
        for group in self._groups(steps.shape):
            place = tuple(slice(of.start + own.start, of.start + own.stop) for of, own in zip(rest, group, strict=True))
            for begin in range(start, stop, LOOK):
                for number in range(len(self.formats)):
                    own_steps = slice(begin, min(stop, begin + LOOK))
                    self._measure(number, place, steps[:, *group], before, own_steps)
        return np.moveaxis(steps[self._before(stop) - before :], 0, self.axis).copy()

    def _groups(self, shape: tuple[int, ...]) -> list[Box]:
        """Return groups of the sequences of steps, so few that what is computed of them is no larger than a box."""
        together = min(shape[0], 2 * LOOK) * prod(shape[1:])
        found = boxes.boxes((*shape[1:], 1), len(shape) - 1, (1,) * len(shape), together * COMPUTED)
        return [box[:-1] for box in found]

    def _before(self, step: int, most: int | None = None) -> int:
        """Return the first step that matters to a step, or that of at most so many before it."""
        reach = self.reach if most is None else min(most, self.reach)
        return int(max(0, step - reach) // WHOLE * WHOLE)

    def _measure(self, number: int, rest: tuple[slice, ...], values: Array, before: int, own: slice) -> None:
        """Find the horizons of some steps in one format. The values begin at the step `before`."""
        fmt = self.formats[number]
        for most in (NEAR, None):
            first = self._before(own.start, most)
            known = own.start - first
            kept = rounded(values[first - before : own.stop - before], fmt, 0)
            lost = count_out_of_range(kept[known:])
            if lost or self.lost[number]:  # nothing else is said
                self.lost[number] += lost
                return
            lags = effective_horizon(kept, Fraction(computed_in(fmt).unit_roundoff), axis=0).lags[known:]
            there = np.arange(known, known + len(lags)).reshape(-1, *(1,) * (lags.ndim - 1))
            cut = (lags == there).any(axis=0)
            if not (first and cut.any()):
                break
        found = spread_of(lags, 0)
        place: Any = (number, ..., *rest)
        largest, steps, unseen = (of_all[place] for of_all in (self.largest, self.steps, self.unseen))
        further = found.by_sequence > largest
        steps[further] = found.steps[further] + own.start
        largest[further] = found.by_sequence[further]
        if first:
            unseen |= cut

    def _needs(self, number: int) -> SequenceNeeds:
        fmt, lost = self.formats[number], int(self.lost[number])
        if lost:
            return SequenceNeeds(self.batch, fmt, lost)
        spread = Spread(self.largest[number], self.steps[number], self.axis)
        unseen = int(np.count_nonzero(self.unseen[number]))
        good = None if unseen else self._good(fmt, spread.largest)
        return SequenceNeeds(self.batch, fmt, 0, spread, good, unseen)

    def _good(self, fmt: FloatFormat | BlockFormat, horizon: int) -> Candidate | None:
        """Return a window of whole tiles that keeps all weights down to the unit roundoff.

        It changes a state by an earlier state times a weight that it doesn't keep.
        """
        block = max(1, -(-horizon // TILE)) * TILE
        if block >= self.batch.steps:
            return None
        return Candidate(Jagged(block), round_up(Fraction(computed_in(fmt).unit_roundoff) * (1 + CLOSE)))

    def _resume(self) -> None:
        noted = None if self.notes is None else self.notes.read()
        if noted is None or any(
            name not in noted or np.shape(noted[name]) != np.shape(getattr(self, name)) for name in _NOTED
        ):
            return
        for name in _NOTED:
            setattr(self, name, noted[name])
        self.done = int(self.done)


_NOTED = ("lost", "largest", "steps", "unseen", "done")
