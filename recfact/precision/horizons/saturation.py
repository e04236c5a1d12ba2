"""Where a logistic function rounds to exactly 1: coefficients that forget nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.checks import choice
from recfact.errors import DTypeError, OptionError
from recfact.precision.exact.outward import enclose_value
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.rounding import REPEATABLE


def saturation_threshold(format: Any, rounding: str = "nearest-even") -> float:
    """Return the smallest float64 x at which 1 / (1 + exp(-x)), rounded once to a format, is exactly 1.

    Parameters
    ----------
    format : name, FloatFormat or dtype
        The format of the coefficient.
    rounding : {"nearest-even", "nearest-away", "toward-zero", "up", "down"}
        How it is rounded.

    Returns
    -------
    float
        Infinite if there is no such x, as with truncation.

    Raises
    ------
    OptionError
        If 1 isn't a number of the format, or there is no such rounding.

    Notes
    -----
    A coefficient rounds to 1 if it lies above the middle between 1 and the largest number below 1. With p fraction bits
    and rounding to nearest, this middle is 1 - 2^-(p+2), which the logistic function reaches at x = ln(2^(p+2) - 1). A
    logistic function seems to promise coefficients below 1. From there on it doesn't keep the promise, and the horizon
    is infinite.

    The threshold is that of the exact function, rounded once. If each operation of 1 / (1 + exp(-x)) is rounded, the
    sum 1 + exp(-x) is 1 from about x = ln(2^(p+1)) on.

    Derived on the page on computational horizons ("Coefficients that never forget").

    Examples
    --------
    >>> [round(saturation_threshold(fmt), 6) for fmt in ("float32", "float16", "bfloat16", "e4m3fn", "e5m2")]
    [17.328679, 8.317522, 6.23637, 3.433987, 2.70805]
    """
    fmt = format_of(format)
    choice(rounding, "rounding", REPEATABLE)
    if fmt.round(Fraction(1)) != 1:
        raise OptionError(f"1 isn't a number of {fmt}, so nothing rounds to it; pass another format")
    below = Fraction(fmt.largest_below_one)
    if rounding in ("toward-zero", "down"):
        return math.inf
    boundary = below if rounding == "up" else (1 + below) / 2
    odds = boundary / (1 - boundary)
    if odds == 0:
        return -math.inf
    if odds == 1:
        return 0.0 if fmt.round(boundary, rounding) == 1 else math.ulp(0.0)
    # The logarithm of a rational other than 1 is irrational: no x is on the boundary.
    if odds < 1:
        return -enclose_value(lambda context, y: context.log(y), 1 / odds)[0]
    return enclose_value(lambda context, y: context.log(y), odds)[1]


def saturated(x: Any, format: Any, rounding: str = "nearest-even") -> Array:
    """Return where a logistic function of `x`, rounded once to a format, is exactly 1.

    Parameters
    ----------
    x : array_like of any shape
        Real inputs of the function, of at most 64 bits. The result for NaN is False.
    format, rounding
        As in `saturation_threshold`.

    Returns
    -------
    ndarray of bool, shape of `x`
        True where the rounded function is 1.

    Raises
    ------
    DTypeError
        If `x` isn't real numbers.
    OptionError
        As `saturation_threshold`.

    Notes
    -----
    Derived on the page on computational horizons ("Coefficients that never forget").

    Examples
    --------
    >>> saturated([6.23, 6.24], "bfloat16").tolist()
    [False, True]
    """
    inputs = as_numpy(x, "x")
    if not np.can_cast(inputs.dtype, np.float64, "same_kind") or inputs.dtype.itemsize > 8:
        raise DTypeError(f"x must be real numbers of at most 64 bits, got an array of {inputs.dtype}; convert it")
    return np.asarray(inputs.astype(np.float64) >= saturation_threshold(format, rounding))
