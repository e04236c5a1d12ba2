"""Named algorithms, run in the arithmetic of their inputs.

Each solves the recurrence along axis 0 of arrays of any dtype, `object` arrays included. It rounds once per operation,
in the order that the algorithm is named for. The algorithms are for study: error analysis runs the very algorithm that
it describes. The schedules say which rows a stage changes. The sparse factors of `recfact.factorizations` are built
from the same schedules.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from recfact.affine import Blocks, carried, products
from recfact.arrays import Array
from recfact.errors import OptionError
from recfact.recurrence import backward, first_kept_rows, folded, forward, transposed, windowed
from recfact.windows import Full, Jagged, Uniform, Window

NAMES = ("sequential", "kogge-stone", "brent-kung", "hierarchical")

BLOCK = 16  # steps in a block of the hierarchical algorithm where no window says another


def doubling(n: int) -> Iterator[tuple[range, int]]:
    """Yield the rows that change and the lag, 1, 2, 4, ... < n, of every stage of Kogge and Stone."""
    lag = 1
    while lag < n:
        yield range(lag, n), lag
        lag *= 2


def up_sweep(n: int) -> Iterator[tuple[range, int]]:
    """Yield the rows that change, counted from 0, and the lag of every stage of Brent and Kung's up-sweep."""
    lag = 1
    while 2 * lag <= n:
        yield range(2 * lag - 1, n, 2 * lag), lag
        lag *= 2


def down_sweep(n: int) -> Iterator[tuple[range, int]]:
    """Yield the rows that change, counted from 0, and the lag of every stage of Brent and Kung's down-sweep."""
    for _, lag in reversed(list(up_sweep(n))):
        if 3 * lag <= n:
            yield range(3 * lag - 1, n, 2 * lag), lag


def _at(rows: range, lag: int = 0) -> slice:
    """Return the slice of the rows `lag` above some rows."""
    return slice(rows.start - lag, rows.stop - lag, rows.step)


def sequential(a: Array, u: Array, window: Window) -> Array:
    """Solve a truncated recurrence: every row is a loop over the inputs that it keeps, and all loops run together.

    The results are those of `recfact.recurrence.windowed`, bit for bit, because rows don't depend on each other.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, of one shape.
    window : Window
        What is kept.
    """
    lags = np.arange(len(u)) - first_kept_rows(len(u), window)
    x = u.copy()
    for lag in range(int(lags.max(initial=0)), -1, -1):
        starting = np.flatnonzero(lags == lag)
        x[starting] = u[starting - lag]
        going = np.flatnonzero(lags > lag)
        if len(going):
            x[going] = a[going - lag] * x[going] + u[going - lag]
    return x


def kogge_stone(a: Array, u: Array, lags: int | None = None) -> Array:
    """Solve by Kogge and Stone (1973): v <- v + f shift(v, s), f <- f shift(f, s), s = 1, 2, 4, ...

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs; ``a[0]`` is not read.
    lags : int, optional
        A power of two at which to stop. The result is that of the uniform window of so many lags.
    """
    v, f = u.copy(), a.copy()
    for _, lag in doubling(len(v) if lags is None else min(lags, len(v))):
        v[lag:] = f[lag:] * v[:-lag] + v[lag:]
        f[2 * lag :] = f[2 * lag :] * f[lag:-lag]
    return v


def brent_kung(a: Array, u: Array) -> Array:
    """Solve by Brent and Kung (1982): an up-sweep over growing blocks and a down-sweep that completes them."""
    v, f = u.copy(), a.copy()
    for rows, lag in up_sweep(len(v)):
        v[_at(rows)] = f[_at(rows)] * v[_at(rows, lag)] + v[_at(rows)]
        f[_at(rows[1:])] = f[_at(rows[1:])] * f[_at(rows[1:], lag)]
    for rows, lag in down_sweep(len(v)):
        v[_at(rows)] = f[_at(rows)] * v[_at(rows, lag)] + v[_at(rows)]
    return v


def hierarchical(a: Array, u: Array, block: int, terms: int | None = None) -> Array:
    """Solve by blocks: local solves, a recurrence of carriers, reconstruction (the paper's Algorithms 2 and 4).

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs.
    block : int
        Steps in a block; the last one may be shorter.
    terms : int, optional
        Number of terms of the carrier operator to keep, as in a jagged window (1 is B2P). By default all are kept.
    """
    blocks = Blocks.of(len(u), block)
    coefficients, inputs = blocks.split(a, 1).swapaxes(0, 1), blocks.split(u, 0).swapaxes(0, 1)
    w = forward(coefficients, inputs)
    g = products(coefficients)
    if terms != 0:
        w[:, 1:] = w[:, 1:] + g[:, 1:] * carried(g[-1], w[-1], terms)[:-1]
    return blocks.join(w.swapaxes(0, 1))


def run_segments(a: Array, u: Array, x0: Array | None, offsets: Array, *, window: Window, reverse: bool) -> Array:
    """Run the sequential algorithm along axis 0 of each segment.

    Parameters
    ----------
    a, u, window, reverse
        As of `run`.
    x0 : ndarray, shape (N, ...), optional
        The initial states of the segments.
    offsets : ndarray of int, shape (N + 1,)
        Where segments start, and where the last one ends.
    """
    x = u.copy()
    for index, (start, end) in enumerate(pairwise(offsets.tolist())):
        state = None if x0 is None else x0[index, ...]
        x[start:end] = run("sequential", a[start:end], u[start:end], state, window=window, reverse=reverse)
    return x


def run(name: str, a: Array, u: Array, x0: Array | None = None, *, window: Window, reverse: bool = False) -> Array:
    """Run a named algorithm along axis 0.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, of one shape and dtype.
    x0 : ndarray, optional
        Initial state, folded into the first input.
    window : Window
        What is kept.
    reverse : bool
        Whether to apply the transpose.

    Raises
    ------
    OptionError
        If the algorithm doesn't make that window.
    """
    u = folded(a, u, x0)
    if name == "sequential":
        if isinstance(window, Full):
            return backward(a, u) if reverse else forward(a, u)
        return windowed(a, u, window, reverse=True) if reverse else sequential(a, u, window)
    if reverse:
        n = len(u)
        if isinstance(window, Jagged):  # its blocks count from the start, so the end is filled up before it is turned
            blocks = Blocks.of(n, window.block)
            a, u = blocks.filled(a, 1), blocks.filled(u, 0)
        return transposed(partial(run, name, window=window), a, u)[:n]
    match name, window:
        case "kogge-stone", Full():
            return kogge_stone(a, u)
        case "kogge-stone", Uniform(lags) if lags & (lags - 1) == 0:
            return kogge_stone(a, u, lags)
        case "brent-kung", Full():
            return brent_kung(a, u)
        case "hierarchical", Full():
            return hierarchical(a, u, BLOCK)
        case "hierarchical", Jagged(block, terms):
            return hierarchical(a, u, block, terms)
    raise OptionError(
        f"must be one that algorithm {name!r} makes",
        "window",
        given=window,
        advice="'kogge-stone' makes the full one and uniform ones of a power of two, 'brent-kung' the full one, "
        "'hierarchical' the full one and jagged ones; 'sequential' makes all",
    )
