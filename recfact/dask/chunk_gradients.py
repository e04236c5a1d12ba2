"""The gradients of a chunk in memory: from what enters it from both sides, or from the steps in its window.

A task holds each chunk that it reads and writes once: coefficients, inputs and cotangents, and two gradients. What it
needs beside these is small.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from recfact.array_functions import concatenate
from recfact.arrays import Array
from recfact.cuts import Piece, pieces
from recfact.dask.blocks import backward
from recfact.dask.work import Work
from recfact.gradients.products import vjp
from recfact.number_types import accumulator
from recfact.solve import solve
from recfact.windows import blocks_and_terms

ROOM = 1 << 16
"""How many numbers of a window's chunk are worked on at once, so that what lies between them stays in a cache."""


def gradient(
    work: Work, reverse: bool, piece: Piece, a: Any, u: Any, g: Any, x0: Any, state: Any, cotangent: Any
) -> tuple[Array, Array]:
    """Return the gradients of a chunk in the whole recurrence, from what enters it from both sides."""
    a, u, x0 = work.front(piece, a, u, x0)
    g = np.moveaxis(g, work.axis, 0)
    if reverse:
        u, g = g, u
    wide, first = accumulator(work.dtype), piece.cuts[1] if piece.before else 0
    u = u.astype(wide, copy=False)
    states = np.empty_like(u, shape=(1 + len(u), *u.shape[1:]))  # before each step, and after the last one
    states[:1] = 0 if state is None else state
    if first:
        solve(a[:first], u[:first], x0=state, axis=0, out=states[1:][:first], threads=1)
    rows = None if x0 is None else x0[bool(first) :]
    if first < len(u):
        cuts = [cut - first for cut in piece.cuts if cut >= first]
        solve(a[first:], u[first:], x0=rows, offsets=cuts, axis=0, out=states[1:][first:], threads=1)
    back = backward(a, g, cotangent, piece, wide)[0]
    starts = piece.cuts[bool(piece.before) : -1]
    of_starts = 0 if rows is None else rows * back[starts]
    # The product takes the place of what isn't a gradient itself.
    of_a = np.multiply(states[:-1], back, out=back if reverse else states[:-1])
    of_a[starts] = of_starts
    return work.back(of_a), work.back(states[1:] if reverse else back)


def ends(work: Work, head: int, tail: int, a: Any, u: Any, g: Any) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the first and the last steps of a chunk on which other chunks depend."""
    a, u, _ = work.front(None, a, u, None)
    own = a, u, np.moveaxis(g, work.axis, 0)
    first, last = tuple(one[:head] for one in own), tuple(one[len(one) - tail :] for one in own)
    if head + tail < len(u):  # views would keep the whole chunk
        return tuple(one.copy() for one in first), tuple(one.copy() for one in last)
    return first, last


def gradient_in_window(
    work: Work, reverse: bool, piece: Piece, a: Any, u: Any, g: Any, x0: Any, earlier: list[Any], later: list[Any]
) -> tuple[Array, Array]:
    """Return the gradients of a chunk in a window, from it and the `ends` of the chunks around it.

    The chunk is cut into groups of channels and parts of time again. Each part takes the steps on both sides from the
    chunk or from beside it.
    """
    before, behind = (
        [concatenate([*parts]) for parts in zip(*(both[side] for both in near), strict=True)]
        for side, near in ((1, earlier), (0, later))
    )
    a, u, x0 = work.front(piece, a, u, x0)
    own = np.broadcast_to(a, u.shape), u, np.moveaxis(g, work.axis, 0)
    before, behind = ([np.broadcast_to(one, (len(one), *u.shape[1:])) for one in near] for near in (before, behind))
    of_a, of_u = (np.empty_like(u, dtype=accumulator(work.dtype)) for _ in range(2))
    block, terms = blocks_and_terms(work.window)
    # Parts are longer than what they depend on beside them, so that most steps are worked on once.
    least = min(len(u), 4 * block * (terms + 1))
    for group in _groups(u.shape, least):
        width = u[0][group[1:]].size
        for part in _parts(piece, max(1, ROOM // max(1, width), least)):
            start, end = part.start - piece.before, part.end - piece.before
            known, rest = part.steps_before(work.window), part.steps_behind(work.window)
            early, here, late = ([one[group] for one in arrays] for arrays in (before, own, behind))
            near = _steps(early, here, late, start - known, end + rest)
            rows = None if x0 is None else x0[part.segment :][: len(part.cuts) - 1][group]
            of_a[group][start:end], of_u[group][start:end] = (
                one[known : known + end - start] for one in _of_part(work, reverse, part, known, near, rows)
            )
    return work.back(of_a), work.back(of_u)


def _groups(shape: tuple[int, ...], steps: int) -> list[tuple[slice, ...]]:
    """Return the indices of groups of channels, of which so many steps are `ROOM` numbers if they can be so few."""
    if len(shape) == 1:
        return [(slice(None),)]
    channels = max(1, ROOM * shape[1] // max(1, steps * prod(shape[1:])))
    return [(slice(None), slice(first, first + channels)) for first in range(0, shape[1], channels)]


def _parts(piece: Piece, length: int) -> list[Piece]:
    """Return parts of a chunk. Their steps are counted from the start of the first segment of the chunk."""
    steps = piece.end - piece.start
    lengths = [piece.before, *(min(length, steps - start) for start in range(0, steps, length)), piece.behind]
    starts = [0, *(piece.before + cut for cut in piece.cuts[1:-1]), piece.before + steps + piece.behind]
    return [part for part in pieces(lengths, starts) if 0 < part.number < len(lengths) - 1]


def _steps(before: list[Array], own: list[Array], behind: list[Array], start: int, end: int) -> list[Array]:
    """Return steps of a chunk and beside it, counted from its start."""
    found = []
    for number, array in enumerate(own):
        near = [array[max(0, start) : end]]
        if start < 0:
            near.insert(0, before[number][start:])
        if end > len(array):
            near.append(behind[number][: end - len(array)])
        found.append(concatenate(near) if near[1:] else near[0])
    return found


def _of_part(work: Work, reverse: bool, part: Piece, known: int, given: list[Array], x0: Any) -> tuple[Array, Array]:
    """Return the gradients of a part and of the steps on both sides of it."""
    wide = accumulator(work.dtype)
    a, u, g = (one.astype(wide, copy=False) for one in given)
    if known < part.before:  # the window doesn't reach further back
        a = np.concatenate([np.zeros_like(a[:1]), a[1:]])
        x0 = None if x0 is None else concatenate([np.zeros_like(x0[:1]), x0[1:]])
    begin: dict[str, Any] = {}
    if x0 is not None or not part.has_one_segment:
        begin = {"x0": x0, "offsets": [0, *(known + cut for cut in part.cuts[1:-1]), len(u)]}
    of_a, of_u, _ = vjp(a, u, g, **begin, axis=0, reverse=reverse, window=work.window)
    return of_a, of_u
