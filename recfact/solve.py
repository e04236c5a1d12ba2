"""`solve`: one call for the recurrence, whatever the array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from recfact import algorithms
from recfact.arrays import Array, library_of
from recfact.checks import boolean, choice, positive_integer
from recfact.containers import CONTAINERS, check_plain, unwrapped
from recfact.continuation import check_options, solve_on
from recfact.errors import DTypeError, OptionError, RecfactError, shown
from recfact.mixed_types import solve_mixed, solve_mixed_segments
from recfact.number_types import NUMBER_TYPES
from recfact.past import Run
from recfact.results import prepare
from recfact.state import State
from recfact.windows import Full, Window, WindowLike, check_window

NUMPY = frozenset({"numpy"})
ALGORITHMS = ("auto", *algorithms.NAMES)


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    state: State | None = None,
    return_state: bool = False,
    states: bool = True,
    axis: int | str = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
    algorithm: str = "auto",
    out: Any = None,
    threads: int | None = None,
    device: str | None = None,
) -> Any:
    """Solve the recurrence x_i = a_i x_{i-1} + u_i along an axis.

    This applies the transfer operator L = (I - AZ)^-1, or its truncation to a window, in one pass over memory.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, with any strides. They broadcast against each other by NumPy's rules: coefficients that
        channels share have an axis of size 1 there. The first coefficient multiplies `x0`. Without `x0` it isn't read.
        A coefficient of 0 forgets finite states only: 0 times NaN or infinity is NaN, as in the plain loop.
        Labels of pandas and xarray must be equal. Dimensions are matched by name.
    x0 : array_like, optional
        Initial state, zero by default. It broadcasts against the result without `axis`, and is cast to the number type
        of the computation. It is added to the first input, u_1 + a_1 x_0, and leaves a window together with it.
    state : State, optional
        The `State` that another solve with the same window returned. The solve continues exactly from there (the page
        on the state). In a window the last state as `x0` would not do that. `state` and `return_state` exclude
        `reverse`, a named `algorithm` and `device`, and `state` excludes `x0`. With `offsets` the State has the shape
        of the result with one step for each segment.
    return_state : bool, default False
        Whether to return the State after the last step as well. With `offsets` it holds the last steps of all segments.
    states : bool, default True
        Whether to return the states. False needs `return_state`: the State alone is returned, and no states are
        written.
    axis : int or str, default -1
        The axis of the result along which the recurrence runs. It must be given for DataFrames and for DataArrays of
        several axes, in the words of their libraries: "index" or 0, the name of a dimension or its number from 0.
    reverse : bool, default False
        Whether to apply the transpose: x_i = a_{i+1} x_{i+1} + u_i, from the last step to the first. The window is
        transposed as well. Scalars that don't commute are multiplied in the order u_j a_j ... a_{i+1}, as in the row
        u L. `x0` is then not allowed. If a state comes from beyond the end, add a_{n+1} x_{n+1} to the last input.
    window : Full, Uniform, Jagged or str, default Full()
        What is kept of the transfer operator. `recfact.windows.window_of` reads a text such as "jagged:64".
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends. The numbers go from 0 to the number of steps and never fall.
        Each segment is a sequence of its own. Blocks of windows count from its start, and nothing passes from one
        segment to another, not even NaN. All sequences along the other axes have the same segments. `x0` then
        broadcasts against the result with one step for each segment. Without it the first coefficient of a segment
        isn't read.
    algorithm : {"auto", "sequential", "kogge-stone", "brent-kung", "hierarchical"}, default "auto"
        "auto" is the fast engine. The others are for study: they run the algorithm of that name in the arithmetic of
        the inputs. Of these, only "sequential" takes `offsets`.
    out : array, optional
        A writable array for the result, of its shape and number type. If `u` is a half type and `a` is float32, it may
        also have the type of `u`. It may be `u` itself. It must not overlap with `a` or with a part of `u`. On a GPU
        other number types are allowed for halves, see `recfact.gpu.solve`.
    threads : int, optional
        The largest number of threads. By default there are as many as processors, if the problem is large enough. The
        result doesn't depend on it.
    device : {"gpu"}, optional
        "gpu" copies arrays of the host to the current GPU of CuPy, piece by piece, and the result back. Without it
        arrays on a GPU are solved on that GPU, and all others on the CPU.

    Returns
    -------
    array
        The states, as an array like `u`, or like `a` if `u` is plain (a NumPy array, a number or a list). That is a
        NumPy array, a torch tensor, a JAX array, or a Series, DataFrame or DataArray with its labels. Other objects
        with ``__array__`` give a NumPy array. Arrays on a GPU give a CuPy array or a torch tensor
        (`recfact.gpu.solve`). On the host the strides are those of ``numpy.multiply(a, u)`` or ``torch.mul(a, u)``.

        float32, float64, complex64 and complex128 are computed in their own precision. float16 and bfloat16 accumulate
        in float32 and are rounded once. Integers become float64. `object` arrays of any scalars (Fraction, mpf, sympy)
        are solved by the plain loop.

        With `return_state` the result is a pair: the states and a `State`. It holds NumPy arrays, or CuPy arrays if `a`
        or `u` is one. Tensors on a GPU go through `recfact.torch.solve`, whose States hold tensors.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or if options are out of range or exclude each other.
    DTypeError, ArrayTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or can't take an array.
    DeviceError
        (a RuntimeError) If something is missing for a solve on a GPU. `recfact.gpu.why_unavailable` says the same.

    Notes
    -----
    Results have the same bits from run to run and for any number of threads. A table on the page on the engine says
    what else doesn't change a bit, such as some changes of the layout (docs/engine.md#the-same-bits).

    If one of `a` and `u` is float16 or bfloat16 and the other is float32, both are read piece by piece. `out` may then
    be float32 or of the type of `u`. Other pairs of number types, and foreign byte order, are converted first, which
    takes memory. So are halves beside float32 with `reverse`, with a named algorithm, or with both segments and a
    State.

    If no product of coefficients underflows, the error of a real state is at most ``sum_j |L_ij| |u_j| gamma_N``. Here
    N = i - j + 7, plus at most the number of lags kept if there is a window. As usual gamma_N = N u / (1 - N u), with
    the unit roundoff u of the type computed in. The page on the engine says more.

    Equations 2.1 to 2.3 of the sliding window recurrences paper; Algorithm 4 (B2P) for ``Jagged(16)``.

    Examples
    --------
    >>> import recfact as rf
    >>> rf.solve([0.5, 0.5, 0.5], [1.0, 1.0, 1.0])
    array([1.  , 1.5 , 1.75])
    >>> rf.solve([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], x0=2.0)
    array([2., 2., 2.])
    >>> rf.solve([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], window=rf.Uniform(lags=2))
    array([1. , 1.5, 1.5])
    >>> x, state = rf.solve([0.5, 0.5], [1.0, 1.0], window=rf.Uniform(lags=2), return_state=True)
    >>> rf.solve([0.5], [1.0], window=rf.Uniform(lags=2), state=state)
    array([1.5])

    Two sequences, of two steps and of one:

    >>> rf.solve([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], offsets=[0, 2, 3])
    array([1. , 1.5, 1. ])
    """
    # Most calls give two arrays and no option. A short one spends its time on questions, so these come first.
    plain = x0 is None and state is None and offsets is None and threads is None and device is None
    plain = plain and return_state is reverse is False and states is True and type(axis) is int and axis == -1
    plain = plain and type(algorithm) is str and algorithm == "auto" and type(window) is Full
    if plain and type(a) is type(u) is np.ndarray:
        short = _short_calls()(a, u, out)
        if short is not None:
            return short
    window = check_window(window)
    if type(algorithm) is not str or algorithm != "auto":
        choice(algorithm, "algorithm", ALGORITHMS)
    if threads is not None:
        threads = positive_integer(threads, "threads")
    if reverse is not False:
        reverse = boolean(reverse, "reverse")
    stateful = state is not None or return_state is not False or states is not True
    if offsets is not None:
        check_algorithm_with_offsets(algorithm)
    if type(a) is type(u) is np.ndarray:  # a short call spends its time on questions like these
        libraries = NUMPY
    else:
        libraries = frozenset((library_of(a), library_of(u)))
        if not libraries.isdisjoint(CONTAINERS):
            if offsets is not None:
                check_plain(x0, "x0", "offsets give it an axis of segments, which has no labels")
            a, u, x0, axis, wrap = unwrapped(libraries, a, u, x0, axis, out)
            options: dict[str, Any] = {"reverse": reverse, "window": window, "algorithm": algorithm}
            options |= {"state": state, "return_state": return_state, "states": states}
            result = solve(a, u, x0=x0, axis=axis, offsets=offsets, threads=threads, device=device, **options)
            if isinstance(result, State):
                return result
            return (wrap(result[0]), result[1]) if return_state else wrap(result)
    on_gpu = device is not None or "gpu" in libraries
    if stateful:
        given = {"x0": x0 is not None, "out": out is not None, "algorithm": algorithm != "auto"}
        given["device"] = on_gpu and "gpu" not in libraries
        return_state, states = check_options(state, return_state, states, window, reverse, given)
    if on_gpu:
        check_gpu_options(device, algorithm, threads)
        if not stateful:
            return _gpu_engine()(a, u, x0=x0, axis=axis, reverse=reverse, window=window, offsets=offsets, out=out)

        def go_on(run: Run, a: Any, u: Any, x: Any, x0: Any, axis: int, offsets: Any, dtype: Any) -> State:
            return solve_on(run, a, u, x, x0, state, axis, window, offsets, dtype)

        result, end = _gpu_states()(go_on, a, u, x0=x0, axis=axis, offsets=offsets, out=out, states=states)
        return ((result, end) if states else end) if return_state else result
    tensors = "torch" in libraries
    solve_arrays = _untraced() if tensors else solve_numpy
    mixed = algorithm == "auto" and not reverse and not (stateful and offsets is not None)
    a, u, x, entering, axis, offsets, result = prepare(a, u, x0, axis, reverse, out, tensors, states, offsets, mixed)
    if not stateful and a.dtype == u.dtype:
        solve_arrays(a, u, x, entering, axis, reverse, window, algorithm, threads, offsets)
        return result

    def run(a: Array, u: Array, x: Array, x0: Array | None, window: Window, offsets: Array | None = None) -> None:
        solve_arrays(a, u, x, x0, 0, False, window, "auto", threads, offsets)

    if a.dtype == u.dtype:
        end = solve_on(run, a, u, x, entering, state, axis, window, offsets)
    else:
        order = time_first(axis, u.ndim)
        a, u, x = a.transpose(order), u.transpose(order), None if x is None else x.transpose(order)
        if offsets is not None and x is not None:
            solve_mixed_segments(run, a, u, x, entering, window, offsets)
            return result
        end = solve_mixed(run, a, u, x, entering, state, window)
    return ((result, end) if states else end) if return_state else result


def check_algorithm_with_offsets(algorithm: str) -> None:
    """Raise OptionError for an algorithm that knows no segments."""
    if algorithm not in ("auto", "sequential"):
        raise OptionError(
            f"algorithm={algorithm!r} takes no offsets; leave one of them out, pass algorithm='sequential', or solve "
            "the segments one by one"
        )


def solve_numpy(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    axis: int,
    reverse: bool,
    window: Window,
    algorithm: str,
    threads: int | None,
    offsets: Array | None,
) -> None:
    """Solve into `x` along an axis, on arrays of one number type and shape that have been checked."""
    if axis:
        order = time_first(axis, x.ndim)
        a, u, x = a.transpose(order), u.transpose(order), x.transpose(order)
    if algorithm == "auto" and x.dtype in NUMBER_TYPES:
        _engine()(a, u, x, x0, reverse=reverse, window=window, threads=threads, offsets=offsets)
        return
    name = "sequential" if algorithm == "auto" else algorithm
    try:
        if offsets is None:
            x[...] = algorithms.run(name, a, u, x0, window=window, reverse=reverse)
        else:
            x[...] = algorithms.run_segments(a, u, x0, offsets, window=window, reverse=reverse)
    except TypeError as error:  # dates, Decimals beside floats
        if x.dtype.kind != "O" or isinstance(error, RecfactError):
            raise
        raise DTypeError(f"a, u and x0 must be numbers that multiply and add, got some that don't: {error}") from error


@cache
def _untraced() -> Callable[..., None]:
    """Return `solve_numpy` as a function that torch.compile calls and doesn't look into, for a call with tensors."""
    untraced: Callable[..., None] = sys.modules["torch"].compiler.disable(solve_numpy)
    return untraced


@cache
def time_first(axis: int, ndim: int) -> tuple[int, ...]:
    """Return the order of axes in which time is the first."""
    return axis, *range(axis), *range(axis + 1, ndim)


def check_gpu_options(device: Any, algorithm: str, threads: int | None) -> None:
    """Raise OptionError for what excludes a solve on a GPU."""
    if device is not None and not (isinstance(device, str) and device == "gpu"):
        raise OptionError(
            f"device must be 'gpu', got {shown(device)}; leave it out to solve where arrays are, NumPy's on the host"
        )
    if algorithm != "auto":
        raise OptionError(
            f"algorithm={algorithm!r} runs on the host only, and the arrays or the device are a GPU's; leave "
            "algorithm out, or copy the arrays to the host"
        )
    if threads is not None:
        raise OptionError(f"threads={threads} is for the host only, and the solve runs on a GPU; leave it out")


@cache
def _engine() -> Callable[..., None]:
    """Return the entry of the CPU engine, which imports llvmlite: only who solves waits for that, and only once."""
    from recfact.cpu.engine import solve_into

    return solve_into


@cache
def _short_calls() -> Callable[..., Array | None]:
    """Return the entry of the CPU engine for short calls."""
    from recfact.cpu.short_calls import solve_short

    return solve_short


def _gpu_states() -> Callable[..., Any]:
    """Return the entry of the GPU engine for solves that take or return a State."""
    from recfact.gpu.solver import solve_through

    return solve_through


def _gpu_engine() -> Callable[..., Any]:
    """Return the entry of the GPU engine, which checks the rest of the arguments."""
    from recfact.gpu.solver import solve as solve_on_gpu

    return solve_on_gpu
