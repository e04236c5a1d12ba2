"""A call of a kernel of rows: which tile, on which arrays, for which steps."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from recfact.arrays import Array, accumulator
from recfact.cpu import limits
from recfact.cpu.block_kernels import jagged_blocks, uniform_blocks
from recfact.cpu.layout import address
from recfact.cpu.scan_kernels import scan_rows
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import VECTOR
from recfact.cpu.window_kernels import jagged_rows, uniform_rows
from recfact.windows import Full, Jagged, Uniform, Window

SCRATCH = 1 << 14  # bytes; the kernels use six tiles of 8-byte numbers


def initial_states(x: Array, x0: Array | None) -> Array:
    """Return the state of each row before its first step, in the order of ``x[0].flat``.

    The three columns are the state that enters the segment, the state reached in it from zero, and the product of its
    coefficients so far.
    """
    states = np.zeros((x.size // len(x), 3), accumulator(x.dtype))
    states[:, 2] = 1
    if x0 is not None:
        states[:, 0] = np.broadcast_to(x0, x.shape[1:]).ravel()
    return states


def window_block(window: Window, steps: int) -> int:
    """Return the block length of a window of the engine: `steps` if it has none, and never more."""
    match window:
        case Jagged(block, _) | Uniform(block):
            return min(block, steps)
    return steps


@dataclass(slots=True)
class Job:
    """A tile and the arrays it works on, time on axis 0."""

    tile: Tile
    window: Window
    a: Array
    u: Array
    x: Array

    def table(self, position: int) -> Array:
        """Return the addresses of x, u and a at a step of the first row."""
        return np.array([[address(array) + position * array.strides[0]] for array in (self.x, self.u, self.a)])

    def run(
        self, table: Array, steps: int, states: Array, *, initial: bool, alone: bool, start: int = 0, skip: int = 0
    ) -> int:
        """Solve rows of `steps` steps and return how many tiles were repeated step by step.

        Parameters
        ----------
        table : ndarray of int64, shape (3, rows)
            The addresses of their x, u and a, contiguous.
        states : ndarray, shape (rows, 3)
            As from `initial_states`; the whole recurrence leaves here what it reached.
        initial : bool
            Whether the states are initial ones.
        alone : bool
            Whether nothing, not even an initial state, enters the rows.
        start : int
            The time of the first step in a longer sequence.
        skip : int
            Tiles at the start of a windowed row that are not written.
        """
        scratch = np.empty(SCRATCH + VECTOR, np.uint8)
        room = -(-address(scratch) // VECTOR) * VECTOR
        rows = (address(table), table.shape[1], steps, self.x.strides[0], self.u.strides[0], self.a.strides[0])
        x0 = np.ascontiguousarray(states[:, 0])
        entering = (address(x0) if initial else 0, alone)
        block = window_block(self.window, steps)
        match self.window:
            case Full():
                return int(scan_rows[self.tile](*rows, address(states), start, alone, limits.SEGMENT, room))
            case Jagged(self.tile.block, 1):
                jagged_rows[self.tile](*rows, *entering, skip, room)
            case Uniform(self.tile.block):
                uniform_rows[self.tile](*rows, *entering, skip, room)
            case Jagged(_, terms):
                terms = min(terms, -(-steps // block))
                entries = np.empty(terms + 1, states.dtype)
                jagged_blocks[self.tile](*rows, *entering, block, terms, room, address(entries))
            case Uniform():
                sums = np.empty(2 * -(-block // self.tile.steps) * self.tile.steps, states.dtype)
                uniform_blocks[self.tile](*rows, *entering, block, room, address(sums))
        return 0


class Workspace:
    """What a short call needs besides its arrays: scratch memory, a table of addresses, and the states of a row."""

    def __init__(self) -> None:
        self.scratch = np.empty(SCRATCH + VECTOR, np.uint8)
        self.room = -(-address(self.scratch) // VECTOR) * VECTOR
        self.table = array("q", (0, 0, 0))
        self.table_at = self.table.buffer_info()[0]
        self.states: dict[str, array[float]] = {"f": array("f", (0, 0, 0)), "d": array("d", (0, 0, 0))}
        self.states_at = {code: states.buffer_info()[0] for code, states in self.states.items()}


IDLE: list[Workspace] = []
"""Workspaces that no call uses. Threads share them, and a call that interrupts another takes one of its own."""


def run_short(tile: Tile, a: Array, u: Array, x: Array, x0: Array | None) -> None:
    """Solve a single row of the whole recurrence with as little around the kernel as possible.

    A short row takes less than a microsecond, and so does each array that is made and each address that is asked for.
    """
    try:
        space = IDLE.pop()
    except IndexError:
        space = Workspace()
    code = "d" if x.itemsize == 8 else "f"
    table, states = space.table, space.states[code]
    table[0], table[1], table[2] = address(x), address(u), address(a)
    states[0], states[1], states[2] = 0.0 if x0 is None else float(x0), 0.0, 1.0
    rows = (space.table_at, 1, len(x), x.strides[0], u.strides[0], a.strides[0])
    scan_rows[tile](*rows, space.states_at[code], 0, x0 is None, limits.SEGMENT, space.room)
    IDLE.append(space)
