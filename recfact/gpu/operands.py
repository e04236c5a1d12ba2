"""Arguments of a solve on a GPU: checked, and brought into number types that kernels take together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import (
    Array,
    as_numpy,
    broadcast_shape,
    check_axis,
    check_no_state,
    check_state,
    converted,
    library_of,
    native,
    result_dtype,
)
from recfact.checks import boolean, choice
from recfact.errors import ArrayTypeError, DTypeError
from recfact.gpu.availability import require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import DeviceArray, as_device_array, empty_like, laid_out, uploaded
from recfact.gpu.solves import Solve
from recfact.number_types import FLOAT32, HALVES, NUMBER_TYPES, DType, accumulator, listed
from recfact.offsets import check_offsets, one_step
from recfact.results import check_out, check_overlap, check_place, check_written, empty_product, note_written
from recfact.windows import Full, Window, WindowLike, check_window

PRECISIONS = ("full", "paper")


def given_arrays(a: Any, u: Any, **others: Any) -> dict[str, Any]:
    """Return the arrays that a caller gave, by name."""
    return {"a": a, "u": u, **{name: value for name, value in others.items() if value is not None}}


def solve_options(window: WindowLike, reverse: Any, precision: Any, x0: Any) -> tuple[Window, bool]:
    """Check the options of a solve on a GPU, and return its window and whether it is the transpose."""
    window, reverse = check_window(window), boolean(reverse, "reverse")
    choice(precision, "precision", PRECISIONS)
    if reverse:
        check_no_state(x0)
    return window, reverse


@contextmanager
def on_the_gpu(
    given: dict[str, Any],
    axis: Any,
    offsets: Any = None,
    window: Window = Full(),
    reverse: bool = False,
    precision: str = "full",
    states: bool = True,
) -> Iterator[tuple[Solve[DeviceArray], Array | None]]:
    """Make the stream of the result CuPy's current one, and bring the arrays of a solve there.

    It yields a solve of arrays in number types that kernels take together, and where segments start, and where the last
    one ends. Initial states then have an axis of segments in the place of time, or of size 1.

    Parameters
    ----------
    given : dict of str to array
        From `given_arrays`, at least one of them on a GPU.
    axis, offsets, window, reverse, precision
        As for `recfact.gpu.solve`.
    states : bool, default True
        Whether states are wanted. Otherwise the result has no memory.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError, DeviceError
        As for `recfact.gpu.solve`.
    """
    arrays = {name: as_device_array(value, name) for name, value in given.items() if library_of(value) == "gpu"}
    device = _common_device(given, arrays)
    require(device)
    tensors = any(name in arrays and arrays[name].library == "torch" for name in "au")
    with caller_stream(arrays.values(), device, tensors):
        own, offsets = _prepare(given, arrays, axis, device, tensors, offsets, states)
        yield Solve(*own, window, reverse, precision), offsets


def _common_device(given: dict[str, Any], arrays: dict[str, DeviceArray]) -> int:
    """Return the GPU on which all arrays are. Scalars and lists don't count.

    Raises
    ------
    ArrayTypeError
        If they are on several GPUs, or arrays of the host are among them.
    """
    places = {name: f"GPU {array.device}" for name, array in arrays.items()}
    for name, value in given.items():
        if name not in arrays and (name == "out" or isinstance(value, np.ndarray) or library_of(value) == "torch"):
            places[name] = "the host"
    if len(set(places.values())) > 1:
        where = ", ".join(f"{name} on {place}" for name, place in places.items())
        raise ArrayTypeError(
            f"all arrays must be on one GPU, got {where}; move them there with cupy.asarray or .to(), because recfact "
            "moves only scalars and lists by itself"
        )
    return next(iter(arrays.values())).device


def _prepare(
    given: dict[str, Any],
    arrays: dict[str, DeviceArray],
    axis: Any,
    device: int,
    tensors: bool,
    offsets: Any,
    states: bool,
) -> tuple[tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray | None, int], Array | None]:
    host = {name: as_numpy(value, name) for name, value in given.items() if name not in arrays}
    values: dict[str, Any] = {**host, **arrays}
    asked = check_types(given, values, axis, offsets)
    a, u = _on_gpu(values["a"], asked.dtype, "a"), _on_gpu(values["u"], asked.inputs, "u")
    x0 = _on_gpu(values["x0"], accumulator(asked.dtype), "x0") if "x0" in values else None
    if "out" not in given:
        x = empty_like(asked.shape, asked.dtype, tensors, device, u) if states else laid_out(asked.shape, asked.dtype)
        return (a, u, x, x0, asked.axis), asked.offsets
    x = arrays["out"]
    if tensors != (x.library == "torch"):
        raise ArrayTypeError(f"out must be of the library of a and u, got {type(given['out']).__name__}")
    if tensors:
        check_written(given["out"])
    place = x.addresses()
    check_place(place, x.dtype, asked.shape, asked.results)
    check_overlap(place, a.addresses(), u.addresses())
    if tensors:
        note_written(given["out"])
    if x0 is not None and np.may_share_memory(place, x0.addresses()):
        x0 = x0.copied()
    return (a, u, x, x0, asked.axis), asked.offsets


def prepare_host(
    given: dict[str, Any], axis: Any, tensors: bool, offsets: Any
) -> tuple[Array, Array, Array, Array | None, int, Array | None]:
    """Do the same as `on_the_gpu` for arrays of the host, and leave them there."""
    values = {name: as_numpy(value, name) for name, value in given.items() if name != "out"}
    asked = check_types(given, values, axis, offsets)
    a, u = converted(values["a"], asked.dtype, "a"), converted(values["u"], asked.inputs, "u")
    x0 = converted(values["x0"], accumulator(asked.dtype), "x0") if "x0" in values else None
    if "out" not in given:
        return a, u, empty_product(values["a"], values["u"], asked.shape, asked.dtype), x0, asked.axis, asked.offsets
    x = check_out(given["out"], asked.shape, asked.results, tensors)
    check_overlap(x, a, u)
    if tensors:
        note_written(given["out"])
    return a, u, x, x0, asked.axis, asked.offsets


class Asked(NamedTuple):
    """The types and shape that arrays are converted to, on the GPU or on the host.

    Parameters
    ----------
    dtype, inputs : DType
        Number types of coefficients and result, and of inputs.
    results : tuple of DType
        Number types that the result may have, `dtype` among them.
    shape, axis
        Shape of the result, and its axis of time, counted from the front.
    offsets : ndarray of int64 or None
        Where segments start, and where the last one ends.
    """

    dtype: DType
    inputs: DType
    results: tuple[DType, ...]
    shape: tuple[int, ...]
    axis: int
    offsets: Array | None


def check_types(given: dict[str, Any], values: dict[str, Any], axis: Any, offsets: Any) -> Asked:
    """Check the arguments, of which `values` are the arrays, and return the types and shape to convert them to."""
    dtype = result_dtype(*(_typed(values[name], given[name]) for name in "au"))
    if dtype not in NUMBER_TYPES:
        raise DTypeError(
            f"the GPU engine computes in {listed('and')}, got {dtype}; convert a and u, or solve them on the host"
        )
    shape = broadcast_shape(values["a"], values["u"])
    axis = check_axis(axis, len(shape))
    offsets = None if offsets is None else check_offsets(offsets, shape[axis])
    if "x0" in values:
        step, whole = one_step(shape, axis, offsets)
        check_state(values["x0"].dtype, values["x0"].shape, accumulator(dtype), step, whole)
    # Inputs in half precision stay so beside coefficients in float32, because they take half the bytes.
    kind = native(values["u"].dtype)
    inputs = kind if kind in HALVES and dtype == FLOAT32 else dtype
    results = tuple(dict.fromkeys((dtype, inputs, FLOAT32))) if inputs in HALVES else (dtype,)
    return Asked(dtype, inputs, results, shape, axis, offsets)


def _typed(value: Array | DeviceArray, given: Any) -> Any:
    """Return the argument in the form that `recfact.arrays.result_dtype` takes."""
    if isinstance(value, DeviceArray):
        return np.empty(0, value.dtype)
    return given if type(given) in (int, float, complex) else value


def _on_gpu(value: Array | DeviceArray, dtype: DType, name: str) -> DeviceArray:
    return value.converted(dtype) if isinstance(value, DeviceArray) else uploaded(converted(value, dtype, name))
