"""The one recurrence that a report is about, from files or from the bundled record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recfact.arrays import Array
from recfact.data import DEFAULT_TAU, exponential_average, load_co2
from recfact.errors import DataFileError, OptionError
from recfact.report.files import read_array, read_table
from recfact.report.sources import constant
from recfact.report.times import duration, read_instants, read_steps


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


def problem_from_files(a: str, u: str | None = None, pick: str | None = None) -> Problem:
    """Return the recurrence whose coefficients and inputs are what `a` and `u` name, as `read_array` takes them.

    The arrays broadcast against each other by NumPy's rules. Where the result has more than one axis, `pick` says which
    sequence the report is about: one index or ``:`` for each axis, separated by commas, as in ``"0,:,3"``. Inputs can
    also be "ones", which they are if left out, or an "impulse": a one, and zeros.

    Raises
    ------
    DataFileError
        If a file can't be read, the shapes don't fit, or they have several axes and `pick` is missing.
    OptionError
        If `pick` doesn't leave exactly one axis of the shape.
    """
    coefficients = read_array(a, "a")
    words = "ones" if u is None else u
    made = words in MADE_INPUTS and not Path(words).exists()
    inputs = np.ones_like(coefficients) if made else read_array(words, "u")
    what = a if made else f"{a} and {words}"
    try:
        coefficients, inputs = np.broadcast_arrays(coefficients, inputs)
    except ValueError:
        raise DataFileError(
            f"{what} don't fit together: shapes {coefficients.shape} and {inputs.shape} don't broadcast"
        ) from None
    if coefficients.ndim == 0:
        raise DataFileError(f"a sequence is wanted and {what} {'is a number' if made else 'are numbers'}; name a file")
    where = _pick(pick, coefficients.shape, what)
    own = np.ascontiguousarray(inputs[where])
    if made and words == "impulse":
        own[1:] = 0
    chosen = "" if pick is None else f" at [{pick}]"
    given = MADE_INPUTS[words] if made else f"inputs from {words}" if constant(words) is None else f"inputs {words}"
    source = f"Coefficients {a if constant(a) is not None else f'from {a}'}"
    return Problem(
        a=np.ascontiguousarray(coefficients[where]),
        u=own,
        title=f"{a}{chosen}, {given}" if made else f"{a} and {words}{chosen}",
        source=f"{source}{chosen}, {given}." if made else f"{source}, {given}{chosen}.",
    )


MADE_INPUTS = {"ones": "inputs of ones", "impulse": "an impulse as inputs"}
"""Inputs that need no file, and what they are called."""


def sequence_from_file(source: str, name: str, pick: str | None = None) -> Array:
    """Return one sequence of the array in a file, as `problem_from_files` takes it; `name` is "a" or "u"."""
    values = read_array(source, name)
    return np.ascontiguousarray(values[_pick(pick, values.shape, source)])


def problem_from_record(
    record: str,
    tau: float,
    *,
    dt: str | None = None,
    time: str | None = None,
    unit: str = "auto",
    as_given: bool = False,
) -> Problem:
    """Return the exponential average over `tau` seconds of a value column of a .csv file, FILE or FILE:COLUMN.

    Parameters
    ----------
    record : str
        The file and its value column.
    tau : float
        Time constant in seconds.
    dt, time : str, one of them None
        The column with the time steps in seconds, each the step from the row before to this one (the first is not
        read), or the column with the instants.
    unit : {"auto", "s", "ms", "year", "date"}
        How instants are written.
    as_given : bool
        Whether steps may look like instants, or be far above `tau`.
    """
    column = time if dt is None else dt
    if column is None:
        raise OptionError("must be given, or dt", "time")
    table, values = read_table(record, "u", column)
    value = table.numbers(values)
    times = (
        read_instants(table, column, unit, tau, as_given) if dt is None else read_steps(table, column, tau, as_given)
    )
    a, u = exponential_average(times.steps, value, tau)
    return Problem(
        a=a,
        u=u,
        title=f"{values} of {table.source.name}, averaged over {duration(tau)}",
        source=(
            f"Column {values!r} of {table.source.place}, smoothed by an exponential average with the time constant "
            f"tau = {duration(tau)}; column {column!r} was read as {times.understood}."
        ),
        time=times.instants,
        value=value,
        tau=tau,
    )


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
        raise OptionError("must be integers and one ':', separated by commas", "pick", given=pick) from None
    if len(where) != len(shape) or parts.count(":") != 1:
        required = f"must have one entry for each axis of the shape {shape}, exactly one of them ':'"
        raise OptionError(required, "pick", given=pick)
    for index, length in zip(where, shape, strict=True):
        if isinstance(index, int) and not -length <= index < length:
            raise OptionError(f"must be inside the shape {shape}", "pick", given=pick)
    return where
