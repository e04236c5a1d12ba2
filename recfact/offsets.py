"""Segments: the starts of sequences that lie one behind the other along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.errors import OptionTypeError, ShapeError, shown


def one_step(shape: tuple[int, ...], axis: int, offsets: Array | None) -> tuple[tuple[int, ...], str]:
    """Return the shape that initial states broadcast to, and its name: with offsets, time has a step for each segment.

    Parameters
    ----------
    shape : tuple of int
        The shape of the states.
    axis : int
        Time, counted from the front.
    offsets : ndarray or None
        Where segments start, and where the last one ends.
    """
    if offsets is None:
        return shape[:axis] + shape[axis + 1 :], "one step of the result"
    return (*shape[:axis], len(offsets) - 1, *shape[axis + 1 :]), "the result with one step for each segment"


def check_offsets(offsets: Any, steps: int) -> Array:
    """Return where segments start, and where the last one ends, as 64-bit integers next to each other in memory.

    Parameters
    ----------
    offsets : array_like of int, shape (N + 1,)
        The argument of the caller.
    steps : int
        Number of steps of all segments together.

    Raises
    ------
    ShapeError
        If they aren't a list that rises from 0 to `steps`.
    OptionTypeError
        If they aren't integers.
    """
    given = as_numpy(offsets, "offsets")
    if given.ndim != 1 or given.size == 0:
        raise ShapeError(
            f"must be one list of where segments start and where the last one ends, got shape {given.shape}",
            "offsets",
            advice="pass N + 1 integers for N segments",
        )
    if given.dtype.kind not in "iu":
        raise OptionTypeError(
            f"must be integers, where segments start, got an array of {given.dtype}",
            "offsets",
            advice="pass positions such as [0, 3, 6], not labels",
        )
    kept = np.ascontiguousarray(given, np.int64)
    if kept[0] != 0 or kept[-1] != steps:
        raise ShapeError(
            f"must begin with 0 and end with {steps}, the number of steps, got {shown(kept[0])} and {shown(kept[-1])}",
            "offsets",
            advice="they are where segments start, and where the last one ends",
        )
    falling = kept[1:] < kept[:-1]
    if falling.any():
        place = int(falling.argmax()) + 1
        raise ShapeError(
            f"must not fall, got {shown(kept[place])} after {shown(kept[place - 1])} at index {place}",
            "offsets",
            advice="pass numpy.cumsum of the lengths, with 0 before",
        )
    return kept
