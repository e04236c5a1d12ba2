"""`warm_up` and `warm_up_phalanx`: kernels compiled before they are needed."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from recfact.array_functions import broadcast_to
from recfact.arrays import SCALARS, Array, result_dtype
from recfact.checks import boolean
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError, shown
from recfact.gating import check_gates, time_before_heads
from recfact.gpu.availability import current_gpu, require
from recfact.gpu.device_arrays import DeviceArray, laid_out, layout_like
from recfact.gpu.gradients import asked_gradients, starts_from_kept
from recfact.gpu.mixer import fit_together, with_gates
from recfact.gpu.operands import check_types, given_arrays, solve_options
from recfact.gpu.run import Prepared, device_of, launches_of, prepared_for
from recfact.gpu.sequences import sequences_of, together
from recfact.gpu.solver import kept_layout
from recfact.gpu.solves import Solve
from recfact.number_types import FLOAT32, HALVES, NUMBER_TYPES, accumulator
from recfact.strides import Strided, contiguous
from recfact.windows import Full, Jagged, Window, WindowLike, check_window, within


def warm_up(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
    precision: str = "full",
    gradients: bool = False,
) -> tuple[str, ...]:
    """Compile the kernels of a solve for CuPy's current GPU, without arrays.

    Afterwards `solve` compiles nothing for such arrays in this process. A CUDA graph can then capture it at once. CuPy
    keeps what was compiled on disk, so later processes only load it.

    Parameters
    ----------
    a, u : number, or object with ``shape`` and ``dtype``
        What is known of coefficients and inputs: arrays of any library on any device, torch's meta tensors, or
        ``jax.ShapeDtypeStruct``. Their numbers aren't read. The arrays to solve are taken to be in C order.
    x0 : number, or object with ``shape`` and ``dtype``, optional
        The same of initial states.
    axis, reverse, window, offsets, precision
        As for `recfact.gpu.solve`.
    gradients : bool, default False
        Compile what `recfact.torch.solve` launches with gradients as well: the solve that keeps states for them, if it
        does, and the kernel that makes them, for gradients of the states that lie as the states do. If `a` is a number,
        it has no gradient.

    Returns
    -------
    tuple of str
        The kernels that are launched, each with the reason for it. Where no kernel makes the gradients at once, there
        is none of them. The solves that they take are then compiled when they are first needed.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError, DeviceError
        As for `recfact.gpu.solve`, and if `gradients` are asked of the transpose.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import gpu
    >>> u = np.broadcast_to(np.float32(0), (8192, 4096, 16))  # takes no memory
    >>> if gpu.why_unavailable() is None:
    ...     print(*gpu.warm_up(u[:, :, :1], u, axis=1, window="jagged:16"))
    """
    window, reverse = solve_options(window, reverse, precision, x0)
    if boolean(gradients, "gradients") and reverse:
        raise OptionError("don't go with reverse", "gradients", advice="leave one of them out")
    require(current_gpu())
    given = given_arrays(a, u, x0=x0)
    known = {name: _described(value, name) for name, value in given.items()}
    asked = check_types(given, known, axis, offsets)
    kinds = {"a": asked.dtype, "u": asked.inputs, "x0": accumulator(asked.dtype)}
    arrays = {name: laid_out(value.shape, kinds[name]) for name, value in known.items()}
    x = laid_out(asked.shape, asked.dtype)
    solve = Solve(arrays["a"], arrays["u"], x, arrays.get("x0"), asked.axis, window, reverse, precision)
    found = _launches(solve, asked.offsets)
    if gradients and type(a) in SCALARS:
        found += _launches(solve._replace(u=x, x0=None, reverse=True), asked.offsets)
    elif gradients and 0 not in x.shape:
        # torch takes arrays in their own number types, and numbers and integers in that of the solve.
        taken = {name for name in known if type(given[name]) not in SCALARS and known[name].dtype in NUMBER_TYPES}
        own = {name: known[name] if name in taken else _hollow(arrays[name]) for name in known}
        found += _of_gradients(solve, own["a"], own["u"], own.get("x0"), asked.offsets)
    return _reasons(found)


def warm_up_phalanx(
    a: Any, q: Any, k: Any, v: Any, *, axis: int = -3, window: WindowLike = Jagged(16), gradients: bool = False
) -> tuple[str, ...]:
    """Compile the kernels of `recfact.phalanx` for CuPy's current GPU, without arrays.

    It does for the layer what `warm_up` does for solves.

    Parameters
    ----------
    a, q, k, v : object with ``shape`` and ``dtype``, or None for gates
        What is known of the arrays of `recfact.phalanx`, as for `warm_up`. Those of `recfact.torch.Phalanx` have the
        shapes (batch, n, heads), (batch, n, groups, d) twice, and (batch, n, heads, d). Its coefficients are in float32
        even where the others are in half precision.
    axis, window
        As for `recfact.phalanx`.
    gradients : bool, default False
        Compile what the layer launches where torch wants gradients as well: the solve of k v, and its gradients.

    Returns
    -------
    tuple of str
        The kernels that are launched, each with the reason for it.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or the window is none.
    ArrayTypeError, DTypeError, DeviceError
        As for `warm_up`.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import gpu
    >>> v = np.broadcast_to(np.float16(0), (1, 8192, 128, 16))  # takes no memory
    >>> if gpu.why_unavailable() is None:
    ...     print(*gpu.warm_up_phalanx(v[..., 0], v[:, :, :8], v[:, :, :8], v))
    """
    window, gradients = check_window(window), boolean(gradients, "gradients")
    require(current_gpu())
    given = {"a": a, "q": q, "k": k, "v": v}
    known = {name: _described(one, name) for name, one in given.items() if one is not None or name in "av"}
    turned, _ = time_before_heads(axis, known["a"], known.get("q"), known.get("k"), known["v"])
    check_gates(*turned)
    found = _of_mixer(turned, window)
    if not found or gradients:
        own = known["v"]
        u = _hollow(contiguous(result_dtype(known.get("k", own), own), own.shape))
        more = warm_up(known["a"][..., None], u, axis=axis, window=window, gradients=gradients)
        return tuple(dict.fromkeys(_reasons(found) + more))
    return _reasons(found)


def _launches(solve: Solve[DeviceArray], offsets: Array | None) -> list[Prepared]:
    return [prepared for _, prepared in launches_of(together(solve, offsets)) if prepared]


def _reasons(found: list[Prepared]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(prepared.launch.reasons[0] for prepared in found))


def _of_gradients(
    solve: Solve[DeviceArray], a: Array, u: Array, x0: Array | None, offsets: Array | None
) -> list[Prepared]:
    """Compile what `recfact.torch.solve` launches for gradients, besides the solve alone.

    Coefficients, inputs and initial states are in their own number types.
    """
    shape, axis, count = solve.x.shape, solve.axis, 1 if offsets is None else len(offsets) - 1
    rows = shape[axis], *shape[:axis], *shape[axis + 1 :]
    x = _time_first(_hollow(solve.x), shape, axis)
    found, kept = list[Prepared](), None
    multiprocessors = device_of(solve.x.device).multiprocessors
    if (
        isinstance(solve.window, Full)
        and u.dtype in HALVES
        and accumulator(x.dtype) == FLOAT32
        and starts_from_kept(a.shape, shape, axis - len(shape), count, multiprocessors)
    ):
        kept = _placed(kept_layout(_placed(x), 0))
        found = _launches(solve._replace(kept=_placed(kept_layout(solve.x, axis))), offsets)
    longest = shape[axis] if offsets is None else int(np.diff(offsets).max())
    window = within(solve.window, longest)
    states = isinstance(window, Full) and kept is None and x.dtype not in HALVES
    read = x if states else broadcast_to(_time_first(u, shape, axis), rows)
    every = _time_first(a, shape, axis)
    every = broadcast_to(every, (rows[0], *every.shape[1:]))
    asked = asked_gradients(
        _placed(every),
        _placed(read),
        _placed(x),
        window,
        None if offsets is None else sequences_of(offsets),
        (None if a.size < every.size else a.dtype, None if u.size < read.size else u.dtype),  # what is summed further
        states,
        kept,
        None if x0 is None else Strided(x0.dtype, (count,), (0,)),
    )
    prepared = None if asked is None else prepared_for(asked)
    return found if prepared is None else [*found, prepared]


def _of_mixer(arrays: tuple[Array, Array | None, Array | None, Array], window: Window) -> list[Prepared]:
    """Compile the launch of a mixer, if there is one for all of it."""
    if arrays[1] is None or arrays[2] is None:
        return []
    a, q, k, v = (_placed(one) for one in arrays if one is not None)
    if not fit_together(a, q, k, v):
        return []
    place = _placed(layout_like(v.shape, a.dtype, v))
    try:
        prepared = prepared_for(with_gates(a, q, k, v, place, window))
    except ShapeError:
        return []
    return [prepared] if prepared else []


def _time_first(array: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return an array with all axes of a shape, time first, as gradients take it. Axes of size 1 keep their size."""
    return np.moveaxis(array[(None,) * (len(shape) - array.ndim)], axis, 0)


def _hollow(like: Strided) -> Array:
    """Return a NumPy array with memory for one number at most, whose numbers lie as those of another one."""
    return as_strided(np.empty(1, like.dtype), like.shape, like.strides)


def _placed(like: Strided | Array) -> DeviceArray:
    """Return an array of the current GPU without memory, whose numbers lie as those of another one."""
    return replace(laid_out(like.shape, like.dtype), strides=like.strides)


def _described(value: Any, name: str) -> Array:
    """Return a hollow array in C order for what is known of one, or for a number."""
    if type(value) in SCALARS:
        return np.asarray(value)
    try:
        shape = tuple(map(index, value.shape))
        kind = str(value.dtype).removeprefix("torch.")
    except (AttributeError, TypeError) as error:
        raise ArrayTypeError(
            f"{name} must be a number or have a shape and a dtype, got {shown(value)}; pass numpy.empty(shape, dtype)"
        ) from error
    try:
        return _hollow(contiguous(np.dtype(kind), shape))
    except TypeError as error:
        raise DTypeError(f"{name} must be of a number type that NumPy or ml_dtypes has, got {kind}") from error
