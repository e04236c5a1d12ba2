"""Rounding of exact scalars to a format, in integer arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from recfact.precision.reals import Number

if TYPE_CHECKING:
    from recfact.precision.formats import FloatFormat


def round_rational(
    fmt: FloatFormat, value: Number, rounding: str, underflow: str, overflow: str, uniform: float = 0.0
) -> Number:
    """Return `value` rounded to the format as a Fraction, or as a float if that is infinite or NaN.

    Parameters
    ----------
    fmt : FloatFormat
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
    negative, size = value < 0, abs(value)
    smallest_normal = Fraction(fmt.smallest_normal)
    if underflow == "flush-before" and size < smallest_normal:
        return Fraction(0)

    p = fmt.fraction_bits
    leading = max(_exponent(size), fmt.emin - (underflow == "flush-after"))
    spacing = leading - p
    if underflow in ("gradual", "flush-result") and fmt.zero and not fmt.subnormals and size < smallest_normal:
        spacing = fmt.emin
    scaled = size * Fraction(2) ** -spacing
    below = int(scaled)
    rest = scaled - below
    if rest:
        # Ties go to the even code; with no fraction bits its last bit is that of the exponent.
        odd = below & 1 if p or spacing != leading else below & (leading - fmt.emin + fmt.zero) & 1
        below += {
            "nearest-even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and bool(odd)),
            "nearest-away": rest >= Fraction(1, 2),
            "toward-zero": False,
            "up": not negative,
            "down": negative,
            "stochastic": uniform < rest,
        }[rounding]
    rounded: Fraction = below * Fraction(2) ** spacing

    if underflow != "gradual" and rounded < smallest_normal:
        return Fraction(0)
    if not fmt.zero:
        rounded = max(rounded, smallest_normal)
    if negative and rounded and not fmt.signed:
        return _absent(fmt, overflow, fmt.min)
    if rounded > fmt.max:
        inward = rounding == "toward-zero" or rounding == ("up" if negative else "down")
        return _out_of_range(fmt, negative=negative, overflow="saturate" if inward else overflow)
    return -rounded if negative else rounded


def _exponent(size: Fraction) -> int:
    """Return the floor of log2(size)."""
    numerator, denominator = size.as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    return exponent - (numerator << max(-exponent, 0) < denominator << max(exponent, 0))


def _out_of_range(fmt: FloatFormat, *, negative: bool, overflow: str) -> Number:
    if negative and not fmt.signed:
        return _absent(fmt, overflow, fmt.min)
    if overflow == "nan":
        return math.nan
    size = math.inf if overflow == "infinity" else Fraction(fmt.max)
    return -size if negative else size


def _absent(fmt: FloatFormat, overflow: str, nearest: Number) -> Number:
    """Return what a zero or a negative number becomes that the format doesn't have."""
    return math.nan if fmt.has_nan and overflow != "saturate" else Fraction(nearest)
