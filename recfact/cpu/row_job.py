"""A call of a kernel of rows: which tile, on which arrays, for which steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.band_rows import band_rows
from recfact.cpu.band_runs import band_runs
from recfact.cpu.block_rows import block_rows
from recfact.cpu.block_runs import block_runs
from recfact.cpu.channel_bands import band_channels
from recfact.cpu.channel_runs import block_channels
from recfact.cpu.chunks import CHUNK
from recfact.cpu.cuts import cuts_in_memory, pattern_of
from recfact.cpu.numbers import LINE
from recfact.cpu.runs import RUNS, Runs
from recfact.cpu.scan_channels import scan_channels
from recfact.cpu.scan_rows import scan_rows
from recfact.cpu.stage import SPARE
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import VECTOR
from recfact.number_types import accumulator
from recfact.windows import Full, Uniform, Window, blocks_and_terms

Table = Array | tuple[Array, ...]

SCRATCH = 1 << 14  # bytes; the kernels need seven tiles of 8-byte numbers


def scratch_memory(more: int = 0) -> tuple[Array, int]:
    """Return scratch memory for the kernels' tiles and `more` bytes, and an address in it at which a line starts."""
    scratch = np.empty(SCRATCH + VECTOR + more, np.uint8)
    return scratch, -(-address(scratch) // VECTOR) * VECTOR


def initial_states(x: Array, x0: Array | None) -> Array:
    """Return the state of each row before its first step, in the order of ``x[0].flat``.

    The three columns are the state that enters the span, the state that the span has reached from zero, and the
    product of its coefficients so far.
    """
    states = np.zeros((x.size // len(x), 3), accumulator(x.dtype))
    states[:, 2] = 1
    if x0 is not None:
        states[:, 0] = np.broadcast_to(x0, x.shape[1:]).ravel()
    return states


@dataclass(slots=True)
class Job:
    """A tile and the arrays that it works on, with time on axis 0. Their first step is at the time `start`.

    If there are several segments, `starts` are their starts. The first is 0, and each is above the one before.
    """

    tile: Tile | Runs
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

    def table(self, position: int) -> Table:
        """Return x, u and a of a single row from a step on."""
        return tuple(own[position:] for own in (self.x, self.u, self.a))

    def run(
        self,
        table: Table,
        steps: int,
        states: Array,
        *,
        initial: bool,
        alone: bool,
        start: int = 0,
        skip: int = 0,
        entries: Array | None = None,
    ) -> int:
        """Solve rows of `steps` steps, and return how many tiles were repeated step by step.

        Parameters
        ----------
        table : ndarray of int64, shape (3, rows), or tuple of ndarray
            The addresses of x, u and a of each row, contiguous. For a single row it may be the arrays themselves.
        states : ndarray, shape (rows, 3)
            As from `initial_states`. The whole recurrence leaves here the states that it reached.
        initial : bool
            Whether the states are initial ones.
        alone : bool
            Whether nothing enters the rows, not even an initial state.
        start : int
            The time of the first step in a longer sequence.
        skip : int
            Number of tiles at the start of a windowed row that aren't written.
        entries : ndarray, shape (rows, segments), optional
            The initial states of the segments, contiguous. `states` has those of the first segment.
        """
        count = 1 if isinstance(table, tuple) else table.shape[1]
        rows = (table, count, steps, self.x.strides[0], self.u.strides[0], self.a.strides[0])
        match self.window:
            case Full() if self.starts is None:
                _scratch, room = scratch_memory()
                scan = scan_rows if self.tile.channels == 1 else scan_channels
                return int(scan[self.tile](*rows, states, start, alone, limits.SPAN, room))
            case Uniform(lags) if isinstance(self.tile, Runs) and self.tile.channels == 1:
                self.run_band_runs(rows, min(lags, self.end), states, initial, alone, start, skip)
            case Uniform(lags) if isinstance(self.tile, Runs) and lags > limits.MOST_STATES:
                self.run_band_channels(rows, lags, self.tile.channels, states, initial, alone, start, skip)
            case Uniform(lags) if not isinstance(self.tile, Runs):
                self.run_band(rows, min(lags, self.end), states, initial, alone, start, skip, entries)
            case _ if isinstance(self.tile, Runs):
                self.run_block_runs(rows, self.tile.channels, states, alone, start, skip)
            case _:
                self.run_blocks(rows, states, alone, start, skip, entries)
        return 0

    def run_blocks(
        self, rows: tuple[Any, ...], states: Array, alone: bool, start: int, skip: int, entries: Array | None
    ) -> None:
        """Solve blocks with carrier terms. The arguments are those of `run`."""
        block, terms = blocks_and_terms(self.window)
        # At most one term less than the whole sequence has blocks: a piece is solved as the whole is.
        terms = min(terms, max(1, (self.end - 1) // block))
        cuts = cuts_in_memory(block, self.end, self.starts)
        entering = np.repeat(states[:, :1], terms + 1, axis=1)
        _scratch, room = scratch_memory((terms + 1) * states.itemsize)
        own = 0 if entries is None else entries
        block_rows[self.tile](*rows, cuts, terms, entering, alone, own, start, skip, room)

    def run_block_runs(
        self, rows: tuple[Any, ...], channels: int, states: Array, alone: bool, start: int, skip: int
    ) -> None:
        """Solve blocks with carrier terms by runs. The arguments are those of `run`."""
        block, terms = blocks_and_terms(self.window)
        first = (start + rows[2] if self.tile.reverse else -start) % block
        if first == 0 and (alone or (start == 0 and not self.tile.reverse)):
            first = block
        entering = np.repeat(states[:, :1], terms + 1, axis=1)
        if channels > 1:
            most = limits.most_blocks(block, channels * self.x.itemsize, 2 * terms, tabled=True)
            vectors = 2 * terms + 14 + 2 * channels * most * block
            _scratch, room, stage = self.room_and_stage(vectors * RUNS * states.itemsize, most * block * channels)
            arguments = (block, terms, entering, alone, first, skip, most, room, stage)
            block_channels[self.tile](*rows, channels, *arguments)
            return
        most = limits.most_blocks(block, self.x.itemsize, limits.LEAST_BLOCKS * terms)
        _scratch, room, stage = self.room_and_stage((terms + 5) * RUNS * states.itemsize, most * block)
        block_runs[self.tile](*rows, block, pattern_of(block), terms, entering, alone, first, skip, most, room, stage)

    def room_and_stage(self, room: int, run: int) -> tuple[Array, int, int]:
        """Return scratch memory, the address in it of `room` bytes, and that of the stage for runs of `run` steps."""
        room += -room % LINE
        scratch, start = scratch_memory(room + RUNS * run * self.x.itemsize + SPARE)
        return scratch, start, start + room

    def run_band_runs(
        self, rows: tuple[Any, ...], lags: int, states: Array, initial: bool, alone: bool, start: int, skip: int
    ) -> None:
        """Solve the uniform window by runs. The arguments are those of `run`."""
        first = -(self.end - start - rows[2] if self.tile.reverse else start) % lags
        most = limits.most_blocks(lags, self.x.itemsize, tabled=True)
        if lags <= limits.WHOLE_SLICES:
            most += -most % (CHUNK // gcd(CHUNK, lags))  # a run then consists of whole slices
        vectors = 3 * lags + 3 * most * lags + 21
        _scratch, room, stage = self.room_and_stage(vectors * RUNS * states.itemsize, most * lags)
        x0 = np.ascontiguousarray(states[:, 0])
        entering = x0 if initial else 0
        band_runs[self.tile](*rows, lags, pattern_of(lags), entering, alone, first, skip, most, room, stage)

    def run_band_channels(
        self,
        rows: tuple[Any, ...],
        lags: int,
        channels: int,
        states: Array,
        initial: bool,
        alone: bool,
        start: int,
        skip: int,
    ) -> None:
        """Solve the uniform window of a few channels by runs. The arguments are those of `run`."""
        first = -(self.end - start - rows[2] if self.tile.reverse else start) % lags
        most = limits.most_blocks(lags, channels * self.x.itemsize, tabled=True)
        vectors = (4 * lags + 2 * channels * most * lags + 12) * RUNS * states.itemsize
        more = channels * (16 + (3 * lags + 5) * states.itemsize) + states.itemsize + LINE
        _scratch, room, stage = self.room_and_stage(vectors + more, most * lags * channels)
        x0 = np.ascontiguousarray(states[:, 0])
        arguments = (channels, lags, x0 if initial else 0, alone, first, skip, most, room + vectors, room, stage)
        band_channels[self.tile](*rows, *arguments)

    def run_band(
        self,
        rows: tuple[Any, ...],
        lags: int,
        states: Array,
        initial: bool,
        alone: bool,
        start: int,
        skip: int,
        entries: Array | None,
    ) -> None:
        """Solve the uniform window of any number of lags. The arguments are those of `run`."""
        _scratch, room = scratch_memory()
        cuts = cuts_in_memory(lags, self.end, self.starts, backwards=self.tile.reverse)
        x0 = np.ascontiguousarray(states[:, 0])
        sums = np.empty(2 * lags + (limits.BAND_TILES + 4) * self.tile.steps, states.dtype)
        entering, own = x0 if initial else 0, 0 if entries is None else entries
        band_rows[self.tile](*rows, cuts, entering, alone, own, start, skip, limits.BAND_TILES, sums, room)
