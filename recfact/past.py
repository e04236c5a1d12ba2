"""The past of the segments of an array, as steps that could have led to it.

For a jagged window a `State` holds the sums of some blocks. Such a block has the same effect as *ghosts*: steps with
coefficients 1 and inputs 0, except the last one, whose input is the sum of the block. For a uniform window a State
holds steps anyway. So a few ghosts, together with the steps that see them, are solved as a separate sequence in the
window itself. Nothing else has to know about States.

Arrays have time on axis 0. Segments lie one behind the other along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from recfact.array_functions import beside, broadcast_to, column, concatenate, in_type, namespace
from recfact.arrays import Array
from recfact.recurrence import folded
from recfact.windows import Full

# Solves coefficients and inputs into the states, from initial states or None, in a window and between offsets or None.
# On a GPU it also takes a place for the last state of each segment, in the type computed in, and None for the others.
Run = Callable[..., None]


def input_places(count: int, block: int, phase: int) -> list[int]:
    """Return for each part of a State, the newest first, the step of a history that has it as its input."""
    newest = (count - 1) * block + phase - 1
    return [newest, *range((count - 1) * block - 1, -1, -block)]


def history(parts: Any, block: int, phase: int) -> tuple[Any, Any]:
    """Return coefficients and inputs, shape (h, ...), that lead to a State.

    If the parts are those of blocks, the coefficients are 1, with axes of size 1.

    Parameters
    ----------
    parts : array, shape (k, ...) or, for blocks of one step, (k, 2, ...)
        The parts of a State, of any library.
    block, phase : int
        Number of steps in a block of its window, and of steps taken in the open block, at least 1. The window isn't the
        whole recurrence.
    """
    xp = namespace(parts)
    if block == 1:
        steps = xp.flip(parts, (0,))
        return steps[:, 0], steps[:, 1]
    pieces = []
    for p in range(len(parts) - 1, -1, -1):
        part = parts[p : p + 1]
        nothing = broadcast_to(xp.zeros_like(part), ((block if p else phase) - 1, *part.shape[1:]))
        pieces += [nothing, part]
    u = concatenate(pieces)
    return column(u, np.ones(len(u), int)), u


class Ending:
    """The last steps of a sequence, split into the blocks of which a State keeps a part.

    Parameters
    ----------
    a, u : array, shape (n, ...)
        Coefficients and inputs of a sequence of at least one step. Its first block starts with it.
    block, terms : int
        The normal form of a window that isn't the whole recurrence and whose blocks have more than one step.
    """

    def __init__(self, a: Any, u: Any, block: int, terms: int) -> None:
        last = (len(u) - 1) // block
        self.first = max(0, last - terms) * block
        steps = np.arange(self.first, len(u))[:, None]
        low = np.arange(last, self.first // block - 1, -1) * block
        xp = namespace(u)
        self.follows = _mask(u, steps > low)
        """Whether a step leads from a state of the block, or a later one."""
        # The coefficient of a block's first step multiplies none of its inputs, and may be NaN.
        self.a = xp.where(self.follows, a[self.first :, None], 0)
        self.within = _mask(u, (steps >= low) & (steps < low + block))
        """Whether an input is one of the block."""
        self.u = xp.where(self.within, u[self.first :, None], 0)


def _mask(array: Any, values: Any) -> Any:
    return column(array, values.reshape(-1)).reshape(*values.shape, *(1,) * (array.ndim - 1))


@dataclass(frozen=True, slots=True)
class Past:
    """The past of segments: all that they need to know of the steps before them.

    Parameters
    ----------
    block, terms : int
        The window in its normal form.
    parts : ndarray, shape (k, N, ...), or (k, 2, N, ...) for blocks of one step
        The parts as in a `State`, for N segments. They may be CuPy's, as the arrays of the steps are then.
    phase, held : sequence of int
        For each segment, the number of steps taken in the open block, and the number of parts that are used.
    """

    block: int
    terms: int
    parts: Array
    phase: Sequence[int]
    held: Sequence[int]

    def initial(self) -> Array | None:
        """Return the initial state of each segment, if the segments are before their first step and hold one."""
        if not any(self.held):
            return None
        held: Array = self.parts[0, 1] if self.block == 1 else self.parts[0]
        return held

    def ghosts(self, segment: int) -> int:
        """Return the number of ghost steps that stand for the past of a segment."""
        return (self.held[segment] - 1) * self.block + self.phase[segment] if self.phase[segment] else 0

    def steps(self, a: Array, u: Array, segment: int, first: int, last: int) -> tuple[Array, Array]:
        """Return coefficients and inputs of some steps of a segment, in the type of the parts.

        Parameters
        ----------
        a, u : ndarray
            Coefficients and inputs of the segment.
        segment : int
            Its number.
        first, last : int
            The first wanted step, which starts a block, and the step after the last one, counted from the first ghost.
        """
        ghosts, held = self.ghosts(segment), self.held[segment]
        real = slice(max(first - ghosts, 0), last - ghosts)
        a, u = (in_type(array[real], self.parts.dtype) for array in (a, u))
        if first < ghosts:
            known = self.parts[: held - first // self.block]
            past = history(
                known[:, :, segment] if self.block == 1 else known[:, segment], self.block, self.phase[segment]
            )
            before = (np.broadcast_to(own, (ghosts - first, *u.shape[1:])).astype(u.dtype, copy=False) for own in past)
            a, u = (np.concatenate(pair) for pair in zip(before, (a, u), strict=True))
        elif held and first == ghosts == 0:
            initial = self.initial()
            with np.errstate(all="ignore"):
                u = folded(a, u, None if initial is None else initial[segment])
        return a, u

    def after(self, run: Run, a: Array, u: Array, offsets: Sequence[int]) -> Past:
        """Return the past of the steps that follow. An empty segment passes on its own past."""
        phase, held, tails = list(self.phase), list(self.held), {}
        for segment, (start, end) in enumerate(pairwise(offsets)):
            if start < end:
                total = self.ghosts(segment) + end - start
                blocks = -(-total // self.block)
                phase[segment], held[segment] = (total - 1) % self.block + 1, min(blocks, self.terms + 1)
                first = (blocks - held[segment]) * self.block
                tails[segment] = self.steps(a[start:end], u[start:end], segment, first, total)
        xp = namespace(self.parts)
        parts = xp.zeros((max(held, default=0), *self.parts.shape[1:]), self.parts.dtype)
        if len(tails) < len(held):
            parts[: len(self.parts)] = self.parts[: len(parts)]
        if self.block == 1:
            for segment, (coefficients, inputs) in tails.items():
                parts[: held[segment], 0, segment], parts[: held[segment], 1, segment] = (
                    coefficients[::-1],
                    inputs[::-1],
                )
        else:
            endings = [Ending(*tail, self.block, self.terms) for tail in tails.values()]
            parts[:, beside(parts, np.array(list(tails), int))] = sums(run, endings, len(parts))
        return Past(self.block, self.terms, parts, phase, held)


def sums(run: Run, endings: Sequence[Ending], count: int) -> Array:
    """Return what the inputs of each of the last blocks contribute to the last states, shape (count, sequences, ...).

    The blocks are solved side by side, as channels, each from its own inputs alone. Channels take plain steps. So a sum
    is rounded as in a loop, however often it passes through here.
    """
    offsets = [0, *accumulate(len(ending.u) for ending in endings)]
    like = endings[0].u
    shape = (offsets[-1], max(2, count), *like.shape[2:])  # a single channel would be none, but a row
    xp = namespace(like)
    a, u = (xp.zeros(shape, like.dtype) for _ in "au")
    for ending, (start, end) in zip(endings, pairwise(offsets), strict=True):
        blocks = ending.u.shape[1]
        a[start:end, :blocks], u[start:end, :blocks] = ending.a, ending.u
    run(a, u, u, None, Full(), np.array(offsets) if len(endings) > 1 else None)
    lasts: Array = u[beside(u, np.array(offsets[1:], int) - 1), :count]
    return lasts.swapaxes(0, 1)
