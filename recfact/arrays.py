"""What a caller passes: array libraries, number types, shapes and axes.

Array libraries are recognised by the type of the array, never by importing them. NumPy arrays, and whatever NumPy can
read as one, are worked on as they are; torch CPU tensors are shared with NumPy by DLPack, without a copy.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from recfact.checks import integer
from recfact.errors import ArrayTypeError, DTypeError, ShapeError

Array = np.ndarray[Any, Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = (np.dtype(np.float16), BFLOAT16)
COMPUTED = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.complex64), np.dtype(np.complex128), *HALVES)


def library_of(value: Any) -> str:
    """Return 'torch' for a torch tensor and 'numpy' for what NumPy reads.

    Raises
    ------
    ArrayTypeError
        For an array on another device, for one that carries a mask, and for sparse matrices.
    """
    kind = type(value)
    if kind is np.ndarray:
        return "numpy"
    library = kind.__module__.partition(".")[0]
    if library == "torch" and hasattr(value, "is_sparse"):
        if value.device.type != "cpu":
            raise ArrayTypeError(
                f"this version of recfact runs on the CPU, got a torch tensor on {value.device}; move it with .cpu()"
            )
        return "torch"
    if library == "cupy" or hasattr(kind, "__cuda_array_interface__"):
        raise ArrayTypeError(
            f"this version of recfact runs on the CPU, got a GPU array of type {kind.__name__}; copy it to the host"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayTypeError("arrays must hold all their numbers, got a masked array; fill it with .filled(value)")
    if hasattr(value, "tocsr"):
        raise ArrayTypeError(f"arrays must be dense, got a sparse {kind.__name__}; densify it with .toarray()")
    return "numpy"


def as_numpy(value: Any, name: str) -> Array:
    """Return `value` as a NumPy array that shares its memory where that is possible.

    Raises
    ------
    ArrayTypeError
        If it can't be read as an array of numbers: ragged lists, tensors that require gradients.
    """
    if type(value) is np.ndarray:
        return value
    if library_of(value) == "torch":
        return _from_torch(value, name)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArrayTypeError(f"{name} must be an array or nested lists of equal lengths, got {_short(value)}") from error


def _short(value: Any) -> str:
    text = repr(value)
    return f"{text[:60]}..." if len(text) > 63 else text


def _from_torch(tensor: Any, name: str) -> Array:
    if tensor.requires_grad:
        raise ArrayTypeError(
            f"{name} is a torch tensor that requires gradients, which recfact doesn't record; pass {name}.detach()"
        )
    if tensor.layout != _torch().strided:
        raise ArrayTypeError(f"{name} must be a dense tensor, got layout {tensor.layout}; use .to_dense()")
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype == _torch().bfloat16:
        return np.from_dlpack(tensor.view(_torch().int16)).view(BFLOAT16)
    return np.from_dlpack(tensor)


def to_torch(array: Array) -> Any:
    """Return a tensor that shares the memory of `array`."""
    if array.dtype == BFLOAT16:
        return _torch().from_dlpack(array.view(np.int16)).view(_torch().bfloat16)
    return _torch().from_dlpack(array)


def _torch() -> Any:
    import torch

    return torch


def result_dtype(a: Any, u: Any) -> np.dtype[Any]:
    """Return the number type of the states for coefficients `a` and inputs `u` (arrays, or Python scalars).

    NumPy's promotion, except that integers and booleans become float64 and the two half types together float32.

    Raises
    ------
    DTypeError
        If recfact doesn't compute in it.
    """
    types = [value if isinstance(value, int | float | complex) else value.dtype for value in (a, u)]
    try:
        dtype = np.result_type(*types)
    except TypeError:
        dtype = np.dtype(np.float32) if set(types) == set(HALVES) else None
    if dtype is not None:
        dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype.newbyteorder("=")
    if dtype is None or not (dtype in COMPUTED or dtype == object):
        names = " and ".join(str(kind) if isinstance(kind, np.dtype) else type(kind).__name__ for kind in types)
        raise DTypeError(
            f"a and u must be numbers that recfact computes in, got {names}; convert them to float32, float64, "
            "complex64, complex128, float16 or bfloat16, or to object for exact scalars"
        )
    return dtype


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the number type in which states of `dtype` are computed: float32 for the halves."""
    return np.dtype(np.float32) if dtype in HALVES else dtype


def broadcast_shape(a: Array, u: Array) -> tuple[int, ...]:
    """Return the common shape of coefficients and inputs.

    Raises
    ------
    ShapeError
        If they don't broadcast, or have no axis.
    """
    try:
        shape = np.broadcast_shapes(a.shape, u.shape)
    except ValueError:
        raise ShapeError(
            f"a and u must broadcast against each other by NumPy's rules, got shapes {a.shape} and {u.shape}; "
            "coefficients shared over channels need an axis of size 1"
        ) from None
    if not shape:
        raise ShapeError("a and u must have at least one axis for the recurrence, got two scalars; pass sequences")
    return shape


def check_axis(axis: Any, ndim: int) -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    TypeError
        If it isn't an integer.
    ShapeError
        If the array has no such axis.
    """
    number = integer(axis, "axis")
    if not -ndim <= number < ndim:
        raise ShapeError(f"axis must be an axis of the result, {-ndim} to {ndim - 1}, got {number}")
    return number % ndim
