"""The result of a verification: three errors, each measured and bounded, in a readable form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.sequence_spread import Spread, spread_of
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
        The largest error of a state, rounded up. It is infinite beyond float64.
    at : tuple of int, or None
        The index of that state. None if all errors are 0. If float64 doesn't hold some errors, it is the first of these
        in time.
    bound : float
        The largest bound of a state. No error exceeds it.
    ratio : float
        The largest quotient of an error and its own bound, rounded up. A quotient is 0 if both are 0 or if the bound is
        infinite.
    ratio_at : tuple of int, or None
        The index of the state with that quotient.
    holds : bool or None
        Whether every error is within its bound, decided exactly. None if that can't be decided.
    spread : Spread
        The largest error of each sequence, rounded up.
    """

    largest: float
    at: tuple[int, ...] | None
    bound: float
    ratio: float
    ratio_at: tuple[int, ...] | None
    holds: bool | None
    spread: Spread = field(compare=False, repr=False)

    @staticmethod
    def of(upper: Array, bound: Array, holds: bool | None, axis: int = -1) -> CheckedError:
        """Summarize errors, rounded up, and their bounds, both of shape (n, ...), of states with time along `axis`."""
        largest, ratio = _largest(upper, axis), _largest(quotients(upper, bound), axis)
        spread = spread_of(np.moveaxis(upper, 0, axis), axis % upper.ndim)
        return CheckedError(*largest, float(np.max(bound, initial=0.0)), *ratio, holds, spread)


def quotients(errors: Array, bounds: Array) -> Array:
    """Return errors over their bounds, rounded up. An error of 0 gives 0, and so does an infinite bound."""
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
    """Return an index whose first entry is the step as an index into an array that has time along `axis`.

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
    """The errors of computed states: of truncation, of rounding, and of both. It is a `Tabular`, so it prints itself.

    Parameters
    ----------
    arithmetic : Arithmetic
        The arithmetic, which includes the number format of the states.
    algorithm : str
        The algorithm that computed the states.
    window : Full, Uniform, Jagged or str
        What is kept.
    shape : tuple of int
        The shape of the states.
    inputs_changed : int
        Number of coefficients and inputs that weren't in the format. They were first rounded to it.
    inputs_change : float
        The largest relative change by that rounding.
    nonfinite : int
        Number of states that overflowed or became NaN, or would have if the format didn't saturate. The bounds of
        rounding assume that there are none. They are compared with the other states only.
    first_nonfinite : tuple of int, or None
        The index of the first of these states in time.
    truncation, rounding, total : CheckedError
        The three errors. Truncation: exact states minus exact states of the window. Rounding: computed states minus
        exact states of the window. Total: computed states minus exact states.
    x : ndarray of float64
        The computed states.

    Notes
    -----
    The errors and their bounds are those of the page on verification.
    """

    arithmetic: Arithmetic
    algorithm: str
    window: Window
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
    def format(self) -> FloatFormat:
        """The number format of the states."""
        return self.arithmetic.format

    @property
    def holds(self) -> bool | None:
        """Whether all three bounds hold and all states are finite. None if a comparison is undecided."""
        verdicts = [self.truncation.holds, self.rounding.holds, self.total.holds]
        if self.nonfinite or False in verdicts:
            return False
        return None if None in verdicts else True

    def _record(self) -> dict[str, Any]:
        """Return everything except the states as plain types. Infinity and NaN become None, so that JSON takes them."""

        def plain(value: Any) -> Any:
            if isinstance(value, float):
                return value if math.isfinite(value) else None
            return list(value) if isinstance(value, tuple) else value

        errors = {name: {part: plain(getattr(check, part)) for part in PARTS} for name, check in self._errors()}
        return {
            "format": self.format.name,
            "algorithm": self.algorithm,
            "window": repr(self.window),
            "options": {name: str(value) for name, value in self.arithmetic.options.items()},
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
        """The name of a state: its step, or its index if there are several sequences."""
        return "step" if len(self.shape) == 1 else "index"

    def _verdict(self, row: Mapping[str, Any]) -> str:
        """Return whether a bound holds, and for how many states if not for all of them."""
        verdict = _HOLDS[row["holds"]]
        if row["error"] == "truncation" or not self.nonfinite:
            return verdict
        states = math.prod(self.shape)
        return f"{verdict}, for {states - self.nonfinite} of {states}"

    def _errors(self) -> list[tuple[str, CheckedError]]:
        return [("truncation", self.truncation), ("rounding", self.rounding), ("total", self.total)]

    def _title(self) -> str:
        kept = "all lags" if isinstance(self.window, Full) else repr(self.window)
        counted = "steps" if len(self.shape) == 1 else "states"
        return f"{self.algorithm} in {self.arithmetic}: {kept}, {' x '.join(map(str, self.shape))} {counted}"

    def _remarks(self) -> list[str]:
        remarks = []
        if len(self.shape) > 1 and len(self.total.spread) > 1:
            remarks.append(f"total error, {self.total.spread}")
        if self.inputs_changed:
            kept = self.arithmetic.operands or self.format
            remarks.append(
                f"{self.inputs_changed} coefficients and inputs were rounded to {kept} first, with relative "
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
