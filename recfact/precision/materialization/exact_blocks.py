"""The exact transfer operators of blocks, to 93 bits, for many blocks at once.

Coefficients are floats, so every entry is a significand times a power of two. The significand is kept as an unevaluated
sum of two float64, and the exponent as an integer. So nothing overflows or underflows. All blocks of a batch advance
together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.precision.exact.scaled import two_product


class ExactBlocks(NamedTuple):
    """Entries (high + low) 2^exponent of transfer operators. The magnitude of high is 0 or between 1/2 and 1.

    A step multiplies a row by its coefficient. The product of the high parts is exact (Dekker, 1971). Three roundings
    remain below it, with a total error of less than 2^-103 of the result. So the relative error of an entry at lag d is
    less than (d - 1) 2^-103. This is 2^-93 for blocks of up to 1024 steps. Zeros, signs and lags 0 and 1 are exact.
    """

    high: Array
    low: Array
    exponent: Array

    def to_float(self) -> Array:
        """Return the entries as float64."""
        with np.errstate(all="ignore"):
            return np.ldexp(self.high, self.exponent)

    def compare(self, values: Array) -> tuple[Array, Array]:
        """Return the error of `values`: absolute, and relative to the exact entry (NaN where that is 0).

        Parameters
        ----------
        values : ndarray of float64, shape (..., l, l)
            Computed entries, NaN and infinity included.

        Returns
        -------
        absolute, relative : ndarray of float64, shape (..., l, l)
            Magnitudes of the errors. Each is accurate to 2^-50 of itself and 2^-92 of the entry.
        """
        significand, exponent = np.frexp(values)
        shift = np.where(values == 0, 0, exponent - self.exponent)
        with np.errstate(invalid="ignore", divide="ignore"):
            # So far apart, the smaller number is nothing beside the larger one.
            scaled = np.ldexp(significand, np.clip(shift, -900, 900))
            difference = np.abs((scaled - self.high) - self.low)
            absolute = np.where(shift < 900, np.ldexp(difference, self.exponent), np.abs(values))
            absolute = np.where(self.high == 0, np.abs(values), absolute)
            relative = difference / np.abs(self.high + self.low)
        return absolute, np.where(self.high == 0, np.nan, relative)


def exact_blocks(a: Array) -> ExactBlocks:
    """Return the transfer operators of blocks of coefficients.

    Parameters
    ----------
    a : ndarray of float64, shape (..., l)
        Finite coefficients; ``a[..., 0]`` is not read.

    Returns
    -------
    ExactBlocks, of arrays of shape (..., l, l)

    Examples
    --------
    >>> exact_blocks(np.array([0.0, 2.0**-1000, 2.0**-1000])).exponent[2, 0]
    np.int64(-1999)
    """
    steps = a.shape[-1]
    significand, power = np.frexp(a)
    high, low = np.zeros((*a.shape, steps)), np.zeros((*a.shape, steps))
    exponent = np.zeros((*a.shape, steps), dtype=np.int64)
    for i in range(steps):
        if i:
            factor = significand[..., i, None]
            product, rest = two_product(high[..., i - 1, :i], factor)
            rest = rest + low[..., i - 1, :i] * factor
            total = product + rest
            rest = rest - (total - product)
            total, shift = np.frexp(total)
            high[..., i, :i], low[..., i, :i] = total, np.ldexp(rest, -shift)
            exponent[..., i, :i] = exponent[..., i - 1, :i] + power[..., i, None] + shift
        high[..., i, i], exponent[..., i, i] = 0.5, 1
    return ExactBlocks(high, low, exponent)
