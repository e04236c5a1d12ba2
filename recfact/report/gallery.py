"""The pictures of a report by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recfact.errors import OptionError
from recfact.report import curves, plots
from recfact.report.build import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = {
    "operator": "The bidiagonal matrix I - AZ, its inverse L, and the last row of L",
    "kogge-stone": "L as a product of Kogge-Stone factors",
    "brent-kung": "L as a product of Brent-Kung factors",
    "blocks": "L in tiles, and the decomposition L = D + G Z T R",
    "windows": "What the uniform and the jagged windows keep of L",
    "errors": "Error of the states against the length of the window",
    "solution": "The states over time, and the error of three windows",
    "overview": "The operator, its factors, its blocks and its windows",
}
"""What each picture shows, by name."""

FLAT, TILED, TILES = 16, 8, 4
"""Steps drawn of the flat factorizations; longest blocks drawn, and how many of them."""


def drawn_block(block: int) -> int:
    """Return the block length that the pictures of blocks use: `block`, or a shorter one that can be seen."""
    return min(block, TILED)


def draw(name: str, report: Report) -> Figure:
    """Return the picture called `name`, a key of `PICTURES`, of the recurrence of `report`.

    Matrices are drawn for the first steps of the sequence.
    """
    a, block = report.problem.a, drawn_block(report.block)
    flat, tiled = a[:FLAT], a[: TILES * block]
    match name:
        case "operator":
            return plots.operator_figure(flat)
        case "kogge-stone":
            return plots.kogge_stone_figure(flat)
        case "brent-kung":
            return plots.brent_kung_figure(flat)
        case "blocks":
            return plots.blocks_figure(tiled, block)
        case "windows":
            return plots.windows_figure(tiled, block)
        case "errors":
            return curves.error_figure(report.costs, report.summary.eps, report.summary.dtype)
        case "solution":
            return curves.solution_figure(report.problem, report.x, report.errors, report.block)
        case "overview":
            return plots.overview_figure(tiled, block, min(FLAT, len(tiled)))
    raise OptionError(f"a picture is one of {', '.join(PICTURES)}, got {name!r}")
