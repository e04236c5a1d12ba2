"""From files and options to one recurrence."""

import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import recfact
from recfact.data import load_co2
from recfact.errors import DataFileError, OptionError
from recfact.report.problem import (
    bundled_problem,
    duration,
    problem_from_files,
    problem_from_record,
    sequence_from_file,
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_bundled_file_read_as_a_users_file_gives_the_bundled_problem():
    path = Path(recfact.__file__).parent / "data" / "co2.csv"
    theirs, ours = problem_from_record(f"{path}:co2", 86400.0 * 30, time="date"), bundled_problem(86400.0 * 30)
    assert np.array_equal(theirs.a, ours.a)
    assert np.array_equal(theirs.u, ours.u)
    assert np.array_equal(theirs.value, ours.value)
    assert np.array_equal(theirs.time, load_co2().time)


def test_average_starts_at_the_first_value():
    Path("t.csv").write_text("dt,y\n0,3\n1,5\n")
    problem = problem_from_record("t.csv", 1 / np.log(2), dt="dt")
    assert (problem.a[0], problem.u[0]) == (0.0, 3.0)
    assert problem.time is None
    assert np.allclose(problem.a[1], 0.5, rtol=4 * np.finfo(float).eps, atol=0)


def test_times_of_day_and_zones():
    Path("t.csv").write_text("at,y\n2001-01-01T00:00:00+01:00,1\n2001-01-01T00:00:00Z,2\n2001-01-01T00:00:01Z,2\n")
    problem = problem_from_record("t.csv", 3600.0, time="at")
    assert np.array_equal(problem.a, np.exp([-np.inf, -1.0, -1 / 3600]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,1\n0,2\n", "line 3, column 'dt': a time step must be above 0, got"),
        ("0,1\n-1,2\n", "line 3, column 'dt': a time step must be above 0, got"),
        ("0,1\nsoon,2\n", "line 3, column 'dt': 'soon' is not a number"),
        ("0,1\n1,x\n", "line 3, column 'y': 'x' is not a number"),
    ],
)
def test_bad_steps_are_named(rows, message):
    Path("t.csv").write_text("dt,y\n" + rows)
    with pytest.raises(DataFileError, match=message):
        problem_from_record("t.csv", 1.0, dt="dt")


def test_files_broadcast():
    np.save("a.npy", [[0.5]])
    np.save("u.npy", np.arange(6.0).reshape(2, 3))
    problem = problem_from_files("a.npy", "u.npy", pick="1,:")
    assert problem.a.tolist() == [0.5] * 3
    assert problem.u.tolist() == [3.0, 4.0, 5.0]
    assert problem_from_files("a.npy", "u.npy", pick=" -1 , : ").u.tolist() == [3.0, 4.0, 5.0]
    assert problem_from_files("a.npy", "u.npy", pick=":,2").u.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
def test_only_what_is_picked_is_read(dtype):
    rows, n = 50_000, 1000  # most of which is a hole in the file
    for name in ("a.npy", "u.npy"):
        stored = np.dtype("V2") if dtype == ml_dtypes.bfloat16 else np.dtype(dtype)
        np.lib.format.open_memmap(name, mode="w+", dtype=stored, shape=(rows, n)).view(dtype)[7] = 1
    tracemalloc.start()
    found = [problem_from_files("a.npy", u, "7,:") for u in (None, "impulse", "u.npy")]
    found.append(problem_from_files("a.npy", "u.npy", ":,3"))
    alone = sequence_from_file("a.npy", "a", "7,:")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = np.ones(n, float if dtype == np.int8 else dtype)
    impulse, column = np.eye(1, n)[0], np.eye(1, rows, 7)[0]
    for problem, u in zip(found, (expected, impulse, expected, column), strict=True):
        assert problem.u.dtype == problem.a.dtype == expected.dtype
        np.testing.assert_array_equal(problem.u, u)
        np.testing.assert_array_equal(problem.a, column if u is column else expected)
    np.testing.assert_array_equal(alone, expected)
    assert peak < 3 << 20


def test_what_is_picked_is_checked():
    np.save("a.npy", [[0.5, np.nan], [0.5, 0.5]])
    assert problem_from_files("a.npy", None, "1,:").a.tolist() == [0.5, 0.5]
    for read in (lambda: problem_from_files("a.npy", None, "0,:"), lambda: sequence_from_file("a.npy", "a", "0,:")):
        with pytest.raises(DataFileError, match=r"a\.npy.* holds nan at index \[\d, 1\]"):
            read()
    Path("a.npy").write_bytes(Path("a.npy").read_bytes()[:-8])
    with pytest.raises(DataFileError, match=r"a\.npy is not a readable \.npy array"):
        problem_from_files("a.npy", None, "0,:")


def test_several_sequences_ask_for_one():
    np.save("a.npy", np.ones((2, 3)))
    with pytest.raises(DataFileError, match=r"the shape of .* is \(2, 3\); choose it with --pick"):
        problem_from_files("a.npy", "a.npy")


@pytest.mark.parametrize("pick", ["0", ":,:", "0,1", "2,:", "-3,:", "x,:", "0,:,0", ""])
def test_bad_picks(pick):
    np.save("a.npy", np.ones((2, 3)))
    with pytest.raises(OptionError, match="pick must"):
        problem_from_files("a.npy", "a.npy", pick)


def test_shapes_that_do_not_fit():
    np.save("a.npy", np.ones(2))
    np.save("u.npy", np.ones(3))
    with pytest.raises(DataFileError, match=r"shapes \(2,\) and \(3,\) don't broadcast"):
        problem_from_files("a.npy", "u.npy")


def test_a_single_number_is_not_a_sequence():
    np.save("a.npy", 0.5)
    with pytest.raises(DataFileError, match=r"a sequence is required, and a.npy and a.npy are numbers"):
        problem_from_files("a.npy", "a.npy")


def test_durations():
    assert [duration(s) for s in (1.0, 60.0, 7200.0, 86400.0, 1e7, 0.5)] == [
        "1 second", "1 minute", "2 hours", "1 day", "10000000 seconds", "0.5 seconds",
    ]  # fmt: skip
