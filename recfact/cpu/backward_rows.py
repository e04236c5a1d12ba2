"""Gradients of sequences whose steps follow each other in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from math import prod

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address, addresses
from recfact.cpu.backward_runs import descend_rows
from recfact.cpu.channels import Task, lanes_of, run_tasks
from recfact.cpu.engine import solve_into, thread_count
from recfact.cpu.numbers import LINE
from recfact.cpu.threads import run_all
from recfact.strides import Axis, merged
from recfact.windows import Full, Jagged, Window


def gradients_of_rows(
    a: Array,
    u: Array,
    g: Array,
    x: Array | None,
    block: int,
    terms: int,
    da: Array | None,
    du: Array | None,
) -> tuple[Array, Array]:
    """Return the gradients of coefficients and inputs, of one shape, time first.

    Parameters
    ----------
    a, u, g : ndarray, shape (n, ...)
        Coefficients, inputs and cotangents, of one shape and number type.
    x : ndarray, or None
        The states. They are required for a window that keeps only a step's own block.
    block, terms : int
        What is kept, with one term at most. A block as long as the sequence means the whole recurrence.
    da, du : ndarray, or None
        Memory that may receive the gradients.
    """
    da, du = (_room(array, u) for array in (da, du))
    threads = thread_count(None, u.size)
    if terms:
        whole = (du, u, _in_time(g, u), _in_time(a, u), da)  # they live until all threads are done
        run_tasks(_tasks(whole, block, threads), threads)
    elif x is not None:
        window: Window = Full() if block >= len(u) else Jagged(block, 0)
        solve_into(a, g, du, None, reverse=True, window=window, threads=None)
        cuts = [max(1, len(u) * part // threads) for part in range(threads + 1)]
        run_all([partial(_products, du, x, da, first, last) for first, last in pairwise(cuts)])
        da[::block] = 0
    return da, du


def _products(du: Array, x: Array, da: Array, first: int, last: int) -> None:
    """Compute the gradients of some coefficients from the states before them."""
    with np.errstate(all="ignore"):
        np.multiply(du[first:last], x[first - 1 : last - 1], out=da[first:last])


def _room(array: Array | None, u: Array) -> Array:
    """Return memory for gradients: `array` if its steps follow each other as those of the inputs, or new memory."""
    if array is None or array.shape != u.shape or array.strides[0] != array.itemsize:
        return np.empty_like(u)
    return array


def _in_time(array: Array, u: Array) -> Array:
    """Return an array whose steps follow each other in memory as those of the inputs."""
    if array.strides[0] == array.itemsize:
        return array
    own = np.empty_like(u)
    own[...] = array
    return own


def _tasks(arrays: tuple[Array, ...], block: int, threads: int) -> Iterator[Task]:
    """Yield the calls of the kernel. In a call short rows lie side by side."""
    du = arrays[0]
    n, lanes = len(du), lanes_of(du.dtype, LINE // du.itemsize, False)
    axes, within = merged(du.shape[1:], *[array.strides[1:] for array in arrays])
    starts = [address(array) + offset for array, offset in zip(arrays, within, strict=True)]
    side, cuts = Axis(1, (0,) * len(arrays)), [0, n]
    if not axes:
        cuts = sorted({n // block * part // threads * block for part in range(threads)} | {n})
    elif n <= limits.BACKWARD_SHORT:
        side = max(axes, key=lambda axis: axis.length)
        axes.remove(side)
    run = max(1, limits.BACKWARD_RUN // block) * block
    scratch = 5 * max(run + block, n if side.length > 1 else 0) * LINE
    most = min(limits.BATCH, -(-prod(axis.length for axis in axes) // threads))
    share = -(-side.length // threads // lanes.count) * lanes.count
    for first in range(0, side.length, share):
        count = min(share, side.length - first)
        places = [start + first * hop for start, hop in zip(starts, side.strides, strict=True)]
        for table in addresses(axes, places, most):
            for begin, end in pairwise(cuts):
                yield Task(
                    descend_rows[lanes], table, (count, *side.strides, n, begin, end, block, run), scratch, table
                )
