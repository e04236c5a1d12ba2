"""B2P as tensor cores compute it: inputs and stored blocks in a narrow format, products and sums in a wider one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import boolean, generator
from recfact.containers import without_labels
from recfact.errors import OptionError
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.error_bounds import BoundArithmetic
from recfact.precision.rounding_errors.operands import CASTS, run_in
from recfact.precision.rounding_errors.rounded_algorithms import Marking, operands_of
from recfact.precision.rounding_errors.rounding_counts import check_casts
from recfact.windows import Full, Jagged, Window, WindowLike, check_window


def mixed_precision_solve(
    a: Any,
    u: Any,
    format: Any,
    *,
    accumulate: Any = "float32",
    window: WindowLike = Jagged(16),
    casts: Sequence[str] = CASTS,
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: Any = None,
) -> Array:
    """Solve by blocks of L that are formed, stored in the format of the inputs and multiplied with wider sums.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, numbers of `format`, which broadcast.
    format : str, dtype or FloatFormat
        The format of coefficients, inputs, states and what is cast.
    accumulate : str, dtype or FloatFormat, default "float32"
        The format of all products and sums; it must hold every number of `format`.
    window : Jagged or Full, default Jagged(16)
        What is kept.
    casts : sequence of {"L", "g", "v"}
        What else is stored in `format`: the blocks of L, the cumulative products that bring a carrier to its steps, and
        the carriers. What is left out stays in the wider format.
    fma : bool, default False
        Whether a product that is added to something is rounded only with the sum.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the result without `axis`; folded into the first input in
        the wider format.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    rounding, underflow, seed
        How all of that rounds, as in ``FloatFormat.round``.

    Returns
    -------
    ndarray of float64
        Of the shape that `a` and `u` broadcast to.

    Raises
    ------
    OptionError
        If the wider format doesn't hold the numbers of the other, or an option isn't one of its values.

    Notes
    -----
    Algorithm 4 of the sliding window recurrences paper (B2P); the casts are those of the page on rounding bounds
    ("Mixed precision").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> a, u = pr.format("bfloat16").round([[0.9] * 6, [1.0] * 6])
    >>> mixed_precision_solve(a, u, "bfloat16", window=Jagged(3)).tolist()
    [1.0, 1.8984375, 2.703125, 3.421875, 4.09375, 4.65625]
    """
    formats = _formats(format, accumulate, casts)
    make = partial(Arithmetic, rounding=rounding, underflow=underflow, seed=generator(seed))
    a, u, x0, axis = without_labels(a, u, x0, axis)
    return np.moveaxis(
        _solve(make, formats, a, u, x0, axis, window=check_window(window), casts=casts, fma=fma), 0, axis
    )


def mixed_precision_overflows(
    a: Any,
    u: Any,
    format: Any,
    *,
    accumulate: Any = "float32",
    window: WindowLike = Jagged(16),
    casts: Sequence[str] = CASTS,
    fma: bool = False,
    x0: Any = None,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: Any = None,
) -> Array:
    """Return which states of `mixed_precision_solve` depend on an operation or a cast that overflows.

    Parameters are those of `mixed_precision_solve` with ``axis=0``, and it is done as in `overflows`.

    Returns
    -------
    ndarray of bool, shape (n, ...)

    Examples
    --------
    >>> a, u = [1, 1, 1, 0], [4, 4, 0, 1]
    >>> mixed_precision_solve(a, u, "float4_e2m1fn", window=Jagged(2)).tolist()
    [4.0, 6.0, 6.0, 1.0]
    >>> mixed_precision_overflows(a, u, "float4_e2m1fn", window=Jagged(2)).tolist()
    [False, True, True, False]
    """
    formats = _formats(format, accumulate, casts)
    make = partial(Marking, rounding=rounding, underflow=underflow, seed=generator(seed))
    x = _solve(make, formats, a, u, x0, 0, window=check_window(window), casts=casts, fma=fma).astype(np.float64)
    return np.asarray(np.isnan(x))


def mixed_precision_bound(
    a: Any,
    u: Any,
    format: Any,
    *,
    accumulate: Any = "float32",
    window: WindowLike = Jagged(16),
    casts: Sequence[str] = CASTS,
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
) -> Array:
    """Bound the rounding errors of every state of `mixed_precision_solve`.

    Parameters
    ----------
    a, u, format, accumulate, window, casts, fma, x0, axis, rounding, underflow
        As for `mixed_precision_solve`. Tensor cores cut off what they add, so ``rounding="toward-zero"`` speaks of them
        as far as their order of sums is the one here.

    Returns
    -------
    ndarray of float64
        In the shape of the states, bounds of the distance of the computed states from the exact ones of the window,
        rounded up, if nothing overflows; underflow is part of them.

    Raises
    ------
    OptionError
        If the wider format doesn't hold the numbers of the other, or an option isn't one of its values.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    Derived on the page on rounding bounds ("Mixed precision").

    Examples
    --------
    >>> from recfact import precision as pr
    >>> a, u = pr.format("bfloat16").round([[0.9] * 6, [1.0] * 6])
    >>> x = mixed_precision_solve(a, u, "bfloat16", window=Jagged(3))
    >>> error = (pr.exact.solve(a, u, Jagged(3)) - x).astype(float)
    >>> bool(np.all(np.abs(error) <= mixed_precision_bound(a, u, "bfloat16", window=Jagged(3))))
    True
    """
    storage, wide = _formats(format, accumulate, casts)
    Arithmetic(wide, rounding, underflow=underflow)  # checks the options
    a, u, x0, axis = without_labels(a, u, x0, axis)
    coefficients, inputs, state = operands_of(a, u, x0, np.float64, axis)
    inner, outer = (BoundArithmetic(fmt, rounding, underflow) for fmt in (wide, storage))
    sizes = [None if values is None else np.abs(values).astype(complex) for values in (coefficients, inputs, state)]
    with np.errstate(all="ignore"):
        bound = outer.rounded(
            _run(inner, outer.rounded, *sizes, window=check_window(window), casts=casts, fma=fma)
        ).imag
    return np.moveaxis(np.where(np.isnan(bound), np.inf, bound), 0, axis)


def _formats(format: Any, accumulate: Any, casts: Sequence[str]) -> tuple[FloatFormat, FloatFormat]:
    storage, wide = format_of(format), format_of(accumulate)
    check_casts(casts)
    if not wide.holds(storage):
        required = f"must be a format that holds the numbers of {storage}"
        raise OptionError(required, "accumulate", given=wide.name, advice="pass a wider one")
    return storage, wide


def _solve(
    make: Callable[[FloatFormat], Arithmetic],
    formats: tuple[FloatFormat, FloatFormat],
    a: Any,
    u: Any,
    x0: Any,
    axis: int,
    **options: Any,
) -> Array:
    """Solve along an axis, which becomes the first, in the arithmetics that `make` makes of the formats."""
    outer, inner = map(make, formats)
    coefficients, inputs, state = operands_of(a, u, x0, inner.dtype, axis)
    return outer.round(_run(inner, outer.round, coefficients, inputs, state, **options))


def _run(
    operations: Any,
    to_storage: Callable[[Array], Array],
    a: Any,
    u: Any,
    x0: Any,
    *,
    window: Window,
    casts: Sequence[str],
    fma: bool,
) -> Array:
    if not isinstance(window, Full | Jagged):
        raise OptionError("must be full or jagged, which is what blocks make", "window", given=window)
    fused = boolean(fma, "fma")

    def cast(name: str, values: Array) -> Array:
        return to_storage(values) if name in casts else values

    return run_in(operations, "materialized", a, u, x0, window=window, fused=fused, cast=cast)
