"""Columns of times and of steps: read right or refused, whatever way they were written in."""

from datetime import datetime, timedelta, timezone
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recfact.errors import DataFileError
from recfact.report.csvfile import CsvTable
from recfact.report.problem import problem_from_record
from recfact.report.sources import Source
from recfact.report.times import LEAST_MILLISECONDS, MOST_SECONDS, UNITS, duration, read_instants, read_steps

DAY = 86400
EPOCH = datetime(1970, 1, 1)
FOREVER = 1e300  # a time constant that no step is far above


def table_of(cells):
    return CsvTable(
        Source("t.csv", None, ".csv", Path("t.csv")), ("at",), [[c] for c in cells], [*range(2, len(cells) + 2)]
    )


def of_dates(pattern, unit):
    """A column of dates by a pattern of strftime, whose steps are whole multiples of `unit` seconds."""

    def column(draw, first, gaps):
        start = datetime(1900, 1, 1) + timedelta(seconds=unit * (first % (200 * 365 * DAY // unit)))
        moments = [start + timedelta(seconds=unit * sum(gaps[:k])) for k in range(len(gaps) + 1)]
        return [moment.strftime(pattern) for moment in moments], [float(unit * gap) for gap in gaps]

    return column


def of_months(draw, first, gaps):
    months = [1900 * 12 + first % 2400 + sum(gaps[:k]) for k in range(len(gaps) + 1)]
    dates = [datetime(month // 12, month % 12 + 1, 1) for month in months]
    pattern = draw(st.sampled_from(["%Y-%m", "%Y%m"]))
    return [date.strftime(pattern) for date in dates], [(b - a).total_seconds() for a, b in pairwise(dates)]


def of_years(draw, first, gaps):
    quarter = draw(st.sampled_from([1, 4]))  # whole years, or quarters
    counts = [1900 * quarter + first % (200 * quarter) + sum(gaps[:k]) for k in range(len(gaps) + 1)]
    dates = []
    for count in counts:
        year, part = divmod(count, quarter)
        length = (datetime(year + 1, 1, 1) - datetime(year, 1, 1)) / quarter
        dates.append(datetime(year, 1, 1) + part * length)
    cells = [str(count // quarter) if quarter == 1 else str(count / quarter) for count in counts]
    return cells, [(b - a).total_seconds() for a, b in pairwise(dates)]


def of_numbers(least, most, scale):
    """A column of numbers from `least` to `most`, of which `scale` are a second."""

    def column(draw, first, gaps):
        room = int(most - least) - sum(gaps)
        digits = draw(st.sampled_from([0, 1, 3]))
        numbers = [Fraction(int(least) + first % max(room, 1)) + sum(gaps[:k]) for k in range(len(gaps) + 1)]
        cells = [f"{int(number)}" + (f".{'0' * digits}" if digits else "") for number in numbers]
        return cells, [gap / scale for gap in gaps]

    return column


KINDS = {
    "dates": of_dates("%Y-%m-%d", DAY),
    "dates without separators": of_dates("%Y%m%d", DAY),
    "days of the year": of_dates("%Y-%j", DAY),
    "days of the year without separators": of_dates("%Y%j", DAY),
    "weeks": of_dates("%G-W%V-%u", DAY),
    "weeks without separators": of_dates("%GW%V%u", DAY),
    "hours without separators": of_dates("%Y%m%d%H", 3600),
    "times": of_dates("%Y-%m-%dT%H:%M:%S", 1),
    "times with a blank": of_dates("%Y-%m-%d %H:%M", 60),
    "times without separators": of_dates("%Y%m%dT%H%M%S", 1),
    "minutes as digits": of_dates("%Y%m%d%H%M", 60),
    "seconds as digits": of_dates("%Y%m%d%H%M%S", 1),
    "dates as floats": of_dates("%Y%m%d.0", DAY),
    "times of a zone": of_dates("%Y-%m-%dT%H:%M:%S+02:00", 1),
    "months": of_months,
    "years": of_years,
    "plain seconds": of_numbers(0, 4e5, 1),
    "seconds since 1970": of_numbers(0, MOST_SECONDS, 1),
    "milliseconds since 1970": of_numbers(LEAST_MILLISECONDS, 4e12, 1000),
    "milliseconds since 1970, after 2001": of_numbers(1e12, 4e12, 1000),
}


@st.composite
def columns(draw, kind):
    gaps = draw(st.lists(st.integers(1, 9), max_size=8))
    return KINDS[kind](draw, draw(st.integers(0, 2**40)), gaps)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=30)
def test_times_are_read_right_or_refused(kind, data):
    """By the unit that says what they are always right; by itself, and as steps, right or refused."""
    cells, expected = data.draw(columns(kind))
    own = next((unit for unit in ("year", "ms", "s") if f"{_word(unit)}" in kind and "digits" not in kind), "date")
    assert read_instants(table_of(cells), "at", own, FOREVER, False).steps[1:].tolist() == expected
    for read in (
        lambda: read_instants(table_of(cells), "at", "auto", FOREVER, False),
        lambda: read_steps(table_of(cells), "at", FOREVER, False),
    ):
        found = outcome(read)
        assert found == expected or "pass --time" in found or "a time step must be above 0" in found


def outcome(read):
    """Return the steps that were read, or why none were."""
    try:
        return read().steps[1:].tolist()
    except DataFileError as error:
        return str(error)


def _word(unit):
    return {"year": "years", "s": "seconds", "ms": "milliseconds"}[unit]


READ_BY_THEMSELVES = {
    "dates", "days of the year", "weeks", "weeks without separators", "times", "times with a blank",
    "times without separators", "times of a zone", "seconds as digits",
    "milliseconds since 1970, after 2001",  # before, twelve digits may be a date and a time of the Middle Ages
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(READ_BY_THEMSELVES))
@given(data=st.data())
@settings(max_examples=30)
def test_times_that_read_one_way_need_no_unit(kind, data):
    cells, expected = data.draw(columns(kind))
    assert read_instants(table_of(cells), "at", "auto", FOREVER, False).steps[1:].tolist() == expected


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 50))
def test_steps_are_read_as_they_are_or_refused(steps, first):
    cells = [str(first), *map(str, steps)]
    assert read_steps(table_of(cells), "at", FOREVER, True).steps[1:].tolist() == steps
    found = outcome(lambda: read_steps(table_of(cells), "at", FOREVER, False))
    assert found == steps or "pass --time at instead of --dt, or --steps-as-given" in found


@pytest.mark.parametrize(
    "steps", [["0", "7", "7", "7"], ["7"] * 5, ["0", "7", "7", "7", "14"], ["0", "5"], ["9"], ["0", "3", "1", "2"]]
)
def test_usual_columns_of_steps_need_no_option(steps):
    assert read_steps(table_of(steps), "at", 10.0, False).steps[1:].tolist() == [float(step) for step in steps[1:]]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["0", "10", "25"], "changes in one direction only"),
        (["19580329", "19580405", "19580412"], "changes in one direction only"),
        (["25", "10", "1"], "changes in one direction only"),
        (["0", "10", "10", "25"], "changes in one direction only"),
        (["2001-01-01", "2001-01-02"], "holds dates, and --dt takes time steps; pass --time at"),
        (["20010101", "2001-01-02"], "holds dates"),
        (["3", "2000", "1000", "3000"], "far above the time constant of 10 seconds"),
    ],
)
def test_what_looks_like_times_is_no_column_of_steps(cells, says):
    with pytest.raises(DataFileError, match=says):
        read_steps(table_of(cells), "at", 10.0, False)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["19580329", "19580405"], "as seconds and as dates; pass --time-unit s or --time-unit date"),
        (["1958", "1959"], "as seconds and as decimal years; pass --time-unit s or --time-unit year"),
        (["195803", "195804"], "as seconds and as dates"),
        (["9e9", "9.1e9"], "neither seconds, nor milliseconds since 1970, nor years nor dates"),
        (["2001-01-01", "17"], "line 3, column 'at': '17' is no ISO 8601 date"),
        (["17", "2001-01-01"], "line 2, column 'at': '17' is no ISO 8601 date"),
        (["2001-01-01", "2001-02-30"], "line 3, column 'at': '2001-02-30' is no ISO .*; write them as 2001-12-31 or"),
        (["2001-01-01", "2001-01-02T00:00Z"], "with and without a time zone"),
        (["0", "inf"], "not a finite number"),
        (["", "1"], "line 2, column 'at': the cell is blank, and each row needs its time"),
        (["0", "5", "5"], "line 4, column 'at': '5' is the same time as the line before; leave out one of the two"),
        (["0", "5", "4"], "line 4, column 'at': '4' is earlier than the line before; sort the lines by this column"),
        (["0", "2000", "5000"], "far above the time constant of 10 seconds"),
    ],
)
def test_what_is_wrong_with_times_is_said(cells, says):
    with pytest.raises(DataFileError, match=says):
        read_instants(table_of(cells), "at", "auto", 10.0, False)


@pytest.mark.parametrize("unit", UNITS[1:])
def test_a_unit_that_does_not_fit_is_refused(unit):
    cells = {"date": ["0", "1"], "year": ["0", "1"], "s": ["2001-01-01"], "ms": ["2001-01-01"]}[unit]
    with pytest.raises(DataFileError, match="column 'at'"):
        read_instants(table_of(cells), "at", unit, FOREVER, False)


def test_what_was_understood_is_said():
    days = [EPOCH + timedelta(days=7 * k + 7 * (k > 5)) for k in range(2225)]
    found = read_instants(table_of([f"{day:%Y-%m-%d}" for day in days]), "at", "auto", FOREVER, False)
    assert found.understood == "2,225 instants in dates from 1970-01-01 to 2012-08-23, 7 days apart mostly"
    assert found.instants.tolist() == days
    found = read_instants(table_of(["0", "10", "25"]), "at", "auto", FOREVER, False)
    assert found.understood == "3 instants in seconds, 10 seconds to 15 seconds apart"
    assert read_steps(table_of(["0", "60", "60"]), "at", FOREVER, False).understood == "3 steps, 1 minute long"
    assert read_instants(table_of(["7"]), "at", "auto", FOREVER, False).understood == "1 instant in seconds"


def test_steps_beyond_float64_are_infinite_without_a_warning():
    cells = ["-1.7e308", "1e308", "1.7e308", "1e308"]
    with pytest.raises(DataFileError, match="is earlier than the line before"):
        read_instants(table_of(cells), "at", "s", 1e300, True)
    assert read_instants(table_of(cells[:3]), "at", "s", 1e300, True).steps[1] == np.inf
    found = read_steps(table_of(["1e308", "1.7e308", "1.7e308", "1e308", "1e308"]), "at", 1e300, True)
    assert found.steps.tolist() == [np.inf, 1.7e308, 1.7e308, 1e308, 1e308]


def test_times_of_two_zones():
    cells = ["2001-01-01T00:00:00+01:00", "2001-01-01T00:00:00Z"]
    found = read_instants(table_of(cells), "at", "auto", FOREVER, False)
    one, other = (datetime(2001, 1, 1, tzinfo=timezone(timedelta(hours=h))) for h in (1, 0))
    assert found.steps[1] == (other - one).total_seconds()


def test_the_average_over_times_is_that_over_their_steps(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("at,step,y\n0,0,1\n10,10,2\n25,15,4\n")
    by_time = problem_from_record(f"{path}:y", 60.0, time="at")
    by_step = problem_from_record(f"{path}:y", 60.0, dt="step", as_given=True)
    assert by_time.a.tolist() == by_step.a.tolist() == [0.0, *np.exp([-10 / 60, -15 / 60])]
    assert "column 'at' was read as 3 instants in seconds" in by_time.source


@given(st.floats(1e-9, 1e12))
def test_durations_read_back(seconds):
    number, unit = duration(seconds).split()
    size = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}[unit.removesuffix("s")]
    assert float(number) * size == seconds


@pytest.mark.parametrize("half", ["180 days", "1 day", "2.5 hours", "1.5 minutes"])
def test_time_constants_of_half_lives_are_named_by_these(half):
    number, unit = half.split()
    size = {"day": 86400, "hour": 3600, "minute": 60}[unit.removesuffix("s")]
    assert duration(float(number) * size / np.log(2)) == f"{half} / ln 2"


def test_dates_are_read_by_a_pattern():
    cells = ["01.02.2001 23:30", "02.02.2001 00:30", "28.02.2001 00:30"]
    times = read_instants(table_of(cells), "at", "%d.%m.%Y %H:%M", DAY, False)
    assert times.steps[1:].tolist() == [3600, 26 * DAY]
    assert times.instants[0] == np.datetime64("2001-02-01T23:30")
    with pytest.raises(DataFileError, match=r"line 2, column 'at': '01.02.2001 23:30' is no date .* as %d.%m.%Y"):
        read_instants(table_of(cells), "at", "%d.%m.%Y", DAY, False)
    with pytest.raises(DataFileError, match="or say how they are written, as in --date-format"):
        read_instants(table_of(cells), "at", "auto", DAY, False)
