"""The common ground of recfact's matrices: a scipy LinearOperator over any scalar, and what arithmetic makes of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array, as_numpy, library_of, to_torch
from recfact.containers import CONTAINERS
from recfact.errors import ArrayTypeError, DTypeError, ShapeError
from recfact.factorizations.notebook_drawing import draw_corner
from recfact.factorizations.scalars import (
    common_type,
    is_scalar,
    of_one_type,
    one_like,
    refuse_scalar,
    scalars_that_fit,
    shape_of,
)
from recfact.number_types import accumulator


class Operator(LinearOperator):
    """A structured matrix that applies itself without being formed.

    A subclass says how it acts on columns (`_apply`) and what its transpose is (`_transpose`); everything else of the
    LinearOperator interface, and the dense form, follows from these two.
    """

    _op_priority = 11.0  # above that of sympy's matrices, so that they leave M @ L to the operator
    __pandas_priority__ = 5000  # above those of pandas' tables, so that they leave u * L to the operator

    def __init__(self, dtype: Any, shape: tuple[int, int]) -> None:
        super().__init__(np.dtype(dtype), shape)  # type: ignore[call-arg]  # the stubs know __new__ only

    @abstractmethod
    def _apply(self, x: Array) -> Array:
        """Return the product with `x` as a new array of shape (rows, ...).

        `x` has shape (columns, ...) and a dtype to compute in (an `accumulator`), no narrower than the operator's. It
        is NumPy's or CuPy's: numbers of the operator come to it by `beside`, and no function of NumPy that CuPy lacks.
        """

    @abstractmethod
    def _transpose(self) -> Operator:
        """Return the transpose."""

    def _one(self) -> Any:
        """Return the number 1 in the type of the operator's exact scalars; 1 itself if it shows none."""
        a = getattr(self, "a", None)
        return one_like(self._apply(np.ones(self.shape[1], dtype=object)) if a is None else a)

    def _rounds_once(self) -> bool:
        """Say whether `_apply` rounds only its result, to the dtype of `x`, and computes in an accumulator itself."""
        return False

    def conj(self) -> Operator:
        """Return the elementwise complex conjugate, as an operator."""
        return self if self.dtype.kind in "fV" else algebra.Conjugate(self)

    def _adjoint(self) -> Operator:
        return self.conj()._transpose()

    def _matmat(self, x: Any) -> Array:
        if not isinstance(x, np.ndarray):
            raise ArrayTypeError(f"an operator multiplies dense arrays and operators, got {type(x).__name__}")
        dtype = common_type(self.dtype, x.dtype)
        with scalars_that_fit(dtype):
            return self._apply(np.asarray(x).astype(accumulator(dtype), copy=False)).astype(dtype, copy=False)

    _matvec = _matmat

    def _multiply_on_gpu(self, x: Any) -> Any:
        from recfact.gpu.products import multiply

        def types(dtype: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
            self._check_columns(shape)
            result = common_type(self.dtype, dtype)
            if result.kind == "O":
                raise DTypeError(f"{self!r} holds exact scalars, which are for the host; copy x to the host")
            return result if self._rounds_once() else accumulator(result), result

        return multiply(self._apply, x, types)

    def dot(self, x: Any) -> Any:
        """Return the product with a vector (n,), a matrix (n, m), a scalar or another operator; the same as ``*``.

        A product with an array is one of the same library, NumPy, torch or CuPy; of others, and without labels, one of
        NumPy. On a GPU the operator's own numbers,
        which may have changed, are sent there for each product; `recfact.solve` takes coefficients that lie there.

        Raises
        ------
        ShapeError
            If the first axis of an array isn't as long as the operator has columns, or it has more than two axes.
        ArrayTypeError
            If the array is on a GPU, and another library's LinearOperator is part of this one.
        """
        if is_scalar(x):
            return algebra.Scaled(self, x)
        if isinstance(x, LinearOperator):
            return algebra.Product(self, algebra.as_operator(x))
        library = library_of(x)
        if library == "gpu":
            return self._multiply_on_gpu(x)
        self._check_columns(shape_of(x))
        return to_torch(super().dot(as_numpy(x, "x"))) if library == "torch" else super().dot(x)

    def _check_columns(self, shape: tuple[int, ...]) -> None:
        if len(shape) not in (1, 2) or shape[0] != self.shape[1]:
            raise ShapeError(
                f"this {self.shape[0]}x{self.shape[1]} operator multiplies arrays of shape ({self.shape[1]},) or "
                f"({self.shape[1]}, m), got shape {tuple(shape)}; put the recurrence on the first axis"
            )

    def __matmul__(self, x: Any) -> Any:
        refuse_scalar(x)
        return self.dot(x)

    def __rmatmul__(self, x: Any) -> Any:
        refuse_scalar(x)
        return self.__rmul__(x)

    def __rmul__(self, x: Any) -> Any:
        if is_scalar(x):
            return algebra.Scaled(self, x, before=False)
        if library_of(x) in CONTAINERS:
            x = as_numpy(x, "x")
        shape = shape_of(x)
        if len(shape) not in (1, 2) or shape[-1] != self.shape[0]:
            raise ShapeError(
                f"arrays of shape ({self.shape[0]},) or (m, {self.shape[0]}) multiply this "
                f"{self.shape[0]}x{self.shape[1]} operator from the left, got shape {shape}"
            )
        return super().__rmul__(x)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise ArrayTypeError(
            f"{self!r} is no array; write L @ x, x * L or L.T @ x for products, and L.to_dense() for the matrix"
        )

    def __truediv__(self, x: Any) -> Operator:  # type: ignore[override]
        if not is_scalar(x):
            raise ArrayTypeError(
                f"an operator is divided by scalars, got {type(x).__name__}; L.inv() @ x solves L y = x"
            )
        return algebra.Scaled(self, x, over=True)

    def __neg__(self) -> Operator:  # type: ignore[override]
        return algebra.Scaled(self, -1)

    def __add__(self, x: Any) -> Operator:  # type: ignore[override]
        if not isinstance(x, LinearOperator):
            raise ArrayTypeError(
                f"an operator adds operators, got {type(x).__name__}; add to to_dense(), or wrap a matrix with "
                "scipy.sparse.linalg.aslinearoperator"
            )
        return algebra.Sum(self, algebra.as_operator(x))

    def __radd__(self, x: Any) -> Operator:
        return self if isinstance(x, int | float) and x == 0 else self + x  # sum() begins with 0

    def __sub__(self, x: Any) -> Operator:  # type: ignore[override]
        return self + (-algebra.as_operator(x) if isinstance(x, LinearOperator) else x)

    def __pow__(self, k: Any) -> Operator:  # type: ignore[override]
        inverse = getattr(self, "inv", None)
        negative = isinstance(k, int | np.integer) and k < 0
        return algebra.Power(inverse(), -k) if inverse is not None and negative else algebra.Power(self, k)

    def to_dense(self) -> Array:
        """Return the matrix as a dense array of the operator's dtype; entries of exact scalars are of one type."""
        n = self.shape[1]
        columns = np.eye(n, dtype=int).astype(self.dtype)
        if columns.dtype == object:
            columns = columns * self._one()
        return of_one_type(self._matmat(columns))

    def to_html(self) -> str:
        """Return the picture that a notebook shows: the leading entries as squares, their opacity the magnitude."""
        return draw_corner(self)

    _repr_html_ = to_html


# Below the class, because what arithmetic makes of operators are operators.
from recfact.factorizations import operator_algebra as algebra  # noqa: E402
