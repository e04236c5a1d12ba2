"""What a verification found: three errors, each measured and bounded, in a form that people read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.printed_table import Column, PrintedTable, Tabular
from recfact.windows import Full, Window
from recfact.written_numbers import at_most

PARTS = ("largest", "at", "bound", "ratio", "ratio_at", "holds")

_HOLDS = {True: "yes", False: "NO", None: "undecided"}


def _digits(part: str, digits: int) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: at_most(row[part], digits)


def _place(row: Mapping[str, Any]) -> str | None:
    return None if row["at"] is None else ", ".join(map(str, row["at"]))


_ERROR = Column("", "", lambda row: row["error"], words=True)
_LARGEST = Column("largest error", "largest error", _digits("largest", 6))
_BOUND = Column("proved bound", "proved bound", _digits("bound", 6))
_RATIO = Column("error / bound", "error / bound", _digits("ratio", 4))


@dataclass(frozen=True, slots=True)
class CheckedError:
    """One error of all states, measured against its bound.

    Parameters
    ----------
    largest : float
        The largest error of a state, rounded up; infinite beyond float64.
    at : tuple of int, or None
        Where it is: the state's index. None if all errors are 0; the first in time of those that float64 doesn't hold.
    bound : float
        The largest bound of a state: what the error is proved to stay below everywhere.
    ratio : float
        The largest quotient of an error and its own bound, rounded up; 0 where both are 0 or the bound is infinite.
    ratio_at : tuple of int, or None
        Where that is.
    holds : bool or None
        Whether every error is within its bound, decided exactly. None if that can't be decided.
    """

    largest: float
    at: tuple[int, ...] | None
    bound: float
    ratio: float
    ratio_at: tuple[int, ...] | None
    holds: bool | None

    @staticmethod
    def of(upper: Array, bound: Array, holds: bool | None, axis: int = -1) -> CheckedError:
        """Summarize errors, rounded up, and their bounds, both of shape (n, ...), of states with time along `axis`."""
        largest, ratio = _largest(upper, axis), _largest(quotients(upper, bound), axis)
        return CheckedError(*largest, float(np.max(bound, initial=0.0)), *ratio, holds)


def quotients(errors: Array, bounds: Array) -> Array:
    """Return errors over their bounds, rounded up, and 0 for no error and for an error with an infinite bound."""
    with np.errstate(all="ignore"):
        ratio = np.nextafter(errors / bounds, np.inf)
    ratio = np.where(errors <= bounds, np.minimum(ratio, 1.0), ratio)
    return np.where((errors == 0) | (np.isinf(bounds) & ~np.isnan(errors)), 0.0, ratio)


def _largest(values: Array, axis: int) -> tuple[float, tuple[int, ...] | None]:
    if not np.any(values):
        return 0.0, None
    at = np.unravel_index(np.argmax(values), values.shape)
    return float(values[at]), with_time_at(at, axis)


def with_time_at(place: Sequence[Any], axis: int) -> tuple[int, ...]:
    """Return an index whose first entry is the step as one of an array that has time along `axis`.

    Examples
    --------
    >>> with_time_at((7, 0, 1), -1), with_time_at((7, 0, 1), 1)
    ((0, 1, 7), (0, 7, 1))
    """
    step, *channel = (int(index) for index in place)
    channel.insert(axis % len(place), step)
    return tuple(channel)


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Tabular):
    """The errors of computed states: what the window leaves out, what rounding adds, and both; a `Tabular`.

    Parameters
    ----------
    format : FloatFormat
        The number format of the states.
    algorithm : str
        What computed them.
    window : Full, Uniform, Jagged or str
        What is kept.
    options : dict
        The options of the arithmetic that aren't at their defaults.
    shape : tuple of int
        The shape of the states.
    inputs_changed : int
        How many of the coefficients and inputs weren't numbers of the format and were rounded before anything else.
    inputs_change : float
        The largest relative change of one.
    nonfinite : int
        How many states overflowed or became NaN, or would have if the format didn't saturate. The bounds of rounding
        suppose that none does; they are compared with the other states.
    first_nonfinite : tuple of int, or None
        Where the first of them in time is.
    truncation, rounding, total : CheckedError
        Exact states less exact states of the window; computed states less exact states of the window; computed states
        less exact states.
    x : ndarray of float64
        The computed states.

    Notes
    -----
    The errors and their bounds are those of the page on verification.
    """

    format: FloatFormat
    algorithm: str
    window: Window
    options: dict[str, Any]
    shape: tuple[int, ...]
    inputs_changed: int
    inputs_change: float
    nonfinite: int
    first_nonfinite: tuple[int, ...] | None
    truncation: CheckedError
    rounding: CheckedError
    total: CheckedError
    x: Array = field(compare=False)

    @property
    def holds(self) -> bool | None:
        """Whether all three bounds hold and all states are finite; None if a comparison is undecided."""
        verdicts = [self.truncation.holds, self.rounding.holds, self.total.holds]
        if self.nonfinite or False in verdicts:
            return False
        return None if None in verdicts else True

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the states as plain types; what isn't finite becomes None, so that JSON takes it."""

        def plain(value: Any) -> Any:
            if isinstance(value, float):
                return value if math.isfinite(value) else None
            return list(value) if isinstance(value, tuple) else value

        errors = {name: {part: plain(getattr(check, part)) for part in PARTS} for name, check in self._errors()}
        return {
            "format": self.format.name,
            "algorithm": self.algorithm,
            "window": repr(self.window),
            "options": {name: str(value) for name, value in self.options.items()},
            "shape": list(self.shape),
            "inputs_changed": self.inputs_changed,
            "inputs_change": plain(self.inputs_change),
            "nonfinite": self.nonfinite,
            "first_nonfinite": plain(self.first_nonfinite),
            **errors,
            "holds": self.holds,
        }

    def table(self) -> PrintedTable:
        """Return the three errors as a table."""
        rows = tuple(
            {"error": name, **{part: getattr(check, part) for part in PARTS}} for name, check in self._errors()
        )
        place, verdict = Column(f"at {self._place}", f"at {self._place}", _place), self._verdict
        columns = (_ERROR, _LARGEST, place, _BOUND, _RATIO, Column("holds", "holds", verdict, words=True))
        return PrintedTable(rows, columns, ("error", *PARTS), self._title(), tuple(self._remarks()))

    @property
    def _place(self) -> str:
        """What names a state: its step, or its index among those of several sequences."""
        return "step" if len(self.shape) == 1 else "index"

    def _verdict(self, row: Mapping[str, Any]) -> str:
        """Return whether a bound holds, and for how many states if it can't speak of all."""
        verdict = _HOLDS[row["holds"]]
        if row["error"] == "truncation" or not self.nonfinite:
            return verdict
        states = math.prod(self.shape)
        return f"{verdict}, for {states - self.nonfinite} of {states}"

    def _record(self) -> dict[str, Any]:
        return self.as_dict()

    def _errors(self) -> list[tuple[str, CheckedError]]:
        return [("truncation", self.truncation), ("rounding", self.rounding), ("total", self.total)]

    def _title(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        kept = "all lags" if isinstance(self.window, Full) else repr(self.window)
        counted = "steps" if len(self.shape) == 1 else "states"
        return f"{self.algorithm} in {self.format}{options}: {kept}, {' x '.join(map(str, self.shape))} {counted}"

    def _remarks(self) -> list[str]:
        remarks = []
        if self.inputs_changed:
            remarks.append(
                f"{self.inputs_changed} coefficients and inputs were rounded to {self.format} first, with relative "
                f"errors up to {100 * at_most(self.inputs_change, 3):.3g} %; the errors here are those of the rounded "
                "ones"
            )
        if any(math.isinf(check.largest) or math.isinf(check.bound) for _, check in self._errors()):
            remarks.append(
                "inf is more than float64 holds, at the first step where an error is; quotients are those of the other "
                "steps, and a bound of inf bounds nothing"
            )
        if self.nonfinite:
            where = ", ".join(map(str, self.first_nonfinite or ()))
            remarks.append(
                f"FAILS: {self.nonfinite} of {math.prod(self.shape)} states overflowed or became NaN, the first at "
                f"{self._place} {where}, and no bound speaks of them"
            )
        return remarks
