"""Where numbers lie in memory: the axes of several arrays at once, as few as describe them, and addresses along them.

The recurrence treats every axis but time alike, so these axes may be reordered, walked backwards and joined. The arrays
are then one set of addresses and strides, in bytes, and a kernel needs nothing else. The first array of each group
leads: its strides say which order is that of memory. It should be the one that is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass
from math import prod

import numpy as np

from recfact.arrays import Array


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of several arrays at once.

    Parameters
    ----------
    length : int
        Numbers along it.
    strides : tuple of int
        Bytes from one number to the next, in each of the arrays.
    """

    length: int
    strides: tuple[int, ...]


def address(array: Array) -> int:
    """Return the address of an array's first number."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]  # a quarter of the time of the other way
    except (TypeError, ValueError, BufferError):  # read-only, with gaps, empty, or a dtype that buffers don't know
        return int(array.ctypes.data)


def merge_axes(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[Axis], tuple[int, ...]]:
    """Describe arrays of one shape by as few axes as possible, in the order of memory, the densest first.

    Parameters
    ----------
    shape : sequence of int
        The shape of all the arrays, without time; no length is 0.
    *strides : sequence of int
        The strides of each array in bytes, one for each length; 0 where it is broadcast.

    Returns
    -------
    axes : list of Axis
        Axes of length 2 and more. Strides of the first array are never negative.
    starts : tuple of int
        For each array, the bytes from its first number to the number at the start of all these axes.

    Examples
    --------
    Rows and columns of a contiguous array and of a flipped one are one axis, walked from the end of the flipped one:

    >>> merge_axes((3, 4), (-32, -8), (-32, -8))
    ([Axis(length=12, strides=(8, 8))], (-88, -88))

    A column that is broadcast over the columns of a contiguous array keeps two axes:

    >>> merge_axes((3, 4), (32, 8), (8, 0))
    ([Axis(length=4, strides=(8, 0)), Axis(length=3, strides=(32, 8))], (0, 0))
    """
    starts = [0] * len(strides)
    axes = []
    for length, *steps in zip(shape, *strides, strict=True):
        if length == 1:
            continue
        if steps[0] < 0:
            starts = [start + step * (length - 1) for start, step in zip(starts, steps, strict=True)]
            steps = [-step for step in steps]
        axes.append(Axis(length, tuple(steps)))
    if len(axes) == 1:
        return axes, tuple(starts)
    axes.sort(key=lambda axis: [abs(step) for step in axis.strides])
    merged: list[Axis] = []
    for axis in axes:
        inner = merged[-1] if merged else axis
        if merged and axis.strides == tuple(step * inner.length for step in inner.strides):
            merged[-1] = Axis(inner.length * axis.length, inner.strides)
        else:
            merged.append(axis)
    return merged, tuple(starts)


def addresses(axes: Sequence[Axis], starts: Sequence[int], most: int) -> Iterator[Array]:
    """Walk through all positions along `axes`, the first axis fastest.

    Parameters
    ----------
    axes : sequence of Axis
        The axes; none means one position.
    starts : sequence of int
        For each array, the address of the first position.
    most : int
        Positions in a piece, at most.

    Yields
    ------
    ndarray of int64, shape (arrays, positions)
        The addresses of a piece, contiguous for each array.

    Examples
    --------
    >>> [piece.tolist() for piece in addresses([Axis(2, (8, 0)), Axis(2, (16, 8))], (100, 500), most=3)]
    [[[100, 108, 116], [500, 500, 508]], [[124], [508]]]
    """
    if not axes:  # a call of this kind is all that some solves make
        yield np.array([[start] for start in starts])
        return
    count = prod(axis.length for axis in axes)
    for first in range(0, count, most):
        position = np.arange(first, min(first + most, count), dtype=np.int64)
        piece = np.repeat(np.array(starts, dtype=np.int64)[:, None], len(position), axis=1)
        for place, axis in enumerate(axes, 1):
            # Along the last axis what is left is the index; dividing is what takes the time.
            position, index = np.divmod(position, axis.length) if place < len(axes) else (position, position)
            piece += np.multiply.outer(np.array(axis.strides, dtype=np.int64), index)
        yield piece
