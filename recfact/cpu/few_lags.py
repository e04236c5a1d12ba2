"""Uniform windows of a few lags along memory: all steps at once, each a channel of its own.

A step of such a window depends on the few inputs before it alone. So the steps are taken for channels, which lie next
to each other, and the lags for time: views of the same memory, shifted by one number from lag to lag. The arithmetic of
a step is that of the plain loop over its window, as on the channels path.
"""

from __future__ import annotations

from numpy.lib.stride_tricks import as_strided

from recfact.arrays import Array
from recfact.cpu import channels, limits
from recfact.cpu.layout import address
from recfact.windows import Full


def fits(a: Array, u: Array, x: Array, lags: int) -> bool:
    """Return whether the lags are few, and steps lie next to each other in memory."""
    few = lags < limits.MOST_STATES
    return few and x.strides[0] == u.strides[0] == x.itemsize and a.strides[0] in (0, x.itemsize)


def solve_into(a: Array, u: Array, x: Array, x0: Array | None, *, reverse: bool, lags: int, threads: int) -> None:
    """Solve the recurrence along axis 0 into `x`; the arguments are those of `recfact.cpu.channels.solve_into`."""
    n = len(x)
    lags = min(lags, n)
    if address(x) == address(u):
        u = u.copy()
    edge = slice(n - lags, n) if reverse else slice(lags)  # its windows are cut off by the end
    inner = slice(n - lags) if reverse else slice(lags, n)
    whole = Full()
    channels.solve_into(a[edge], u[edge], x[edge], x0, reverse=reverse, window=whole, threads=threads)
    if lags < n:
        first = 0 if reverse else 1  # of the window of the first step within
        shape = (lags, n - lags, *x.shape[1:])
        coefficients, inputs = (
            as_strided(array[first:], shape, (array.strides[0], *array.strides), writeable=False) for array in (a, u)
        )
        states = as_strided(x[inner], shape, (0, *x.strides))  # each lag writes over the one before
        channels.solve_into(coefficients, inputs, states, None, reverse=reverse, window=whole, threads=threads)
