"""Options that several commands have, and what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recfact.errors import RecfactError
from recfact.windows import window_of

if TYPE_CHECKING:
    from recfact.report.problem import Problem


TIME_UNITS = ("auto", "s", "ms", "year", "date")
"""As `recfact.report.times` has them, which isn't imported for the help alone."""


def whole(least: int | None = None) -> Callable[[str], int]:
    """Return what parses an option that takes integers, of at least `least` where one is given."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or (least is not None and value < least):
            required = "an integer" if least is None else f"an integer of at least {least}"
            raise typer.BadParameter(f"must be {required}, got {text!r}")
        if abs(value) > sys.maxsize:
            raise typer.BadParameter(f"must be at most {sys.maxsize} in magnitude, got {text!r}")
        return value

    return parse


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return what parses an option that takes one of `names`."""

    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"must be one of {', '.join(names)}, got {text!r}")
        return text

    return parse


def parsed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what parses an option by a function whose errors are those of the option."""

    def parse(text: str) -> Any:
        try:
            return read(text)
        except RecfactError as error:
            error.argument = ""  # the message begins with the option
            raise typer.BadParameter(error.sentence()) from None

    return parse


def _format(name: str) -> str:
    from recfact.precision import format as format_of

    format_of(name)
    return name


format_name = parsed(_format)
"""Parses an option that takes a number format, and leaves it a name."""


A = Annotated[
    str | None,
    typer.Option(
        "--a",
        metavar="FILE|NUMBER",
        help="Coefficients: .npy, .npz or .csv, where FILE:NAME picks an array or a column; - for standard input; or "
        "a number for a constant.",
    ),
]
U = Annotated[
    str | None,
    typer.Option(
        "--u",
        metavar="FILE|NUMBER",
        help="Inputs, likewise; also the words ones, which they are if left out, and impulse. With --dt or --time the "
        "measured values.",
    ),
]
Dt = Annotated[
    str | None,
    typer.Option(
        "--dt",
        metavar="COLUMN",
        help="Column of the --u file with time steps in seconds: average the values over --tau.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Instead of --dt: the column with the times of the values."),
]
TimeUnit = Annotated[
    str,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        parser=one_of(TIME_UNITS),
        help="How times are written: date (ISO 8601, with or without separators), year (decimal years), s (seconds), "
        "ms (milliseconds), or auto, which refuses what can be read in two ways.",
    ),
]
AsGiven = Annotated[
    bool, typer.Option("--steps-as-given", help="Take steps that only grow, or are far above --tau, as they are.")
]
Tau = Annotated[
    str | None,
    typer.Option(
        "--tau", metavar="SECONDS", help="Time constant of the average in seconds; 30 days for the bundled data."
    ),
]
Pick = Annotated[
    str | None, typer.Option("--pick", metavar="INDEX", help="Which sequence of arrays with several axes, as in 0,:,3.")
]
Block = Annotated[
    int, typer.Option("--block", metavar="INTEGER", parser=whole(1), help="Block length to look at closely.")
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        parser=format_name,
        help="Number format to look at, as `recfact horizon` lists them; may be given several times.",
    ),
]
Kept = Annotated[
    Any,  # a Window: typer takes no unions
    typer.Option(
        "--window",
        metavar="WINDOW",
        parser=parsed(window_of),
        help="full, uniform:LAGS, or jagged:BLOCK with an optional :TERMS.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


def read_problem(
    a: str | None,
    u: str | None,
    dt: str | None,
    time: str | None,
    unit: str,
    as_given: bool,
    tau: str | None,
    pick: str | None,
) -> Problem:
    """Return the recurrence that the options of a command name; usage errors for options that don't go together.

    What a column of times or steps was taken for is said on standard error.
    """
    from recfact.report.problem import bundled_problem, problem_from_files, problem_from_record

    seconds = None if tau is None else _seconds(tau)
    if dt is not None and time is not None:
        raise typer.BadParameter("--dt and --time exclude each other")
    if time is None and unit != "auto":
        raise typer.BadParameter("--time-unit goes with --time")
    if dt is None and time is None and as_given:
        raise typer.BadParameter("--steps-as-given goes with --dt or --time")
    if dt is not None or time is not None:
        column = "--dt" if time is None else "--time"
        if a is not None or pick is not None:
            raise typer.BadParameter(f"{column} goes without {'--a' if a is not None else '--pick'}")
        if u is None or seconds is None:
            missing = "--u, the file with the values" if u is None else "--tau, the time constant in seconds"
            raise typer.BadParameter(f"{column} needs {missing}")
        problem = problem_from_record(u, seconds, dt=dt, time=time, unit=unit, as_given=as_given)
        typer.echo(problem.source, err=True)
        return problem
    if a is None and u is None:
        if pick is not None:
            raise typer.BadParameter("--pick goes with --a")
        return bundled_problem() if seconds is None else bundled_problem(seconds)
    if a is None:
        raise typer.BadParameter("--u needs coefficients: pass --a, or --tau with --time or --dt")
    if seconds is not None:
        raise typer.BadParameter("--tau goes with --time or --dt, or with the bundled data")
    return problem_from_files(a, u, pick)


def _seconds(tau: str) -> float:
    from recfact.report.sources import parse_number

    seconds = parse_number(tau)
    if seconds is None or not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"--tau must be a positive number of seconds, as 2592000 for 30 days, got {tau!r}")
    return seconds


def read_state(x0: str | None) -> Any:
    """Return the initial state that `x0` gives, a number or a file; None for None."""
    from recfact.report.files import read_array
    from recfact.report.sources import STANDARD_INPUT, constant, split_part

    if x0 is None:
        return None
    path = split_part(x0)[0]
    if constant(x0) is None and str(path) != STANDARD_INPUT and not path.exists():
        raise typer.BadParameter(f"--x0 must be a number or a file, got {x0!r}, and there is no such file")
    return read_array(x0, "x0")
