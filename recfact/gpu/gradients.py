"""Gradients of a window by one launch, for arrays on a GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recfact.array_functions import in_type
from recfact.arrays import Array
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.backward_window import reads_kept
from recfact.gpu.cuda_streams import caller_stream, check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, as_device_array, empty_like, layout_like
from recfact.gpu.run import prepared_for, start
from recfact.gpu.sequences import sequences_of, starts_of
from recfact.gpu.solves import ENDLESS, PART_STEPS, Gradients, Sequences
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
    own_a, own, own_g = (as_device_array(array, name) for array, name in ((a, "a"), (given, "u"), (g, "g")))
    own_kept = None if kept is None else as_device_array(kept, "kept")
    named = [None if kind is None else np.dtype(str(kind).removeprefix("torch.")) for kind in types]
    sequences = None if offsets is None or 0 in own.shape else sequences_of(offsets)
    own_x0 = None if x0 is None else as_device_array(x0, "x0")
    asked = asked_gradients(own_a, own, own_g, window, sequences, (named[0], named[1]), states, own_kept, own_x0)
    if asked is None:
        return None
    require(own.device)
    tensors = own.library == "torch"
    with caller_stream((own_a, own, own_g), own.device, tensors):
        prepared = prepared_for(asked)
        if prepared is None:
            return None
        du = empty_like(own.shape, asked.du.dtype, tensors, own.device, asked.du)
        size = next((array.bytes for array in prepared.launch.scratch if array.name == "sums"), 0)
        if size:
            da = _parts(own, asked.da, size)
        else:
            da = empty_like(own_a.shape, asked.da.dtype, tensors, own.device, asked.da)
        starts = None if offsets is None else starts_of(offsets, asked.reads_states)
        d0 = None if x0 is None else _rows(own, x0.shape[0], 0)  # as a sequence without steps has it
        before = None if x0 is None else _rows(own, x0.shape[0], x0)
        start(asked._replace(du=du, da=da, starts=starts, x0=before, d0=d0), prepared)
        summed = in_type(da.owner.sum(0), asked.da.dtype) if size else da.owner
        return summed, du.owner, None if d0 is None else d0.owner


def asked_gradients(
    a: DeviceArray,
    given: DeviceArray,
    g: DeviceArray,
    window: Window,
    sequences: Sequences | None,
    types: tuple[DType | None, DType | None],
    states: bool,
    kept: DeviceArray | None = None,
    x0: Strided | None = None,
) -> Gradients[DeviceArray] | None:
    """Describe gradients before there is memory for them, or return None if no kernel takes the number types together.

    Parameters are those of `gradients`.
    """
    da_type, du_type = (accumulator(given.dtype) if kind is None else kind for kind in types)
    every = {a.dtype, given.dtype, g.dtype, da_type, du_type}
    if not every <= NUMBER_TYPES.keys() or len(set(map(accumulator, every))) > 1:
        return None
    # Where a coefficient is repeated in memory, its gradients lie as those of the inputs do.
    repeated = any(step == 0 and length > 1 for step, length in zip(a.strides, a.shape, strict=True))
    du = layout_like(given.shape, du_type, given)
    da = layout_like(a.shape, da_type, du if repeated else a)
    if x0 is not None:
        if not np.can_cast(x0.dtype, accumulator(given.dtype), "same_kind"):
            return None
        x0 = _rows_like(given, x0.shape[0])
        x0 = x0.taken(0, 0) if sequences is None else x0
    return Gradients(a, given, g, du, da, window, sequences, states, kept, x0)


def starts_from_kept(
    a: tuple[int, ...], shape: tuple[int, ...], axis: int, sequences: int, multiprocessors: int
) -> bool:
    """Say whether gradients of halves start from states that their solve keeps, before their layout is known.

    Parameters
    ----------
    a, shape : tuple of int
        Shapes of coefficients and states of the full recurrence.
    axis : int
        Time, counted from the end.
    sequences : int
        How many there are.
    multiprocessors : int
        Of the GPU.
    """
    steps, numbers = shape[axis], math.prod(shape)
    if numbers == 0 or steps < PART_STEPS:
        return False
    sharing = numbers // (math.prod(a) * (1 if len(a) >= -axis and a[axis] == steps else steps))
    return reads_kept(numbers // steps * sequences, sharing, steps, multiprocessors)


def _rows_like(own: Strided, count: int) -> Strided:
    """Describe states of all lines, in the type of the computation. Axes lie in the order of `own`."""
    wide, shape = accumulator(own.dtype), (count, *own.shape[1:])
    return layout_like(shape, wide, Strided(wide, shape, (ENDLESS, *own.strides[1:])))


def _rows(own: DeviceArray, count: int, values: Any) -> DeviceArray:
    """Return such states."""
    like = _rows_like(own, count)
    rows = empty_like(like.shape, like.dtype, own.library == "torch", own.device, like)
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
