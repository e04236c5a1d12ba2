"""Brent-Kung: L as an up-sweep and a down-sweep of sparse factors with O(n) entries in all, for every n.

Rows are counted from 1. Let low(p) be the largest power of two that divides p. The block of p consists of the rows
p - low(p) + 1 .. p.

* Up-sweep, s = 1, 2, 4, ... while 2s <= n: every row p divisible by 2s adds a_{p:p-s+1} times row p - s. Row p then
  holds w_p, the solution of the recurrence at p started from zero at its own block.
* Down-sweep, s back down to 1: every row p > s with low(p) = s adds a_{p:p-s+1} times row p - s. The block of p begins
  after row p - s. The low of that row is at least 2s, so it is already final: x_p = w_p + a_{p:p-s+1} x_{p-s}.

Rows only look backwards, and no stage needs a row beyond n. So n may be any number. In the up-sweep row p changes
log2(low(p)) times. In the down-sweep every row that isn't a power of two changes once. The page brent_kung of the
documents has the derivation and the proof.
"""

from __future__ import annotations

from typing import Any

from recfact.algorithms import down_sweep, up_sweep
from recfact.arrays import Array
from recfact.factorizations.factor_chain import Factor, FactorChain, as_slice, working_copy
from recfact.factorizations.scalars import as_coefficients, scalars_that_fit


class BrentKung(FactorChain):
    """The transfer operator as an up-sweep and a down-sweep of sparse factors, the scan of Brent and Kung.

    Its depth is about twice that of Kogge-Stone, but its work is only O(n).

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, as for `TransferOperator`, or the operator itself. The length n may be any number.

    Attributes
    ----------
    factors : tuple of Factor
        The floor(log2 n) factors of the up-sweep, and then those of the down-sweep. The down-sweep has as many, or one
        less if n < 3/2 * 2^floor(log2 n). All together have 2n - p(n) - floor(log2 n) - 1 entries off their unit
        diagonals, where p(n) is the number of ones in the binary form of n.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't a sequence of numbers.

    Notes
    -----
    This is the scan of Brent and Kung (1982) as a factorization of L. If a product of coefficients overflows, times a
    zero of the vector it is inf * 0 = NaN. The recurrence itself may stay finite there.

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

    def __init__(self, a: Any) -> None:
        self.a = as_coefficients(a)
        n = len(self.a)
        with scalars_that_fit(self.a.dtype):
            # The up-sweep makes products[p] the product over the block of row p, for the down-sweep. In the first
            # block of each size it would contain a[0], which isn't part of L. Nobody reads it there.
            products, forming = working_copy(self.a), 0
            factors: list[Factor] = []
            for rows, lag in up_sweep(n):
                name = f"stage {len(factors)}, up-sweep"
                factors.append(Factor(n, rows, lag, products[as_slice(rows)].copy(), name=name))
                later = as_slice(rows[1:])
                products[later] *= products[later.start - lag : n - lag : 2 * lag]
                forming += len(rows) - 1
            for rows, lag in down_sweep(n):
                name = f"stage {len(factors)}, down-sweep"
                factors.append(Factor(n, rows, lag, products[as_slice(rows)].copy(), name=name))
        super().__init__(n, factors, self.a.dtype, forming)

    def _recurrence(self) -> Array:
        return self.a
