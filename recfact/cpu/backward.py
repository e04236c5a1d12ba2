"""Gradients at the speed of memory, in cases where a single pass gives them.

There are three such cases: the whole recurrence and blocks, both if their states are known, and the jagged window of
one term. The numbers must be real, and either the channels or the steps of a sequence must lie next to each other in
memory. All other gradients are composed of solves (`recfact.gradients.differentials`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address, addresses
from recfact.cpu.backward_kernels import descend, descend_blocks
from recfact.cpu.backward_rows import gradients_of_rows
from recfact.cpu.channel_problems import arrange
from recfact.cpu.channels import Task, lanes_of, run_tasks
from recfact.cpu.engine import thread_count
from recfact.cpu.numbers import LINE
from recfact.number_types import FLOAT32, FLOAT64
from recfact.strides import merged
from recfact.windows import Window, blocks_within

# Steps of the whole recurrence in a tile. Several steps at once let memory be read along channels.
TILE = 16


def gradients(
    a: Array,
    u: Array,
    g: Array,
    x: Array | None,
    window: Window,
    da: Array | None = None,
    du: Array | None = None,
) -> tuple[Array, Array] | None:
    """Return the gradients of coefficients and inputs, or None if no kernel gives them.

    Parameters
    ----------
    a, u, g : ndarray, shape (n, ...)
        Coefficients, inputs and cotangents of one number type. Axes of size 1 broadcast.
    x : ndarray, or None
        The states, if they are known.
    window : Window
        What is kept.
    da, du : ndarray, optional
        Memory with all steps that may receive the gradients. If it doesn't suit a kernel, they are elsewhere.

    Returns
    -------
    da : ndarray
        In the shape of the states. If `a` has size 1 on the densest axis, it has a sum over that axis.
    du : ndarray
        In the shape of the states.
    """
    shape = np.broadcast_shapes(a.shape, u.shape)
    if u.shape != shape or u.dtype not in (FLOAT32, FLOAT64) or u.size == 0:
        return None
    n = len(u)
    block, terms = blocks_within(window, n)
    if terms > 1 or block == 1 or (terms == 0 and x is None) or (terms == 1 and block > limits.BACKWARD_BLOCK):
        return None
    if u.strides[0] == u.itemsize:
        return gradients_of_rows(np.broadcast_to(a, shape), u, np.broadcast_to(g, shape), x, block, terms, da, du)
    dense = [axis for axis in range(1, u.ndim) if u.strides[axis] == u.itemsize and u.shape[axis] > 1]
    if not dense:
        return None
    lane = dense[0]
    du = np.empty_like(u) if du is None else du
    sizes = [1 if axis == lane and a.shape[lane] == 1 else size for axis, size in enumerate(shape)]
    if da is None or list(da.shape) != sizes:
        da = np.empty_like(a) if list(a.shape) == sizes else np.empty(sizes, a.dtype)
    given = u if x is None or terms else np.broadcast_to(x, shape)
    whole = (du, given, _like(u, g), np.broadcast_to(a, shape), np.broadcast_to(da, shape))
    threads = thread_count(None, u.size)
    tasks = _tasks(whole, block, terms, threads)
    if tasks is None:
        return None
    run_tasks(iter(tasks), threads)
    return da, du


def _like(u: Array, g: Array) -> Array:
    """Return cotangents, copied if their layout isn't that of the inputs."""
    if g.shape == u.shape and g.strides == u.strides:
        return g
    own = np.empty_like(u)
    own[...] = g
    return own


def _tasks(arrays: Sequence[Array], block: int, terms: int, threads: int) -> list[Task] | None:
    """Return the calls of a kernel, or None.

    `arrays` are the gradients of the inputs, the states or inputs, the cotangents, the coefficients and the gradients
    of these.
    """
    du = arrays[0]
    n, itemsize = len(du), du.itemsize
    axes, within = merged(du.shape[1:], *[array.strides[1:] for array in arrays])
    starts = tuple(address(array) + offset for array, offset in zip(arrays, within, strict=True))
    lanes = axes[0]
    shared = lanes.strides[3] == 0
    if lanes.strides[:3] != (itemsize,) * 3 or lanes.strides[3:] != (0 if shared else itemsize,) * 2:
        return None
    span = 2 * block + 1 if terms else 1
    room = limits.ROOM // span // 16 * 16
    if room == 0 or (shared and lanes.length > room):
        return None
    tile, joined = (block, 0) if block < n else (TILE, 1)
    how = (n, block) if terms else (n, tile, joined)
    times = [array.strides[0] for array in arrays]
    tasks = []
    for part in arrange(axes, starts, abs(times[0]) or sys.maxsize, room):
        lanes, groups = part.lanes, part.groups
        width = min(LINE // itemsize, lanes.length & -lanes.length)
        kernel = (descend_blocks if terms else descend)[lanes_of(du.dtype, width, False)]
        scratch = (groups.length * lanes.length * span + 2 * width * (block if terms else tile)) * itemsize
        arguments = (groups.length, lanes.length, *times, *groups.strides, int(shared), *how)
        most = min(limits.BATCH, -(-prod(axis.length for axis in part.others) // threads))
        tables = addresses(part.others, part.starts, most)
        tasks += [Task(kernel, table, arguments, scratch, table) for table in tables]
    return tasks
