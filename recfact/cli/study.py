"""The commands that solve, describe and draw one recurrence: report, solve and plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recfact.cli.app import app, progress, show
from recfact.cli.options import (
    A,
    AsGiven,
    Block,
    Dt,
    Formats,
    Json,
    Kept,
    Pick,
    Tau,
    Time,
    TimeUnit,
    U,
    one_of,
    read_problem,
    read_state,
    whole,
)
from recfact.errors import DataFileError, MissingExtraError
from recfact.windows import window_text

PAGE_SUFFIXES = (".html", ".htm")


@app.command(epilog="Example: recfact report --a gates.npy --u inputs.npy --out page.html")
def report(
    a: A = None,
    u: U = None,
    dt: Dt = None,
    time: Time = None,
    time_unit: TimeUnit = "auto",
    steps_as_given: AsGiven = False,
    tau: Tau = None,
    block: Block = 16,
    formats: Formats = None,
    pick: Pick = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The HTML page; report.html if left out. With --json none is written unless --out names it.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Factor, cut, solve and draw a recurrence: the bundled CO2 record, or the one in --a and --u.

    Prints what it finds and writes one HTML page that needs nothing else.
    """
    from recfact.report.build import build_report, report_steps
    from recfact.report.files import check_destination, replacing
    from recfact.report.html import PAGE, check_page, page
    from recfact.report.tables import report_text, to_json

    problem = read_problem(a, u, dt, time, time_unit, steps_as_given, tau, pick)
    path = out if out is not None or as_json else Path("report.html")
    if path:
        if path.suffix.lower() not in PAGE_SUFFIXES:
            raise typer.BadParameter(
                f"--out {path} must end in .html or .htm, for what is written is a page; a browser prints it as PDF"
            )
        check_destination(path)
        try:
            check_page()
        except MissingExtraError as error:
            raise MissingExtraError(f"{error}; or pass --json, which prints the findings and makes no page") from None
    steps = report_steps(problem, block, formats or ()) + (len(PAGE) if path else 0)
    with progress(steps) as step:
        made = build_report(problem, block, step, formats or ())
        text = page(made, step) if path else ""
    if path:
        with replacing(path) as stream:
            stream.write(text.encode())
    if as_json:
        typer.echo(to_json({**made.as_dict(), "page": None if path is None else str(path)}))
        return
    show(report_text(made))
    typer.echo(f"\nwrote {path}")


@app.command("solve", epilog="Example: recfact solve --a a.npy --u u.npy --window jagged:16 --out x.npy")
def solve_files(
    a: Annotated[
        str,
        typer.Option(
            "--a",
            metavar="FILE|NUMBER",
            help="Coefficients: .npy, .npz or .csv, where FILE:NAME picks an array or a column; - for standard input; "
            "or a number for a constant.",
        ),
    ],
    u: Annotated[
        str, typer.Option("--u", metavar="FILE|NUMBER", help="Inputs, which broadcast against the coefficients.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the states go: .npy, .npz or .csv.")],
    window: Kept = "full",
    x0: Annotated[str | None, typer.Option("--x0", metavar="NUMBER|FILE", help="State before the first step.")] = None,
    axis: Annotated[int, typer.Option("--axis", metavar="INTEGER", parser=whole(), help="Axis of time.")] = -1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Run from the last step to the first: the transpose.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Solve x_i = a_i x_(i-1) + u_i for the arrays in two files."""
    import numpy as np

    from recfact.report.files import check_destination, read_array, write_array
    from recfact.report.sources import SUFFIXES
    from recfact.report.tables import to_json
    from recfact.report.words import number
    from recfact.solve import solve

    check_destination(out, SUFFIXES)
    with progress(4) as step:
        step("reading coefficients")
        coefficients = read_array(a, "a")
        step("reading inputs")
        inputs, state = read_array(u, "u"), read_state(x0)
        if coefficients.ndim == inputs.ndim == 0:
            raise DataFileError(f"a sequence is wanted, and {a} and {u} are numbers; name a file for one of them")
        step("solving")
        x = np.asarray(solve(coefficients, inputs, x0=state, axis=axis, reverse=reverse, window=window))
        step("writing")
        write_array(out, x)
    size = np.abs(x)
    if as_json:
        about = {
            "shape": list(x.shape),
            "dtype": str(x.dtype),
            "window": window_text(window),
            "axis": axis,
            "reverse": reverse,
        }
        typer.echo(to_json({**about, "largest_state": float(size.max()), "out": str(out)}))
        return
    shape = " x ".join(map(str, x.shape))
    typer.echo(f"solved {shape} states in {x.dtype}, the largest {number(float(size.max()))} in magnitude; wrote {out}")


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
"""The pictures of `recfact plot`, as in the gallery, which isn't imported for the help alone."""


@app.command(epilog="Example: recfact plot overview --out overview.png")
def plot(
    picture: Annotated[
        str,
        typer.Argument(metavar="PICTURE", parser=one_of(PICTURES), help=f"What to draw: {', '.join(PICTURES)}."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture: .png or .svg.")],
    a: A = None,
    u: U = None,
    dt: Dt = None,
    time: Time = None,
    time_unit: TimeUnit = "auto",
    steps_as_given: AsGiven = False,
    tau: Tau = None,
    block: Block = 16,
    formats: Formats = None,
    pick: Pick = None,
    as_json: Json = False,
) -> None:
    """Draw one picture of a report, of the bundled CO2 record or the recurrence in --a and --u."""
    from recfact.report import gallery
    from recfact.report.build import build_report, report_steps
    from recfact.report.style import check_picture, save
    from recfact.report.tables import to_json

    check_picture(out)
    problem = read_problem(a, u, dt, time, time_unit, steps_as_given, tau, pick)
    with progress(report_steps(problem, block, formats or ()) + 1) as step:
        made = build_report(problem, block, step, formats or ())
        step("drawing")
        save(gallery.draw(picture, made), out)
    shows = gallery.PICTURES[picture]
    typer.echo(to_json({"picture": picture, "shows": shows, "out": str(out)}) if as_json else f"wrote {out}: {shows}")
