"""A market of named operators: coefficient arrays by name, length and number type, and the oracle they are held to.

    a = coefficients("reset", 17, "float32")
    np.testing.assert_array_equal(TransferOperator(a).to_dense(), literal_matrix(a))

A pair that makes no sense, such as complex coefficients in float32, skips the test that asks for it, with the reason.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy

Array = np.ndarray[Any, Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
OBJECTS = ("Fraction", "mpf", "mpi", "sympy")
DTYPES = (*FLOATS, *COMPLEX, *OBJECTS)

LENGTHS = (0, 1, 2, 3, 15, 16, 17, 33)
"""0, 1, 2, odd ones, and a block of 16 with its neighbours."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a number type of the market."""
    if name in OBJECTS:
        return np.dtype(object)
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def unit_roundoff(name: str) -> Fraction:
    """Return the unit roundoff u of an inexact number type: half of eps."""
    return Fraction(float(ml_dtypes.finfo(dtype_of(name)).eps)) / 2


MARKET: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "decaying": lambda n, rng: rng.uniform(0.3, 0.9, n),
    "constant": lambda n, rng: np.full(n, 0.5),
    "random": lambda n, rng: rng.uniform(-1, 1, n),
    "negative": lambda n, rng: -rng.uniform(0.3, 0.9, n),
    "reset": lambda n, rng: np.where(rng.random(n) < 0.25, 0.0, rng.uniform(-1, 1, n)),
    "all zero": lambda n, rng: np.zeros(n),
    "all one": lambda n, rng: np.ones(n),
    "near one": lambda n, rng: 1 - rng.integers(1, 4, n) / 256,
    "above one": lambda n, rng: rng.uniform(1.0, 1.05, n),  # no growth warning for LENGTHS, even in bfloat16
    "denormal": lambda n, rng: rng.uniform(0.5, 1, n),  # a third of them is replaced by a tiny number of the dtype
    "complex": lambda n, rng: rng.uniform(0.3, 0.9, n) * np.exp(1j * rng.uniform(-3, 3, n)),
}


def coefficients(name: str, n: int, dtype: str = "float64", seed: int = 0) -> Array:
    """Return the coefficients `name` of length `n` as numbers of `dtype`; skip the test if there are none.

    Every number type gets the same values, rounded to it where it rounds.
    """
    rng = np.random.default_rng([seed, n, *name.encode()])
    values = MARKET[name](n, rng)
    if np.iscomplexobj(values) and dtype not in (*COMPLEX, "mpf", "sympy"):
        pytest.skip(f"{dtype} holds no complex numbers")
    if name == "denormal":
        if dtype in OBJECTS:
            pytest.skip(f"{dtype} has no denormal numbers")
        smallest = float(ml_dtypes.finfo(dtype_of(dtype)).smallest_subnormal)
        values = np.where(rng.random(n) < 0.3, 3 * smallest, values)
    return as_numbers(values, dtype)


def dyadic(name: str, n: int, dtype: str = "float64") -> Array:
    """Return the coefficients `name` rounded to quarters, with which up to ten steps are exact in float32."""
    coefficients(name, 0, dtype)  # skips what makes no sense
    return as_numbers(np.round(4 * coefficients(name, n, "complex128" if name == "complex" else "float64")) / 4, dtype)


def inputs(shape: int | tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Array:
    """Return inputs of `shape` between -1 and 1 as numbers of `dtype`."""
    shape = (shape,) if isinstance(shape, int) else shape
    rng = np.random.default_rng([seed, *shape, 1])
    values = rng.uniform(-1, 1, shape)
    if dtype in COMPLEX:
        values = values + 1j * rng.uniform(-1, 1, shape)
    return as_numbers(values, dtype)


def as_numbers(values: Array, dtype: str) -> Array:
    """Return float64 or complex128 `values` in a number type of the market."""
    if dtype not in OBJECTS:
        return values.astype(dtype_of(dtype))
    numbers = np.empty(values.shape, dtype=object)
    for place, value in np.ndenumerate(values):
        numbers[place] = SCALARS[dtype](value.item())
    return numbers


def exact_sympy(value: complex) -> sympy.Expr:
    """Return a float or complex number as the sympy number of exactly its value."""
    real, imaginary = (sympy.Rational(*part.as_integer_ratio()) for part in (value.real, value.imag))
    return real + sympy.I * imaginary


SCALARS: dict[str, Callable[[Any], Any]] = {
    "Fraction": Fraction,
    "mpf": mpmath.mpmathify,
    "mpi": mpmath.iv.mpf,
    "sympy": exact_sympy,
}


def fractions(values: Array) -> Array:
    """Return real float values of any width as the Fractions that they are."""
    exact = np.empty(values.shape, dtype=object)
    for place, value in np.ndenumerate(values):
        exact[place] = value if isinstance(value, Fraction) else Fraction(float(value))
    return exact


def symbols(n: int, letter: str = "a") -> Array:
    """Return the sympy symbols a1 .. an as an object array."""
    return np.array([sympy.Symbol(f"{letter}{i + 1}") for i in range(n)] + [None], dtype=object)[:-1]


def literal_matrix(a: Array) -> Array:
    """Return the transfer operator by its definition: L[i, j] = a[i] a[i-1] ... a[j+1], one product an entry.

    Small floats are multiplied in float32 and rounded once.
    """
    n = len(a)
    wide = a.astype(np.float32) if a.dtype.itemsize <= 2 and a.dtype != object else a
    matrix = np.zeros((n, n), dtype=int).astype(wide.dtype)
    for j in range(n):
        for i in range(j, n):
            product = 1 if wide.dtype == object else wide.dtype.type(1)
            for k in range(j + 1, i + 1):
                product = wide[k] * product
            matrix[i, j] = product
    return matrix.astype(a.dtype)


def exact_solution(a: Array, u: Array) -> Array:
    """Return the states of x_i = a_i x_{i-1} + u_i for real float arrays, as Fractions."""
    a, u = fractions(a), fractions(u)
    x = u.copy()
    for i in range(1, len(x)):
        x[i] = a[i] * x[i - 1] + u[i]
    return x


def rounding_bound(a: Array, u: Array, factors: Callable[[int, int], int], unit: Fraction) -> Array:
    """Return, row by row, a bound of the rounding error of an algorithm for L u, as Fractions.

    Parameters
    ----------
    a, u : ndarray of Fraction, shape (n,)
        Coefficients and inputs.
    factors : callable
        N(i, j), counted from 0: how many rounded operations the term L[i, j] u[j] passes through.
    unit : Fraction
        Unit roundoff of the arithmetic.

    Returns
    -------
    ndarray of Fraction, shape (n,)
        sum_j |L[i, j] u[j]| gamma(N(i, j)) with gamma(N) = N unit / (1 - N unit), the standard bound without underflow.
    """
    matrix = np.abs(literal_matrix(a)) * np.abs(u)
    bounds = np.zeros(len(u), dtype=object)
    for i, j in np.argwhere(np.tri(len(u), dtype=bool)):
        count = factors(i, j)
        bounds[i] += matrix[i, j] * count * unit / (1 - count * unit)
    return bounds


def random_fractions(rng, n):
    """Return small fractions, zeros and negative ones among them."""
    return np.array([Fraction(int(rng.integers(-4, 5)), int(rng.integers(1, 6))) for _ in range(n)], dtype=object)
