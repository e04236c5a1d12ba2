"""`solve`: one call for the recurrence, whatever the array."""

from __future__ import annotations

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
from recfact.number_types import NUMBER_TYPES
from recfact.results import prepare
from recfact.state import State
from recfact.windows import Full, Window, WindowLike, check_window

NUMPY = frozenset({"numpy"})


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
        Coefficients and inputs. They broadcast against each other by NumPy's rules, so coefficients shared over
        channels are an axis of size 1. Any strides. The first coefficient multiplies `x0` and isn't read without it.
        A coefficient of 0 is a reset for numbers alone: 0 times NaN or infinity is NaN, as in the plain loop.
        Labels of pandas and xarray must be equal; dimensions are matched by name.
    x0 : array_like, optional
        Initial state, broadcastable against the result without `axis`; zero if left out. It is folded into the first
        input, u_1 + a_1 x_0, and leaves a window with it. Cast to the number type of the computation.
    state : State, optional
        What continues another solve with the same window, exactly (the page on the state), where the last state as `x0`
        would not. Goes without `x0`, `reverse`, a named `algorithm` and a GPU, as `return_state` does.
    return_state : bool, default False
        Return what continues after the last step as well.
    states : bool, default True
        False with `return_state` returns the State alone; no states are written.
    axis : int or str, default -1
        The axis of the result along which the recurrence runs. DataFrames and DataArrays of several axes need it, as
        their libraries name axes: "index" or 0, a dimension's name or its number from 0.
    reverse : bool, default False
        Apply the transpose: x_i = a_{i+1} x_{i+1} + u_i, from the last step to the first. A window is transposed too.
        Scalars that don't commute stand in the order u_j a_j ... a_{i+1}, as in the row u L.
        There is no `x0` then: add what comes from beyond the end, a_{n+1} x_{n+1}, to the last input.
    window : Full, Uniform, Jagged or str, default Full()
        What is kept of the transfer operator; a text such as "jagged:64" is read by `recfact.windows.window_of`.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends: from 0 to the number of steps, and never falling. Each
        segment is a sequence of its own, of which blocks of windows count anew; nothing passes from one to another, not
        even NaN. All sequences along the other axes share them. `x0` then broadcasts against the result with one step
        for each segment, and the first coefficient of a segment isn't read without it.
    algorithm : {"auto", "sequential", "kogge-stone", "brent-kung", "hierarchical"}, default "auto"
        "auto" is the fast engine. The others run the algorithm of that name in the arithmetic of the inputs, for study;
        of these, only "sequential" takes `offsets`.
    out : array, optional
        Where to put the result: of its shape and number type, writable. It may be `u` itself, and mustn't overlap with
        `a` or a part of `u`. GPUs take other number types for halves, see `recfact.gpu.solve`.
    threads : int, optional
        Threads to use at most; by default as many as there are processors. The result doesn't depend on it.
    device : {"gpu"}, optional
        Carry arrays of the host to CuPy's current GPU, piece by piece, and the result back. Arrays on a GPU are solved
        there without being asked, and no others are.

    Returns
    -------
    array
        The states, in the type of `u`, or that of `a` if `u` is plain (NumPy's, a number or a list): a NumPy array, a
        torch tensor, a JAX array, a Series, DataFrame or DataArray with its labels, or what has ``__array__`` as a
        NumPy array; on a GPU, if the arrays are there, a CuPy array or a torch tensor (`recfact.gpu.solve`). On the
        host its strides are those of ``numpy.multiply(a, u)``, or ``torch.mul(a, u)``. float32, float64, complex64 and
        complex128 are computed in their own precision; float16 and bfloat16 accumulate in float32 and are rounded
        once; integers become float64. `object` arrays of any scalars (Fraction, mpf, sympy) are solved by the plain
        loop. With `return_state` the pair of that and a `State`, which stays NumPy's.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or options are out of range or exclude each other.
    DTypeError, ArrayTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or can't take an array.
    DeviceError
        (a RuntimeError) If something is missing for a solve on a GPU; `recfact.gpu.why_unavailable` says the same.

    Notes
    -----
    Results are the same bits from run to run and for every number of threads. What else may change without changing a
    bit, such as the layout, a table says on the page on the engine (docs/engine.md#the-same-bits). Arrays of different
    number types, or of foreign byte order, are converted first, which takes memory. Where no product of coefficients
    underflows, the error of a real state is at most ``sum_j |L_ij| |u_j| gamma_N`` with N = i - j + 7, in windows plus
    at most the lags they keep; gamma_N = N u / (1 - N u) with the unit roundoff u of the type computed in. The page on
    the engine says more.

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
    window = check_window(window)
    choice(algorithm, "algorithm", ("auto", *algorithms.NAMES))
    if threads is not None:
        threads = positive_integer(threads, "threads")
    reverse = boolean(reverse, "reverse")
    stateful = state is not None or return_state is not False or states is not True
    if offsets is not None:
        check_options_with_offsets(algorithm, stateful)
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
        given = {"x0": x0 is not None, "out": out is not None, "algorithm": algorithm != "auto", "device": on_gpu}
        return_state, states = check_options(state, return_state, states, window, reverse, given)
    if on_gpu:
        return _solve_on_gpu(device, algorithm, threads, offsets)(
            a, u, x0=x0, axis=axis, reverse=reverse, window=window, out=out
        )
    tensors = "torch" in libraries
    a, u, x, entering, axis, offsets, result = prepare(a, u, x0, axis, reverse, out, tensors, states, offsets)
    if not stateful:
        solve_numpy(a, u, x, entering, axis, reverse, window, algorithm, threads, offsets)
        return result

    def run(a: Array, u: Array, x: Array, x0: Array | None, window: Window) -> None:
        solve_numpy(a, u, x, x0, 0, False, window, "auto", threads)

    end = solve_on(run, a, u, x, entering, state, axis, window)
    return ((result, end) if states else end) if return_state else result


def check_options_with_offsets(algorithm: str, stateful: bool) -> None:
    """Raise OptionError for what segments don't go with as yet."""
    if algorithm not in ("auto", "sequential"):
        raise OptionError(
            f"algorithm={algorithm!r} takes no offsets; leave one of them out, pass algorithm='sequential', or solve "
            "the segments one by one"
        )
    if stateful:
        required = "don't go with state, return_state or states, which are of one sequence"
        raise OptionError(required, "offsets", advice="solve the segments one by one")


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
    offsets: Array | None = None,
) -> None:
    """Solve into `x` along an axis, on arrays of one number type that have been checked."""
    if a.shape != x.shape:
        a = np.broadcast_to(a, x.shape)
    if u.shape != x.shape:
        u = np.broadcast_to(u, x.shape)
    if x.ndim > 1:
        a, u, x = (np.moveaxis(array, axis, 0) for array in (a, u, x))
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


def _solve_on_gpu(device: Any, algorithm: str, threads: int | None, offsets: Any) -> Callable[..., Any]:
    """Return the entry of the GPU engine, unless an option excludes it."""
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
    if offsets is not None:
        raise OptionError(
            "offsets are for the host only, and the arrays or the device are a GPU's; solve the segments one by one, "
            "or copy the arrays to the host"
        )
    from recfact.gpu.solver import solve as solve_on_gpu

    return solve_on_gpu


@cache
def _engine() -> Callable[..., None]:
    """Return the entry of the CPU engine, which imports numba: only who solves waits for that, and only once."""
    from recfact.cpu.engine import solve_into

    return solve_into
