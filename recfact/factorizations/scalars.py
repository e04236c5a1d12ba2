"""Scalars and number types of recfact's matrices: what an entry may be, and how it is converted.

Number types are those of `recfact.solve`. Integers become float64. float16 and bfloat16 compute in float32 and round
once, at the end of a product. Object arrays hold any scalars with ``+`` and ``*`` and are never converted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from numbers import Complex
from typing import Any

import numpy as np
from numpy.exceptions import DTypePromotionError
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array, as_numpy, check_scalars, library_of, native
from recfact.errors import ArrayTypeError, DTypeError, RecfactError, ShapeError, shown
from recfact.number_types import FLOAT32, FLOAT64, NUMBER_TYPES, DType, accumulator, listed


def number_type(dtype: Any) -> DType:
    """Return the dtype that holds numbers of `dtype`: float64 for integers, otherwise `dtype` itself.

    Raises
    ------
    DTypeError
        If recfact doesn't compute in numbers of `dtype`.
    """
    given: DType = np.dtype(dtype)
    if given.kind in "biu":
        return FLOAT64
    if native(given) in NUMBER_TYPES or given.kind == "O":
        return native(given)
    raise DTypeError(
        f"expected real or complex numbers that recfact computes in, got dtype {given}; convert them to "
        f"{listed('or')}, or to object for exact scalars"
    )


def common_type(*dtypes: Any) -> DType:
    """Return the dtype of sums of products of numbers of `dtypes`."""
    kept = [number_type(dtype) for dtype in dtypes]
    try:
        common: DType = np.result_type(*kept)
    except DTypePromotionError:  # float16 and bfloat16
        common = FLOAT32
    return common


def type_beside(dtype: DType, scalar: Any) -> DType:
    """Return the dtype of products of numbers of `dtype` and a number of Python, which is of no type of its own.

    NumPy isn't asked about types of ml_dtypes: it takes floats for float64 then, and version 2.0 crashes.
    """
    if dtype.kind == "V":
        return np.dtype(np.complex64) if isinstance(scalar, complex) else dtype
    beside: DType = np.result_type(dtype, scalar)
    return beside


def as_coefficients(a: Any) -> Array:
    """Return `a` as a one-dimensional array of coefficients, without a copy if the dtype allows it.

    A transfer operator or one of its factorizations stands for its coefficients. A sympy matrix of one row or column
    stands for its entries.

    Raises
    ------
    ArrayTypeError
        If it is on a GPU, masked or sparse.
    ShapeError
        If `a` doesn't have exactly one axis.
    DTypeError
        If its elements aren't numbers.
    """
    if isinstance(a, LinearOperator):
        own = getattr(a, "_recurrence", lambda: None)()
        a = a if own is None else own
    elif getattr(a, "is_Matrix", False) is True and 1 in a.shape:
        a = list(a)
    library = library_of(a)
    if library == "gpu":
        raise ArrayTypeError(
            f"an operator keeps its coefficients on the host, got a {type(a).__name__} on a GPU; copy them with "
            "cupy.asnumpy or .cpu(), or leave them there and call recfact.solve(a, u, axis=0) for L @ u"
        )
    try:
        coefficients = np.asarray(a) if library == "numpy" else as_numpy(a, "a")
    except ValueError as error:
        raise ShapeError(f"coefficients must be a sequence of n numbers, got a ragged one ({error})") from None
    if coefficients.ndim != 1:
        one_number = "write a single number out for n steps, as in numpy.full(n, 0.5)"
        many = "make an operator for each channel, or solve for all of them with recfact.solve"
        raise ShapeError(
            f"coefficients must be one sequence, got shape {coefficients.shape}; "
            f"{many if coefficients.ndim else one_number}"
        )
    return check_scalars(coefficients.astype(number_type(coefficients.dtype), copy=False), "coefficients")


def conjugate_of(values: Array) -> Array:
    """Return the complex conjugates of `values`, or `values` themselves if they are real."""
    conjugate: Array = values if values.dtype.kind in "fV" else values.conj()
    return conjugate


def beside(values: Array, x: Array) -> Any:
    """Return an operator's numbers in the type of `x`, with as many axes, and on the GPU if `x` is a CuPy array."""
    aligned = values.astype(x.dtype, copy=False).reshape(values.shape + (1,) * (x.ndim - values.ndim))
    if isinstance(x, np.ndarray):
        return aligned
    from recfact.gpu.products import constants

    return constants(aligned)


def times(values: Array, x: Array, from_right: bool = False) -> Array:
    """Return an operator's numbers times those of `x`, row by row.

    Exact scalars need not commute. A transpose multiplies from the right (`from_right`), see `recfact.recurrence`.
    """
    product: Array = x * beside(values, x) if from_right else beside(values, x) * x
    return product


def is_scalar(x: Any) -> bool:
    """Say whether `x` is a number or a symbol, rather than an array, a matrix or an operator."""
    symbolic = hasattr(x, "free_symbols") and not hasattr(x, "shape")
    return symbolic or (np.isscalar(x) and not isinstance(x, str | bytes))


def commutes(x: Any) -> bool:
    """Say whether a scalar is known to commute with all others."""
    return isinstance(x, Complex | Decimal)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of an array or of nested lists that an operator multiplies."""
    shape = getattr(x, "shape", None)
    return shape if isinstance(shape, tuple) else as_numpy(x, "x").shape


@contextmanager
def scalars_that_fit(dtype: Any) -> Iterator[None]:
    """Turn the errors of exact scalars that can't be multiplied and added together into DTypeError."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, NotImplementedError, SystemError) as error:
        if isinstance(error, RecfactError) or np.dtype(dtype).kind != "O":
            raise
        raise DTypeError(
            f"exact scalars must multiply and add with each other, got {type(error).__name__} ({shown(str(error))}); "
            "convert coefficients, inputs and initial state to one type"
        ) from error


def refuse_scalar(x: Any) -> None:
    """Raise ShapeError if `x` is a scalar, for ``@``."""
    if is_scalar(x):
        raise ShapeError(
            f"@ multiplies by arrays and operators, got the scalar {shown(x)}; write * to scale an operator"
        )


def one_like(entries: Array) -> Any:
    """Return the number 1 in the type of the first exact scalar in an object array, or 1 itself if there is none."""
    scalar = next((entry for entry in entries.flat if not isinstance(entry, int | float)), 1)
    try:
        return scalar**0
    except (TypeError, ArithmeticError):  # a scalar that only adds and multiplies, or a decimal zero
        return 1


def quotients(x: Any, y: Any) -> Any:
    """Return x / y of arrays or scalars. Among exact scalars, two Python integers give a Fraction.

    Examples
    --------
    >>> quotients(np.array([1, Fraction(1, 2)], dtype=object), 3)
    array([Fraction(1, 3), Fraction(1, 6)], dtype=object)
    """
    own = type(x) is np.ndarray and x.dtype == object  # another array class does its own division
    return _exact_quotients(x, y) if own else np.true_divide(x, y)


def _exact_quotient(x: Any, y: Any) -> Any:
    return Fraction(x, y) if isinstance(x, int) and isinstance(y, int) else x / y


_exact_quotients = np.frompyfunc(_exact_quotient, 2, 1)


def of_one_type(entries: Array) -> Array:
    """Return entries in which Python's 0 and 1 have the type of the exact scalars beside them.

    Examples
    --------
    >>> from fractions import Fraction
    >>> of_one_type(np.array([1, Fraction(1, 2)], dtype=object))
    array([Fraction(1, 1), Fraction(1, 2)], dtype=object)
    """
    if entries.dtype != object:
        return entries
    one = one_like(entries)
    typed = [one * entry if isinstance(entry, int | float) and entry in (0, 1) else entry for entry in entries.flat]
    return np.fromiter(typed, dtype=object, count=len(typed)).reshape(entries.shape)


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
