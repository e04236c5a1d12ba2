"""The parts that a `State` may hold in each window, and the progress of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.array_functions import is_cupy
from recfact.arrays import Array, as_numpy, check_scalars
from recfact.checks import LONGEST
from recfact.errors import DTypeError, OptionError, OptionTypeError, ShapeError, shown
from recfact.number_types import NUMBER_TYPES, accumulator
from recfact.windows import Window, blocks_and_terms

WHOLE = LONGEST
"""The block of what keeps everything."""


def normal_form(window: Window) -> tuple[int, int]:
    """Return the block and the terms of a window, or WHOLE and 0 if it reaches further than any sequence."""
    block, terms = blocks_and_terms(window)
    return (block, terms) if block * (terms + 1) < WHOLE else (WHOLE, 0)


def holds_steps(window: Window) -> bool:
    """Say whether the parts of a State are steps (with a coefficient and an input each) instead of sums of blocks."""
    return normal_form(window)[0] == 1


def initial_place(window: Window) -> int | tuple[int, int]:
    """Return the index of an initial state in the parts of a State that holds one."""
    return (0, 1) if holds_steps(window) else 0


def checked_parts(window: Window, parts: Any, dtype: Any) -> tuple[Array, np.dtype[Any]]:
    """Return the parts of a State and the number type of its states, by default that of the parts.

    Raises
    ------
    DTypeError
        If the types don't go together.
    ShapeError
        If a State of the window has no parts of that shape.
    """
    if not is_cupy(parts):
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
    """Return integers from 0 to `most`, one for each row, or a single int if they are all the same.

    Raises
    ------
    OptionTypeError, ShapeError, OptionError
        If they aren't integers, don't fit the rows or are out of range.
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


def check_state(state: Any, kind: type[Any], window: Window | None, name: str = "state") -> None:
    """Raise an error if something isn't a State of the right class and window."""
    if not isinstance(state, kind):
        room = ".".join(kind.__module__.split(".")[:-1])  # that of NumPy's or that of tensors
        advice = f"{room}.solve returns one with return_state=True; an array is an x0"
        if type(state).__module__ == "recfact.torch.states":
            advice = "recfact.torch.solve goes on from it"
        raise OptionTypeError(f"must be a State of {room}", name, given=state, advice=advice)
    if state.window != window:
        raise OptionError(f"must be of the window {window}", name, given=state.window, advice="pass that window")


def check_fits(state: Any, dtype: Any, shape: tuple[int, ...], name: str = "state") -> None:
    """Raise an error if a State hasn't the right number type and shape of one step."""
    if state.dtype != dtype:
        raise DTypeError(
            f"must have the number type of what it continues, {dtype}, got {state.dtype}", name, advice="convert u"
        )
    if tuple(state.shape) != tuple(shape):
        raise ShapeError(f"must have the shape of one step, {tuple(shape)}, got {tuple(state.shape)}", name)


def listed(states: Any, kind: type[Any]) -> list[Any]:
    """Return States of one class as a list. There must be some, of one window, shape and number type.

    Raises
    ------
    ShapeError, OptionError, DTypeError, OptionTypeError
        If this isn't so.
    """
    try:
        rows = list(states)
    except TypeError:
        raise OptionTypeError("must be a list of States", "states", given=states) from None
    if not rows:
        raise ShapeError("must be at least one State, got none", "states")
    for state in rows:
        check_state(state, kind, rows[0].window if isinstance(rows[0], kind) else None, "states")
        check_fits(state, rows[0].dtype, rows[0].shape, "states")
    return rows


def frozen(array: Array) -> Array:
    """Return a copy that can't be written to. CuPy can't forbid it."""
    array = array.copy()
    if type(array) is np.ndarray:
        array.flags.writeable = False
    return array


def _number_type(value: Any) -> np.dtype[Any]:
    try:
        if isinstance(value, np.dtype | type | str):
            return np.dtype(value)
    except (TypeError, ValueError, SyntaxError):
        pass
    raise DTypeError("must name a number type", "dtype", given=value)
