"""Exponentially weighted statistics of tables of values, time first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.decay import Decay, passed
from recfact.errors import OptionError
from recfact.solve import solve
from recfact.windows import Full, Window

PIECE = 1 << 16
"""Values that are averaged at a time, so that they and the weights beside them stay in the caches."""

LEAST_ROWS = 64
"""Rows that are averaged at a time, at least."""

WORTH_THREADS = 1 << 17
"""Values from which on a thread of their own pays."""

WARM_UP = 1 << 13
"""Rows before a thread's own from which it finds out what continues them."""

FORGOTTEN = 2.0**-100
"""The weight of what is so long ago that it probably changes no bit of an average."""


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

    def known_from(self, row: int, first: int) -> int | None:
        """Return the row from which on values decide an average at `row`, with rows known from `first` on.

        That is where its group starts, or `WARM_UP` rows before it if older values are forgotten. Otherwise it is None.
        """
        group = int(self.starts[np.searchsorted(self.starts, row, "right") - 1])
        known = max(row - WARM_UP, group)
        if known == group:
            return known if known >= first else None
        age = np.broadcast_to(self.ages(known, row), row - known).sum()
        return known if known >= first and self.decay.weights(age) < FORGOTTEN else None


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

    def put(self, values: Array, found: Array, axis: int, state: Array, first: int = 0, threads: int = 1) -> None:
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
        threads : int
            How many threads may be used. Results have the same bits for any number of them.
        """
        done = 0
        for given, place in _tables(values, found, axis):
            own = state[done : done + given.shape[1]]
            done += given.shape[1]
            with np.errstate(all="ignore"):  # missing values, and what has no weight yet
                if self.window == Full():
                    _statistics(given, place, self, own, first, threads)
                else:
                    place[...] = _windowed(given, self, first)


def no_state(columns: int) -> Array:
    """Return what continues columns without values."""
    return np.zeros((columns, _engine()[1]))


def _tables(values: Array, found: Array, axis: int) -> Iterator[tuple[Array, Array]]:
    """Yield tables of values and of the results in their places, of shape (n, columns)."""
    if not values.size:
        return
    if axis == values.ndim - 1:
        yield values.reshape(-1, values.shape[-1]).T, found.reshape(-1, values.shape[-1]).T
        return
    for before in np.ndindex(values.shape[:axis]):
        yield values[before].reshape(values.shape[axis], -1), found[before].reshape(values.shape[axis], -1)


def _statistics(values: Array, found: Array, wanted: Average, state: Array, begin: int, threads: int) -> None:
    """Put statistics of values, shape (n, columns), into `found`. The first row has the number `begin`."""
    columns = values.shape[1]
    threads = min(threads, values.size // WORTH_THREADS)
    if columns >= threads > 1:
        cuts = pairwise(columns * k // threads for k in range(threads + 1))
        _together([partial(_rows, values[:, i:j], found[:, i:j], wanted, state[i:j], begin) for i, j in cuts])
    elif threads <= 1 or not _ahead(values, found, wanted, state, begin, threads):
        _rows(values, found, wanted, state, begin)


def _ahead(values: Array, found: Array, wanted: Average, state: Array, begin: int, threads: int) -> bool:
    """Average pieces of the rows at the same time, as `_statistics` does. False if their starts depend on all before.

    Each thread finds what continues its rows from some rows before them. If that has other bits than what the piece
    before leaves, the rows are averaged again.
    """
    steps, columns = values.shape
    cuts = [steps * k // threads for k in range(threads + 1)]
    try:
        known = [wanted.weighting.known_from(begin + cut, begin) for cut in cuts[1:-1]]
    except OptionError:  # times fall somewhere: the rows in their order say where first
        return False
    if None in known:
        return False

    def solve(first: int, end: int, known: int, own: Array) -> tuple[Array, Array]:
        _rows(values[known:first], np.empty((first - known, columns), found.dtype), wanted, own, begin + known)
        entering = own.copy()
        _rows(values[first:end], found[first:end], wanted, own, begin + first)
        return entering, own

    pieces = list(pairwise(cuts))
    owns = [state.copy(), *(no_state(columns) for _ in known)]
    froms = [0, *(row - begin for row in known if row is not None)]
    guesses = _together([partial(solve, *rows, row, own) for rows, row, own in zip(pieces, froms, owns, strict=True)])
    after = state
    for (first, end), row, (entering, own) in zip(pieces, froms, guesses, strict=True):
        if row < first and not np.array_equal(entering.view(int), after.view(int)):
            own = after.copy()
            _rows(values[first:end], found[first:end], wanted, own, begin + first)
        after = own
    state[...] = after
    return True


def _together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls on threads, and return their results. If some raise an OptionError, raise the first."""
    from recfact.cpu.threads import run_all

    def tried(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OptionError as error:
            return error

    results = run_all([partial(tried, call) for call in calls])
    for result in results:
        if isinstance(result, OptionError):
            raise result
    return results


@np.errstate(all="ignore")  # new threads don't have the setting of `put`
def _rows(values: Array, found: Array, wanted: Average, state: Array, begin: int) -> None:
    """Put statistics of values into `found`, as `_statistics` does, on this thread."""
    steps, columns = values.shape
    average, _ = _engine()
    weighting = wanted.weighting
    rows = max(LEAST_ROWS, PIECE // columns)
    for first in range(0, steps, rows):
        end = min(steps, first + rows)
        ages = weighting.ages(begin + first, begin + end)
        weights = weighting.decay.weights(ages)
        losses = weights if weighting.adjust else weighting.decay.losses(ages)  # the first are not read
        given = values[first:end].astype(float) if wanted.root else values[first:end]
        place = np.empty_like(given) if wanted.root else found[first:end]
        average(
            given,
            place,
            weights,
            losses,
            weighting.starts,
            state,
            begin + first,
            wanted.kind,
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
def _engine() -> tuple[Callable[..., None], int]:
    """Return the function that averages rows (which imports LLVM), and how many numbers it carries."""
    from recfact.cpu.average_kernels import KEPT, average_rows

    return average_rows, KEPT
