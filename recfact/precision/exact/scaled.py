"""Floats with exponents of unlimited range: significands and binary exponents apart, products and magnitudes.

NumPy's magnitude of a complex number comes from the platform's `hypot` and is wrong by several last bits. Here both
parts are divided by the power of two above the larger one, so no square leaves the range of float64. If the smaller one
underflows, it is far below the roundings of the larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.exact.outward import ldexp_up

PART = 1 << 14
"""How many products of a long list are made at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """Numbers of any size, at least 0. They multiply, compare and are indexed as arrays of floats are.

    Parameters
    ----------
    significands, exponents : ndarray
        What frexp gives: significands in [1/2, 1), or 0, and binary exponents.

    Examples
    --------
    >>> tiny = Scaled.of(np.array([1e-300]))
    >>> (tiny * tiny * tiny).exponents.item(), tiny * tiny >= tiny
    (-2989, array([False]))
    """

    significands: Array
    exponents: Array

    @staticmethod
    def of(values: Array) -> Scaled:
        """Return floats."""
        return Scaled(*np.frexp(values))

    @staticmethod
    def ones(count: int) -> Scaled:
        """Return a 1 for each of `count` rows."""
        return Scaled(np.full(count, 0.5), np.ones(count, dtype=np.int64))

    def each(self, change: Callable[[Array], Array]) -> Scaled:
        """Return what a change of shape makes of them."""
        return Scaled(change(self.significands), change(self.exponents))

    def __len__(self) -> int:
        return len(self.significands)

    def __getitem__(self, index: Any) -> Scaled:
        return Scaled(self.significands[index], self.exponents[index])

    def __setitem__(self, index: Any, values: Scaled) -> None:
        self.significands[index], self.exponents[index] = values.significands, values.exponents

    def __mul__(self, other: Scaled) -> Scaled:
        """Return products, rounded to nearest."""
        return _in_parts(_times, self, other)

    def times_up(self, other: Scaled) -> Scaled:
        """Return products, rounded up."""
        return _in_parts(_times_up, self, other)

    def __ge__(self, other: Scaled) -> Array:
        alike, larger = self.exponents == other.exponents, self.significands >= other.significands
        above = (self.exponents > other.exponents) | (alike & larger)
        return np.asarray((other.significands == 0) | (above & (self.significands > 0)))


def _in_parts(product: Callable[[Scaled, Scaled], Scaled], x: Scaled, y: Scaled) -> Scaled:
    """Return the products of long lists part by part, so that what they take between stays in a cache."""
    size = np.size(x.significands)
    if size <= PART or np.shape(x.significands) != (size,) or np.shape(y.significands) != (size,):
        return product(x, y)
    products = Scaled(np.empty(size), np.empty(size, np.int64))
    for start in range(0, size, PART):
        part = slice(start, start + PART)
        products[part] = product(x[part], y[part])
    return products


def _times(x: Scaled, y: Scaled) -> Scaled:
    significands, shifts = np.frexp(x.significands * y.significands)
    return Scaled(significands, x.exponents + y.exponents + shifts)


def _times_up(x: Scaled, y: Scaled) -> Scaled:
    product, rest = two_product(x.significands, y.significands)
    significands, shifts = np.frexp(np.where(rest > 0, np.nextafter(product, np.inf), product))
    return Scaled(significands, x.exponents + y.exponents + shifts)


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded product of numbers up to 1, and the part that the rounding took away (Dekker, 1971).

    Parameters
    ----------
    x, y : ndarray of float64
        Numbers of magnitude at most 1. They are 0, or so large that their product is above 2^-960.

    Examples
    --------
    >>> two_product(np.array([1 - 2.0**-53]), np.array([1 - 2.0**-53]))[1].item() == 2.0**-106
    True
    """
    product = x * y
    (x1, x2), (y1, y2) = _split(x), _split(y)
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _split(x: Array) -> tuple[Array, Array]:
    """Return x as a sum of two numbers of 26 bits."""
    scaled = (2.0**27 + 1) * x
    upper = scaled - (scaled - x)
    return upper, x - upper


def scaled_moduli(a: Array) -> Scaled:
    """Return magnitudes as significands in [1/2, 1), or 0, and binary exponents of unlimited range.

    Each is (1 + d)^3 times the true value for some d of magnitude up to 2^-53. The parts may be rounded to float64.
    Then squares and their sum are rounded, under a root, and the root is rounded too. A number that isn't finite has a
    significand that isn't.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Floats of any size, real or complex.

    Examples
    --------
    >>> scaled_moduli(np.array([3 + 4j, 0.25, 5e-324j]))
    Scaled(significands=array([0.625, 0.5  , 0.5  ]), exponents=array([    3,    -1, -1073]))
    """
    parts = np.abs(a.real), np.abs(a.imag)
    larger, smaller = np.maximum(*parts), np.minimum(*parts)
    exponents = np.frexp(larger)[1].astype(np.int64)
    with np.errstate(all="ignore"):
        x, y = (np.ldexp(part, -exponents).astype(np.float64) for part in (larger, smaller))
        significands, shifts = np.frexp(np.where(y == 0, x, np.sqrt(x * x + y * y)))
    return Scaled(significands, exponents + shifts)


def upper_moduli(a: Array) -> Array:
    """Return magnitudes rounded up to float64. Those of real and of imaginary numbers are exact if float64 holds them.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Floats of any size, real or complex.

    Notes
    -----
    With u = 2^-53 a modulus is at most (1 - u)^-3 times the computed one. The float three places further up is above
    that: a step adds u to a significand below 1 and 2 u above 1, and m (1 - u)^-3 < m + 3 u for m <= 1 - 2 u.

    Examples
    --------
    >>> upper_moduli(np.array([-0.9j, 3 + 4j])).tolist()
    [0.9, 5.000000000000003]
    """
    moduli = scaled_moduli(a)
    significands, exponents = moduli.significands, moduli.exponents
    raised = significands
    for _ in range(3):
        raised = np.nextafter(raised, np.inf)
    with np.errstate(all="ignore"):
        nearest = np.ldexp(significands, exponents)
    exact = ((a.real == 0) | (a.imag == 0)) & (nearest == np.maximum(np.abs(a.real), np.abs(a.imag)))
    return np.where(exact, nearest, ldexp_up(raised, exponents))


def magnitudes(a: Array) -> Array:
    """Return the magnitudes of coefficients. A window loses the same for them. Complex ones are rounded up."""
    return upper_moduli(a) if a.dtype.kind == "c" else np.abs(a)
