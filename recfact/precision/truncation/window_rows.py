"""Sequences as rows of arrays that stay in a cache, and what windows lose in them as logarithms.

Rows of one array have one length. So segments of about one length share an array, and zeros follow the shorter ones.
All that a window loses there has a factor of zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import DTypeError, OptionError
from recfact.factorizations.norms import row_sums
from recfact.factorizations.scalars import as_coefficients
from recfact.precision.sequences import CACHED, segments_of
from recfact.windows import Jagged, Uniform

Steps = slice | Array
"""Steps of a sequence, as an index."""


@dataclass(frozen=True)
class Rows:
    """Segments of about one length.

    Parameters
    ----------
    sequences, starts, lengths : ndarray of int, shape (rows,)
        The sequence to which each segment belongs, where it starts in it, and its length.
    """

    sequences: Array
    starts: Array
    lengths: Array

    @cached_property
    def length(self) -> int:
        """The length of the rows: that of the longest segment."""
        return int(self.lengths.max())

    def of(self, a: Array) -> Array:
        """Return the coefficients, shape (rows, length), of sequences whose last axis is time."""
        places: tuple[Any, ...] = np.unravel_index(self.sequences, a.shape[:-1]) if a.ndim > 1 else ()
        first, n = int(self.starts[0]), self.length
        if np.all(self.starts == first) and np.all(self.lengths == n):
            rows = a[..., first : first + n][places or np.newaxis]
        else:
            steps = np.arange(n)
            inside = steps < self.lengths[:, np.newaxis]
            index = np.where(inside, self.starts[:, np.newaxis] + steps, 0)
            rows = np.where(inside, a[(*(place[:, np.newaxis] for place in places), index)], 0)
        return as_coefficients(rows.ravel()).reshape(len(self.starts), n)


def rows_of(shape: tuple[int, ...], offsets: Any) -> Iterator[Rows]:
    """Yield the segments of sequences of a shape, whose last axis is time, in rows of at least half their length."""
    segments = [segment for segment in segments_of(offsets, shape[-1]) if segment.start < segment.stop]
    starts, stops = (np.array([getattr(each, end) for each in segments], dtype=int) for end in ("start", "stop"))
    lengths = stops - starts
    classes = np.frexp(lengths - 0.5)[1]
    for kind in np.unique(classes):
        alike = np.flatnonzero(classes == kind)
        count = prod(shape[:-1]) * len(alike)
        step = max(1, CACHED // int(lengths[alike].max()))
        for first in range(0, count, step):
            sequences, which = np.divmod(np.arange(first, min(first + step, count)), len(alike))
            yield Rows(sequences, starts[alike[which]], lengths[alike[which]])


class RowLosses:
    """Logarithms of what windows lose in segments of about one length.

    Parameters
    ----------
    rows : Rows
        The segments.
    a : ndarray, shape (rows, n)
        Their coefficients.
    relative_to : {"state", "input"}
        What the loss is compared with.
    """

    def __init__(self, rows: Rows, a: Array, relative_to: str) -> None:
        self.rows, self.length = rows, a.shape[-1]
        moduli = _moduli(a)
        self.grows = bool(np.any(moduli[:, 1:] > 1))
        zero = np.asarray(a == 0, dtype=bool)
        logarithms = np.log(np.where(zero, 1.0, np.maximum(moduli, np.nextafter(0.0, 1.0))))
        logarithms[:, :1], zero[:, :1] = 0.0, False  # a[0] multiplies the initial state alone
        # The product of a[i] ... a[j] has the logarithm products[i + 1] - products[j], and zeros[i + 1] - zeros[j]
        # factors that are 0. A sum of logarithms alone would not tell 0 from a very small number. states[j] is the
        # logarithm of the largest state before j.
        self.products = _sums(logarithms)
        self.zeros = _sums(zero) if zero.any() else None
        self.states = np.log(_one_later(row_sums(moduli))) if relative_to == "input" else None

    def steps(self, window: Uniform | Jagged) -> tuple[Steps, Steps]:
        """Return the steps that lose most, and the first step that each of them keeps."""
        n = self.length
        if isinstance(window, Uniform):
            return slice(window.lags, n), slice(1, max(1, n - window.lags + 1))
        block, lost = window.block, (window.terms + 1) * window.block
        if self.grows:
            steps = np.arange(min(lost, n), n)
            return steps, (steps // block - window.terms) * block
        # Without growth the first step of a block loses most.
        return slice(lost, n, block), slice(block, max(block, n - window.terms * block), block)

    def lost(self, steps: Steps, first: Steps) -> Array:
        """Return the logarithms of what steps lose whose windows begin at `first` > 0; -inf where they lose nothing."""
        lost: Array = self.products[:, 1:][:, steps] - self.products[:, first]
        if self.states is not None:
            lost += self.states[:, first]
        if self.zeros is not None:
            lost[self.zeros[:, 1:][:, steps] != self.zeros[:, first]] = -inf
        return lost

    def most(self, window: Uniform | Jagged) -> float:
        """Return the logarithm of the most that is lost."""
        return float(np.max(self.lost(*self.steps(window)), initial=-inf))

    def worst(self, window: Uniform | Jagged) -> tuple[float, int, int]:
        """Return the logarithm of the most that is lost, and the sequence and step where it is lost."""
        steps, first = self.steps(window)
        lost = self.lost(steps, first)
        if lost.size == 0:
            return -inf, 0, 0
        row, place = np.unravel_index(int(np.argmax(lost)), lost.shape)
        step = int(self.rows.starts[row]) + int(np.arange(self.length)[steps][place])
        return float(lost[row, place]), int(self.rows.sequences[row]), step


def _moduli(a: Array) -> Array:
    """Return the magnitudes of real coefficients as floats."""
    if a.dtype.kind == "c":
        raise DTypeError("windows are chosen for real coefficients, got complex ones; pass their magnitudes")
    try:
        moduli = np.abs(a.astype(np.float64))
    except (TypeError, ValueError):
        raise DTypeError("a window needs real coefficients, got an array of other objects; pass numbers") from None
    except OverflowError:
        raise OptionError("a window needs coefficients in the range of float64, got larger ones") from None
    if not np.all(np.isfinite(moduli)):
        raise OptionError("a window needs finite coefficients, got NaN or infinity; replace them first")
    return moduli


def _sums(values: Array) -> Array:
    """Return the sums of the values before each place, and of all."""
    sums = np.zeros((len(values), values.shape[-1] + 1), dtype=float if values.dtype.kind == "f" else int)
    np.cumsum(values, axis=-1, out=sums[:, 1:])
    return sums


def _one_later(values: Array) -> Array:
    """Return the values one step later, and 1 first."""
    return np.concatenate([np.ones_like(values[:, :1]), values[:, :-1]], axis=1)
