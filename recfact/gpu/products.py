"""Products of operators with arrays on a GPU, in CuPy's arithmetic and on the caller's stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recfact.arrays import Array, to_torch
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import as_device_array, uploaded
from recfact.number_types import DType

Types = Callable[[DType, tuple[int, ...]], tuple[DType, DType]]


def multiply(apply: Callable[[Any], Any], x: Any, types: Types) -> Any:
    """Return the product of an operator with an array on a GPU, in the library of the array.

    Parameters
    ----------
    apply : callable
        A function that takes a CuPy array and returns the product.
    x : array
        On a GPU.
    types : callable
        A function that takes the number type and the shape of `x`. It returns the type to compute in and the type of
        the result.

    Returns
    -------
    array
        A torch tensor if `x` is one, a CuPy array otherwise.

    Raises
    ------
    DeviceError
        If something is missing for computations on this GPU.
    """
    current_gpu()
    array = as_device_array(x, "x")
    require(array.device)
    computed, result = types(array.dtype, array.shape)
    tensors = array.library == "torch"
    with caller_stream([array], array.device, tensors):
        y = apply(array.converted(computed).as_cupy()).astype(result, copy=False)
        return to_torch(y) if tensors else y


def constants(values: Array) -> Any:
    """Return a copy of an operator's numbers on the current GPU, as a CuPy array."""
    return uploaded(values).as_cupy()
