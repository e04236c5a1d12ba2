"""Where a result goes: to new memory with the layout of its operands, or to the caller's `out`."""

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
from recfact.offsets import check_offsets, one_step

OPERANDS = (np.ndarray, *SCALARS)


def prepare(
    a: Any,
    u: Any,
    x0: Any,
    axis: Any,
    reverse: bool,
    out: Any,
    tensors: bool,
    states: bool,
    offsets: Any,
    mixed: bool,
) -> tuple[Array, Array, Any, Array | None, int, Array | None, Any]:
    """Check the arrays of a solve on the host, where the result is a torch tensor or a NumPy array (`tensors`).

    Returns
    -------
    a, u, x : ndarray
        Coefficients, inputs and the result to fill. They have one shape and one number type. Only with `mixed` the
        number types may differ (`as_operands`). The result is then float32, or has the type of `u` if `out` has. It is
        None if no `states` are wanted.
    x0 : ndarray or None
        Initial states, in the type of the computation. With `offsets` they are those of the segments, on axis 0.
    axis : int
        The axis of time, counted from the front.
    offsets : ndarray of int64 or None
        Where segments start, and where the last one ends.
    result : array
        The array that the caller gets: `out`, `x`, or a tensor that shares its memory.
    """
    tensor_a, tensor_u = a, u
    if not type(a) is type(u) is np.ndarray:  # what a short call spends its time on otherwise
        a, u = operand(a, "a"), operand(u, "u")
    given_a, given_u = a, u
    a, u, dtype = as_operands(a, u, mixed)
    shape = a.shape
    if shape != u.shape or not shape:
        shape = broadcast_shape(a, u)
        a, u = np.broadcast_to(a, shape), np.broadcast_to(u, shape)
    axis = check_axis(axis, len(shape))
    if reverse:
        check_no_state(x0)
    state = None
    if offsets is not None:
        offsets = check_offsets(offsets, shape[axis])
    if x0 is not None:
        step, name = one_step(shape, axis, offsets)
        state = initial_state(x0, step, dtype, name)
        if offsets is not None:
            state = np.moveaxis(np.broadcast_to(state, step), axis, 0)
    if not states:
        return a, u, None, state, axis, offsets, None
    if out is not None:
        x = check_out(out, shape, (dtype,) if a.dtype == u.dtype else (dtype, u.dtype), tensors)
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
    """Return an argument in the form that NumPy's promotion needs: an array, or a Python scalar."""
    return value if type(value) in OPERANDS else as_numpy(value, name)


def empty_product(a: Any, u: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array for a result, with the strides of ``numpy.multiply(a, u)``. `a` or `u` may be a Python scalar."""
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
    """Return a tensor for a result, with the strides of ``torch.mul(a, u)``, or NumPy's if `a` or `u` is an array."""
    import torch

    if all(type(value) in SCALARS or isinstance(value, torch.Tensor) for value in given):
        kind = to_torch(np.empty(0, dtype)).dtype
        if _product_in_c_order(given, shape):
            return torch.empty(shape, dtype=kind, device="cpu")
        # torch first converts what isn't of the common type, and then lays the product as its operands lie. Tensors of
        # the device "meta" have strides but no numbers; halves lose their strides there, so all are float32.
        common = torch.result_type(*given)
        outlines = [1 if type(value) in SCALARS else _outline(torch, value, common) for value in given]
        return torch.empty_strided(shape, torch.mul(*outlines).stride(), dtype=kind, device="cpu")
    return to_torch(empty_product(operand(given[0], "a"), operand(given[1], "u"), shape, dtype))


def _product_in_c_order(given: tuple[Any, Any], shape: tuple[int, ...]) -> bool:
    """Say whether the product surely lies in C order. Working out any other order takes longer than a short solve."""
    tensors = [value for value in given if type(value) not in SCALARS]
    if not all(tensor.is_contiguous() for tensor in tensors):
        return False
    return any(tensor.shape == shape for tensor in tensors)  # a broadcast operand leaves the order to the other one


def _outline(torch: Any, tensor: Any, common: Any) -> Any:
    """Return a tensor without numbers that has the layout of a tensor after conversion to a common type."""
    outline = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta").to(common)
    return torch.empty_strided(outline.shape, outline.stride(), dtype=torch.float32, device="meta")


def check_out(
    out: Any, shape: tuple[int, ...], allowed: tuple[np.dtype[Any], ...], tensors: bool, name: str = "out"
) -> Array:
    """Return `out` as an array for a result of one of the `allowed` types."""
    x: Array = out
    if tensors or type(out) is not np.ndarray:
        if not isinstance(out, np.ndarray) and library_of(out) != "torch":
            raise ArrayTypeError(
                f"{name} must be an array on the host, got {type(out).__name__}; make one with numpy.empty"
            )
        if tensors != (library_of(out) == "torch"):
            raise ArrayTypeError(f"{name} must be of the library of a and u, got {type(out).__name__}")
        if tensors:
            check_written(out, name)
        x = as_numpy(out, name)
    check_place(x, x.dtype, shape, allowed, name)
    return x


def check_written(out: Any, name: str = "out") -> None:
    """Raise OptionError for a tensor whose memory doesn't hold its numbers as they are."""
    if out.is_conj() or out.is_neg():
        raise OptionError(f"{name} must hold its numbers as they are, got a conjugate or negative view; pass a tensor")


def note_written(out: Any) -> None:
    """Tell torch that a tensor is written to. It then refuses gradients that need the previous values of the tensor."""
    import torch

    torch.autograd.graph.increment_version(out)


def check_place(
    x: Array, dtype: np.dtype[Any], shape: tuple[int, ...], allowed: tuple[np.dtype[Any], ...], name: str = "out"
) -> None:
    """Raise an error unless a result of one of the `allowed` types fits into `x`, whose numbers are of `dtype`."""
    if x.shape != shape or dtype not in allowed:
        names = " or ".join(map(str, allowed))
        raise ShapeError(f"{name} must have shape {shape} and dtype {names}, got shape {x.shape} and dtype {dtype}")
    if not x.flags.writeable:
        raise OptionError(f"{name} must be writable, got a read-only array; pass a copy")
    if x.size and not x.flags.forc and _overlaps_itself(x):
        raise OptionError(
            f"{name} must have a place of its own for each number, got a broadcast or overlapping view; pass a copy"
        )


def _overlaps_itself(x: Array) -> bool:
    """Return whether elements of an array overlap: an axis steps back into the range of the denser axes."""
    span = x.itemsize
    for step, length in sorted((abs(stride), length) for stride, length in zip(x.strides, x.shape, strict=True)):
        if length > 1 and step < span:
            return True
        span += step * (length - 1)
    return False


def check_overlap(x: Array, a: Array, u: Array) -> None:
    """Raise OptionError if `x` overlaps with `a`, or with `u` without being `u` itself."""
    # The bounds of their memory come first: they seldom overlap, and whether they do takes long to find out.
    if np.may_share_memory(x, a) and np.shares_memory(x, a):
        raise overlapping("a")
    if x is u or not np.may_share_memory(x, u):
        return
    if not _is_same(x, u) and np.shares_memory(x, u):
        raise overlapping("u")


def _is_same(x: Array, u: Array) -> bool:
    """Return whether two arrays are the same numbers in memory in the same order. Axes of one number don't matter."""
    return (
        x.shape == u.shape
        and x.ctypes.data == u.ctypes.data
        and all(s == t for s, t, length in zip(x.strides, u.strides, x.shape, strict=True) if length > 1)
    )


def overlapping(name: str) -> OptionError:
    """Return the error for an `out` that overlaps with another array."""
    return OptionError(f"out overlaps with {name} in memory; pass u itself, or memory of its own")
