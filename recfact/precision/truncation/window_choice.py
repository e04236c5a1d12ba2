"""The cheapest window whose truncation error is proved to be small enough.

The cost is the number of additions and multiplications per step (`operations_per_step`). It is that of an O(n)
algorithm whose blocks don't wait for each other. If two windows need equal work, the one with fewer entries is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from operator import itemgetter
from typing import Any

from recfact.arrays import as_numpy, check_axis
from recfact.checks import LONGEST, choice, positive_integer
from recfact.containers import without_labels
from recfact.errors import OptionError, RecfactError
from recfact.gpu.b2p import TILE
from recfact.precision.exact.outward import round_up
from recfact.precision.formats.catalogue import format as find_format
from recfact.precision.truncation.truncation_bounds import magnitude
from recfact.precision.truncation.window_search import BoundSearch, DataSearch
from recfact.printed_table import Column, PrintedTable, Tabular
from recfact.windows import Jagged, Uniform
from recfact.written_numbers import at_most, exact_text

SMALLEST = Fraction(1, 2**1074)
"""The smallest bound of an error but 0."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A window that is good enough.

    Parameters
    ----------
    window : Uniform or Jagged
        The window.
    error : float
        Its proved error.
    """

    window: Uniform | Jagged
    error: float

    @property
    def operations(self) -> float:
        """Additions and multiplications per step."""
        return operations_per_step(self.window)

    @property
    def entries(self) -> float:
        """Average number of entries that a row of the truncated operator keeps."""
        return entries_per_step(self.window)


@dataclass(frozen=True, slots=True, repr=False)
class WindowChoice(Tabular):
    """The windows that `choose_window` found. It is a `Tabular`, so it prints itself.

    Parameters
    ----------
    candidates : tuple of Candidate
        The cheapest window of each kind that is good enough, the cheaper kind first. Empty if there is none.
    tol : float or Fraction
        The largest error that is allowed.
    relative_to : {"state", "input"}
        What the error is compared with.
    goal : str
        What `tol` is, in words.
    reason : str
        Why there is no window, or no jagged one. Empty if there is one.
    length : int, optional
        Length of the longest sequence. A window of that length would keep everything. None if a bound of all
        coefficients was given.
    worst : tuple of int, optional
        The place in the coefficients where the cheapest window loses most. None for a bound, or if nothing is lost.
    fastest : Candidate, optional
        The window to run. Its blocks are whole tiles of a GPU, in which the kernels there need the fewest instructions.
        A CPU takes the same time for it as for the cheapest window, unless a GPU was asked for. None if there is no
        such window, or if a block was given.
    device : {"cpu", "gpu"}, optional
        Where it is to run, if that was given.

    Notes
    -----
    Derived on the page on truncation bounds ("Which window?").
    """

    candidates: tuple[Candidate, ...]
    tol: float | Fraction
    relative_to: str
    goal: str
    reason: str = ""
    length: int | None = None
    worst: tuple[int, ...] | None = None
    fastest: Candidate | None = None
    device: str | None = None

    @property
    def window(self) -> Uniform | Jagged | None:
        """The cheapest window, or None."""
        return self.candidates[0].window if self.candidates else None

    @property
    def error(self) -> float:
        """Proved error of the cheapest window. Infinite if there is no window."""
        return self.candidates[0].error if self.candidates else inf

    @property
    def recommended(self) -> Candidate | None:
        """The window to run: the fastest, or the cheapest where that is as fast. None if there is no window."""
        return self.fastest or next(iter(self.candidates), None)

    def __bool__(self) -> bool:
        return bool(self.candidates)

    def table(self) -> PrintedTable:
        """Return what is printed."""
        what = "the largest exact state" if self.relative_to == "state" else "the largest input"
        goal = f"{self.goal} times {what}"
        given = None if self.goal else exact_text(self.tol)
        rows = tuple(
            {"window": str(each.window), "error": each.error, "operations": each.operations, "entries": each.entries}
            for each in self.candidates
        )
        if not rows:
            none = "No window" if self.length is None else "No window shorter than the sequence"
            # Rounded up, the limit might be larger than what some window loses, and the sentence wouldn't be true.
            limit = given or f"{-at_most(-_round_down(self.tol), 6):.6g}"
            title = f"{none} is proved to keep the truncation error within {limit}{goal}: {self.reason}"
            return PrintedTable(rows, _COLUMNS, _NAMES, title)
        limit = given or f"{at_most(round_up(self.tol), 6):.6g}"
        title = f"{self.window} keeps the truncation error within {limit}{goal}."
        notes = ["(operations and entries a step, for long sequences)"]
        if self.fastest and self.fastest.window != self.window:
            error = f"{at_most(self.fastest.error, 6):.6g}"
            notes.append(f"({_GAINS[self.device]}: {self.fastest.window}, with a proved error of {error})")
        if self.reason:
            notes.append(f"({self.reason})")
        if len(self.worst or ()) > 1:
            notes.append(f"(the most is lost at a{list(self.worst or ())})")
        return PrintedTable(rows, _COLUMNS, _NAMES, title, tuple(notes))

    def _record(self) -> dict[str, Any]:
        about = {"tol": self.tol, "relative_to": self.relative_to, "reason": self.reason, "worst": self.worst}
        about["fastest"] = None if self.fastest is None else str(self.fastest.window)
        about["fastest_error"] = None if self.fastest is None else self.fastest.error
        return {"window": None if self.window is None else str(self.window), **about, "rows": self.to_rows()}


_GAINS = {
    None: "as fast on a CPU, and in whole tiles of a GPU",
    "cpu": "as fast on a CPU, and loses less",
    "gpu": "in whole tiles of a GPU",
}
_NAMES = ("window", "error", "operations", "entries")
_COLUMNS = (
    Column("window", "window", itemgetter("window"), words=True),
    Column("proved error", "proved error", lambda row: f"{at_most(row['error'], 6):.6g}"),
    Column("operations", "operations", lambda row: f"{row['operations']:.3g}"),
    Column("entries", "entries", lambda row: f"{row['entries']:g}"),
)


def operations_per_step(window: Uniform | Jagged) -> float:
    """Return the number of additions and multiplications per step in a long sequence, if no block waits for another.

    A jagged block of l steps is solved in four parts:

    * the solve from a state of zero: 2(l - 1) operations
    * the products of its coefficients: l - 1 operations
    * adding the carrier that enters it: 2l operations
    * the carrier itself: as many as one step of a uniform window of `terms` lags

    Without terms only the first part is needed. A uniform window of K lags takes 2(K - 1) operations per step by its
    definition. For K > 2 blocks of K steps are cheaper: (8K - 13) / K operations per step. They consist of the first
    three parts and of the sums that reach a step from the block before.

    Examples
    --------
    >>> operations_per_step(Jagged(16)), operations_per_step(Uniform(2)), operations_per_step(Uniform(16))
    (4.8125, 2, 7.1875)
    """
    match window:
        case Uniform(lags):
            return 2 * (lags - 1) if lags < 3 else 8 - 13 / min(lags, LONGEST)
        case Jagged(block, 0):
            return 2 - 2 / min(block, LONGEST)
        case Jagged(block, terms):
            return 5 + (operations_per_step(Uniform(terms)) - 3) / min(block, LONGEST)


def entries_per_step(window: Uniform | Jagged) -> float:
    """Return the average number of entries that a row of the truncated operator keeps, far from the first row.

    Examples
    --------
    >>> entries_per_step(Uniform(17)), entries_per_step(Jagged(16))
    (17, 24.5)
    """
    if isinstance(window, Uniform):
        return window.lags
    return round_up(window.terms * window.block + Fraction(window.block + 1, 2))


def _round_down(value: float | Fraction) -> float:
    above = round_up(value)
    return above if above == value else nextafter(above, 0)


def choose_window(
    a: Any,
    tol: Any = None,
    *,
    relative_to: str = "state",
    format: Any = None,
    block: int | None = None,
    axis: int = -1,
    offsets: Any = None,
    device: str | None = None,
) -> WindowChoice:
    """Return the cheapest window whose truncation error is proved to be at most `tol`.

    Parameters
    ----------
    a : array_like or real number
        Real coefficients of one sequence or many: the window is good for all of them. Or a single number: then the
        window is good for all coefficients up to it in magnitude, in sequences of any length.
    tol : float, optional
        The largest error that is allowed, as a fraction of the largest exact state or of the largest input.
    relative_to : {"state", "input"}, default "state"
        What the error is compared with, for all inputs. "state": ``max|x - x~| <= tol * max|x|``. "input":
        ``max|x - x~| <= tol * max|u|``.
    format : str, FloatFormat or dtype, optional
        A number format. Its unit roundoff is then `tol`. The coefficients are taken as they are: pass what the format's
        `round` returns if they are stored in it. In bfloat16, 0.999 is 1 and never fades.
    block : int, optional
        A block length to use, because a kernel needs it for instance. Only the number of terms is then chosen. Without
        it, windows with one term and windows without terms compete. Windows without terms only fit if a small
        coefficient lies at the start of every block. If there are only a few blocks, that may be an accident. So long
        blocks without terms are left out. These are blocks longer than twice the shortest uniform window, if fewer of
        them start inside the sequence than its length has digits.
    axis : int, default -1
        The axis of `a` along which time runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. Each segment is a sequence of its
        own, and the window is good for all of them.
    device : {"cpu", "gpu"}, optional
        Where the window is to run. By default `fastest` costs a CPU no time. With "gpu" it may have a term more than
        the cheapest window, if whole tiles of 16 steps need it.

    Returns
    -------
    WindowChoice
        The windows that are good enough. Its `window` is None if there is none shorter than the sequence. For a bound
        of 1 or more there is none at all.

    Raises
    ------
    ShapeError
        If `a` has no such axis, or the offsets don't rise from 0 to its length.
    OptionError
        If neither or both of `tol` and `format` are given, if `tol` is negative or between 0 and 2^-1074, or if a
        number is infinite or NaN.

    Notes
    -----
    The search takes seconds for 10^6 steps. Logarithms of the products of coefficients find the windows. Products that
    are rounded up prove their errors, or `truncation_bound` does for a single number. If no coefficient is above 1 in
    magnitude, the window is the cheapest of its kind. If some are above 1, a longer window may lose more, and a cheaper
    window may exist.

    Fewer operations don't always mean less time. A CPU takes the same time for jagged windows of any short block. The
    kernels for GPUs need fewer instructions if blocks are whole tiles of 16 steps, as those of `fastest` are. This is
    counted, and no time is measured. Only where a window without terms is the cheapest do the two differ. A CPU runs it
    faster than one with a term. On a GPU its blocks may be too long to give all multiprocessors work, and tensor cores
    don't take it if they aren't whole tiles.

    Derived on the page on truncation bounds ("Which window?").

    Examples
    --------
    >>> choose_window(0.9, format="bfloat16")
    Jagged(52) keeps the truncation error within 0.00390625 (the unit roundoff of bfloat16) times the
    largest exact state.
    window       proved error  operations  entries
    Jagged(52)     0.00375711        4.94     78.5
    Uniform(53)    0.00375711        7.75       53
    (operations and entries a step, for long sequences)
    (as fast on a CPU, and in whole tiles of a GPU: Jagged(64), with a proved error of 0.00106112)
    >>> import numpy as np
    >>> resets = np.full(5000, 0.9)
    >>> resets[::1000] = 0
    >>> for device in ("cpu", "gpu"):
    ...     print(choose_window(resets, format="bfloat16", device=device).recommended.window)
    Jagged(1000, 0)
    Jagged(64)
    >>> choose_window(1.0, 0.01)
    No window is proved to keep the truncation error within 0.01 times the largest exact state: coefficients of
    magnitude 1 let no input fade
    """
    choice(relative_to, "relative_to", ("state", "input"))
    if device is not None:
        choice(device, "device", ("cpu", "gpu"))
    limit, goal = _limit(tol, format)
    if block is not None:
        block = positive_integer(block, "block")
    a, _, _, axis = without_labels(a, None, None, axis)
    given = as_numpy(a, "a")
    search: BoundSearch | DataSearch
    if given.ndim:
        search = DataSearch(given, limit, relative_to, check_axis(axis, given.ndim), offsets)
    elif offsets is not None:
        raise OptionError("go with coefficients, and a bound is for sequences of any length", "offsets", given=offsets)
    else:
        search = BoundSearch(a, limit, relative_to)
    uniform = search.uniform()
    if uniform is None:  # without growth no jagged window does then: its last step loses as much
        return WindowChoice((), limit, relative_to, goal, search.reason(), search.length, device=device)
    candidates = [Candidate(*uniform)]
    fastest, reason = None, ""
    if jagged := search.jagged(block, uniform[0]):
        candidates.append(Candidate(*jagged))
        if block is None:
            fastest = in_whole_tiles(search, jagged[0])
            if fastest is None and device == "gpu":  # where coefficients are small at the ends of other blocks only
                fastest = in_whole_tiles(search, Jagged(max(1, uniform[0].lags - 1)))
    else:
        reason = search.without_jagged(block)
    candidates.sort(key=lambda candidate: (candidate.operations, candidate.entries))
    worst = search.worst(candidates[0].window)
    return WindowChoice(tuple(candidates), limit, relative_to, goal, reason, search.length, worst, fastest, device)


def in_whole_tiles(search: BoundSearch | DataSearch, window: Jagged) -> Candidate | None:
    """Return the window with its block extended to whole tiles of a GPU; None if that is too long or not proved."""
    block = -(-window.block // TILE) * TILE
    if search.length is not None and block >= search.length:
        return None
    found = search.prove(Jagged(block, window.terms))
    return None if found is None else Candidate(*found)


def _names_format(tol: Any) -> bool:
    """Return whether the limit is a format in the wrong place."""
    try:
        find_format(tol)
    except RecfactError:
        return False
    return True


def _limit(tol: Any, format: Any) -> tuple[Fraction, str]:
    """Return what the error may be, and what that is in words."""
    if tol is None and format is None:
        raise OptionError(
            "choose_window needs tol, the largest error, or format, whose unit roundoff is then tol; pass one of them"
        )
    if tol is not None and format is not None:
        raise OptionError("choose_window takes tol or format, got both; leave one out")
    if _names_format(tol):
        raise OptionError("must be a number", "tol", given=tol, instead={"format": tol})
    if format is None:
        limit, name, goal = magnitude(tol, "tol"), "tol", ""
    else:
        fmt = find_format(format)
        limit, name = Fraction(fmt.unit_roundoff), f"the unit roundoff of {fmt.name}"
        goal = f" ({name})"
    if 0 < limit < SMALLEST:
        required = "must be 0 or at least 2^-1074, the smallest float64, to which bounds of errors are rounded up"
        raise OptionError(required, name, given=limit if tol is None else tol)
    return limit, goal
