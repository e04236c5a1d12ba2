"""Options that several commands share, and their meaning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from recfact.checks import did_you_mean
from recfact.errors import OptionError, RecfactError
from recfact.windows import window_of

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
            hint = did_you_mean(text, dict(zip(names, names, strict=True)))
            raise typer.BadParameter(f"must be one of {', '.join(names)}, got {text!r}{hint and f'; {hint}'}")
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


def _any_format(name: str) -> str:
    from recfact.precision.formats.block_catalogue import number_format

    number_format(name)
    return name


def _format(name: str) -> str:
    from recfact.precision import BlockFormat
    from recfact.precision.formats.block_catalogue import number_format

    if isinstance(number_format(name), BlockFormat):
        advice = "it stores numbers in blocks and computes nothing; recfact window, verify and report take it"
        raise OptionError("must be a format of single numbers", given=name, advice=advice)
    return name


any_format = parsed(_any_format)
"""Parses an option that takes a number format, of single numbers or of blocks, and leaves it a name."""

format_name = parsed(_format)
"""Parses an option that takes a number format in which something is computed, and leaves it a name."""


def _date_format(pattern: str) -> str:
    from datetime import datetime

    day = datetime(2001, 1, 1)
    try:
        good = "%Y" in pattern.upper() and datetime.strptime(day.strftime(pattern), pattern).year == day.year
    except ValueError:
        good = False
    if not good:
        raise typer.BadParameter(f"must be a pattern of a date with its year, as %d.%m.%Y, got {pattern!r}")
    return pattern


A = Annotated[
    str | None,
    typer.Option(
        "--a",
        metavar="FILE|NUMBER",
        help="Coefficients: a .npy, .npz, .csv or .zarr file, - for standard input, or a number for a constant. "
        "FILE:NAME picks an array or a column of the file.",
    ),
]
U = Annotated[
    str | None,
    typer.Option(
        "--u",
        metavar="FILE|NUMBER",
        help="Inputs, in the same ways, or one of the words ones (the default) and impulse. With --dt or --time, the "
        "measured values.",
    ),
]
Dt = Annotated[
    str | None,
    typer.Option(
        "--dt",
        metavar="COLUMN",
        help="Column of the --u file with time steps in seconds. The values are then averaged over --tau.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Column with the times of the values, instead of --dt."),
]
TimeUnit = Annotated[
    str,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        parser=one_of(TIME_UNITS),
        help="How times are written: date (ISO 8601, with or without separators), year (decimal years), s (seconds), "
        "ms (milliseconds), or auto. auto refuses times that can be read in two ways.",
    ),
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        "--date-format",
        metavar="PATTERN",
        parser=_date_format,
        help="How dates are written if not as in ISO 8601: %d.%m.%Y reads 31.12.2001, and %d/%m/%Y %H:%M reads "
        "31/12/2001 23:59.",
    ),
]
AsGiven = Annotated[
    bool, typer.Option("--steps-as-given", help="Accept steps that only grow, or that are far above --tau.")
]
Tau = Annotated[
    str | None,
    typer.Option(
        "--tau",
        metavar="DURATION",
        help="Time constant of the average: a number of seconds, or a number with a unit such as 30d or 12h. For the "
        "bundled data it is 30 days by default.",
    ),
]
Halflife = Annotated[
    str | None,
    typer.Option(
        "--halflife",
        metavar="DURATION",
        help="Instead of --tau: the time after which a value counts half, tau ln 2, as in --halflife 30d.",
    ),
]
Pick = Annotated[
    str | None,
    typer.Option("--pick", metavar="INDEX", help="Which sequence to take from arrays with several axes, as in 0,:,3."),
]
Axis = Annotated[
    int | None,
    typer.Option(
        "--axis",
        metavar="INTEGER",
        parser=whole(),
        help="Axis of time in arrays with several axes. All their sequences are then taken.",
    ),
]
Offsets = Annotated[
    str | None,
    typer.Option(
        "--offsets",
        metavar="FILE|INTEGERS",
        help="Where segments start, and where the last one ends, as in 0,512,4096. Each is a sequence of its own.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing",
        metavar="HOW",
        parser=one_of(("refuse", "zero")),
        help="What to do with NaN and blank cells in --u beside --a: refuse, or zero, to take them for inputs of 0.",
    ),
]
Block = Annotated[
    int, typer.Option("--block", metavar="INTEGER", parser=whole(1), help="Block length to look at closely.")
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        parser=any_format,
        help="Number format to look at, one of those that `recfact horizon` lists, or one of blocks such as mxfp4, in "
        "which coefficients and inputs are stored. May be given several times.",
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
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
