"""Verification of one recurrence: its errors, measured in exact arithmetic, against the bounds proved for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, broadcast_state, native
from recfact.checks import callback, choice
from recfact.containers import without_labels
from recfact.errors import OptionError
from recfact.precision.exact.measured import Measured, UndecidedError, measure, truncation_error
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_rationals, as_reals, in_decimal
from recfact.precision.rounding_errors.counted_bounds import engine_bound
from recfact.precision.time_axis import time_first
from recfact.precision.truncation.posterior_bounds import posterior_truncation_bound
from recfact.precision.truncation.truncation_bounds import pointwise_truncation_bound
from recfact.precision.verification.computations import (
    COMPUTATIONS,
    accumulator_of,
    compute,
    engine_states,
    rounding_bound,
)
from recfact.precision.verification.result import CheckedError, Verification, with_time_at
from recfact.windows import Full, Window, WindowLike, check_window

DEFAULTS = {"accumulate": None, "fma": False, "rounding": "nearest-even", "underflow": "gradual"}
"""Options of the arithmetic as they are if nothing else is asked for."""


def verify(
    a: Any,
    u: Any,
    *,
    window: WindowLike = Full(),
    format: Any = None,
    algorithm: str = "sequential",
    x0: Any = None,
    axis: int = -1,
    threads: int | None = None,
    accumulate: Any = None,
    fma: bool = False,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: int = 0,
    progress: Callable[[float], object] | None = None,
) -> Verification:
    """Run a recurrence in a number format, measure its errors exactly, and compare them with their proved bounds.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, which broadcast. What isn't a number of the format is rounded to it first, to nearest;
        the result says how much that changed, and all errors are those of the rounded ones.
    window : Full, Uniform, Jagged or str
        What is kept.
    format : str, dtype or FloatFormat, optional
        The number format of coefficients, inputs and states; that of the arrays if not given.
    algorithm : str, default "sequential"
        What computes the states: an algorithm of `rounded_solve`; "engine" for `recfact.solve`, which has formats and
        an arithmetic of its own; or "mixed-precision" for `mixed_precision_solve` with all casts. The engine is called
        with the arrays as they are here, in their own layout, if it computes in the format with them.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the result without `axis`. For the engine it is rounded to
        the type that is accumulated in.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    threads : int, optional
        Threads of the engine, as for `recfact.solve`; the other algorithms take none.
    accumulate, fma, rounding, underflow
        The arithmetic, as in `rounded_solve`. Mixed precision accumulates in binary32 if no other format is given, and
        the engine fuses products and sums in any case.
    seed : int, default 0
        Seed of the rounding "stochastic".
    progress : callable, optional
        Is called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    Verification
        Prints as a table. Its `holds` says whether every error of every state is within its bound.

    Raises
    ------
    OptionError
        If a number is NaN or infinite or out of the format's range, the algorithm doesn't make the window, or there are
        threads for another one than the engine.
    ShapeError
        If the shapes don't fit together.
    DTypeError
        If they aren't real numbers.

    Notes
    -----
    Three errors of each state: truncation, the exact states less those of the window; rounding, the computed states
    less the exact ones of the window; and in total. The bound of truncation is the smaller of
    `pointwise_truncation_bound`, for the largest coefficient and input, and `posterior_truncation_bound`, from the
    computed states; that of rounding is `forward_bound`, `engine_bound` or `mixed_precision_bound`; and that of both is
    their sum. Measured errors are enclosed by fixed-point integers with tracked radii, with as many bits as the
    comparison takes (`recfact.precision.exact`).

    The errors and their bounds are those of the page on verification.

    Examples
    --------
    >>> from recfact import Jagged
    >>> v = verify([0.75] * 12, [1.0] * 12, window=Jagged(4), format="bfloat16", algorithm="hierarchical")
    >>> v.holds, v.truncation.at, v.truncation.holds
    (True, (8,), True)
    """
    window = check_window(window)
    choice(algorithm, "algorithm", COMPUTATIONS)
    if threads is not None and algorithm != "engine":
        raise OptionError(f"threads are those of the algorithm 'engine', got {algorithm!r}; leave one of them out")
    a, u, x0, axis = without_labels(a, u, x0, axis)
    fmt = _default_format(a, u) if format is None else format_of(format)
    given = [(as_reals(a, "a"), "a", fmt), (as_reals(u, "u"), "u", fmt)]
    if x0 is not None:
        given.append((as_reals(x0, "x0"), "x0", accumulator_of(fmt) if algorithm == "engine" else fmt))
    kept = [_in_format(values, kind, name) for values, name, kind in given]
    changes = [_change(before, after) for (before, *_), after in zip(given, kept, strict=True)]
    coefficients, inputs = time_first(kept[0], kept[1], axis)
    shape = inputs.shape
    state = None if x0 is None else broadcast_state(kept[2], shape[1:])

    options = {"accumulate": accumulate, "fma": fma, "rounding": rounding, "underflow": underflow}
    share = _Share(progress, work=4 * int(np.prod(shape)))
    case = (coefficients, inputs, fmt, algorithm)
    if algorithm == "engine":
        start = None if x0 is None else kept[2]
        states = engine_states(a, u, fmt, window=window, x0=start, axis=axis, threads=threads, **options)
        x = np.moveaxis(states, axis, 0)
        lost, bound = ~np.isfinite(x), engine_bound(coefficients, inputs, fmt, window=window, x0=state, axis=0)
    else:
        x, lost = compute(*case, window=window, x0=state, seed=seed, **options)
        bound = rounding_bound(*case, window=window, x0=state, **options)
    bound = np.where(lost, 0.0, bound)
    share.add(x.size)

    cut = np.zeros(shape)
    for channel in np.ndindex(shape[1:]):
        at = (slice(None), *channel)
        own, start = coefficients[at], None if state is None else state[channel]
        cut[at] = truncation_bounds(own, inputs[at], window, start)
        if not isinstance(window, Full) and not lost[at].any() and np.isfinite(bound[at]).all():
            cut[at] = np.minimum(cut[at], posterior_truncation_bound(own, x[at], window, rounding=bound[at]))
    truncation, rounded, total = _Errors(cut), _Errors(bound, lost), _Errors(sum_of_bounds(cut, bound), lost)
    finite = np.where(lost, 0, x)
    for channel in np.ndindex(shape[1:]):
        at = (slice(None), *channel)
        own, fed, start = coefficients[at], inputs[at], None if state is None else state[channel]
        if not isinstance(window, Full):
            truncation.add(at, truncation_error(own, fed, window, start, share.add))
        rounded.add(at, measure(own, fed, finite[at], window, start, share.add))
        total.add(at, measure(own, fed, finite[at], Full(), start, share.add))
    share.finish()
    x = np.moveaxis(x, 0, axis)
    return Verification(
        format=fmt,
        algorithm=algorithm,
        window=window,
        options={name: value for name, value in options.items() if value != DEFAULTS[name]},
        shape=x.shape,
        inputs_changed=sum(count for count, _ in changes),
        inputs_change=max(change for _, change in changes),
        nonfinite=int(np.count_nonzero(lost)),
        first_nonfinite=with_time_at(np.argwhere(lost)[0], axis) if lost.any() else None,
        truncation=truncation.checked(axis),
        rounding=rounded.checked(axis),
        total=total.checked(axis),
        x=x,
    )


class _Share:
    """What `progress` is told."""

    def __init__(self, progress: Callable[[float], object] | None, work: int) -> None:
        self.progress, self.work, self.done = callback(progress, "progress"), work, 0

    def add(self, steps: int) -> None:
        self.done += steps
        if self.progress is not None:
            self.progress(min(self.done / max(self.work, 1), 1.0))

    def finish(self) -> None:
        self.add(max(self.work - self.done, 0))


class _Errors:
    """One kind of error, channel by channel."""

    def __init__(self, bound: Array, lost: Any = False) -> None:
        self.lost = np.broadcast_to(lost, bound.shape)
        self.bound, self.upper = np.where(self.lost, 0.0, bound), np.zeros(bound.shape)
        self.holds: bool | None = True

    def add(self, at: Any, error: Measured) -> None:
        self.upper[at] = np.where(self.lost[at], 0.0, error.upper)
        try:
            holds: bool | None = bool(error.within(np.where(self.lost[at], np.inf, self.bound[at])).all())
        except UndecidedError:
            holds = None
        self.holds = False if False in (self.holds, holds) else None if None in (self.holds, holds) else True

    def checked(self, axis: int) -> CheckedError:
        return CheckedError.of(self.upper, self.bound, self.holds, axis)


def truncation_bounds(a: Array, u: Array, window: Window, x0: Any = None) -> Array:
    """Return what the window may leave out of each state, for the largest coefficient and input of one sequence."""
    if isinstance(window, Full) or len(u) == 0:
        return np.zeros(len(u))
    used = a[1:] if x0 is None else a
    rho, nu = np.max(np.abs(used), initial=0), np.max(np.abs(u), initial=0)
    return pointwise_truncation_bound(window, rho, len(u), nu=nu, x0=0 if x0 is None else abs(x0))


def sum_of_bounds(truncation: Array, rounding: Array) -> Array:
    """Return what both errors together stay below, rounded up."""
    with np.errstate(all="ignore"):
        total = truncation + rounding
        return np.where((truncation == 0) | (rounding == 0), total, np.nextafter(total, np.inf))


def _default_format(a: Any, u: Any) -> FloatFormat:
    kinds = {str(native(as_numpy(values, name).dtype)) for values, name in ((a, "a"), (u, "u"))}
    dtypes = [kind for kind in kinds if "float" in kind]
    if len(kinds) == 1 and dtypes:
        return format_of(dtypes[0])
    raise OptionError(
        f"must be given where coefficients and inputs are not floats of one type, but {' and '.join(sorted(kinds))}",
        "format",
        instead={"format": "float32"},
        advice="or another",
    )


def _in_format(values: Array, fmt: FloatFormat, name: str) -> Array:
    """Return numbers rounded to the format, to nearest."""
    rounded = np.asarray(fmt.round(values))
    good = np.isfinite(rounded.astype(np.float64))
    if not good.all():
        required = f"must hold finite numbers in the range of {fmt}, up to {in_decimal(fmt.max)}"
        raise OptionError(required, name, given=values[~good].flat[0], advice="scale or replace it")
    return rounded.astype(np.float64) if fmt.fits_float64 else rounded


def _change(before: Array, after: Array) -> tuple[int, float]:
    """Return how many numbers the rounding changed, and by what share at most."""
    changed = np.asarray(before != after, dtype=bool)
    old, new = before[changed], after[changed]
    if object in (old.dtype, new.dtype):
        old, new = as_rationals(old), as_rationals(new)
        return len(old), float(max((abs(n / o - 1) if o else 1.0 for o, n in zip(old, new, strict=True)), default=0.0))
    with np.errstate(all="ignore"):
        shares = np.where(old == 0, 1.0, np.abs((new - old) / old))
    return len(old), float(shares.max(initial=0.0))
