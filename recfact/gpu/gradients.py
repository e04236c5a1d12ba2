"""Gradients of a window by one launch, for arrays on a GPU."""

from __future__ import annotations

from typing import Any

from recfact.arrays import Array
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import as_device_array, empty_like
from recfact.gpu.launch import plan_gradients
from recfact.gpu.plans import Launch
from recfact.gpu.run import device_of, prepare
from recfact.gpu.sequences import sequences_of, starts_of
from recfact.number_types import NUMBER_TYPES
from recfact.strides import Strided
from recfact.windows import Full, Window


def gradients(
    a: Any, given: Any, g: Any, window: Window = Full(), offsets: Array | None = None
) -> tuple[Any, Any] | None:
    """Return the gradients of coefficients and inputs along the first axis.

    Parameters
    ----------
    a, given, g : array
        Coefficients; states of `Full`, or inputs of other windows; and cotangents of the states. They are CuPy arrays,
        or tensors on a GPU, of one number type. `a` has all steps, and may have axes of size 1 elsewhere.
    window : Window
        What is kept.
    offsets : ndarray of int64, optional
        Where sequences start, and where the last one ends.

    Returns
    -------
    da, du : array
        The gradients, in the shapes of `a` and `given`. None if no kernel makes them at once.
    """
    current_gpu()
    described = [as_device_array(array, name) for array, name in ((a, "a"), (given, "u"), (g, "g"))]
    own_a, own, own_g = described
    if {array.dtype for array in described} != {own.dtype} or own.dtype not in NUMBER_TYPES:
        return None
    require(own.device)
    tensors = own.library == "torch"
    with caller_stream(described, own.device, tensors):
        du = empty_like(own.shape, own.dtype, tensors, own.device, own)
        da = empty_like(own_a.shape, own.dtype, tensors, own.device, own_a)
        sequences = None if offsets is None or 0 in own.shape else sequences_of(offsets)
        key = (*(array.key for array in (*described, du, da)), window, sequences)
        prepared = prepare(_planned, key, own.device)
        if prepared is None:
            return None
        full = prepared.launch.kernel == "backward"
        places = {"a": own_a, "x" if full else "u": own, "g": own_g, "du": du, "da": da}
        if offsets is not None:
            places["starts"] = starts_of(offsets, full)  # in the order of its sweep
        prepared.start({name: array.address for name, array in places.items()})
    return da.owner, du.owner


def _planned(key: tuple[Any, ...], device: int) -> Launch | None:
    *arrays, window, sequences = key
    a, given, g, du, da = (Strided(*layout) for layout in arrays)
    return plan_gradients(a, given, g, du, da, window=window, device=device_of(device), sequences=sequences)
