"""The pictures of a report by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recfact.errors import OptionError
from recfact.precision import materialization_table
from recfact.report import curves, plots
from recfact.report.bound_plot import bound_figure, sweep_windows
from recfact.report.build import Report
from recfact.report.distribution_plot import distribution_figure, message_figure
from recfact.report.horizon_plot import horizon_figure
from recfact.report.materialization_plot import materialization_figure
from recfact.windows import Jagged, Uniform

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
    "formats": "How far back number formats look, against the largest coefficient",
    "horizons": "How far back the positions of the sequence look, by number format",
    "bounds": "Errors in number formats, measured and proved, against the length of the window",
    "materialization": "Percentage errors of the constructions of L",
    "overview": "The operator, its factors, its blocks and its windows",
}
"""What each picture shows, by name."""

BLOCKS = 200
"""Blocks of the sequence that the constructions of L are compared on."""

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
        case "formats":
            return horizon_figure([found.format for found in report.formats])
        case "horizons":
            return _horizons(report)
        case "bounds":
            return _bounds(report)
        case "materialization":
            return _materialization(report)
        case "overview":
            return plots.overview_figure(tiled, block, min(FLAT, len(tiled)))
    raise OptionError(f"must be one of {', '.join(PICTURES)}", "picture", given=name)


def _horizons(report: Report) -> Figure:
    horizons = {found.format.name: found.horizon for found in report.formats if found.horizon is not None}
    return distribution_figure(horizons) if horizons else message_figure("the numbers are out of range of the formats")


def _bounds(report: Report) -> Figure:
    """Draw the sweeps of jagged windows, and beside that of a single format one of uniform windows."""
    formats = [found.format for found in report.formats if found.verification is not None]
    if not formats:
        return message_figure("; ".join(dict.fromkeys(found.unsaid for found in report.formats)))
    kinds = (Jagged, Uniform) if len(formats) == 1 else (Jagged,)
    a, u = report.problem.a, report.problem.u
    return bound_figure([sweep_windows(a, u, fmt, kind) for fmt in formats for kind in kinds])


def _materialization(report: Report) -> Figure:
    formats = [found.format for found in report.formats if not found.out_of_range]
    a, block = report.problem.a, min(report.block, len(report.problem.a))
    if not formats or a.dtype.kind == "c" or block < 2:
        return message_figure("blocks are compared for two steps or more of real coefficients that a format holds")
    given = {"these coefficients": a[: BLOCKS * block]}
    return materialization_figure(materialization_table(given, block=block, format=formats, accumulate=None))
