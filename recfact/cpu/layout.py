"""Addresses of the numbers that kernels work on, along the axes that `recfact.strides` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from math import prod

import numpy as np

from recfact.arrays import Array
from recfact.strides import Axis


def address(array: Array) -> int:
    """Return the address of an array's first number."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]  # a quarter of the time of the other way
    except (TypeError, ValueError, BufferError):  # read-only, with gaps, empty, or a dtype that buffers don't know
        return int(array.ctypes.data)


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
