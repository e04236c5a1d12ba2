"""Where the numbers of arrays lie in memory, in bytes, for both engines and arrays of any library.

The recurrence treats all axes except time in the same way. So these axes may be reordered, walked backwards and joined.
The arrays then are a set of addresses and strides, and a kernel needs nothing else. The first array of each group
leads: its strides define the order of memory. It should be the array that is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

from recfact.number_types import DType

ALIGNMENT = 16  # bytes; of an address, plans depend on the remainder by this alone

Key = tuple[DType, tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Strided:
    """The layout of an array, without its numbers.

    Parameters
    ----------
    dtype, shape
        As in NumPy.
    strides : tuple of int
        Bytes from element to element along each axis. An axis that is broadcast has 0.
    address : int
        Address of the first element.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0

    @property
    def key(self) -> Key:
        """All properties that the plan of a launch depends on. They are the arguments of an array of the same kind."""
        return self.dtype, self.shape, self.strides, self.address % ALIGNMENT

    def broadcast_to(self, shape: tuple[int, ...]) -> Self:
        """Return a view broadcast to a shape."""
        missing = len(shape) - len(self.shape)
        ends = zip(self.shape, self.strides, shape[missing:], strict=True)
        kept = (0 if n == 1 != full else step for n, step, full in ends)
        return replace(self, shape=shape, strides=(0,) * missing + tuple(kept))

    def taken(self, axis: int, index: int) -> Self:
        """Return the view at one index of an axis, without that axis."""
        return replace(
            self,
            shape=self.shape[:axis] + self.shape[axis + 1 :],
            strides=self.strides[:axis] + self.strides[axis + 1 :],
            address=self.address + index * self.strides[axis],
        )


def contiguous(dtype: DType, shape: tuple[int, ...]) -> Strided:
    """Describe an array in C order."""
    return Strided(dtype, shape, tuple(prod(shape[k + 1 :]) * dtype.itemsize for k in range(len(shape))))


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


def merged(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[Axis], tuple[int, ...]]:
    """Describe arrays of one shape by as few axes as possible, in the order of memory, the densest first.

    Parameters
    ----------
    shape : sequence of int
        The shape of all arrays, without time. No length is 0.
    *strides : sequence of int
        The strides of each array in bytes, one for each length. An axis that is broadcast has 0.

    Returns
    -------
    axes : list of Axis
        Axes of length 2 or more. Strides of the first array are never negative.
    starts : tuple of int
        For each array, the bytes from its first number to the number at the start of all these axes.

    Examples
    --------
    Rows and columns of a contiguous array and of a flipped one are one axis, walked from the end of the flipped one:

    >>> merged((3, 4), (-32, -8), (-32, -8))
    ([Axis(length=12, strides=(8, 8))], (-88, -88))

    A column that is broadcast over the columns of a contiguous array keeps two axes:

    >>> merged((3, 4), (32, 8), (8, 0))
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
    joined: list[Axis] = []
    for axis in axes:
        inner = joined[-1] if joined else axis
        if joined and axis.strides == tuple(step * inner.length for step in inner.strides):
            joined[-1] = Axis(inner.length * axis.length, inner.strides)
        else:
            joined.append(axis)
    return joined, tuple(starts)
