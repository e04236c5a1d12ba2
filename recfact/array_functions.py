"""Functions of arrays that NumPy, CuPy and torch all have, under the names of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from recfact.arrays import Array, is_tensor


def namespace(array: Any) -> Any:
    """Return the module whose functions take an array: numpy, torch or cupy."""
    kind = type(array)
    if kind is np.ndarray:
        return np
    if is_tensor(kind):
        return sys.modules["torch"]
    return sys.modules["cupy"] if kind.__module__.partition(".")[0] == "cupy" else np


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
