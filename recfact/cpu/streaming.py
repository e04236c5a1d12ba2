"""Writing past the caches: what memory is spared where a result is too large to stay in them.

A processor that writes a line of its cache reads it from memory first, so a solve moves four arrays for three. Writes
past the caches don't: they fill lines of their own and send them off. They cost more than they save where the result
would have stayed in the caches, where it overwrites the inputs, whose lines are there already, and where a line isn't
filled at once.

Such writes may overtake others. So a kernel that streams ends by waiting for them (`numbers.drain`), before another
thread can be told that the result is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.layout import address
from recfact.cpu.numbers import ALIGNED
from recfact.strides import Axis

# Bytes of a line of the cache, and of the widest vector.
LINE = 64


def aligned(*numbers: int) -> bool:
    """Return whether addresses and strides are such that all writes can go past the caches."""
    return not any(number % ALIGNED for number in numbers)


def streams_rows(x: Array, u: Array) -> bool:
    """Return whether tiles write the rows of `x`, time on axis 0, past the caches.

    Only float32 gains from it: other tiles wait for their arithmetic, and lose what it costs to split their vectors.
    """
    return (
        x.nbytes >= limits.STREAMED_ROWS
        and len(x) >= limits.LONG
        and x.strides[0] == x.itemsize == 4
        and address(x) != address(u)
        and aligned(address(x), *x.strides[1:])
    )


def streams_channels(
    x: Array, starts: Sequence[int], time: int, vector: int, lanes: Axis, groups: Axis, others: Sequence[Axis]
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
    # Backwards, memory answers slowly to wide rows, and even more slowly beside such writes; narrow ones split lines.
    ordered = time > 0 or LINE <= row <= 4 * vector
    strides = [axis.strides[0] for axis in others]
    return whole and long and dense and ordered and aligned(starts[0], time, vector, *strides)
