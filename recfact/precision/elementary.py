"""Logarithm, exponential and quotient, each rounded once to a format, to nearest even.

NumPy's logarithm and exponential of float64 err by a few units of float64 at most. This decides the rounding to a
narrower format, unless a boundary between two of its numbers lies within that error. In that case mpmath decides, with
as many digits as needed. It also does so for float64 itself and for wider formats. This always ends: the logarithm of a
rational number other than 1 and the exponential of one other than 0 are irrational, so they don't lie on a boundary.

If float64 doesn't hold the numbers of a format, they are Fractions in arrays of objects. Infinite numbers and NaN are
floats. Zero has no sign there, so a number divided by zero keeps its own sign.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import Number, exactly, stand_in

_MARGIN = 2.0**-48
"""What NumPy's functions of float64 may err by, relatively: 16 units, four times what its documentation allows."""

_SMALLEST, _LARGEST = 2.0**-900, 2.0**900
"""An exponential beyond these is rounded as they are, and to formats that reach so far by mpmath alone."""


def logarithm(x: Array, format: FloatFormat) -> Array:
    """Return log(x), correctly rounded. It is -inf at 0 and NaN below 0, or what the format has instead.

    Parameters
    ----------
    x : ndarray of float64, or of object if float64 doesn't hold the format
        Numbers of the format.
    format : FloatFormat
        The format.

    Returns
    -------
    ndarray of the same dtype

    Examples
    --------
    >>> from recfact.precision.formats.catalogue import format
    >>> float(logarithm(np.array([0.5]), format("bfloat16"))[0])
    -0.69140625
    """
    if not format.fits_float64:
        return _by_mpmath(x, "log", format)
    with np.errstate(all="ignore"):
        estimate = np.log(x)
    return _rounded(x, estimate, "log", format)


def exponential(x: Array, format: FloatFormat) -> Array:
    """Return exp(x), correctly rounded.

    Parameters and result are those of `logarithm`.

    Examples
    --------
    >>> from recfact.precision.formats.catalogue import format
    >>> float(exponential(np.array([-0.69140625]), format("bfloat16"))[0])
    0.5
    """
    if not format.fits_float64:
        return _by_mpmath(x, "exp", format)
    with np.errstate(all="ignore"):
        estimate = np.where(np.isfinite(x), np.clip(np.exp(x), _SMALLEST, _LARGEST), np.exp(x))
    return _rounded(x, estimate, "exp", format)


def quotient(x: Array, y: Array, format: FloatFormat) -> Array:
    """Return x / y, correctly rounded.

    For numbers of up to 25 bits, the quotient in float64 may be rounded once more. It either is a boundary of the
    format itself, or its relative distance from every boundary is at least 2^-52. Float64 doesn't move it that far.

    Parameters
    ----------
    x, y : ndarray of float64, or of object if float64 doesn't hold the format
        Numbers of the format; they broadcast.
    format : FloatFormat
        The format.

    Returns
    -------
    ndarray of the same dtype
    """
    if not format.fits_float64:
        return _once(exactly(_quotient, x, y), format)
    with np.errstate(all="ignore"):
        estimate = np.asarray(x / y)
    if is_binary64(format) or (format.fraction_bits <= 24 and Fraction(format.smallest_subnormal) > 2**-500):
        return np.asarray(format.round(estimate))
    x, y = np.broadcast_arrays(x, y)
    exact = np.isfinite(x) & np.isfinite(y) & (y != 0) & (x != 0)
    rounded = np.asarray(format.round(estimate))
    rounded[exact] = _once(exactly(_quotient, x[exact], y[exact]), format)
    return rounded


def is_binary64(format: FloatFormat) -> bool:
    """Return whether NumPy's own float64 is this format."""
    return format.fraction_bits == 52 and format.emin == -1022


def _rounded(x: Array, estimate: Array, function: str, format: FloatFormat) -> Array:
    """Round an estimate of a function at x. mpmath decides the cases that the error of the estimate leaves open."""
    low = np.asarray(format.round(estimate * (1 - _MARGIN)))
    high = np.asarray(format.round(estimate * (1 + _MARGIN)))
    open_ = ~((low == high) | (np.isnan(low) & np.isnan(high)))
    if Fraction(format.smallest_subnormal) < 2 * _SMALLEST or Fraction(format.max) > _LARGEST / 2:
        open_ |= np.isfinite(estimate)
    if open_.any():
        arguments, places = np.unique(x[open_], return_inverse=True)
        low[open_] = _by_mpmath(arguments, function, format)[places]
    return low


def _by_mpmath(x: Array, function: str, format: FloatFormat) -> Array:
    """Return a function at numbers of the format, correctly rounded."""
    return _once(exactly(partial(_settled, function=function, format=format), x), format)


def _once(numbers: Array, format: FloatFormat) -> Array:
    """Return exact scalars rounded to the format, as float64 if that holds the format."""
    return np.asarray(format.round(numbers)).astype(np.float64 if format.fits_float64 else object)


def _settled(x: Number, function: str, format: FloatFormat) -> Number:
    """Return a function at x: exactly if it is rational or a limit, otherwise from enclosures of rising precision."""
    from mpmath import MPContext

    if isinstance(x, float) or (x == 0 if function == "exp" else x <= 0 or x == 1):
        with np.errstate(all="ignore"):
            return float(getattr(np, function)(stand_in(x)))
    if function == "exp":
        # Beyond e^limit and below its reciprocal everything rounds alike, and mpmath's exponents would be of any size.
        limit = max(format.emax, format.fraction_bits - format.emin) + 2
        x = min(max(x, Fraction(-limit)), Fraction(limit))
    context = MPContext()
    evaluate: Callable[[Any], Any] = getattr(context, function)
    context.prec = 2 * format.fraction_bits + 32
    low: Number
    while True:
        sign, significand, power, _ = evaluate(context.convert(x))._mpf_
        value = (-1) ** sign * Fraction(int(significand)) * Fraction(2) ** power
        slack = abs(value) / 2 ** (context.prec - 8)
        low, high = format.round(value - slack), format.round(value + slack)
        if low == high or (low != low and high != high):
            return low
        context.prec *= 2


def _quotient(x: Number, y: Number) -> Number:
    if isinstance(x, Fraction) and isinstance(y, Fraction) and y:
        return x / y
    with np.errstate(all="ignore"):
        return float(np.divide(stand_in(x), stand_in(y)))
