"""The results of a sweep, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from recfact.precision.verification.sweep_batch import ERRORS, Case, Tally
from recfact.printed_table import Column, PrintedTable, Tabular
from recfact.written_numbers import at_most

KEYS = ("format", "algorithm", "window", "accumulate", "fma", "family")
QUOTIENTS = (*ERRORS, "accumulated")
VALUES = ("cases", "nonfinite", *QUOTIENTS, "broken")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that exceeded its bound.

    Parameters
    ----------
    error : {"truncation", "rounding", "total"}
        Which error.
    case : Case
        The case with this error. ``case.inputs()`` draws it again, and ``case.verify()`` verifies it alone.
    """

    error: str
    case: Case


@dataclass(frozen=True, repr=False)
class SweepTable(Tabular):
    """The largest quotients of error and bound in a sweep. It is a `Tabular` by algorithm and window.

    Parameters
    ----------
    rows : tuple of dict
        One for each format, algorithm, window, arithmetic and family. It has the number of cases, the number of those
        in which a state overflowed or became NaN, and the largest quotients of the three errors and their bounds. It
        also has the largest quotient for rounding errors that add up (with a bound of at least 8 roundings of the
        state's size), and the number of broken bounds.
    worst : dict
        The case with the largest quotient of rounding error and bound, for each algorithm.
    failures : tuple of Failure
        All bounds that were broken.
    seed : int
        Seed of the cases.

    Notes
    -----
    The errors and their bounds are those of the page on verification.
    """

    rows: tuple[dict[str, Any], ...]
    worst: dict[str, Case]
    failures: tuple[Failure, ...]
    seed: int

    @staticmethod
    def of(tallies: Iterable[Tally], seed: int) -> SweepTable:
        """Collect the results of the batches."""
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        worst: dict[str, tuple[float, Case]] = {}
        failures = []
        for tally in tallies:
            variant, how, rounding = tally.variant, tally.variant.arithmetic, tally.ratios[ERRORS.index("rounding")]
            key = (
                how.format.name,
                variant.algorithm,
                repr(variant.window),
                None if how.accumulate == how.format else how.accumulate.name,
                how.fma,
                tally.family,
            )
            found = (tally.cases, tally.nonfinite, *tally.ratios, tally.accumulated, len(tally.broken))
            _merge(rows, KEYS, key, dict(zip(VALUES, found, strict=True)))
            if variant.algorithm not in worst or rounding > worst[variant.algorithm][0]:
                worst[variant.algorithm] = rounding, tally.worst
            failures += [Failure(name, case) for name, case in tally.broken]
        return SweepTable(
            tuple(rows.values()), {name: case for name, (_, case) in worst.items()}, tuple(failures), seed
        )

    @property
    def cases(self) -> int:
        """Number of cases that were verified."""
        return sum(row["cases"] for row in self.rows)

    def by(self, *keys: str) -> PrintedTable:
        """Return the table with one row for each combination of some of the keys.

        Parameters
        ----------
        *keys : {"format", "algorithm", "window", "accumulate", "fma", "family"}
            Keys to tell apart.

        Returns
        -------
        PrintedTable
            It prints itself.
        """
        merged: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.rows:
            _merge(merged, keys, tuple(row[key] for key in keys), {name: row[name] for name in VALUES})
        words = tuple(Column(key, key, _cell(key), words=True) for key in keys)
        numbers = tuple(Column(name, name, _cell(name)) for name in VALUES)
        return PrintedTable(tuple(merged.values()), words + numbers, (*keys, *VALUES))

    def table(self) -> PrintedTable:
        """Return the table to print: one row for each algorithm and window."""
        return replace(self.by("algorithm", "window"), title=self._summary())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return all rows, ready for a DataFrame."""
        return [dict(row) for row in self.rows]

    def _names(self) -> tuple[str, ...]:
        return (*KEYS, *VALUES)

    def _record(self) -> dict[str, Any]:
        failures = [{"error": failure.error, "case": repr(failure.case)} for failure in self.failures]
        return {"seed": self.seed, "cases": self.cases, "rows": self.to_rows(), "failures": failures}

    def _summary(self) -> str:
        broken = f"{len(self.failures)} bounds broken" if self.failures else "no bound broken"
        return f"{self.cases} cases, seed {self.seed}: {broken}; the largest quotients of error and bound:"


def _merge(rows: dict[tuple[Any, ...], dict[str, Any]], keys: tuple[str, ...], key: Any, found: dict[str, Any]) -> None:
    """Add numbers, and take the larger quotients."""
    row = rows.setdefault(key, {**dict(zip(keys, key, strict=True)), **dict.fromkeys(VALUES, 0)})
    for name, value in found.items():
        row[name] = max(row[name], value) if name in QUOTIENTS else row[name] + value


def _cell(name: str) -> Any:
    def cell(row: Any) -> Any:
        value = row[name]
        if isinstance(value, bool):
            return "yes" if value else "no"
        return at_most(value, 4) if isinstance(value, float) else value

    return cell
