"""The commands that describe and draw one recurrence: report and plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recfact.cli.app import app, show
from recfact.cli.options import (
    A,
    Axis,
    Block,
    Formats,
    Json,
    Offsets,
    Pick,
    U,
    one_of,
)
from recfact.cli.progress import progress, transfer
from recfact.cli.reading import NOT_TYPED, TableOptions, read_batch, read_offsets, read_problem, with_table
from recfact.errors import MissingExtraError

PAGE_SUFFIXES = (".html", ".htm")

STRETCH = 1 << 17
"""The most steps of a file larger than memory that a page is about."""


@app.command(epilog="Example: recfact report --a gates.npy --u inputs.npy --out page.html")
@with_table
def report(
    a: A = None,
    u: U = None,
    table: TableOptions = NOT_TYPED,
    block: Block = 16,
    formats: Formats = None,
    pick: Pick = None,
    axis: Axis = None,
    offsets: Offsets = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The HTML page, by default report.html. With --json no page is written unless --out names it.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a page on a recurrence, with its matrix, states and errors: the bundled CO2 record, or that in --a and --u.

    The command prints its findings and writes a single HTML page that needs no other file. With --axis it looks at all
    sequences, and with --offsets at all segments, and says what each of them needs. The page is then about the one that
    needs most.

    Files of .npy and zarr with more than 1 GiB together are looked at piece by piece in constant memory. If that is
    interrupted, the same command goes on where it stood.
    """
    from recfact.report.batch import sequence_needs, worst_problem
    from recfact.report.build import build_report, report_steps
    from recfact.report.files import replacing
    from recfact.report.html import page, page_steps
    from recfact.report.rows import to_json
    from recfact.report.safety import chosen_formats
    from recfact.report.scan import Scan
    from recfact.report.stored import are_large
    from recfact.report.tables import report_text

    segments = read_offsets(offsets)
    chosen = segments is not None or pick is not None or any(table.averages.values())
    large = a is not None and not chosen and are_large(a, u or "ones")
    batch = read_batch(a, u, axis, table, pick, segments, mapped=large)
    if batch is None:
        problem = read_problem(a, u, table, pick)
    path = out if out is not None or as_json else Path("report.html")
    if path:
        check_page_path(path)
    asked, needs, scan = chosen_formats(formats or ()) if batch else (), [], None
    if batch is not None and large:
        scan = Scan(batch, asked, path)
        with transfer("looking at coefficients", scan.nbytes, scan.seen) as seen:
            needs = scan.run(seen)
        problem = worst_problem(batch, needs, STRETCH)
        table.say_zeros()
    elif batch is not None:
        problem = batch.longest
    steps = report_steps(problem, block, formats or ()) + (0 if scan else len(asked))
    with progress(steps + (page_steps(batch is not None) if path else 0)) as step:
        if batch is not None and not scan:
            needs = sequence_needs(batch, asked, step)
            problem = worst_problem(batch, needs)
        made = build_report(problem, block, step, formats or (), needs)
        text = page(made, step) if path else ""
    if path:
        with replacing(path) as stream:
            stream.write(text.encode())
    if scan:
        scan.remove()
    if as_json:
        typer.echo(to_json({**made.as_dict(), "page": None if path is None else str(path)}))
        return
    show(report_text(made))
    typer.echo(f"\nwrote {path}")


def check_page_path(path: Path) -> None:
    """Check that a page can be made and written to a path, before work is spent on it."""
    from recfact.report.files import check_destination
    from recfact.report.html import check_page

    if path.suffix.lower() not in PAGE_SUFFIXES:
        raise typer.BadParameter(
            f"--out {path} must end in .html or .htm, for what is written is a page; a browser prints it as PDF"
        )
    check_destination(path)
    try:
        check_page()
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}; or pass --json, which prints the findings and makes no page") from None


PICTURES = (
    "operator",
    "kogge-stone",
    "brent-kung",
    "blocks",
    "windows",
    "errors",
    "solution",
    "formats",
    "horizons",
    "bounds",
    "materialization",
    "overview",
)
"""The pictures of `recfact plot`. They are repeated here so that the help doesn't import the gallery."""


@app.command(epilog="Example: recfact plot overview --out overview.png")
@with_table
def plot(
    picture: Annotated[
        str,
        typer.Argument(metavar="PICTURE", parser=one_of(PICTURES), help=f"What to draw: {', '.join(PICTURES)}."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture: .png or .svg.")],
    a: A = None,
    u: U = None,
    table: TableOptions = NOT_TYPED,
    block: Block = 16,
    formats: Formats = None,
    pick: Pick = None,
    as_json: Json = False,
) -> None:
    """Draw one picture of a report, of the bundled CO2 record or the recurrence in --a and --u."""
    from recfact.report import gallery
    from recfact.report.build import Report
    from recfact.report.pictures import check_picture, save
    from recfact.report.rows import to_json
    from recfact.report.safety import chosen_formats

    check_picture(out)
    problem = read_problem(a, u, table, pick)
    with progress(None) as step:
        step("drawing")
        save(gallery.draw(picture, Report(problem, block, chosen_formats(formats or ()), step=step)), out)
    shows = gallery.PICTURES[picture]
    typer.echo(to_json({"picture": picture, "shows": shows, "out": str(out)}) if as_json else f"wrote {out}: {shows}")
