"""Gradients of the full recurrence by one launch, for arrays on a GPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from recfact.arrays import Array
from recfact.errors import ShapeError
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.backward import backward
from recfact.gpu.capture import check_uncaptured
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import as_device_array, empty_like
from recfact.gpu.plans import Sequences
from recfact.gpu.run import PLANS_KEPT, Prepared, device_of, prepared_launch
from recfact.gpu.sequences import sequences_of, starts_of
from recfact.number_types import NUMBER_TYPES
from recfact.strides import Key, Strided


def gradients(a: Any, g: Any, x: Any, offsets: Array | None = None) -> tuple[Any, Any] | None:
    """Return the gradients of coefficients and inputs of the full recurrence along the first axis.

    Parameters
    ----------
    a, g, x : array
        Coefficients, cotangents of the states, and states: CuPy arrays, or tensors on a GPU, of one number type. `a`
        has all steps, and may have axes of size 1 elsewhere.
    offsets : ndarray of int64, optional
        Where sequences start, and where the last one ends.

    Returns
    -------
    da, du : array
        The gradients, in the shapes of `a` and `x`. None if no kernel makes them at once.
    """
    current_gpu()
    described = [as_device_array(array, name) for array, name in ((a, "a"), (g, "g"), (x, "x"))]
    own_a, own_g, own_x = described
    if {array.dtype for array in described} != {own_x.dtype} or own_x.dtype not in NUMBER_TYPES:
        return None
    require(own_x.device)
    tensors = own_x.library == "torch"
    with caller_stream(described, own_x.device, tensors):
        du = empty_like(own_x.shape, own_x.dtype, tensors, own_x.device, own_x)
        da = empty_like(own_a.shape, own_x.dtype, tensors, own_x.device, own_a)
        sequences = None if offsets is None or 0 in own_x.shape else sequences_of(offsets)
        prepared = _prepared(*(array.key for array in (*described, du, da)), sequences, own_x.device)
        if prepared is None:
            return None
        places = {"a": own_a, "g": own_g, "x": own_x, "du": du, "da": da}
        if offsets is not None:
            places["starts"] = starts_of(offsets, True)
        prepared.start({name: array.address for name, array in places.items()})
    return da.owner, du.owner


@lru_cache(PLANS_KEPT)
def _prepared(a: Key, g: Key, x: Key, du: Key, da: Key, sequences: Sequences | None, device: int) -> Prepared | None:
    check_uncaptured("compiles its kernel", "do the same solve once before")
    try:
        arrays = Strided(*a), Strided(*g), Strided(*x), Strided(*du), Strided(*da)
        launch = backward(*arrays, device_of(device), sequences)
    except ShapeError:
        return None
    return None if launch is None else prepared_launch(launch, device)
