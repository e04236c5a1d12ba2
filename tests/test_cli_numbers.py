"""Numbers that a user typed come back as they were typed; numbers and standard input stand for files."""

import io
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import recfact
from recfact import precision as pr
from recfact.cli.app import app
from recfact.report.files import read_array
from recfact.written_numbers import LONGEST_FRACTION, as_text
from recfact.written_numbers import given as as_given


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    assert result.exit_code == code, result.output
    return result


def read_back(text):
    """Return the number that a printed number is, exactly."""
    if power := re.fullmatch(r"(1 - )?(?:(\d+) \* )?2\^(-?\d+)", text):
        part = int(power[2] or 1) * Fraction(2) ** int(power[3])
        return 1 - part if power[1] else part
    return 1 - Fraction(text[4:]) if text.startswith("1 - ") else Fraction(text)


DECIMALS = st.builds(lambda digits, exponent: f"{digits}e{exponent}", st.integers(1, 10**12), st.integers(-30, 10))


@given(st.one_of(DECIMALS, st.fractions(0, 5, max_denominator=10**9).map(str), st.just("0.99999"), st.just("1e-3")))
def test_numbers_given_as_text_read_back(text):
    """As the number itself, or as the float that it is; long fractions that are neither are rounded."""
    number = Fraction(text)
    back = read_back(as_text(as_given(number)))
    if Fraction(float(number)) == number:
        assert float(back) == number
    else:
        assert back == number or len(str(number)) > LONGEST_FRACTION


@given(st.floats(5e-324, 1.7e308))
def test_numbers_given_as_floats_read_back(number):
    for given_number in (number, Fraction(number)):
        printed = as_text(as_given(given_number))
        back = read_back(printed)
        assert float(back) == number


TYPED = ["1e-3", "0.001", "0.123456789012", "1/3", "2e-5", "0.05"]


@pytest.mark.parametrize("typed", TYPED)
def test_a_tolerance_is_printed_as_given(typed):
    for rho, sentence in [
        ("0.9", r"keeps the truncation error within (\S+) times"),
        ("1", r"error within (\S+) times"),
    ]:
        found = re.search(sentence, run("window", "--rho", rho, "--tol", typed).stdout)
        assert Fraction(found[1]) == Fraction(typed)
    np.save("a.npy", np.full(50, 0.5))
    said = run("window", "--a", "a.npy", "--tol", typed).stdout
    assert read_back(re.search(r"eps = (.+)", said)[1]) == Fraction(typed)
    made = json.loads(run("window", "--rho", "0.9", "--tol", typed, "--json").stdout)
    assert made["choices"][0]["tol"] == float(Fraction(typed))


@pytest.mark.parametrize("typed", ["0.99", "0.123456789012", "0.999999999", "63/64", "2/3"])
def test_a_rate_is_printed_as_given(typed):
    assert f"All coefficients up to {typed}." in run("window", "--rho", typed, "--tol", "0.1").stdout
    rows = run("horizon", "half", "--rho", typed, "--style", "csv").stdout.splitlines()
    at = rows[0].split(",").index("rho")
    assert read_back(rows[1].split(",")[at]) == Fraction(typed)
    text = run("horizon", "half", "--rho", typed).stdout.splitlines()
    assert any(Fraction(typed) == number for number in _numbers(text[1]))
    made = json.loads(run("horizon", "half", "--rho", typed, "--json").stdout)
    value = made["rows"][0]["rho"] if isinstance(made, dict) else made[0]["rho"]
    assert read_back(str(value)) == Fraction(typed)


def _numbers(line):
    for cell in re.split(r"\s{2,}", line):
        try:
            yield read_back(cell)
        except ValueError:
            continue


@pytest.mark.parametrize("typed", ["2592000", "1e7", "90", "0.1", "1000000.5", "123457"])
def test_a_time_constant_is_printed_as_given(typed):
    Path("r.csv").write_text("t,y\n0,1\n1,2\n")
    for arguments in ([], ["--u", "r.csv:y", "--time", "t"]):
        source = json.loads(run("verify", *arguments, "--tau", typed, "--json").stdout)["source"]
        number, unit = re.search(r"tau = (\S+) (day|hour|minute|second)", source).groups()
        size = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}[unit]
        assert float(number.rstrip(".;")) * size == float(typed)


@pytest.mark.parametrize("typed", ["0.9", "-0.5", "1", "1e-3"])
def test_a_number_for_coefficients_is_the_constant(typed):
    u = np.arange(12.0)
    np.save("u.npy", u)
    run("solve", f"--a={typed}", "--u", "u.npy", "--out", "x.npy")
    assert np.array_equal(np.load("x.npy"), recfact.solve(np.full(12, float(typed)), u))
    made = json.loads(run("report", f"--a={typed}", "--u", "u.npy", "--json").stdout)
    assert made["recurrence"]["largest_state"] == np.abs(recfact.solve(np.full(12, float(typed)), u)).max()
    assert made["source"] == f"Coefficients {typed}, inputs from u.npy."
    found = json.loads(run("window", f"--a={typed}", "--tol", "0.01", "--json").stdout)
    assert found["source"] == f"All coefficients {typed}."
    expected = pr.choose_window(abs(float(typed)), "0.01").window
    assert found["choices"][0]["window"] == (expected and recfact.windows.window_text(expected))
    rows = json.loads(run("materialize", f"--a={typed}", "--format", "half", "--block", 4, "--json").stdout)["rows"]
    assert {(row["coefficients"], row["blocks"]) for row in rows} == {(typed, 1)}


def test_a_constant_is_rounded_to_the_format():
    (found,) = json.loads(run("window", "--a", "0.9", "--format", "bf16", "--json").stdout)["choices"]
    kept = float(pr.format("bf16").round(0.9))
    assert found["horizon"] == pr.horizon(kept, pr.format("bf16").unit_roundoff)


def test_a_file_called_like_a_number_wins():
    np.save("a.npy", np.full(3, 0.25))
    Path("a.npy").rename("0.5")
    assert "0.5 must be a .npy" in run("report", "--a", "0.5", code=1).stderr
    Path("ones").mkdir()
    assert "ones is a directory" in run("report", "--a", "0.25", "--u", "ones", code=1).stderr


@pytest.mark.parametrize("reading", ["csv", "npy", "npz"])
def test_a_dash_is_standard_input(reading):
    a, u = np.linspace(0.1, 0.9, 9), np.arange(9.0)
    buffer = io.BytesIO()
    if reading == "csv":
        np.savetxt(buffer, np.stack([a, u], 1), delimiter=",", header="a,u", comments="")
    elif reading == "npz":
        np.savez(buffer, a=a, u=u)
    else:
        np.save(buffer, a)
        u = a
    run("solve", "--a", "-", "--u", "-", "--out", "x.npy", stdin=buffer.getvalue())
    assert np.array_equal(np.load("x.npy"), recfact.solve(a, u))
    if reading != "npy":
        run("solve", "--a", "-:a", "--u", "-:u", "--x0", "2", "--out", "x.npy", stdin=buffer.getvalue())
        assert np.array_equal(np.load("x.npy"), recfact.solve(a, u, x0=2.0))


def test_times_from_standard_input():
    text = b"day,level\n2001-01-01,1.0\n2001-01-02,2.0\n2001-01-05,4.0\n"
    result = run("verify", "--u", "-:level", "--time", "day", "--tau", 86400, "--json", stdin=text)
    source = json.loads(result.stdout)["source"]
    assert "Column 'level' of standard input" in source
    assert "3 instants in dates from 2001-01-01 to 2001-01-05" in source
    assert result.stderr.splitlines()[0] == source


@pytest.mark.parametrize(
    ("text", "says"),
    [(b"", "standard input is empty"), (b"a\nx\n", "standard input, line 2, column 'a': 'x' is not a number"),
     (b"\x80\x04", "standard input holds pickled Python objects"), (b"PK", "standard input is not a readable .npz")],
)  # fmt: skip
def test_what_is_wrong_with_standard_input_is_said(text, says):
    assert says in run("report", "--a", "-", code=1, stdin=text).stderr


def test_a_closed_standard_input_is_said(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(recfact.errors.DataFileError, match="standard input is closed"):
        read_array("-", "a")


def test_inputs_left_out_are_ones_and_that_is_said():
    a = np.linspace(0.1, 0.9, 9)
    np.save("a.npy", a)
    states = {"ones": recfact.solve(a, np.ones(9)), "impulse": recfact.solve(a, np.eye(9)[0])}
    for typed, word, said in [
        ([], "ones", "inputs of ones"),
        (["--u", "ones"], "ones", "inputs of ones"),
        (["--u", "impulse"], "impulse", "an impulse as inputs"),
    ]:
        made = json.loads(run("report", "--a", "a.npy", *typed, "--json").stdout)
        assert made["recurrence"]["largest_state"] == np.abs(states[word]).max()
        assert made["source"] == f"Coefficients from a.npy, {said}."
        assert said in made["title"]
        assert said in run("verify", "--a", "a.npy", *typed).stdout
    np.save("two.npy", np.stack([a, a / 2]))
    made = json.loads(run("report", "--a", "two.npy", "--pick", "1,:", "--u", "impulse", "--json").stdout)
    assert made["recurrence"]["largest_state"] == np.abs(recfact.solve(a / 2, np.eye(9)[0])).max()
    assert made["source"] == "Coefficients from two.npy, an impulse as inputs."
    assert "at [1,:]" in made["title"]


def test_counts_say_that_they_leave_the_first_coefficient_out():
    np.save("a.npy", np.zeros(100))
    made = json.loads(run("report", "--a", "a.npy", "--json").stdout)
    assert any(said.startswith("All 99 coefficients after the first are exactly 0") for said in made["findings"])
    np.save("a.npy", np.array([3.0, 0.5, 0.5]))
    made = json.loads(run("report", "--a", "a.npy", "--json").stdout)
    assert any(said.startswith("No coefficient after the first is above 1") for said in made["findings"])
