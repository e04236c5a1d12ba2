"""Gradients of a window by one launch, for arrays on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recfact.array_functions import in_type
from recfact.arrays import Array
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream, check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, as_device_array, empty_like, layout_like, scratch_for
from recfact.gpu.launch import plan_gradients
from recfact.gpu.plans import Launch
from recfact.gpu.run import device_of, prepare
from recfact.gpu.sequences import sequences_of, starts_of
from recfact.gpu.solves import ENDLESS
from recfact.number_types import NUMBER_TYPES, DType, accumulator
from recfact.strides import Strided
from recfact.windows import Full, Window


def gradients(
    a: Any,
    given: Any,
    g: Any,
    window: Window = Full(),
    offsets: Array | None = None,
    types: tuple[Any, Any] = (None, None),
    states: bool = True,
    kept: Any = None,
    x0: Any = None,
) -> tuple[Any, Any, Any] | None:
    """Return the gradients of coefficients, inputs and initial states along the first axis.

    Parameters
    ----------
    a, given, g : array
        Coefficients; states or inputs; and cotangents of the states. They are CuPy arrays, or tensors on a GPU, of
        number types that are computed in one type. `a` has all steps, and may have axes of size 1 elsewhere.
    window : Window
        What is kept.
    offsets : ndarray of int64, optional
        Where sequences start, and where the last one ends.
    types : tuple of two number types, optional
        Those of the gradients, in the words of NumPy or torch. None is the type that they are computed in.
    states : bool, default True
        Whether the states of `Full` are given. If not, and for other windows, inputs are.
    kept : array, optional
        Beside inputs of `Full`, the states that its solve kept, as `solve_and_keep` returns them.
    x0 : array, optional
        Initial states, the sequences on their first axis, or one row. They broadcast to that of `given` otherwise.

    Returns
    -------
    da, du : array
        The gradients, in the shapes of `a` and `given`. None if no kernel makes them at once.
    d0 : array, or None
        That of the initial states of all lines, in the type of the computation.
    """
    current_gpu()
    described = [as_device_array(array, name) for array, name in ((a, "a"), (given, "u"), (g, "g"))]
    own_a, own, own_g = described
    own_kept = None if kept is None else as_device_array(kept, "kept")
    da_type, du_type = (accumulator(own.dtype) if kind is None else _named(kind) for kind in types)
    every = {array.dtype for array in described} | {da_type, du_type}
    if not every <= NUMBER_TYPES.keys() or len(set(map(accumulator, every))) > 1:
        return None
    if x0 is not None and not np.can_cast(as_device_array(x0, "x0").dtype, accumulator(own.dtype), "same_kind"):
        return None
    require(own.device)
    tensors = own.library == "torch"
    with caller_stream(described, own.device, tensors):
        # Where a coefficient is repeated in memory, its gradients lie as those of the inputs do.
        repeated = any(step == 0 and length > 1 for step, length in zip(own_a.strides, own_a.shape, strict=True))
        du_layout = layout_like(own.shape, du_type, own)
        da_layout = layout_like(own_a.shape, da_type, du_layout if repeated else own_a)
        sequences = None if offsets is None or 0 in own.shape else sequences_of(offsets)
        key = (*(array.key for array in (*described, du_layout, da_layout)), window, sequences, states)
        key = (*key, None if own_kept is None else own_kept.key)
        entering = None if x0 is None else _rows(own, x0.shape[0], x0)
        key = (*key, None if entering is None else entering.key)
        prepared = prepare(_planned, key, own.device)
        if prepared is None:
            return None
        du = empty_like(own.shape, du_type, tensors, own.device, du_layout)
        given_states = prepared.launch.kernel == "backward"
        scratch = {array.name: array.bytes for array in prepared.launch.scratch}
        places = {"a": own_a, "x" if given_states else "u": own, "g": own_g, "du": du}
        if "sums" in scratch:
            sums = places["sums"] = _parts(own, da_layout, scratch["sums"])
        else:
            sums = places["da"] = empty_like(own_a.shape, da_type, tensors, own.device, da_layout)
        if offsets is not None:
            places["starts"] = starts_of(offsets, given_states)  # in the order of its sweep
        if own_kept is not None:
            places["states"] = own_kept
        d0 = None
        if entering is not None:
            places["x0"], places["d0"] = entering, _rows(own, x0.shape[0], 0)  # as a sequence without steps has it
            d0 = places["d0"].owner
        addresses = {name: array.address for name, array in places.items()}
        if "states" in scratch:
            found = scratch_for(own, scratch["states"])
            addresses["states"] = found.data.ptr
        prepared.start(addresses)
        return in_type(sums.owner.sum(0), da_type) if "sums" in scratch else sums.owner, du.owner, d0


def _named(kind: Any) -> DType:
    return np.dtype(str(kind).removeprefix("torch."))


def _rows(own: DeviceArray, count: int, values: Any) -> DeviceArray:
    """Return new states of all lines, in the type of the computation. Axes lie in the order of `own`."""
    wide, shape = accumulator(own.dtype), (count, *own.shape[1:])
    like = Strided(wide, shape, (ENDLESS, *own.strides[1:]))
    rows = empty_like(shape, wide, own.library == "torch", own.device, like)
    rows.owner[...] = values
    return rows


def _parts(own: DeviceArray, da: Strided, size: int) -> DeviceArray:
    """Return new memory for parts of sums, one behind the other. In each, axes lie in the same order as in `da`."""
    if own.library != "torch":
        check_uncaptured("adds up sums in memory of CuPy", "capture one of torch tensors, whose graphs own such memory")
    wide = accumulator(da.dtype)
    shape = (size // (wide.itemsize * math.prod(da.shape)), *da.shape)
    like = Strided(wide, shape, (ENDLESS, *da.strides))
    return empty_like(shape, wide, own.library == "torch", own.device, like)


def _planned(key: tuple[Any, ...], device: int) -> Launch | None:
    *arrays, window, sequences, states, kept, x0 = key
    a, given, g, du, da = (Strided(*layout) for layout in arrays)
    parts, entering = (None if one is None else Strided(*one) for one in (kept, x0))
    if entering is not None and sequences is None:
        entering = entering.taken(0, 0)
    return plan_gradients(
        a,
        given,
        g,
        du,
        da,
        window=window,
        device=device_of(device),
        sequences=sequences,
        states=states,
        kept=parts,
        x0=entering,
    )
