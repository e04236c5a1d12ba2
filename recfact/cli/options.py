"""Options that several commands have, and what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recfact.errors import OptionError
from recfact.windows import Full, Jagged, Uniform, Window

if TYPE_CHECKING:
    from recfact.report.problem import Problem


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
        help="Number format to look at, as `recfact horizon` lists them; may be given several times.",
    ),
]
Kept = Annotated[
    str, typer.Option("--window", metavar="WINDOW", help="full, uniform:LAGS, or jagged:BLOCK with an optional :TERMS.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


def read_problem(a: str | None, u: str | None, dt: str | None, tau: str | None, pick: str | None) -> Problem:
    """Return the recurrence that the options of a command name; usage errors for options that don't go together."""
    from recfact.report.problem import bundled_problem, problem_from_files, problem_from_record

    seconds = None if tau is None else _seconds(tau)
    if dt is not None:
        if u is None or seconds is None or a is not None or pick is not None:
            raise typer.BadParameter("--dt goes with --u and --tau, and without --a and --pick")
        return problem_from_record(u, dt, seconds)
    if a is None and u is None:
        if pick is not None:
            raise typer.BadParameter("--pick goes with --a and --u")
        return bundled_problem() if seconds is None else bundled_problem(seconds)
    if a is None or u is None:
        raise typer.BadParameter("--a and --u go together; or --u with --dt and --tau")
    if seconds is not None:
        raise typer.BadParameter("--tau goes with --dt, or with the bundled data")
    return problem_from_files(a, u, pick)


def _seconds(tau: str) -> float:
    from recfact.report.csvfile import parse_number

    seconds = parse_number(tau)
    if seconds is None or not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"--tau must be a positive number of seconds, as 2592000 for 30 days, got {tau!r}")
    return seconds


def read_state(x0: str | None) -> Any:
    """Return the initial state that `x0` gives, a number or a file; None for None."""
    from recfact.report.csvfile import parse_number
    from recfact.report.files import read_array, split_part

    if x0 is None:
        return None
    number = parse_number(x0)
    if number is None and not split_part(x0)[0].exists():
        raise typer.BadParameter(f"--x0 must be a number or a file, got {x0!r}, and there is no such file")
    if number is not None and not isfinite(number):
        raise typer.BadParameter(f"--x0 must be finite, got {x0!r}")
    return read_array(x0, "x0") if number is None else number


def check_format(name: str | None, option: str) -> None:
    """Check that a number format is one, where an option other than --format gives it."""
    from recfact.precision import format as format_of

    try:
        format_of(name or "binary32")
    except OptionError as error:
        raise OptionError(str(error).replace("format must", f"{option} must", 1)) from None


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
