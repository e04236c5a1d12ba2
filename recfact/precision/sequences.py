"""Sequences in arrays: the axis of time, which is moved to the front for computing, and segments along it.

Segments are sequences of their own. Every result for a segment is that for the segment alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array, broadcast_shape, broadcast_state, check_axis
from recfact.containers import check_plain, without_labels
from recfact.errors import ShapeError
from recfact.offsets import check_offsets

CACHED = 2**16
"""Numbers that are worked on at a time, in whole sequences: enough for NumPy, and few enough to stay in a cache."""


def time_first(a: Array, u: Array, axis: Any) -> tuple[Array, Array]:
    """Return coefficients and inputs of one shape, as views whose first axis is `axis` of what they broadcast to.

    Raises
    ------
    ShapeError
        If they don't broadcast, or have no such axis.
    OptionTypeError
        If `axis` isn't an integer.

    Examples
    --------
    >>> [values.shape for values in time_first(np.ones(5), np.ones((3, 1)), -1)]
    [(5, 3), (5, 3)]
    """
    shape = broadcast_shape(a, u)
    time = check_axis(axis, len(shape))
    first, second = (np.moveaxis(np.broadcast_to(values, shape), time, 0) for values in (a, u))
    return first, second


def check_sequence(values: Array, name: str) -> None:
    """Raise ShapeError unless an array has one axis, for functions that speak of a single sequence."""
    if values.ndim != 1:
        raise ShapeError(f"{name} must be one sequence, got shape {values.shape}; call it for each channel")


Pieces = list[tuple[Array, Array, Array | None]]
"""Coefficients and inputs of each segment, with time along the first axis, and its initial state of a step's shape."""


def without_labels_of(a: Any, u: Any, x0: Any, axis: Any, offsets: Any) -> tuple[Any, Any, Any, Any]:
    """Return arrays without labels, as `without_labels` does; the initial states of segments must have none."""
    if offsets is None:
        return without_labels(a, u, x0, axis)
    check_plain(x0, "x0", "offsets give it an axis of segments, which has no labels")
    a, u, _, axis = without_labels(a, u, None, axis)
    return a, u, x0, axis


def segments_of(offsets: Any, steps: int) -> list[slice]:
    """Return the slices of the segments. Without offsets there is a single sequence.

    Examples
    --------
    >>> segments_of([0, 2, 2, 5], 5)
    [slice(0, 2, None), slice(2, 2, None), slice(2, 5, None)]
    """
    if offsets is None:
        return [slice(0, steps)]
    return [slice(start, stop) for start, stop in pairwise(check_offsets(offsets, steps).tolist())] or [slice(0, 0)]


def operands_by_segment(a: Array, u: Array, x0: Array | None, axis: int, offsets: Any) -> Pieces:
    """Return the operands of each segment.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs with time along the first axis.
    x0 : ndarray, optional
        Initial state, with its axes in the order of the caller. It broadcasts against the result without `axis`. With
        offsets, it broadcasts against the result with one step for each segment.
    axis : int
        The axis of time in the arrays of the caller.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends.

    Raises
    ------
    ShapeError
        If the initial state doesn't broadcast.
    """
    pieces = segments_of(offsets, len(u))
    if x0 is None:
        return [(a[piece], u[piece], None) for piece in pieces]
    if offsets is None:
        return [(a, u, broadcast_state(x0, u.shape[1:]))]
    time = check_axis(axis, u.ndim)
    shape = list(np.moveaxis(u, 0, time).shape)
    shape[time] = len(pieces)
    try:
        states = np.moveaxis(np.broadcast_to(x0, shape), time, 0)
    except ValueError:
        raise ShapeError(
            f"x0 must broadcast against the result with one step for each segment, {tuple(shape)}, got shape "
            f"{x0.shape}; give each segment its state"
        ) from None
    return [(a[piece], u[piece], state) for piece, state in zip(pieces, states, strict=True)]
