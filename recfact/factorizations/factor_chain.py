"""Chains of sparse factors: a parallel algorithm as a product of matrices.

A stage of a parallel scan adds multiples of some rows to others, all at once: it is the matrix I + sum_i f_i e_i
e_(i-lag)^T. The algorithm is the product of its stages, the first one rightmost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from recfact.arrays import Array, as_numpy
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import common_type, conjugate_of, require_sparse, times
from recfact.number_types import accumulator


@dataclass(frozen=True, slots=True)
class Work:
    """Scalar operations.

    Parameters
    ----------
    multiplications, additions : int
        Number of each.
    """

    multiplications: int
    additions: int


class Factor(Operator):
    """One stage: y[i] = x[i] + f[i] x[i - lag] for the rows i of an arithmetic progression, y[i] = x[i] elsewhere.

    All rows read the vector as it was before the stage.

    Parameters
    ----------
    size : int
        Number of rows and columns n.
    rows : range
        Rows that change; `rows` and ``rows - lag`` lie within 0 .. n-1.
    lag : int
        How far above its row a multiplied entry stands; negative below it.
    values : ndarray, shape (len(rows),)
        The multipliers f.
    from_right : bool, default False
        Multiply from the right, x[i - lag] f[i], as the transpose of a factor does.

    Attributes
    ----------
    rows, lag, values, from_right
        As passed.

    Examples
    --------
    >>> import numpy as np
    >>> factor = Factor(4, range(1, 4, 2), 1, np.array([5.0, 7.0]))
    >>> factor.to_dense()
    array([[1., 0., 0., 0.],
           [5., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 7., 1.]])
    >>> factor.nnz, factor.to_sparse().nnz
    (2, 6)
    """

    def __init__(self, size: int, rows: range, lag: int, values: Array, from_right: bool = False) -> None:
        super().__init__(values.dtype, (size, size))
        self.rows, self.lag, self.values, self.from_right = rows, lag, values, from_right

    @property
    def columns(self) -> range:
        """The columns of the multipliers."""
        return range(self.rows.start - self.lag, self.rows.stop - self.lag, self.rows.step)

    @property
    def nnz(self) -> int:
        """Number of entries off the unit diagonal, each a multiply-add; the diagonal costs nothing."""
        return len(self.rows)

    def to_sparse(self) -> sparse.csr_array:
        """Return the factor as a scipy.sparse array, unit diagonal included; float16 and bfloat16 become float32.

        Raises
        ------
        DTypeError
            If the factor holds objects, which scipy.sparse doesn't.
        """
        dtype, n = require_sparse(self.dtype), self.shape[0]
        entries = np.concatenate([np.ones(n, dtype), self.values.astype(dtype)])
        i = np.concatenate([np.arange(n), np.array(self.rows, dtype=int)])
        j = np.concatenate([np.arange(n), np.array(self.columns, dtype=int)])
        return sparse.csr_array((entries, (i, j)), shape=self.shape)

    def conj(self) -> Factor:
        """Return the elementwise complex conjugate."""
        return Factor(self.shape[0], self.rows, self.lag, conjugate_of(self.values), self.from_right)

    def _transpose(self) -> Factor:
        return Factor(self.shape[0], self.columns, -self.lag, self.values, not self.from_right)

    def _apply(self, x: Array) -> Array:
        y = x.copy()
        y[as_slice(self.rows)] += times(self.values, x[as_slice(self.columns)], self.from_right)
        return y


def as_slice(positions: range) -> slice:
    """Return the slice that selects an ascending range of positions."""
    return slice(positions.start, positions.stop, positions.step)


class FactorChain(Operator):
    """A product of factors, applied one after another.

    Parameters
    ----------
    size : int
        Number of rows and columns n.
    factors : sequence of Factor
        The factors in the order in which they are applied: the operator is ``factors[-1] @ ... @ factors[0]``, the
        identity if there are none.
    dtype : dtype
        Number type of the operator. For float16 and bfloat16 the factors are float32, and a product is rounded once.
    forming : int, default 0
        Multiplications that were spent on forming the factors.

    Attributes
    ----------
    factors : tuple of Factor
        The factors, the first applied first.
    forming : int
        As passed.

    Examples
    --------
    >>> import numpy as np
    >>> chain = FactorChain(2, [Factor(2, range(1, 2), 1, np.array([0.5]))], np.float64)
    >>> chain @ np.array([4.0, 1.0])
    array([4., 3.])
    >>> chain.depth, chain.nnz, chain.work
    (1, 1, Work(multiplications=1, additions=1))
    """

    def __init__(self, size: int, factors: Sequence[Factor], dtype: Any, forming: int = 0) -> None:
        super().__init__(dtype, (size, size))
        self.factors, self.forming = tuple(factors), forming

    @property
    def depth(self) -> int:
        """Number of factors: steps of simultaneous multiply-adds, one after another."""
        return len(self.factors)

    @property
    def nnz(self) -> int:
        """Number of entries off the unit diagonals of all factors."""
        return sum(factor.nnz for factor in self.factors)

    @property
    def work(self) -> Work:
        """Operations of one run of the algorithm: forming the factors and applying them to one vector."""
        return Work(multiplications=self.forming + self.nnz, additions=self.nnz)

    def stages(self, u: Any) -> list[Array]:
        """Return the vectors that the algorithm passes through, from `u` itself to the product.

        Parameters
        ----------
        u : array_like, shape (n,) or (n, m)
            What the chain is applied to.

        Returns
        -------
        list of ndarray
            ``depth + 1`` arrays of the shape of `u`: before the first factor and after each.
        """
        inputs = as_numpy(u, "u")
        vectors = [np.array(inputs, dtype=common_type(self.dtype, inputs.dtype))]
        for factor in self.factors:
            vectors.append(factor @ vectors[-1])
        return vectors

    def conj(self) -> FactorChain:
        """Return the chain of the conjugate factors."""
        return FactorChain(self.shape[0], [factor.conj() for factor in self.factors], self.dtype, self.forming)

    def _transpose(self) -> FactorChain:
        reverse = [factor._transpose() for factor in reversed(self.factors)]
        return FactorChain(self.shape[0], reverse, self.dtype, self.forming)

    def _apply(self, x: Array) -> Array:
        if not self.factors:
            return x.copy()
        for factor in self.factors:
            x = factor._apply(x)
        return x


def working_copy(a: Array) -> Array:
    """Return a copy of coefficients in the dtype to compute in, for an algorithm to overwrite."""
    return a.astype(accumulator(a.dtype), copy=True)
