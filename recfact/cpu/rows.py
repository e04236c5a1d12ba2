"""The rows path: sequences whose steps follow each other in memory.

Rows are solved one after the other or shared among threads; a single long row is split in time (`time_split`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.chunks import CHUNK
from recfact.cpu.layout import address, addresses
from recfact.cpu.row_job import Job, initial_states, run_short
from recfact.cpu.streaming import streams_rows
from recfact.cpu.threads import run_all
from recfact.cpu.tiles import Tile
from recfact.cpu.time_split import split
from recfact.number_types import NUMBER_TYPES
from recfact.strides import merged
from recfact.windows import Full, Uniform, Window

# Sub-tiles in a tile of a short window, which has more to do between tiles than the whole recurrence.
WINDOW_SUB_TILES = {"float64": 2, "float32": 4, "float16": 4, "bfloat16": 4}


@cache
def tile_for(
    dtype: np.dtype[Any], reverse: bool, window: Window, streams: bool = False, segments: bool = False
) -> Tile | None:
    """Return the tile that solves a window, or None if there is none.

    If it `streams`, it writes past the caches; with `segments` it may start anew anywhere.
    """
    if NUMBER_TYPES[dtype].is_complex:
        return None
    storage = dtype.name
    tile = Tile(storage, reverse, sub_tiles=1, streams=streams)
    if segments:
        return tile
    match window:
        case Full():
            return Tile(storage, reverse, streams=streams)
        case Uniform(lags) if CHUNK <= lags <= tile.sub_tile and lags & (lags - 1) == 0:
            return Tile(storage, reverse, lags, WINDOW_SUB_TILES[storage], streams)
    return tile


def tile_of(a: Array, u: Array, x: Array, reverse: bool, window: Window, segments: bool = False) -> Tile | None:
    """Return the tile for a window on arrays of these layouts, or None if this isn't their path."""
    if x.size == len(x):
        return tile_for(x.dtype, reverse, window, streams_rows(x, u), segments)
    side_by_side = x.strides[0] == u.strides[0] == x.itemsize and a.strides[0] in (0, x.itemsize)
    if not (side_by_side and len(x) >= limits.SHORT):
        return None
    tile = tile_for(x.dtype, reverse, window, streams_rows(x, u), segments)
    if tile is not None and isinstance(window, Full) and len(x) <= tile.sub_tile:
        return Tile(tile.storage, reverse, sub_tiles=1)  # the same arithmetic, and no half of a tile to fill up
    return tile


def solve_into(
    tile: Tile,
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
    tile : Tile
        From `tile_of`.
    a, u, x, x0, window, threads
        As for `recfact.cpu.channels.solve_into`, but of one shape and not empty.
    states : ndarray, shape (rows, 3), optional
        What earlier steps left behind (at first, `row_job.initial_states`), for the whole recurrence. They become what
        the last whole tile leaves. `x0` then only says whether there was an initial state.
    start : int, default 0
        The time of the first step, a multiple of a tile.
    starts : ndarray of int64, optional
        Where segments start, each above the one before and the first at 0. `x0` then has a state for each, on axis 0.
    """
    threads = threads if x.size >= limits.WORTH_THREADS else 1
    single = x.size == len(x)
    if single and states is None and threads == 1 and isinstance(window, Full) and starts is None:
        run_short(tile, a, u, x, x0 if x0 is None else x0.reshape(()))
        return
    apart = isinstance(window, Uniform) and (window.lags != tile.block or starts is not None)
    if apart and address(x) == address(u):
        u = u.copy()
    job = Job(tile, window, a, u, x, start, starts)
    entries = None
    if starts is not None and x0 is not None:
        entries = np.ascontiguousarray(np.broadcast_to(x0, (len(starts), *x.shape[1:])).reshape(len(starts), -1).T)
        x0 = x0[0]
    if single and states is None and threads > 1 and address(x) != address(u) and split(job, x0, threads, entries):
        return
    alone = x0 is None and start == 0
    left_behind = states
    if states is None:
        states = initial_states(x, x0)
        if single:
            job.run(job.table(0), len(x), states, initial=x0 is not None, alone=alone, start=start, entries=entries)
            return
    for table, order in tables(job):
        mine, own_entries = states[order], None if entries is None else entries[order]
        parts = min(threads, len(mine))
        cuts = [len(mine) * i // parts for i in range(parts + 1)]
        run_all(
            [
                partial(
                    job.run,
                    np.ascontiguousarray(table[:, i:j]),
                    len(x),
                    mine[i:j],
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


def tables(job: Job) -> Iterator[tuple[Array, Array]]:
    """Yield the addresses of x, u and a of the rows, in bounded pieces, and the rows' numbers in C order."""
    arrays = [job.x, job.u, job.a]
    shape = job.x.shape[1:]
    numbers = np.empty(shape, np.int8).strides  # one byte a row: offsets are the numbers
    axes, offsets = merged(shape, *[array.strides[1:] for array in arrays], numbers)
    starts = [address(array) + offset for array, offset in zip(arrays, offsets, strict=False)]
    for piece in addresses(axes, [*starts, offsets[3]], limits.BATCH):
        yield piece[:3], piece[3]
