"""The base class of recfact's matrices: a scipy LinearOperator over any scalar, with arithmetic."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array, as_numpy, library_of, to_torch
from recfact.checks import integer
from recfact.containers import CONTAINERS
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, PositionError, ShapeError, shown
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
    """A structured matrix that multiplies without being formed.

    A subclass says how it acts on columns (`_apply`) and what its transpose is (`_transpose`). The dense form and the
    rest of the LinearOperator interface follow from these two.
    """

    _op_priority = 11.0  # above the priority of sympy's matrices, so that they leave M @ L to the operator
    __pandas_priority__ = 5000  # above the priorities of pandas' tables, so that they leave u * L to the operator

    def __init__(self, dtype: Any, shape: tuple[int, int]) -> None:
        super().__init__(np.dtype(dtype), shape)  # type: ignore[call-arg]  # the stubs know __new__ only

    @abstractmethod
    def _apply(self, x: Array) -> Array:
        """Return the product with `x` as a new array of shape (rows, ...).

        `x` has shape (columns, ...) and a dtype to compute in (an `accumulator`), no narrower than the operator's. It
        is an array of NumPy or CuPy. So `beside` brings the operator's numbers to its library, and only functions that
        both libraries have are called.
        """

    @abstractmethod
    def _transpose(self) -> Operator:
        """Return the transpose."""

    def _recurrence(self) -> Array | None:
        """Return the coefficients if this is their transfer operator, by whatever algorithm; otherwise None."""
        return None

    def _one(self) -> Any:
        """Return the number 1 in the type of the operator's exact scalars, or 1 itself if it has none."""
        a = getattr(self, "a", None)
        return one_like(self._apply(np.ones(self.shape[1], dtype=object)) if a is None else a)

    @property
    def title(self) -> str:
        """The words that tell it from others of its class."""
        return ""

    def __repr__(self) -> str:
        rows, columns = self.shape
        title = f" ({self.title})" if self.title else ""
        return f"<{rows}x{columns} {type(self).__name__}{title} with dtype={self.dtype}>"

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
        """Return the product with a vector (n,), a matrix (n, m), a scalar or another operator, as ``*`` does.

        The product with an array of NumPy, torch or CuPy is an array of the same library. Other arrays give NumPy
        arrays without labels. The operator's own numbers may change, so they are sent to the GPU for each product
        there. `recfact.solve` takes coefficients that are on the GPU already.

        Raises
        ------
        ShapeError
            If the first axis of an array isn't as long as the operator has columns, or if it has more than two axes.
        ArrayTypeError
            If the array is on a GPU, and a LinearOperator of another library is part of this one.
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise OptionError("an operator holds no matrix that an array could share; leave copy=False out")
        return self.to_dense() if dtype is None else self.to_dense().astype(dtype, copy=False)

    def __eq__(self, x: object) -> Any:
        """Compare entry by entry, as arrays do. The result is a matrix of booleans.

        A single yes or no could mean three things. ``L is M`` asks whether the two are one object.
        ``np.array_equal(L, M)`` asks whether they have the same entries. ``np.allclose(L, M)`` asks whether they have
        the same entries except for rounding. Anything but an operator, an array or a number is unequal as a whole.
        """
        if isinstance(x, LinearOperator):
            x = algebra.as_operator(x).to_dense()
        elif not isinstance(x, np.ndarray) and not is_scalar(x):
            return NotImplemented
        return self.to_dense() == x

    def __ne__(self, x: object) -> Any:
        equal = self.__eq__(x)
        return equal if equal is NotImplemented else np.logical_not(equal)

    # Coefficients may change in place. So operators hash by identity, not by contents, like torch's tensors.
    __hash__ = LinearOperator.__hash__

    def __getitem__(self, key: Any) -> Any:
        """Return an entry L[i, j], a row L[i], or a part L[2:5, 1:3]. Integers and slices work as for an array.

        Only the wanted entries are computed, in O(n) for a few rows or columns. A few rows come from the transpose, so
        their entries may differ from those of `to_dense` by rounding.

        Raises
        ------
        OptionTypeError
            If `key` is anything but one or two integers or slices.
        PositionError
            If an index is out of range.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if not 1 <= len(keys) <= 2:
            raise _no_index(key)
        parts = zip((*keys, slice(None))[:2], self.shape, ("row", "column"), strict=True)
        i, j = (_chosen(part, size, name, key) for part, size, name in parts)
        rows, columns = (range(part, part + 1) if isinstance(part, int) else part for part in (i, j))
        if rows and columns:
            entries = self._entries(rows, columns)
        else:
            entries = np.empty((len(rows), len(columns)), self.dtype)
        return entries[0 if isinstance(i, int) else slice(None), 0 if isinstance(j, int) else slice(None)]

    def _entries(self, rows: range, columns: range) -> Array:
        """Return the entries in some rows and columns (at least one of each) as an array of the operator's dtype."""
        if len(rows) < len(columns):
            return self._transpose()._columns(rows)[columns].T
        return self._columns(columns)[rows]

    def _columns(self, columns: range) -> Array:
        """Return some columns of the matrix in the operator's dtype. Exact scalars all get one type."""
        units = np.zeros((self.shape[1], len(columns)), dtype=int)
        units[columns, range(len(columns))] = 1
        units = units.astype(self.dtype)
        if units.dtype == object:
            units = units * self._one()
        return of_one_type(self._matmat(units))

    def diagonal(self, k: int = 0) -> Array:
        """Return the entries L[i, i + k]. Diagonals are counted as in `scipy.sparse`: k < 0 is below the main one.

        Parameters
        ----------
        k : int, default 0
            Which diagonal.

        Raises
        ------
        TypeError
            If `k` isn't an integer.
        """
        most = max(self.shape)
        return self.to_dense().diagonal(max(-most, min(integer(k, "k"), most))).copy()

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
        """Return the matrix as a dense array of the operator's dtype. Exact scalars all get one type.

        ``np.asarray(L)``, ``L.toarray()`` and ``L.todense()`` do the same.
        """
        return self._columns(range(self.shape[1]))

    def toarray(self) -> Array:
        """Return the matrix as `to_dense` does, under the name of `scipy.sparse`."""
        return self.to_dense()

    def todense(self) -> Array:
        """Return the matrix as `to_dense` does, under the name of `scipy.sparse`."""
        return self.to_dense()

    def to_html(self) -> str:
        """Return the picture that a notebook shows: the leading entries as squares, whose opacity is the magnitude."""
        return draw_corner(self)

    _repr_html_ = to_html


def _chosen(part: Any, size: int, name: str, key: Any) -> Any:
    """Return which of `size` rows or columns one part of an index names."""
    try:
        return range(size)[part]
    except TypeError:
        raise _no_index(key) from None
    except IndexError:
        raise PositionError(f"{name} {shown(part)} is out of range for an operator of {size} {name}s") from None


def _no_index(key: Any) -> OptionTypeError:
    return OptionTypeError(
        f"an operator is indexed by integers and slices, as in L[i, j] or L[2:5, 1:3], got {shown(key)}; np.asarray(L) "
        "is an array, and takes all that NumPy does"
    )


# Imported below the class, because the results of arithmetic are operators, too.
from recfact.factorizations import operator_algebra as algebra  # noqa: E402
