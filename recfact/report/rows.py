"""Rows of plain values as tables for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from recfact.report.words import number

if TYPE_CHECKING:
    from rich.table import Table


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return `rows`, mappings with the same keys, as a table for the terminal."""
    headings = list(rows[0]) if rows else []
    table = framed(None, headings, ["left" if isinstance(rows[0][key], str) else "right" for key in headings])
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def rows_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return `rows`, mappings with the same keys, as a Markdown table.

    Examples
    --------
    >>> print(rows_markdown([{"case": "one", "ratio": 1.25}]))
    | case | ratio |
    |---|--:|
    | one | 1.25 |
    """
    if not rows:
        return ""
    rule = ["---" if isinstance(value, str) else "--:" for value in rows[0].values()]
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    head, *body = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n".join([head, f"|{'|'.join(rule)}|", *body])


def to_json(value: Any) -> str:
    """Return `value` as JSON text. NaN and infinity, which JSON doesn't have, become null. Fractions become text.

    Examples
    --------
    >>> to_json({"growth": float("inf"), "window": "Jagged(16)"})
    '{"growth": null, "window": "Jagged(16)"}'
    """
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case Fraction():
            return str(value)
    return value


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def framed(title: str | None, headings: Sequence[str], sides: Sequence[str], header: bool = True) -> Table:
    """Return an empty table for the terminal. Each of its columns has a heading, and a side to which it is aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=header, padding=(0, 1))
    for heading, side in zip(headings, sides, strict=True):  # a narrow terminal breaks cells, but none is cut short
        justify: Literal["left", "right"] = "right" if side == "right" else "left"
        table.add_column(heading, justify=justify, header_style="dim", overflow="fold")
    return table
