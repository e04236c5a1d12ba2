"""The transfer operator L, its transpose and its inverse I - AZ.

The recurrence x_i = a_i x_{i-1} + u_i is the linear system (I - AZ) x = u, with A = diag(a) and Z the shift by one.
Its solution x = L u defines the unit lower triangular L = (I - AZ)^-1. For n = 4 it is

    [ 1                            ]
    [ a_2         1                ]
    [ a_3 a_2     a_3       1      ]
    [ a_4 a_3 a_2 a_4 a_3   a_4  1 ]

In code indices start at 0, and L[i, j] = a[i] a[i-1] ... a[j+1]. a[0] multiplies the initial state and isn't part of L.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import integer, positive_integer
from recfact.factorizations.diagonals import ShiftedDiagonals, are_few_rows, entries_of, lag_products
from recfact.factorizations.growth_warning import warn_of_growth
from recfact.factorizations.norms import bidiagonal_norm, transfer_norm, transposed_order
from recfact.factorizations.scalars import as_coefficients, beside, conjugate_of, of_one_type, scalars_that_fit
from recfact.factorizations.transposable import TransposableOperator, Transpose
from recfact.factorizations.truncated import BandedOperator, JaggedOperator, TruncatedOperator, WholeOperator
from recfact.number_types import accumulator
from recfact.recurrence import backward, forward
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform, WindowLike, check_window


class TransferOperator(TransposableOperator):
    """The matrix L = (I - AZ)^-1 that maps the inputs of x_i = a_i x_{i-1} + u_i to its states.

    Products cost O(n) and never form the matrix. ``L @ u`` is `recfact.solve`, and ``L.T @ u`` runs it backwards.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients: floats, complex numbers, or an object array of any scalars with ``+`` and ``*`` (``Fraction``,
        ``mpf``, ``mpi``, sympy symbols, or a sympy ``Matrix`` of one row or column). Integers become float64. The array
        isn't copied. ``a[0]`` isn't part of L. A factorization of L stands for its coefficients.

    Attributes
    ----------
    a : ndarray, shape (n,)
        The coefficients.

    Raises
    ------
    ShapeError
        If `a` isn't one-dimensional.
    DTypeError
        If its elements aren't numbers.

    Warns
    -----
    GrowthWarning
        If ``norm(inf)`` exceeds 1/eps of the number type. A state can then be so large that the type can't resolve the
        inputs in it. Object arrays give no warning.

    Notes
    -----
    The paper's equations 2.2 and 2.3. float16 and bfloat16 compute in float32 and round once, at the end.

    Examples
    --------
    >>> import numpy as np
    >>> L = TransferOperator(np.array([9.0, 2.0, 3.0, 5.0]))
    >>> L
    <4x4 TransferOperator with dtype=float64>
    >>> L.to_dense()
    array([[ 1.,  0.,  0.,  0.],
           [ 2.,  1.,  0.,  0.],
           [ 6.,  3.,  1.,  0.],
           [30., 15.,  5.,  1.]])
    >>> L @ np.ones(4)
    array([ 1.,  3., 10., 51.])
    >>> L.norm(np.inf), L.norm(1), L.nilpotency_index
    (51.0, 39.0, 4)
    """

    def __init__(self, a: Any) -> None:
        self.a = as_coefficients(a)
        super().__init__(self.a.dtype, (len(self.a), len(self.a)))
        warn_of_growth(self.a)

    def _recurrence(self) -> Array:
        return self.a

    def _apply(self, x: Array) -> Array:
        a = beside(self.a, x)
        states: Array = forward(a, x) if x.dtype == object else solve(a, x, axis=0)
        return states

    def _apply_transpose(self, x: Array) -> Array:
        a = beside(self.a, x)
        states: Array = backward(a, x) if x.dtype == object else solve(a, x, axis=0, reverse=True)
        return states

    def _rounds_once(self) -> bool:
        return True

    def _transpose(self) -> TransposedTransferOperator:
        return TransposedTransferOperator(self)

    def conj(self) -> TransferOperator:
        """Return the transfer operator of the conjugate coefficients."""
        operator = copy.copy(self)  # the constructor would warn a second time
        operator.a = conjugate_of(self.a)
        return operator

    def inv(self) -> Bidiagonal:
        """Return the inverse, the bidiagonal I - AZ."""
        return Bidiagonal(self.a)

    def _entries(self, rows: range, columns: range) -> Array:
        if are_few_rows(rows, columns, len(self.a)):
            return super()._entries(rows, columns)
        return entries_of(self.a.astype(accumulator(self.dtype), copy=False), rows, columns).astype(self.dtype)

    def _columns(self, columns: range) -> Array:
        if not columns:
            return super()._columns(columns)
        return self._entries(range(len(self.a)), columns)  # which needs no kernel, so nobody waits for one

    def diagonal(self, k: int = 0) -> Array:
        """Return the entries L[i, i + k]. For k <= 0 they are products of -k coefficients, and for k > 0 they are 0."""
        n, k = len(self.a), integer(k, "k")
        if k > 0:
            return np.zeros(max(n - k, 0), self.dtype)
        with scalars_that_fit(self.dtype):
            products = lag_products(self.a.astype(accumulator(self.dtype), copy=False), -k)
        return of_one_type(products).astype(self.dtype)

    def solve(self, x: Any) -> Any:
        """Return the u with L u = x, as ``np.linalg.solve(L, x)`` does in O(n): u_i = x_i - a_i x_{i-1}.

        The recurrence itself, x from u, is ``L @ u``.

        Parameters
        ----------
        x : array_like, shape (n,) or (n, m)
            States.
        """
        return self.inv() @ x

    def neumann(self, k: int) -> ShiftedDiagonals:
        """Return the partial sum I + AZ + ... + (AZ)^(k-1) of the Neumann series as sparse diagonals.

        Parameters
        ----------
        k : int
            Number of terms, at least 0. From `nilpotency_index` on the sum is L itself.
        """
        n, k = len(self.a), positive_integer(k, "k", least=0)
        a = self.a.astype(accumulator(self.dtype), copy=False)
        diagonals = {0: lag_products(a, 0)} if k else {}
        for lag in range(1, min(k, n)):
            diagonals[lag] = a[lag:] * diagonals[lag - 1][:-1]
        return ShiftedDiagonals(n, diagonals, a.dtype)

    def power(self, k: int) -> ShiftedDiagonals:
        """Return (AZ)^k as one sparse diagonal, k steps below the main one. For k >= n it is the zero operator.

        Parameters
        ----------
        k : int
            The exponent, at least 0.
        """
        n, k = len(self.a), positive_integer(k, "k", least=0)
        a = self.a.astype(accumulator(self.dtype), copy=False)
        return ShiftedDiagonals(n, {k: lag_products(a, k)} if k < n else {}, a.dtype)

    @property
    def nilpotency_index(self) -> int:
        """Smallest k with (AZ)^k = 0: one more than the longest run of non-zero coefficients among a[1:].

        A symbol counts as non-zero, and so does an interval that contains zero.
        """
        n = len(self.a)
        resets = np.flatnonzero(self.a[1:] == 0)
        return int(np.max(np.diff([-1, *resets, n - 1]))) if n else 0

    def norm(self, ord: Any = np.inf) -> Any:
        """Return a norm of L.

        Parameters
        ----------
        ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
            1 is the largest column sum, inf the largest row sum, and 2 the largest singular value. 1, inf and "fro"
            are recurrences in ``|a|``, which take O(n) time and don't cancel.

        Returns
        -------
        float or scalar
            A float. For object arrays, the orders other than 2 give a scalar of their kind (exact for fractions,
            symbolic for symbols, an enclosure for intervals).

        Raises
        ------
        OptionError
            If `ord` is none of these, or if it is 2 and the scalars have no float value.

        Notes
        -----
        The 2-norm is one over the smallest singular value of I - AZ. Bisection with Sturm counts finds it to the last
        bits of a double, in about 60 passes over the coefficients. Its relative error is at most (1.5 n + 6) eps with
        eps = 2^-52, however large the norm is.

        Examples
        --------
        >>> from fractions import Fraction
        >>> TransferOperator([Fraction(1, 2)] * 4).norm(np.inf)
        Fraction(15, 8)
        """
        return transfer_norm(self.a, ord)

    def cond(self, ord: Any = np.inf) -> Any:
        """Return the condition number ||L|| ||I - AZ|| in the norm `ord` of `norm`."""
        return self.norm(ord) * self.inv().norm(ord)

    def truncate(self, window: WindowLike) -> TruncatedOperator:
        """Return the part of L that `window` keeps, as an operator that knows its error.

        Parameters
        ----------
        window : Uniform, Jagged or Full
            The part to keep.
        """
        return truncate(self.a, window)


class TransposedTransferOperator(Transpose):
    """The transpose of a transfer operator: x_i = a_{i+1} x_{i+1} + u_i, from the last row to the first.

    Parameters
    ----------
    operator : TransferOperator
        The operator to transpose.
    """

    operator: TransferOperator

    def conj(self) -> TransposedTransferOperator:
        """Return the transpose of the conjugate."""
        return TransposedTransferOperator(self.operator.conj())

    def inv(self) -> ShiftedDiagonals:
        """Return the inverse, the upper bidiagonal (I - AZ)^T."""
        return self.operator.inv()._transpose()

    def solve(self, x: Any) -> Any:
        """Return the u with L^T u = x; see `TransferOperator.solve`."""
        return self.inv() @ x

    def norm(self, ord: Any = np.inf) -> Any:
        """Return a norm; see `TransferOperator.norm`."""
        return self.operator.norm(transposed_order(ord))

    def cond(self, ord: Any = np.inf) -> Any:
        """Return a condition number; see `TransferOperator.cond`."""
        return self.operator.cond(transposed_order(ord))


class Bidiagonal(ShiftedDiagonals):
    """The bidiagonal I - AZ, the inverse of the transfer operator: u_i = x_i - a_i x_{i-1}.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, as for `TransferOperator`.

    Attributes
    ----------
    a : ndarray, shape (n,)
        The coefficients.

    Examples
    --------
    >>> Bidiagonal([9.0, 2.0, 3.0]).to_dense()
    array([[ 1.,  0.,  0.],
           [-2.,  1.,  0.],
           [ 0., -3.,  1.]])
    """

    def __init__(self, a: Any) -> None:
        self.a = as_coefficients(a)
        super().__init__(len(self.a), {0: lag_products(self.a, 0), 1: -self.a[1:]}, self.a.dtype)

    def inv(self) -> TransferOperator:
        """Return the inverse, the transfer operator."""
        return TransferOperator(self.a)

    def solve(self, u: Any) -> Any:
        """Return the x with (I - AZ) x = u: the recurrence itself, ``L @ u``."""
        return self.inv() @ u

    def conj(self) -> Bidiagonal:
        """Return the bidiagonal of the conjugate coefficients."""
        return Bidiagonal(conjugate_of(self.a))

    def norm(self, ord: Any = np.inf) -> Any:
        """Return the norm of I - AZ, for the orders and in the scalars of `TransferOperator.norm`."""
        return bidiagonal_norm(self.a, ord)


def truncate(a: Any, window: WindowLike) -> TruncatedOperator:
    """Return the part of the transfer operator that a window keeps.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, any scalars.
    window : Uniform, Jagged or Full
        The part to keep.

    Returns
    -------
    BandedOperator, JaggedOperator or WholeOperator
        The truncated operator for `Uniform`, `Jagged` or `Full`, in this order. The one for `Full` is L itself.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't one sequence of numbers.
    TypeError
        If `window` isn't a window.

    Examples
    --------
    >>> truncate(np.full(6, 0.5), Jagged(block=2))
    <6x6 JaggedOperator (Jagged(2)) with dtype=float64>
    """
    match check_window(window):
        case Uniform(lags):
            return BandedOperator(a, lags)
        case Jagged(block, terms):
            return JaggedOperator(a, block, terms)
        case Full():
            return WholeOperator(a)
