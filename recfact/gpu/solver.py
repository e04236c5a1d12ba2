"""`solve` on a GPU: the checks of the arrays, and the choice of what solves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recfact.arrays import Array, is_tensor, library_of, to_torch
from recfact.errors import ArrayTypeError
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.cuda_streams import check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, empty_like, layout_like, of_cupy
from recfact.gpu.host_arrays import solve_segments, solve_sequences
from recfact.gpu.operands import given_arrays, on_the_gpu, prepare_host, solve_options
from recfact.gpu.run import run
from recfact.gpu.sequences import of_sequences
from recfact.gpu.solves import ENDLESS, LAST, PART_STEPS, Solve
from recfact.gpu.tuning import tune_first
from recfact.number_types import DType, accumulator
from recfact.strides import Strided, contiguous
from recfact.windows import Full, Window, WindowLike


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
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
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. They are on the host, because the
        launches depend on them.
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

    float16 and bfloat16 are computed in float32 and rounded once. The first solve of its kind compiles a kernel,
    unless `warm_up` did. CuPy keeps it on disk for later processes.

    Algorithms 4 and 5 of the sliding window recurrences paper.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import gpu
    >>> a, u = np.full(3, 0.5), np.ones(3)
    >>> gpu.solve(a, u) if gpu.why_unavailable() is None else np.array([1.0, 1.5, 1.75])
    array([1.  , 1.5 , 1.75])
    """
    window, reverse = solve_options(window, reverse, precision, x0)
    current = current_gpu()
    given = given_arrays(a, u, x0=x0, out=out)
    libraries = [library_of(a), library_of(u)]
    if "gpu" not in libraries:
        require(current)
        tensors = "torch" in libraries
        coefficients, inputs, result, state, axis, offsets = prepare_host(given, axis, tensors, offsets)
        host = coefficients, inputs, result, state, axis, reverse, window, precision
        if offsets is None:
            solve_segments(*host)
        else:
            solve_sequences(*host, offsets)
        return out if out is not None else to_torch(result) if tensors else result
    with on_the_gpu(given, axis, offsets, window, reverse, precision) as (asked, offsets):
        _run(asked, offsets)
    return asked.x.owner if out is None else out


def solve_and_keep(a: Any, u: Any, *, x0: Any = None, axis: int = -1, offsets: Any = None) -> tuple[Any, Any]:
    """Solve arrays on a GPU without a window, and keep states for the gradients.

    Parameters
    ----------
    a, u, x0, axis, offsets
        As for `solve`.

    Returns
    -------
    x : array
        The states, as `solve` returns them.
    kept : array
        The states after every `PART_STEPS` steps, in the type that they are computed in. Time has one place for so many
        steps. The states of a segment begin at the place of its first step, so there may be places with nothing.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError, DeviceError
        As for `solve`.
    """
    current_gpu()
    with on_the_gpu(given_arrays(a, u, x0=x0), axis, offsets) as (asked, offsets):
        x, layout = asked.x, kept_layout(asked.x, asked.axis)
        kept = empty_like(layout.shape, layout.dtype, x.library == "torch", x.device, layout)
        _run(asked._replace(kept=kept), offsets)
    return x.owner, kept.owner


def kept_layout(x: Strided, axis: int) -> Strided:
    """Describe the states that the solve of `x` keeps for the gradients. Neighbouring lines keep theirs together."""
    shape, strides = list(x.shape), list(x.strides)
    shape[axis], strides[axis] = shape[axis] // PART_STEPS, ENDLESS
    wide = accumulator(x.dtype)
    return layout_like(tuple(shape), wide, Strided(wide, tuple(shape), tuple(strides)))


def _run(asked: Solve[DeviceArray], offsets: Array | None) -> None:
    asked = of_sequences(asked, offsets)
    tune_first(asked)
    run(asked)


# Goes from a State to the next one, on CuPy's arrays of types that kernels take together. It takes a function that
# solves along the first axis, coefficients, inputs, states or None, initial states or None, time, offsets, and the
# States' type.
GoOn = Callable[[Callable[..., None], Any, Any, Any, Any, int, "Array | None", DType], Any]


def solve_through(
    go_on: GoOn, a: Any, u: Any, *, x0: Any = None, axis: int = -1, offsets: Any = None, out: Any = None, states: bool
) -> tuple[Any, Any]:
    """Solve CuPy's arrays by a function that knows of States, and that uses the kernels in pieces.

    Parameters
    ----------
    go_on : callable
        The function.
    a, u, x0, axis, offsets, out
        As for `solve`. None of the arrays is a tensor.
    states : bool
        Whether states are wanted.

    Returns
    -------
    x : array or None
        The states.
    end : State
        What `go_on` returned.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError, DeviceError
        As for `solve`.
    """
    current_gpu()
    import cupy

    given = given_arrays(a, u, x0=x0, out=out)
    for name, value in given.items():
        if is_tensor(type(value)):
            raise ArrayTypeError(
                f"{name} must be a CuPy array where a State is taken or returned on a GPU, got a tensor; call "
                "recfact.torch.solve, whose States hold tensors"
            )
    with on_the_gpu(given, axis, offsets, states=states) as (asked, offsets):
        own_a, own_u, own_x, before, axis, *_ = asked
        check_uncaptured("takes or returns a State", "pass x0 with window=Full()")
        entering = None if before is None else before.as_cupy()
        if entering is not None and offsets is not None:
            step = (*own_x.shape[:axis], len(offsets) - 1, *own_x.shape[axis + 1 :])
            entering = cupy.moveaxis(cupy.broadcast_to(entering, step), axis, 0)
        x = own_x.as_cupy() if states else None
        end = go_on(_run_first, own_a.as_cupy(), own_u.as_cupy(), x, entering, axis, offsets, own_a.dtype)
    return (out if out is not None else x), end


def _run_first(a: Any, u: Any, x: Any, x0: Any, window: Window, offsets: Array | None = None, last: Any = None) -> None:
    """Solve CuPy's arrays along their first axis, into `x`, and put the last states into `last`, if there are these."""
    inputs, before = of_cupy(u), None if x0 is None else of_cupy(x0)
    states = _place(inputs) if x is None else of_cupy(x)
    solve = Solve(of_cupy(a), inputs, states, before, 0, window)
    if last is not None:
        solve = solve._replace(kept=of_cupy(last), every=LAST, written=x is not None)
    _run(solve, offsets)


def _place(inputs: DeviceArray) -> DeviceArray:
    """Return where states that nobody wants would lie: where inputs do, if each of these has a place of its own."""
    own = contiguous(inputs.dtype, inputs.shape).strides
    return replace(inputs, strides=own if 0 in inputs.strides else inputs.strides)
