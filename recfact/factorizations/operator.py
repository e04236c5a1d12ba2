"""The common ground of recfact's matrices: a scipy LinearOperator over any scalar."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

Array = np.ndarray[Any, Any]


def as_coefficients(a: Any) -> Array:
    """Return `a` as a one-dimensional coefficient array; integers become float64, other scalars an object array."""
    coefficients = np.asarray(a)
    if coefficients.dtype.kind in "biu":
        coefficients = coefficients.astype(np.float64)
    return coefficients


class Operator(LinearOperator):  # type: ignore[misc]
    """A structured matrix that applies itself without being formed.

    A subclass says how it acts on columns (`_apply`) and what its transpose is (`_transpose`); everything else of the
    LinearOperator interface, and the dense form, follows from these two.
    """

    def __init__(self, dtype: Any, shape: tuple[int, int]) -> None:
        super().__init__(np.dtype(dtype), shape)

    @abstractmethod
    def _apply(self, x: Array) -> Array:
        """Return the product with `x` of shape (columns, ...), any dtype, as an array of shape (rows, ...)."""

    @abstractmethod
    def _transpose(self) -> Operator:
        """Return the transpose."""

    def to_dense(self) -> Array:
        """Return the matrix as a dense array of the operator's dtype."""
        return self._apply(np.eye(self.shape[1], dtype=int).astype(self.dtype))
