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

from recfact.array_functions import beside, bits, broadcast_to, column, concatenate, in_type, namespace
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

    def steps(
        self, a: Array, u: Array, segment: int, first: int, last: int, as_given: bool = False
    ) -> tuple[Array, Array]:
        """Return coefficients and inputs of some steps of a segment, in the type of the parts.

        Parameters
        ----------
        a, u : ndarray
            Coefficients and inputs of the segment.
        segment : int
            Its number.
        first, last : int
            The first wanted step, which starts a block, and the step after the last one, counted from the first ghost.
        as_given : bool, default False
            Whether they stay in the types that they have. The past must add nothing to them.
        """
        ghosts, held = self.ghosts(segment), self.held[segment]
        real = slice(max(first - ghosts, 0), last - ghosts)
        a, u = a[real], u[real]
        if as_given:
            return a, u
        a, u = (_in_type_once(array, self.parts.dtype) for array in (a, u))
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
        phase, held, spans = list(self.phase), list(self.held), {}
        xp = namespace(self.parts)
        as_given = xp is not np and self.block > 1  # kernels of GPUs take halves, but a past comes in a wider type
        for segment, (start, end) in enumerate(pairwise(offsets)):
            if start < end:
                ghosts = self.ghosts(segment)
                total = ghosts + end - start
                blocks = -(-total // self.block)
                phase[segment], held[segment] = (total - 1) % self.block + 1, min(blocks, self.terms + 1)
                first = (blocks - held[segment]) * self.block
                spans[segment] = slice(start, end), first, total
                as_given = as_given and first >= ghosts and (first > 0 or not self.held[segment])
        tails = {
            segment: self.steps(a[span], u[span], segment, first, total, as_given)
            for segment, (span, first, total) in spans.items()
        }
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
            if xp is np:
                ends = sums(run, [Ending(*tail, self.block, self.terms) for tail in tails.values()], len(parts))
            else:
                ends = sums_on_gpu(run, list(tails.values()), self.block, len(parts), parts.dtype)
            parts[:, beside(parts, np.array(list(tails), int))] = ends
        return Past(self.block, self.terms, parts, phase, held)


def sums(run: Run, endings: Sequence[Ending], count: int) -> Array:
    """Return what the inputs of each of the last blocks contribute to the last states, shape (count, sequences, ...).

    The blocks are solved side by side, as channels, each from its own inputs alone. Channels take plain steps. So a sum
    is rounded as in a loop, however often it passes through here.
    """
    offsets = [0, *accumulate(len(ending.u) for ending in endings)]
    like = endings[0].u
    shape = (offsets[-1], max(2, count), *like.shape[2:])  # a single channel would be none, but a row
    a, u = (np.zeros(shape, like.dtype) for _ in "au")
    for ending, (start, end) in zip(endings, pairwise(offsets), strict=True):
        blocks = ending.u.shape[1]
        a[start:end, :blocks], u[start:end, :blocks] = ending.a, ending.u
    run(a, u, u, None, Full(), np.array(offsets) if len(endings) > 1 else None)
    lasts: Array = u[np.array(offsets[1:], int) - 1, :count]
    return lasts.swapaxes(0, 1)


def sums_on_gpu(run: Run, tails: Sequence[tuple[Array, Array]], block: int, count: int, dtype: Any) -> Array:
    """Return what `sums` does, where kernels take many sequences and write their last states alone.

    Each block is a sequence from zero. Then its last state passes through the steps behind it, which have no inputs.

    Parameters
    ----------
    run : callable
        A function that solves on a GPU.
    tails : sequence of (array, array), shape (n, ...)
        Coefficients and inputs of the last blocks of each sequence, at most `count` of `block` steps.
    dtype : dtype
        The type that they are computed in.
    """
    lengths = np.array([len(u) for _, u in tails])
    ends = np.cumsum(lengths)
    starts, blocks = ends - lengths, -(-lengths // block)
    a, u = (_one_behind_the_other(arrays) for arrays in zip(*tails, strict=True))
    xp, rows = namespace(u), u.shape[1:]

    def last_states(inputs: Any, firsts: Any, x0: Any) -> Any:
        """Return those of as many sequences for each tail as begin in it, which may be empty."""
        states = xp.zeros((firsts.size, *rows), dtype)
        before = None if x0 is None else x0.reshape(states.shape)
        run(a, inputs, None, before, Full(), np.append(firsts, ends[-1]), states)
        return states.reshape((*firsts.shape, *rows))

    def begins(behind: Any) -> Any:
        """Return where the block begins that so many others are behind: the tail, if it doesn't have one."""
        return starts[:, None] + np.maximum(blocks[:, None] - 1 - behind, 0) * block

    reached = last_states(u, begins(np.arange(count)[::-1]), None)
    parts, nothing = [reached[:, -1]], broadcast_to(xp.zeros((1,) * u.ndim, u.dtype), u.shape)
    for k in range(1, count):
        turn = np.where(blocks[:, None] > k, begins(k - 1), ends[:, None])
        entering = xp.zeros((len(tails), 2, *rows), dtype)
        entering[:, 1] = reached[:, -1 - k]
        parts.append(last_states(nothing, np.concatenate([starts[:, None], turn], 1), entering)[:, 1])
    together: Array = xp.stack(parts)
    return together


def _one_behind_the_other(arrays: Sequence[Array]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    rows, dtype, once = arrays[0].shape[1:], arrays[0].dtype, [_once(one) for one in arrays]
    alike = len({one.shape[1:] for one in once}) == 1
    joined = concatenate([bits(one) for one in (once if alike else arrays)]).view(dtype)
    return broadcast_to(joined, (len(joined), *rows))


def _once(array: Array) -> Array:
    """Return an array without what stands beside itself: a single place along axes that are one in memory."""
    return array[(slice(None), *(slice(0, 1) if step == 0 else slice(None) for step in array.strides[1:]))]


def _in_type_once(array: Array, dtype: Any) -> Any:
    return array if array.dtype == dtype else broadcast_to(in_type(_once(array), dtype), array.shape)
