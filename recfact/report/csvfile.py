"""Read columns of CSV files, with errors that name the file, the line and the column."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper

import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError
from recfact.report.sources import Source, parse_number

MISSING = ("", "na", "n/a", "nan", "null", "none")
"""The words that stand for a missing value, in upper or lower case."""

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file as text, every row as wide as the header.

    Parameters
    ----------
    source : Source
        Where they come from, for messages.
    columns : tuple of str
        Column names; "1", "2", ... where the file has no header.
    rows : list of list of str
        The cells below the header.
    lines : list of int
        The line of the file that each row ends on.
    """

    source: Source
    columns: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def index(self, column: str) -> int:
        """Return the position of the column that is called `column`, or else has this number, counted from 1.

        If there is none, raise DataFileError, which lists the columns there are.
        """
        if self.columns.count(column) == 1:
            return self.columns.index(column)
        if column not in self.columns and column.isdecimal() and 1 <= int(column) <= len(self.columns):
            return int(column) - 1
        found = listed([repr(name) for name in self.columns])
        problem = "two columns" if column in self.columns else "no column"
        raise DataFileError(f"{self.source.place} has {problem} named {column!r}; its columns are {found}")

    def numbers(self, column: str, missing: bool = False, instead: str = "") -> Array:
        """Return `column` as float64, shape (rows,).

        Missing values, where allowed, become NaN. Otherwise the message about one ends with `instead`.
        """
        at = self.index(column)
        values = np.empty(len(self.rows))
        for i, row in enumerate(self.rows):
            is_missing = row[at].strip().lower() in MISSING
            if missing and is_missing:
                values[i] = np.nan
                continue
            number = parse_number(row[at])
            if number is None or not np.isfinite(number):
                wrong = f"{row[at]!r} is not a {'number' if number is None else 'finite number'}"
                wrong = wrong if row[at].strip() else "the cell is blank, and a number is required"
                raise DataFileError(f"{self.place(i, column)}: {wrong}{instead if is_missing else ''}")
            values[i] = number
        return values

    def chosen(self, rows: Array) -> CsvTable:
        """Return the table of some rows, by their numbers."""
        return replace(self, rows=[self.rows[i] for i in rows], lines=[self.lines[i] for i in rows])

    def cells(self, column: str) -> list[str]:
        """Return `column` as text, without blanks around it."""
        at = self.index(column)
        return [row[at].strip() for row in self.rows]

    def place(self, row: int, column: str) -> str:
        """Return how a message names a cell."""
        return f"{self.source.place}, line {self.lines[row]}, column {column!r}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return names as a list for a message. If there are many, it has the first ones and their number.

    Examples
    --------
    >>> listed(["a", "u"]), listed([str(k) for k in range(300)], most=3)
    ('a, u', '0, 1, 2 and so on, 300 in all')
    """
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and so on, {len(names)} in all"


def _separator(lines: Sequence[str]) -> str:
    """Return what separates cells: what both of the first two lines hold of semicolons and tabs, or else commas."""
    first = [line for line in lines if line.strip()][:2]
    return next((sign for sign in ";\t" if first and all(sign in line for line in first)), ",")


def _with_points(place: str, rows: list[list[str]]) -> list[list[str]]:
    """Return the cells with points in numbers that have decimal commas."""
    changed = [[cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row] for row in rows]
    if changed != rows and any("." in cell and parse_number(cell) is not None for row in rows for cell in row):
        raise DataFileError(f"{place} has numbers with commas and numbers with points; write all of them alike")
    return changed


def read_csv(source: Source) -> CsvTable:
    """Return the cells of a file that is separated by commas, semicolons or tabs.

    Semicolons or tabs separate the cells if both of the first two lines have some. Numbers may then have decimal
    commas; they get points. The first line is a header unless all its cells are numbers. Empty lines, and lines that
    begin with #, are skipped.

    Raises
    ------
    DataFileError
        If the file isn't UTF-8 text, holds no row of numbers, has a row of another width, or has numbers with commas
        and others with points.
    """
    cells: list[list[str]] = []
    lines: list[int] = []
    place = source.place
    try:
        with TextIOWrapper(source.open(), encoding="utf-8-sig", newline="") as text:
            rows = [
                "\n" if line.lstrip().startswith("#") else line for line in text
            ]  # so that lines keep their numbers
            separator = _separator(rows)
            reader = csv.reader(rows, strict=True, delimiter=separator)
            for row in reader:
                if not row:
                    continue
                if cells and len(row) != len(cells[0]):
                    count = f"{len(row)} cell{'' if len(row) == 1 else 's'}"
                    raise DataFileError(
                        f"{place}, line {reader.line_num}: it has {count}, and the first line has {len(cells[0])}; "
                        "give all lines as many"
                    )
                cells.append(row)
                lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        found = f"{error.object[error.start]:#04x}"
        raise DataFileError(f"{place} is not UTF-8 text: it holds the byte {found}; save it as UTF-8") from None
    except csv.Error as error:
        problem = str(error).replace("unexpected end of data", "a cell begins with a quotation mark, and none ends it")
        raise DataFileError(f"{place}, line {reader.line_num}: {problem}") from None
    if not cells:
        raise DataFileError(f"{place} is empty; a column of numbers is required")
    if separator != ",":
        cells = _with_points(place, cells)
    headed = any(parse_number(cell) is None for cell in cells[0])
    width = len(cells[0])
    columns = tuple(cell.strip() for cell in cells[0]) if headed else tuple(str(k + 1) for k in range(width))
    if headed and len(cells) == 1:
        raise DataFileError(f"{place} holds only a header; rows of numbers are required below it")
    return CsvTable(source, columns, cells[headed:], lines[headed:])
