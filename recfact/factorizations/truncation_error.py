"""The exact error of a truncation: the operators E = L - L~, and N in L~ = (I - N) L."""

from math import hypot
from typing import Any

import numpy as np

from recfact.affine import Blocks
from recfact.arrays import Array
from recfact.factorizations.carrier_norm import carrier_norm
from recfact.factorizations.norms import (
    absolute_values,
    as_floats,
    check_order,
    largest,
    row_sums,
    square_root,
)
from recfact.factorizations.scalars import beside, times
from recfact.factorizations.transposable import TransposableOperator
from recfact.number_types import DType
from recfact.recurrence import backward, forward
from recfact.solve import solve


class RelativeErrorOperator(TransposableOperator):
    """The N of L~ = (I - N) L, which turns the exact states into the error, x - x~ = N x.

    A row that the window cuts off loses one state, times the coefficients since: (N x)[i] = w[i] x[j[i]]. The rows that
    lose the same state follow each other. So the rows and columns of different states are disjoint, and every norm of N
    has a closed form. The lost states are those at the ends of blocks. The blocks of a band have one step.

    Parameters
    ----------
    size : int
        Number of rows and columns n.
    weights : ndarray, shape (q,)
        The weights w of the last q rows. The other rows lose nothing.
    block : int
        Length of the blocks. The first `block` of the q rows lose the state at the end of the first block, the next
        `block` rows that at the end of the second block, and so on.
    dtype : dtype
        Number type of the operator.

    Attributes
    ----------
    sources : ndarray of int, shape (q,)
        The lost states j of these rows, in ascending order.
    starts : ndarray of int
        Positions in `weights` where the rows of another state begin.
    """

    def __init__(self, size: int, weights: Array, block: int, dtype: DType) -> None:
        super().__init__(dtype, (size, size))
        self.weights, self._rows = weights, Blocks.of(len(weights), block)
        self._lost = slice(block - 1, block * self._rows.count, block)
        self.starts = np.arange(0, len(weights), self._rows.length)
        self.sources = self._lost_by_rows(np.arange(size))

    def _lost_by_rows(self, x: Array) -> Array:
        """Return what each of the last q rows loses of `x`, shape (q, ...)."""
        return x[self._lost].repeat(self._rows.length, axis=0)[: len(self.weights)]

    def _apply(self, x: Array) -> Array:
        y = np.zeros_like(x)
        y[len(y) - len(self.weights) :] = times(self.weights, self._lost_by_rows(x))
        return y

    def _apply_transpose(self, x: Array) -> Array:
        return self.collect(times(self.weights, x[len(x) - len(self.weights) :], from_right=True))

    def collect(self, values: Array) -> Array:
        """Return the sums of `values`, shape (q, ...), over the rows that lose the same state, at that state."""
        sums = np.zeros_like(values, shape=(self.shape[0], *values.shape[1:]))
        if not isinstance(values, np.ndarray):  # CuPy's arrays sum rows of one length
            sums[self._lost] = self._rows.split(values, 0).sum(axis=1)
        elif len(values):
            sums[self._lost] = np.add.reduceat(values, self.starts, axis=0)
        return sums

    def lengths(self, weights: Array) -> Array:
        """Return for each lost state the Euclidean length of the `weights` of its rows."""
        if len(weights) == 0:
            return weights
        if weights.dtype != object:
            return np.hypot.reduceat(weights, self.starts)
        return np.asarray(np.frompyfunc(square_root, 1, 1)(np.add.reduceat(weights * weights, self.starts)))

    def norm(self, ord: Any = np.inf) -> Any:
        """Return a norm of N in O(n). All four orders have a closed form.

        Parameters
        ----------
        ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
            Which norm.

        Returns
        -------
        float or scalar
            A float. Object arrays give a scalar of their own kind.

        Raises
        ------
        OptionError
            If `ord` is none of these.
        """
        weights = absolute_values(self.weights)
        match check_order(ord):
            case 1:
                return largest(self.collect(weights))
            case 2:
                return largest(self.lengths(weights))
            case "fro":
                return square_root(sum(weights * weights)) if weights.dtype == object else hypot(*weights)
            case _:
                return largest(weights)


class ErrorOperator(TransposableOperator):
    """The E = L - L~ = N L, which turns inputs into the error of the truncated states, x - x~ = E u.

    Nothing is subtracted. So the error is as accurate, relative to itself, as a state is.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients.
    relative : RelativeErrorOperator
        N.
    """

    def __init__(self, a: Array, relative: RelativeErrorOperator) -> None:
        super().__init__(a.dtype, relative.shape)
        self.a, self.relative = a, relative

    def _apply(self, x: Array) -> Array:
        return self.relative._apply(solve(beside(self.a, x), x, axis=0))

    def _apply_transpose(self, x: Array) -> Array:
        lost = self.relative._apply_transpose(x)
        states: Array = solve(beside(self.a, x), lost, axis=0, reverse=True)
        return states

    def norm(self, ord: Any = np.inf) -> Any:
        """Return a norm of E. The signs (phases) of the coefficients don't matter.

        Parameters
        ----------
        ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
            1, inf and "fro" are recurrences in |a| and take O(n) time. 2 takes some tens of passes over the lost
            states, see `carrier_norm`. Its relative error is a few units of rounding per step.

        Returns
        -------
        float or scalar
            A float. For object arrays, the orders other than 2 give a scalar of their own kind.

        Raises
        ------
        OptionError
            If `ord` is none of these, or if it is 2 and the scalars have no float value.
        """
        order, moduli, weights = check_order(ord), absolute_values(self.a), absolute_values(self.relative.weights)
        sources = self.relative.sources
        match order:
            case 1:
                lost = self.relative.collect(weights)
                return largest(backward(moduli, lost) if lost.dtype == object else solve(moduli, lost, reverse=True))
            case 2:
                return self._spectral_norm(as_floats(moduli), as_floats(weights))
            case "fro" if moduli.dtype == object:
                squares = forward(moduli * moduli, np.ones(len(moduli), dtype=int).astype(object))
                return square_root(sum(weights * weights * squares[sources]))
            case "fro":
                return hypot(*(weights * row_lengths(moduli)[sources]))
            case _:
                return largest(weights * row_sums(moduli)[sources])

    def _spectral_norm(self, moduli: Array, weights: Array) -> float:
        """Return the largest singular value, from one row and one column for each lost state.

        The rows of E that lose the same state are multiples of one row of L. The columns of the inputs between two such
        states are, in all later rows, multiples of one column. Each bundle has the norm of its vector of factors.
        """
        if len(weights) == 0:
            return 0.0
        states = self.relative.sources[self.relative.starts]
        begins = np.append(0, states[:-1] + 1)
        restarted = moduli[: states[-1] + 1].copy()
        factors = np.multiply.reduceat(restarted, begins)
        restarted[begins] = 0.0
        inputs = row_lengths(restarted)[states]
        return carrier_norm(self.relative.lengths(weights).tolist(), factors.tolist(), inputs.tolist())


def row_lengths(moduli: Array) -> Array:
    """Return the Euclidean lengths of the rows of L(|a|), shape (n,), without squares that overflow."""
    length, lengths = 0.0, np.empty(len(moduli))
    for row, coefficient in enumerate(moduli.tolist()):
        length = hypot(1.0, coefficient * length)
        lengths[row] = length
    return lengths
