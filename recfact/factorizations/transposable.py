"""Operators that apply their own transpose."""

from abc import abstractmethod
from typing import Any

from recfact.arrays import Array, as_numpy
from recfact.checks import integer
from recfact.errors import ShapeError
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import common_type
from recfact.number_types import DType, accumulator


class TransposableOperator(Operator):
    """An operator whose transpose runs the same algorithm differently, instead of being another matrix of its kind."""

    @abstractmethod
    def _apply_transpose(self, x: Array) -> Array:
        """Return the product of the transpose with `x`; the counterpart of `_apply`."""

    def _transpose(self) -> Operator:
        return Transpose(self)


class Transpose(Operator):
    """The transpose of an operator that can apply it.

    Parameters
    ----------
    operator : TransposableOperator
        The operator to transpose.
    """

    def __init__(self, operator: TransposableOperator) -> None:
        super().__init__(operator.dtype, operator.shape[::-1])
        self.operator = operator

    def _one(self) -> Any:
        return self.operator._one()

    def _apply(self, x: Array) -> Array:
        return self.operator._apply_transpose(x)

    def _rounds_once(self) -> bool:
        return self.operator._rounds_once()

    def _transpose(self) -> TransposableOperator:
        return self.operator

    def _entries(self, rows: range, columns: range) -> Array:
        return self.operator._entries(columns, rows).T

    def diagonal(self, k: int = 0) -> Array:
        """Return the entries [i, i + k]; see `Operator.diagonal`."""
        return self.operator.diagonal(-integer(k, "k"))

    def to_dense(self) -> Array:
        """Return the matrix as a dense array of the operator's dtype."""
        return self.operator.to_dense().T


def as_columns(u: Any, rows: int, dtype: DType) -> tuple[Array, DType]:
    """Return inputs of shape (n,) or (n, m) in the type to compute in, and the type of results.

    Parameters
    ----------
    u : array_like, shape (n,) or (n, m)
        Inputs.
    rows : int
        The required n.
    dtype : dtype
        Number type of the coefficients.

    Raises
    ------
    ShapeError
        If the shape is another one.
    ArrayTypeError
        If they are on a GPU.
    """
    columns = as_numpy(u, "u")
    if columns.ndim not in (1, 2) or len(columns) != rows:
        raise ShapeError(
            f"u must have shape ({rows},) or ({rows}, m), got {columns.shape}; put the recurrence on the first axis"
        )
    result = common_type(dtype, columns.dtype)
    return columns.astype(accumulator(result)), result


def as_state(x0: Array, columns: Array) -> Array:
    """Return an initial state in the type of `columns`; raise ShapeError if it doesn't broadcast against a row."""
    row = columns.shape[1:]
    if x0.ndim > len(row) or any(size not in (1, full) for size, full in zip(x0.shape, row, strict=False)):
        raise ShapeError(f"x0 must broadcast against a row of u, of shape {row}, got shape {x0.shape}")
    return x0.astype(columns.dtype)
