"""The page: one HTML file with its figures inside, that needs nothing else to be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import recfact
from recfact.report import curves, plots
from recfact.report.build import Report
from recfact.report.problem import duration
from recfact.report.style import MissingExtraError, inline_svg
from recfact.report.words import number, percent, raised
from recfact.windows import Jagged, Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAT, TILED = 16, 8
"""Steps drawn of the flat factorizations; length of the blocks drawn at most, four of them."""


def drawn_block(block: int) -> int:
    """Return the block length that the pictures of blocks use: `block`, or a shorter one that can be seen."""
    return min(block, TILED)


def figures(report: Report) -> dict[str, tuple[Callable[[], Figure], str]]:
    """Return, by name, how each figure of the page is drawn and what it shows."""
    a = report.problem.a
    block = drawn_block(report.block)
    piece = a[: 4 * block]
    s = report.summary
    return {
        "operator": (
            lambda: plots.operator_figure(a[:FLAT]),
            "The bidiagonal matrix I - AZ, its inverse L, and the last row of L",
        ),
        "kogge_stone": (lambda: plots.kogge_stone_figure(a[:FLAT]), "L as a product of Kogge-Stone factors"),
        "brent_kung": (lambda: plots.brent_kung_figure(a[:FLAT]), "L as a product of Brent-Kung factors"),
        "blocks": (lambda: plots.blocks_figure(piece, block), "L in tiles, and the decomposition L = D + G Z T R"),
        "windows": (lambda: plots.windows_figure(piece, block), "What the uniform and the jagged windows keep of L"),
        "errors": (
            lambda: curves.error_figure(report.costs, s.eps, s.dtype),
            "Error of the states against the length of the window",
        ),
        "solution": (
            lambda: curves.solution_figure(report.problem, report.x, report.states, report.block),
            "The states over time, and the error of three windows",
        ),
    }


def page(report: Report, step: Callable[[str], None] = lambda _: None) -> str:
    """Return the page on `report` as HTML text.

    Parameters
    ----------
    report : Report
        What to show.
    step : callable, optional
        Called with a word on what comes next, for a progress bar: once for each of `figures`.

    Raises
    ------
    MissingExtraError
        If matplotlib or jinja2 isn't installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError:
        raise MissingExtraError("the page needs jinja2; install it with: pip install 'recfact[report]'") from None
    environment = Environment(
        loader=PackageLoader("recfact.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip

    def typeset(text: str) -> Markup:
        return Markup(re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: f"<sup>{raised(power[0])}</sup>", escape(text)))

    environment.filters |= {
        "typeset": typeset,
        "number": lambda value: typeset(number(value)),
        "percent": lambda share: typeset(percent(share)),
    }
    svg = {}
    for name, (draw, label) in figures(report).items():
        step(f"drawing {name.replace('_', '-')}")
        svg[name] = Markup(inline_svg(draw(), label))
    groups = [
        (f"Jagged, {terms} carrier term{'s' if terms > 1 else ''}",
         [c for c in report.costs if isinstance(c.window, Jagged) and c.window.terms == terms])
        for terms in (1, 2, 3)
    ]  # fmt: skip
    groups.append(("Uniform", [c for c in report.costs if isinstance(c.window, Uniform)]))
    return environment.get_template("report.html.j2").render(
        report=report,
        s=report.summary,
        svg=svg,
        groups=groups,
        flat=min(FLAT, report.summary.n),
        block=drawn_block(report.block),
        tau=None if report.problem.tau is None else duration(report.problem.tau),
        version=recfact.__version__,
    )
