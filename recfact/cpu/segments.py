"""Segments: sequences that lie one behind the other along the axis of time.

Kernels start anew at each of them, however many there are. Windows that slide over channels take them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import channels, limits, rows
from recfact.recurrence import first_kept
from recfact.windows import Full, Window

Solver = Callable[[Array, Array, Array, Array | None, Window], None]


def solve_segments(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    offsets: Array,
    *,
    reverse: bool,
    window: Window,
    threads: int,
    solve: Solver,
) -> None:
    """Solve the recurrence along axis 0 of each segment into `x`.

    Parameters
    ----------
    a, u, x, reverse, window, threads
        As of `recfact.cpu.engine.solve_into`; `x` isn't empty.
    x0 : ndarray, broadcastable to the shape of `x` with a step for each segment, or None
        The initial states, in the dtype that is computed in.
    offsets : ndarray of int64, shape (N + 1,)
        Where segments start, and where the last one ends.
    solve : function of (a, u, x, x0, window)
        Solves a sequence of its own.
    """
    starts = offsets[:-1]
    # The first segment that has steps comes first, and behind the last one comes no other.
    first, last = np.searchsorted(starts, 0, "right") - 1, np.searchsorted(starts, len(x))
    starts = starts[first:last]
    if x0 is not None:
        x0 = np.broadcast_to(x0, (len(offsets) - 1, *x.shape[1:]))[first:last]
    if not isinstance(window, Full):
        window = within(window, int(np.diff(starts, append=len(x)).max()))
    tile = rows.tile_of(a, u, x, reverse, window, segments=True)
    if len(starts) > 1 and len(x) < len(starts) * limits.LONG_SEGMENT:
        if tile is not None:
            rows.solve_into(tile, a, u, x, x0, window=window, threads=threads, starts=starts)
            return
        if not channels.slides(window, len(x)):
            options: dict[str, Any] = {"reverse": reverse, "window": window, "threads": threads}
            channels.solve_into(a, u, x, x0, offsets=np.append(starts, len(x)), **options)
            return
    for index, (start, end) in enumerate(pairwise([*starts.tolist(), len(x)])):
        if start < end:
            piece = slice(start, end)
            solve(a[piece], u[piece], x[piece], None if x0 is None else x0[index], window)


def within(window: Window, steps: int) -> Window:
    """Return a window of sequences of so many steps at most, of the simplest kind that keeps the same of them."""
    return Full() if first_kept(steps - 1, window) == 0 else window
