"""The tasks of an exponential average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from recfact.array_functions import concatenate
from recfact.arrays import Array
from recfact.cuts import Piece
from recfact.dask.merging import Part, composed, through
from recfact.weighted import Average, no_state
from recfact.windows import Full, Window


@dataclass(frozen=True)
class Averaging:
    """The tasks of an average, as `Graph` asks for them. `Work` is the same for a solve. No coefficients are read.

    Parameters
    ----------
    axis : int
        The axis of time.
    wanted : Average
        What is computed, of all steps, or with `of` of the steps of a chunk.
    dtype : dtype
        The number type of the result.
    """

    axis: int
    wanted: Average
    dtype: np.dtype[Any]
    prefix: ClassVar[str] = "average"
    reverse: ClassVar[bool] = False

    @property
    def merging(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The functions of statistics that merge them, as `Graph` calls them."""
        decay = self.wanted.weighting.decay
        return partial(through, decay), partial(composed, decay)

    @property
    def window(self) -> Window:
        """The window that statistics see."""
        return self.wanted.window

    def of(self, piece: Piece) -> Averaging:
        """Return the tasks of one chunk. They hold only the times that it needs."""
        weighting, before = self.wanted.weighting, self.rows_before(piece)
        starts = np.array([0, *(before + cut for cut in piece.cuts[1:])])
        times = None if weighting.times is None else weighting.times[piece.start - before : piece.end]
        return replace(self, wanted=replace(self.wanted, weighting=replace(weighting, starts=starts, times=times)))

    def rows_before(self, piece: Piece) -> int:
        """Return how many rows before a chunk `of` counts: those that the window sees, or one if time passes since."""
        return min(piece.before, 1) if self.window == Full() else piece.steps_before(self.window)

    def chained(self, piece: Piece, _a: Any, u: Any, _x0: Any, entering: Any, _: Any = None) -> tuple[Any, Any]:
        """Return the statistics of a chunk, and what enters the next one."""
        values = self._values(u)
        state = no_state(values.size // len(values)) if entering is None else entering.copy()
        found = np.empty(u.shape, values.dtype)
        self.wanted.put(np.moveaxis(values, 0, self.axis), found, self.axis, state, self.rows_before(piece))
        return found, state

    def solved(self, piece: Piece, a: Any, u: Any, x0: Any, entering: Any) -> Any:
        """Return the statistics of a chunk, from what enters it."""
        return self.chained(piece, a, u, x0, entering)[0]

    def map(self, piece: Piece, a: Any, u: Any, x0: Any) -> Part:
        """Return the statistics of a chunk alone."""
        _, state = self.chained(piece, a, u, x0, None)
        weighting, first = self.wanted.weighting, self.rows_before(piece)
        seen = np.isfinite(self._values(u))
        seen = seen.reshape(len(seen), -1)
        ages = np.broadcast_to(weighting.ages(first, first + len(seen)), len(seen))
        if weighting.ignore_na:
            until = np.broadcast_to(ages[:, None], seen.shape).sum(axis=0, where=seen)
            return Part(piece.before > 0 and piece.has_one_segment, state, until, np.zeros_like(until))
        last = np.where(seen.any(axis=0), len(seen) - np.argmax(seen[::-1], axis=0), 0)
        until = np.concatenate([[0.0], np.cumsum(ages)])[last]
        rest = np.concatenate([[0.0], np.cumsum(ages[::-1])])[len(seen) - last]
        return Part(piece.before > 0 and piece.has_one_segment, state, until, rest)

    def border(self, steps: int, _a: list[Any], u: list[Any]) -> Any:
        """Return `steps` steps before a chunk, time first."""
        return concatenate([self._values(array) for array in u])[-steps:]

    def windowed(self, piece: Piece, _a: Any, u: Any, _x0: Any, border: Any) -> Any:
        """Return the statistics of a chunk in a window, from the steps before it that the window sees."""
        values = self._values(u)
        if border is not None:
            values = concatenate([border, values])
        found = np.empty_like(values, order="C")
        self.wanted.put(values, found, 0, no_state(0))
        return np.moveaxis(found[self.rows_before(piece) :], 0, self.axis)

    def _values(self, u: Any) -> Array:
        """Return values time first, in the number type of the result."""
        return np.moveaxis(np.asarray(u), self.axis, 0).astype(self.dtype, copy=False)
