"""Vectors of channels: their addresses, operations on some of them at once, and prefetching."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.compilation import helper
from recfact.cpu.language import nothing, operation
from recfact.cpu.numbers import LINE, Lanes, prefetch
from recfact.cpu.operations import load, load_shared, size, width
from recfact.cpu.turning import Strides

FOLD = 4  # vectors at a time; with fewer, each waits for its own last step
AHEAD = 32  # steps ahead at which memory is fetched


@helper
def place(strides: Strides, step: int, group: int, channel: int) -> int:
    """Return the offset of a number from the first one of its array."""
    return step * strides.time + group * strides.group + channel * strides.lane


@helper
def vectors(lanes: Any, channels: int) -> int:
    """Return the number of vectors that cover the channels of a group. The last one may overlap the one before it."""
    count: int = -(-channels // width(lanes))
    return count


@helper
def overlapped(lanes: Any, u: int, u_at: int, u_lane: int, channels: int) -> Any:
    """Return the inputs of the last vector if it overlaps another one, or else anything.

    The states of the other vector may overwrite them.
    """
    value = load_shared(lanes, u, u_at)
    if channels % width(lanes):
        value = load(lanes, u, u_at + (channels - width(lanes)) * u_lane)
    return value


@operation
def doubled(lanes: Any) -> Any:
    """Return the lanes of two vectors at once."""
    return Lanes(lanes.storage, 2 * lanes.count, lanes.streams)(lanes), nothing


@helper
def fills(lanes: Any, channels: int) -> bool:
    """Return whether channels fill one vector, two or four, so that all may be taken at once."""
    if width(lanes) == 1:  # there may be gaps between channels
        return channels == 1
    fits: bool = channels == width(lanes) or channels == 2 * width(lanes) or channels == 4 * width(lanes)
    return fits


@operation
def folded(lanes: Any) -> Any:
    """Return the lanes of some vectors at once."""
    return Lanes(lanes.storage, FOLD * lanes.count, lanes.streams)(lanes), nothing


@operation
def fetch(lanes: Any, address: Any) -> Any:
    """Ask memory for a vector that will be needed soon. Any address is allowed.

    It goes to the second-level cache. The first one has no room for it yet.
    """

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        for offset in range(0, lanes.count * lanes.itemsize, LINE):
            address = builder.add(args[1], ir.Constant(args[1].type, offset))
            prefetch(builder, address, far=True)

    return types.void(lanes, types.int64), codegen


@helper
def factor_at(lanes: Any, a: int, at: int, as_: Strides, channel: int) -> Any:
    """Return the coefficients of a vector of channels of a group. The group may share one coefficient."""
    if as_.lane == 0:
        return load_shared(lanes, a, at)
    return load(lanes, a, at + channel * as_.lane)


@helper
def folded_vectors(lanes: Any, channels: int) -> int:
    """Return how many vectors of channels are taken `FOLD` at a time. None are if channels are taken one by one."""
    count: int = channels // (FOLD * width(lanes)) * FOLD if width(lanes) > 1 else 0
    return count


@helper
def fetch_ahead(lanes: Any, array: int, strides: Strides, turn: int) -> None:
    """Ask memory for a vector of later steps. Each turn takes the next one in the order in which memory is walked."""
    if strides.lane != 0:
        fetch(lanes, array - (turn + 1) * size(lanes) if strides.time < 0 else array + turn * size(lanes))
