"""`phalanx`: what a Phalanx layer does between its projections, for arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from recfact.arrays import as_numpy, is_tensor, library_of
from recfact.checks import boolean
from recfact.errors import ArrayTypeError
from recfact.gating import check_gates, mixed, time_before_heads
from recfact.solve import solve
from recfact.windows import Jagged, WindowLike, check_window


def phalanx(
    a: Any,
    q: Any,
    k: Any,
    v: Any,
    *,
    state: Any = None,
    return_state: bool = False,
    offsets: Any = None,
    axis: int = -3,
    window: WindowLike = Jagged(16),
) -> Any:
    """Mix steps as a Phalanx layer does: y = q x + v, where x_i = a_i x_{i-1} + k_i v_i in a window.

    Every feature of every head is a recurrence of its own. A head has one coefficient per step. Groups of heads share
    the gates `q` and `k`. The layer itself is `recfact.torch.Phalanx`, whose projections make all four arrays.

    Parameters
    ----------
    a : array_like, shape (..., n, heads)
        Coefficients. Leading axes over which they are shared may be missing, or of size 1.
    q, k : array_like, shape (..., n, groups, d), or None
        Gates of the states (`q`) and of the inputs (`k`). None stands for gates of 1. Head h has the gates of group
        ``h // (heads // groups)``. The number of heads must be a multiple of the number of groups.
    v : array_like, shape (..., n, heads, d)
        Values.
    state : State, optional
        The State that another call with the same window returned, as for `solve`. It has the shape of one step of `v`.
    return_state : bool, default False
        Whether to return the State after the last step as well.
    offsets : array_like of int, shape (N + 1,), optional
        Where sequences that lie one behind the other start, and where the last one ends, as for `solve`.
    axis : int, default -3
        The axis of `v`, `q` and `k` along which time runs. It is -3 if time comes before the heads, or -2 if it comes
        after them, as in (batch, heads, n, d). `a` has the same axes without the last.
    window : Full, Uniform, Jagged or str, default Jagged(16)
        What is kept of the transfer operator.

    Returns
    -------
    array
        The result, in the shape of `v` and in the library of the four arrays. They must all be of one library: NumPy,
        torch, JAX or CuPy. Gradients pass through tensors, as through `recfact.torch.solve`. With `return_state` the
        result is a pair: this array and the State.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or if options exclude each other.
    ArrayTypeError, DTypeError, OptionTypeError
        (TypeErrors) If arrays are of several libraries, or if an argument has a wrong type.

    Notes
    -----
    Section 5 of the sliding window recurrences paper. In a jagged window the result depends on the place of a step in
    its block. The page on the layer says by how much.

    Examples
    --------
    Two heads of one feature that share their gates:

    >>> import numpy as np, recfact as rf
    >>> a, v = np.full((3, 2), 0.5), np.ones((3, 2, 1))
    >>> q, k = np.full((3, 1, 1), 10.0), np.ones((3, 1, 1))
    >>> rf.phalanx(a, q, k, v)[..., 0]
    array([[11. , 11. ],
           [16. , 16. ],
           [18.5, 18.5]])
    """
    window, return_state = check_window(window), boolean(return_state, "return_state")
    arrays, run, whole = _taken({"a": a, "q": q, "k": k, "v": v})
    (a, q, k, v), later = time_before_heads(axis, *arrays)
    check_gates(a, q, k, v)
    keep = {"state": state, "return_state": True} if return_state or state is not None else {}

    def solved(a: Any, u: Any) -> tuple[Any, Any]:
        x = run(a, u, window=window, offsets=offsets, **keep)
        return x if keep else (x, None)

    y, end = None if keep or offsets is not None else whole(a, q, k, v, window), None
    if y is None:
        y, end = mixed(solved, a, q, k, v)
    y = y.swapaxes(-2, -3) if later else y
    return (y, end) if return_state else y


def _taken(given: dict[str, Any]) -> tuple[list[Any], Callable[..., Any], Callable[..., Any]]:
    """Return arrays of one library, and two functions for their third axis from the end.

    The first one solves. The second one mixes whole sequences, or returns None if it doesn't do that at once.
    """
    for name in ("a", "v"):
        if given[name] is None:
            raise ArrayTypeError(f"{name} must be an array, got None; only gates, q and k, may be left out")
    kinds = {name: _kind(value) for name, value in given.items() if value is not None}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} of {kind}" for name, kind in kinds.items())
        raise ArrayTypeError(f"a, q, k and v must be arrays of one library, got {listed}; convert the others")
    (kind,) = set(kinds.values())
    if kind in ("pandas", "polars", "xarray"):
        raise ArrayTypeError(f"a, q, k and v must be arrays without labels, got those of {kind}; pass their numbers")
    if kind == "torch":
        from recfact.torch.mixer import mix
        from recfact.torch.solver import solve as solve_tensors

        return [*given.values()], partial(solve_tensors, dim=-3), mix
    arrays = [
        as_numpy(value, name) if value is not None and kind == "numpy" else value for name, value in given.items()
    ]
    return arrays, partial(solve, axis=-3), _engine(kind)


@cache
def _engine(kind: str) -> Callable[..., Any]:
    """Return the engine's mixer of arrays. Importing one takes long."""
    if kind == "gpu":
        from recfact.gpu.mixer import mixed

        return mixed
    if kind == "numpy":
        from recfact.cpu.mixer import mixed as mixed_here

        return mixed_here
    return lambda *_: None


def _kind(value: Any) -> str:
    return "torch" if is_tensor(type(value)) else library_of(value)
