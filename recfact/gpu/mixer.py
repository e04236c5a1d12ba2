"""The mixer of a Phalanx layer by one launch, for arrays on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from recfact.arrays import library_of
from recfact.errors import ArrayTypeError, ShapeError
from recfact.gating import check_gates, time_before_heads
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import caller_stream
from recfact.gpu.device_arrays import DeviceArray, as_device_array, empty_like
from recfact.gpu.run import prepared_for, start
from recfact.gpu.solves import Solve
from recfact.gpu.tuning import fastest, tune_first
from recfact.number_types import FLOAT32, HALVES, NUMBER_TYPES
from recfact.windows import Jagged, Window, WindowLike, check_window


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
    with gated_solve(a, q, k, v, window) as solve:
        if solve is None:
            return None
        tune_first(solve)
        try:
            prepared = prepared_for(solve)
        except ShapeError:
            return None
        if prepared is None:
            return None
        start(solve, prepared)
    return solve.x.owner


def tune_phalanx(
    a: Any, q: Any, k: Any, v: Any, *, axis: int = -3, window: WindowLike = Jagged(16)
) -> dict[str, float]:
    """Time the kernels that `recfact.phalanx` may launch, and launch the fastest for arrays of this kind from now on.

    It does for the layer what `tune` does for solves.

    Parameters
    ----------
    a, q, k, v, axis, window
        As for `recfact.phalanx`, with both gates. The arrays are on a GPU, CuPy arrays or tensors.

    Returns
    -------
    dict of str to float
        Seconds of a launch by the name of the plan, the fastest first. It is empty if no kernel does all at once:
        `recfact.phalanx` takes a product, a solve, and a product and a sum instead.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or the window is none.
    ArrayTypeError, DTypeError, DeviceError
        As for `recfact.gpu.solve`, and if gates are missing.

    Examples
    --------
    >>> from recfact import gpu
    >>> if gpu.why_unavailable() is None:
    ...     import cupy
    ...
    ...     v, gate = cupy.ones((8192, 128, 16), "float16"), cupy.ones((8192, 8, 16), "float16")
    ...     print(gpu.tune_phalanx(v[..., 0] / 2, gate, gate, v))
    """
    window = check_window(window)
    current_gpu()
    for name, array in {"a": a, "q": q, "k": k, "v": v}.items():
        if array is None or library_of(array) != "gpu":
            raise ArrayTypeError(
                "must be on a GPU, to time kernels there", name, given=array, advice="use cupy.asarray"
            )
    arrays, _ = time_before_heads(axis, a, q, k, v)
    check_gates(*arrays)
    with gated_solve(*arrays, window) as solve:
        try:
            return {} if solve is None else fastest(solve)
        except ShapeError:
            return {}


@contextmanager
def gated_solve(a: Any, q: Any, k: Any, v: Any, window: Window) -> Iterator[Solve[DeviceArray] | None]:
    """Make the stream of the mixer's result CuPy's current one, and describe the mixer as a solve with gates.

    Parameters are those of `mixed`. It yields None where arrays are such that kernels don't take them together.
    """
    if q is None or k is None:
        yield None
        return
    current_gpu()
    own_a, own_q, own_k, own = (
        as_device_array(array, name) for array, name in ((a, "a"), (q, "q"), (k, "k"), (v, "v"))
    )
    if not fit_together(own_a, own_q, own_k, own):
        yield None
        return
    require(own.device)
    tensors = own.library == "torch"
    with caller_stream((own_a, own_q, own_k, own), own.device, tensors):
        y = empty_like(own.shape, own_a.dtype, tensors, own.device, own)
        yield with_gates(own_a, own_q, own_k, own, y, window)


def fit_together(a: DeviceArray, q: DeviceArray, k: DeviceArray, v: DeviceArray) -> bool:
    """Say whether a kernel takes such arrays of a mixer together."""
    return (
        q.shape == k.shape
        and len({array.device for array in (a, q, k, v)}) == 1
        and {q.dtype, k.dtype} == {v.dtype}
        and v.dtype in NUMBER_TYPES
        and (a.dtype == v.dtype or (v.dtype in HALVES and a.dtype == FLOAT32))
    )


def with_gates(
    a: DeviceArray, q: DeviceArray, k: DeviceArray, v: DeviceArray, y: DeviceArray, window: Window
) -> Solve[DeviceArray]:
    """Describe a mixer, with a place for its result."""
    every = replace(a, shape=(*a.shape, 1), strides=(*a.strides, 0))
    return Solve(every, v, y, None, len(v.shape) - 3, window, gates=(k, q))
