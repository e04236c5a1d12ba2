"""Dyadic rationals m 2^e: every float is one, and so are sums and products of floats. They need no gcd."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from numbers import Rational
from typing import Any, cast

import numpy as np

from recfact.errors import DTypeError, OptionError, shown
from recfact.precision.reals import MOST_BITS, as_rational
from recfact.written_numbers import as_text, given, scientific

MAX_SHIFT = 1 << 27
"""Longest shift in bits (16 MiB): numbers with exponents further apart than this aren't added."""


def shift_left(m: int, shift: int) -> int:
    """Return m 2^shift if that fits into memory.

    Raises
    ------
    OptionError
        If it doesn't.
    """
    if shift > MAX_SHIFT and m:
        raise OptionError(
            f"numbers whose exponents are {shown(shift)} apart can't be added exactly, {MAX_SHIFT} are possible; "
            "scale them, or leave out what is negligible"
        )
    return m << shift if m else 0


MAX_SHOWN = 512
"""Bits of the integers that are written in full."""


class Dyadic:
    """The number ``significand * 2**exponent``, exactly.

    Sums, differences and products with dyadics, integers and finite floats are exact and dyadic. With a Fraction the
    result is a Fraction. Equal numbers of these types compare equal and have the same hash.

    Parameters
    ----------
    significand, exponent : int
        Any integers. They are kept as they are, without reduction.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> x = Dyadic(3, -1) * 0.5 + 1
    >>> x, float(x), x == Fraction(7, 4), x < 2.0
    (Dyadic(7, -2), 1.75, True, True)
    >>> print(x, Dyadic(-3, -30), Dyadic.of(0.1))
    1.75 -(3 * 2^-30) 0.1
    """

    __slots__ = ("exponent", "significand")

    def __init__(self, significand: int, exponent: int = 0) -> None:
        self.significand, self.exponent = significand, exponent

    @staticmethod
    def of(value: Any) -> Dyadic:
        """Return a number as a dyadic: an integer, any finite float, an mpf, or a Fraction over a power of two.

        Raises
        ------
        OptionError
            If it is NaN or infinite.
        DTypeError
            If it is another kind of number, or a fraction whose denominator isn't a power of two.
        """
        if isinstance(value, Dyadic):
            return value
        if isinstance(value, int):
            return Dyadic(value)
        if hasattr(value, "_mpf_") and value.context.isfinite(value) and abs(value._mpf_[2]) <= MOST_BITS:
            sign, significand, exponent, _ = value._mpf_
            return Dyadic(-int(significand) if sign else int(significand), int(exponent))
        number = as_rational(value)
        if isinstance(number, float):
            raise OptionError(f"exact arithmetic needs finite numbers, got {shown(value)}; replace or leave it out")
        if number.denominator & (number.denominator - 1):
            raise DTypeError(
                f"{shown(value)} isn't an integer over a power of two; pass all numbers as Fractions instead"
            )
        return Dyadic(number.numerator, 1 - number.denominator.bit_length())

    @property
    def numerator(self) -> int:
        """Numerator in lowest terms."""
        return self.as_integer_ratio()[0]

    @property
    def denominator(self) -> int:
        """Denominator in lowest terms, a power of two."""
        return self.as_integer_ratio()[1]

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return numerator and denominator in lowest terms."""
        m, e = self.significand, self.exponent
        if m == 0 or e >= 0:
            return (self.at(0) if m else 0), 1
        zeros = min(-e, (m & -m).bit_length() - 1)
        return m >> zeros, 1 << (-e - zeros)

    def as_fraction(self) -> Fraction:
        """Return the number as a Fraction."""
        return Fraction(cast(Rational, self))

    def at(self, exponent: int) -> int:
        """Return the significand for another exponent, which is at most the number's own."""
        return shift_left(self.significand, self.exponent - exponent)

    def __repr__(self) -> str:
        m, e = self.significand, self.exponent
        if m.bit_length() <= MAX_SHOWN and e.bit_length() <= MAX_SHOWN:
            return f"Dyadic({m}, {e})"
        if not m or e.bit_length() > 32:
            return f"<Dyadic of {m.bit_length()} bits, its exponent of {e.bit_length()}>"
        return f"<Dyadic of {m.bit_length()} bits, {'-' * (m < 0)}{scientific(math.log10(abs(m)) + e * math.log10(2))}>"

    def __str__(self) -> str:
        m, e = self.significand, self.exponent
        if max(m.bit_length(), abs(e)) > 1074:  # the range of exponents of floats
            return repr(self)
        size = as_text(given(Fraction(abs(m)) * Fraction(2) ** e))
        return size if m >= 0 else f"-({size})" if " " in size else f"-{size}"

    def __float__(self) -> float:
        """Return the nearest float64, with ties to even. It is infinite beyond the range."""
        m, e = self.significand, self.exponent
        top = m.bit_length() + e  # |self| < 2^top
        if top > 1024:
            return math.inf if m > 0 else -math.inf
        if top < -1074:
            return 0.0 if m >= 0 else -0.0
        # Keep the bits of float64 and two more. The second of these is sticky.
        drop = max(0, max(top - 53, -1074) - 2 - e)
        kept = (m >> drop) | (m & ((1 << drop) - 1) != 0)
        try:
            return kept / (1 << -(e + drop)) if e + drop < 0 else float(kept << (e + drop))
        except OverflowError:
            return math.inf if m > 0 else -math.inf

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        """Return the operation on the significands of one exponent, or on Fractions; NotImplemented for no number."""
        if isinstance(other, Rational) and not isinstance(other, Dyadic | int):
            return operation(self.as_fraction(), Fraction(other))
        try:
            number = Dyadic.of(other)
        except DTypeError:
            return NotImplemented
        exponent = min(self.exponent, number.exponent)
        return operation(self.at(exponent), number.at(exponent)), exponent

    def _sum(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        result = self._with(other, operation)
        return Dyadic(*result) if isinstance(result, tuple) else result

    def _compare(self, other: Any, operation: Callable[[Any, Any], bool]) -> Any:
        if isinstance(other, float | np.floating) and not np.isfinite(other):
            return operation(0.0, float(other))
        result = self._with(other, operation)
        return result[0] if isinstance(result, tuple) else result

    def __add__(self, other: Any) -> Any:
        return self._sum(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._sum(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Rational) and not isinstance(other, Dyadic | int):
            return self.as_fraction() * other
        try:
            number = Dyadic.of(other)
        except DTypeError:
            return NotImplemented
        return Dyadic(self.significand * number.significand, self.exponent + number.exponent)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.as_fraction() / Fraction(other)

    def __rtruediv__(self, other: Any) -> Any:
        return Fraction(other) / self.as_fraction()

    def __neg__(self) -> Dyadic:
        return Dyadic(-self.significand, self.exponent)

    def __abs__(self) -> Dyadic:
        return Dyadic(abs(self.significand), self.exponent)

    def __bool__(self) -> bool:
        return self.significand != 0

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self.as_fraction())


Rational.register(Dyadic)  # with it, Fraction(x) and Fraction's own operations take dyadics
