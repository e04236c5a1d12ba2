"""Products, sums and fused multiply-adds of the numbers of a format, each rounded once.

The product of two numbers of up to 25 bits is exact in float64. Their sum isn't always, but it is there rounded to odd
(Boldo and Melquiond, 2008): if it is inexact, the one of its two neighbours that has an odd significand stands for it.
No boundary between two numbers of a format of up to 51 bits is odd, so a rounding of that float64 to the format, in any
mode, is the rounding of the sum itself. The sum of an exact product and a third number goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import generator
from recfact.precision.formats.array_rounding import round_array
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.reals import Number, exactly


class Arithmetic:
    """Arithmetic in which every operation is exact but for one rounding to a format.

    Parameters
    ----------
    format : str, dtype or FloatFormat
        The format.
    rounding, underflow, overflow, seed
        How to round, as in ``FloatFormat.round``.

    Attributes
    ----------
    format : FloatFormat
        The format.
    dtype : numpy.dtype
        float64, or object for a format with numbers that float64 doesn't hold.

    Raises
    ------
    OptionError
        If an option isn't one of those, or asks for what the format doesn't have.

    Notes
    -----
    Operands are numbers of the format: float64 arrays that broadcast, or object arrays of Fractions for a format whose
    numbers float64 doesn't hold. Formats of more than 25 bits, but for binary64 rounded to nearest, take the way
    through Fractions, which is a few thousand times slower.

    The model of IEEE 754 (2019): an operation gives the exact result, rounded once.

    Examples
    --------
    >>> half = Arithmetic("float16")
    >>> x = np.array([1 + 2**-10])
    >>> half.multiply(x, x).tolist(), half.fma(x, x, np.array([-1 - 2**-9])).tolist()
    ([1.001953125], [9.5367431640625e-07])
    """

    def __init__(
        self,
        format: Any,
        rounding: str = "nearest-even",
        *,
        underflow: str = "gradual",
        overflow: str | None = None,
        seed: Any = None,
    ) -> None:
        fmt = self.format = format_of(format)
        # A rounding of nothing, to have the options checked.
        fmt.round(np.empty(0), rounding, underflow=underflow, overflow=overflow)
        self.rounding, self.underflow = rounding, underflow
        self.overflow = fmt.overflow if overflow is None else overflow
        self._generator = generator(seed) if rounding == "stochastic" else None
        self.dtype = np.dtype(np.float64 if fmt.fits_float64 else object)
        p, lowest = fmt.fraction_bits, fmt.emin - fmt.fraction_bits
        self._products_fit = p <= 25 and 2 * lowest >= -1074 and 2 * fmt.emax + 2 <= 1023
        self._sums_fit = fmt.emax + 2 - lowest <= 53
        usual = (rounding, underflow, self.overflow) == ("nearest-even", "gradual", "infinity")
        self._is_native = usual and fmt == FORMATS["binary64"]

    def round(self, x: Array) -> Array:
        """Return float64 or exact numbers rounded to the format."""
        if x.dtype == np.float64:
            x = np.ascontiguousarray(x).reshape(x.shape)
            return round_array(self.format, x, self.rounding, self.underflow, self.overflow, self._generator)
        options: dict[str, Any] = {"underflow": self.underflow, "overflow": self.overflow, "seed": self._generator}
        return np.asarray(self.format.round(x, self.rounding, **options)).astype(self.dtype)

    def multiply(self, x: Array, y: Array) -> Array:
        """Return x y."""
        with np.errstate(all="ignore"):
            if self._is_native:
                return np.asarray(x * y)
            if self._products_fit:
                return self.round(np.asarray(x * y))
        return self._exactly(_product, x, y)

    def add(self, x: Array, y: Array) -> Array:
        """Return x + y."""
        with np.errstate(all="ignore"):
            if self._is_native or self._sums_fit:
                total = np.asarray(x + y)
                return total if self._is_native else self.round(total)
            if self._products_fit:
                return self.round(odd_sum(x, y))
        return self._exactly(_sum, x, y)

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return x y + z, rounded once."""
        if self._products_fit:
            with np.errstate(all="ignore"):
                return self.round(odd_sum(x * y, z))
        return self._exactly(lambda p, q, r: _sum(_product(p, q), r), x, y, z)

    def _exactly(self, operation: Callable[..., Number], *operands: Array) -> Array:
        """Apply an operation of exact scalars and round what it gives."""
        return self.round(exactly(operation, *operands))


def odd_sum(x: Array, y: Array) -> Array:
    """Return x + y in float64, rounded to odd."""
    total = np.asarray(x + y)
    part = total - x
    error = (x - (total - part)) + (y - part)  # Knuth's: exact without overflow
    adjust = (error != 0) & np.isfinite(total) & (total.view(np.int64) & 1 == 0)
    if adjust.any():
        total[adjust] = np.nextafter(total, np.copysign(np.inf, error))[adjust]
    return total


def _product(x: Number, y: Number) -> Number:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    return stand_in(x) * stand_in(y)


def _sum(x: Number, y: Number) -> Number:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y
    return stand_in(x) + stand_in(y)


def stand_in(x: Number) -> float:
    """Return an infinity or NaN as it is, and 1, 0 or -1 with the sign of another number."""
    return x if isinstance(x, float) else float((x > 0) - (x < 0))
