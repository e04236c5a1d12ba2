"""Verification of one recurrence: its errors, measured in exact arithmetic, against the bounds proved for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, native
from recfact.checks import callback
from recfact.errors import OptionError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.exact.measured import Measured, UndecidedError, measure, truncation_error
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_rational, as_rationals, as_reals, in_decimal
from recfact.precision.sequences import Pieces, operands_by_segment, segments_of, time_first, without_labels_of
from recfact.precision.truncation.truncation_bounds import bound_of_one, pointwise_truncation_bound
from recfact.precision.verification.computations import (
    EngineTask,
    accumulator_of,
    compute,
    rounding_bound,
    task_of,
)
from recfact.precision.verification.result import CheckedError, Verification, with_time_at
from recfact.windows import Full, Window, WindowLike


def verify(
    a: Any,
    u: Any,
    *,
    window: WindowLike = Full(),
    format: Any = None,
    algorithm: str = "sequential",
    x0: Any = None,
    axis: int = -1,
    offsets: Any = None,
    threads: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> Verification:
    """Run a recurrence in a number format, measure its errors exactly, and compare them with their proved bounds.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They broadcast. Numbers that aren't in the format are first rounded to it, to nearest,
        by way of the format of the operands if there is one. The result says how much this changed them. All errors
        are those for the rounded numbers.
    window : Full, Uniform, Jagged or str
        What is kept.
    format : str, dtype, FloatFormat, BlockFormat or Arithmetic, optional
        The number format of coefficients, inputs and states, or the whole arithmetic. By default it is the format of
        the arrays.
    algorithm : str, default "sequential"
        The algorithm for the states: one of `rounded_solve`, or "engine" for `recfact.solve`. The engine has its own
        formats and arithmetic, and always fuses products and sums. If it computes in the format with the given arrays,
        it is called with these arrays in their own layout.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the result without `axis`. For the engine it is rounded to
        the type in which the engine accumulates.
    axis : int, default -1
        The axis of the result along which the recurrence runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. Each segment is a sequence of its
        own.
    threads : int, optional
        Number of threads of the engine, as for `recfact.solve`. The other algorithms take none.
    progress : callable, optional
        Is called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    Verification
        The result, which prints as a table. Its `holds` says whether every error of every state is within its bound.

    Raises
    ------
    OptionError
        If a number is NaN, infinite or out of the range of the format, if the algorithm doesn't make the window, or if
        `threads` is given for an algorithm other than the engine.
    ShapeError
        If the shapes don't fit together.
    DTypeError
        If the numbers aren't real.

    Notes
    -----
    Each state has three errors, and each error has a bound:

    * Truncation: the exact state minus that of the window. The bound is the smaller of two:
      `pointwise_truncation_bound`, for the largest coefficient and input, and `posterior_truncation_bound`, from the
      computed states.
    * Rounding: the computed state minus the exact one of the window. The bound is `forward_bound` or `engine_bound`.
    * The total of both. The bound is the sum of the two bounds.

    Fixed-point integers with tracked radii enclose the measured errors, with as many bits as the comparison needs
    (`recfact.precision.exact`).

    The errors and their bounds are those of the page on verification.

    Examples
    --------
    >>> from recfact import Jagged
    >>> v = verify([0.75] * 12, [1.0] * 12, window=Jagged(4), format="bfloat16", algorithm="hierarchical")
    >>> v.holds, v.truncation.at, v.truncation.holds
    (True, (8,), True)
    """
    a, u, x0, axis = without_labels_of(a, u, x0, axis, offsets)
    how = Arithmetic.of(format_of_arrays(a, u) if format is None else format)
    task = task_of(algorithm, window, replace(how, operands=None))
    if isinstance(task, EngineTask) and how.operands is not None:
        required = "can't store the operands for the engine, which solves arrays as they are given"
        advice = f"pass what {how.operands}.round returns, or choose another algorithm"
        raise OptionError(required, "format", given=str(how.operands), advice=advice)
    if threads is not None and algorithm != "engine":
        raise OptionError(f"threads go with the algorithm 'engine' only, got {algorithm!r}; leave one of the two out")
    given = [(as_reals(a, "a"), "a", how.format), (as_reals(u, "u"), "u", how.format)]
    if x0 is not None:
        given.append((as_reals(x0, "x0"), "x0", accumulator_of(how.format) if algorithm == "engine" else how.format))
    kept = [
        values if how.operands and name != "x0" else _in_format(values, kind.round(values), kind, name)
        for values, name, kind in given
    ]
    changes = [_change(before, after) for (before, *_), after in zip(given, kept, strict=True)]
    coefficients, inputs = time_first(kept[0], kept[1], axis)
    shape = inputs.shape
    places = segments_of(offsets, len(inputs))
    pieces = operands_by_segment(coefficients, inputs, None if x0 is None else kept[2], axis, offsets)
    if how.operands is not None:
        # Blocks saturate, so what is out of range in them is so in the format to which they are decoded.
        narrow = how.format
        if isinstance(how.operands, FloatFormat) and how.operands.max < narrow.max:
            narrow = how.operands
        stored: Pieces = []
        found: tuple[list[tuple[int, float]], ...] = ([], [])
        for own, fed, first in pieces:
            both = [_in_format(values, how.stored(values), narrow, name) for values, name in ((own, "a"), (fed, "u"))]
            for one, before, after in zip(found, (own, fed), both, strict=True):
                one.append(_change(before, after))
            stored.append((both[0], both[1], first))
        pieces = stored
        for one, values in zip(found, kept[:2], strict=True):
            repeats = max(1, inputs.size // max(1, values.size))  # of a number that steps or channels share
            changes.append((sum(count for count, _ in one) // repeats, max(change for _, change in one)))

    share = _Share(progress, work=(3 if isinstance(task.window, Full) else 5) * int(np.prod(shape)))
    if isinstance(task, EngineTask):
        start = None if x0 is None else kept[2]
        x = np.moveaxis(task.solve(a, u, x0=start, axis=axis, offsets=offsets, threads=threads), axis, 0)
        lost = ~np.isfinite(x)
    else:
        x, lost = compute(task, pieces)
    several = offsets is not None or inputs.size != len(inputs)
    bound = np.where(lost, 0.0, rounding_bound(task, pieces, several))
    share.add(x.size)

    truncation, rounded, total = _Errors(np.zeros(shape)), _Errors(bound, lost), _Errors(bound, lost)
    finite = np.where(lost, 0, x)
    for place, (own, fed, start) in zip(places, pieces, strict=True):
        for channel in np.ndindex(shape[1:]):
            at, along = (place, *channel), (slice(None), *channel)
            sequence = own[along], fed[along]
            first = None if start is None else start[channel]
            cut = truncation_bounds(*sequence, task.window, first)
            if not isinstance(task.window, Full) and not lost[at].any() and np.isfinite(bound[at]).all():
                cut = np.minimum(cut, bound_of_one(sequence[0], x[at], task.window, bound[at]))
            truncation.bound[at] = cut
            total.bound[at] = np.where(lost[at], 0.0, sum_of_bounds(cut, bound[at]))
            share.add(len(sequence[1]))
            if not isinstance(task.window, Full):
                truncation.add(at, truncation_error(*sequence, task.window, first, share.add))
                rounded.add(at, measure(*sequence, finite[at], task.window, first, share.add))
            total.add(at, measure(*sequence, finite[at], Full(), first, share.add))
    share.finish()
    x = np.moveaxis(x, 0, axis)
    return Verification(
        arithmetic=how,
        algorithm=algorithm,
        window=task.window,
        shape=x.shape,
        inputs_changed=sum(count for count, _ in changes),
        inputs_change=max(change for _, change in changes),
        nonfinite=int(np.count_nonzero(lost)),
        first_nonfinite=with_time_at(np.argwhere(lost)[0], axis) if lost.any() else None,
        truncation=truncation.checked(axis),
        rounding=(total if isinstance(task.window, Full) else rounded).checked(axis),
        total=total.checked(axis),
        x=x,
    )


class _Share:
    """The share of the work that is done, as `progress` gets it."""

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
    """Return bounds of the truncation error of each state, for the largest coefficient and input of one sequence."""
    if isinstance(window, Full) or len(u) == 0:
        return np.zeros(len(u))
    used = a[1:] if x0 is None else a
    rho, nu = np.max(np.abs(used), initial=0), np.max(np.abs(u), initial=0)
    return pointwise_truncation_bound(rho, window, len(u), nu=nu, x0=0 if x0 is None else abs(x0))


def sum_of_bounds(truncation: Array, rounding: Array) -> Array:
    """Return bounds of the sum of both errors, rounded up."""
    with np.errstate(all="ignore"):
        total = truncation + rounding
        return np.where((truncation == 0) | (rounding == 0), total, np.nextafter(total, np.inf))


def format_of_arrays(a: Any, u: Any) -> FloatFormat:
    """Return the format of floats of one type.

    Raises
    ------
    OptionError
        If they aren't.
    """
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


def _in_format(values: Array, rounded: Any, fmt: FloatFormat, name: str) -> Array:
    """Return numbers rounded to the format if all are finite, or raise an error that names one that isn't."""
    rounded = np.asarray(rounded)
    good = np.isfinite(rounded.astype(np.float64))
    if not good.all():
        required = f"must hold finite numbers in the range of {fmt}, up to {in_decimal(fmt.max)}"
        # One number that isn't finite can spoil a whole block.
        endless = (value for value in values[~good] if isinstance(as_rational(value), float))
        culprit = next(endless, values[~good][0])
        raise OptionError(required, name, given=culprit, advice="scale or replace it")
    return np.asarray(rounded.astype(np.float64) if fmt.fits_float64 else rounded)


def _change(before: Array, after: Array) -> tuple[int, float]:
    """Return how many numbers the rounding changed, and the largest relative change."""
    changed = np.asarray(before != after, dtype=bool)
    old, new = before[changed], after[changed]
    if object in (old.dtype, new.dtype):
        old, new = as_rationals(old), as_rationals(new)
        return len(old), float(max((abs(n / o - 1) if o else 1.0 for o, n in zip(old, new, strict=True)), default=0.0))
    with np.errstate(all="ignore"):
        shares = np.where(old == 0, 1.0, np.abs((new - old) / old))
    return len(old), float(shares.max(initial=0.0))
