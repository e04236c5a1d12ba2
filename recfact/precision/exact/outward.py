"""Rounding outward: floats on the far side of exact numbers, and arithmetic that always rounds up."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, isfinite, isqrt
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import OptionError, shown
from recfact.precision.exact.dyadic import Dyadic
from recfact.precision.reals import as_rational

BITS = 128
"""Bits of the significands of `Upward`."""


def outward(numbers: list[int], scale: int, direction: int) -> Array:
    """Return non-negative integers in units of 2^-scale as float64, rounded down (-1) or up (1).

    Beyond the range of float64 they become its largest number or infinity.
    """
    drops = [max(number.bit_length() - 53, 0) for number in numbers]
    # A float holds 53 bits exactly. The bits that the shift drops are rounded here.
    kept = [n >> drop if direction < 0 else -(-n >> drop) for n, drop in zip(numbers, drops, strict=True)]
    exponents = np.array([max(min(drop - scale, 5000), -5000) for drop in drops], dtype=np.int64)
    values = np.array(kept, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, exponents)
        # The product of a float and a power of two is rounded where it is subnormal or overflows.
        back = np.ldexp(scaled, -exponents)
        wrong = (back > values) | np.isinf(scaled) if direction < 0 else back < values
        return np.where(wrong, np.nextafter(scaled, np.inf * direction), scaled)


def ldexp_up(significands: Array, exponents: Array) -> Array:
    """Return significands times powers of two as float64, rounded up."""
    with np.errstate(all="ignore"):
        values = np.ldexp(significands, exponents)
        # The product with a power of two is rounded where it is subnormal.
        return np.where(np.ldexp(values, -exponents) < significands, np.nextafter(values, np.inf), values)


def round_up(value: Any) -> float:
    """Return the smallest float64 that is at least a real number."""
    return float(Upward.of(value))


class Upward:
    """A non-negative number of 128 bits. Each operation rounds up, so sums and products of bounds stay bounds.

    Object arrays of these numbers run the algebra of `recfact.factorizations`. Its norms are then upper bounds, sharp
    to about 2^-127 times the number of operations in a row.

    Parameters
    ----------
    significand, exponent : int
        The number is significand * 2^exponent, rounded up.

    Examples
    --------
    >>> third = Upward.of(Fraction(1, 3))
    >>> float(third * 3), float(third + Upward.of(2)) > 7 / 3
    (1.0000000000000002, False)
    """

    __slots__ = ("exponent", "significand")

    def __init__(self, significand: int, exponent: int = 0) -> None:
        drop = significand.bit_length() - BITS
        if drop > 0:
            significand, exponent = -(-significand >> drop), exponent + drop
        self.significand, self.exponent = significand, exponent

    @staticmethod
    def of(value: Any) -> Upward:
        """Return the magnitude of a real number, rounded up.

        Raises
        ------
        OptionError
            If it is infinite or NaN.
        DTypeError
            If it is no real number.
        """
        if isinstance(value, Upward):
            return value
        if isinstance(value, int):
            return Upward(abs(value))
        number = value if isinstance(value, float) and isfinite(value) else as_rational(value)
        if isinstance(number, float) and not isfinite(number):
            raise OptionError(f"a bound needs finite numbers, got {shown(value)}; replace it first")
        numerator, denominator = number.as_integer_ratio()
        return Upward._quotient(abs(numerator), denominator, 0)

    @staticmethod
    def _quotient(numerator: int, denominator: int, exponent: int) -> Upward:
        if denominator & (denominator - 1) == 0:
            return Upward(numerator, exponent + 1 - denominator.bit_length())
        shift = max(0, BITS + 1 + denominator.bit_length() - numerator.bit_length())
        return Upward(-(-(numerator << shift) // denominator), exponent - shift)

    def __float__(self) -> float:
        return float(floats_up([self])[0])

    def __repr__(self) -> str:
        return f"Upward({float(self)!r})"

    def __add__(self, other: Any) -> Upward:
        big, small = self, Upward.of(other)
        if not small.significand or not big.significand:
            return small if not big.significand else big
        if big.exponent < small.exponent:
            big, small = small, big
        shift = big.exponent - small.exponent
        if shift > 2 * BITS:  # bits out of reach count as one unit of the last place in reach
            return Upward((big.significand << BITS) + 1, big.exponent - BITS)
        return Upward((big.significand << shift) + small.significand, small.exponent)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Upward:
        factor = (
            other if isinstance(other, Upward) else Upward.of(other)
        )  # saves a call in the method that is called most
        return Upward(self.significand * factor.significand, self.exponent + factor.exponent)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Upward:
        if power == 0.5:
            return self._root()
        if power == 2:
            return self * self
        raise OptionError(f"upward arithmetic has squares and square roots, got the power {power!r}")

    def _root(self) -> Upward:
        shift = max(0, 2 * BITS + 2 - self.significand.bit_length())
        shift += (self.exponent - shift) & 1
        square = self.significand << shift
        root = isqrt(square)
        return Upward(root + (root * root != square), (self.exponent - shift) >> 1)

    def reciprocal(self) -> Upward:
        """Return 1 / self for a number that isn't 0."""
        return Upward._quotient(1, self.significand, -self.exponent)

    def over_complement(self, other: Upward) -> Upward | None:
        """Return self / (1 - other), or None unless other < 1."""
        if other.exponent >= 0:
            return self if not other.significand else None
        unit = 1 << -other.exponent
        if other.significand >= unit:
            return None
        return Upward._quotient(self.significand << -other.exponent, unit - other.significand, self.exponent)

    def __abs__(self) -> Upward:
        return self

    def _compare(self, other: Any, relation: Callable[[int, int], bool]) -> bool:
        number = Upward.of(other)
        low = min(self.exponent, number.exponent)
        if max(self.exponent, number.exponent) - low > 2 * BITS and self.significand and number.significand:
            return relation(self.exponent, number.exponent)
        return relation(self.significand << (self.exponent - low), number.significand << (number.exponent - low))

    def __eq__(self, other: object) -> bool:
        return self._compare(other, operator.eq)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        return hash(Fraction(self.significand) * Fraction(2) ** self.exponent)


def floats_up(numbers: Sequence[Upward]) -> Array:
    """Return bounds as float64, rounded up. Many at once are much faster than one by one."""
    # A float holds 53 bits exactly. The bits that the shift drops are rounded up here.
    drops = [max(number.significand.bit_length() - 53, 0) for number in numbers]
    kept = [-(-number.significand >> drop) for number, drop in zip(numbers, drops, strict=True)]
    exponents = [max(min(number.exponent + drop, 5000), -5000) for number, drop in zip(numbers, drops, strict=True)]
    return ldexp_up(np.array(kept, dtype=np.float64), np.array(exponents, dtype=np.int64))


def enclose_value(evaluate: Callable[..., Any], *reals: Fraction | int) -> tuple[float, float]:
    """Return floats below and above a non-negative real number. They are neighbours if the number isn't a float.

    Parameters
    ----------
    evaluate : callable
        Takes an interval context and the intervals of the real numbers, and returns an interval that holds the value.
    *reals : Fraction or int
        Its arguments.
    """
    from mpmath.ctx_iv import MPIntervalContext
    from mpmath.libmp import ComplexResult

    context = MPIntervalContext()  # a context of our own, so that no caller's precision changes
    context.prec = 2 * BITS
    while True:
        try:
            value = evaluate(context, *(context.mpf(real.numerator) / real.denominator for real in reals))
        except ComplexResult:  # the root of an interval that holds 0 was taken
            if context.prec >= 2**13:
                return 0.0, inf
            context.prec *= 2
            continue
        (sign, m, e, _), (_, n, f, _) = value._mpi_
        if f and not n:  # an endpoint beyond all numbers
            return 0.0, inf
        low, high = Dyadic(0 if sign else int(m), int(e)), Dyadic(int(n), int(f))
        # Numbers that differ in magnitude aren't subtracted, because their exponents may be any distance apart.
        alike = low.significand.bit_length() + low.exponent >= high.significand.bit_length() + high.exponent - 1
        if (alike and (high - low) * Dyadic(1, 80) <= high) or context.prec >= 2**16:
            return float(outward([low.significand], -low.exponent, -1)[0]), float(
                outward([high.significand], -high.exponent, 1)[0]
            )
        context.prec *= 2
