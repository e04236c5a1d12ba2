"""Sums of shifted diagonals, diag(f) Z^k. The powers of AZ are such sparse operators.

Z is the shift by one, (Z x)[i] = x[i-1]. All operators here follow from (AZ)^k = diag(f_k) Z^k, where
f_k[i] = a[i] a[i-1] ... a[i-k+1]. So does the implicit squaring of Kogge and Stone: f_{j+k}[i] = f_j[i] f_k[i-j].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from recfact.affine import products
from recfact.arrays import Array
from recfact.checks import integer
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import conjugate_of, of_one_type, one_like, require_sparse, scalars_that_fit, times


def lag_products(a: Array, lag: int) -> Array:
    """Return the diagonal of (AZ)^lag: the products of `lag` consecutive coefficients.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients.
    lag : int
        Number of factors in each product, at least 0.

    Returns
    -------
    ndarray, shape (max(n - lag, 0),)
        a[i] a[i-1] ... a[i-lag+1] for the rows i = lag .. n-1. This takes about 2 n log2(lag) multiplications.
    """
    if lag == 0:
        return np.ones(len(a), dtype=int).astype(a.dtype)
    if lag >= len(a):
        return a[:0]
    half = lag // 2
    products = lag_products(a, half)
    squared = products[half:] * products[: len(products) - half]
    return a[lag:] * squared[:-1] if lag % 2 else squared


def are_few_rows(rows: range, columns: range, size: int) -> bool:
    """Say whether `entries_of` would compute many more products than there are entries, of a matrix of `size` rows."""
    ends = (rows[0], rows[-1], columns[0], columns[-1])
    return (max(ends) + 1 - min(ends)) * len(columns) > size * len(rows)


def entries_of(a: Array, rows: range, columns: range) -> Array:
    """Return entries of the transfer operator, products of coefficients in the order of the plain loop.

    No kernel is needed for that, so nobody waits for one.
    """
    i, j = np.array(rows), np.array(columns)
    steps = np.arange(min(i.min(), j.min()), i.max() + 1)
    below = steps[:, None] > j
    factors = np.full(below.shape, one_like(a)).astype(a.dtype)
    np.copyto(factors, a[steps, None], where=below)
    with scalars_that_fit(a.dtype):
        entries: Array = products(factors, axis=0)[i - steps[0]]
    entries[i[:, None] < j] = 0 * one_like(a)
    return entries


class ShiftedDiagonals(Operator):
    """A sum of shifted diagonals, sum_k diag(f_k) Z^k. Negative lags shift up.

    Parameters
    ----------
    size : int
        Number of rows and columns n.
    diagonals : mapping of int to ndarray, shape (n - abs(lag),)
        The non-zero diagonals by their lag. A diagonal holds the entries [i, i - lag]. It starts in row i = lag if
        lag >= 0, and in row i = 0 otherwise.
    dtype : dtype
        Number type of the operator.
    from_right : bool, default False
        Multiply from the right, as a transpose does.

    Attributes
    ----------
    diagonals : dict of int to ndarray
        The diagonals by lag.

    Examples
    --------
    >>> import numpy as np
    >>> ShiftedDiagonals(3, {0: np.ones(3), 1: np.array([5.0, 6.0])}, np.float64).to_dense()
    array([[1., 0., 0.],
           [5., 1., 0.],
           [0., 6., 1.]])
    """

    def __init__(self, size: int, diagonals: Mapping[int, Array], dtype: Any, from_right: bool = False) -> None:
        super().__init__(dtype, (size, size))
        self.diagonals, self.from_right = dict(diagonals), from_right

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return sum(map(len, self.diagonals.values()))

    def diagonal(self, k: int = 0) -> Array:
        """Return the entries [i, i + k]; see `Operator.diagonal`."""
        length = max(self.shape[0] - abs(integer(k, "k")), 0)
        diagonal = self.diagonals.get(-k)
        if diagonal is None:
            return np.zeros(length, self.dtype)
        return of_one_type(diagonal.astype(self.dtype))

    def to_sparse(self) -> sparse.dia_array:
        """Return the operator as a scipy.sparse array. float16 and bfloat16 become float32.

        Raises
        ------
        DTypeError
            If the operator holds objects, which scipy.sparse doesn't.
        """
        dtype = require_sparse(self.dtype)
        stored = {lag: diagonal.astype(dtype) for lag, diagonal in self.diagonals.items() if len(diagonal)}
        if not stored:
            return sparse.dia_array(self.shape, dtype=dtype)
        return sparse.diags_array(list(stored.values()), offsets=[-lag for lag in stored], shape=self.shape)

    def conj(self) -> ShiftedDiagonals:
        """Return the elementwise complex conjugate."""
        conjugates = {lag: conjugate_of(f) for lag, f in self.diagonals.items()}
        return ShiftedDiagonals(self.shape[0], conjugates, self.dtype, self.from_right)

    def _transpose(self) -> ShiftedDiagonals:
        transposed = {-lag: f for lag, f in self.diagonals.items()}
        return ShiftedDiagonals(self.shape[0], transposed, self.dtype, not self.from_right)

    def _apply(self, x: Array) -> Array:
        y = np.zeros_like(x)
        for lag, diagonal in self.diagonals.items():
            if lag >= 0:
                y[lag:] += times(diagonal, x[: len(x) - lag], self.from_right)
            else:
                y[:lag] += times(diagonal, x[-lag:], self.from_right)
        return y
