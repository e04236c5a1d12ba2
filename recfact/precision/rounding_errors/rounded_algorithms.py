"""The algorithms in a number format: their own code, with every operation rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, broadcast_state
from recfact.checks import boolean, choice
from recfact.containers import without_labels
from recfact.errors import OptionError
from recfact.number_types import REALS
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.reals import as_rationals, as_reals
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.operands import ALGORITHMS, run_algorithm, run_in
from recfact.precision.time_axis import time_first
from recfact.windows import Full, Window, WindowLike, check_window

NATIVE = {FORMATS[name]: kind.dtype.type for name, kind in REALS.items() if not kind.is_half}
"""Formats whose operations, rounded to nearest, are those of a type of NumPy."""

NATIVE_SCALARS = {FORMATS[name]: kind.dtype.type for name, kind in REALS.items() if kind.is_half}
"""Formats whose operations on single numbers are too: faster on those than ours, if not on arrays."""


def rounded_solve(
    a: Any,
    u: Any,
    format: Any,
    algorithm: str = "sequential",
    *,
    window: WindowLike = Full(),
    accumulate: Any = None,
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: Any = None,
) -> Array:
    """Solve the recurrence by a named algorithm with every operation rounded to a number format.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, which broadcast. They should be numbers of the format.
    format : str, dtype or FloatFormat
        The number format.
    algorithm : {"sequential", "kogge-stone", "brent-kung", "hierarchical", "b2p", "materialized"}
        The algorithm of `recfact.algorithms`, in its own order. "b2p" is "hierarchical" for a jagged window, and
        "materialized" forms the blocks of L and multiplies them by the inputs.
    window : Full, Uniform, Jagged or str
        What is kept.
    accumulate : str, dtype or FloatFormat, optional
        The format of all operations, whose states are rounded to `format` once at the end; `format` itself by default.
        Where it doesn't hold all numbers of `format`, coefficients and inputs are rounded to it first.
    fma : bool, default False
        Whether a product that is added to something is rounded only with the sum.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the result without `axis`; folded into the first input.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    rounding, underflow : str
        How to round, as in ``FloatFormat.round``.
    seed : int or numpy.random.Generator, optional
        Seed of "stochastic".

    Returns
    -------
    ndarray of float64
        Of the shape that `a` and `u` broadcast to. Fractions instead for a format with numbers that float64 doesn't
        hold.

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window, or an option isn't one of its values.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    Kogge and Stone (1973); Brent and Kung (1982); "hierarchical" and "b2p" are Algorithms 2 and 4 of the sliding window
    recurrences paper.

    Examples
    --------
    >>> rounded_solve([0.75] * 4, [1.0] * 4, "float8_e5m2").tolist()
    [1.0, 1.75, 2.0, 2.5]
    >>> rounded_solve([0.75] * 4, [1.0] * 4, "float8_e5m2", accumulate="float32").tolist()
    [1.0, 1.75, 2.5, 2.5]
    """
    storage, inner = formats_of(format, accumulate)
    choice(algorithm, "algorithm", ALGORITHMS)
    window = check_window(window)
    boolean(fma, "fma")
    choice(rounding, "rounding", ROUNDINGS)
    choice(underflow, "underflow", UNDERFLOWS)
    a, u, x0, axis = without_labels(a, u, x0, axis)
    native = NATIVE.get(inner) if storage.fits_float64 else None
    if native is None and algorithm == "sequential" and isinstance(window, Full) and as_numpy(u, "u").ndim <= 1:
        native = NATIVE_SCALARS.get(inner) if storage.fits_float64 else None
    if native is None or fma or (rounding, underflow, inner.overflow) != ("nearest-even", "gradual", "infinity"):
        make = partial(Arithmetic, rounding=rounding, underflow=underflow, seed=seed)
        return np.moveaxis(_solve(make, storage, inner, a, u, x0, axis, algorithm, window, fma), 0, axis)
    coefficients, inputs, state = operands_of(a, u, x0, native, axis)
    with np.errstate(all="ignore"):
        x = run_algorithm(algorithm, coefficients, inputs, state, window=window).astype(np.float64)
    return np.moveaxis(
        x if accumulate is None else Arithmetic(storage, rounding, underflow=underflow).round(x), 0, axis
    )


def overflows(
    a: Any,
    u: Any,
    format: Any,
    algorithm: str = "sequential",
    *,
    window: WindowLike = Full(),
    accumulate: Any = None,
    fma: bool = False,
    x0: Any = None,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: Any = None,
) -> Array:
    """Return which states of `rounded_solve` depend on an operation that overflows.

    The algorithm runs with the exponents of one more bit, and what passes the largest number of the format becomes NaN,
    which stays with all that depends on it but products with 0. So an overflow shows that saturates, or that a directed
    rounding hides; infinities, whose products with 0 are NaN, show by themselves.

    Parameters
    ----------
    a, u, format, algorithm, window, accumulate, fma, x0, rounding, underflow, seed
        As for `rounded_solve`, with ``axis=0``.

    Returns
    -------
    ndarray of bool, shape (n, ...)

    Examples
    --------
    >>> rounded_solve([1, 1, 0], [4, 4, 1], "float4_e2m1fn"), overflows([1, 1, 0], [4, 4, 1], "float4_e2m1fn")
    (array([4., 6., 1.]), array([False,  True, False]))
    """
    storage, inner = formats_of(format, accumulate)
    make = partial(Marking, rounding=rounding, underflow=underflow, seed=seed)
    x = _solve(make, storage, inner, a, u, x0, 0, algorithm, check_window(window), fma)
    return np.asarray(x.astype(np.float64) != x.astype(np.float64))


class Marking(Arithmetic):
    """Arithmetic whose overflows are NaN, except that 0 times one is 0, as it is with what saturates."""

    def __init__(self, format: FloatFormat, rounding: str, underflow: str, seed: Any) -> None:
        wider = replace(format, name="wider", exponent_bits=format.exponent_bits + 1, nan_codes=0, infinities=True)
        super().__init__(wider, rounding, underflow=underflow, seed=seed)
        self.largest = format.max

    def round(self, x: Array) -> Array:
        """Return numbers rounded to the format, NaN beyond it."""
        rounded = super().round(x)
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(rounded) > self.largest, np.nan, rounded)

    def multiply(self, x: Array, y: Array) -> Array:
        """Return x y."""
        return np.where((x == 0) | (y == 0), 0, super().multiply(x, y))

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """Return x y + z."""
        return np.where((x == 0) | (y == 0), self.round(z), super().fma(x, y, z))


def _solve(
    make: Callable[[FloatFormat], Arithmetic],
    storage: FloatFormat,
    inner: FloatFormat,
    a: Any,
    u: Any,
    x0: Any,
    axis: int,
    algorithm: str,
    window: Window,
    fused: bool,
) -> Array:
    """Run an algorithm along an axis, which becomes the first, in the arithmetic that `make` makes of a format."""
    arithmetic = make(inner)
    if inner.holds(storage):
        coefficients, inputs, state = operands_of(a, u, x0, arithmetic.dtype, axis)
    else:
        coefficients, inputs, state = operands_of(a, u, x0, np.float64 if storage.fits_float64 else object, axis)
        coefficients, inputs = (arithmetic.round(x).astype(arithmetic.dtype) for x in (coefficients, inputs))
        state = None if state is None else arithmetic.round(state).astype(arithmetic.dtype)
    x = run_in(arithmetic, algorithm, coefficients, inputs, state, window=window, fused=fused)
    return x if inner is storage else make(storage).round(x)


def formats_of(format: Any, accumulate: Any) -> tuple[FloatFormat, FloatFormat]:
    """Return the format of inputs and states, and that of the operations.

    Raises
    ------
    OptionError
        If the operations would have no zero or no sign for what the inputs have.
    """
    storage = format_of(format)
    inner = storage if accumulate is None else format_of(accumulate)
    if (storage.zero and not inner.zero) or (storage.signed and not inner.signed):
        required = f"must have the zero and the sign that {storage} has"
        raise OptionError(required, "accumulate", given=inner.name, advice="pick a format with both")
    return storage, inner


def operands_of(a: Any, u: Any, x0: Any, dtype: Any, axis: int) -> tuple[Array, Array, Array | None]:
    """Return coefficients, inputs and initial state of one shape, with time along the first axis."""
    coefficients, inputs = time_first(_numbers(a, "a", dtype), _numbers(u, "u", dtype), axis)
    coefficients, inputs = coefficients.copy(), inputs.copy()  # because broadcast arrays are read-only
    if x0 is None:
        return coefficients, inputs, None
    return coefficients, inputs, broadcast_state(_numbers(x0, "x0", dtype), inputs.shape[1:]).copy()


def _numbers(values: Any, name: str, dtype: Any) -> Array:
    """Return real numbers as an array of a dtype; what is too large for it becomes infinite."""
    reals = as_reals(values, name)
    if reals.dtype == object:
        reals = as_rationals(reals)
    try:
        with np.errstate(all="ignore"):
            return reals.astype(dtype)
    except OverflowError:
        raise OptionError(f"{name} must hold numbers that fit into {np.dtype(dtype)}; scale or replace them") from None
