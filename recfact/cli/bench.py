"""The command that measures speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recfact.cli.app import app, progress, show
from recfact.cli.options import Json


@app.command(epilog="Example: recfact bench --plot growth.svg")
def bench(
    smoke: Annotated[bool, typer.Option("--smoke", help="Small sizes: does everything run?")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw how time grows with length: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure the speed of recfact against the speed of memory and against its peers, on this machine.

    Takes about two minutes and 1.5 GiB of memory, and wants a machine with nothing else to do.
    """
    from recfact.bench import display, run
    from recfact.report.files import check_destination
    from recfact.report.style import PICTURE_SUFFIXES, save
    from recfact.report.tables import to_json

    if markdown and as_json:
        raise typer.BadParameter("--markdown and --json exclude each other")
    if picture:
        check_destination(picture, PICTURE_SUFFIXES)
    with progress(run.steps(), quiet=False) as step:
        record = run.run(run.SMOKE if smoke else run.FULL, step)
    if as_json:
        typer.echo(to_json(record.as_dict()))
    elif markdown:
        typer.echo(display.markdown(record))
    else:
        show(display.text(record))
    if picture:
        save(display.growth_figure(record), picture)
