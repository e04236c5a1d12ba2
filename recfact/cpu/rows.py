"""The rows path: sequences whose steps follow each other in memory.

Rows are solved one after the other, or split among threads. A single long row is split in time (`time_split`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address, addresses
from recfact.cpu.row_job import Job, initial_states
from recfact.cpu.runs import RUNS, Runs
from recfact.cpu.threads import run_all
from recfact.cpu.tiles import SUB_TILES, Tile
from recfact.cpu.time_split import split
from recfact.cpu.uncached_writes import streams_rows, streams_runs
from recfact.number_types import accumulator
from recfact.strides import merged
from recfact.windows import Full, Jagged, Uniform, Window, blocks_and_terms


@cache
def tile_for(
    dtype: np.dtype[Any],
    reverse: bool,
    window: Window,
    streams: bool = False,
    segments: bool = False,
    flipped: str = "",
    staged: bool = False,
) -> Tile | Runs | None:
    """Return the tile that solves a window, or None if there is none: long blocks and segments of complex numbers.

    A tile that `streams` writes past the caches. So do runs if `staged`. With `segments` it may start anew anywhere.
    Arrays that are `flipped` are worked on in place, except by tiles that start anew.
    """
    storage = dtype.name
    # Halves have the order of arithmetic of the type that they are computed in. `solve_chunks` solves its pieces.
    itemsize = accumulator(dtype).itemsize
    tile = None if dtype.kind == "c" else Tile(storage, reverse, sub_tiles=1, streams=streams and not flipped)
    if segments:
        return tile
    match window:
        case Full():
            return Tile(storage, reverse, sub_tiles=1 if tile is None else SUB_TILES, streams=streams, flipped=flipped)
        case Jagged(block, terms):
            most = limits.LONG_RUN if tile is None and terms < limits.MOST_STATES else limits.LONG_BLOCK
            if block * max(terms, 1) * itemsize <= most and (block <= limits.ONE_START or tile is None):
                near = limits.LEAST_BLOCKS * max(terms, 1) * block * dtype.itemsize <= limits.NEAR_RUN
                return Runs(storage, reverse, flipped, staged, near=near)
        case Uniform(lags) if limits.fits_runs(lags, itemsize, tile is not None):
            # A group is read twice, so there is time to bring the next one near.
            return Runs(storage, reverse, flipped, staged, near=lags * dtype.itemsize <= limits.TABLED_RUN)
    return tile


def tile_of(a: Array, u: Array, x: Array, reverse: bool, window: Window, segments: bool = False) -> Tile | Runs | None:
    """Return the tile for a window on arrays of these layouts, or None if this isn't their path."""
    flipped = flipped_arrays(x, u, a)
    streams, staged = streams_rows(x, u, reverse), not flipped and streams_runs(x, u)
    if x.size == len(x):
        return tile_for(x.dtype, reverse, window, streams, segments, flipped, staged)
    if not segments and (channels := few_channels(a, u, x)) and len(x) >= limits.SHORT:
        few: Tile | Runs | None
        if isinstance(window, Full):
            own = a.strides[0] == x.strides[0] and len(x) >= limits.SHORT_ROW
            few = tile_of_channels(x.dtype, reverse, channels) if own else None
        else:
            few = runs_of_channels(x.dtype, reverse, window, channels, len(x), streams_runs(x, u, channels))
        if few is not None:
            return few
    together = (0, x.itemsize)
    side_by_side = abs(u.strides[0]) == x.itemsize and abs(x.strides[0]) in together and abs(a.strides[0]) in together
    if not (side_by_side and len(x) >= limits.least_steps(isinstance(window, Full) and not segments)):
        return None
    tile = tile_for(x.dtype, reverse, window, streams, segments, flipped, staged)
    return tile if tile is not None and tile.flipped == flipped else None


def few_channels(a: Array, u: Array, x: Array) -> int:
    """Return the number of channels that lie next to each other without gaps, as the last axes, or 0 if it is large.

    Each channel has its own coefficients, or all share them.
    """
    step = x.strides[0]
    if not (x.itemsize < step < limits.FEW_LANES * x.itemsize and u.strides[0] == step):
        return 0
    axes = [axis for axis in range(1, x.ndim) if x.shape[axis] > 1]  # the strides of others mean nothing
    channels, within = 1, []
    while axes and x.strides[axes[-1]] == u.strides[axes[-1]] == channels * x.itemsize:
        within.append(axes.pop())
        channels *= x.shape[within[-1]]
    if channels * x.itemsize != step:
        return 0
    if a.strides[0] == step and all(a.strides[axis] == x.strides[axis] for axis in within):
        return channels
    shared = a.strides[0] in (0, x.itemsize) and not any(a.strides[axis] for axis in within)
    return channels if shared else 0


@cache
def tile_of_channels(dtype: np.dtype[Any], reverse: bool, channels: int) -> Tile | None:
    """Return the tile of the whole recurrence of a few channels, or None if they are solved as many are."""
    if not limits.is_narrow(channels, accumulator(dtype).itemsize):
        return None
    return Tile(dtype.name, reverse, channels=channels)


@cache
def runs_of_channels(
    dtype: np.dtype[Any], reverse: bool, window: Window, channels: int, steps: int, staged: bool
) -> Runs | None:
    """Return the runs that solve a window of a few channels, or None if runs don't suit.

    Their results have the same bits as those of the channels path, so they must follow the same states.
    """
    block, terms = blocks_and_terms(window)
    span = block * max(terms, 1)
    if terms >= limits.MOST_STATES:
        if block > 1:
            return None
        span += 1
    if RUNS * span * 2 > steps or span * channels * dtype.itemsize > limits.LONG_RUN:
        return None
    near = 2 * span * channels * dtype.itemsize <= limits.NEAR_RUN
    return Runs(dtype.name, reverse, "", staged, channels, near)


def flipped_arrays(x: Array, u: Array, a: Array) -> str:
    """Return the names of the arrays, time on axis 0, whose numbers lie side by side in the opposite direction."""
    unit = -x.itemsize
    names = "x" if x.strides[0] == unit else ""
    names += "u" if u.strides[0] == unit else ""
    return names + "a" if a.strides[0] == unit else names


def solve_into(
    tile: Tile | Runs,
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    *,
    window: Window,
    threads: int,
    states: Array | None = None,
    start: int = 0,
    starts: Array | None = None,
) -> None:
    """Solve the recurrence along axis 0 of each row into `x`.

    Parameters
    ----------
    tile : Tile or Runs
        From `tile_of`.
    a, u, x, x0, window, threads
        As for `recfact.cpu.channels.solve_into`, but of one shape and not empty.
    states : ndarray, shape (rows, 3), optional
        The states that earlier steps left, for the whole recurrence. At first they are `row_job.initial_states`. They
        are replaced by those after the last whole tile. `x0` then only says whether there was an initial state.
    start : int, default 0
        The time of the first step, a multiple of a tile.
    starts : ndarray of int64, optional
        Where segments start, each above the one before and the first at 0. `x0` then has a state for each, on axis 0.
    """
    channels = tile.channels
    single = x.size == len(x) * channels
    if isinstance(window, Uniform) and address(x) == address(u):
        u = u.copy("K")
    job = Job(tile, window, a, u, x, start, starts)
    entries = None
    if starts is not None and x0 is not None:
        entries = np.ascontiguousarray(np.broadcast_to(x0, (len(starts), *x.shape[1:])).reshape(len(starts), -1).T)
        x0 = x0[0]
    ordered = address(x) == address(u) or x.strides[0] == 0  # steps must be written one after the other
    if single and states is None and threads > 1 and not ordered and split(job, x0, threads, entries):
        return
    alone = x0 is None and start == 0
    left_behind = states
    if states is None:
        states = initial_states(x, x0)
        if single:
            job.run(job.table(0), len(x), states, initial=x0 is not None, alone=alone, start=start, entries=entries)
            return
    for table, order in tables(job, channels):
        mine, own_entries = states[order], None if entries is None else entries[order[:, 0]]
        parts = min(threads, len(mine))
        cuts = [len(mine) * i // parts for i in range(parts + 1)]
        run_all(
            [
                partial(
                    job.run,
                    np.ascontiguousarray(table[:, i:j]),
                    len(x),
                    mine[i:j].reshape(-1, 3),
                    initial=x0 is not None,
                    alone=alone,
                    start=start,
                    entries=None if own_entries is None else own_entries[i:j],
                )
                for i, j in pairwise(cuts)
            ]
        )
        if left_behind is not None:
            left_behind[order] = mine


def tables(job: Job, channels: int) -> Iterator[tuple[Array, Array]]:
    """Yield the addresses of x, u and a of the rows, in pieces of limited size, and the numbers of the rows in C order.

    If there are `channels` in a row, each has a number, and those of a row are consecutive.
    """
    arrays = [job.x, job.u, job.a]
    shape = job.x.shape
    last = next(axis for axis in range(1, len(shape) + 1) if prod(shape[axis:]) == channels)
    numbers = np.empty(shape[1:], np.int8).strides  # one byte a row: offsets are the numbers
    axes, offsets = merged(shape[1:last], *[array.strides[1:last] for array in arrays], numbers[: last - 1])
    starts = [address(array) + offset for array, offset in zip(arrays, offsets, strict=False)]
    for piece in addresses(axes, [*starts, offsets[3]], limits.BATCH):
        yield piece[:3], piece[3][:, None] + np.arange(channels)
