"""Geometry of a solve: arrays of any strides seen as (batch, head, channel, step), in few dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from recfact.errors import ShapeError
from recfact.number_types import NUMBER_TYPES, NumberType

MOST_DIMENSIONS = 3  # besides time: what the kernels' arguments describe


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a solve, broadcast to the shape of the result: no data, only where it lies.

    Parameters
    ----------
    dtype : str
        Name of the number type: "float16", "bfloat16", "float32", "float64", "complex64" or "complex128".
    strides : tuple of int
        Bytes from element to element along each axis of the result; 0 where the array is broadcast.
    address : int
        Address of the first element, or what is known of it: only its remainder by 16 counts.
    """

    dtype: str
    strides: tuple[int, ...]
    address: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """An operand after dimensions were merged: bytes from element to element along each, and how it is aligned."""

    type: NumberType
    batch: int
    head: int
    channel: int
    step: int
    address: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.type.size

    def alignment(self, *, step: bool, channel: bool) -> int:
        """Return the largest power of two up to 16 that divides the address of every element.

        The strides of steps or channels aren't looked at where these are contiguous and so left out.
        """
        strides = [self.address, self.batch, self.head]
        strides += [self.step] * step + [self.channel] * channel
        return gcd(16, *strides)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A solve as the kernels see it.

    `steps` runs fastest in the order of the recurrence, `channels` are what a coefficient may be shared by; `x0` has no
    steps. Time is contiguous if neighbouring steps of input and result are neighbours in memory.
    """

    steps: int
    batch: int
    heads: int
    channels: int
    a: View
    u: View
    x: View
    x0: View | None

    @property
    def time_contiguous(self) -> bool:
        """Whether steps, and not channels, are next to each other in memory."""
        return not self.channels_contiguous and self.u.step == self.u.size and self.x.step == self.x.size

    @property
    def channels_contiguous(self) -> bool:
        """Whether channels are next to each other in memory."""
        return self.channels > 1 and self.u.channel == self.u.size and self.x.channel == self.x.size

    @property
    def shared(self) -> bool:
        """Whether the channels of a head share their coefficients."""
        return self.a.channel == 0 or self.channels == 1


def geometry_of(shape: tuple[int, ...], axis: int, a: Operand, u: Operand, x: Operand, x0: Operand | None) -> Geometry:
    """Describe a solve along `axis` of arrays that are broadcast to `shape`.

    Parameters
    ----------
    shape : tuple of int
        Of the result, time included.
    axis : int
        Time, counted from the front.
    a, u, x : Operand
        Coefficients, inputs, result; a stride for every axis of `shape`.
    x0 : Operand or None
        Initial states; a stride for every axis of `shape`, of which that of time doesn't count.

    Raises
    ------
    ShapeError
        If more than three dimensions besides time are left after merging those that run on into each other.
    """
    arrays = [a, u, x] if x0 is None else [a, u, x, x0]
    others = [k for k in range(len(shape)) if k != axis and shape[k] != 1]
    others.sort(key=lambda k: (-abs(x.strides[k]), -abs(u.strides[k])))
    merged: list[tuple[int, tuple[int, ...]]] = []  # extent, stride of each array
    for k in others:
        strides = tuple(array.strides[k] for array in arrays)
        if merged and all(outer == inner * shape[k] for outer, inner in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * shape[k], strides)
        else:
            merged.append((shape[k], strides))
    if len(merged) > MOST_DIMENSIONS:
        raise ShapeError(
            f"the GPU engine takes arrays of at most {MOST_DIMENSIONS} dimensions besides time that don't run on into "
            f"each other, got {len(merged)} for shape {shape}; copy the arrays to contiguous ones"
        )
    merged = [(1, (0,) * len(arrays))] * (MOST_DIMENSIONS - len(merged)) + merged
    (batch, batches), (heads, head_strides), (channels, channel_strides) = merged
    a_view, u_view, x_view, *initial = [
        View(
            NUMBER_TYPES[np.dtype(array.dtype)],
            batches[k],
            head_strides[k],
            channel_strides[k],
            array.strides[axis],
            array.address,
        )
        for k, array in enumerate(arrays)
    ]
    return Geometry(shape[axis], batch, heads, channels, a_view, u_view, x_view, initial[0] if initial else None)
