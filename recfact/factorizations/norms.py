"""Norms of L = (I - AZ)^-1 and of I - AZ, from the absolute values of the coefficients alone.

Signs and phases change no norm here: L(a) = D L(|a|) D^-1 with D = diag(d), d[0] = 1, and d[i] = d[i-1] times the sign
(phase) of a[i]. L(|a|) is non-negative. So three sets of numbers follow from recurrences in O(n): its row sums solve
the recurrence with inputs 1, its column sums the transposed one, and its squared row lengths the one with squared
coefficients.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from recfact.arrays import Array
from recfact.errors import OptionError, shown
from recfact.recurrence import backward, forward
from recfact.solve import solve

FEW = 1 << 10
"""Coefficients whose states a plain loop finds in less time than it takes to load a kernel."""

STURM_SAFE = 1e50
"""Coefficients and norms up to here leave LAPACK's bisection its full relative accuracy."""


def absolute_values(a: Array) -> Array:
    """Return |a| of shape (n,) in float64, or in the scalars' own type for an object array."""
    if a.dtype == object:
        return np.asarray(np.abs(a))
    return np.asarray(np.abs(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)))


def row_sums(moduli: Array) -> Array:
    """Return the row sums of L(|a|), shape (n,). Floats may be many sequences, of shape (..., n)."""
    return states_of_ones(moduli, reverse=False)


def column_sums(moduli: Array) -> Array:
    """Return the column sums of L(|a|), shape (n,)."""
    return states_of_ones(moduli, reverse=True)


def states_of_ones(moduli: Array, reverse: bool) -> Array:
    """Solve the recurrence with coefficients |a| and inputs 1. States beyond float64 become infinite."""
    ones = np.ones(moduli.shape, dtype=int).astype(moduli.dtype)
    if moduli.dtype == object:
        return backward(moduli, ones) if reverse else forward(moduli, ones)
    if moduli.ndim == 1 and len(moduli) <= FEW:
        steps = moduli[:0:-1] if reverse else moduli[1:]
        states = accumulate(steps.tolist(), lambda state, factor: factor * state + 1.0, initial=1.0)
        sums = np.array(list(states)[: len(moduli)])[:: -1 if reverse else 1]
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.asarray(solve(moduli, ones, reverse=reverse))
    if np.any(np.isnan(sums)) and np.all(np.isfinite(moduli)):
        sums[np.isnan(sums)] = np.inf  # zero times a sum beyond float64
    return sums


def transfer_norm(a: Array, ord: Any) -> Any:
    """Return the norm of L; see `TransferOperator.norm`."""
    moduli = absolute_values(a)
    match check_order(ord):
        case 1:
            return largest(column_sums(moduli))
        case 2:
            return spectral_norm(moduli)
        case "fro":
            return frobenius_norm(moduli)
        case _:
            return largest(row_sums(moduli))


def bidiagonal_norm(a: Array, ord: Any) -> Any:
    """Return the norm of I - AZ; see `Bidiagonal.norm`."""
    order, moduli = check_order(ord), absolute_values(a)
    if len(moduli) <= 1:
        return len(moduli) if moduli.dtype == object else float(len(moduli))
    couplings = moduli[1:]
    if order == "fro" and couplings.dtype == object:
        return square_root(len(moduli) + sum(couplings**2))
    if order not in (2, "fro"):
        return largest(1 + couplings)  # the first column and the last row have only the 1
    couplings = as_floats(couplings)
    top = float(np.maximum(np.max(couplings), 1.0))
    if not math.isfinite(top):
        return top
    if order == 2:
        return singular_value(couplings, -1, (1.0, 1.0 + top))
    return top * math.sqrt(len(moduli) / top / top + float(np.sum((couplings / top) ** 2)))


def check_order(ord: Any) -> int | float | str:
    """Return `ord` if it is 1, 2, inf or "fro"; raise OptionError otherwise."""
    for order in (1, 2, np.inf, "fro"):
        if isinstance(ord, str if isinstance(order, str) else int | float | np.number) and ord == order:
            return order
    raise OptionError(f'the order of a norm must be 1, 2, numpy.inf or "fro", got {shown(ord)}')


def transposed_order(ord: Any) -> int | float | str:
    """Return the order in which the transpose has the same norm as the matrix in the order `ord`."""
    order = check_order(ord)
    return 1 if order == np.inf else np.inf if order == 1 else order


def frobenius_norm(moduli: Array) -> Any:
    """Return the square root of the sum of the squared entries of L(|a|)."""
    if moduli.dtype == object:
        return square_root(sum(row_sums(moduli**2)))
    with np.errstate(over="ignore"):
        total = float(np.sum(row_sums(moduli**2)))
    if math.isfinite(total):  # an underflow is harmless: every squared row length is at least 1
        return math.sqrt(total)
    lengths = [1.0]
    for coefficient in moduli[1:].tolist():
        lengths.append(math.hypot(1.0, coefficient * lengths[-1]))
    return math.hypot(*lengths)


def spectral_norm(moduli: Array) -> float:
    """Return the largest singular value of L(|a|), the reciprocal of the smallest one of I - AZ."""
    moduli = as_floats(moduli)
    if len(moduli) <= 1:
        return float(len(moduli))
    bound = math.sqrt(np.max(row_sums(moduli))) * math.sqrt(np.max(column_sums(moduli)))
    if not math.isfinite(bound):
        return bound
    return 1.0 / singular_value(moduli[1:], 0, (1.0 / bound, 1.0))


def singular_value(couplings: Array, rank: int, bracket: tuple[float, float]) -> float:
    """Return the smallest (rank 0) or largest (rank -1) singular value of the bidiagonal matrix I - AZ.

    The singular values of I - AZ and their negatives are the eigenvalues of a symmetric tridiagonal matrix. Its
    diagonal is zero, and its off-diagonal is 1, |a[1]|, 1, |a[2]|, ..., 1 (Golub and Kahan, 1965). Bisection with Sturm
    counts finds them to the last bits. A computed pivot consists of a division, a multiplication or square, and a
    subtraction. So a computed count is exact for off-diagonal entries that are changed by a relative 3/4 eps each. The
    changes of all 2n - 1 entries move a singular value, however small, by a relative 3/2 n eps at most (Demmel and
    Kahan, 1990).

    Parameters
    ----------
    couplings : ndarray of float64, shape (n - 1,)
        |a[1]|, ..., |a[n-1]|, finite.
    rank : {0, -1}
        Which singular value.
    bracket : tuple of float
        A positive lower bound and an upper bound of it.
    """
    n = len(couplings) + 1
    off_diagonal = np.ones(2 * n - 1)
    off_diagonal[1::2] = couplings
    index = n if rank == 0 else 2 * n - 1
    if max(np.max(couplings), 1.0 / bracket[0]) < STURM_SAFE:
        # With a tiny tolerance, LAPACK stops at the relative accuracy of a double.
        found = eigvalsh_tridiagonal(
            np.zeros(2 * n), off_diagonal, select="i", select_range=(index, index), tol=1e-290, lapack_driver="stebz"
        )
        return float(found[0])
    low, high = bracket
    while True:
        middle = math.sqrt(low) * math.sqrt(high)
        if not low * (1 + 2**-50) < middle < high:
            return middle
        if eigenvalues_below(middle, off_diagonal.tolist()) <= index:
            low = middle
        else:
            high = middle


def eigenvalues_below(shift: float, off_diagonal: list[float]) -> int:
    """Return how many eigenvalues of the zero-diagonal tridiagonal matrix lie below `shift`, by Sturm's count."""
    pivot, count = -shift, 1
    for entry in off_diagonal:
        # Division before multiplication keeps squares from overflowing.
        pivot = -shift - entry / (pivot or 5e-324) * entry
        count += pivot < 0
    return count


def as_floats(moduli: Array) -> Array:
    """Return absolute values of any scalar as float64.

    Raises
    ------
    OptionError
        If they have no float value.
    """
    try:
        return moduli.astype(np.float64)
    except (TypeError, ValueError):
        raise OptionError(
            "the 2-norm is computed in float64 and needs coefficients that convert to float; ask for the order 1, "
            'numpy.inf or "fro", which keep the scalars as they are'
        ) from None


def largest(values: Array) -> Any:
    """Return the largest of non-negative numbers, or 0 if there are none. NaN wins, as in NumPy.

    Symbols give a symbolic maximum. Intervals give the interval that holds the maximum.
    """
    if values.dtype != object:
        return float(np.max(values, initial=0.0))
    if any(hasattr(value, "free_symbols") for value in values):
        from sympy import Max

        return Max(*values)
    if any(hasattr(value, "delta") for value in values):
        from mpmath import iv

        intervals = [iv.mpf(value) for value in values]
        return iv.mpf([max(value.a for value in intervals), max(value.b for value in intervals)])
    return max(values, default=0)


def square_root(value: Any) -> Any:
    """Return the square root of a scalar: symbolic for symbols, otherwise in the arithmetic of the scalar."""
    if hasattr(value, "free_symbols"):
        from sympy import sqrt

        return sqrt(value)
    return value**0.5
