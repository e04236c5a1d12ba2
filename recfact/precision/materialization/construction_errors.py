"""The errors and failures of a construction of the blocks of L in a number format, against the exact blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import choice
from recfact.plain_records import PlainRecord
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.constructions import METHODS, coefficients_of, construct, measured_arithmetic
from recfact.precision.materialization.exact_blocks import exact_blocks
from recfact.precision.materialization.laws import error_bound
from recfact.precision.sequence_spread import Spread, spread_of
from recfact.written_numbers import at_most


@dataclass(frozen=True, slots=True, repr=False)
class MaterializationErrors(PlainRecord):
    """The errors of a construction in a number format against the exact blocks. It prints itself.

    The strictly lower entries are counted by their true value. It can be zero (because a coefficient is zero), below
    the smallest normal number ("underflow"), beyond the largest number ("overflow"), or in between ("normal"). Relative
    errors are those of the normal entries whose result is finite. A result of zero has an error of 1.

    Parameters
    ----------
    method : str
        The construction.
    format, accumulate : FloatFormat
        The format of coefficients and result, and that of the operations.
    blocks, block : int
        Number and length of the blocks.
    entries, zero, underflow, overflow, normal : int
        Number of all strictly lower entries, and of those with each kind of true value.
    nan, inf, lost, invented, diagonal : int
        Numbers of failures. nan: the entry is NaN. inf: it is infinite, but the true value isn't beyond the largest
        number. lost: it is zero, but the true value is a normal number. invented: it isn't zero, but the true value is.
        diagonal: a diagonal entry isn't 1.
    ratio : float
        The largest quotient of an error and its bound (`materialization_bound`), over all entries that have a bound,
        including those that underflow or overflow. It is at most 1 if the theory is right.
    bounded : int
        Number of strictly lower entries that have a bound.
    computed, relative : ndarray, shape (..., l, l)
        The computed blocks, and their relative errors. These are NaN where none is measured.

    Notes
    -----
    `recfact.materialize` names the sources of the constructions. How they are measured is explained on the page on
    blocks as dense matrices.
    """

    method: str
    format: FloatFormat
    accumulate: FloatFormat
    blocks: int
    block: int
    entries: int
    zero: int
    underflow: int
    overflow: int
    normal: int
    nan: int
    inf: int
    lost: int
    invented: int
    diagonal: int
    ratio: float
    bounded: int
    computed: Array = field(compare=False)
    relative: Array = field(compare=False)

    @property
    def failures(self) -> int:
        """The number of strictly lower entries that failed: NaN, infinite, lost or invented."""
        return self.nan + self.inf + self.lost + self.invented

    @property
    def spread(self) -> Spread:
        """The largest relative error of each block, and its row. It is 0 if none is measured."""
        by_row = np.nan_to_num(self.relative, nan=0.0).max(axis=-1, initial=0.0)
        return spread_of(by_row, by_row.ndim - 1)

    @property
    def measured(self) -> Array:
        """The relative errors, ascending."""
        return np.sort(self.relative[~np.isnan(self.relative)])

    def quantile(self, *shares: float) -> Array:
        """Return quantiles of the measured relative errors. They are NaN if none is measured."""
        measured = self.measured
        return np.quantile(measured, shares) if measured.size else np.full(len(shares), np.nan)

    def by_lag(self, share: float = 1.0) -> Array:
        """Return a quantile of the relative errors for each lag 1 .. l-1. It is NaN if none is measured."""
        rows = self.relative.reshape(self.blocks, self.block, self.block)
        result = np.full(max(self.block - 1, 0), np.nan)
        for lag in range(1, self.block):
            errors = np.diagonal(rows, -lag, 1, 2)
            errors = errors[~np.isnan(errors)]
            if errors.size:
                result[lag - 1] = np.quantile(errors, share)
        return result

    def __repr__(self) -> str:
        median, largest = self.quantile(0.5, 1.0)
        inside = "" if self.accumulate == self.format else f", {self.accumulate.name} inside"
        failures = f"{self.nan} NaN, {self.inf} infinite, {self.lost} lost, {self.invented} invented"
        beyond = f"{self.underflow} below the smallest normal number, {self.overflow} beyond the largest"
        lines = [
            f"{self.method} in {self.format.name}{inside}: {self.blocks} blocks of {self.block} steps",
            f"entries          {self.entries} below the diagonal: {self.zero} true zeros, {beyond}",
            f"relative error   median {median:.3g}, largest {largest:.3g} (of {self.measured.size} entries)",
            f"failures         {failures}; on the diagonal {self.diagonal}",
            f"error / bound    at most {at_most(self.ratio, 3):.3g} (over {self.bounded} entries)",
        ]
        return "\n".join(lines)


def materialization_errors(a: Any, method: str = "cumprod", *, format: Any, axis: int = -1) -> MaterializationErrors:
    """Measure a construction of the blocks of L in a number format against the exact blocks.

    The exact entries are products of the coefficients after rounding to the format. They have 93 bits, and they don't
    underflow or overflow. There are no `offsets`, because `axis` holds a single block: cut segments into blocks of one
    length, which follow each other along another axis.

    Parameters
    ----------
    a, method, format, axis
        As for `rounded_materialize`.

    Returns
    -------
    MaterializationErrors

    Raises
    ------
    OptionError
        If there is no such method or format, if float64 doesn't hold a format, if the format lacks zero or negative
        numbers, or if a coefficient isn't finite in it.
    ShapeError
        If `a` is a scalar, or has no such axis.

    Notes
    -----
    `recfact.materialize` names the sources of the constructions. How they are measured is explained on the page on
    blocks as dense matrices.

    Examples
    --------
    >>> materialization_errors(np.full((10, 6), 0.01), "ratio", format="float16")
    ratio in binary16: 10 blocks of 6 steps
    entries          150 below the diagonal: 0 true zeros, 60 below the smallest normal number, 0 beyond the largest
    relative error   median 0.506, largest 1 (of 60 entries)
    failures         30 NaN, 0 infinite, 30 lost, 0 invented; on the diagonal 30
    error / bound    at most 0.422 (over 120 entries)
    """
    choice(method, "method", METHODS)
    return MeasuredBlocks(a, format, axis).errors(method)


class MeasuredBlocks:
    """Blocks of coefficients in a number format, with the exact entries that all constructions are measured against.

    Parameters
    ----------
    a, format, axis
        As for `materialization_errors`.
    """

    def __init__(self, a: Any, format: Any, axis: int = -1) -> None:
        self.how = measured_arithmetic(format)
        self.coefficients = coefficients_of(a, self.how, axis)
        self.exact = exact_blocks(self.coefficients)
        magnitude, storage = np.abs(self.exact.to_float()), self.how.format
        self.below = np.broadcast_to(np.tri(magnitude.shape[-1], k=-1, dtype=bool), magnitude.shape)
        self.zero = self.below & (self.exact.high == 0)
        self.underflow = self.below & ~self.zero & (magnitude < float(storage.smallest_normal))
        self.overflow = self.below & (magnitude > float(storage.max))
        self.normal = self.below & ~(self.zero | self.underflow | self.overflow)

    def errors(self, method: str) -> MaterializationErrors:
        """Return the errors of a construction."""
        storage, wide = self.how.format, self.how.accumulate
        computed = construct(self.coefficients, method, self.how)
        absolute, relative = self.exact.compare(computed)
        bound = error_bound(self.coefficients, self.exact, method, storage, wide)
        nan, inf = self.below & np.isnan(computed), self.below & np.isinf(computed)
        held = self.below & np.isfinite(bound)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(absolute == 0, 0, absolute / bound)[held]
        return MaterializationErrors(
            method=method,
            format=storage,
            accumulate=wide,
            blocks=self.coefficients[..., :1].size,
            block=self.coefficients.shape[-1],
            **{
                name: int(np.count_nonzero(mask))
                for name, mask in {
                    "entries": self.below,
                    "zero": self.zero,
                    "underflow": self.underflow,
                    "overflow": self.overflow,
                    "normal": self.normal,
                    "nan": nan,
                    "inf": inf & ~self.overflow,
                    "lost": self.normal & (computed == 0),
                    "invented": self.zero & (computed != 0) & ~nan & ~inf,
                    "diagonal": np.diagonal(computed, 0, -2, -1) != 1,
                    "bounded": held,
                }.items()
            },
            ratio=float(ratio.max(initial=0.0)),
            computed=computed,
            relative=np.where(self.normal & np.isfinite(computed), relative, np.nan),
        )
