"""Read what the options of a command name: the recurrence, its segments and its initial state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from math import log
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from recfact.checks import LONGEST
from recfact.cli.options import AsGiven, DateFormat, Dt, Halflife, Missing, Tau, Time, TimeUnit

if TYPE_CHECKING:
    from recfact.report.batch import Batch
    from recfact.report.files import Zeros
    from recfact.report.problem import Problem


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How the file in --u is read: options that several commands share, which `with_table` gives them.

    Parameters
    ----------
    dt, time, time_unit, date_format, steps_as_given, tau, halflife, missing
        The options as they are typed. Those that are left out are None, or have their defaults.
    group : str, optional
        An option of `recfact solve` alone.
    """

    dt: Dt = None
    time: Time = None
    time_unit: TimeUnit = "auto"
    date_format: DateFormat = None
    steps_as_given: AsGiven = False
    tau: Tau = None
    halflife: Halflife = None
    missing: Missing = "refuse"
    group: str | None = None

    def __post_init__(self) -> None:
        """Raise a usage error if options on times are without times, or exclude each other."""
        if self.dt is not None and self.time is not None:
            raise typer.BadParameter("--dt and --time exclude each other")
        if self.time is None and self.written_times != "auto":
            option = "--time-unit" if self.date_format is None else "--date-format"
            raise typer.BadParameter(f"{option} goes with --time")
        if self.time is None and self.group is not None:
            raise typer.BadParameter("--group goes with --time")
        if self.dt is None and self.time is None and self.steps_as_given:
            raise typer.BadParameter("--steps-as-given goes with --dt or --time")

    @property
    def averages(self) -> dict[str, str | None]:
        """The options that ask for an average over time."""
        return {"dt": self.dt, "time": self.time, "tau": self.tau, "halflife": self.halflife}

    @property
    def written_times(self) -> str:
        """How times are written: the unit, or the pattern of dates."""
        if self.date_format is None:
            return self.time_unit
        if self.time_unit not in ("auto", "date"):
            raise typer.BadParameter(f"--date-format goes without --time-unit {self.time_unit}")
        return self.date_format

    @property
    def time_constant(self) -> float | None:
        """The time constant in seconds that --tau or --halflife gives. None without both."""
        if self.tau is not None and self.halflife is not None:
            raise typer.BadParameter("--tau and --halflife exclude each other")
        if self.halflife is not None:
            return _seconds("--halflife", self.halflife) / log(2)
        return None if self.tau is None else _seconds("--tau", self.tau)

    @cached_property
    def zeros(self) -> Zeros | None:
        """The counter of missing inputs that are taken for 0. None if they are refused."""
        from recfact.report.files import Zeros

        return Zeros() if self.missing == "zero" else None

    def say_zeros(self) -> None:
        """Say on standard error how many missing inputs were taken for 0 in what was read, if there were any."""
        if self.zeros is not None and self.zeros.count:
            count = self.zeros.count
            typer.echo(f"Took {count} missing input{'' if count == 1 else 's'} for 0.", err=True)


NOT_TYPED = TableOptions()
"""The options as they are if none is typed."""


def with_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `TableOptions` in the place of its argument `table`, as a decorator."""
    fields = get_type_hints(TableOptions, include_extras=True)
    options = {name: kind for name, kind in fields.items() if get_origin(kind) is Annotated}

    @wraps(command)
    def taking(**given: Any) -> None:
        command(table=TableOptions(**{name: given.pop(name) for name in options}), **given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name != "table":
            parameters.append(parameter)
            continue
        for name, kind in options.items():
            default = getattr(TableOptions, name)
            parameters.append(parameter.replace(name=name, annotation=kind, default=default))
    taking.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return taking


def read_problem(a: str | None, u: str | None, table: TableOptions, pick: str | None = None) -> Problem:
    """Return the recurrence that the options of a command name. Options that don't go together are usage errors.

    Standard error says how a column of times or steps was read, and how many inputs were missing.
    """
    from recfact.report.problem import bundled_problem, problem_from_files, problem_from_record

    dt, time, unit, tau = table.dt, table.time, table.written_times, table.time_constant
    if table.zeros is not None and a is None:
        raise typer.BadParameter("--missing goes with --a: averages leave missing values out")
    if dt is not None or time is not None:
        column = "--dt" if time is None else "--time"
        if a is not None or pick is not None:
            raise typer.BadParameter(f"{column} goes without {'--a' if a is not None else '--pick'}")
        if u is None or tau is None:
            needed = "--u, the file with the values" if u is None else "--tau, the time constant, or --halflife"
            raise typer.BadParameter(f"{column} needs {needed}")
        as_given = table.steps_as_given
        problem = problem_from_record(u, tau, dt=dt, time=time, group=table.group, unit=unit, as_given=as_given)
        typer.echo(problem.source, err=True)
        return problem
    if a is None and u is None:
        if pick is not None:
            raise typer.BadParameter("--pick goes with --a")
        return bundled_problem() if tau is None else bundled_problem(tau)
    if a is None:
        raise typer.BadParameter("--u needs coefficients: pass --a, or --tau with --time or --dt")
    if tau is not None:
        raise typer.BadParameter("--tau or --halflife goes with --time or --dt, or with the bundled data")
    problem = problem_from_files(a, u, pick, zeros=table.zeros)
    table.say_zeros()
    return problem


def read_batch(
    a: str | None,
    u: str | None,
    axis: int | None,
    table: TableOptions,
    pick: str | None,
    offsets: Any = None,
    *,
    mapped: bool = False,
) -> Batch | None:
    """Return all sequences that the options of a command name; None without --axis and --offsets.

    With `mapped` they stay in their files, and there may be one without these options. Options that don't go with them
    are usage errors.
    """
    from recfact.report.batch import batch_from_files

    if axis is None and offsets is None and not mapped:
        return None
    option = "--offsets" if axis is None else "--axis"
    for name, value in (table.averages | {"pick": pick}).items():
        if value is not None:
            raise typer.BadParameter(f"{option} asks for all sequences of --a, and goes without --{name}")
    if a is None:
        raise typer.BadParameter(f"{option} goes with a file in --a")
    batch = batch_from_files(a, u, axis, offsets, mapped=mapped, zeros=table.zeros)
    table.say_zeros()
    return batch


def _seconds(name: str, text: str) -> float:
    from recfact.decay import seconds_of
    from recfact.report.sources import parse_number

    seconds = parse_number(text)
    if seconds is None:
        seconds = seconds_of(text)
    if seconds is None or not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{name} must be a positive number of seconds, or with a unit as 30d, got {text!r}")
    return seconds


def read_offsets(offsets: str | None) -> Any:
    """Return the integers in a file, or those that are typed with commas between them. None stays None."""
    from recfact.report.files import read_array
    from recfact.report.sources import STANDARD_INPUT, split_part

    if offsets is None:
        return None
    path = split_part(offsets)[0]
    if offsets and (str(path) == STANDARD_INPUT or path.exists()):  # an empty text is the path of this folder
        values = read_array(offsets, "offsets")
        return values.astype(int) if (values == values // 1).all() else values
    try:
        typed = [int(part) for part in offsets.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"--offsets must be integers with commas between them or a file, got {offsets!r}, and there is no such file"
        ) from None
    if max(map(abs, typed)) > LONGEST:
        raise typer.BadParameter(f"--offsets must be at most {LONGEST}, more steps than memory holds, got {offsets!r}")
    return typed


def read_state(x0: str | None) -> Any:
    """Return the initial state that `x0` gives, a number or a file. None stays None."""
    from recfact.report.files import read_array
    from recfact.report.sources import STANDARD_INPUT, constant, split_part

    if x0 is None:
        return None
    path = split_part(x0)[0]
    if constant(x0) is None and str(path) != STANDARD_INPUT and not path.exists():
        raise typer.BadParameter(f"--x0 must be a number or a file, got {x0!r}, and there is no such file")
    return read_array(x0, "x0")
