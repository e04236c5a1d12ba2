"""The pictures of a report by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from recfact import plot
from recfact.errors import OptionError
from recfact.plot.curves import error_figure, solution_figure
from recfact.plot.distributions import message
from recfact.precision import BlockFormat, FloatFormat, materialization_table
from recfact.report.build import Report
from recfact.report.safety import computed_in
from recfact.report.summary import spacing
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
    """Return the block length for the pictures of blocks: `block`, or a shorter one that is easier to see."""
    return min(block, TILED)


def draw(name: str, report: Report) -> Figure:
    """Return the picture called `name`, a key of `PICTURES`, of the recurrence of `report`.

    Matrices are drawn for the first steps of the sequence.
    """
    a, block = report.problem.a, drawn_block(report.block)
    flat, tiled = a[:FLAT], a[: TILES * block]
    match name:
        case "operator":
            return plot.operator(flat)
        case "kogge-stone":
            return plot.kogge_stone(flat)
        case "brent-kung":
            return plot.brent_kung(flat)
        case "blocks":
            return plot.blocks(tiled, block)
        case "windows":
            return plot.windows(tiled, block)
        case "errors":
            kind = report.transfer[0].a.dtype
            return error_figure(report.costs, spacing(kind), str(kind))
        case "solution":
            of = report.problem
            return solution_figure(
                report.x, report.errors, report.block, time=of.time, value=of.value, unit=of.unit, title=of.title
            )
        case "formats":
            return plot.formats(_computed_in(report.chosen))
        case "horizons":
            return _horizons(report)
        case "bounds":
            return _bounds(report)
        case "materialization":
            return _materialization(report)
        case "overview":
            return plot.overview(tiled, block, min(FLAT, len(tiled)))
    raise OptionError(f"must be one of {', '.join(PICTURES)}", "picture", given=name)


def _computed_in(formats: Iterable[FloatFormat | BlockFormat]) -> list[FloatFormat]:
    """Return the formats of states, each once."""
    return list(dict.fromkeys(map(computed_in, formats)))


def _horizons(report: Report) -> Figure:
    horizons = {found.format.name: found.horizon for found in report.unverified if found.horizon is not None}
    return plot.horizons(horizons) if horizons else message("the numbers are out of range of the formats")


def _bounds(report: Report) -> Figure:
    """Draw the sweeps of jagged windows. If there is a single format, add a sweep of uniform windows."""
    formats = [found.format for found in report.unverified if not found.unsaid]
    if not formats:
        return message("; ".join(dict.fromkeys(found.unsaid for found in report.unverified)))
    kinds = (Jagged, Uniform) if len(formats) == 1 else (Jagged,)
    of = report.problem
    return plot.bounds(of.a, of.u, formats, kinds, unit=of.unit)


def _materialization(report: Report) -> Figure:
    formats = _computed_in(found.format for found in report.unverified if not found.out_of_range)
    a, block = report.problem.a, min(report.block, len(report.problem.a))
    if not formats or a.dtype.kind == "c" or block < 2:
        return message("blocks are compared for two steps or more of real coefficients that a format holds")
    given = {"these coefficients": a[: BLOCKS * block]}
    return plot.materialization(materialization_table(given, block=block, format=formats))
