"""Kogge-Stone: L as the product of I + (AZ)^(2^t), the binary factorization of the geometric series.

Every k < 2^m is a sum of distinct powers of two, so (I + M^(2^(m-1))) ... (I + M^2)(I + M) = sum_{k < 2^m} M^k. With
M = AZ the terms from k = n on vanish, and m = ceil(log2 n) factors give L for every n. The matrix (AZ)^s is one shifted
diagonal f, and squaring it is elementwise: f[i] <- f[i] f[i-s].
"""

from __future__ import annotations

from typing import Any

from recfact.algorithms import doubling
from recfact.arrays import Array
from recfact.factorizations.factor_chain import Factor, FactorChain, working_copy
from recfact.factorizations.scalars import as_coefficients, scalars_that_fit


class KoggeStone(FactorChain):
    """The transfer operator as ceil(log2 n) sparse factors I + (AZ)^(2^t), the scan of Kogge and Stone.

    It has the least depth of all algorithms here. Its work is O(n log n).

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, as for `TransferOperator`, or the operator itself. The length n may be any number.

    Attributes
    ----------
    factors : tuple of Factor
        ``factors[t]`` is I + (AZ)^(2^t). They commute.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't a sequence of numbers.

    Notes
    -----
    The paper's equation 2.4 and algorithm 1; Kogge and Stone (1973). If a product of coefficients overflows, times a
    zero of the vector it is inf * 0 = NaN. The recurrence itself may stay finite there.

    Examples
    --------
    >>> import numpy as np
    >>> ks = KoggeStone(np.full(6, 0.5))
    >>> ks.factors[1]
    <6x6 Factor (stage 1, lag 2) with dtype=float64>
    >>> ks @ np.ones(6)
    array([1.     , 1.5    , 1.75   , 1.875  , 1.9375 , 1.96875])
    >>> ks.depth, ks.nnz, ks.work
    (3, 11, Work(multiplications=17, additions=11))
    """

    def __init__(self, a: Any) -> None:
        self.a = as_coefficients(a)
        n = len(self.a)
        with scalars_that_fit(self.a.dtype):
            products, forming = working_copy(self.a)[1:], 0
            factors: list[Factor] = []
            for rows, lag in doubling(n):
                factors.append(Factor(n, rows, lag, products, name=f"stage {len(factors)}"))
                products = products[lag:] * products[:-lag]
                forming += len(products)
        super().__init__(n, factors, self.a.dtype, forming)

    def _recurrence(self) -> Array:
        return self.a
