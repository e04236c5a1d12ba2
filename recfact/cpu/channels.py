"""The channels path: all channels take a step together. It takes any layout, and is fast for neighbouring channels.

The channels are split into problems of one shape (`recfact.cpu.channel_problems`). A kernel solves them one after the
other. Python only starts threads and makes tables of addresses of limited size. So neither many small problems nor a
few large ones wait for Python.
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
from recfact.cpu.addresses import address, addresses
from recfact.cpu.channel_kernels import follow
from recfact.cpu.channel_problems import Problems, Stretch, arranged, stretches
from recfact.cpu.channel_windows import slide
from recfact.cpu.numbers import LINE, Lanes
from recfact.cpu.threads import run_all
from recfact.cpu.uncached_writes import aligned, streams_channels
from recfact.number_types import accumulator
from recfact.strides import merged
from recfact.windows import Window, blocks_within

# Lanes of the widest vector.
WIDEST = 16


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a kernel: its arguments before and after the address of a scratch area, and the bytes of that area.

    The other addresses are those of the table, and of the `edges` of segments.
    """

    kernel: Callable[..., Any]
    table: Array
    arguments: tuple[int, ...]
    scratch: int
    edges: Array

    def run(self, scratch: int) -> None:
        """Run the kernel with a scratch area at an address."""
        self.kernel(self.table, self.table.shape[1], *self.arguments, scratch)


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
        The states: float32, float64, complex64, complex128, float16 or bfloat16, in native byte order. `x` may be `u`
        itself. Otherwise it must not overlap with `a` or `u`.
    x0 : ndarray, broadcastable to the shape of ``x[0]``, or None
        The initial state, in the dtype that is computed in (float32 for the two halves). None with `reverse`.
    reverse : bool
        Whether to solve x[i] = a[i+1] x[i+1] + u[i] instead.
    window : Window
        What is kept.
    threads : int
        Largest number of threads. The result doesn't depend on it.
    offsets : ndarray of int64, optional
        Where segments start, and where the last one ends, for windows that don't slide. `x0` then has a state for each
        of them, on axis 0.
    """
    if x.size == 0:
        return
    run_tasks(tasks(a, u, x, x0, reverse, window, threads, offsets), threads)


def slides(window: Window, steps: int) -> bool:
    """Return whether a window keeps too many terms, in sequences of so many steps, to follow each of them by a loop."""
    _, terms = blocks_within(window, steps)
    return terms >= limits.MOST_STATES


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
    """Make the calls that solve a recurrence. The arguments are those of `solve_into`."""
    n = len(x)
    arrays = [x, *[array if array.shape == x.shape else np.broadcast_to(array, x.shape) for array in (u, a)]]
    starts = [address(array) for array in arrays]
    times = [array.strides[0] for array in arrays]
    if reverse:
        # From the last row to the first. The coefficient of a step stands one row after its input.
        starts = [start + step * (n - 1) for start, step in zip(starts, times, strict=True)]
        starts[2] += times[2]
        times = [-step for step in times]
    # The edges of segments, in the order of the steps.
    edges = np.array([0, n]) if offsets is None else np.ascontiguousarray(n - offsets[::-1]) if reverse else offsets
    entry, entry_time, entry_strides = 0, 0, (0,) * (x.ndim - 1)
    if x0 is not None:
        x0 = np.broadcast_to(x0 if offsets is not None else x0[None], (len(edges) - 1, *x.shape[1:]))
        entry, entry_time, entry_strides = address(x0), x0.strides[0], x0.strides[1:]
    axes, within = merged(x.shape[1:], *[array.strides[1:] for array in arrays], entry_strides)
    starts = [start + offset for start, offset in zip([*starts, entry], within, strict=True)]

    block, terms = blocks_within(window, n)
    far = slides(window, n)
    overwrites = far and starts[0] == starts[1]
    span = block * (terms + 1) if far else terms + 1
    room = max(WIDEST, (limits.SLIDING_ROOM if far else limits.ROOM) // span // WIDEST * WIDEST)
    if threads > 1:
        room = min(room, max(limits.LEAST, -(-x.size // n // (threads * WIDEST)) * WIDEST))
    number = accumulator(x.dtype)
    lead = block if not reverse else n - (-(-n // block) - 1) * block
    # A single state of each channel gains nothing from a copy, unless its run is short.
    longest = limits.LONGEST_COPY if far else sys.maxsize if terms else limits.LONGEST_RUN // x.itemsize
    whole = Stretch(n, tuple(starts), axes, edges, lead, x0 is not None)
    for stretch in stretches(whole, times, block, terms, far):
        n = stretch.steps
        for part in arranged(stretch, times, number, room, longest):
            lanes, groups = part.lanes, part.groups
            turns = turns_of(x, part, times[0] * (n - 1)) if part.turns else 0
            width = 1
            if part.turns or (lanes.strides[:2] == (x.itemsize,) * 2 and lanes.strides[2] in (0, x.itemsize)):
                width = min(LINE // number.itemsize, 1 << lanes.length.bit_length() - 1)
            vector = width * x.itemsize
            streams = width > 1 and not part.turns
            streams = streams and streams_channels(x, part.starts, times[0], vector, lanes, groups, part.others, far)
            kind = lanes_of(x.dtype, width, streams)
            arguments = (groups.length, lanes.length, *times, *groups.strides, *lanes.strides, int(stretch.enters))
            row = groups.length * -(-lanes.length // width) * width * number.itemsize
            if far:
                copied = 3 * n if part.turns else 2 * span if overwrites else 0
                copies = copied * groups.length * lanes.length * x.itemsize
                kernel, scratch = slide[kind], (terms + 6) * row + LINE + row // number.itemsize * 16 + copies
                keeps = int(overwrites and not part.turns)
                arguments = (n, *arguments, stretch.lead, block, terms, keeps, turns, stretch.skip)
            else:
                chunk = max(1, limits.TURNED // groups.length)
                chunk = n if n <= 2 * chunk else chunk
                copies = 3 * chunk * groups.length * lanes.length * x.itemsize if part.turns else 0
                kernel, scratch = follow[kind], (terms + 1) * row + copies
                segments = (address(stretch.edges), len(stretch.edges) - 1)
                arguments = (*arguments, entry_time, *segments, int(reverse), block, terms + 1)
                arguments = (*arguments, turns, chunk, stretch.skip)
            count = prod(axis.length for axis in part.others)
            for table in addresses(part.others, part.starts, min(limits.BATCH, -(-count // threads))):
                yield Task(kernel, table, arguments, scratch, stretch.edges)


def turns_of(x: Array, part: Problems, behind: int) -> int:
    """Return the options of kernels for turned problems: which arrays are copied, and whether `x` is streamed.

    `behind` is the number of bytes from the first state of a channel to its last one. It may be negative.
    """
    lane, starts = part.lanes.strides, part.starts
    lowest = starts[0] + min(behind, 0) + min(part.groups.strides[0] * (part.groups.length - 1), 0)
    bits = [lane[0] != x.itemsize, lane[1] != x.itemsize, lane[2] not in (0, x.itemsize)]
    strides = [axis.strides[0] for axis in (part.lanes, *part.others)]
    bits.append(x.nbytes >= limits.STREAMED and starts[0] != starts[1] and aligned(lowest, *strides))
    return sum(1 << place for place, bit in enumerate(bits) if bit)
