"""Columns of times: how a whole column can be read, and the steps between its instants.

A column is read only if exactly one way of reading fits all its cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log
from typing import Any, NoReturn

import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError
from recfact.report.csvfile import CsvTable
from recfact.report.sources import parse_number

Instants = np.ndarray[Any, np.dtype[np.datetime64]]

UNITS = ("auto", "s", "ms", "year", "date")
"""How instants can be written."""

# Seconds and milliseconds since 1970 are told apart by the largest number of a column. Seconds go up to the year 2106;
# milliseconds start in 1973 and end in 2106 as well. Numbers between or beyond these are neither.
MOST_SECONDS = 2.0**32
LEAST_MILLISECONDS = 1e11

_WORDS = {"date": "dates", "year": "decimal years", "s": "seconds", "ms": "milliseconds since 1970"}

# Dates as numbers, by how many digits they have.
_DIGITS = {6: "%Y%m", 7: "%Y%j", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}

# Dates of ISO 8601 that datetime.fromisoformat reads, and some that it doesn't.
_ISO = re.compile(r"\d{4}(-?)(\d\d\1\d\d|W\d\d(\1\d)?)([T ].+)?", re.ASCII)
_FORMS = {re.compile(r"\d{4}-\d\d", re.ASCII): "%Y-%m", re.compile(r"\d{4}-\d{3}", re.ASCII): "%Y-%j"}


@dataclass(frozen=True, eq=False)
class Times:
    """What was read of a column.

    Parameters
    ----------
    steps : ndarray, shape (n,)
        Seconds from the row before to each row. The first is infinite, because no row is before it.
    understood : str
        How the column was understood.
    instants : ndarray of datetime64, shape (n,), optional
        The instants of the rows, if they are dates.
    """

    steps: Array
    understood: str
    instants: Instants | None = None


@np.errstate(over="ignore")  # a step beyond float64 is infinite: it forgets everything before it
def read_steps(table: CsvTable, column: str, tau: float, as_given: bool) -> Times:
    """Return a column of steps in seconds, whose first cell isn't read.

    Parameters
    ----------
    table, column
        Where they are.
    tau : float
        Time constant that they are for.
    as_given : bool
        Whether they may look like instants.

    Raises
    ------
    DataFileError
        If a step isn't a positive number, or the column looks like one of instants.
    """
    cells, place = table.cells(column), _place(table, column)
    if any(parse_number(cell) is None for cell in cells) and _dates(cells) is not None:
        raise DataFileError(f"{place} holds dates, and --dt takes time steps; pass --time {column} instead of --dt")
    values = table.numbers(column)
    for i in np.flatnonzero(values[1:] <= 0):
        place = table.place(int(i) + 1, column)
        raise DataFileError(f"{place}: a time step must be above 0, got {cells[i + 1]!r}; leave this row out")
    if not as_given and _could_be_instants(values):
        raise DataFileError(
            f"{place} changes in one direction only, as times do, and --dt takes time steps; pass --time {column} "
            "instead of --dt, or --steps-as-given as well if these are steps"
        )
    steps = np.concatenate([[np.inf], values[1:]])
    if not as_given:
        _check_median(place, steps, tau)
    return Times(steps, f"{_count(len(steps), 'step')}{_spread(steps, 'long')}")


@np.errstate(over="ignore")
def read_instants(
    table: CsvTable, column: str, unit: str, tau: float, as_given: bool, starts: Sequence[int] = ()
) -> Times:
    """Return the steps between the instants of a column, each later than the one before.

    Parameters
    ----------
    table, column, tau, as_given
        As for `read_steps`.
    unit : {"auto", "s", "ms", "year", "date"} or str
        How they are written. A text with % is a pattern of `datetime.strptime` for dates.
    starts : sequence of int
        Rows at which time starts anew, besides the first one. Their steps are infinite, too.

    Raises
    ------
    DataFileError
        If the column can't be read so, or in more than one way, or its instants don't grow.
    """
    cells = table.cells(column)
    name = _unit(table, column, cells) if unit == "auto" else unit
    later, dated = _read(cells, name) or _refuse_cells(table, column, cells, name)
    later[[start - 1 for start in starts]] = np.inf
    for i in np.flatnonzero(later <= 0):
        cell, where = cells[i + 1], table.place(int(i) + 1, column)
        if later[i] == 0:
            raise DataFileError(f"{where}: {cell!r} is the same time as the line before; leave out one of the two")
        raise DataFileError(f"{where}: {cell!r} is earlier than the line before; sort the lines by this column")
    steps = np.concatenate([[np.inf], later])
    between = np.delete(steps, starts)
    if not as_given:
        _check_median(_place(table, column), between, tau)
    span = "" if dated is None else f" from {_written(dated.min())} to {_written(dated.max())}"
    return Times(
        steps, f"{_count(len(cells), 'instant')} in {_WORDS.get(name, 'dates')}{span}{_spread(between, 'apart')}", dated
    )


def duration(seconds: float) -> str:
    """Return `seconds` in the largest unit in which a few digits give the number exactly.

    A time constant that comes from a half-life of a few digits is given by that.

    Examples
    --------
    >>> duration(30 * 86400.0), duration(90.0), duration(0.25), duration(1e6 + 0.5)
    ('30 days', '1.5 minutes', '0.25 seconds', '1000000.5 seconds')
    >>> duration(30 * 86400.0 / log(2))
    '30 days / ln 2'
    """
    for divisor, written in ((1.0, ""), (log(2), " / ln 2")):
        for unit, size in _UNITS.items():
            number = f"{seconds * divisor / size:g}"
            if seconds * divisor >= size and float(number) * size / divisor == seconds:
                return _plural(number, unit) + written
    return _plural(np.format_float_positional(seconds, trim="-"), "second")


def _roughly(seconds: float) -> str:
    """Return `seconds` in six digits at most, in the largest unit that keeps the number at one or above."""
    unit, size = next(((unit, size) for unit, size in _UNITS.items() if seconds >= size), ("second", 1.0))
    return _plural(f"{seconds / size:g}", unit)


_UNITS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0}


def _plural(number: str, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == "1" else "s")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _place(table: CsvTable, column: str) -> str:
    return f"{table.source.place}: column {column!r}"


def _spread(steps: Array, how: str) -> str:
    """Return how long the steps are, without the first."""
    if len(steps) == 1:
        return ""
    middle = float(np.median(steps[1:]))
    same = np.isclose(steps[1:], middle, rtol=1e-6)
    if same.mean() < 0.5:
        return f", {_roughly(steps[1:].min())} to {_roughly(steps[1:].max())} {how}"
    return f", {_roughly(middle)} {how}" + ("" if same.all() else " mostly")


def _could_be_instants(values: Array) -> bool:
    """Tell whether a column mostly grows and never falls, or mostly falls and never grows: it then holds no steps."""
    changes = np.diff(values)
    if len(changes) == 0 or (len(changes) == 1 and values[0] == 0):  # 0 and a step can also be two times
        return False
    return any((sign * changes >= 0).all() and (sign * changes > 0).mean() > 0.5 for sign in (1, -1))


def _check_median(place: str, steps: Array, tau: float) -> None:
    """Refuse steps if most are so long that coefficients are below the unit roundoff: nothing would be averaged."""
    if len(steps) > 1 and (middle := float(np.median(steps[1:]))) > 53 * np.log(2) * tau:
        raise DataFileError(
            f"{place} has steps of {_roughly(middle)} in the median, far above the time constant of {duration(tau)}: "
            "every state would be its value alone; pass a larger --tau in seconds, --time or --time-unit if these are "
            "times, or --steps-as-given to take them as they are"
        )


def _unit(table: CsvTable, column: str, cells: list[str]) -> str:
    """Return the one way in which a column is likely written."""
    likely = [name for name in UNITS[1:] if _likely(name, cells)]
    if len(likely) == 1:
        return likely[0]
    if not likely:
        _refuse_cells(table, column, cells, "auto")
    ways = " and as ".join(_WORDS[name] for name in likely)
    raise DataFileError(
        f"{_place(table, column)} can be read as {ways}; pass {' or '.join(f'--time-unit {name}' for name in likely)}"
    )


def _likely(name: str, cells: list[str]) -> bool:
    """Tell from all cells of a column whether it is likely written in this way."""
    if name == "date":
        return _dates(cells) is not None
    numbers = _numbers(cells)
    if numbers is None:
        return False
    largest = float(np.abs(numbers).max())
    match name:
        case "s":
            return largest <= MOST_SECONDS
        case "ms":
            return LEAST_MILLISECONDS <= largest <= 1000 * MOST_SECONDS
    return bool(numbers.min() >= 1000 and numbers.max() < 3000)


def _read(cells: list[str], name: str) -> tuple[Array, Instants | None] | None:
    """Return the seconds between a column's instants, and the instants if they are dates. None if not written so."""
    if name == "date" or "%" in name:
        return _dates(cells, name)
    numbers = _numbers(cells)
    if numbers is None:
        return None
    match name:
        case "s":
            return np.diff(numbers), None
        case "ms":
            dated = np.round(numbers * 1000).astype("datetime64[us]") if _likely(name, cells) else None
            return np.diff(numbers) / 1000, dated
    if numbers.min() < 1 or numbers.max() >= 9999:
        return None
    years = np.floor(numbers)
    starts, ends = ((years + k - 1970).astype("datetime64[Y]").astype("datetime64[us]") for k in (0, 1))
    dates = starts + np.round((numbers - years) * (ends - starts).astype(np.int64)).astype("timedelta64[us]")
    return np.diff(dates) / np.timedelta64(1, "s"), dates


def _numbers(cells: list[str]) -> Array | None:
    numbers = np.array([np.nan if (number := parse_number(cell)) is None else number for cell in cells])
    return numbers if np.isfinite(numbers).all() else None


def _dates(cells: list[str], name: str = "date") -> tuple[Array, Instants] | None:
    """Return dates with or without separators. All numbers among them have the same number of digits."""
    moments = [_date(cell, name) for cell in cells]
    found = [moment for moment in moments if moment is not None]
    if len(found) < len(moments) or len({moment.tzinfo is None for moment in found}) > 1:
        return None
    if len({len(str(int(number))) for cell in cells if (number := parse_number(cell)) is not None}) > 1:
        return None
    steps = np.array([moment - found[0] for moment in found], dtype="timedelta64[us]")
    return np.diff(steps) / np.timedelta64(1, "s"), np.datetime64(found[0].replace(tzinfo=None), "us") + steps


def _date(cell: str, name: str = "date") -> datetime | None:
    """Return the date or time in a cell, or None if it holds none. A `name` with % is the pattern that it must have."""
    number = parse_number(cell)
    if "%" in name:
        pattern = name
    elif number is not None:
        cell = str(int(number)) if np.isfinite(number) and number == int(number) else ""
        pattern = _DIGITS.get(len(cell), "")
    else:
        pattern = next((pattern for form, pattern in _FORMS.items() if form.fullmatch(cell)), "")
    try:
        if pattern:
            return datetime.strptime(cell, pattern)
        return datetime.fromisoformat(cell) if _ISO.fullmatch(cell) else None
    except ValueError:
        return None


def _refuse_cells(table: CsvTable, column: str, cells: list[str], name: str) -> NoReturn:
    """Raise DataFileError for a column that can't be read. It names the first cell that can't be read."""
    if "%" in name or (any(parse_number(cell) is None for cell in cells) and name in ("auto", "date")):
        zones = {moment.tzinfo is None for cell in cells if (moment := _date(cell, name)) is not None}
        for i, cell in enumerate(cells):
            if not cell:
                raise DataFileError(f"{table.place(i, column)}: the cell is blank, and each row needs its time")
            if _date(cell, name) is None and "%" in name:
                raise DataFileError(
                    f"{table.place(i, column)}: {cell!r} is no date that is written as {name}; pass the pattern of "
                    "these dates as --date-format"
                )
            if _date(cell, name) is None:
                raise DataFileError(
                    f"{table.place(i, column)}: {cell!r} is no ISO 8601 date or time, and not all cells are numbers; "
                    "write them as 2001-12-31 or 2001-12-31T23:59, or say how they are written, as in --date-format "
                    "%d.%m.%Y"
                )
        if len(zones) > 1:
            raise DataFileError(
                f"{_place(table, column)}: times with and without a time zone can't be compared; write all "
                "of them alike"
            )
    table.numbers(column)
    if name == "auto":
        raise DataFileError(
            f"{_place(table, column)} holds numbers that are neither seconds, nor milliseconds since 1970, nor years "
            "nor dates; pass --time-unit with one of s, ms, year and date, or convert them to seconds"
        )
    raise DataFileError(f"{_place(table, column)} doesn't hold {_WORDS[name]}; pass another --time-unit")


def _written(moment: Any) -> str:
    """Return a date, with its time of day if it has one."""
    day = moment.astype("datetime64[D]")
    return str(day) if day == moment else str(moment.astype("datetime64[s]"))
