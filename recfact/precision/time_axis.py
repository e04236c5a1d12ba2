"""The axis of time: wherever a caller has it, it is the first one of what is computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, broadcast_shape, check_axis
from recfact.errors import ShapeError


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
