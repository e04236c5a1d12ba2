"""Writing past the caches, which saves memory traffic if a result is too large to stay in them.

A processor that writes a cache line reads it from memory first. So a solve moves four arrays instead of three. Writes
past the caches avoid this: they fill separate lines and send them to memory. They cost more than they save in three
cases: if the result would have stayed in the caches, if it overwrites the inputs, whose lines are there already, and if
a line isn't filled at once.

Such writes may overtake others. So a kernel that streams waits for them at its end (`numbers.drain`), before another
thread can be told that the result is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.channel_vectors import FOLD
from recfact.cpu.machine_code import writes_whole_lines
from recfact.cpu.numbers import ALIGNED, LINE
from recfact.strides import Axis


def aligned(*numbers: int) -> bool:
    """Return whether addresses and strides are such that all writes can go past the caches."""
    return not any(number % ALIGNED for number in numbers)


def streams_rows(x: Array, u: Array, reverse: bool) -> bool:
    """Return whether tiles write the rows of `x`, time on axis 0, past the caches.

    Halves don't gain: they wait for their arithmetic, and splitting their vectors costs extra. Neither do float64
    and complex numbers backwards in memory, on processors whose vectors are half as wide as ours.
    """
    return (
        x.nbytes >= limits.STREAMED_ROWS
        and len(x) >= limits.LONG
        and abs(x.strides[0]) == x.itemsize
        and x.itemsize != 2
        and (x.dtype == np.float32 or reverse == (x.strides[0] < 0) or writes_whole_lines())
        and address(x) != address(u)
        and aligned(address(x) + (x.itemsize if x.strides[0] < 0 else 0), *x.strides[1:])
    )


def streams_runs(x: Array, u: Array, channels: int = 1) -> bool:
    """Return whether the states of runs, time on axis 0, go past the caches from a stage.

    That is possible for all numbers that don't lie across two lines.
    """
    return (
        x.nbytes >= limits.STREAMED_ROWS
        and len(x) >= limits.LONG
        and x.strides[0] == channels * x.itemsize
        and address(x) != address(u)
        and not any(number % x.itemsize for number in (address(x), *x.strides[1:]))
    )


def streams_channels(
    x: Array,
    starts: Sequence[int],
    time: int,
    vector: int,
    lanes: Axis,
    groups: Axis,
    others: Sequence[Axis],
    columns: bool,
) -> bool:
    """Return whether vectors of channels are written past the caches.

    Parameters
    ----------
    x : ndarray
        The states.
    starts : sequence of int
        The addresses of the first state and of the first input.
    time : int
        Bytes from one step of the states to the next.
    vector : int
        Bytes of a vector.
    lanes, groups, others : Axis and sequence of Axis
        How the channels lie in memory, by the strides of their first array.
    columns : bool
        Whether some steps of a vector, or of four vectors, are written before those of the vectors beside it.
    """
    if x.nbytes < limits.STREAMED or starts[0] == starts[1]:
        return False
    row = lanes.length * lanes.strides[0]
    whole = row % vector == 0  # or else two vectors share some channels, and write them twice
    if groups.length > 1:
        whole = whole and groups.strides[0] == row
        row *= groups.length
    long = row * len(x) >= limits.PROBLEM
    dense = abs(time) == row or abs(time) > row >= limits.WIDE
    # Backwards, memory is slow for wide rows, and even slower with such writes. Narrow rows split lines.
    ordered = time > 0 or LINE <= row <= 4 * vector
    strides = [axis.strides[0] for axis in others]
    if columns and not (groups.length == 1 and row in (vector, FOLD * vector)):
        # Then the next writes don't fill a line that was begun.
        whole = whole and not any(number % LINE for number in (starts[0], time, vector, *strides))
    return whole and long and dense and ordered and aligned(starts[0], time, vector, *strides)
