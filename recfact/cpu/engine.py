"""The CPU engine: one entry, two paths.

Sequences whose steps follow each other in memory take the rows path; everything else takes the channels path, which is
right for any layout and fast where channels lie next to each other.
"""

from __future__ import annotations

from recfact.arrays import Array
from recfact.cpu import channels, limits, rows
from recfact.cpu.segments import solve_segments
from recfact.windows import Jagged, Uniform, Window


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
        bfloat16), with any strides. `x` may be `u` itself, and overlaps with neither otherwise.
    x0 : ndarray, broadcastable to the shape of ``x[0]``, or None
        The initial state, in the dtype that is computed in (float32 for the two halves). None with `reverse`.
    reverse : bool
        Whether to solve x[i] = a[i+1] x[i+1] + u[i] instead.
    window : Window
        What is kept.
    threads : int or None
        Threads to use at most; None for as many as the process may run on. The result doesn't depend on it.
    offsets : ndarray of int64, shape (N + 1,), optional
        Where segments start, and where the last one ends. `x0` then has a state for each of them, on axis 0.
    """
    if x.size == 0:
        return
    threads = thread_count(threads, x.size)
    window = plainest(window)
    if offsets is None:
        solve_sequence(a, u, x, x0, reverse=reverse, window=window, threads=threads)
        return

    def solve(a: Array, u: Array, x: Array, x0: Array | None, window: Window) -> None:
        solve_sequence(a, u, x, x0, reverse=reverse, window=window, threads=threads)

    solve_segments(a, u, x, x0, offsets, reverse=reverse, window=window, threads=threads, solve=solve)


def solve_sequence(
    a: Array, u: Array, x: Array, x0: Array | None, *, reverse: bool, window: Window, threads: int
) -> None:
    """Solve the recurrence of a single segment into `x`; the arguments are those of `solve_into`."""
    tile = rows.tile_of(a, u, x, reverse, window)
    if tile is not None:
        rows.solve_into(tile, a, u, x, x0, window=window, threads=threads)
    else:
        channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads)


def thread_count(threads: int | None, numbers: int) -> int:
    """Return how many threads to use: if the caller doesn't say, all processors of the process where it is worth it."""
    if threads is not None:
        return min(threads, limits.MOST_THREADS)
    if numbers < limits.WORTH_THREADS:
        return 1
    return limits.processors()


def plainest(window: Window) -> Window:
    """Return the window of the simplest kind that keeps the same."""
    match window:
        case Jagged(1, terms):
            return Uniform(terms + 1)
    return window
