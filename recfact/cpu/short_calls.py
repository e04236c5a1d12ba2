"""A short call: one sequence of the whole recurrence, with as little work around the kernel as possible.

A short row takes half a microsecond. So does the allocation of an array, or a few questions about one.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.row_job import scratch_memory
from recfact.cpu.rows import tile_for
from recfact.cpu.scan_rows import scan_rows
from recfact.cpu.tiles import Tile
from recfact.number_types import NUMBER_TYPES
from recfact.windows import Full


class Workspace:
    """Memory that a short call needs besides its arrays: scratch memory, and the states of a row."""

    def __init__(self) -> None:
        self.scratch, self.room = scratch_memory()
        self.states: dict[int, array[float]] = {size: array(code, (0, 0, 0)) for size, code in ((4, "f"), (8, "d"))}
        self.views = {size: np.frombuffer(states, f"f{size}") for size, states in self.states.items()}


IDLE: list[Workspace] = []
"""Workspaces that no call uses. Threads share them, and a call that interrupts another takes one of its own."""


def run_short(tile: Tile, a: Array, u: Array, x: Array, x0: Array | None) -> None:
    """Solve a single row of the whole recurrence."""
    try:
        space = IDLE.pop()
    except IndexError:
        space = Workspace()
    size = 8 if x.itemsize == 8 else 4
    states = space.states[size]
    states[0], states[1], states[2] = 0.0 if x0 is None else x0.item(), 0.0, 1.0  # as from `initial_states`
    x_step, u_step, a_step = x.strides[0], u.strides[0], a.strides[0]
    scan_rows[tile](
        (x, u, a), 1, len(x), x_step, u_step, a_step, space.views[size], 0, x0 is None, limits.SPAN, space.room
    )
    IDLE.append(space)


def solve_short(a: Array, u: Array, out: Any) -> Array | None:
    """Solve one sequence of real numbers next to each other, or return None if the arrays are others.

    Parameters
    ----------
    a, u : ndarray
        Coefficients and inputs.
    out : object
        What the caller gave for the states, or None for new memory.

    Returns
    -------
    ndarray or None
        The states. None means that nothing was done. Then the arrays are others, or have errors, or are long.
    """
    dtype, shape = a.dtype, a.shape
    if not (dtype is u.dtype and shape == u.shape and len(shape) == 1):
        return None
    size, strides = shape[0] * dtype.itemsize, (dtype.itemsize,)
    together = a.strides == u.strides == strides
    if not (together and 0 < size < limits.STREAMED_ROWS and shape[0] < 2 * limits.WORTH_THREADS):
        return None
    tile = short_tile(dtype)
    if tile is None:
        return None
    if out is None:
        out = np.empty(shape, dtype)
    elif type(out) is np.ndarray and out.dtype is dtype and out.shape == shape and out.strides == strides:
        if not (out.flags.writeable and is_apart(out, a, u, size)):
            return None
    else:
        return None
    run_short(tile, a, u, out, None)
    return out  # type: ignore[no-any-return]


def is_apart(out: Array, a: Array, u: Array, size: int) -> bool:
    """Return whether `out` shares no memory with `a`, and none with `u` unless it is `u`. All have `size` bytes."""
    if out is not a and out.flags.owndata and a.flags.owndata and (out is u or u.flags.owndata):
        return True  # the usual case; asking for addresses takes six times as long
    place = address(out)
    return abs(place - address(a)) >= size and (out is u or abs(place - address(u)) >= size)


@cache
def short_tile(dtype: np.dtype[Any]) -> Tile | None:
    """Return the tile of real numbers, or None for others."""
    tile = tile_for(dtype, False, Full()) if dtype in NUMBER_TYPES and dtype.kind != "c" else None
    return tile if isinstance(tile, Tile) else None
