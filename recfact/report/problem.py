"""The one recurrence that a report is about, from files or from the bundled record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recfact.arrays import Array
from recfact.data import DEFAULT_TAU, exponential_average, load_co2
from recfact.errors import DataFileError, OptionError
from recfact.report.files import read_array, read_table


@dataclass(frozen=True, eq=False)
class Problem:
    """Coefficients and inputs of one sequence, and what is known of where they come from.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs.
    title : str
        What the recurrence is, for headings.
    source : str
        Where the numbers come from and how they became coefficients, in a sentence.
    time : ndarray of datetime64, shape (n,), optional
        When the steps happen.
    value : ndarray, shape (n,), optional
        The measured values that the states smooth.
    unit : str
        Unit of the states, empty if unknown.
    tau : float, optional
        Time constant in seconds, where the recurrence is an exponential average.
    """

    a: Array
    u: Array
    title: str
    source: str
    time: Array | None = None
    value: Array | None = None
    unit: str = ""
    tau: float | None = None


def bundled_problem(tau: float = DEFAULT_TAU) -> Problem:
    """Return the exponential average over `tau` seconds of the bundled CO2 record."""
    record = load_co2()
    a, u = record.recurrence(tau)
    return Problem(
        a=a,
        u=u,
        title=f"{record.title}, averaged over {duration(tau)}",
        source=(
            f"The bundled record of {len(a)} measured weeks (Keeling and Whorf 2004), smoothed by an exponential "
            f"average over its uneven steps with the time constant tau = {duration(tau)}."
        ),
        time=record.time,
        value=record.value,
        unit=record.unit,
        tau=tau,
    )


def problem_from_files(a: str, u: str, pick: str | None = None) -> Problem:
    """Return the recurrence whose coefficients and inputs are in the files `a` and `u`, each FILE or FILE:PART.

    The arrays broadcast against each other by NumPy's rules. Where the result has more than one axis, `pick` says which
    sequence the report is about: one index or ``:`` for each axis, separated by commas, as in ``"0,:,3"``.

    Raises
    ------
    DataFileError
        If a file can't be read, the shapes don't fit, or they have several axes and `pick` is missing.
    OptionError
        If `pick` doesn't leave exactly one axis of the shape.
    """
    coefficients, inputs = read_array(a, "a"), read_array(u, "u")
    try:
        coefficients, inputs = np.broadcast_arrays(coefficients, inputs)
    except ValueError:
        raise DataFileError(
            f"{a} and {u} don't fit together: shapes {coefficients.shape} and {inputs.shape} don't broadcast"
        ) from None
    where = _pick(pick, coefficients.shape, f"{a} and {u}")
    chosen = "" if pick is None else f" at [{pick}]"
    return Problem(
        a=np.ascontiguousarray(coefficients[where]),
        u=np.ascontiguousarray(inputs[where]),
        title=f"{a} and {u}{chosen}",
        source=f"Coefficients from {a}, inputs from {u}{chosen}.",
    )


def sequence_from_file(source: str, name: str, pick: str | None = None) -> Array:
    """Return one sequence of the array in a file, as `problem_from_files` takes it; `name` is "a" or "u"."""
    values = read_array(source, name)
    return np.ascontiguousarray(values[_pick(pick, values.shape, source)])


def problem_from_record(record: str, dt: str, tau: float) -> Problem:
    """Return the exponential average over `tau` seconds of a value column of a .csv file, FILE or FILE:COLUMN.

    Parameters
    ----------
    record : str
        The file and its value column.
    dt : str
        The column with the time steps in seconds, each the step from the row before to this one (the first is not
        read), or with ISO 8601 dates or times.
    tau : float
        Time constant in seconds.
    """
    table, column = read_table(record, "u", dt)
    value = table.numbers(column)
    if table.is_numeric(dt):
        time, steps = None, table.steps(dt)
    else:
        time = table.times(dt)
        steps = np.concatenate([[np.inf], np.diff(time) / np.timedelta64(1, "s")])
    steps[0] = np.inf
    a, u = exponential_average(steps, value, tau)
    return Problem(
        a=a,
        u=u,
        title=f"{column} of {table.path.name}, averaged over {duration(tau)}",
        source=(
            f"Column {column!r} of {table.path}, smoothed by an exponential average over the steps of column {dt!r} "
            f"with the time constant tau = {duration(tau)}."
        ),
        time=time,
        value=value,
        tau=tau,
    )


def duration(seconds: float) -> str:
    """Return `seconds` in the largest unit that keeps the number at one or above.

    Examples
    --------
    >>> duration(30 * 86400.0), duration(90.0), duration(0.25)
    ('30 days', '1.5 minutes', '0.25 seconds')
    """
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= size:
            return _plural(seconds / size, unit)
    return _plural(seconds, "second")


def _plural(number: float, unit: str) -> str:
    return f"{number:g} {unit}" + ("" if number == 1 else "s")


def _pick(pick: str | None, shape: tuple[int, ...], place: str) -> tuple[int | slice, ...]:
    """Return the index that leaves one axis of `shape`."""
    if pick is None:
        if len(shape) == 1:
            return (slice(None),)
        raise DataFileError(
            f"one sequence is wanted and the shape of {place} is {shape}; choose it with --pick, one index or ':' "
            "for each axis"
        )
    parts = [part.strip() for part in pick.split(",")]
    try:
        where = tuple(slice(None) if part == ":" else int(part) for part in parts)
    except ValueError:
        raise OptionError(f"--pick takes integers and one ':', separated by commas, got {pick!r}") from None
    if len(where) != len(shape) or parts.count(":") != 1:
        raise OptionError(f"--pick {pick!r} must have one entry for each axis of {shape}, exactly one of them ':'")
    for index, length in zip(where, shape, strict=True):
        if isinstance(index, int) and not -length <= index < length:
            raise OptionError(f"--pick {pick!r} is outside the shape {shape}")
    return where
