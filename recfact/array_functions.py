"""Functions of arrays that NumPy, CuPy and torch all have, under the names of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from recfact.arrays import Array, is_tensor
from recfact.number_types import BFLOAT16, FLOAT32, HALVES


def namespace(array: Any) -> Any:
    """Return the module whose functions take an array: numpy, torch or cupy."""
    kind = type(array)
    if kind is np.ndarray:
        return np
    if is_tensor(kind):
        return sys.modules["torch"]
    return sys.modules["cupy"] if is_cupy(array) else np


def is_cupy(array: Any) -> bool:
    """Say whether an array is one of CuPy's."""
    return type(array).__module__.partition(".")[0] == "cupy"


def is_half(array: Any) -> bool:
    """Say whether the numbers of an array are computed in a wider type."""
    if is_tensor(type(array)):
        return bool(array.dtype.itemsize == 2 and array.is_floating_point())
    return array.dtype in HALVES


def widened(array: Any) -> Any:
    """Return an array in the type that its numbers are computed in."""
    return in_type(array, FLOAT32) if is_half(array) else array


def in_type(array: Any, dtype: Any) -> Any:
    """Return an array in another number type, rounded to nearest. That of tensors is one of NumPy's or of torch's.

    From and to bfloat16 CuPy's arrays are converted by their bits, because not all versions of CuPy can do it. Only
    arrays of float32 become bfloat16.
    """
    if is_tensor(type(array)):
        return array.to(getattr(sys.modules["torch"], getattr(dtype, "name", ""), dtype))
    if not is_cupy(array):
        return array.astype(dtype, copy=False)
    if array.dtype == BFLOAT16 != dtype:  # the upper half of a float32
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype != BFLOAT16 or array.dtype == BFLOAT16:
        return array.astype(dtype, copy=False)
    bits = array.view(np.uint32)
    nearest = (bits + ((bits >> 16 & 1) + 0x7FFF)) >> 16  # ties to even, and too large ones to infinity
    nearest = namespace(array).where(array == array, nearest, 0x7FC0)
    return nearest.astype(np.uint16).view(BFLOAT16)


def bits(array: Any) -> Any:
    """Return an array of CuPy's bfloat16 as integers, because CuPy can do little with bfloat16; others as they are."""
    return array.view(np.uint16) if is_cupy(array) and array.dtype == BFLOAT16 else array


def taken(array: Any, places: Any) -> Any:
    """Return a copy of what stands at some places of an array of NumPy or CuPy. They are given by arrays."""
    numbers = bits(array)[places]
    return numbers if numbers.dtype == array.dtype else numbers.view(array.dtype)


def put(array: Any, places: Any, values: Any) -> None:
    """Write values to places of an array of NumPy or CuPy, rounded to its number type. Overflow isn't reported."""
    with np.errstate(all="ignore"):
        bits(array)[places] = bits(in_type(values, array.dtype))


def beside(array: Any, values: Array) -> Any:
    """Return numbers, one for each step, as an array of the library and on the device of another array."""
    xp = namespace(array)
    return xp.asarray(values, device=array.device) if is_tensor(type(array)) else xp.asarray(values)


def column(array: Any, values: Array) -> Any:
    """Return numbers, one for each step, as `beside` does, shaped to broadcast to an array with time on axis 0."""
    return beside(array, values.reshape(-1, *(1,) * (array.ndim - 1)))


# torch's functions of these names are others inside, without rules for gradients that come in batches.


def moveaxis(array: Any, source: int, destination: int) -> Any:
    """Return a view with an axis, counted from the front, moved to another place; the array itself if it is there."""
    if source == destination:
        return array
    if is_tensor(type(array)):
        return array.movedim((source,), (destination,))
    return namespace(array).moveaxis(array, source, destination)


def broadcast_to(array: Any, shape: Sequence[int]) -> Any:
    """Return a view of a larger shape, or the array itself if it has that shape."""
    if getattr(array, "shape", None) == tuple(shape):  # a sum of no objects is a number
        return array
    return array.expand(*shape) if is_tensor(type(array)) else namespace(array).broadcast_to(array, shape)


def concatenate(arrays: Sequence[Any]) -> Any:
    """Return arrays one behind the other along axis 0."""
    xp = namespace(arrays[0])
    return xp.cat(tuple(arrays)) if is_tensor(type(arrays[0])) else xp.concatenate(arrays)
