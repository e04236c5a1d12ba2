"""The mixer of a Phalanx layer by one launch, for arrays on a GPU."""

from __future__ import annotations

from typing import Any

from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import as_device_array, empty_like
from recfact.gpu.launch import plan_mixer
from recfact.gpu.plans import Launch
from recfact.gpu.run import device_of, prepare
from recfact.number_types import FLOAT32, HALVES, NUMBER_TYPES
from recfact.strides import Strided
from recfact.windows import Window


def mixed(a: Any, q: Any, k: Any, v: Any, window: Window) -> Any:
    """Return q x + v, where x solves the recurrence with inputs k v.

    Parameters
    ----------
    a, q, k, v, window
        As for `recfact.phalanx`, with time on the third axis of `v` from the end, and shapes that fit. The arrays are
        CuPy arrays, or tensors on a GPU.

    Returns
    -------
    array or None
        The result, laid out as `v`, in the number type of the values, or in float32 if coefficients are. None if no
        kernel makes it at once.
    """
    if q is None or k is None:
        return None
    current_gpu()
    described = [as_device_array(array, name) for array, name in ((a, "a"), (q, "q"), (k, "k"), (v, "v"))]
    own_a, own_q, own_k, own = described
    dtype = own_a.dtype
    if own_q.shape != own_k.shape or len({array.device for array in described}) > 1:
        return None
    if {own_q.dtype, own_k.dtype} != {own.dtype} or own.dtype not in NUMBER_TYPES:
        return None
    if dtype != own.dtype and not (own.dtype in HALVES and dtype == FLOAT32):
        return None
    require(own.device)
    tensors = own.library == "torch"
    with caller_stream(described, own.device, tensors):
        y = empty_like(own.shape, dtype, tensors, own.device, own)
        prepared = prepare(_planned, (*(array.key for array in (*described, y)), window), own.device)
        if prepared is None:
            return None
        prepared.start({"a": own_a.address, "q": own_q.address, "k": own_k.address, "u": own.address, "x": y.address})
    return y.owner


def _planned(key: tuple[Any, ...], device: int) -> Launch | None:
    *arrays, window = key
    a, *others = (Strided(*layout) for layout in arrays)
    every = Strided(a.dtype, (*a.shape, 1), (*a.strides, 0), a.address)
    return plan_mixer(every, *others, axis=len(others[-1].shape) - 3, window=window, device=device_of(device))
