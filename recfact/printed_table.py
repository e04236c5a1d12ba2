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
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]

LONGEST_FRACTION = 20
"""Characters of a fraction that is written as one."""

LARGEST_DENOMINATOR = 10**LONGEST_FRACTION


@dataclass(frozen=True)
class Power:
    """A small multiple of a power of two, or its distance to 1, as people write it.

    Parameters
    ----------
    exponent : int
        The number is times * 2^exponent.
    below_one : bool
        Whether it is 1 - times * 2^exponent instead.
    times : int
        The multiple.
    """

    exponent: int
    below_one: bool = False
    times: int = 1

    def written(self, template: str, dot: str = " * ") -> str:
        """Return the number as `template` says, which takes what comes before the power, and the exponent."""
        before = "1 - " * self.below_one + (f"{self.times}{dot}" if self.times != 1 else "")
        return template.format(before, self.exponent)

    def __str__(self) -> str:
        return self.written("{}2^{}")


@dataclass(frozen=True)
class Column:
    """A column: its heading, and what a row shows in it.

    Parameters
    ----------
    heading, latex : str
        Heading as plain text and as LaTeX.
    cell : callable
        Takes a row and returns a str, an int, a float, a `Power`, a list of those that are set one after the other, or
        None where there is nothing to say.
    words : bool
        Whether the cells are words, set to the left, and not numbers.
    """

    heading: str
    latex: str
    cell: Callable[[Row], Any]
    words: bool = False


def at_most(value: float, digits: int) -> float:
    """Return the smallest number of so many decimal digits that isn't below `value`, for a bound to stay one in print.

    Examples
    --------
    >>> at_most(0.12301, 3), at_most(0.123, 3), at_most(0.0, 3), at_most(float("inf"), 3)
    (0.124, 0.123, 0.0, inf)
    """
    near = float(f"{value:.{digits}g}")
    if near == value or not math.isfinite(value):
        return value
    return float(Context(digits, ROUND_CEILING).create_decimal(Decimal(value)))


class Tabular(ABC):
    """What prints as a table, with the same ways to write it down everywhere.

    ``print(table)`` is the text, a notebook shows the HTML. Text and HTML have the title and the notes of the table,
    Markdown and LaTeX are the table alone, to stand in a document of your own. Rows, CSV and JSON hold the values
    themselves rather than what is printed of them.
    """

    __slots__ = ()

    @abstractmethod
    def table(self) -> PrintedTable:
        """Return what is printed."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the values as one dict a row, all with the same keys: ``pandas.DataFrame`` takes them as they are."""
        return [dict(row) for row in self.table().rows]

    def to_text(self, width: int | None = None) -> str:
        """Return the table as text in columns; a table that has a title and no rows is its title.

        Columns that don't fit into `width` characters follow below, with the first column once more.
        """
        table = self.table()
        if table.title and not table.rows:
            return table.title
        lines = [[column.heading for column in table.columns], *table.cells("{}2^{}", "inf", "-")]
        first, *others = (
            _aligned(cells, column.words) for cells, column in zip(zip(*lines, strict=True), table.columns, strict=True)
        )
        panels = [[first]]
        for cells in others:
            if width is not None and sum(len(each[0]) + 2 for each in (*panels[-1], cells)) - 2 > width:
                panels.append([first])
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
        r"""Return the table in LaTeX, a tabular with the rules of the package booktabs."""
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
        """Return the table in HTML; a table that has a title and no rows is its title."""
        table = self.table()
        above = f"<p>{html.escape(table.title)}</p>\n" if table.title else ""
        if above and not table.rows:
            return above
        sides = ["" if column.words else ' style="text-align: right"' for column in table.columns]

        def line(tag: str, cells: list[str]) -> str:
            inner = "".join(f"<{tag}{side}>{cell}</{tag}>" for cell, side in zip(cells, sides, strict=True))
            return f"<tr>{inner}</tr>"

        head = line("th", [html.escape(column.heading) for column in table.columns])
        body = [line("td", cells) for cells in table.cells("{}2<sup>{}</sup>", "∞", "–", html.escape)]
        notes = [f"<p>{html.escape(note)}</p>" for note in table.notes]
        lines = ["<table>", f"<thead>{head}</thead>", "<tbody>", *body, "</tbody>", "</table>", *notes]
        return above + "\n".join(lines)

    def to_csv(self) -> str:
        """Return the rows as CSV, with their names in the first line.

        None is empty, and numbers that float64 doesn't hold are written as in the text.
        """
        file = io.StringIO()
        writer = csv.DictWriter(file, self._names(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _plain(value) for name, value in row.items()} for row in self.to_rows())
        return file.getvalue()

    def to_json(self) -> str:
        """Return the rows as JSON, with what else there is to say.

        NaN and infinity, which JSON doesn't have, become null; numbers that float64 doesn't hold are written as in the
        text.
        """
        return json.dumps(_json(self._record()), allow_nan=False)

    def _names(self) -> Sequence[str]:
        """Return the keys of the rows, also if there are none."""
        return self.table().names

    def _record(self) -> Any:
        """Return what JSON holds."""
        return self.to_rows()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True, repr=False)
class PrintedTable(Tabular):
    """Rows of plain values, and what is printed of them.

    Parameters
    ----------
    rows : tuple of dict
        The values, all with the same keys.
    columns : tuple of Column
        What is printed.
    names : tuple of str
        Keys of the rows, also if there are none.
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
        """Return what is printed, row by row, in the words of one way to print."""

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


def short(number: float | Fraction) -> Any:
    """Return a number as it is written shortest: in decimal, or as a power of two, or as 1 less something.

    Examples
    --------
    >>> short(0.75), str(short(1 - 2.0**-24)), str(short(51 * 2.0**-24)), short(Fraction(99, 100))
    (0.75, '1 - 2^-24', '51 * 2^-24', 0.99)
    """
    if isinstance(number, float) and math.isinf(number):
        return number
    exact = Fraction(number)
    if exact > sys.float_info.max:
        return scientific(log10(exact))
    power = _power(exact, 1)
    if power and not power.below_one and power.exponent < -3:
        return power
    decimal = f"{float(number):.7g}"
    if (exact > 1e-4 or not exact) and (Fraction(decimal) == exact or float(decimal) == number):
        return float(decimal)
    if power := power or _power(exact, 9999):
        return power
    return f"1 - {_rounded(1 - exact, 6)}" if 0.999 < exact < 1 else _rounded(exact, 10)


def exact_text(number: float | Fraction) -> str | None:
    """Return a number in digits that read back as the number, in decimal or as a fraction; None where these are many.

    Examples
    --------
    >>> exact_text(Fraction("1e-3")), exact_text(2.0**-10), exact_text(Fraction(2, 3)), exact_text(Fraction(1, 7**30))
    ('0.001', '0.0009765625', '2/3', None)
    """
    exact = Fraction(number)
    if abs(exact) <= sys.float_info.max:
        near = float(exact)
        if Fraction(near) == exact or Fraction(repr(near)) == exact:
            return repr(near).removesuffix(".0")
    few = exact.denominator <= LARGEST_DENOMINATOR and abs(exact) < 10**LONGEST_FRACTION
    fraction = str(exact) if few else ""
    return fraction if 0 < len(fraction) <= LONGEST_FRACTION else None


def given(number: float | Fraction) -> Any:
    """Return a number that someone gave as `short` does where that reads back as the number, else in all its digits.

    Examples
    --------
    >>> given(Fraction("1e-3")), given(Fraction("0.123456789012")), given(Fraction(2, 3)), str(given(1 - 2.0**-24))
    (0.001, '0.123456789012', '2/3', '1 - 2^-24')
    """
    written = short(number)
    if not isinstance(written, str) or number > sys.float_info.max:
        return written
    exact = Fraction(number)
    if Fraction(written.removeprefix("1 - ")) == (1 - exact if written.startswith("1 - ") else exact):
        return written
    return exact_text(number) or written


def as_text(written: Any) -> str:
    """Return what `short` or `given` return as a table prints it."""
    return f"{written:.7g}" if isinstance(written, float) else str(written)


def _rounded(exact: Fraction, digits: int) -> str:
    """Return a positive number that isn't large in so many digits, or fewer where floats have fewer."""
    near = float(exact)
    return f"{near:.{digits}g}" if near == exact or near >= sys.float_info.min else scientific(log10(exact))


def log10(number: Fraction) -> float:
    """Return the logarithm of a positive number of any size."""
    return math.log10(number.numerator) - math.log10(number.denominator)


def scientific(logarithm: float) -> str:
    """Return the number of a logarithm to base 10 in decimal, however large or small it is.

    Examples
    --------
    >>> scientific(-400.0), scientific(5000 + math.log10(2))
    ('1.0000e-400', '2.0000e+5000')
    """
    exponent = math.floor(logarithm)
    digits, carry = f"{10 ** (logarithm - exponent):.4e}".split("e")
    return f"{digits}e{exponent + int(carry):+d}"


def _power(exact: Fraction, most: int) -> Power | None:
    """Return a number as at most so many times a power of two below 1, or 1 less that."""
    for part, below_one in ((exact, False), (1 - exact, True)):
        if 0 < part.numerator <= most and part.denominator & (part.denominator - 1) == 0 and part.denominator > 1:
            return Power(1 - part.denominator.bit_length(), below_one, part.numerator)
    return None


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
