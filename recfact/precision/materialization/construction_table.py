"""A table of the constructions of the blocks of L, case by case, and the construction to use in each case."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from operator import itemgetter
from typing import Any

from recfact.printed_table import Column, PrintedTable, Tabular

GAIN = 0.9
"""A construction is recommended over cumprod if its mean error is at most this share of cumprod's."""


@dataclass(frozen=True, slots=True)
class ConstructionRow:
    """One construction in one case: a row of `MaterializationTable`.

    Parameters
    ----------
    coefficients : str
        The family of coefficients.
    block : int
        Block length.
    format, accumulate : str
        Format of coefficients and result, and of the operations.
    method : str
        The construction.
    blocks : int
        Number of blocks.
    entries, measured : int
        Strictly lower entries, and those whose relative error is measured.
    nan, inf, lost, invented : float
        Failures as shares of the strictly lower entries; `MaterializationErrors` defines them.
    zero, underflow, overflow : float
        True zeros, and true values out of the range of normal numbers, as shares of the strictly lower entries.
    mean, p5, p25, median, p75, p95, largest : float
        Mean and quantiles of the relative errors, as fractions and not in percent. They are NaN if none is measured.
    ratio : float
        Largest quotient of an error and its proved bound.
    """

    coefficients: str
    block: int
    format: str
    accumulate: str
    method: str
    blocks: int
    entries: int
    measured: int
    nan: float
    inf: float
    lost: float
    invented: float
    zero: float
    underflow: float
    overflow: float
    mean: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    largest: float
    ratio: float

    @property
    def failures(self) -> float:
        """The share of strictly lower entries that failed."""
        return self.nan + self.inf + self.lost + self.invented


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The construction to use in one case, and why.

    Parameters
    ----------
    coefficients, block, format, accumulate
        The case, as in `ConstructionRow`.
    method : str
        The construction.
    reason : str
        The numbers that decide, in words.
    """

    coefficients: str
    block: int
    format: str
    accumulate: str
    method: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class MaterializationTable(Tabular):
    """Errors of the constructions, case by case. It prints itself with one case per line. Iteration gives its rows.

    Parameters
    ----------
    rows : tuple of ConstructionRow
        One row for each construction in each case. The constructions of a case follow each other.

    Notes
    -----
    `recfact.materialize` names the sources of the constructions. How they are measured is explained on the page on
    blocks as dense matrices.
    """

    rows: tuple[ConstructionRow, ...]

    def __iter__(self) -> Iterator[ConstructionRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def cases(self) -> list[tuple[ConstructionRow, ...]]:
        """Return the rows of each case together."""
        grouped: dict[tuple[str, int, str, str], list[ConstructionRow]] = {}
        for row in self.rows:
            grouped.setdefault((row.coefficients, row.block, row.format, row.accumulate), []).append(row)
        return [tuple(case) for case in grouped.values()]

    def recommendations(self) -> list[Recommendation]:
        """Return the construction to use in each case.

        It is the one with the fewest failures. Among several of these it is "cumprod", which needs neither logarithm
        nor division, unless the mean error of another is at most 0.9 times as large. Otherwise it is the one with the
        smallest mean error.
        """
        return [_recommend(case) for case in self.cases()]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, ready for a DataFrame."""
        return [asdict(row) for row in self.rows]

    def table(self) -> PrintedTable:
        """Return the table that is printed: one row per case, with all constructions side by side."""
        methods = list(dict.fromkeys(row.method for row in self.rows))
        names = ("coefficients", "block", "format", *methods, "use")
        columns = tuple(Column(name, name, itemgetter(name), words=True) for name in names)
        title = "relative error in %, median / largest, and failures in % of the entries" if self.rows else "no cases"
        return PrintedTable(tuple(map(self._case, self.cases(), self.recommendations())), columns, names, title)

    def _case(self, case: tuple[ConstructionRow, ...], best: Recommendation) -> dict[str, Any]:
        inside = "" if best.accumulate == best.format else f", {best.accumulate} inside"
        return {
            "coefficients": best.coefficients,
            "block": best.block,
            "format": best.format + inside,
            **dict.fromkeys((row.method for row in self.rows), ""),
            **{row.method: _cell(row) for row in case},
            "use": best.method,
        }

    def _names(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(ConstructionRow))

    def _record(self) -> dict[str, Any]:
        return {"rows": self.to_rows(), "recommendations": [asdict(each) for each in self.recommendations()]}


def _recommend(case: tuple[ConstructionRow, ...]) -> Recommendation:
    fewest = min(row.failures for row in case)
    sound = [row for row in case if row.failures == fewest]
    best = min(sound, key=lambda row: (math.isnan(row.mean), row.mean))
    default = next((row for row in sound if row.method == "cumprod"), None)
    if default is not None and not best.mean <= GAIN * default.mean:
        best = default
    others = [row for row in sound if row is not best and not math.isnan(row.mean)]
    reason = "no failure" if fewest == 0 else f"the fewest failures, {_percent(fewest)} %"
    if others and not math.isnan(best.mean):
        runner = min(others, key=lambda row: row.mean)
        reason += f"; mean error {_percent(best.mean)} %, that of {runner.method} is {_percent(runner.mean)} %"
    elif not others:
        reason += ", alone in that"
    return Recommendation(best.coefficients, best.block, best.format, best.accumulate, best.method, reason)


def _cell(row: ConstructionRow) -> str:
    """Return median and largest error and the failures, in percent."""
    errors = f"{_percent(row.median)} / {_percent(row.largest)}" if row.measured else "-"
    failures = [
        f"{name} {_percent(share)}" for name, share in (("nan", row.nan), ("inf", row.inf), ("lost", row.lost)) if share
    ]
    return ", ".join([errors, *failures])


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"
