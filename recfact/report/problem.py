"""The one recurrence that a report is about, from files or from the bundled record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from recfact.arrays import Array, check_axis
from recfact.data import DEFAULT_TAU, exponential_average, load_co2
from recfact.errors import DataFileError, OptionError
from recfact.report.files import Zeros, read_array, read_table
from recfact.report.sources import constant
from recfact.report.stored import Stored, Where, stored
from recfact.report.times import duration, read_instants, read_steps


@dataclass(frozen=True, eq=False)
class Problem:
    """Coefficients and inputs of one sequence, and what is known of their source.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs.
    title : str
        Description of the recurrence, for headings.
    source : str
        One sentence: where the numbers come from, and how they became coefficients.
    time : ndarray of datetime64, shape (n,), optional
        When the steps happen.
    cells : dict, optional
        The names of the columns of groups and of times, and their n cells as the file writes them.
    offsets : sequence of int, optional
        Where groups start, and where the last one ends.
    value : ndarray, shape (n,), optional
        The measured values that the states smooth.
    unit : str
        Unit of the states, empty if unknown.
    tau : float, optional
        Time constant in seconds, if the recurrence is an exponential average.
    """

    a: Array
    u: Array
    title: str
    source: str
    time: Array | None = None
    cells: Mapping[str, Sequence[str]] | None = None
    offsets: Sequence[int] | None = None
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


def problem_from_files(a: str, u: str | None = None, pick: str | None = None, *, zeros: Zeros | None = None) -> Problem:
    """Return the recurrence with the coefficients and inputs that `a` and `u` name, as `read_array` takes them.

    The arrays broadcast against each other by NumPy's rules. If the result has more than one axis, `pick` chooses the
    sequence of the report: one index or ``:`` for each axis, separated by commas, as in ``"0,:,3"``. Nothing else is
    then read of .npy files and of zarr. Inputs can also be "ones", the default, or an "impulse": a one, and then zeros.
    With `zeros`, missing inputs are 0, and counted.

    Raises
    ------
    DataFileError
        If a file can't be read, the shapes don't fit, or they have several axes and `pick` is missing.
    OptionError
        If `pick` doesn't leave exactly one axis of the shape.
    """
    read = given_arrays(a, u, mapped=pick is not None, zeros=zeros)
    where = _pick(pick, read.a.shape, read.what)
    return read.problem(where, "" if pick is None else f" at [{pick}]")


@dataclass(frozen=True, eq=False)
class GivenArrays:
    """Coefficients and inputs as files hold them, of one sequence or many.

    Parameters
    ----------
    a, u : Stored
        Coefficients and inputs, of one shape.
    what, source : str
        Their name in messages, and where the coefficients come from.
    given : str
        What the inputs are, in words.
    made : bool
        Whether the inputs came from no file.
    impulse : bool
        Whether the inputs are a one, and then zeros.
    """

    a: Stored
    u: Stored
    what: str
    source: str
    given: str
    made: bool
    impulse: bool

    def problem(self, where: Where, chosen: str, why: str = "") -> Problem:
        """Return the sequence at an index. The text `chosen` names that index, and `why` is a sentence on it."""
        own_a, own = (np.array(numbers[where]) for numbers in (self.a, self.u))
        if self.impulse:
            own[1:] = 0
        return Problem(
            a=own_a,
            u=own,
            title=f"{self.what}{chosen}, {self.given}" if self.made else f"{self.what}{chosen}",
            source=f"{self.source}, {self.given}. {why}".rstrip(),
        )


def given_arrays(a: str, u: str | None = None, *, mapped: bool = False, zeros: Zeros | None = None) -> GivenArrays:
    """Return what `a` and `u` name, as `problem_from_files` takes it.

    With `mapped` no more is read of .npy files and of zarr than what is used.
    """

    def read(source: str, name: str, zeros: Zeros | None) -> Stored:
        return stored(source, name, zeros=zeros) if mapped else Stored(read_array(source, name, zeros=zeros))

    coefficients = read(a, "a", None)
    words = "ones" if u is None else u
    made = words in MADE_INPUTS and not Path(words).exists()
    inputs = Stored(np.ones((), coefficients.dtype)) if made else read(words, "u", zeros)
    what = a if made else f"{a} and {words}"
    try:
        shape = np.broadcast_shapes(coefficients.shape, inputs.shape)
    except ValueError:
        raise DataFileError(
            f"{what} don't fit together: shapes {coefficients.shape} and {inputs.shape} don't broadcast"
        ) from None
    if not shape:
        raise DataFileError(
            f"a sequence is required, and {what} {'is a number' if made else 'are numbers'}; name a file"
        )
    return GivenArrays(
        a=coefficients.broadcast_to(shape),
        u=inputs.broadcast_to(shape),
        what=what,
        source=f"Coefficients {a if constant(a) is not None else f'from {a}'}",
        given=MADE_INPUTS[words] if made else f"inputs from {words}" if constant(words) is None else f"inputs {words}",
        made=made,
        impulse=made and words == "impulse",
    )


MADE_INPUTS = {"ones": "inputs of ones", "impulse": "an impulse as inputs"}
"""Inputs that need no file, and what they are called."""


def sequence_from_file(source: str, name: str, pick: str | None = None) -> Array:
    """Return one sequence of the array in a file, as `problem_from_files` takes it; `name` is "a" or "u"."""
    values = stored(source, name)
    return np.array(values[_pick(pick, values.shape, source)])


def sequences_from_file(source: str, name: str, axis: int) -> tuple[Array, int]:
    """Return the array in a file, and how many sequences it holds along an axis."""
    values = read_array(source, name)
    steps = values.shape[check_axis(axis, values.ndim)]
    return values, values.size // steps if steps else 0


def problem_from_record(
    record: str,
    tau: float,
    *,
    dt: str | None = None,
    time: str | None = None,
    group: str | None = None,
    unit: str = "auto",
    as_given: bool = False,
) -> Problem:
    """Return the exponential average over `tau` seconds of a value column of a .csv file, FILE or FILE:COLUMN.

    Values may be missing. They are left out, and their time passes.

    Parameters
    ----------
    record : str
        The file and its value column.
    tau : float
        Time constant in seconds.
    dt, time : str, one of them None
        The column with the time steps in seconds, or the column with the instants. A step goes from the row before to
        its own row, so the first one isn't read.
    group : str, optional
        With `time`, a column whose equal cells say which rows belong together. Each group is averaged by itself. Groups
        stand one behind the other, in the order in which the file has them first.
    unit : {"auto", "s", "ms", "year", "date"} or str
        How instants are written, as for `read_instants`.
    as_given : bool
        Whether steps may look like instants, or be far above `tau`.
    """
    column = time if dt is None else dt
    if column is None:
        raise OptionError("must be given, or dt", "time")
    table, values = read_table(record, "u", column, *([] if group is None else [group]))
    value = table.numbers(values, missing=True)
    there = np.flatnonzero(~np.isnan(value))
    if not len(there):
        raise DataFileError(
            f"{table.source.place}: all values of column {values!r} are missing, and one is needed at least"
        )
    offsets = None
    if dt is None:
        if group is not None:
            there, offsets = _grouped(table.cells(group), there)
        measured = table.chosen(there)
        times = read_instants(measured, column, unit, tau, as_given, (offsets or [])[1:-1])
        columns = [column] if group is None else [group, column]
        steps, cells = times.steps, {table.columns[table.index(name)]: measured.cells(name) for name in columns}
    else:
        times, cells = read_steps(table, column, tau, as_given), None
        # The time of rows without a value also passes.
        steps = np.add.reduceat(times.steps[: there[-1] + 1], np.concatenate([[0], there[:-1] + 1]))
    value = value[there]
    skipped = len(table.rows) - len(there)
    a, u = exponential_average(steps, value, tau)
    return Problem(
        a=a,
        u=u,
        title=f"{values} of {table.source.name}, averaged over {duration(tau)}",
        source=(
            f"Column {values!r} of {table.source.place}, smoothed by an exponential average with the time constant "
            f"tau = {duration(tau)}; column {column!r} was read as {times.understood}."
            + (f" Each of {len(offsets) - 1} groups of column {group!r} is averaged by itself." if offsets else "")
            + (f" Skipped {skipped} missing value{'' if skipped == 1 else 's'}, whose time passes." if skipped else "")
        ),
        time=times.instants,
        cells=cells,
        offsets=offsets,
        value=value,
        tau=tau,
    )


def _grouped(cells: Sequence[str], rows: Array) -> tuple[Array, list[int]]:
    """Return rows with those of equal cells together, in the order in which each cell is first met, and the offsets."""
    groups: dict[str, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(cells[row], []).append(row)
    together = [row for group in groups.values() for row in group]
    return np.array(together), [0, *accumulate(map(len, groups.values()))]


def _pick(pick: str | None, shape: tuple[int, ...], place: str) -> Where:
    """Return the index that leaves one axis of `shape`."""
    if pick is None:
        if len(shape) == 1:
            return (slice(None),)
        raise DataFileError(
            f"one sequence is required, and the shape of {place} is {shape}; choose it with --pick, one index or ':' "
            "for each axis (`recfact window`, `verify` and `report` take all of them with --axis, the axis of time)"
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
