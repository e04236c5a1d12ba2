"""The `recfact` command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from recfact import __version__
from recfact.errors import OptionError, RecfactError
from recfact.windows import Full, Jagged, Uniform, Window

if TYPE_CHECKING:
    from recfact.report.problem import Problem


class ReportingGroup(TyperGroup):
    """Commands whose errors are one line: exit code 1 for what is wrong with the data, 2 for what was typed."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn recfact's exceptions into messages."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            raise typer.BadParameter(str(error)) from None
        except RecfactError as error:
            typer.echo(f"error: {error}", err=True)
        except MemoryError as error:
            typer.echo(f"error: not enough memory: {error}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    name="recfact",
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="The recurrence x_i = a_i x_(i-1) + u_i as a matrix: its factors, its windows, and what cutting it costs.",
    epilog="Exit codes: 0 done, 1 something is wrong with the data, 2 something is wrong with the command.",
)


def main() -> None:
    """Run the `recfact` command; a terminal that lacks a sign of mathematics shows a question mark instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"recfact {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `recfact` itself; the help text stands at `app`."""


A = Annotated[
    str | None,
    typer.Option("--a", metavar="FILE", help="Coefficients: .npy, .npz or .csv; FILE:NAME picks an array or a column."),
]
U = Annotated[str | None, typer.Option("--u", metavar="FILE", help="Inputs, or with --dt the measured values.")]
Dt = Annotated[
    str | None,
    typer.Option(
        "--dt",
        metavar="COLUMN",
        help="Column of the --u file with time steps in seconds or ISO 8601 dates: average the values over --tau.",
    ),
]
Tau = Annotated[
    float | None,
    typer.Option("--tau", metavar="SECONDS", help="Time constant of the average; 30 days for the bundled data."),
]
Pick = Annotated[
    str | None, typer.Option("--pick", metavar="INDEX", help="Which sequence of arrays with several axes, as in 0,:,3.")
]
Block = Annotated[int, typer.Option("--block", min=1, help="Block length to look at closely.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


@app.command(epilog="Example: recfact report --a gates.npy --u inputs.npy --out page.html")
def report(
    a: A = None,
    u: U = None,
    dt: Dt = None,
    tau: Tau = None,
    block: Block = 16,
    pick: Pick = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page; report.html if left out, none with --json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Factor, cut, solve and draw a recurrence: the bundled CO2 record, or the one in --a and --u.

    Prints what it finds and writes one HTML page that needs nothing else.
    """
    from recfact.report.build import build_report, report_steps
    from recfact.report.files import check_destination, replacing
    from recfact.report.html import PAGE, page
    from recfact.report.tables import report_text, to_json

    problem = read_problem(a, u, dt, tau, pick)
    path = out if out is not None or as_json else Path("report.html")
    if path:
        check_destination(path)
    steps = report_steps(problem, block) + (len(PAGE) if path else 0)
    with progress(steps, as_json) as step:
        made = build_report(problem, block, step)
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
            "--a", metavar="FILE", help="Coefficients: .npy, .npz or .csv; FILE:NAME picks an array or a column."
        ),
    ],
    u: Annotated[str, typer.Option("--u", metavar="FILE", help="Inputs, which broadcast against the coefficients.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the states go: .npy, .npz or .csv.")],
    window: Annotated[
        str, typer.Option("--window", help="full, uniform:LAGS, or jagged:BLOCK with an optional :TERMS.")
    ] = "full",
    x0: Annotated[str | None, typer.Option("--x0", metavar="NUMBER|FILE", help="State before the first step.")] = None,
    axis: Annotated[int, typer.Option("--axis", help="Axis of time.")] = -1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Run from the last step to the first: the transpose.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Solve x_i = a_i x_(i-1) + u_i for the arrays in two files."""
    import numpy as np

    from recfact.report.files import SUFFIXES, check_destination, read_array, write_array
    from recfact.report.tables import to_json
    from recfact.report.words import number
    from recfact.solve import solve

    kept = parse_window(window)
    check_destination(out, SUFFIXES)
    with progress(4, as_json) as step:
        step("reading coefficients")
        coefficients = read_array(a, "a")
        step("reading inputs")
        inputs, state = read_array(u, "u"), read_state(x0)
        step("solving")
        x = np.asarray(solve(coefficients, inputs, x0=state, axis=axis, reverse=reverse, window=kept))
        step("writing")
        write_array(out, x)
    size = np.abs(x)
    if as_json:
        about = {"shape": list(x.shape), "dtype": str(x.dtype), "window": window, "axis": axis, "reverse": reverse}
        typer.echo(to_json({**about, "largest_state": float(size.max()), "out": str(out)}))
        return
    shape = " x ".join(map(str, x.shape))
    typer.echo(f"solved {shape} states in {x.dtype}, the largest {number(float(size.max()))} in magnitude; wrote {out}")


class Picture(StrEnum):
    """The pictures of `recfact plot`."""

    OPERATOR = "operator"
    KOGGE_STONE = "kogge-stone"
    BRENT_KUNG = "brent-kung"
    BLOCKS = "blocks"
    WINDOWS = "windows"
    ERRORS = "errors"
    SOLUTION = "solution"
    OVERVIEW = "overview"


@app.command(epilog="Example: recfact plot overview --out overview.png")
def plot(
    picture: Annotated[Picture, typer.Argument(help="What to draw.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture: .png or .svg.")],
    a: A = None,
    u: U = None,
    dt: Dt = None,
    tau: Tau = None,
    block: Block = 16,
    pick: Pick = None,
    as_json: Json = False,
) -> None:
    """Draw one picture of a report, of the bundled CO2 record or the recurrence in --a and --u."""
    from recfact.report.build import build_report, report_steps
    from recfact.report.files import check_destination
    from recfact.report.gallery import PICTURES, draw
    from recfact.report.style import PICTURE_SUFFIXES, save
    from recfact.report.tables import to_json

    check_destination(out, PICTURE_SUFFIXES)
    problem = read_problem(a, u, dt, tau, pick)
    with progress(report_steps(problem, block) + 1, as_json) as step:
        made = build_report(problem, block, step)
        step("drawing")
        save(draw(picture.value, made), out)
    shows = PICTURES[picture.value]
    typer.echo(
        to_json({"picture": picture.value, "shows": shows, "out": str(out)}) if as_json else f"wrote {out}: {shows}"
    )


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


def read_problem(a: str | None, u: str | None, dt: str | None, tau: float | None, pick: str | None) -> Problem:
    """Return the recurrence that the options of a command name; usage errors for options that don't go together."""
    from recfact.report.problem import bundled_problem, problem_from_files, problem_from_record

    if tau is not None and not 0 < tau < float("inf"):
        raise typer.BadParameter(f"--tau must be positive and finite, got {tau}")
    if dt is not None:
        if u is None or tau is None or a is not None or pick is not None:
            raise typer.BadParameter("--dt goes with --u and --tau, and without --a and --pick")
        return problem_from_record(u, dt, tau)
    if a is None and u is None:
        if pick is not None:
            raise typer.BadParameter("--pick goes with --a and --u")
        return bundled_problem() if tau is None else bundled_problem(tau)
    if a is None or u is None:
        raise typer.BadParameter("--a and --u go together; or --u with --dt and --tau")
    if tau is not None:
        raise typer.BadParameter("--tau goes with --dt, or with the bundled data")
    return problem_from_files(a, u, pick)


def read_state(x0: str | None) -> Any:
    """Return the initial state that `x0` gives, a number or a file; None for None."""
    from recfact.report.csvfile import parse_number
    from recfact.report.files import read_array

    if x0 is None:
        return None
    number = parse_number(x0)
    return read_array(x0, "x0") if number is None else number


def parse_window(text: str) -> Window:
    """Return the window that `text` names: full, uniform:LAGS or jagged:BLOCK[:TERMS].

    Examples
    --------
    >>> parse_window("jagged:16:2"), parse_window("uniform:32"), parse_window("full")
    (Jagged(block=16, terms=2), Uniform(lags=32), Full())
    """
    kind, *sizes = text.lower().split(":")
    try:
        match kind, [int(size) for size in sizes]:
            case "full", []:
                return Full()
            case "uniform", [lags]:
                return Uniform(lags)
            case "jagged", [block] | [block, _] as given:
                return Jagged(block, *given[1:])
    except OptionError as error:
        raise typer.BadParameter(f"--window {text}: {error}") from None
    except ValueError:
        pass
    raise typer.BadParameter(f"--window must be full, uniform:LAGS, jagged:BLOCK or jagged:BLOCK:TERMS, got {text!r}")


def show(text: Any) -> None:
    """Print a rich text or table on standard output, in full where that isn't a terminal."""
    from rich.console import Console

    console = Console()
    console.print(text) if console.is_terminal else Console(width=120).print(text)


@contextmanager
def progress(total: int | None, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that says what comes next, shown as a bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)
