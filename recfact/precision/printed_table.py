"""Tables that print as text, Markdown, LaTeX, CSV and HTML, from rows of plain values."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]


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


@dataclass(frozen=True, repr=False)
class PrintedTable:
    """Rows of plain values, and how they are printed: ``print(table)``, or as HTML in a notebook.

    Parameters
    ----------
    rows : tuple of dict
        The values, all with the same keys: ``pandas.DataFrame(table.rows)`` takes them as they are.
    columns : tuple of Column
        What is printed.
    names : tuple of str
        Keys of the rows, also if there are none.
    """

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def plain(self) -> list[dict[str, Any]]:
        """Return the rows with nothing but int, float, str and None; Fractions are written as in the text."""
        return [{name: _plain(value) for name, value in row.items()} for row in self.rows]

    def to_text(self) -> str:
        """Return the table as text in columns."""
        lines = [[c.heading for c in self.columns], *self._cells("{}2^{}", "inf", "-")]
        right = self._right()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = (
            (
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(line, widths, right, strict=True)
            )
            for line in lines
        )
        return "\n".join("  ".join(line).rstrip() for line in aligned)

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        rule = "|".join("--:" if right else "---" for right in self._right())
        head, *body = (
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
            for line in [[c.heading for c in self.columns], *self._cells("{}2^{}", "∞", "–")]
        )
        return "\n".join([head, f"|{rule}|", *body])

    def to_latex(self) -> str:
        r"""Return the table in LaTeX, a tabular with the rules of the package booktabs."""
        head = " & ".join(c.latex for c in self.columns)
        cells = self._cells("${}2^{{{}}}$", r"$\infty$", "--", _latex, r" \cdot ")
        body = [" & ".join(line) + r" \\" for line in cells]
        sides = "".join("r" if right else "l" for right in self._right())
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{sides}}}",
                r"\toprule",
                head + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )

    def to_csv(self) -> str:
        """Return the values of the rows as CSV, with their names in the first line.

        None is empty, and numbers that float64 doesn't hold are written as in the text.
        """
        file = io.StringIO()
        writer = csv.DictWriter(file, self.names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.plain())
        return file.getvalue()

    def to_html(self) -> str:
        """Return the table in HTML."""
        sides = [' style="text-align: right"' if right else "" for right in self._right()]

        def line(tag: str, cells: list[str]) -> str:
            inner = "".join(f"<{tag}{side}>{cell}</{tag}>" for cell, side in zip(cells, sides, strict=True))
            return f"<tr>{inner}</tr>"

        head = line("th", [html.escape(c.heading) for c in self.columns])
        body = [line("td", cells) for cells in self._cells("{}2<sup>{}</sup>", "∞", "–", html.escape)]
        return "\n".join(["<table>", f"<thead>{head}</thead>", "<tbody>", *body, "</tbody>", "</table>"])

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def _right(self) -> list[bool]:
        """Return which columns are set to the right: all but those of words."""
        return [not column.words for column in self.columns]

    def _cells(
        self,
        power: str,
        infinite: str,
        nothing: str,
        escape: Callable[[str], str] = lambda text: text,
        dot: str = " * ",
    ) -> list[list[str]]:
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
            return str(value)

        return [[written(column.cell(row)) for column in self.columns] for row in self.rows]


def short(number: float | Fraction) -> Any:
    """Return a number as it is written shortest: in decimal, or as a power of two, or as 1 less something.

    Examples
    --------
    >>> short(0.75), str(short(1 - 2.0**-24)), str(short(51 * 2.0**-24)), short(Fraction(99, 100))
    (0.75, '1 - 2^-24', '51 * 2^-24', 0.99)
    """
    if math.isinf(number):
        return float(number)
    exact = Fraction(number)
    power = _power(exact, 1)
    if power and not power.below_one and power.exponent < -3:
        return power
    decimal = f"{float(number):.7g}"
    if (exact > 1e-4 or not exact) and (Fraction(decimal) == exact or float(decimal) == number):
        return float(decimal)
    if power := power or _power(exact, 9999):
        return power
    return f"1 - {float(1 - exact):.6g}" if 0.999 < exact < 1 else f"{float(exact):.10g}"


def _power(exact: Fraction, most: int) -> Power | None:
    """Return a number as at most so many times a power of two below 1, or 1 less that."""
    for part, below_one in ((exact, False), (1 - exact, True)):
        if 0 < part.numerator <= most and part.denominator & (part.denominator - 1) == 0 and part.denominator > 1:
            return Power(1 - part.denominator.bit_length(), below_one, part.numerator)
    return None


def _plain(value: Any) -> Any:
    written = short(value) if isinstance(value, Fraction) else value
    return str(written) if isinstance(written, Power) else written


def _latex(text: str) -> str:
    for special in "\\&%$#_{}":
        text = text.replace(special, rf"\{special}") if special != "\\" else text.replace(special, r"\textbackslash ")
    return text
