"""Truncated transfer operators: the band, the jagged window of B2P, and the whole, with their errors."""

import copy
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from recfact.affine import Blocks, products
from recfact.arrays import Array, as_numpy, check_scalars
from recfact.checks import integer
from recfact.factorizations.diagonals import are_few_rows, entries_of, lag_products
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import (
    as_coefficients,
    beside,
    common_type,
    conjugate_of,
    of_one_type,
    require_sparse,
    scalars_that_fit,
)
from recfact.factorizations.transposable import TransposableOperator, Transpose, as_columns, as_state
from recfact.factorizations.truncation_error import ErrorOperator, RelativeErrorOperator
from recfact.number_types import accumulator
from recfact.recurrence import first_kept_rows, folded
from recfact.solve import solve
from recfact.windows import Full, Jagged, Uniform, Window


class TruncatedOperator(TransposableOperator):
    """The common base of bands, jagged windows and the whole.

    Row i keeps the entries with lags 0 .. K[i] - 1. It loses the state x[i - K[i]], times the coefficients since.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, any scalars.
    window : Uniform, Jagged or Full
        The part to keep.
    """

    def __init__(self, a: Any, window: Window) -> None:
        self.a, self.window = as_coefficients(a), window
        super().__init__(self.a.dtype, (len(self.a), len(self.a)))

    @property
    def title(self) -> str:
        """The window, as it is written."""
        return repr(self.window)

    def _entries(self, rows: range, columns: range) -> Array:
        if are_few_rows(rows, columns, len(self.a)):
            return super()._entries(rows, columns)
        entries, lags = entries_of(self._coefficients, rows, columns), np.array(rows)[:, None] - np.array(columns)
        entries[lags >= self._kept_lags()[np.array(rows), None]] = 0 * self._one()
        return entries.astype(self.dtype, copy=False)

    def _kept_lags(self) -> Array:
        """Return K, shape (n,): how many entries each row keeps."""
        n = len(self.a)
        return np.asarray(np.arange(n) + 1 - first_kept_rows(n, self.window))

    @abstractmethod
    def _lost_states(self) -> tuple[Array, int]:
        """Return the weights and the block of `RelativeErrorOperator`."""

    @property
    def _coefficients(self) -> Array:
        return self.a.astype(accumulator(self.dtype), copy=False)

    def _apply(self, x: Array) -> Array:
        return self._run(x, reverse=False)

    def _apply_transpose(self, x: Array) -> Array:
        return self._run(x, reverse=True)

    def _run(self, x: Array, reverse: bool) -> Array:
        states: Array = solve(beside(self.a, x), x, axis=0, window=self.window, reverse=reverse)
        return states

    def _rounds_once(self) -> bool:
        return True

    def _transpose(self) -> Operator:
        return TruncatedTranspose(self)

    def conj(self) -> "TruncatedOperator":
        """Return the truncation of the conjugate coefficients."""
        conjugate = copy.copy(self)
        conjugate.__dict__.pop("_relative_error", None)
        conjugate.a = conjugate_of(self.a)
        return conjugate

    @property
    def nnz(self) -> int:
        """Number of entries inside the window."""
        return int(self._kept_lags().sum())

    def _diagonals(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the rows, columns and values of the entries kept, lag by lag."""
        kept, a = self._kept_lags(), self._coefficients
        diagonal = lag_products(a, 0)
        for lag in range(max(kept, default=0)):
            rows = np.flatnonzero(kept > lag)
            yield rows, rows - lag, diagonal[rows - lag]
            diagonal = a[lag + 1 :] * diagonal[:-1]

    def diagonal(self, k: int = 0) -> Array:
        """Return the entries [i, i + k], zero outside the window; see `Operator.diagonal`."""
        lag = -integer(k, "k")
        if not 0 <= lag < len(self.a):
            return np.zeros(max(len(self.a) - abs(lag), 0), self.dtype)
        diagonal = lag_products(self._coefficients, lag).copy()
        diagonal[self._kept_lags()[lag:] <= lag] = 0
        return of_one_type(diagonal).astype(self.dtype, copy=False)

    def to_dense(self) -> Array:
        """Return the matrix as a dense array of the operator's dtype, zero outside the window."""
        dense = np.zeros(self.shape, dtype=self.dtype)
        for rows, columns, values in self._diagonals():
            dense[rows, columns] = values
        return of_one_type(dense)

    def to_sparse(self) -> sparse.csr_array:
        """Return the matrix as a scipy.sparse array with the entries of the window. The halves become float32.

        Raises
        ------
        DTypeError
            If the operator holds objects, which scipy.sparse doesn't.
        """
        dtype = require_sparse(self.dtype)
        entries = [np.concatenate(parts) for parts in zip(*self._diagonals(), strict=True)]
        if not entries:
            return sparse.csr_array(self.shape, dtype=dtype)
        rows, columns, values = entries
        return sparse.coo_array((values.astype(dtype), (rows, columns)), shape=self.shape).tocsr()

    @cached_property
    def _relative_error(self) -> RelativeErrorOperator:
        return RelativeErrorOperator(len(self.a), *self._lost_states(), self.dtype)

    def relative_error_operator(self) -> RelativeErrorOperator:
        """Return the N with x - x~ = N x and L~ = (I - N) L."""
        return self._relative_error

    def error_operator(self) -> ErrorOperator:
        """Return E = L - L~ = N L, with x - x~ = E u."""
        return ErrorOperator(self.a, self._relative_error)

    def error(self, u: Any, x0: Any = None) -> Array:
        """Return the error x - x~ of the truncated states, computed from the lost states and not by subtraction.

        Parameters
        ----------
        u : array_like, shape (n,) or (n, m)
            Inputs.
        x0 : scalar or array_like, shape (m,), optional
            State before the first step. It counts as part of the first input, u[0] + a[0] x0, as in `recfact.solve`.

        Returns
        -------
        ndarray, shape (n,) or (n, m)
            The error. It is zero where the window reaches back to the first input. It takes O(n log(lags)) time for a
            band and O(n) for a jagged window.

        Raises
        ------
        ShapeError
            If `u` has another shape, or if `x0` doesn't broadcast against a row of it.
        ArrayTypeError
            If `u` is on a GPU. Use ``error_operator() @ u`` there.

        Examples
        --------
        >>> JaggedOperator(np.full(6, 0.5), block=2).error(np.ones(6))
        array([0.     , 0.     , 0.     , 0.     , 0.1875 , 0.09375])
        """
        if x0 is None:
            return np.asarray(self.error_operator() @ as_numpy(u, "u"))
        state = check_scalars(as_numpy(x0, "x0"), "x0")
        columns, dtype = as_columns(u, len(self.a), common_type(self.dtype, state.dtype))
        with scalars_that_fit(dtype):
            columns = folded(self._coefficients, columns, as_state(state, columns))
            return self.error_operator()._apply(columns).astype(dtype, copy=False)

    def error_norm(self, ord: Any = np.inf) -> Any:
        """Return a norm of E = L - L~: the largest error for inputs of norm 1. See `ErrorOperator.norm`.

        Parameters
        ----------
        ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
            Which norm.

        Examples
        --------
        >>> from fractions import Fraction
        >>> JaggedOperator([Fraction(1, 2)] * 16, block=4).error_norm(np.inf)
        Fraction(255, 4096)
        """
        return self.error_operator().norm(ord)

    def relative_error_norm(self, ord: Any = np.inf) -> Any:
        """Return a norm of N: the largest error for states of norm 1. See `RelativeErrorOperator.norm`.

        Parameters
        ----------
        ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
            Which norm.

        Examples
        --------
        >>> float(BandedOperator(np.full(16, 0.5), lags=4).relative_error_norm(2))
        0.0625
        """
        return self._relative_error.norm(ord)


class TruncatedTranspose(Transpose):
    """The transpose of a truncated operator.

    Parameters
    ----------
    operator : TruncatedOperator
        The operator to transpose.
    """

    operator: TruncatedOperator

    def to_sparse(self) -> sparse.csc_array:
        """Return the matrix as a scipy.sparse array; see `TruncatedOperator.to_sparse`."""
        return self.operator.to_sparse().T


class WholeOperator(TruncatedOperator):
    """The window that keeps everything: L itself. Its error is zero.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, any scalars.

    Examples
    --------
    >>> whole = WholeOperator([9.0, 2.0, 3.0])
    >>> whole.to_dense()[2], float(whole.error_norm())
    (array([6., 3., 1.]), 0.0)
    """

    def __init__(self, a: Any) -> None:
        super().__init__(a, Full())

    def _lost_states(self) -> tuple[Array, int]:
        return self._coefficients[:0], 1


class BandedOperator(TruncatedOperator):
    """The uniform window: the diagonals of L with lags 0 .. lags-1, L~ = I + AZ + ... + (AZ)^(lags-1).

    Its error is exactly L - L~ = (AZ)^lags L. Row i loses a[i] ... a[i-lags+1] x[i-lags].

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, any scalars.
    lags : int
        Number of diagonals kept, at least 1. (The paper's text says "lags up to k" for its k terms, section 4.1.)

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't one sequence of numbers.
    TypeError, OptionError
        If `lags` isn't a positive integer.

    Examples
    --------
    >>> BandedOperator([9.0, 2.0, 3.0, 5.0], lags=2).to_dense()
    array([[1., 0., 0., 0.],
           [2., 1., 0., 0.],
           [0., 3., 1., 0.],
           [0., 0., 5., 1.]])
    """

    def __init__(self, a: Any, lags: int) -> None:
        window = Uniform(lags)
        super().__init__(a, window)
        self.lags = window.lags

    def _lost_states(self) -> tuple[Array, int]:
        return lag_products(self._coefficients, self.lags), 1


class JaggedOperator(TruncatedOperator):
    """The jagged window: each block and what the `terms` blocks before it pass on. With terms=1 it is B2P.

    In terms of the parts of `Hierarchical`, L~ = D + G Z T_m R. Here T_m = I + CZ + ... + (CZ)^(m-1) are the first m
    terms of the carrier operator. Step k (from 0) of block t keeps the lags 0 .. m l + k, as a band of m l + k + 1 lags
    does. Its error is exactly a propagated carrier, g[t][k] c[t-1] ... c[t-m] s[t-m-1].

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, any scalars.
    block : int
        Block length l, at least 1. The last block may be shorter.
    terms : int, default 1
        Number of carrier terms m. 0 keeps only the blocks themselves.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't one sequence of numbers.
    TypeError, OptionError
        If `block` or `terms` isn't an integer in its range.

    Notes
    -----
    Section 4.2 of the paper. The first (m + 1) l steps have no error, because an initial state is part of the first
    input.

    Examples
    --------
    >>> JaggedOperator([9.0, 2.0, 3.0, 5.0, 2.0], block=2).to_dense()
    array([[ 1.,  0.,  0.,  0.,  0.],
           [ 2.,  1.,  0.,  0.,  0.],
           [ 6.,  3.,  1.,  0.,  0.],
           [30., 15.,  5.,  1.,  0.],
           [ 0.,  0., 10.,  2.,  1.]])
    """

    def __init__(self, a: Any, block: int, terms: int = 1) -> None:
        window = Jagged(block, terms)
        super().__init__(a, window)
        self.block, self.terms = window.block, window.terms

    def _lost_states(self) -> tuple[Array, int]:
        a, blocks = self._coefficients, Blocks.of(len(self.a), self.block)
        rows = max(0, len(a) - (self.terms + 1) * self.block)
        if rows == 0:
            return a[:0], blocks.length
        propagation = products(blocks.split(a, 1), axis=1)
        # c[t-1] ... c[t-m] for t = m+1 .. b-1.
        attenuation = lag_products(propagation[:, -1], self.terms)[:-1]
        weights = propagation[self.terms + 1 :] * attenuation[:, None]
        return weights.reshape(-1)[:rows], blocks.length
