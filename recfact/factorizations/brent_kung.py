"""Brent-Kung: L as an up-sweep and a down-sweep of sparse factors with O(n) entries in all, for every n.

Count rows from 1, let low(p) be the largest power of two that divides p, and call the rows p - low(p) + 1 .. p the
block of p.

* Up-sweep, s = 1, 2, 4, ... while 2s <= n: every row p divisible by 2s adds a_{p:p-s+1} times row p - s. Row p then
  holds w_p, the solution of the recurrence at p started from zero at its own block.
* Down-sweep, s back down to 1: every row p > s with low(p) = s adds a_{p:p-s+1} times row p - s. The block of p begins
  after p - s, whose own low is at least 2s and which is therefore already final: x_p = w_p + a_{p:p-s+1} x_{p-s}.

Rows only look backwards and no stage needs a row beyond n, so n may be anything. Every row that isn't a power of two
changes once in the down-sweep; in the up-sweep row p changes log2(low(p)) times. The full derivation, with its proof,
is the page brent_kung of the documents.
"""

from __future__ import annotations

from typing import Any

from recfact.algorithms import down_sweep, up_sweep
from recfact.factorizations.factor_chain import Factor, FactorChain, as_slice, working_copy
from recfact.factorizations.scalars import as_coefficients, scalars_that_fit


class BrentKung(FactorChain):
    """The transfer operator as an up-sweep and a down-sweep of sparse factors, the scan of Brent and Kung.

    About twice the depth of Kogge-Stone, for O(n) work.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, as for `TransferOperator`; n is any number.

    Attributes
    ----------
    factors : tuple of Factor
        The floor(log2 n) factors of the up-sweep, then those of the down-sweep: as many, or one less if
        n < 3/2 * 2^floor(log2 n). With p(n) the number of ones in n in binary, they have
        2n - p(n) - floor(log2 n) - 1 entries off their unit diagonals.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't a sequence of numbers.

    Notes
    -----
    Brent and Kung (1982), as a factorization of L. A product of coefficients that overflows meets zeros of the vector
    as inf * 0 = NaN, where the recurrence itself may stay finite.

    Examples
    --------
    >>> import numpy as np
    >>> bk = BrentKung(np.full(6, 0.5))
    >>> [(factor.lag, *factor.rows) for factor in bk.factors]
    [(1, 1, 3, 5), (2, 3), (2, 5), (1, 2, 4)]
    >>> bk @ np.ones(6)
    array([1.     , 1.5    , 1.75   , 1.875  , 1.9375 , 1.96875])
    >>> bk.depth, bk.nnz, bk.work
    (4, 7, Work(multiplications=9, additions=7))
    """

    @scalars_that_fit(object)
    def __init__(self, a: Any) -> None:
        self.a = as_coefficients(a)
        n = len(self.a)
        # products[p] grows with the up-sweep to the product over the block of row p, which the down-sweep reads. In
        # the first block of each size it would take in a[0], which isn't part of L, and nobody reads it.
        products, factors, forming = working_copy(self.a), [], 0
        for rows, lag in up_sweep(n):
            factors.append(Factor(n, rows, lag, products[as_slice(rows)].copy()))
            later = as_slice(rows[1:])
            products[later] *= products[later.start - lag : n - lag : 2 * lag]
            forming += len(rows) - 1
        for rows, lag in down_sweep(n):
            factors.append(Factor(n, rows, lag, products[as_slice(rows)].copy()))
        super().__init__(n, factors, self.a.dtype, forming)
