"""The commands on number formats: how far they look back."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recfact.cli.app import app
from recfact.cli.options import Json


class Style(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    HTML = "html"


@app.command(epilog="Example: recfact horizon bfloat16 fp16 'fp8 e4m3fn' --rho 0.99 --style markdown")
def horizon(
    formats: Annotated[
        list[str] | None, typer.Argument(metavar="[FORMAT]...", help="Number formats; all of them if left out.")
    ] = None,
    rho: Annotated[
        list[str] | None,
        typer.Option("--rho", metavar="NUMBER", help="Largest coefficient, exactly; may be given several times."),
    ] = None,
    actual: Annotated[
        bool, typer.Option("--actual", help="What products become that are rounded at every step, instead.")
    ] = False,
    style: Annotated[Style, typer.Option("--style", help="How to print the table.")] = Style.TEXT,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw horizons against rho: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how far back a recurrence looks in number formats, with coefficients up to rho.

    Without --rho, rho is the largest number below 1 of each format. The first horizons are those of single weights, the
    tail ones of all weights further back together; normal and subnormal say which smallest number they are compared
    with.
    """
    from recfact.precision import actual_horizon_table, horizon_table
    from recfact.precision.horizon_tables import several_formats
    from recfact.report.files import check_destination
    from recfact.report.style import PICTURE_SUFFIXES, save
    from recfact.report.tables import to_json

    if as_json and style != Style.TEXT:
        raise typer.BadParameter("--json and --style exclude each other")
    if picture:
        check_destination(picture, PICTURE_SUFFIXES)
    chosen = several_formats(formats or None)
    table = (actual_horizon_table if actual else horizon_table)(chosen, rho or None)
    if as_json:
        typer.echo(to_json(table.plain()))
    else:
        typer.echo(getattr(table, f"to_{style.value}")())
    if picture:
        from recfact.report.horizon_plot import COLOURS, horizon_figure

        save(horizon_figure(chosen[: len(COLOURS)]), picture)
