"""Sequences that lie one behind the other in time: all of them by one launch, or one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from recfact.arrays import Array
from recfact.gpu.cuda_streams import check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, uploaded
from recfact.gpu.run import launches_of, run
from recfact.gpu.solves import ENDLESS, Sequences, Solve


def run_sequences(solve: Solve[DeviceArray], offsets: Array) -> None:
    """Put the solve of each sequence on the current stream.

    Parameters
    ----------
    solve : Solve
        With arrays on the current GPU. Initial states have an axis of sequences in the place of time.
    offsets : ndarray of int64
        Where sequences start, and where the last one ends.
    """
    for own in solves_of(solve, offsets):
        if own.sequences is None:
            run(own)
            continue
        run(own._replace(starts=starts_of(offsets, solve.reverse)))


def solves_of(solve: Solve[DeviceArray], offsets: Array) -> Iterator[Solve[DeviceArray]]:
    """Return the solve of all sequences together, without their starts, or one for each that has steps."""
    if 0 in solve.x.shape:
        return
    together = solve._replace(sequences=sequences_of(offsets))
    if len(offsets) > 2 and all(prepared for _, prepared in launches_of(together)):
        yield together
        return
    axis, shape = solve.axis, solve.x.shape
    a, u, x0 = solve.a.broadcast_to(shape), solve.u.broadcast_to(shape), solve.x0
    if x0 is not None:
        x0 = x0.broadcast_to((*shape[:axis], len(offsets) - 1, *shape[axis + 1 :]))
    for sequence, (start, end) in enumerate(pairwise(offsets.tolist())):
        if start < end:
            own_a, own_u, x = (steps_of(array, axis, start, end) for array in (a, u, solve.x))
            before = None if x0 is None else x0.taken(axis, sequence)
            yield solve._replace(a=own_a, u=own_u, x=x, x0=before)


def starts_of(offsets: Array, reverse: bool) -> DeviceArray:
    """Return where sequences start in the order of the sweep, and where the last one ends, on the current GPU."""
    check_uncaptured("sends offsets to the GPU", "solve the segments one by one")
    return uploaded(np.ascontiguousarray(offsets[-1] - offsets[::-1] if reverse else offsets))


def sequences_of(offsets: Array) -> Sequences:
    """Return what a plan needs to know of sequences. It is the same for many lists of offsets."""
    whole = int(np.bitwise_or.reduce(offsets)) | ENDLESS
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    # Plans are kept by this: rounded up, lengths that come anew with each batch find the plan of another one.
    return Sequences(len(lengths), 1 << (longest - 1).bit_length(), whole & -whole)


def steps_of(array: DeviceArray, axis: int, start: int, end: int) -> DeviceArray:
    """Return the view of some steps of an array."""
    shape = (*array.shape[:axis], end - start, *array.shape[axis + 1 :])
    return replace(array, shape=shape, address=array.address + start * array.strides[axis])
