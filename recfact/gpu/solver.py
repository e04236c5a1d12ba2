"""`solve` on a GPU: the checks of the arrays, and the choice of what solves them."""

from __future__ import annotations

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
    to_torch,
)
from recfact.checks import boolean, choice
from recfact.errors import ArrayTypeError, DTypeError
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import DeviceArray, as_device_array, empty_like, uploaded
from recfact.gpu.host_arrays import solve_segments
from recfact.gpu.run import Solve, run
from recfact.number_types import FLOAT32, HALVES, NUMBER_TYPES, DType, accumulator, listed
from recfact.results import check_out, check_overlap, check_place, check_written, empty_product, note_written
from recfact.windows import Full, WindowLike, check_window

PRECISIONS = ("full", "paper")


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    out: Any = None,
    precision: str = "full",
) -> Any:
    """Solve the recurrence x_i = a_i x_{i-1} + u_i along an axis, on a GPU.

    `recfact.solve` calls this function for arrays on a GPU. The solve runs on the caller's current stream: that of
    torch for tensors, that of CuPy for other arrays. It waits for the stream that an array names by its
    ``__cuda_array_interface__``. The host doesn't wait for the solve. Only for arrays of the host it does, so their
    result is complete on return.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They broadcast against each other. They are CuPy arrays, torch tensors, or any arrays
        with ``__cuda_array_interface__``, all on one GPU. One of them may be a scalar or a list. If both are arrays of
        the host, they are copied to CuPy's current GPU in pieces, and the result is copied back. Inputs in float16 or
        bfloat16 may have coefficients in float32. The result is then float32, unless `out` has another type.
    x0 : array_like, optional
        Initial state, as for `recfact.solve`. It is on the GPU, or it is a scalar or a list.
    axis, reverse, window
        As for `recfact.solve`.
    out : array, optional
        An array for the result, as for `recfact.solve`. For inputs in float16 or bfloat16, with coefficients in the
        same type or in float32, it may have the type of the inputs or float32.
    precision : {"full", "paper"}, default "full"
        How tensor cores get the products of coefficients. "full": as two terms, with an error of 2^-22 (float16) or
        2^-16 (bfloat16) of each product. "paper": as one term, rounded to half precision as in the paper, with an error
        of 2^-11 or 2^-8.

    Returns
    -------
    array
        The states: a torch tensor if `a` or `u` is one, a NumPy array for arrays of the host, and otherwise a CuPy
        array. Its axes lie in memory in the same order as those of `u`.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or options are out of range or exclude each other.
    DTypeError, ArrayTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or can't take an array or a mixture of arrays.
    DeviceError
        (a RuntimeError) If something is missing for solves on this GPU. `why_unavailable` says the same. For arrays of
        the host, also if there is no memory for a piece of them. `out` is then unchanged.

    Notes
    -----
    For arrays of the host, the result is written to `out` piece by piece, because keeping it until the end would take
    twice the memory. If the GPU fails during a solve, or after ``KeyboardInterrupt``, `out` has a part of the result.

    float16 and bfloat16 are computed in float32 and rounded once. The first solve of its kind compiles a kernel. CuPy
    keeps it on disk for later processes.

    Algorithms 4 and 5 of the sliding window recurrences paper.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import gpu
    >>> a, u = np.full(3, 0.5), np.ones(3)
    >>> gpu.solve(a, u) if gpu.why_unavailable() is None else np.array([1.0, 1.5, 1.75])
    array([1.  , 1.5 , 1.75])
    """
    window = check_window(window)
    reverse = boolean(reverse, "reverse")
    choice(precision, "precision", PRECISIONS)
    if reverse:
        check_no_state(x0)
    current = current_gpu()
    libraries = [library_of(a), library_of(u)]
    given = {"a": a, "u": u, **{name: value for name, value in (("x0", x0), ("out", out)) if value is not None}}
    if "gpu" not in libraries:
        require(current)
        tensors = "torch" in libraries
        host = _prepare_host(given, axis, tensors)
        solve_segments(*host, reverse, window, precision)
        return out if out is not None else to_torch(host[2]) if tensors else host[2]
    arrays = {name: as_device_array(value, name) for name, value in given.items() if library_of(value) == "gpu"}
    device = _common_device(given, arrays)
    require(device)
    tensors = any(name in arrays and arrays[name].library == "torch" for name in "au")
    with caller_stream(arrays.values(), device, tensors):
        on_gpu = _prepare(given, arrays, axis, device, tensors)
        run(Solve(*on_gpu, window, reverse, precision))
    return on_gpu[2].owner if out is None else out


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
    given: dict[str, Any], arrays: dict[str, DeviceArray], axis: Any, device: int, tensors: bool
) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray | None, int]:
    """Check the arrays of a solve, and bring them into number types that kernels take together.

    Returns
    -------
    a, u, x : DeviceArray
        Coefficients, inputs, and the result to fill.
    x0 : DeviceArray or None
        Initial states.
    axis : int
        Time, counted from the front.
    """
    host = {name: as_numpy(value, name) for name, value in given.items() if name not in arrays}
    values: dict[str, Any] = {**host, **arrays}
    asked = _check(given, values, axis)
    a, u = _on_gpu(values["a"], asked.dtype, "a"), _on_gpu(values["u"], asked.inputs, "u")
    x0 = _on_gpu(values["x0"], accumulator(asked.dtype), "x0") if "x0" in values else None
    if "out" not in given:
        return a, u, empty_like(asked.shape, asked.dtype, tensors, device, u), x0, asked.axis
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
    return a, u, x, x0, asked.axis


def _prepare_host(given: dict[str, Any], axis: Any, tensors: bool) -> tuple[Array, Array, Array, Array | None, int]:
    """Do the same as `_prepare` for arrays of the host, and leave them there."""
    values = {name: as_numpy(value, name) for name, value in given.items() if name != "out"}
    asked = _check(given, values, axis)
    a, u = converted(values["a"], asked.dtype, "a"), converted(values["u"], asked.inputs, "u")
    x0 = converted(values["x0"], accumulator(asked.dtype), "x0") if "x0" in values else None
    if "out" not in given:
        return a, u, empty_product(values["a"], values["u"], asked.shape, asked.dtype), x0, asked.axis
    x = check_out(given["out"], asked.shape, asked.results, tensors)
    check_overlap(x, a, u)
    if tensors:
        note_written(given["out"])
    return a, u, x, x0, asked.axis


class _Asked(NamedTuple):
    """The types and shape that arrays are converted to, on the GPU or on the host.

    Parameters
    ----------
    dtype, inputs : DType
        Number types of coefficients and result, and of inputs.
    results : tuple of DType
        Number types that the result may have, `dtype` among them.
    shape, axis
        Shape of the result, and its axis of time, counted from the front.
    """

    dtype: DType
    inputs: DType
    results: tuple[DType, ...]
    shape: tuple[int, ...]
    axis: int


def _check(given: dict[str, Any], values: dict[str, Any], axis: Any) -> _Asked:
    """Check the arguments, of which `values` are the arrays, and return the types and shape to convert them to."""
    dtype = result_dtype(*(_typed(values[name], given[name]) for name in "au"))
    if dtype not in NUMBER_TYPES:
        raise DTypeError(
            f"the GPU engine computes in {listed('and')}, got {dtype}; convert a and u, or solve them on the host"
        )
    shape = broadcast_shape(values["a"], values["u"])
    axis = check_axis(axis, len(shape))
    if "x0" in values:
        check_state(values["x0"].dtype, values["x0"].shape, accumulator(dtype), shape[:axis] + shape[axis + 1 :])
    # Inputs in half precision stay so beside coefficients in float32, because they take half the bytes.
    kind = native(values["u"].dtype)
    inputs = kind if kind in HALVES and dtype == FLOAT32 else dtype
    results = tuple(dict.fromkeys((dtype, inputs, FLOAT32))) if inputs in HALVES else (dtype,)
    return _Asked(dtype, inputs, results, shape, axis)


def _typed(value: Array | DeviceArray, given: Any) -> Any:
    """Return the argument in the form that `recfact.arrays.result_dtype` takes."""
    if isinstance(value, DeviceArray):
        return np.empty(0, value.dtype)
    return given if type(given) in (int, float, complex) else value


def _on_gpu(value: Array | DeviceArray, dtype: DType, name: str) -> DeviceArray:
    return value.converted(dtype) if isinstance(value, DeviceArray) else uploaded(converted(value, dtype, name))
