"""Boxes: the pieces in which arrays are taken that are larger than memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

PIECE = 1 << 26
"""Bytes of all arrays together that are in memory at a time."""

Box = tuple[slice, ...]


def boxes(shape: Sequence[int], axis: int, chunks: Sequence[int], bytes_of_all: int) -> list[Box]:
    """Return the boxes into which arrays of a shape are cut, of `PIECE` bytes at most.

    The first axes are cut as short as needed, and the last ones are left whole: in files the numbers of a box then lie
    next to each other. Boxes of the same sequences follow each other in time.

    Parameters
    ----------
    shape : sequence of int
        The shape, without a 0.
    axis : int
        The axis of time, from 0.
    chunks : sequence of int
        The lengths that boxes are multiples of, so that each chunk of zarr is read once. Longer chunks are cut.
    bytes_of_all : int
        The bytes of all arrays.

    Examples
    --------
    >>> for box in boxes((4, 1000), 1, (1, 1), 20 * PIECE)[2:5]:
    ...     print(box)
    (slice(0, 1, None), slice(400, 600, None))
    (slice(0, 1, None), slice(600, 800, None))
    (slice(0, 1, None), slice(800, 1000, None))
    """
    most = max(1, PIECE * prod(shape) // max(1, bytes_of_all))
    smallest = [min(pair) for pair in zip(shape, chunks, strict=True)]
    if prod(smallest) > most:
        smallest = [1] * len(shape)
    lengths = list(shape)
    for at, chunk in enumerate(smallest):
        if prod(lengths) > most:
            fits = most // (prod(lengths[:at]) * prod(lengths[at + 1 :]))
            lengths[at] = max(chunk, fits // chunk * chunk)
    cuts = [
        [slice(start, min(full, start + length)) for start in range(0, full, length)]
        for full, length in zip(shape, lengths, strict=True)
    ]
    time = cuts.pop(axis)
    return [(*rest[:axis], steps, *rest[axis:]) for rest in product(*cuts) for steps in time]


def size(box: Box) -> int:
    """Return how many numbers are in a box."""
    return prod(each.stop - each.start for each in box)
