"""The CPU engine: one entry to its three paths, which are rows, short rows without gaps, and channels.

Sequences whose steps follow each other in memory are rows (`rows`), or short rows (`short_rows`). Everything else is
solved as channels (`channels`). This path takes any layout, and is fast if channels lie next to each other. Rows and
channels start anew at segments, however many there are. Long segments are solved one by one, and so are segments of
windows that slide over channels.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from recfact.arrays import Array
from recfact.cpu import channels, limits, rows, short_rows
from recfact.cpu.short_calls import run_short
from recfact.cpu.tiles import Tile
from recfact.windows import Full, Jagged, Uniform, Window, within


def solve_into(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    *,
    reverse: bool,
    window: Window,
    threads: int | None,
    offsets: Array | None = None,
) -> None:
    """Solve the recurrence along axis 0 into `x`.

    Parameters
    ----------
    a, u, x : ndarray, shape (n, ...)
        Coefficients, inputs and states, of one shape and dtype (float32, float64, complex64, complex128, float16 or
        bfloat16), with any strides. `x` may be `u` itself. Otherwise it must not overlap with `a` or `u`.
    x0 : ndarray, broadcastable to the shape of ``x[0]``, or None
        The initial state, in the dtype that is computed in (float32 for the two halves). None with `reverse`.
    reverse : bool
        Whether to solve x[i] = a[i+1] x[i+1] + u[i] instead.
    window : Window
        What is kept.
    threads : int or None
        Largest number of threads. None means one for each processor of the process. The result doesn't depend on it.
    offsets : ndarray of int64, shape (N + 1,), optional
        Where segments start, and where the last one ends. `x0` then has a state for each of them, on axis 0.
    """
    if x.size == 0:
        return
    window = plainest(window)
    if offsets is None:
        solve_sequence(a, u, x, x0, reverse=reverse, window=window, threads=threads)
    else:
        solve_segments(a, u, x, x0, offsets, reverse=reverse, window=window, threads=threads)


def solve_sequence(
    a: Array, u: Array, x: Array, x0: Array | None, *, reverse: bool, window: Window, threads: int | None
) -> None:
    """Solve the recurrence of a single segment into `x`. The arguments are those of `solve_into`."""
    threads = thread_count(threads, x.size)
    tile = rows.tile_of(a, u, x, reverse, window)
    if tile is None and short_rows.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads):
        return
    if tile is None:
        channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads)
    elif (
        threads == 1
        and isinstance(tile, Tile)
        and x.dtype.kind != "c"
        and isinstance(window, Full)
        and x.size == len(x)
    ):
        run_short(tile, a, u, x, x0)
    else:
        rows.solve_into(tile, a, u, x, x0, window=window, threads=threads)


def solve_segments(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    offsets: Array,
    *,
    reverse: bool,
    window: Window,
    threads: int | None,
) -> None:
    """Solve the recurrence of each segment into `x`. The arguments are those of `solve_into`, and `x` isn't empty."""
    starts = offsets[:-1]
    # `first` is the first segment that has steps. No other one follows behind `last`.
    first, last = np.searchsorted(starts, 0, "right") - 1, np.searchsorted(starts, len(x))
    starts = starts[first:last]
    if x0 is not None:
        x0 = np.broadcast_to(x0, (len(offsets) - 1, *x.shape[1:]))[first:last]
    if not isinstance(window, Full):
        window = within(window, int(np.diff(starts, append=len(x)).max()))
    tile = rows.tile_of(a, u, x, reverse, window, segments=True)
    if len(starts) > 1 and len(x) < len(starts) * limits.LONG_SEGMENT:
        count = thread_count(threads, x.size)
        if tile is not None:
            rows.solve_into(tile, a, u, x, x0, window=window, threads=count, starts=starts)
            return
        if not channels.slides(window, len(x)):
            edges = np.append(starts, len(x))
            channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=count, offsets=edges)
            return
    for index, (start, end) in enumerate(pairwise([*starts.tolist(), len(x)])):
        if start < end:
            piece, entry = slice(start, end), None if x0 is None else x0[index]
            solve_sequence(a[piece], u[piece], x[piece], entry, reverse=reverse, window=window, threads=threads)


def thread_count(threads: int | None, numbers: int) -> int:
    """Return how many threads to use, if they are worth it. By default there is one for each processor."""
    worth = numbers // limits.WORTH_THREADS
    if worth < 2:
        return 1
    if threads is not None:
        return min(threads, limits.MOST_THREADS, worth)
    processors = limits.processors()
    return 1 if processors == 2 and numbers < limits.WORTH_TWO_THREADS else min(processors, worth)


def plainest(window: Window) -> Window:
    """Return the window of the simplest kind that keeps the same."""
    if isinstance(window, Jagged) and window.block == 1:
        return Uniform(window.terms + 1)
    return window
