"""The page: one HTML file that contains its figures and needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

from recfact import __version__
from recfact.errors import MissingExtraError
from recfact.plot.style import check_drawing
from recfact.plot.window_costs import in_sight
from recfact.report.batch import LIMITS
from recfact.report.batch_plot import SEQUENCES, batch_figure
from recfact.report.build import Report
from recfact.report.gallery import FLAT, PICTURES, draw, drawn_block
from recfact.report.pictures import inline_svg
from recfact.report.safety import STEPS
from recfact.report.tables import format_cells, needs_cells, verified_cells, worst_rows
from recfact.report.times import duration
from recfact.report.words import coefficient, counted, first_steps, lowered, number, number_at_most, percent
from recfact.windows import Jagged, Uniform

PAGE = (
    "operator",
    "kogge-stone",
    "brent-kung",
    "blocks",
    "windows",
    "errors",
    "solution",
    "horizons",
    "bounds",
    "materialization",
)
"""The pictures on the page, in order."""


def page_steps(several: bool) -> int:
    """Return how often `page` calls its `step`. If there are several sequences, there is one picture more."""
    return len(PAGE) + several


def check_page() -> None:
    """Check that a page can be made, before work is spent on it.

    Raises
    ------
    MissingExtraError
        If matplotlib or jinja2 isn't installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("the page needs jinja2; install it with: pip install jinja2 matplotlib") from None
    check_drawing()


def page(report: Report, step: Callable[[str], None] = lambda _: None) -> str:
    """Return the page on `report` as HTML text.

    Parameters
    ----------
    report : Report
        What to show.
    step : callable, optional
        Called `page_steps` times, each time with a word on what comes next, for a progress bar.

    Raises
    ------
    MissingExtraError
        If matplotlib or jinja2 isn't installed.
    """
    check_page()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=PackageLoader("recfact.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip

    def typeset(text: str) -> Markup:
        return Markup(re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: f"<sup>{lowered(power[0])}</sup>", escape(text)))

    environment.filters |= {
        "typeset": typeset,
        "number": lambda value: typeset(number(value)),
        "number_at_most": lambda value: typeset(number_at_most(value)),
        "coefficient": lambda value: typeset(coefficient(value)),
        "percent": lambda share: typeset(percent(share)),
    }
    svg = {}
    for name in PAGE:
        step(f"drawing {name}")
        svg[name] = Markup(inline_svg(draw(name, report), PICTURES[name]))
    if report.sequences:
        step("drawing all sequences")
        svg["sequences"] = Markup(inline_svg(batch_figure(report.sequences), SEQUENCES))
    eps, own = report.summary.eps, report.block
    groups = [
        (f"Jagged, {terms} carrier term{'s' if terms > 1 else ''}",
         in_sight([c for c in report.costs if isinstance(c.window, Jagged) and c.window.terms == terms], eps, own))
        for terms in (1, 2, 3)
    ]  # fmt: skip
    groups.append(("Uniform", in_sight([c for c in report.costs if isinstance(c.window, Uniform)], eps, own)))
    return environment.get_template("report.html.j2").render(
        report=report,
        s=report.summary,
        steps=counted(report.summary.n, "step"),
        svg=svg,
        groups=groups,
        flat=first_steps(min(FLAT, report.summary.n)),
        block=drawn_block(report.block),
        tau=None if report.problem.tau is None else duration(report.problem.tau),
        formats=[(found, format_cells(found), verified_cells(found)) for found in report.formats],
        verified=first_steps(min(report.summary.n, STEPS)),
        segmented=any(found.batch.offsets is not None for found in report.sequences),
        needs=[(found, needs_cells(found)) for found in report.sequences],
        limits=LIMITS,
        worst=worst_rows(report.sequences),
        version=__version__,
    )
