"""Coefficients and inputs as integers times powers of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import without_labels
from recfact.errors import OptionError, ShapeError
from recfact.precision.exact.dyadic import MAX_SHIFT, Dyadic, shift_left
from recfact.precision.time_axis import check_sequence

PIECE = 1024
"""Steps that are converted at a time."""

Coefficient = tuple[int, int, int]
"""A center, a radius and the number of bits behind the point."""


class Sequence:
    """Coefficients and inputs as integers, piece by piece.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs.
    first : Dyadic
        The first input, with the initial state.
    """

    def __init__(self, a: Array, u: Array, first: Dyadic) -> None:
        self.a, self.u, self.first = a, u, first
        start = first.exponent
        # Every input is a multiple of 2^lowest and below 2^highest in magnitude.
        self.lowest, self.highest = exponent_range(u[1:]) or (start, start)
        if first:
            self.lowest = min(self.lowest, start)
            self.highest = max(self.highest, start + first.significand.bit_length())
        if self.highest - self.lowest > MAX_SHIFT:
            raise OptionError(
                f"the inputs' exponents span {self.highest - self.lowest} bits, more than the {MAX_SHIFT} that are "
                "held at a time; scale the inputs, or leave out what is negligible"
            )

    @staticmethod
    def of(a: Any, u: Any, x0: Any = None) -> Sequence:
        """Check a caller's arguments."""
        a, u, _, _ = without_labels(a, u)
        coefficients, inputs = as_numpy(a, "a"), as_numpy(u, "u")
        check_sequence(coefficients, "a")
        check_sequence(inputs, "u")
        if len(coefficients) != len(inputs):
            raise ShapeError(
                f"a and u must be sequences of one length, got {len(coefficients)} and {len(inputs)} steps; give each "
                "step its coefficient"
            )
        if len(inputs) == 0:
            return Sequence(coefficients, inputs, Dyadic(0))
        first = Dyadic.of(inputs[0])
        if x0 is not None:
            first = Dyadic.of(coefficients[0]) * Dyadic.of(x0) + first
        return Sequence(coefficients, inputs, Dyadic(*_odd(first)))

    def __len__(self) -> int:
        return len(self.u)

    def coefficients(self, start: int = 0, stop: int | None = None) -> Iterator[Coefficient]:
        """Yield center, radius 0 and bits behind the point of the coefficients; 0 for the first one."""
        for i in range(start, len(self) if stop is None else stop, PIECE):
            if i == 0:
                yield 0, 0, 0
            end = min(i + PIECE, len(self) if stop is None else stop)
            for m, e in zip(*integers(self.a[max(i, 1) : end]), strict=True):
                yield (m, 0, -e) if e <= 0 else (shift_left(m, e), 0, 0)

    def inputs(self, scale: int, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """Yield the inputs in units of 2^-scale, rounded down where they are finer."""
        for i in range(start, len(self) if stop is None else stop, PIECE):
            if i == 0:
                yield shifted(self.first.significand, self.first.exponent + scale)
            end = min(i + PIECE, len(self) if stop is None else stop)
            for m, e in zip(*integers(self.u[max(i, 1) : end]), strict=True):
                e += scale
                yield m << e if e >= 0 else m >> -e


def shifted(m: int, shift: int) -> int:
    """Return m 2^shift, rounded down."""
    return m << shift if shift >= 0 else m >> -shift


def integers(values: Array) -> tuple[list[int], list[int]]:
    """Return odd integers m (or 0) and exponents e with values = m 2^e."""
    if values.dtype.kind in "fV" and values.dtype.itemsize <= 8:  # V: the formats of ml_dtypes
        floats = values.astype(np.float64)
        if not np.all(np.isfinite(floats)):
            raise OptionError("exact arithmetic needs finite numbers, got NaN or infinity; replace them first")
        fractions, exponents = np.frexp(floats)
        m = np.ldexp(fractions, 53).astype(np.int64)
        lowest = m & -m
        zeros = np.where(m == 0, 53, np.frexp(lowest.astype(np.float64))[1] - 1)
        return (m >> zeros).tolist(), np.where(m == 0, 0, exponents - 53 + zeros).tolist()
    scalars = values.tolist() if values.dtype.kind in "iu" else values
    odd = [_odd(Dyadic.of(value)) for value in scalars]
    return [m for m, _ in odd], [e for _, e in odd]


def _odd(number: Dyadic) -> tuple[int, int]:
    """Return the odd significand (or 0) of a number and its exponent."""
    m = number.significand
    zeros = (m & -m).bit_length() - 1
    return (m >> zeros, number.exponent + zeros) if m else (0, 0)


def exponent_range(values: Array) -> tuple[int, int] | None:
    """Return low and high with all values multiples of 2^low and below 2^high in magnitude; None if all are 0."""
    lows, highs = [], []
    for start in range(0, len(values), PIECE):
        pairs = [(e, e + m.bit_length()) for m, e in zip(*integers(values[start : start + PIECE]), strict=True) if m]
        if pairs:
            lows.append(min(low for low, _ in pairs))
            highs.append(max(high for _, high in pairs))
    return (min(lows), max(highs)) if lows else None
