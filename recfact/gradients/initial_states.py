"""Initial states as part of the first inputs, a_0 x0 + u_0, whichever array library holds them.

Arrays have time on axis 0, and initial states their segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.array_functions import beside, broadcast_to, column, concatenate, namespace, widened
from recfact.arrays import Array


class Starts:
    """Where segments start.

    Parameters
    ----------
    steps : int
        How many steps there are.
    offsets : ndarray of int64, shape (N + 1,), or None
        Where segments start, and where the last one ends. None means one segment.
    """

    def __init__(self, steps: int, offsets: Array | None) -> None:
        if offsets is None and steps == 0:
            offsets = np.zeros(2, int)  # one segment, without a start in it
        self.steps, self.offsets = steps, offsets

    def taken(self, x: Any) -> Any:
        """Return the first row of each segment, halves widened, and 0 if a segment has none."""
        if self.offsets is None:
            return widened(x[:1])
        xp, firsts, lengths = namespace(x), self.offsets[:-1], np.diff(self.offsets)
        if self.steps == 0:
            return broadcast_to(widened(x).sum(0), (len(firsts), *x.shape[1:]))
        rows = widened(x[beside(x, np.minimum(firsts, self.steps - 1))])
        return xp.where(column(x, lengths > 0), rows, 0)

    def spread(self, rows: Any) -> Any:
        """Return an array of all steps, with a row for each segment in its first step and 0 elsewhere."""
        xp = namespace(rows)
        if self.offsets is None:
            nothing = broadcast_to(rows[:0].sum(0), (self.steps - 1, *rows.shape[1:]))
            return concatenate([rows, nothing])
        segment = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        starts = np.arange(self.steps) == self.offsets[segment]
        return xp.where(column(rows, starts), rows[beside(rows, segment)], 0)
