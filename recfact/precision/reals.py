"""Real numbers without rounding, as a caller passes them. They become floats or Fractions, whichever is exact."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from numbers import Rational
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.errors import DTypeError, OptionError, shown
from recfact.written_numbers import log10, scientific

Number = float | Fraction

MOST_DIGITS = 100_000
"""A number that a text writes with a larger power of ten isn't read, because that alone would take minutes."""

MOST_BITS = MOST_DIGITS * 10 // 3
"""The same for powers of two."""


def as_reals(values: Any, name: str) -> Array:
    """Return `values` as an array of float64 if that holds them all, otherwise of exact scalars (dtype object).

    Raises
    ------
    DTypeError
        If they aren't real numbers.
    """
    array = as_numpy(values, name)
    if array.dtype.kind == "O":
        return array
    if isinstance(values, int) or array.dtype == np.longdouble != np.float64 or _is_wide(array):
        return array.astype(object)
    if not np.can_cast(array.dtype, np.float64):
        required = f"must be real numbers, got an array of {array.dtype}"
        raise DTypeError(required, name, advice="pass complex numbers part by part")
    return np.asarray(array, dtype=np.float64, order="C")


def _is_wide(array: Array) -> bool:
    """Return whether an integer is beyond the range in which float64 holds every integer."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return False
    return int(array.max()) > 2**53 or int(array.min()) < -(2**53)


def as_rational(value: Any) -> Number:
    """Return a real scalar as the Fraction that it is, or as a float if it is infinite or NaN.

    Raises
    ------
    DTypeError
        If it isn't a real number of a type whose exact value can be read.
    OptionError
        If it is a Decimal or mpf whose exponent is so large that its integers alone would take minutes.

    Examples
    --------
    >>> as_rational(0.375)
    Fraction(3, 8)
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, type):
        raise _no_number(value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if hasattr(value, "_mpf_"):
        sign, significand, exponent, _ = value._mpf_
        if exponent and not significand:
            return float(value)  # mpmath's infinities and NaN
        if abs(exponent) > MOST_BITS:
            raise _too_long(value)
        number = int(significand) * Fraction(2) ** int(exponent)
        return -number if sign else number
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > MOST_DIGITS:
        raise _too_long(value)
    if hasattr(value, "as_integer_ratio"):
        try:
            return Fraction(*(int(part) for part in value.as_integer_ratio()))
        except (OverflowError, ValueError):
            return inf * (1 if value > 0 else -1) if _is_infinite(value) else nan
    if isinstance(value, np.generic) and np.can_cast(value.dtype, np.float64):
        return as_rational(float(value))
    raise _no_number(value)


def _is_infinite(value: Any) -> bool:
    """Return whether a number without an integer ratio is infinite. A signalling Decimal isn't compared."""
    return bool(value.is_infinite() if hasattr(value, "is_infinite") else value in (inf, -inf))


def _too_long(value: Any) -> OptionError:
    return OptionError(
        f"numbers up to 1e{MOST_DIGITS} and down to 1e-{MOST_DIGITS} are read exactly, got {shown(value)}; pass 0, "
        "infinity or a number in between"
    )


def _no_number(value: Any) -> DTypeError:
    return DTypeError(
        f"exact scalars must be int, Fraction, float, Decimal or mpf, got {shown(value)} of type "
        f"{type(value).__name__}; convert them, complex numbers part by part"
    )


def one_bound(rho: Any, several: str) -> Any:
    """Return `rho`, unless it is many numbers, whose error names the function for `several` coefficients.

    Raises
    ------
    DTypeError
        If it is an array, a list or a tuple.
    """
    if getattr(rho, "shape", ()) or isinstance(rho, list | tuple):
        required = f"must be one number, the largest magnitude of a coefficient, got {shown(rho)}"
        raise DTypeError(required, "rho", advice=f"recfact.precision.{several} takes the coefficients themselves")
    return rho


def read_number(text: str) -> Fraction:
    """Return the number that a text writes, such as "0.99", "63/64" or "1e-5".

    Raises
    ------
    ValueError
        If it writes no number, or one with a power of ten beyond `MOST_DIGITS`.

    Examples
    --------
    >>> read_number("63/64")
    Fraction(63, 64)
    """
    power = re.search(r"[eE][-+]?([0-9_]+)", text)
    if power and (len(power[1]) > 9 or int(power[1]) > MOST_DIGITS):
        raise ValueError("a power of ten that large isn't computed")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("nothing is divided by zero") from None


def as_rationals(values: Array) -> Array:
    """Return the numbers of an array as `as_rational` does, in an array of objects."""
    return exactly(lambda value: value, values)


def exactly(operation: Callable[..., Number], *operands: Array) -> Array:
    """Return an operation of exact scalars applied to arrays that broadcast, in an array of objects."""
    arrays = np.broadcast_arrays(*operands)
    results = np.empty(arrays[0].shape, dtype=object)
    columns = ([as_rational(value) for value in array.flat] for array in arrays)
    results.reshape(-1)[:] = [operation(*values) for values in zip(*columns, strict=True)]
    return results


def stand_in(x: Number) -> float:
    """Return an infinity or NaN as it is, and otherwise the sign of a number: 1, 0 or -1."""
    return x if isinstance(x, float) else float((x > 0) - (x < 0))


def dyadic(significand: int, exponent: int) -> Number:
    """Return significand * 2^exponent as a float if float64 holds it, otherwise as a Fraction."""
    number = Fraction(significand << max(exponent, 0), 1 << max(-exponent, 0))
    try:
        nearest = float(number)
    except OverflowError:
        return number
    return nearest if nearest == number else number


def in_decimal(number: Number) -> str:
    """Return a positive number in decimal, shortened if it isn't a float64."""
    if isinstance(number, float):
        return f"{number:g}" if number == float(f"{number:g}") else repr(number).removesuffix(".0")
    return scientific(log10(number))
