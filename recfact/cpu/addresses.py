"""Addresses of the numbers that kernels work on, along the axes that `recfact.strides` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import c_ssize_t
from math import prod

import numpy as np

from recfact.arrays import Array
from recfact.strides import Axis

# Where the address of the first number stands in NumPy's C interface: behind the part with which every object begins.
DATA = object.__basicsize__


def address(array: Array) -> int:
    """Return the address of an array's first number, in a tenth of the time of ``array.ctypes.data``."""
    return c_ssize_t.from_address(id(array) + DATA).value


def addresses(axes: Sequence[Axis], starts: Sequence[int], most: int) -> Iterator[Array]:
    """Walk through all positions along `axes`, the first axis fastest.

    Parameters
    ----------
    axes : sequence of Axis
        The axes. No axes mean one position.
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
    if not axes:  # some solves make only a call of this kind
        yield np.array([[start] for start in starts])
        return
    count = prod(axis.length for axis in axes)
    for first in range(0, count, most):
        position = np.arange(first, min(first + most, count), dtype=np.int64)
        piece = np.array(starts, dtype=np.int64)[:, None]
        for place, axis in enumerate(axes, 1):
            # The rest is the index along the last axis, which saves a division. Divisions take most of the time.
            position, index = np.divmod(position, axis.length) if place < len(axes) else (position, position)
            piece = piece + np.multiply.outer(axis.strides, index)
        yield piece
