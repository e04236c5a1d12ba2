"""The results of a run of the benchmarks, as plain data that can be kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from recfact.bench.growth import Growth
from recfact.bench.timing import Comparison, Quartiles


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    case, against : str
        The measured case, and the baseline of its ratio or an explanation.
    unit : str
        "x" for ratios, "µs", "s", "MiB", or "power" of n.
    measured : Quartiles
        The amount.
    at_most : float or None
        The limit of the median, or None.
    seconds : tuple of float, optional
        Median times of both sides of a ratio.
    baseline_spread : float, optional
        Interquartile range of the baseline's times, relative to their median.
    difference : float, optional
        Largest difference between a peer's states and recfact's, relative to the largest state.
    """

    case: str
    against: str
    unit: str
    measured: Quartiles
    at_most: float | None = None
    seconds: tuple[float, float] | None = None
    baseline_spread: float | None = None
    difference: float | None = None

    @property
    def above(self) -> bool:
        """Whether the median is above its limit."""
        return self.at_most is not None and self.measured.median > self.at_most

    @classmethod
    def ratio(cls, case: str, against: str, found: Comparison, at_most: float | None = None, **more: Any) -> Row:
        """Make the line of a comparison."""
        seconds = found.ours.median, found.baseline.median
        return cls(case, against, "x", found.ratio, at_most, seconds, found.baseline.spread, **more)

    @classmethod
    def amount(cls, case: str, against: str, unit: str, amount: float, at_most: float | None = None) -> Row:
        """Make the line of an amount that was measured once."""
        return cls(case, against, unit, Quartiles(amount, amount, amount), at_most)


@dataclass(frozen=True)
class Record:
    """A run of the benchmarks.

    Parameters
    ----------
    version, date : str
        Of recfact, and the day in UTC.
    smoke : bool
        Whether sizes were too small for the numbers to mean anything.
    machine : dict
        From `recfact.bench.machine.describe`.
    rows : tuple of Row
        The table.
    growth : Growth
        Times by length.
    skipped : dict
        Reasons why cases or peers weren't measured, by their names.
    """

    version: str
    date: str
    smoke: bool
    machine: dict[str, Any]
    rows: tuple[Row, ...]
    growth: Growth
    skipped: dict[str, str]

    @property
    def noise(self) -> float:
        """The median spread of the baselines' own times."""
        return median(row.baseline_spread for row in self.rows if row.baseline_spread is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as dictionaries, lists, numbers and texts, for JSON."""
        rows = [{**asdict(row), "measured": row.measured._asdict()} for row in self.rows]
        return {**asdict(self), "rows": rows}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Record:
        """Return the record that `as_dict` or a JSON file of it describes."""
        rows = tuple(
            Row(
                **{key: value for key, value in row.items() if key != "headline"}  # of older records
                | {"measured": Quartiles(**row["measured"]), "seconds": row["seconds"] and tuple(row["seconds"])}
            )
            for row in plain["rows"]
        )
        growth = Growth(**{name: tuple(values) for name, values in plain["growth"].items()})
        return cls(**{**plain, "rows": rows, "growth": growth})
