"""How the work on channels is split: into problems of one shape, which kernels solve in turn, and stretches of time.

The axes other than time are sorted by how densely they lie in memory. The densest one gives the lanes of vectors. The
next one gives groups of lanes, if both lie within a step. All other axes, and rows too wide for the cache, become
separate problems of one shape. A few long channels are cut in time if a window forgets soon enough.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.numbers import LINE
from recfact.strides import Axis

Number = np.dtype[Any]

# One axis of one number, for arrays (x, u, a, x0).
POINT = Axis(1, (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Problems:
    """Problems of one shape: groups of lanes, repeated along other axes.

    Parameters
    ----------
    lanes, groups : Axis
        The channels of one problem. The arrays are x, u, a and x0.
    others : tuple of Axis
        The axes along which the problems lie.
    starts : tuple of int
        The addresses of the first problem.
    turns : bool, default False
        Whether the lanes lie further apart than the steps, so that kernels work on copies (`recfact.cpu.turning`).
    """

    lanes: Axis
    groups: Axis
    others: tuple[Axis, ...]
    starts: tuple[int, ...]
    turns: bool = False


def split(axis: Axis, most: int, starts: tuple[int, ...]) -> Iterator[tuple[Axis, Axis, tuple[int, ...]]]:
    """Cut an axis into pieces of `most` numbers. The last piece may be up to twice as long.

    Yields
    ------
    inner, outer : Axis
        A piece, and the axis along which equal pieces lie.
    starts : tuple of int
        The addresses of the first piece.
    """
    pieces = max(1, axis.length // most)
    equal = pieces if axis.length == pieces * most else pieces - 1
    steps = tuple(step * most for step in axis.strides)
    if equal:
        yield Axis(most, axis.strides), Axis(equal, steps), starts
    if equal * most < axis.length:
        after = tuple(start + step * equal for start, step in zip(starts, steps, strict=True))
        yield Axis(axis.length - equal * most, axis.strides), Axis(1, steps), after


def arrange(axes: list[Axis], starts: tuple[int, ...], time: int, room: int) -> Iterator[Problems]:
    """Choose lanes and groups, denser than `time` bytes from step to step, with at most `room` channels in all."""
    point = Axis(1, (0,) * len(starts))
    if len(axes) == 1 and axes[0].length <= room and axes[0].strides[0] < time:
        # A shortcut for the usual table of channels, whose call waits for this. The code below would yield the same.
        yield Problems(axes[0], point, (), starts)
        return
    within = [axis for axis in axes[:2] if axis.strides[0] < time]
    lanes, groups = [*within, point, point][:2]
    others = axes[len(within) :]
    if lanes.length > room:
        for inner, outer, at in split(lanes, room, starts):
            yield Problems(inner, point, (outer, groups, *others), at)
    else:
        for inner, outer, at in split(groups, max(1, room // lanes.length), starts):
            yield Problems(lanes, inner, (outer, *others), at)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps of all channels, or equal pieces of these. Kernels solve them from a state at the start or from nothing.

    Parameters
    ----------
    steps : int
        Number of steps.
    starts : tuple of int
        The addresses of the first numbers.
    axes : list of Axis
        The other axes, the densest first. The axis of the pieces, if there are any, is the last.
    edges : ndarray of int64
        The starts of segments, and the end of the last segment.
    lead : int
        Steps of the first block.
    enters : bool
        Whether a state enters.
    skip : int, default 0
        Steps at the start that are only solved because later steps need them, and not written.
    """

    steps: int
    starts: tuple[int, ...]
    axes: list[Axis]
    edges: Array
    lead: int
    enters: bool
    skip: int = 0


def arranged(stretch: Stretch, times: list[int], number: Number, room: int, longest: int) -> Iterator[Problems]:
    """Choose lanes and groups. If few channels lie next to each other, others may be turned to be lanes.

    Only stretches of up to `longest` numbers next to each other may be turned.
    """
    axes, steps = stretch.axes, stretch.steps
    within = denser(axes, times, steps)
    others = axes[len(within) :]
    width = prod(axis.length for axis in within)
    few = width < limits.FEW_LANES and steps * width <= longest
    if stretch.skip or (few and any(axis.length >= limits.FEW_LANES for axis in others)):
        yield from turned_problems(within, others, stretch, times, number)
    else:
        yield from arrange(axes, stretch.starts, between(times, steps), room)


def between(times: list[int], steps: int) -> int:
    """Return the bytes from step to step of the states, or a huge number if all steps write to one place."""
    return abs(times[0]) * (steps > 1) or sys.maxsize


def denser(axes: list[Axis], times: list[int], steps: int) -> list[Axis]:
    """Return the axes, of the first two, that lie within a step."""
    return [axis for axis in axes[:2] if abs(axis.strides[0]) < between(times, steps)]


def turned_problems(
    within: list[Axis], others: list[Axis], stretch: Stretch, times: list[int], number: Number
) -> Iterator[Problems]:
    """Choose lanes that lie further apart than the steps, and groups that make runs of numbers long."""
    lanes = next((axis for axis in reversed(others) if axis.length >= limits.FEW_LANES), POINT)
    groups, *inner_axes = within or [POINT]
    rest = [*inner_axes, *(axis for axis in others if axis is not lanes)]
    most = 4 * LINE // number.itemsize
    cuts = [(groups, lanes, stretch.starts)]
    together, steps = limits.TURNED // stretch.steps // 4 * 4, stretch.steps
    if not within and all(abs(step) == abs(time) * steps for step, time in zip(lanes.strides, times, strict=False)):
        together = min(together, lanes.length // most)
        if together > 1:
            cuts = list(split(lanes, together, stretch.starts))
    for inner, along, begin in cuts:
        if along.length == 1 and inner is not groups:  # rows that are left over
            inner, along = along, inner
        for piece, outer, at in split(along, most, begin):
            yield Problems(piece, inner, (outer, *rest), at, turns=True)


def stretches(whole: Stretch, times: list[int], block: int, terms: int, far: bool) -> Iterator[Stretch]:
    """Cut a few long channels in time if a window forgets soon enough. The pieces are solved side by side.

    Each piece starts at the start of a block, or of a group of blocks if the window slides (`far`). It starts as far
    back as the window reaches.
    """
    if block >= whole.steps or len(whole.edges) > 2:
        yield whole
        return
    within = denser(whole.axes, times, whole.steps)
    width = prod(axis.length for axis in within)
    others = whole.axes[len(within) :]
    turnable = not far or whole.steps * width <= limits.LONGEST_COPY
    halo, unit, head = terms * block, block, whole.lead + terms * block
    piece = max(8 * halo, limits.PIECE // width)
    if far:
        halo = unit = block * (terms + 1)
        head += unit
        piece = min(max(8 * halo, limits.PIECE // width), limits.LONGEST_COPY // width - halo)
    piece = piece // unit * unit
    count = (whole.steps - head) // piece if piece > 0 else 0
    if (
        width >= limits.FEW_LANES
        or count < limits.FEW_LANES
        or (turnable and any(axis.length >= limits.FEW_LANES for axis in others))
        or whole.starts[0] == whole.starts[1]  # a piece would find states where its inputs were
    ):
        yield whole
        return

    def stretch(first: int, steps: int, axes: list[Axis]) -> Stretch:
        starts = tuple(start + first * step for start, step in zip(whole.starts, (*times, 0), strict=True))
        return Stretch(steps, starts, axes, np.array([0, steps]), block, False, halo)

    yield replace(whole, steps=head, edges=np.array([0, head]))
    pieces = Axis(count, tuple(step * piece for step in (*times, 0)))
    yield stretch(head - halo, piece + halo, [*whole.axes, pieces])
    done = head + count * piece
    if done < whole.steps:
        yield stretch(done - halo, whole.steps - done + halo, whole.axes)
