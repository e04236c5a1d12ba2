"""The common ground of recfact's matrices: a scipy LinearOperator over any scalar.

Number types are those of `recfact.solve`: integers become float64; float16 and bfloat16 compute in float32 and round
once, at the end of a product; object arrays hold any scalar with ``+`` and ``*`` and are never converted.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.exceptions import DTypePromotionError
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import COMPUTED, Array, accumulator, native
from recfact.errors import DTypeError, ShapeError
from recfact.factorizations.drawing import draw_corner

DType = np.dtype[Any]


def number_type(dtype: Any) -> DType:
    """Return the dtype that keeps numbers of `dtype`: float64 for integers, `dtype` itself for the others.

    Raises
    ------
    DTypeError
        If recfact doesn't compute in numbers of `dtype`.
    """
    given: DType = np.dtype(dtype)
    if given.kind in "biu":
        return np.dtype(np.float64)
    if native(given) in COMPUTED or given.kind == "O":
        return native(given)
    raise DTypeError(
        f"expected real or complex numbers that recfact computes in, got dtype {given}; convert them to float32, "
        "float64, complex64, complex128, float16 or bfloat16, or to object for exact scalars"
    )


def common_type(*dtypes: Any) -> DType:
    """Return the dtype of sums of products of numbers of `dtypes`."""
    kept = [number_type(dtype) for dtype in dtypes]
    try:
        common: DType = np.result_type(*kept)
    except DTypePromotionError:  # float16 and bfloat16
        common = np.dtype(np.float32)
    return common


def as_coefficients(a: Any) -> Array:
    """Return `a` as a one-dimensional array of coefficients, without a copy where the dtype allows it.

    Raises
    ------
    ShapeError
        If `a` doesn't have exactly one axis.
    DTypeError
        If its elements aren't numbers.
    """
    try:
        coefficients = np.asarray(a)
    except ValueError as error:
        raise ShapeError(f"coefficients must be a sequence of n numbers, got a ragged one ({error})") from None
    if coefficients.ndim != 1:
        raise ShapeError(
            f"coefficients must have one axis, shape (n,), got shape {coefficients.shape}; an operator holds one "
            "sequence, recfact.solve takes batches"
        )
    return coefficients.astype(number_type(coefficients.dtype), copy=False)


def conjugate_of(values: Array) -> Array:
    """Return the complex conjugates of `values`; real ones as they are."""
    return values if values.dtype.kind in "fV" else np.asarray(np.conj(values))


class Operator(LinearOperator):
    """A structured matrix that applies itself without being formed.

    A subclass says how it acts on columns (`_apply`) and what its transpose is (`_transpose`); everything else of the
    LinearOperator interface, and the dense form, follows from these two.
    """

    def __init__(self, dtype: Any, shape: tuple[int, int]) -> None:
        super().__init__(np.dtype(dtype), shape)  # type: ignore[call-arg]  # the stubs know __new__ only

    @abstractmethod
    def _apply(self, x: Array) -> Array:
        """Return the product with `x` as a new array of shape (rows, ...).

        `x` has shape (columns, ...) and a dtype to compute in (an `accumulator`), no narrower than the operator's.
        """

    @abstractmethod
    def _transpose(self) -> Operator:
        """Return the transpose."""

    def conj(self) -> Operator:
        """Return the elementwise complex conjugate, as an operator."""
        return self if self.dtype.kind in "fV" else Conjugate(self)

    def _adjoint(self) -> Operator:
        return self.conj()._transpose()

    def _matmat(self, x: Any) -> Array:
        if not isinstance(x, np.ndarray):
            raise TypeError(f"an operator multiplies dense arrays and operators, got {type(x).__name__}")
        dtype = common_type(self.dtype, x.dtype)
        y = self._apply(np.asarray(x).astype(accumulator(dtype), copy=False))
        return y.astype(dtype, copy=False)

    _matvec = _matmat

    def dot(self, x: Any) -> Any:
        """Return the product with a vector (n,), a matrix (n, m), a scalar or another operator; the same as ``@``.

        Raises
        ------
        ShapeError
            If the first axis of an array isn't as long as the operator has columns, or it has more than two axes.
        """
        if is_scalar(x):
            return Scaled(self, x)
        if not isinstance(x, LinearOperator):
            shape = np.shape(x)
            if len(shape) not in (1, 2) or shape[0] != self.shape[1]:
                raise ShapeError(
                    f"this {self.shape[0]}x{self.shape[1]} operator multiplies arrays of shape ({self.shape[1]},) or "
                    f"({self.shape[1]}, m), got shape {shape}; put the recurrence on the first axis"
                )
        return super().dot(x)

    def __rmul__(self, x: Any) -> Any:
        return Scaled(self, x) if is_scalar(x) else super().__rmul__(x)

    def __neg__(self) -> Operator:  # type: ignore[override]
        return Scaled(self, -1)

    def to_dense(self) -> Array:
        """Return the matrix as a dense array of the operator's dtype."""
        return self._matmat(np.eye(self.shape[1], dtype=int).astype(self.dtype))

    def _repr_html_(self) -> str:
        """Draw the matrix, for notebooks."""
        return draw_corner(self)


class Conjugate(Operator):
    """The elementwise complex conjugate of an operator.

    Parameters
    ----------
    operator : Operator
        The operator to conjugate.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.dtype, operator.shape)
        self.operator = operator

    def _apply(self, x: Array) -> Array:
        return conjugate_of(self.operator._apply(conjugate_of(x)))

    def _transpose(self) -> Operator:
        return Conjugate(self.operator._transpose())

    def conj(self) -> Operator:
        """Return the operator that this one conjugates."""
        return self.operator


class Scaled(Operator):
    """A scalar times an operator, with NumPy's promotion: a Python number takes the operator's type.

    Parameters
    ----------
    operator : Operator
        The operator to scale.
    scalar : scalar
        What its entries are multiplied by.
    """

    def __init__(self, operator: Operator, scalar: Any) -> None:
        if isinstance(scalar, np.generic):
            dtype = common_type(operator.dtype, scalar.dtype)
        elif isinstance(scalar, int | float | complex):
            dtype = np.result_type(operator.dtype, scalar)
        else:
            dtype = np.dtype(object)
        super().__init__(dtype, operator.shape)
        self.operator, self.scalar = operator, scalar

    def _apply(self, x: Array) -> Array:
        return np.asarray(self.scalar * self.operator._apply(x))

    def _transpose(self) -> Operator:
        return Scaled(self.operator._transpose(), self.scalar)

    def conj(self) -> Operator:
        """Return the conjugate operator times the conjugate scalar."""
        return Scaled(self.operator.conj(), np.conj(self.scalar))


def is_scalar(x: Any) -> bool:
    """Say whether `x` is a number or a symbol, rather than an array or an operator."""
    return hasattr(x, "free_symbols") or (np.isscalar(x) and not isinstance(x, str | bytes))


def require_sparse(dtype: Any) -> DType:
    """Return the dtype in which scipy.sparse stores numbers of `dtype`: float32 for the halves.

    Raises
    ------
    DTypeError
        If it stores none, as for object arrays.
    """
    if np.dtype(dtype).kind == "O":
        raise DTypeError("scipy.sparse holds floats and complex numbers, this operator holds objects; use to_dense()")
    return accumulator(dtype)
