"""The percentage errors of the constructions of L: a figure of a materialization table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from recfact.errors import OptionTypeError
from recfact.plot.board import GAP, PLAIN_TITLE, WIDTH, Board
from recfact.plot.style import INK, styled
from recfact.precision.materialization.construction_table import ConstructionRow, MaterializationTable
from recfact.written_numbers import superscript

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHAPES = "oDs^v"
"""Shapes of the medians by construction of L."""

SMALLEST = 1e-300
"""Errors below count as none on the logarithmic scale."""


@styled
def materialization(table: MaterializationTable) -> Figure:
    """Draw the errors of each construction, in percent, for the coefficients and block lengths of a table.

    A thin line goes from the 5th to the 95th percentile, and a thick line over the middle half. A mark is the median,
    and a dash the largest error. The share of entries that failed is written above.

    Parameters
    ----------
    table : MaterializationTable
        The table that `materialization_table` returned. There is a panel for each pair of formats.

    Examples
    --------
    >>> from recfact import plot, precision
    >>> table = precision.materialization_table({"constant": [0.5] * 32}, block=16, format=["bfloat16"])
    >>> figure = plot.materialization(table)
    """
    if not isinstance(table, MaterializationTable):
        raise OptionTypeError("must be what materialization_table returned", "table", given=table)
    methods = list(dict.fromkeys(row.method for row in table))
    places = dict(zip(table, _places(table), strict=True))
    titles = list(dict.fromkeys(title for title, _ in places.values()))
    labels = list(dict.fromkeys(label for _, label in places.values()))
    high = 2.3
    board = Board(WIDTH, high * max(len(titles), 1) + 0.35)
    for k, title in enumerate(titles):
        axes = board.axes(0.75, 0.45 + high * k, WIDTH - 0.85, high - 0.75)
        _panel(axes, {row: labels.index(label) for row, (own, label) in places.items() if own == title}, methods)
        axes.set_xlim(-0.6, len(labels) - 0.4)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_title(title, pad=17, **PLAIN_TITLE)
        axes.set_ylabel("error in %")
    if board.figure.axes:
        handles = [
            board.figure.axes[0].plot([], [], shape, color=INK, markersize=5, label=method)[0]
            for method, shape in zip(methods, SHAPES, strict=False)
        ]
        board.figure.legend(handles=handles, loc="lower center", ncols=len(methods), borderaxespad=0.2)
    return board.figure


def _places(table: MaterializationTable) -> list[tuple[str, str]]:
    """Return the panel's title and the label in it for each row."""
    groups = {(row.coefficients, row.block) for row in table}
    several = len({block for _, block in groups}) > 1
    places = []
    for row in table:
        formats = row.format if row.accumulate == row.format else f"{row.format}, {row.accumulate} inside"
        if len(groups) == 1:  # formats are easier to compare side by side
            places.append((f"{row.coefficients}, blocks of {row.block}", formats.replace(", ", "\n")))
        elif several:
            places.append((formats, f"{row.coefficients}\n{row.block}"))
        else:
            places.append((f"{formats}, blocks of {row.block}", row.coefficients))
    return places


def _panel(axes: Axes, rows: Mapping[ConstructionRow, int], methods: Sequence[str]) -> None:
    width = 0.8 / len(methods)
    whiskers, boxes, tops, seen = [], [], [], []
    medians: dict[str, list[tuple[float, float]]] = {}
    for row, group in rows.items():
        x = group + width * (methods.index(row.method) - (len(methods) - 1) / 2)
        low, first, median, third, high, largest = (
            max(100 * value, SMALLEST) for value in (row.p5, row.p25, row.median, row.p75, row.p95, row.largest)
        )
        if row.failures:
            share = 100 * row.failures
            text = "all" if share == 100 else f"{min(share, 99):.0f}" if share >= 1 else "<1"
            axes.text(x, 1.02, text, fontsize=6.5, ha="center", va="bottom",
                      transform=axes.get_xaxis_transform())  # fmt: skip
        if math.isnan(row.largest):
            continue
        whiskers += [(x, low), (x, high), GAP]
        boxes += [(x, first), (x, third), GAP]
        tops.append((x, largest))
        medians.setdefault(SHAPES[methods.index(row.method)], []).append((x, median))
        seen += [value for value in (first, median, largest) if SMALLEST < value < math.inf]
    if whiskers:
        axes.plot(*np.transpose(whiskers), color=INK, linewidth=0.8)
        axes.plot(*np.transpose(boxes), color=INK, alpha=0.45, linewidth=3.2, solid_capstyle="butt")
        axes.plot(*np.transpose(tops), "_", color=INK, markersize=6)
    for shape, points in medians.items():
        axes.plot(*np.transpose(points), shape, color=INK, markersize=4.5)
    axes.set_yscale("log")
    top = max(seen, default=1.0)
    axes.set_ylim(min(seen, default=0.1) / 2, 2 * top)
    for border in range(1, 1 + max(rows.values())):
        axes.axvline(border - 0.5, color=INK, linewidth=0.5, alpha=0.2)
    axes.yaxis.set_major_formatter(lambda value, _: _percent(value))
    axes.yaxis.set_minor_formatter("")
    axes.minorticks_off()
    if any(row.failures for row in rows):
        axes.text(1, 1.14, "failed entries in %", fontsize=7.5, ha="right", va="bottom",
                  transform=axes.transAxes)  # fmt: skip


def _percent(value: float) -> str:
    """Return a power of ten in the form that people write in percentages."""
    exponent = round(math.log10(value))
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else f"10{superscript(exponent)}"
