"""Many sequences at once: what each needs in each number format, and which one needs most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from recfact.arrays import Array, check_axis
from recfact.errors import DataFileError, OptionError
from recfact.precision import (
    BlockFormat,
    FloatFormat,
    Spread,
    choose_window,
    effective_horizon,
)
from recfact.precision.exact.scaled import magnitudes
from recfact.precision.sequence_spread import spread_of
from recfact.precision.sequences import segments_of
from recfact.precision.truncation.window_choice import Candidate
from recfact.report.files import Zeros
from recfact.report.problem import GivenArrays, Problem, given_arrays
from recfact.report.safety import computed_in, count_out_of_range, rounded
from recfact.report.stored import Where

LIMITS = (16, 32, 64, 128, 256)
"""Reaches of windows, in steps: of how many sequences each is too short is counted."""

NAMED = 10
"""The worst sequences that are named."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The sequences that arrays hold along an axis, or the segments along it, which are sequences of their own.

    Parameters
    ----------
    given : GivenArrays
        Coefficients and inputs.
    axis : int
        The axis of time, from 0.
    offsets : array_like of int, optional
        Where segments start, and where the last one ends.
    """

    given: GivenArrays
    axis: int
    offsets: Any = None

    @property
    def a(self) -> Array:
        """The coefficients, all in memory."""
        return self.given.a[(slice(None),) * self.given.a.ndim]

    @property
    def u(self) -> Array:
        """The inputs, all in memory."""
        inputs = self.given.u[(slice(None),) * self.given.u.ndim]
        if not self.given.impulse:
            return inputs
        inputs = np.zeros_like(inputs)
        np.moveaxis(inputs, self.axis, 0)[:1] = 1
        return inputs

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return self.given.a.shape

    @property
    def steps(self) -> int:
        """How many steps the arrays have."""
        return self.shape[self.axis]

    @cached_property
    def segments(self) -> list[slice]:
        """The steps of each segment that has any; those of all without offsets."""
        return [each for each in segments_of(self.offsets, self.steps) if each.start < each.stop]

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return prod(self.shape) // self.steps * len(self.segments)

    @property
    def title(self) -> str:
        """Return a line that describes the sequences."""
        return f"{self.count} sequences of {self.given.what}, {self.steps} steps each"

    @property
    def source(self) -> str:
        """Return a sentence on the source of the numbers."""
        return f"{self.given.source}, {self.given.given}: {self.count} sequences of {self.steps} steps."

    @property
    def longest(self) -> Problem:
        """The first of the longest sequences."""
        place = [0] * len(self.shape)
        place[self.axis] = max(range(len(self.segments)), key=lambda at: _length(self.segments[at]))
        return self.sequence(place)

    def sequence(self, place: Sequence[int], why: str = "", steps: slice | None = None) -> Problem:
        """Return the sequence at a place, or some steps of it. `why` is a sentence on why it is this one."""
        index = self._index(place)
        if steps is not None:
            index = (*index[: self.axis], steps, *index[self.axis + 1 :])
        return self.given.problem(index, f" at {_name(index, steps is None and self.offsets is None)}", why)

    def name(self, place: Sequence[int]) -> str:
        """Return the index of the sequence at a place as NumPy takes it.

        Parameters
        ----------
        place : sequence of int
            An index with the number of the segment in the place of time. Without offsets, it may lack that.

        Examples
        --------
        >>> from recfact.report.stored import Stored
        >>> gates = np.ones((3, 9, 6))
        >>> given = GivenArrays(Stored(gates), Stored(gates), "gates", "", "", True, False)
        >>> Batch(given, 1).name((2, 5)), Batch(given, 1, [0, 4, 9]).name((2, 1, 5))
        ('[2, :, 5]', '[2, 4:9, 5]')
        """
        return _name(self._index(place), self.offsets is None)

    def _index(self, place: Sequence[int]) -> Where:
        where = [int(at) for at in place]
        if len(where) < len(self.shape):
            where.insert(self.axis, 0)
        return (*where[: self.axis], self.segments[where[self.axis]], *where[self.axis + 1 :])


def _name(index: Where, whole: bool) -> str:
    """Return an index as NumPy takes it, in which slices are all steps if `whole`."""
    parts = (str(at) if isinstance(at, int) else ":" if whole else f"{at.start}:{at.stop}" for at in index)
    return f"[{', '.join(parts)}]"


def _length(segment: slice) -> int:
    return int(segment.stop - segment.start)


def batch_from_files(
    a: str, u: str | None, axis: int | None, offsets: Any = None, *, mapped: bool = False, zeros: Zeros | None = None
) -> Batch:
    """Return all sequences of what `a` and `u` name, along an axis that may be left out if there is only one.

    With `mapped` the files stay where they are until they are needed. With `zeros`, missing inputs are 0, and counted.

    Raises
    ------
    OptionError
        If there are several.
    OffsetsError
        If the offsets don't rise from 0 to the number of steps.
    """
    given = given_arrays(a, u, mapped=mapped, zeros=zeros)
    if axis is None and given.a.ndim > 1:
        lies = "several sequences" if offsets is None else "whose segments lie along it"
        raise OptionError(f"must be given for {given.what} of shape {given.a.shape}, {lies}", "axis")
    found = Batch(given, check_axis(-1 if axis is None else axis, given.a.ndim), offsets)
    if not found.segments or not prod(found.shape):
        raise DataFileError(f"a sequence of at least one step is required, and {given.what} have none")
    return found


@dataclass(frozen=True, eq=False)
class SequenceNeeds:
    """Horizons of many sequences in a number format, and the window that is good for all of them.

    Parameters
    ----------
    batch : Batch
        The sequences.
    format : FloatFormat or BlockFormat
        The format.
    out_of_range : int
        Number of coefficients that the format can't hold. If there are any, nothing else is said.
    horizons : Spread, optional
        The largest horizon of each sequence down to the unit roundoff, for the rounded coefficients. Segments are an
        axis of their own, before that of time.
    good : Candidate, optional
        The window to run, which is proved to lose no more than rounding does for each of the sequences.
    unseen : int, default 0
        How many sequences may look back further than their horizon says, because no steps before that were in memory.
    """

    batch: Batch
    format: FloatFormat | BlockFormat
    out_of_range: int
    horizons: Spread | None = None
    good: Candidate | None = None
    unseen: int = 0

    @property
    def window(self) -> str | None:
        """That window, as it is typed, or None."""
        return None if self.good is None else repr(self.good.window)

    def worst(self, count: int = NAMED) -> list[tuple[str, int]]:
        """Return the sequences that look back furthest, as indices, and how far."""
        if self.horizons is None:
            return []
        places = self.horizons.ranked()[:count].tolist()
        return [(self.batch.name(at), int(self.horizons.by_sequence[tuple(at)])) for at in places]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None where nothing can be said."""
        spread = self.horizons
        return {
            "format": self.format.name,
            "out_of_range": self.out_of_range,
            "sequences": None if spread is None else len(spread),
            "largest": None if spread is None else spread.largest,
            "quartiles": None if spread is None else spread.quantile(0.25, 0.5, 0.75),
            "needing_more": None if spread is None else {str(limit): spread.above(limit) for limit in LIMITS},
            "worst": [{"sequence": place, "horizon": horizon} for place, horizon in self.worst()],
            "window": self.window,
            "window_error": self.good.error if self.good else None,
            "unseen": self.unseen,
        }


def sequence_needs(
    batch: Batch, formats: Sequence[FloatFormat | BlockFormat], step: Callable[[str], None] = lambda _: None
) -> list[SequenceNeeds]:
    """Return what the sequences need in each format. `step` is called with a word before each of them.

    Examples
    --------
    >>> from recfact.report.stored import Stored
    >>> gates = np.full((2, 400, 3), 0.5)
    >>> gates[1, :, 2] = 0.9
    >>> given = GivenArrays(Stored(gates), Stored(gates), "gates", "", "", True, False)
    >>> from recfact import precision as pr
    >>> (found,) = sequence_needs(Batch(given, 1), [pr.format("bfloat16")])
    >>> found.worst(2), found.window, found.horizons.above(16)
    ([('[1, :, 2]', 51), ('[0, :, 0]', 8)], 'Jagged(64)', 1)
    """
    found, a = [], batch.a
    for fmt in formats:
        step(f"looking at all sequences in {fmt.name}")
        kept = rounded(a, fmt, batch.axis, batch.offsets)
        if lost := count_out_of_range(kept):
            found.append(SequenceNeeds(batch, fmt, lost))
            continue
        along: dict[str, Any] = {"axis": batch.axis, "offsets": batch.offsets}
        reach = effective_horizon(kept, Fraction(computed_in(fmt).unit_roundoff), **along)
        choice = choose_window(magnitudes(kept), format=computed_in(fmt), **along)
        spread = reach.spread if batch.offsets is None else _spread_of_segments(reach.lags, batch)
        found.append(SequenceNeeds(batch, fmt, 0, spread, choice.recommended))
    return found


def _spread_of_segments(lags: Array, batch: Batch) -> Spread:
    steps = np.moveaxis(lags, batch.axis, 0)
    spreads = [spread_of(steps[segment], 0) for segment in batch.segments]
    largest, at = (
        np.stack([getattr(each, part) for each in spreads], axis=batch.axis) for part in ("by_sequence", "steps")
    )
    return Spread(largest, at, batch.axis + 1)


def worst_problem(batch: Batch, needs: Sequence[SequenceNeeds], most: int | None = None) -> Problem:
    """Return the sequence that looks back furthest in the first format that holds all coefficients.

    If it has more than `most` steps, only so many are returned, up to the step that looks back furthest.
    """
    for found in needs:
        if found.horizons is None:
            continue
        place = found.horizons.ranked()[0].tolist()
        if most is None or batch.steps <= most:
            why = f"Of {batch.count} sequences, this one looks back furthest." if batch.count > 1 else ""
            return batch.sequence(place, why)
        end = max(most, int(found.horizons.steps[tuple(place)]) + 1)
        return batch.sequence(place, "The last step is the one that looks back furthest.", slice(end - most, end))
    if most is not None and batch.steps > most:
        return batch.sequence([0] * len(batch.shape), "These are its first steps.", slice(0, most))
    return batch.longest


def needs_findings(needs: Sequence[SequenceNeeds]) -> list[str]:
    """Return what the sequences need, in sentences."""
    said = []
    for found in needs:
        name = found.format.name
        if found.horizons is None:
            said.append(f"Of all sequences, {name} can't hold {found.out_of_range} coefficients.")
            continue
        good = "proved good for all of them" if len(found.horizons) > 1 else "proved good for it"
        window = f"{found.window} is {good}" if found.window else f"No shorter window is {good}"
        if found.unseen:
            window = f"{found.unseen} may look back further, which didn't fit into memory"
        (place, largest), *_ = found.worst(1)
        median = found.horizons.quantile(0.5)[0]
        said.append(
            f"In {name}, the worst of all {len(found.horizons)} sequences, {place}, looks back {largest} steps, "
            f"and the median one {median}. {window}."
            if len(found.horizons) > 1
            else f"In {name}, the sequence looks back {largest} steps at most. {window}."
        )
    return said
