"""Exponentially weighted statistics of tables of values, time first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.decay import Decay, passed
from recfact.solve import solve
from recfact.windows import Full, Window

PIECE = 1 << 15
"""Values that are averaged at a time, so that they and the weights beside them stay in the caches."""

LEAST_ROWS = 64
"""Rows that are averaged at a time, at least."""


@dataclass(frozen=True)
class Weighting:
    """How values are weighted along time.

    Parameters
    ----------
    starts : ndarray of int64
        Where groups start, and where the last one ends. No group is empty.
    times : ndarray or None, shape (n,)
        When the values were measured. None means one step apart.
    decay : Decay
        How weights decay.
    adjust : bool
        Whether means are divided by the sum of the weights.
    ignore_na : bool
        Whether no time passes at missing values.
    least : int
        Number of values that are needed before a result.
    """

    starts: Array
    times: Array | None
    decay: Decay
    adjust: bool
    ignore_na: bool
    least: int

    def ages(self, first: int, end: int) -> Array:
        """Return the time that passes before each of some rows, or before any row. It is 0 at the start of a group."""
        if self.times is None:
            return np.ones(1)
        later = self.times[first:end]
        earlier = np.concatenate([self.times[max(first - 1, 0)][None], later[:-1]])
        inside = self.starts[slice(*np.searchsorted(self.starts, (first, end)))] - first
        earlier[inside] = later[inside]
        return passed(later, earlier, first, self.decay.unit)


@dataclass(frozen=True)
class Average:
    """A statistic, how values are weighted in it, and the window that it sees.

    Parameters
    ----------
    weighting : Weighting
        How values are weighted.
    kind : str
        "mean", "sum", "biased" or "unbiased" variances.
    root : bool
        Whether the result is their square root. It is computed in float64, because squares may be out of range of the
        type.
    window : Full, Uniform or Jagged
        Which values are seen.
    """

    weighting: Weighting
    kind: str
    root: bool
    window: Window

    def put(self, values: Array, found: Array, axis: int, state: Array, first: int = 0) -> None:
        """Put the statistics of values along an axis into `found`.

        Parameters
        ----------
        values, found : ndarray
            Arrays of one shape. `found` is contiguous.
        axis : int
            The axis of time, counted from the front.
        state : ndarray of float64, as `no_state` makes it
            What continues each column, in the order that columns have with time first. It is changed. A window has
            none.
        first : int
            Number of the first row, as `weighting` counts them.
        """
        done = 0
        for given, place in _tables(values, found, axis):
            own = state[done : done + given.shape[1]]
            done += given.shape[1]
            with np.errstate(all="ignore"):  # missing values, and what has no weight yet
                if self.window == Full():
                    _statistics(given, place, self, own, first)
                else:
                    place[...] = _windowed(given, self, first)


def no_state(columns: int) -> Array:
    """Return what continues columns without values."""
    return np.zeros((columns, _engine()[2]))


def _tables(values: Array, found: Array, axis: int) -> Iterator[tuple[Array, Array]]:
    """Yield tables of values and of the results in their places, of shape (n, columns)."""
    if not values.size:
        return
    if axis == values.ndim - 1:
        yield values.reshape(-1, values.shape[-1]).T, found.reshape(-1, values.shape[-1]).T
        return
    for before in np.ndindex(values.shape[:axis]):
        yield values[before].reshape(values.shape[axis], -1), found[before].reshape(values.shape[axis], -1)


def _statistics(values: Array, found: Array, wanted: Average, state: Array, begin: int) -> None:
    """Put statistics of values, shape (n, columns), into `found`. The first row has the number `begin`."""
    steps, columns = values.shape
    average, kinds, _ = _engine()
    weighting = wanted.weighting
    newest = np.ones(1) if weighting.adjust else weighting.decay.losses(np.ones(1))
    rows = max(LEAST_ROWS, PIECE // columns)
    for first in range(0, steps, rows):
        end = min(steps, first + rows)
        ages = weighting.ages(begin + first, begin + end)
        weights = weighting.decay.weights(ages)
        # What is lost isn't used with `adjust`, except to add up to the weight before.
        losses = 1 - weights if weighting.adjust else weighting.decay.losses(ages)
        given = values[first:end].astype(float) if wanted.root else values[first:end]
        place = np.empty_like(given) if wanted.root else found[first:end]
        average(
            given,
            place,
            weights,
            losses,
            newest,
            weighting.starts,
            state,
            begin + first,
            kinds[wanted.kind],
            weighting.adjust,
            weighting.times is not None,
            not weighting.ignore_na,
            weighting.least,
        )
        if wanted.root:
            found[first:end] = np.sqrt(place, out=place)


def _windowed(values: Array, wanted: Average, first: int) -> Array:
    """Return means or sums of the values in a window, shape (n, columns), in float64."""
    weighting = wanted.weighting
    seen, values = np.isfinite(values), values.astype(float)
    ages = weighting.ages(first, first + len(values))
    weights = np.broadcast_to(weighting.decay.weights(ages)[:, None], values.shape)
    if weighting.ignore_na:
        weights = np.where(seen, weights, 1)

    starts = weighting.starts - first

    def summed(weights: Any, numbers: Array) -> Array:
        result: Array = solve(weights, numbers, axis=0, offsets=starts, window=wanted.window)
        return result

    found = summed(weights, np.where(seen, values, 0))
    if wanted.kind == "mean":
        found /= summed(weights, seen.astype(float))
    found[summed(1.0, seen.astype(float)) < weighting.least] = np.nan
    return found


@cache
def _engine() -> tuple[Callable[..., None], dict[str, int], int]:
    """Return the function that averages rows (which imports LLVM), its statistics, and how many numbers it carries."""
    from recfact.cpu.average_kernels import KEPT, KINDS, average_rows

    return average_rows, KINDS, KEPT
