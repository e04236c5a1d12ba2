"""The percentage errors of the constructions of L: a figure of what a materialization table holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recfact.precision.construction_table import ConstructionRow, MaterializationTable
from recfact.report.drawing import WIDTH, Board
from recfact.report.style import BLUE, GREEN, INK, ORANGE, PURPLE, UNIT, VERMILLION, styled
from recfact.report.words import superscript

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, GREEN, ORANGE, PURPLE, UNIT)

SMALLEST = 1e-300
"""Errors below count as none on the logarithmic scale."""


@styled
def materialization_figure(table: MaterializationTable) -> Figure:
    """Draw the errors of each construction, in percent, for the coefficients and block lengths of a table.

    A thin line goes from the 5th to the 95th percentile, a thick one over the middle half, a dot is the median and a
    dash the largest. The share of entries that failed stands above, in vermillion.

    Parameters
    ----------
    table : MaterializationTable
        What `materialization_table` returned; a panel for each pair of formats.
    """
    formats = list(dict.fromkeys((row.format, row.accumulate) for row in table))
    methods = list(dict.fromkeys(row.method for row in table))
    groups = list(dict.fromkeys((row.coefficients, row.block) for row in table))
    several = len({block for _, block in groups}) > 1
    labels = [f"{name}\n{block}" if several else name for name, block in groups]
    high = 2.3
    board = Board(WIDTH, high * max(len(formats), 1) + 0.35)
    for k, (storage, inside) in enumerate(formats):
        axes = board.axes(0.75, 0.45 + high * k, WIDTH - 0.85, high - 0.75)
        rows = [row for row in table if (row.format, row.accumulate) == (storage, inside)]
        _panel(axes, rows, groups, methods)
        axes.set_xticks(range(len(groups)), labels)
        within = "" if inside == storage else f", {inside} inside"
        length = "" if several or not groups else f", blocks of {groups[0][1]}"
        axes.set_title(f"{storage}{within}{length}", loc="left", pad=17)
        axes.set_ylabel("error in %")
    if board.figure.axes:
        handles = [
            board.figure.axes[0].plot([], [], "o-", color=colour, linewidth=3, markersize=4, label=method)[0]
            for method, colour in zip(methods, COLOURS, strict=False)
        ]
        board.figure.legend(handles=handles, loc="lower center", ncols=len(methods), borderaxespad=0.2)
    return board.figure


def _panel(axes: Axes, rows: Sequence[ConstructionRow], groups: list[tuple[str, int]], methods: Sequence[str]) -> None:
    width = 0.8 / max(len(methods), 1)
    seen = []
    for row in rows:
        colour = COLOURS[methods.index(row.method)]
        x = groups.index((row.coefficients, row.block)) + width * (methods.index(row.method) - (len(methods) - 1) / 2)
        low, first, median, third, high, largest = (
            max(100 * value, SMALLEST) for value in (row.p5, row.p25, row.median, row.p75, row.p95, row.largest)
        )
        if row.failures:
            share = 100 * row.failures
            text = "all" if share == 100 else f"{min(share, 99):.0f}" if share >= 1 else "<1"
            axes.text(x, 1.02, text, color=VERMILLION, fontsize=6.5, ha="center", va="bottom",
                      transform=axes.get_xaxis_transform())  # fmt: skip
        if math.isnan(row.largest):
            continue
        axes.plot([x, x], [low, high], color=colour, linewidth=1)
        axes.plot([x, x], [first, third], color=colour, linewidth=3.2, solid_capstyle="butt")
        axes.plot(x, median, "o", color=colour, markersize=4)
        axes.plot(x, largest, "_", color=colour, markersize=6)
        seen += [value for value in (first, median, largest) if SMALLEST < value < math.inf]
    axes.set_yscale("log")
    axes.set_xlim(-0.6, len(groups) - 0.4)
    top = max(seen, default=1.0)
    axes.set_ylim(min(seen, default=0.1) / 2, 2 * top)
    for border in range(1, len(groups)):
        axes.axvline(border - 0.5, color=INK, linewidth=0.5, alpha=0.2)
    axes.yaxis.set_major_formatter(lambda value, _: _percent(value))
    axes.yaxis.set_minor_formatter("")
    axes.minorticks_off()
    if any(row.failures for row in rows):
        axes.text(1, 1.14, "failed entries in %", color=VERMILLION, fontsize=7.5, ha="right", va="bottom",
                  transform=axes.transAxes)  # fmt: skip


def _percent(value: float) -> str:
    """Return a power of ten as people write it in a percentage."""
    exponent = round(math.log10(value))
    return f"{10.0**exponent:g}" if -3 <= exponent <= 3 else f"10{superscript(exponent)}"
