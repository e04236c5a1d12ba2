"""2x2 matrices of integers: exact scalars that don't commute."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Matrix:
    """The matrix [[a, b], [c, d]], which adds and multiplies with its like and with integers.

    Its absolute value is that of its determinant: no norm, but multiplicative, which is all that norms of recurrences
    ask of their scalars.
    """

    __slots__ = ("entries",)

    def __init__(self, *entries: int) -> None:
        self.entries = entries

    def __mul__(self, other: Any) -> Matrix:
        if not isinstance(other, Matrix | int):
            return NotImplemented
        (a, b, c, d), (e, f, g, h) = self.entries, matrix(other).entries
        return Matrix(a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)

    def __add__(self, other: Any) -> Matrix:
        if not isinstance(other, Matrix | int):
            return NotImplemented
        return Matrix(*(x + y for x, y in zip(self.entries, matrix(other).entries, strict=True)))

    __rmul__, __radd__ = __mul__, __add__  # by integers, which commute

    def __neg__(self) -> Matrix:
        return self * -1

    def __sub__(self, other: Any) -> Matrix:
        return self + -other

    def __rsub__(self, other: Any) -> Matrix:
        return -self + other

    def __pow__(self, k: int) -> Matrix:
        return reduce(Matrix.__mul__, [self] * k, matrix(1))

    def __abs__(self) -> int:
        a, b, c, d = self.entries
        return abs(a * d - b * c)

    def conjugate(self) -> Matrix:
        return self  # the entries are real

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Matrix | int) and self.entries == matrix(other).entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        a, b, c, d = self.entries
        return f"[{a} {b}; {c} {d}]"


def matrix(x: Any) -> Matrix:
    """Return an integer as the multiple of the identity that it stands for, and a matrix as it is."""
    return x if isinstance(x, Matrix) else Matrix(x, 0, 0, x)


def matrices(shape: int | tuple[int, ...], seed: int = 0) -> Array:
    """Return an array of matrices with entries from -2 to 2; hardly two commute."""
    rng = np.random.default_rng(seed)
    made = np.empty(shape, dtype=object)
    for place in np.ndindex(made.shape):
        made[place] = Matrix(*map(int, rng.integers(-2, 3, 4)))
    return made
