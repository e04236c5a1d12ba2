"""Numbers as people write them: as short as possible, in exact digits, as powers of two, and rounded as bounds."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

DIGITS, RAISED = "−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"

LONGEST_FRACTION = 20
"""Characters of a fraction that is written as one."""


@dataclass(frozen=True)
class Power:
    """A small multiple of a power of two, or its distance to 1, as people write it.

    Parameters
    ----------
    exponent : int
        The number is times * 2^exponent.
    below_one : bool
        Whether it is 1 - times * 2^exponent instead.
    times : int
        The multiple.
    """

    exponent: int
    below_one: bool = False
    times: int = 1

    def written(self, template: str, dot: str = " * ") -> str:
        """Return the number in the form of `template`, which takes the factors before the power, and the exponent."""
        before = "1 - " * self.below_one + (f"{self.times}{dot}" if self.times != 1 else "")
        return template.format(before, self.exponent)

    def __str__(self) -> str:
        return self.written("{}2^{}")


def short(number: float | Fraction) -> Any:
    """Return a number in its shortest form: in decimal, as a power of two, or as 1 minus a power of two.

    Examples
    --------
    >>> short(0.75), str(short(1 - 2.0**-24)), str(short(51 * 2.0**-24)), short(Fraction(99, 100))
    (0.75, '1 - 2^-24', '51 * 2^-24', 0.99)
    """
    if isinstance(number, float) and math.isinf(number):
        return number
    exact = Fraction(number)
    if exact > sys.float_info.max:
        return scientific(log10(exact))
    power = _power(exact, 1)
    if power and not power.below_one and power.exponent < -3:
        return power
    decimal = f"{float(number):.7g}"
    if (exact > 1e-4 or not exact) and (Fraction(decimal) == exact or float(decimal) == number):
        return float(decimal)
    if power := power or _power(exact, 9999):
        return power
    return f"1 - {_rounded(1 - exact, 6)}" if 0.999 < exact < 1 else _rounded(exact, 10)


def exact_text(number: float | Fraction) -> str | None:
    """Return a number in exact digits, in decimal or as a fraction, or None if these would be many.

    Examples
    --------
    >>> exact_text(Fraction("1e-3")), exact_text(2.0**-10), exact_text(Fraction(2, 3)), exact_text(Fraction(1, 7**30))
    ('0.001', '0.0009765625', '2/3', None)
    """
    exact = Fraction(number)
    if abs(exact) <= sys.float_info.max:
        near = float(exact)
        if Fraction(near) == exact or Fraction(repr(near)) == exact:
            return repr(near).removesuffix(".0")
    # Python writes no more than 4300 digits.
    fraction = str(exact) if max(abs(exact.numerator), exact.denominator) <= 10**LONGEST_FRACTION else ""
    return fraction if 0 < len(fraction) <= LONGEST_FRACTION else None


def given(number: float | Fraction) -> Any:
    """Return a number from a user: as `short` does if that reads back as the same number, otherwise in all digits.

    Examples
    --------
    >>> given(Fraction("1e-3")), given(Fraction("0.123456789012")), given(Fraction(2, 3)), str(given(1 - 2.0**-24))
    (0.001, '0.123456789012', '2/3', '1 - 2^-24')
    """
    written = short(number)
    if not isinstance(written, str) or number > sys.float_info.max:
        return written
    exact = Fraction(number)
    if Fraction(written.removeprefix("1 - ")) == (1 - exact if written.startswith("1 - ") else exact):
        return written
    return exact_text(number) or written


def as_text(written: Any) -> str:
    """Return the text that a table prints for a result of `short` or `given`."""
    return f"{written:.7g}" if isinstance(written, float) else str(written)


def _rounded(exact: Fraction, digits: int) -> str:
    """Return a positive number that isn't large in so many digits, or in fewer if floats have fewer."""
    near = float(exact)
    return f"{near:.{digits}g}" if near == exact or near >= sys.float_info.min else scientific(log10(exact))


def log10(number: Fraction) -> float:
    """Return the logarithm of a positive number of any size."""
    return math.log10(number.numerator) - math.log10(number.denominator)


def scientific(logarithm: float) -> str:
    """Return the number with a given logarithm to base 10, in decimal, however large or small it is.

    Examples
    --------
    >>> scientific(-400.0), scientific(5000 + math.log10(2))
    ('1.0000e-400', '2.0000e+5000')
    """
    exponent = math.floor(logarithm)
    digits, carry = f"{10 ** (logarithm - exponent):.4e}".split("e")
    return f"{digits}e{exponent + int(carry):+d}"


def _power(exact: Fraction, most: int) -> Power | None:
    """Return a number as a small multiple of a power of two below 1, or as 1 minus that."""
    for part, below_one in ((exact, False), (1 - exact, True)):
        if 0 < part.numerator <= most and part.denominator & (part.denominator - 1) == 0 and part.denominator > 1:
            return Power(1 - part.denominator.bit_length(), below_one, part.numerator)
    return None


def at_most(value: float, digits: int) -> float:
    """Return the smallest number of so many decimal digits that isn't below `value`, so a bound stays one in print.

    Examples
    --------
    >>> at_most(0.12301, 3), at_most(0.123, 3), at_most(0.0, 3), at_most(float("inf"), 3)
    (0.124, 0.123, 0.0, inf)
    """
    near = float(f"{value:.{digits}g}")
    if near == value or not math.isfinite(value):
        return value
    return float(Context(digits, ROUND_CEILING).create_decimal(Decimal(value)))


def power_of_ten(exponent: int) -> str:
    """Return 10 to the `exponent` with its exponent raised.

    Examples
    --------
    >>> power_of_ten(-3), power_of_ten(0)
    ('10⁻³', '1')
    """
    return "1" if exponent == 0 else "10" + superscript(exponent)


def superscript(value: int) -> str:
    """Return `value` in raised digits.

    Examples
    --------
    >>> superscript(-16)
    '⁻¹⁶'
    """
    return str(value).replace("-", "−").translate(str.maketrans(DIGITS, RAISED))
