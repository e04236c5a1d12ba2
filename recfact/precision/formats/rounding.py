"""Rounding to a format: the options, and which arithmetic serves which kind of numbers.

Floats round in arrays of float64, exact scalars in integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, library_of, to_torch
from recfact.checks import choice, generator
from recfact.errors import DTypeError, OptionError
from recfact.precision.formats.array_rounding import round_array
from recfact.precision.formats.limits import FormatLimits
from recfact.precision.reals import Number, as_rational, as_reals

REPEATABLE = ("nearest-even", "nearest-away", "toward-zero", "up", "down")
ROUNDINGS = (*REPEATABLE, "stochastic")
UNDERFLOWS = ("gradual", "flush-before", "flush-after", "flush-result")
OVERFLOWS = ("infinity", "nan", "saturate")


def check_rounding(fmt: FormatLimits, rounding: Any, underflow: Any, overflow: Any = None) -> str:
    """Return what becomes of too large numbers.

    Raises
    ------
    OptionError
        If an option isn't one of those above, or asks for what the format doesn't have.
    """
    choice(rounding, "rounding", ROUNDINGS)
    choice(underflow, "underflow", UNDERFLOWS)
    chosen = fmt.overflow if overflow is None else choice(overflow, "overflow", OVERFLOWS)
    if (chosen == "infinity" and not fmt.infinities) or (chosen == "nan" and not fmt.has_nan):
        raise OptionError(
            f"{fmt} has no {chosen}; overflow must be 'saturate', or None, which means {fmt.overflow!r} here"
        )
    if underflow != "gradual" and not fmt.zero:
        raise OptionError(f"must be 'gradual' in {fmt}, which has no zero to flush to", "underflow", given=underflow)
    return chosen


def round_values(
    fmt: FormatLimits, values: Any, rounding: str, *, underflow: str, overflow: str | None, seed: Any
) -> Any:
    """Return `values` rounded to the format; see ``FloatFormat.round``."""
    overflow = check_rounding(fmt, rounding, underflow, overflow)
    options = (rounding, underflow, overflow, generator(seed) if rounding == "stochastic" else None)

    if type(values) is float:
        return float(round_array(fmt, np.array([values]), *options)[0])
    reals = as_reals(values, "values")
    if reals.dtype.kind != "O":
        rounded = round_array(fmt, reals, *options)
    else:
        rounded = round_objects(fmt, reals, *options)
        kind = getattr(values, "dtype", reals.dtype)
        if kind != reals.dtype:  # integers and long doubles are wider than float64; the rounded ones may fit into it
            if not fmt.fits_float64:
                raise DTypeError(
                    f"values of {kind} and numbers of {fmt} can have more digits than float64; "
                    "pass exact scalars, values.astype(object)"
                )
            rounded = rounded.astype(np.float64)
    if library_of(values) == "torch":
        return to_torch(rounded)
    return rounded[()] if rounded.ndim == 0 else rounded


def round_objects(fmt: FormatLimits, array: Array, rounding: str, underflow: str, overflow: str, random: Any) -> Array:
    """Return an array of exact scalars rounded to the format; all options are given."""
    uniform = np.zeros(array.size) if random is None else random.random(array.size)
    rounded = np.empty(array.shape, dtype=object)
    rounded.reshape(-1)[:] = [
        round_rational(fmt, as_rational(value), rounding, underflow, overflow, draw)
        for value, draw in zip(array.flat, uniform.tolist(), strict=True)
    ]
    return rounded


def round_rational(
    fmt: FormatLimits, value: Number, rounding: str, underflow: str, overflow: str, uniform: float = 0.0
) -> Number:
    """Return `value` rounded to the format as a Fraction, or as a float if that is infinite or NaN.

    Parameters
    ----------
    fmt : FormatLimits
        The format.
    value : Fraction, or float if infinite or NaN
        What is rounded.
    rounding, underflow, overflow : str
        As in ``FloatFormat.round``, all given.
    uniform : float
        Random number in [0, 1): "stochastic" rounds away from zero where it is below the distance from the neighbour
        towards zero, in units of the distance between the two.
    """
    if isinstance(value, float):
        if math.isnan(value):
            return value
        return _out_of_range(fmt, negative=value < 0, overflow=overflow)
    if value == 0:
        return Fraction(0) if fmt.zero else _absent(fmt, overflow, fmt.smallest_normal)
    negative = value < 0
    numerator, denominator = abs(value.numerator), value.denominator
    exponent = _floor_log2(numerator, denominator)
    if underflow == "flush-before" and exponent < fmt.emin:
        return Fraction(0)

    p = fmt.fraction_bits
    leading = max(exponent, fmt.emin - (underflow == "flush-after"))
    spacing = leading - p
    if underflow in ("gradual", "flush-result") and fmt.zero and not fmt.subnormals and exponent < fmt.emin:
        spacing = fmt.emin
    below, rest = divmod(numerator << max(-spacing, 0), step := denominator << max(spacing, 0))
    if rest:
        # Ties go to the even code; with no fraction bits its last bit is that of the exponent.
        even = not below & 1 or (p == 0 and (leading - fmt.emin + fmt.zero) & 1 == 0)
        below += {
            "nearest-even": 2 * rest > step or (2 * rest == step and not even),
            "nearest-away": 2 * rest >= step,
            "toward-zero": False,
            "up": not negative,
            "down": negative,
            "stochastic": int(uniform * 2**53) * step < rest << 53,
        }[rounding]

    if underflow != "gradual" and below.bit_length() <= fmt.emin - spacing:
        return Fraction(0)
    if not fmt.zero:
        below = max(below, 1 << p)
    if negative and below and not fmt.signed:
        return _absent(fmt, overflow, fmt.min)
    rounded = Fraction(below << max(spacing, 0), 1 << max(-spacing, 0))
    if exponent >= fmt.emax and rounded > fmt.max:
        inward = rounding == "toward-zero" or rounding == ("up" if negative else "down")
        return _out_of_range(fmt, negative=negative, overflow="saturate" if inward else overflow)
    return -rounded if negative else rounded


def _floor_log2(numerator: int, denominator: int) -> int:
    exponent = numerator.bit_length() - denominator.bit_length()
    return exponent - (numerator << max(-exponent, 0) < denominator << max(exponent, 0))


def _out_of_range(fmt: FormatLimits, *, negative: bool, overflow: str) -> Number:
    if negative and not fmt.signed:
        return _absent(fmt, overflow, fmt.min)
    if overflow == "nan":
        return math.nan
    size = math.inf if overflow == "infinity" else Fraction(fmt.max)
    return -size if negative else size


def _absent(fmt: FormatLimits, overflow: str, nearest: Number) -> Number:
    """Return what a zero or a negative number becomes that the format doesn't have."""
    return math.nan if fmt.has_nan and overflow != "saturate" else Fraction(nearest)
