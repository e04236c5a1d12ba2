"""What a `State` may hold in each window, and how far its rows have come."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_scalars
from recfact.checks import LONGEST
from recfact.errors import DTypeError, OptionError, OptionTypeError, ShapeError, shown
from recfact.number_types import NUMBER_TYPES, accumulator
from recfact.windows import Window, blocks_and_terms

WHOLE = LONGEST
"""The block of what keeps everything."""


def normal_form(window: Window) -> tuple[int, int]:
    """Return the block and the terms of a window; WHOLE and 0 if it reaches further than any sequence."""
    block, terms = blocks_and_terms(window)
    return (block, terms) if block * (terms + 1) < WHOLE else (WHOLE, 0)


def holds_steps(window: Window) -> bool:
    """Say whether the parts of a State are steps, with a coefficient and an input each, and not sums of blocks."""
    return normal_form(window)[0] == 1


def checked_parts(window: Window, parts: Any, dtype: Any) -> tuple[Array, np.dtype[Any]]:
    """Return the parts of a State and the number type of its states, which is that of the parts if not given.

    Raises
    ------
    DTypeError
        If the types don't go together.
    ShapeError
        If a State of the window has no parts of that shape.
    """
    parts = check_scalars(as_numpy(parts, "parts"), "parts")
    dtype = parts.dtype if dtype is None else _number_type(dtype)
    if not (dtype in NUMBER_TYPES or dtype.kind == "O") or parts.dtype != accumulator(dtype):
        raise DTypeError(
            "must be float32 for states of float16 and bfloat16, and of the states' type for float32, float64, "
            f"complex64, complex128 and object, got {parts.dtype} for {dtype}",
            "parts",
        )
    most, steps = normal_form(window)[1] + 1, holds_steps(window)
    if parts.ndim < 1 + steps or (steps and parts.shape[1] != 2) or len(parts) > most:
        form = "(k, 2, ...)" if steps else "(k, ...)"
        raise ShapeError(f"must have shape {form} with k at most {shown(most)}, got {parts.shape}", "parts")
    return parts, dtype


def counts(value: Any, name: str, shape: tuple[int, ...], most: int) -> Any:
    """Return whole numbers of 0 to `most`, one for each row: as an int if they are the same.

    Raises
    ------
    OptionTypeError, ShapeError, OptionError
        If they are no integers, don't fit to the rows or are out of range.
    """
    if type(value) is int and 0 <= value <= most:  # what each step of a State asks
        return value
    array = as_numpy(value, name)
    if array.dtype.kind not in "iu":
        raise OptionTypeError("must be an integer, or an array of them", name, given=value)
    try:
        np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(f"must broadcast to one step, of shape {shape}, got shape {array.shape}", name) from None
    if array.size and not 0 <= array.min() <= array.max() <= most:
        raise OptionError(f"must be of 0 to {most}", name, given=value)
    if array.size == 0:
        return 0
    if (array == array.flat[0]).all():
        return int(array.flat[0])
    return frozen(np.broadcast_to(array, shape))


def frozen(array: Array) -> Array:
    """Return a copy that can't be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array


def _number_type(value: Any) -> np.dtype[Any]:
    try:
        if isinstance(value, np.dtype | type | str):
            return np.dtype(value)
    except (TypeError, ValueError, SyntaxError):
        pass
    raise DTypeError("must name a number type", "dtype", given=value)
