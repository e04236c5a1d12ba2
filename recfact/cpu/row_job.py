"""A call of a kernel of rows: which tile, on which arrays, for which steps."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.band_rows import band_rows
from recfact.cpu.block_rows import block_rows
from recfact.cpu.cuts import cuts_in_memory
from recfact.cpu.layout import address
from recfact.cpu.scan_kernels import scan_rows
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import VECTOR
from recfact.cpu.window_kernels import uniform_rows
from recfact.number_types import accumulator
from recfact.windows import Full, Uniform, Window, blocks_and_terms

SCRATCH = 1 << 14  # bytes; the kernels use six tiles of 8-byte numbers


def scratch_memory(more: int = 0) -> tuple[Array, int]:
    """Return scratch memory, with `more` bytes than the kernels' tiles take, and where in it a line starts."""
    scratch = np.empty(SCRATCH + VECTOR + more, np.uint8)
    return scratch, -(-address(scratch) // VECTOR) * VECTOR


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


def listed(entries: Array | None) -> int:
    """Return the address of initial states, or 0 if there are none."""
    return 0 if entries is None else address(entries)


@dataclass(slots=True)
class Job:
    """A tile and the arrays it works on, time on axis 0; their first step is at the time `start`.

    `starts` are those of segments, each above the one before and the first 0, if there are several.
    """

    tile: Tile
    window: Window
    a: Array
    u: Array
    x: Array
    start: int = 0
    starts: Array | None = None

    @property
    def end(self) -> int:
        """The time after the last step."""
        return self.start + len(self.x)

    def table(self, position: int) -> Array:
        """Return the addresses of x, u and a at a step of the first row."""
        return np.array([[address(array) + position * array.strides[0]] for array in (self.x, self.u, self.a)])

    def run(
        self,
        table: Array,
        steps: int,
        states: Array,
        *,
        initial: bool,
        alone: bool,
        start: int = 0,
        skip: int = 0,
        entries: Array | None = None,
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
        entries : ndarray, shape (rows, segments), optional
            The initial states of the segments, contiguous; the `states` are those of the first.
        """
        rows = (address(table), table.shape[1], steps, self.x.strides[0], self.u.strides[0], self.a.strides[0])
        match self.window:
            case Full() if self.starts is None:
                _scratch, room = scratch_memory()
                return int(scan_rows[self.tile](*rows, address(states), start, alone, limits.SEGMENT, room))
            case Uniform(self.tile.block) if self.starts is None:
                _scratch, room = scratch_memory()
                x0 = np.ascontiguousarray(states[:, 0])
                uniform_rows[self.tile](*rows, address(x0) if initial else 0, alone, skip, room)
            case Uniform(lags):
                self.run_band(rows, min(lags, self.end), states, initial, alone, start, skip, entries)
            case _:
                self.run_blocks(rows, states, alone, start, skip, entries)
        return 0

    def run_blocks(
        self, rows: tuple[int, ...], states: Array, alone: bool, start: int, skip: int, entries: Array | None
    ) -> None:
        """Solve blocks with carrier terms; the arguments are those of `run`."""
        block, terms = blocks_and_terms(self.window)
        # No more than there are blocks, but one: a piece of a sequence is solved as the whole is.
        terms = min(terms, max(1, (self.end - 1) // block))
        cuts = cuts_in_memory(block, self.end, starts=self.starts)
        entering = np.repeat(states[:, :1], terms + 1, axis=1)
        _scratch, room = scratch_memory((terms + 1) * states.itemsize)
        block_rows[self.tile](*rows, address(cuts), terms, address(entering), alone, listed(entries), start, skip, room)

    def run_band(
        self,
        rows: tuple[int, ...],
        lags: int,
        states: Array,
        initial: bool,
        alone: bool,
        start: int,
        skip: int,
        entries: Array | None,
    ) -> None:
        """Solve the uniform window of any number of lags; the arguments are those of `run`."""
        _scratch, room = scratch_memory()
        cuts = cuts_in_memory(lags, self.end, starts=self.starts, backwards=self.tile.reverse)
        x0 = np.ascontiguousarray(states[:, 0])
        sums = np.empty(2 * lags + (limits.BAND_TILES + 4) * self.tile.steps, states.dtype)
        entering = address(x0) if initial else 0
        band_rows[self.tile](
            *rows, address(cuts), entering, alone, listed(entries), start, skip, limits.BAND_TILES, address(sums), room
        )


class Workspace:
    """What a short call needs besides its arrays: scratch memory, a table of addresses, and the states of a row."""

    def __init__(self) -> None:
        self.scratch, self.room = scratch_memory()
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
