"""What `solve` is held to: the definition by plain loops, and how far two roundings of it may lie apart.

Arrays have time on axis 0, as in `recfact.recurrence`, whose loops these are, or are checked against.
"""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from recfact.recurrence import backward, first_kept, forward
from recfact.windows import Full, Jagged, Uniform, Window

Array = np.ndarray[Any, Any]

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def extra_roundings(window: Window) -> int:
    """Return how many roundings of a term there are beyond its steps, at most, on any path.

    7 in kernels of rows and 1 in plain loops (cpu/test_tiles.py). Windows that slide add up the sums of what they span:
    one rounding for each step of it in channels, fewer in rows.
    """
    match window:
        case Uniform(lags):
            return 7 + lags
        case Jagged(block, terms) if terms >= 8:
            return 7 + block * (terms + 1)
    return 7


def accumulator(dtype: Any) -> np.dtype[Any]:
    """Return the number type in which results of `dtype` are defined."""
    return np.dtype(np.float32) if np.dtype(dtype) in HALVES else np.dtype(dtype)


def loop(a: Array, u: Array, window: Window, x0: Any, reverse: bool) -> Iterator[Array]:
    """Take the plain loops of all rows of a window side by side; yield their states after every step."""
    if x0 is not None:
        u = np.array(u)
        u[0] = a[0] * x0 + u[0]
    rows = np.arange(len(u))
    first = np.array([first_kept(i, window) for i in rows])
    turn = -1 if reverse else 1
    step = np.searchsorted(first, rows, side="right") - 1 if reverse else first
    state = u[step]
    yield state
    while (going := (step - rows) * turn < 0).any():
        step = np.where(going, step + turn, step)
        taken = step[going]
        state[going] = a[taken + reverse] * state[going] + u[taken]
        yield state


def definition(a: Array, u: Array, window: Window = Full(), x0: Any = None, reverse: bool = False) -> Array:
    """Return the plain loop's states in the arrays' own arithmetic.

    test_recurrence.py finds the same bits as `recfact.recurrence.windowed`, which takes one row after the other.
    """
    a, u = np.broadcast_arrays(a, u)
    if isinstance(window, Full) or len(u) == 0:
        return backward(a, u) if reverse else forward(a, u, x0)
    *_, state = loop(a, u, window, x0, reverse)
    return state


def largest_on_the_way(a: Array, u: Array, window: Window, x0: Any, reverse: bool) -> Array:
    """Return the largest state that the plain loop to each state comes through, for positive numbers."""
    if isinstance(window, Full) or len(u) == 0:
        turn = -1 if reverse else 1
        return np.maximum.accumulate(definition(a, u, window, x0, reverse)[::turn])[::turn]
    largest = np.zeros(u.shape)
    for state in loop(a, u, window, x0, reverse):
        largest = np.maximum(largest, state)
    return largest


def sizes(values: Array) -> Array:
    """Return |x|, or |re x| + |im x|, which bounds both parts and products of it; 0 for parts that aren't finite."""
    wide = np.asarray(values).astype(np.complex128)
    return sum(np.where(np.isfinite(part), abs(part), 0) for part in (wide.real, wide.imag))


def growth(a: Array) -> Array:
    """Return, for each channel, the largest product of |a| over neighbouring steps, or 1."""
    logs = np.cumsum(np.log2(np.maximum(a, 1e-300)), axis=0)
    lowest = np.minimum.accumulate(np.concatenate([np.zeros_like(logs[:1]), logs])[:-1], axis=0)
    return np.exp2(np.maximum((logs - lowest).max(axis=0, initial=0), 0))


def distance_bound(a: Array, u: Array, window: Window, x0: Any, reverse: bool, dtype: Any) -> tuple[Array, Array]:
    """Bound the distance of computed states from those of `definition`, and bound both in size.

    A term that passed d steps is rounded at most d + extra times in the engine and 2 d + 1 times in the plain loop; a
    complex step rounds twice and three times instead of once and twice. So the distance is at most

        v / (1 - N v) sum_j |L_ij| |u_j| (3 d + extra + 1),  v the unit roundoff, N the most roundings of all,

    and the sum is the derivative of the recurrence for |a| (1 + 3 t) and |u| (1 + (extra + 1) t): the imaginary part of
    the plain loop for a tiny imaginary t. An operation whose result is below the smallest normal number loses at most
    eta, magnified by the coefficients before and behind. At most four operations a step feed a state: four sums and
    products of a step and its share of those of its chunk. Below the smallest normal number, the product of a segment
    may also be dropped. A half is rounded once more in the end.

    Returns
    -------
    distance, largest : ndarray of float64
        No state on the way to a state exceeds `largest`; where that is beyond the number type, there is no bound.
    """
    kind, steps, extra = ml_dtypes.finfo(accumulator(dtype)), len(u), extra_roundings(window)
    unit, eta = float(kind.eps) / 2, float(kind.smallest_subnormal)
    factor, most = (5, 2 * extra + 3) if np.dtype(dtype).kind == "c" else (3, extra + 1)
    tiny = 1e-20  # whose square is nothing beside 1, and whose products with small states are normal
    a, u = np.broadcast_arrays(sizes(a), sizes(u))
    with np.errstate(all="ignore"):
        entering = None if x0 is None else sizes(x0)
        counted = definition(a * (1 + factor * tiny * 1j), u * (1 + most * tiny * 1j), window, entering, reverse)
        rounded = unit / (1 - (factor * steps + most) * unit) * (counted.imag / tiny)
        inputs = u.sum(axis=0) + (0 if x0 is None else entering)
        lost = (4 * (steps + 4) * eta + float(kind.smallest_normal)) * growth(a) ** 2 * (1 + inputs)
        distance = (rounded + lost) * (1 + 1e-6)  # this bound is rounded too
        if np.dtype(dtype) in HALVES:
            half = ml_dtypes.finfo(np.dtype(dtype))
            distance += float(half.eps) / 2 * (counted.real + distance) + float(half.smallest_subnormal)
        return distance, largest_on_the_way(a, u, window, entering, reverse)


def assert_near_definition(
    x: Array, a: Array, u: Array, window: Window = Full(), x0: Any = None, reverse: bool = False
) -> None:
    """Assert that states are those of the plain loop in their arithmetic, but for rounding.

    They are finite where the plain loop is, within `distance_bound`, and the same infinity or NaN elsewhere. Where
    states on the way come near the largest number it depends on rounding, and in windows on the order of the steps,
    which of them overflow, and any of them may.
    """
    kind = accumulator(x.dtype)
    a, u = (np.asarray(values).astype(kind) for values in (a, u))
    x0 = None if x0 is None else np.asarray(x0).astype(kind)
    with np.errstate(all="ignore"):
        expected = definition(a, u, window, x0, reverse)
        distance, largest = distance_bound(a, u, window, x0, reverse, x.dtype)
        clear = largest < float(ml_dtypes.finfo(x.dtype).max) / 4
        for part in ("real", "imag") if kind.kind == "c" else ("real",):
            found, wanted = (getattr(values.astype(np.result_type(kind, np.float64)), part) for values in (x, expected))
            finite = np.isfinite(wanted)
            near = np.where(finite, abs(found - wanted) <= distance, (found == wanted) | np.isnan(found))
            right = near & (np.isnan(found) == np.isnan(wanted)) | ~clear
            assert right.all(), (
                f"{(~right).sum()} of {right.size} states are wrong, first at {np.argwhere(~right)[0]}: got "
                f"{found[~right][0]}, not {wanted[~right][0]} +- {distance[~right][0]}"
            )
