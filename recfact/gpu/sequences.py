"""Sequences that lie one behind the other in time, solved together."""

from __future__ import annotations

import numpy as np

from recfact.arrays import Array
from recfact.gpu.cuda_streams import check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, uploaded
from recfact.gpu.solves import ENDLESS, Sequences, Solve


def of_sequences(solve: Solve[DeviceArray], offsets: Array | None) -> Solve[DeviceArray]:
    """Return the solve of all sequences, with their starts on the current GPU.

    Parameters
    ----------
    solve : Solve
        With arrays on the current GPU. Initial states have an axis of sequences in the place of time.
    offsets : ndarray of int64 or None
        Where sequences start, and where the last one ends. Without them there is nothing to do.
    """
    own = together(solve, offsets)
    if own.sequences is None or offsets is None:
        return own
    return own._replace(starts=starts_of(offsets, solve.reverse))


def together(solve: Solve[DeviceArray], offsets: Array | None) -> Solve[DeviceArray]:
    """Return the solve of all sequences without their starts. A single one is all of time, and so are those of none."""
    if offsets is None:
        return solve
    if 0 in solve.x.shape:
        return solve._replace(x0=None)  # nothing follows from it
    if len(offsets) > 2:
        return solve._replace(sequences=sequences_of(offsets))
    shape, axis, x0 = solve.x.shape, solve.axis, solve.x0
    if x0 is not None:
        x0 = x0.broadcast_to((*shape[:axis], 1, *shape[axis + 1 :])).taken(axis, 0)
    return solve._replace(x0=x0)


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
