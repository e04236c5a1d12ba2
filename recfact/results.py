"""Where a result goes: to memory of its own, laid out as its operands are, or to the caller's `out`."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import (
    SCALARS,
    Array,
    as_numpy,
    as_operands,
    broadcast_shape,
    check_axis,
    check_no_state,
    initial_state,
    library_of,
    to_torch,
)
from recfact.errors import ArrayTypeError, OptionError, ShapeError
from recfact.segments import check_offsets

OPERANDS = (np.ndarray, *SCALARS)


def prepare(
    a: Any,
    u: Any,
    x0: Any,
    axis: Any,
    reverse: bool,
    out: Any,
    tensors: bool,
    states: bool = True,
    offsets: Any = None,
) -> tuple[Array, Array, Any, Array | None, int, Array | None, Any]:
    """Check the arrays of a solve on the host, where the result is a torch tensor or a NumPy array (`tensors`).

    Returns
    -------
    a, u, x : ndarray
        Coefficients, inputs and the result to fill, of one number type; they broadcast to the shape of the result. None
        for the result where no `states` are wanted.
    x0 : ndarray or None
        Initial states, in the type of the computation; with `offsets`, those of the segments on axis 0.
    axis : int
        Time, counted from the front.
    offsets : ndarray of int64 or None
        Where segments start, and where the last one ends.
    result : array
        What the caller gets: `out`, `x`, or a tensor that shares its memory.
    """
    tensor_a, tensor_u = a, u
    if not type(a) is type(u) is np.ndarray:  # what a short call spends its time on otherwise
        a, u = operand(a, "a"), operand(u, "u")
    given_a, given_u = a, u
    a, u, dtype = as_operands(a, u)
    shape = broadcast_shape(a, u)
    axis = check_axis(axis, len(shape))
    if reverse:
        check_no_state(x0)
    state = None
    if offsets is not None:
        offsets = check_offsets(offsets, shape[axis])
        if x0 is not None:
            whole = (*shape[:axis], len(offsets) - 1, *shape[axis + 1 :])
            state = initial_state(x0, whole, dtype, "the result with one step for each segment")
            state = np.moveaxis(np.broadcast_to(state, whole), axis, 0)
    elif x0 is not None:
        state = initial_state(x0, shape[:axis] + shape[axis + 1 :], dtype)
    if not states:
        return a, u, None, state, axis, offsets, None
    if out is not None:
        x = check_out(out, shape, (dtype,), tensors)
        check_overlap(x, a, u)
        if tensors:
            note_written(out)
        return a, u, x, state, axis, offsets, out
    if tensors:
        result = empty_tensor((tensor_a, tensor_u), shape, dtype)
        return a, u, as_numpy(result, "out"), state, axis, offsets, result
    x = empty_product(given_a, given_u, shape, dtype)
    return a, u, x, state, axis, offsets, x


def operand(value: Any, name: str) -> Any:
    """Return what NumPy's promotion is to see of an argument: an array, or a Python scalar."""
    return value if type(value) in OPERANDS else as_numpy(value, name)


def empty_product(a: Any, u: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array for a result, of the strides of ``numpy.multiply(a, u)``; `a` or `u` may be a Python scalar."""
    if len(shape) == 1 or (_in_c_order(a) and _in_c_order(u)):
        return np.empty(shape, dtype)
    operands: Any = (a, u, None)  # None is what the iterator allocates, as it does for the ufunc
    places: Any = (["readonly"], ["readonly"], ["writeonly", "allocate", "no_subtype"])
    loop = np.nditer(operands, ["zerosize_ok", "refs_ok"], places, [None, None, dtype])
    product: Array = loop.operands[2]
    return product


def _in_c_order(value: Any) -> bool:
    return type(value) in SCALARS or value.flags.c_contiguous


def empty_tensor(given: tuple[Any, Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a tensor for a result, of the strides of ``torch.mul(a, u)``, or NumPy's if one of them is an array."""
    import torch

    if all(type(value) in SCALARS or isinstance(value, torch.Tensor) for value in given):
        # Tensors of the device "meta" have strides but no numbers.
        outlines = (
            torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            if isinstance(value, torch.Tensor)
            else 1
            for value in given
        )
        kind = to_torch(np.empty(0, dtype)).dtype
        return torch.empty_strided(shape, torch.mul(*outlines).stride(), dtype=kind, device="cpu")
    return to_torch(empty_product(operand(given[0], "a"), operand(given[1], "u"), shape, dtype))


def check_out(out: Any, shape: tuple[int, ...], allowed: tuple[np.dtype[Any], ...], tensors: bool) -> Array:
    """Return `out` as an array to write a result of one of the `allowed` types to."""
    if not isinstance(out, np.ndarray) and library_of(out) != "torch":
        raise ArrayTypeError(f"out must be an array on the host, got {type(out).__name__}; make one with numpy.empty")
    if tensors != (library_of(out) == "torch"):
        raise ArrayTypeError(f"out must be of the library of a and u, got {type(out).__name__}")
    if tensors:
        check_written(out)
    x = as_numpy(out, "out")
    check_place(x, x.dtype, shape, allowed)
    return x


def check_written(out: Any) -> None:
    """Raise OptionError for a tensor whose numbers aren't what its memory holds."""
    if out.is_conj() or out.is_neg():
        raise OptionError("out must hold its numbers as they are, got a conjugate or negative view; pass a tensor")


def note_written(out: Any) -> None:
    """Tell torch that a tensor is written to: it refuses gradients then that need what the tensor held before."""
    import torch

    torch.autograd.graph.increment_version(out)


def check_place(x: Array, dtype: np.dtype[Any], shape: tuple[int, ...], allowed: tuple[np.dtype[Any], ...]) -> None:
    """Raise an error unless a result of one of the `allowed` types fits to `x`, whose numbers are of `dtype`."""
    if x.shape != shape or dtype not in allowed:
        names = " or ".join(map(str, allowed))
        raise ShapeError(f"out must have shape {shape} and dtype {names}, got shape {x.shape} and dtype {dtype}")
    if not x.flags.writeable:
        raise OptionError("out must be writable, got a read-only array; pass a copy")
    if x.size and not x.flags.forc and _overlaps_itself(x):
        raise OptionError(
            "out must have a place of its own for each number, got a broadcast or overlapping view; pass a copy"
        )


def _overlaps_itself(x: Array) -> bool:
    """Return whether an axis of an array steps back into what the denser axes span."""
    span = x.itemsize
    for step, length in sorted((abs(stride), length) for stride, length in zip(x.strides, x.shape, strict=True)):
        if length > 1 and step < span:
            return True
        span += step * (length - 1)
    return False


def check_overlap(x: Array, a: Array, u: Array) -> None:
    """Raise OptionError if `x` overlaps with `a`, or with `u` without being `u` itself."""
    for name, array in (("a", a), ("u", u)):
        if not np.may_share_memory(x, array):
            continue
        same = x.strides == u.strides and x.shape == u.shape and x.ctypes.data == u.ctypes.data
        if not (name == "u" and same) and np.shares_memory(x, array):
            raise OptionError(f"out overlaps with {name} in memory; it may be u itself, or memory of its own")
