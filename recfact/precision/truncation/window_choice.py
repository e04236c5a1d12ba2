"""The cheapest window whose truncation error is proved to be small enough.

Cost is work: the additions and multiplications a step of the algorithm that makes the window in O(n), all blocks
independent of each other (`operations_per_step`). Among windows of equal work the one with fewer entries is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from operator import itemgetter
from typing import Any

from recfact.arrays import as_numpy
from recfact.checks import LONGEST, choice, positive_integer
from recfact.errors import OptionError
from recfact.precision.exact.outward import round_up
from recfact.precision.formats.catalogue import format as find_format
from recfact.precision.time_axis import check_sequence
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
        """Additions and multiplications a step."""
        return operations_per_step(self.window)

    @property
    def entries(self) -> float:
        """Entries of the truncated operator that a row keeps, on average."""
        return entries_per_step(self.window)


@dataclass(frozen=True, slots=True, repr=False)
class WindowChoice(Tabular):
    """What `choose_window` found: a `Tabular`, which prints itself.

    Parameters
    ----------
    candidates : tuple of Candidate
        The cheapest window of each kind that is good enough, the cheaper kind first; empty if there is none.
    tol : float or Fraction
        What the error may be.
    relative_to : {"state", "input"}
        What the error is compared with.
    goal : str
        What `tol` is, in words.
    reason : str
        Why there is no window, where there is none.
    length : int, optional
        Length of the sequence, all of which a window of that length keeps; None for a bound of all coefficients.

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

    @property
    def window(self) -> Uniform | Jagged | None:
        """The cheapest window, or None."""
        return self.candidates[0].window if self.candidates else None

    @property
    def error(self) -> float:
        """Proved error of the cheapest window; infinite if there is none."""
        return self.candidates[0].error if self.candidates else inf

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
            # Rounded down, for the sentence to stay true: a window that loses the limit may lose less than what is up.
            limit = given or f"{-at_most(-_round_down(self.tol), 6):.6g}"
            title = f"{none} is proved to keep the truncation error within {limit}{goal}: {self.reason}"
            return PrintedTable(rows, _COLUMNS, _NAMES, title)
        limit = given or f"{at_most(round_up(self.tol), 6):.6g}"
        title = f"{self.window} keeps the truncation error within {limit}{goal}."
        note = "(operations and entries a step, for long sequences)"
        return PrintedTable(rows, _COLUMNS, _NAMES, title, (note,))

    def _record(self) -> dict[str, Any]:
        about = {"tol": self.tol, "relative_to": self.relative_to, "reason": self.reason}
        return {"window": None if self.window is None else str(self.window), **about, "rows": self.to_rows()}


_NAMES = ("window", "error", "operations", "entries")
_COLUMNS = (
    Column("window", "window", itemgetter("window"), words=True),
    Column("proved error", "proved error", lambda row: f"{at_most(row['error'], 6):.6g}"),
    Column("operations", "operations", lambda row: f"{row['operations']:.3g}"),
    Column("entries", "entries", lambda row: f"{row['entries']:g}"),
)


def operations_per_step(window: Uniform | Jagged) -> float:
    """Return how many additions and multiplications a step takes in a long sequence, no block waiting for another.

    A jagged block of l steps takes 2(l - 1) operations from zero, l - 1 for the products of its coefficients, 2l to add
    what the carrier brings, and those of a uniform window of `terms` lags for the carrier; without terms, the first
    part alone. A uniform window of K lags takes 2(K - 1) a step as it stands or, for K > 2, (8K - 13) / K by blocks of
    K steps: the same three parts and the sums that reach a step from the block before.

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
    """Return how many entries a row of the truncated operator keeps on average, far from the first row.

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
) -> WindowChoice:
    """Return the cheapest window whose truncation error is proved to be at most `tol`.

    Parameters
    ----------
    a : array_like, shape (n,), or real number
        Coefficients, real; or a bound of all coefficients' magnitudes for sequences of any length.
    tol : float, optional
        Largest error, as a part of the largest exact state or of the largest input.
    relative_to : {"state", "input"}, default "state"
        Whether ``max|x - x~| <= tol * max|x|`` or ``max|x - x~| <= tol * max|u|`` is wanted, for all inputs.
    format : str, FloatFormat or dtype, optional
        A number format whose unit roundoff is wanted as `tol`.
    block : int, optional
        A block length that is given, by a kernel for instance. The number of terms is chosen then. Otherwise all blocks
        with one term or none compete, but those without that are longer than twice the shortest uniform window and end
        fewer times in the sequence than its length has digits: of these some fit by accident, where a coefficient
        happens to be small.

    Returns
    -------
    WindowChoice
        Its `window` is None if only windows as long as the sequence are good enough, or none for a bound of 1 or more.

    Raises
    ------
    ShapeError
        If the coefficients aren't one sequence.
    OptionError
        If neither or both of `tol` and `format` are given, `tol` is negative or between 0 and 2^-1074, or a number is
        infinite or NaN.

    Notes
    -----
    Logarithms of the products of coefficients find the windows, and products that are rounded up or `truncation_bound`
    prove what they found: seconds for 10^6 steps. The window is the cheapest of its kind if no coefficient is above 1
    in magnitude; else a cheaper one may exist, because a longer window may then lose more.

    Operations aren't time: the CPU engine is fastest for blocks that are powers of two from 8 to 64 (32 in float64).
    The next of them, passed as `block`, is often both more exact and several times faster than the cheapest block.

    Derived on the page on truncation bounds ("Which window?").

    Examples
    --------
    >>> choose_window(0.9, format="bfloat16")
    Jagged(block=52, terms=1) keeps the truncation error within 0.00390625 (the unit roundoff of bfloat16) times the
    largest exact state.
    window                     proved error  operations  entries
    Jagged(block=52, terms=1)    0.00375711        4.94     78.5
    Uniform(lags=53)             0.00375711        7.75       53
    (operations and entries a step, for long sequences)
    >>> choose_window(1.0, 0.01)
    No window is proved to keep the truncation error within 0.01 times the largest exact state: coefficients of
    magnitude 1 let no input fade
    """
    choice(relative_to, "relative_to", ("state", "input"))
    limit, goal = _limit(tol, format)
    if block is not None:
        block = positive_integer(block, "block")
    given = as_numpy(a, "a")
    if given.ndim:
        check_sequence(given, "a")
    length = len(given) if given.ndim else None
    search = (BoundSearch if length is None else DataSearch)(a, limit, relative_to)
    uniform = search.uniform()
    if uniform is None:  # without growth no jagged window does then: its last step loses as much
        return WindowChoice((), limit, relative_to, goal, search.reason(), length)
    candidates = [Candidate(*uniform)]
    if jagged := search.jagged(block, uniform[0]):
        candidates.append(Candidate(*jagged))
    candidates.sort(key=lambda candidate: (candidate.operations, candidate.entries))
    return WindowChoice(tuple(candidates), limit, relative_to, goal, length=length)


def _limit(tol: Any, format: Any) -> tuple[Fraction, str]:
    """Return what the error may be, and what that is in words."""
    if tol is None and format is None:
        raise OptionError(
            "choose_window needs tol, the largest error, or format, whose unit roundoff it is then; pass one of them"
        )
    if tol is not None and format is not None:
        raise OptionError("choose_window takes tol or format, got both; leave one out")
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
