"""Chains of sparse factors: a parallel algorithm as a product of matrices.

A stage of a parallel scan adds multiples of some rows to other rows, all at once. It is the matrix
I + sum_i f_i e_i e_(i-lag)^T. The algorithm is the product of its stages, with the first one rightmost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from recfact.arrays import Array, as_numpy
from recfact.factorizations.notebook_drawing import draw_product
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
    """One stage of an algorithm, y = F x. All rows read the vector as it was before the stage.

    The rows i of an arithmetic progression change: y[i] = x[i] + f[i] x[i - lag]. The other rows keep their value.

    Parameters
    ----------
    size : int
        Number of rows and columns n.
    rows : range
        Rows that change. `rows` and ``rows - lag`` lie within 0 .. n-1.
    lag : int
        How many rows above its own row a multiplied entry lies. It is negative if the entry lies below.
    values : ndarray, shape (len(rows),)
        The multipliers f.
    from_right : bool, default False
        Multiply from the right, x[i - lag] f[i], as the transpose of a factor does.
    name : str, default ""
        Name of the stage, for the repr.

    Attributes
    ----------
    rows, lag, values, from_right, name
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

    def __init__(
        self, size: int, rows: range, lag: int, values: Array, from_right: bool = False, name: str = ""
    ) -> None:
        super().__init__(values.dtype, (size, size))
        self.rows, self.lag, self.values, self.from_right, self.name = rows, lag, values, from_right, name

    @property
    def title(self) -> str:
        """The stage and the lag, in words."""
        return ", ".join(filter(None, [self.name, self.from_right * "transposed", f"lag {self.lag}"]))

    @property
    def columns(self) -> range:
        """The columns of the multipliers."""
        return range(self.rows.start - self.lag, self.rows.stop - self.lag, self.rows.step)

    @property
    def nnz(self) -> int:
        """Number of entries off the unit diagonal. Each is a multiply-add. The diagonal costs nothing."""
        return len(self.rows)

    def to_sparse(self) -> sparse.csr_array:
        """Return the factor with its unit diagonal as a scipy.sparse array. float16 and bfloat16 become float32.

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
        return Factor(self.shape[0], self.rows, self.lag, conjugate_of(self.values), self.from_right, self.name)

    def _transpose(self) -> Factor:
        return Factor(self.shape[0], self.columns, -self.lag, self.values, not self.from_right, self.name)

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
        The factors in the order in which they are applied. The operator is ``factors[-1] @ ... @ factors[0]``, or the
        identity if there are none.
    dtype : dtype
        Number type of the operator. For float16 and bfloat16 the factors are float32, and a product is rounded once.
    forming : int, default 0
        Number of multiplications that formed the factors.

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
        """Number of factors. They follow one another; each is a step of simultaneous multiply-adds."""
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
            The vector, or vectors, that the chain is applied to.

        Returns
        -------
        list of ndarray
            ``depth + 1`` arrays in the shape of `u`: before the first factor, and after each factor.
        """
        inputs = as_numpy(u, "u")
        vectors = [np.array(inputs, dtype=common_type(self.dtype, inputs.dtype))]
        for factor in self.factors:
            vectors.append(factor @ vectors[-1])
        return vectors

    def to_html(self) -> str:
        """Return the picture that a notebook shows: the matrix as the product of its factors."""
        factors = [("·", factor.title, factor) for factor in reversed(self.factors)]
        if not factors:
            return super().to_html()
        pieces = [("", "product", self), ("=", *factors[0][1:]), *factors[1:]]
        return draw_product(f"{self!r}, the product of its factors", pieces)

    _repr_html_ = to_html

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
