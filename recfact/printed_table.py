"""Tables that print as text, Markdown, LaTeX, CSV, JSON and HTML, from rows of plain values."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from recfact.checks import positive_integer
from recfact.plain_records import PlainRecord, plain
from recfact.written_numbers import Power, given, scientific

Row = Mapping[str, Any]

LINE = 100
"""Characters of a line where Python shows or prints a table, which terminals don't break."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and its cell in each row.

    Parameters
    ----------
    heading, latex : str
        Heading as plain text and as LaTeX.
    cell : callable
        Takes a row and returns the cell: a str, an int, a float, a `Power`, or a list of these to print one after the
        other. None stands for an empty cell.
    words : bool
        Whether the cells are words, which are aligned to the left, and not numbers.
    """

    heading: str
    latex: str
    cell: Callable[[Row], Any]
    words: bool = False


class Tabular(PlainRecord, ABC):
    """A result that prints as a table and can be written in several formats.

    Python shows and prints it in lines of at most `LINE` characters, and a notebook shows the HTML. `to_text` gives
    whole lines. Text and HTML include the title and the notes. Markdown and LaTeX are the table alone, for
    a document of your own. Rows, CSV and JSON hold the values themselves instead of their printed form.
    """

    __slots__ = ()

    @abstractmethod
    def table(self) -> PrintedTable:
        """Return the table that is printed."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the values as one dict per row, all with the same keys. ``pandas.DataFrame`` takes these rows."""
        return [dict(row) for row in self.table().rows]

    def to_text(self, width: int | None = None) -> str:
        """Return the table as text in columns. A table that has a title and no rows gives the title.

        Columns that don't fit into `width` characters follow below. The first columns are repeated there, as many as
        tell the rows apart.

        Raises
        ------
        OptionTypeError, OptionError
            If `width` isn't a positive integer.
        """
        if width is not None:
            width = positive_integer(width, "width")
        table = self.table()
        if table.title and not table.rows:
            return table.title
        lines = [[column.heading for column in table.columns], *table.cells("{}2^{}", "inf", "-")]
        columns = [
            _aligned(cells, column.words) for cells, column in zip(zip(*lines, strict=True), table.columns, strict=True)
        ]
        apart = (k for k in range(1, len(columns)) if len(set(zip(*columns[:k], strict=True))) == len(lines))
        first, others = columns[: (lead := next(apart, 1))], columns[lead:]
        panels = [[*first]]
        for cells in others:
            if width is not None and sum(len(each[0]) + 2 for each in (*panels[-1], cells)) - 2 > width:
                panels.append([*first])
            panels[-1].append(cells)
        rows = ["\n".join("  ".join(line).rstrip() for line in zip(*panel, strict=True)) for panel in panels]
        return "\n".join([*filter(None, [table.title]), "\n\n".join(rows), *table.notes])

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        table = self.table()
        rule = "|".join("---" if column.words else "--:" for column in table.columns)
        head, *body = (
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
            for line in [[column.heading for column in table.columns], *table.cells("{}2^{}", "∞", "–")]
        )
        return "\n".join([head, f"|{rule}|", *body])

    def to_latex(self) -> str:
        r"""Return the table in LaTeX, as a tabular with the rules of the package booktabs."""
        table = self.table()
        head = " & ".join(column.latex for column in table.columns)
        cells = table.cells("${}2^{{{}}}$", r"$\infty$", "--", _latex, r" \cdot ")
        sides = "".join("l" if column.words else "r" for column in table.columns)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{sides}}}",
                r"\toprule",
                head + r" \\",
                r"\midrule",
                *(" & ".join(line) + r" \\" for line in cells),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )

    def to_html(self) -> str:
        """Return the table in HTML. A table that has a title and no rows gives the title."""
        table = self.table()
        above = f"<p>{html.escape(table.title).replace(chr(10), '<br>')}</p>\n" if table.title else ""
        if above and not table.rows:
            return above
        sides = [f' style="text-align: {"left" if column.words else "right"}"' for column in table.columns]

        def line(tag: str, cells: list[str]) -> str:
            inner = "".join(f"<{tag}{side}>{cell}</{tag}>" for cell, side in zip(cells, sides, strict=True))
            return f"<tr>{inner}</tr>"

        head = line("th", [html.escape(column.heading) for column in table.columns])
        body = [line("td", cells) for cells in table.cells("{}2<sup>{}</sup>", "∞", "–", html.escape)]
        notes = [f"<p>{html.escape(note)}</p>" for note in table.notes]
        lines = ["<table>", f"<thead>{head}</thead>", "<tbody>", *body, "</tbody>", "</table>", *notes]
        return above + "\n".join(lines)

    def to_csv(self) -> str:
        """Return the rows as CSV, with the names of the columns in the first line.

        None gives an empty cell. Numbers that float64 doesn't hold are written as in the text.
        """
        file = io.StringIO()
        writer = csv.DictWriter(file, self._names(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _plain(value) for name, value in row.items()} for row in self.to_rows())
        return file.getvalue()

    def to_json(self) -> str:
        """Return the rows and other properties of the table as JSON.

        JSON has no NaN and infinity, so these become null. Numbers that float64 doesn't hold are written as in the
        text.
        """
        return json.dumps(_json(self._record()), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return what `to_json` writes, as a dict of plain values. If there are only rows, they are its "rows"."""
        record = plain(self._record())
        return record if isinstance(record, dict) else {"rows": record}

    def _names(self) -> Sequence[str]:
        """Return the keys of the rows, also if there are none."""
        return self.table().names

    def _record(self) -> Any:
        """Return the object that JSON holds."""
        return self.to_rows()

    def __repr__(self) -> str:
        return self.to_text(LINE)

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True, repr=False)
class PrintedTable(Tabular):
    """Rows of plain values, and the way to print them.

    Parameters
    ----------
    rows : tuple of dict
        The values, all with the same keys.
    columns : tuple of Column
        The printed columns.
    names : tuple of str
        Keys of the rows, even if there are no rows.
    title : str
        A line above the table.
    notes : tuple of str
        Lines below it.
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def table(self) -> PrintedTable:
        """Return the table itself."""
        return self

    def cells(
        self,
        power: str,
        infinite: str,
        nothing: str,
        escape: Callable[[str], str] = lambda text: text,
        dot: str = " * ",
    ) -> list[list[str]]:
        """Return the printed cells, row by row, in one of the formats."""

        def written(value: Any) -> str:
            match value:
                case None:
                    return nothing
                case list():
                    return "".join(map(written, value))
                case str():
                    return escape(value)
                case Power():
                    return value.written(power, dot)
                case float() if math.isinf(value):
                    return infinite
                case float():
                    return f"{value:.7g}"
            return str(_written(value))

        return [[written(column.cell(row)) for column in self.columns] for row in self.rows]


def _aligned(cells: Sequence[str], left: bool) -> list[str]:
    """Return the cells of a column in the width of its widest one."""
    width = max(map(len, cells))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in cells]


def _written(value: Any) -> Any:
    """Return an integer beyond the range of floats shortened, as a text: Python writes no more than 4300 digits."""
    long = isinstance(value, int) and abs(value) > sys.float_info.max
    return "-" * (value < 0) + scientific(math.log10(abs(value))) if long else value


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction) and abs(value) <= sys.float_info.max and float(value) == value:
        return float(value)
    written = given(value) if isinstance(value, Fraction) else _written(value)
    return str(written) if isinstance(written, Power) else written


def _json(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return _plain(value)


def _latex(text: str) -> str:
    for special in "\\&%$#_{}":
        text = text.replace(special, rf"\{special}") if special != "\\" else text.replace(special, r"\textbackslash ")
    return text
