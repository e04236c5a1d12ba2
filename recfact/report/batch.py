"""Many sequences at once: what each needs in each number format, and which one needs most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, check_axis
from recfact.precision import (
    BlockFormat,
    FloatFormat,
    Spread,
    WindowChoice,
    choose_window,
    effective_horizon,
)
from recfact.precision.exact.scaled import magnitudes
from recfact.precision.truncation.window_choice import Candidate
from recfact.report.problem import GivenArrays, Problem, given_arrays
from recfact.report.safety import computed_in, count_out_of_range, rounded

LIMITS = (16, 32, 64, 128, 256)
"""Reaches of windows, in steps: of how many sequences each is too short is counted."""

NAMED = 10
"""The worst sequences that are named."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The sequences that arrays hold along an axis.

    Parameters
    ----------
    given : GivenArrays
        Coefficients and inputs.
    axis : int
        The axis of time, from 0.
    """

    given: GivenArrays
    axis: int

    @property
    def a(self) -> Array:
        """The coefficients."""
        return self.given.a

    @property
    def u(self) -> Array:
        """The inputs."""
        if not self.given.impulse:
            return self.given.u
        inputs = np.zeros_like(self.given.u)
        np.moveaxis(inputs, self.axis, 0)[:1] = 1
        return inputs

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return int(self.a.size // self.a.shape[self.axis])

    @property
    def title(self) -> str:
        """Return a line that describes the sequences."""
        return f"{self.count} sequences of {self.given.what}, {self.a.shape[self.axis]} steps each"

    @property
    def source(self) -> str:
        """Return a sentence on the source of the numbers."""
        return f"{self.given.source}, {self.given.given}: {self.count} sequences of {self.a.shape[self.axis]} steps."

    @property
    def first(self) -> Problem:
        """The first sequence."""
        return self.sequence([0] * (self.a.ndim - 1))

    def sequence(self, place: Sequence[int], chosen: str = "") -> Problem:
        """Return the sequence at an index without time; `chosen` says why it is this one."""
        where: list[int | slice] = [int(at) for at in place]
        where.insert(self.axis, slice(None))
        return self.given.problem(tuple(where), f" at {index_of(place, self.axis)}{chosen}")


def batch_from_files(a: str, u: str | None, axis: int) -> Batch:
    """Return all sequences of what `a` and `u` name, along an axis."""
    given = given_arrays(a, u)
    return Batch(given, check_axis(axis, given.a.ndim))


def index_of(place: Sequence[int], axis: int) -> str:
    """Return the index of a sequence as NumPy takes it.

    Examples
    --------
    >>> index_of((2, 5), 1), index_of((), 0)
    ('[2, :, 5]', '[:]')
    """
    parts = [str(int(at)) for at in place]
    parts.insert(axis, ":")
    return f"[{', '.join(parts)}]"


@dataclass(frozen=True, eq=False)
class SequenceNeeds:
    """Horizons of many sequences in a number format, and the window that is good for all of them.

    Parameters
    ----------
    format : FloatFormat or BlockFormat
        The format.
    out_of_range : int
        Number of coefficients that the format can't hold. If there are any, nothing else is said.
    horizons : Spread, optional
        The largest horizon of each sequence down to the unit roundoff, for the rounded coefficients.
    choice : WindowChoice, optional
        The window that is proved to lose no more than rounding does, for each of the sequences.
    """

    format: FloatFormat | BlockFormat
    out_of_range: int
    horizons: Spread | None = None
    choice: WindowChoice | None = None

    @property
    def good(self) -> Candidate | None:
        """The window that is good for all of them and runs fastest, or None."""
        return None if self.choice is None else self.choice.recommended

    @property
    def window(self) -> str | None:
        """That window, as it is typed, or None."""
        return None if self.good is None else repr(self.good.window)

    def worst(self, count: int = NAMED) -> list[tuple[str, int]]:
        """Return the sequences that look back furthest, as indices, and how far."""
        if self.horizons is None:
            return []
        places = self.horizons.ranked()[:count].tolist()
        return [(index_of(at, self.horizons.axis), int(self.horizons.by_sequence[tuple(at)])) for at in places]

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
        }


def sequence_needs(
    batch: Batch, formats: Sequence[FloatFormat | BlockFormat], step: Callable[[str], None] = lambda _: None
) -> list[SequenceNeeds]:
    """Return what the sequences need in each format. `step` is called with a word before each of them.

    Examples
    --------
    >>> gates = np.full((2, 400, 3), 0.5)
    >>> gates[1, :, 2] = 0.9
    >>> given = GivenArrays(gates, gates, "gates", "", "", True, False)
    >>> from recfact import precision as pr
    >>> (found,) = sequence_needs(Batch(given, 1), [pr.format("bfloat16")])
    >>> found.worst(2), found.window, found.horizons.above(16)
    ([('[1, :, 2]', 51), ('[0, :, 0]', 8)], 'Jagged(64)', 1)
    """
    found = []
    for fmt in formats:
        step(f"looking at all sequences in {fmt.name}")
        kept = rounded(batch.a, fmt, batch.axis)
        if lost := count_out_of_range(kept):
            found.append(SequenceNeeds(fmt, lost))
            continue
        horizons = effective_horizon(kept, Fraction(computed_in(fmt).unit_roundoff), axis=batch.axis).spread
        choice = choose_window(magnitudes(kept), format=computed_in(fmt), axis=batch.axis)
        found.append(SequenceNeeds(fmt, 0, horizons, choice))
    return found


def worst_problem(batch: Batch, needs: Sequence[SequenceNeeds]) -> Problem:
    """Return the sequence that looks back furthest in the first format that holds all coefficients."""
    for found in needs:
        if found.horizons is not None:
            place = found.horizons.ranked()[0].tolist()
            return batch.sequence(place, f", which looks back furthest of {batch.count} sequences")
    return batch.first


def needs_findings(needs: Sequence[SequenceNeeds]) -> list[str]:
    """Return what the sequences need, in sentences."""
    said = []
    for found in needs:
        name = found.format.name
        if found.horizons is None:
            said.append(f"Of all sequences, {name} can't hold {found.out_of_range} coefficients.")
            continue
        window = (
            f"{found.window} is proved good for all of them" if found.window else "no shorter window is good for all"
        )
        (place, largest), *_ = found.worst(1)
        median = found.horizons.quantile(0.5)[0]
        said.append(
            f"Of all {len(found.horizons)} sequences in {name}, the median looks back {median} steps at most and the "
            f"worst, {place}, {largest}; {window}."
        )
    return said
