"""The channels path: all channels take a step together. Fast where they lie next to each other, right for any layout.

The axes other than time are sorted by how densely they lie in memory. The densest one gives the lanes of vectors, the
next one groups of them, as far as both lie within a step; all others, and what is too wide for the cache, are separate
problems of one shape, which a kernel solves one after the other. Only threads and bounded tables of addresses are made
in Python, so neither many small problems nor few large ones wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.channel_kernels import follow
from recfact.cpu.channel_windows import slide
from recfact.cpu.layout import address, addresses
from recfact.cpu.numbers import Lanes
from recfact.cpu.streaming import LINE, streams_channels
from recfact.cpu.threads import run_all
from recfact.number_types import accumulator
from recfact.strides import Axis, merged
from recfact.windows import Window, blocks_and_terms

# Lanes of the widest vector.
WIDEST = 16

# One axis of one number, for arrays (x, u, a, x0).
POINT = Axis(1, (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Problems:
    """Problems of one shape: groups of lanes, repeated along other axes.

    Parameters
    ----------
    lanes, groups : Axis
        The channels of one problem. The arrays are x, u, a and x0.
    others : tuple of Axis
        The axes along which the problems lie.
    starts : tuple of int
        The addresses of the first problem.
    """

    lanes: Axis
    groups: Axis
    others: tuple[Axis, ...]
    starts: tuple[int, ...]


def split(axis: Axis, most: int, starts: tuple[int, ...]) -> Iterator[tuple[Axis, Axis, tuple[int, ...]]]:
    """Cut an axis into pieces of `most` numbers, the last one up to twice as long.

    Yields
    ------
    inner, outer : Axis
        A piece, and the axis along which equal pieces lie.
    starts : tuple of int
        The addresses of the first of them.
    """
    pieces = max(1, axis.length // most)
    equal = pieces if axis.length == pieces * most else pieces - 1
    steps = tuple(step * most for step in axis.strides)
    if equal:
        yield Axis(most, axis.strides), Axis(equal, steps), starts
    if equal * most < axis.length:
        after = tuple(start + step * equal for start, step in zip(starts, steps, strict=True))
        yield Axis(axis.length - equal * most, axis.strides), Axis(1, steps), after


def arrange(axes: list[Axis], starts: tuple[int, ...], time: int, room: int) -> Iterator[Problems]:
    """Choose lanes and groups of at most `room` channels in all, denser than `time` bytes from step to step."""
    if len(axes) == 1 and axes[0].length <= room and axes[0].strides[0] < time:
        # The usual table of channels, whose call waits for what is done here; what follows would yield the same.
        yield Problems(axes[0], POINT, (), starts)
        return
    within = [axis for axis in axes[:2] if axis.strides[0] < time]
    lanes, groups = [*within, POINT, POINT][:2]
    others = axes[len(within) :]
    if lanes.length > room:
        for inner, outer, at in split(lanes, room, starts):
            yield Problems(inner, POINT, (outer, groups, *others), at)
    else:
        for inner, outer, at in split(groups, max(1, room // lanes.length), starts):
            yield Problems(lanes, inner, (outer, *others), at)


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a kernel: what it takes before and after the address of a scratch area, and the bytes of that.

    Addresses in it are those of the table, and of the `edges` of segments.
    """

    kernel: Callable[..., Any]
    table: Array
    arguments: tuple[int, ...]
    scratch: int
    edges: Array

    def run(self, scratch: int) -> None:
        """Run the kernel with a scratch area at an address."""
        self.kernel(address(self.table), self.table.shape[1], *self.arguments, scratch)


def run_tasks(tasks: Iterator[Task], threads: int) -> None:
    """Run tasks, made as they are needed, on several threads."""
    head = list(islice(tasks, 2))
    tasks = chain(head, tasks)
    lock = Lock()

    def work() -> None:
        area = np.empty(0, dtype=np.uint8)
        while True:
            with lock:
                task = next(tasks, None)
            if task is None:
                return
            if len(area) < task.scratch + LINE:
                area = np.empty(task.scratch + LINE, dtype=np.uint8)
            task.run(-(-address(area) // LINE) * LINE)

    run_all([work] * (threads if len(head) > 1 else 1))


def solve_into(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    *,
    reverse: bool,
    window: Window,
    threads: int,
    offsets: Array | None = None,
) -> None:
    """Solve the recurrence along axis 0 into `x`, for any strides.

    Parameters
    ----------
    a, u : ndarray, broadcastable to the shape of `x`
        Coefficients and inputs, of the dtype of `x`.
    x : ndarray, shape (n, ...)
        The states: float32, float64, complex64, complex128, float16 or bfloat16, in native byte order. May be `u`
        itself, and overlaps with neither array otherwise.
    x0 : ndarray, broadcastable to the shape of ``x[0]``, or None
        The initial state, in the dtype that is computed in (float32 for the two halves). None with `reverse`.
    reverse : bool
        Whether to solve x[i] = a[i+1] x[i+1] + u[i] instead.
    window : Window
        What is kept.
    threads : int
        Threads to use at most. The result doesn't depend on it.
    offsets : ndarray of int64, optional
        Where segments start, and where the last one ends, for windows that don't slide. `x0` then has a state for each
        of them, on axis 0.
    """
    if x.size == 0:
        return
    threads = threads if x.size >= limits.WORTH_THREADS else 1
    run_tasks(tasks(a, u, x, x0, reverse, window, threads, offsets), threads)


def slides(window: Window, steps: int) -> bool:
    """Return whether a window of sequences of so many steps keeps too many terms to follow each by a loop."""
    block, terms = blocks_and_terms(window)
    return limits.MOST_STATES <= terms < -(-steps // block) - 1


@cache
def lanes_of(dtype: np.dtype[Any], width: int, streams: bool) -> Any:
    """Return the lanes of vectors of numbers of a type."""
    return Lanes(dtype.name, width, streams)


def tasks(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    reverse: bool,
    window: Window,
    threads: int,
    offsets: Array | None = None,
) -> Iterator[Task]:
    """Make the calls that solve a recurrence; the arguments are those of `solve_into`."""
    n = len(x)
    arrays = [x, *[array if array.shape == x.shape else np.broadcast_to(array, x.shape) for array in (u, a)]]
    starts = [address(array) for array in arrays]
    times = [array.strides[0] for array in arrays]
    if reverse:
        # From the last row to the first; the coefficient of a step stands one row after its input.
        starts = [start + step * (n - 1) for start, step in zip(starts, times, strict=True)]
        starts[2] += times[2]
        times = [-step for step in times]
    # In the order of the steps.
    edges = np.array([0, n]) if offsets is None else np.ascontiguousarray(n - offsets[::-1]) if reverse else offsets
    entry, entry_time, entry_strides = 0, 0, (0,) * (x.ndim - 1)
    if x0 is not None:
        x0 = np.broadcast_to(x0 if offsets is not None else x0[None], (len(edges) - 1, *x.shape[1:]))
        entry, entry_time, entry_strides = address(x0), x0.strides[0], x0.strides[1:]
    axes, within = merged(x.shape[1:], *[array.strides[1:] for array in arrays], entry_strides)
    starts = [start + offset for start, offset in zip([*starts, entry], within, strict=True)]

    block, terms = blocks_and_terms(window)
    block = min(block, n)
    if terms >= -(-n // block) - 1:  # it keeps everything
        block, terms = n, 0
    far = slides(window, n)
    overwrites = far and starts[0] == starts[1]
    span = block * (terms + 1) if far else terms + 1
    room = max(WIDEST, (limits.SLIDING_ROOM if far else limits.ROOM) // span // WIDEST * WIDEST)
    if threads > 1:
        room = min(room, max(limits.LEAST, -(-x.size // n // (threads * WIDEST)) * WIDEST))
    number = accumulator(x.dtype)
    between = abs(times[0]) if n > 1 else 0  # 0 too where all steps write to one place
    for part in arrange(axes, tuple(starts), between or sys.maxsize, room):
        lanes, groups = part.lanes, part.groups
        width = 1
        if lanes.strides[:2] == (x.itemsize,) * 2 and lanes.strides[2] in (0, x.itemsize):
            width = min(LINE // number.itemsize, 1 << lanes.length.bit_length() - 1)
        vector = width * x.itemsize
        streams = (
            width > 1 and not far and streams_channels(x, part.starts, times[0], vector, lanes, groups, part.others)
        )
        kind = lanes_of(x.dtype, width, streams)
        arguments = (groups.length, lanes.length, *times, *groups.strides, *lanes.strides, int(x0 is not None))
        row = groups.length * -(-lanes.length // width) * width * number.itemsize
        if far:
            first = block if not reverse else n - (-(-n // block) - 1) * block
            copies = 2 * span * groups.length * lanes.length * x.itemsize if overwrites else 0
            kernel, scratch = slide[kind], (terms + 5) * row + LINE + row // number.itemsize * 16 + copies
            arguments = (n, *arguments, first, block, terms, int(overwrites))
        else:
            kernel, scratch = follow[kind], (terms + 1) * row
            arguments = (*arguments, entry_time, address(edges), len(edges) - 1, int(reverse), block, terms + 1)
        count = prod(axis.length for axis in part.others)
        for table in addresses(part.others, part.starts, min(limits.BATCH, -(-count // threads))):
            yield Task(kernel, table, arguments, scratch, edges)
