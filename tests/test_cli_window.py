"""The command that chooses a window: what it says, against the functions that it calls."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from recfact import precision as pr
from recfact.cli.app import app
from recfact.data import load_co2
from recfact.precision.formats.block_catalogue import number_format
from recfact.windows import window_of


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def a(rng):
    a = rng.uniform(0.3, 0.95, 300)
    np.save("a.npy", a)
    return a


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["window", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def choices(*arguments):
    return json.loads(run(*arguments, "--json").stdout)["choices"]


def test_window_of_the_bundled_record_in_its_own_format():
    coefficients = load_co2().recurrence()[0]
    expected = pr.choose_window(coefficients, format="binary64")
    assert str(expected) in run().stdout
    (found,) = choices()
    assert (found["format"], window_of(found["window"])) == ("binary64", expected.window)


@pytest.mark.parametrize("relative_to", ["state", "input"])
def test_windows_of_coefficients_as_formats_round_them(a, relative_to):
    found = choices("--a", "a.npy", "--format", "bf16", "--format", "half", "--relative-to", relative_to)
    assert [each["format"] for each in found] == ["bfloat16", "binary16"]
    for each in found:
        kept = np.asarray(pr.format(each["format"]).round(a))
        expected = pr.choose_window(kept, format=each["format"], relative_to=relative_to)
        reach = pr.effective_horizon(kept, expected.tol)
        assert window_of(each["window"]) == expected.window
        assert each["candidates"] == expected.to_rows()
        assert (each["error"], each["horizon"]) == (expected.error, reach.largest)
        assert each["median_horizon"] == reach.quantile(0.5)[0]


def test_windows_of_a_bound(a):
    (found,) = choices("--rho", "0.9", "--tol", "1/100", "--block", 16)
    assert window_of(found["window"]) == pr.choose_window("0.9", "1/100", block=16).window
    assert found["horizon"] == pr.horizon("0.9", "1/100")
    text = run("--rho", "0.9", "--tol", "0.01").stdout
    assert "(to type: --window jagged:48)" in text
    assert "after 43 steps" in text
    none = run("--rho", "1", "--tol", "0.01").stdout
    assert "No window" in none
    assert "never" in none
    assert "to type" not in none
    assert choices("--rho", "1", "--tol", "0.01")[0]["horizon"] is None


def test_one_of_several_sequences(a):
    np.save("two.npy", np.stack([a, a / 2]))
    (found,) = choices("--a", "two.npy", "--pick", "1,:", "--tol", "0.01")
    assert window_of(found["window"]) == pr.choose_window(a / 2, 0.01).window
    assert "--pick" in run("--a", "two.npy", "--tol", "0.01", code=1).stderr


def test_windows_of_complex_coefficients(a):
    np.save("turned.npy", a * 1j)
    for goal in (["--tol", "0.01"], ["--format", "half"]):
        assert choices("--a", "turned.npy", *goal) == choices("--a", "a.npy", *goal)
    np.save("turned.npy", (a * 1j).astype(np.complex64))
    (found,) = choices("--a", "turned.npy")
    assert found["format"] == "binary32"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--a", "a.npy", "--rho", "0.5"], 2, "exclude each other"),
        (["--tol", "0.1", "--format", "half"], 2, "exclude each other"),
        (["--rho", "0.5"], 2, "--rho needs --format or --tol"),
        (["--pick", "0"], 2, "--pick goes with a file in --a"),
        (["--rho", "-1", "--tol", "0.1"], 2, "--rho"),
        (["--tol", "x"], 2, "--tol"),
        (["--relative-to", "x"], 2, "--relative-to must be one of"),
        (["--format", "fp8 e4m3"], 2, "float8_e4m3fn"),
        (["--tol", "0.1", "--tol", "0.2"], 2, "takes one value, and is given 2 times"),
        (["--a", "missing.npy"], 1, "missing.npy"),
        (["--a", "huge.npy", "--format", "half"], 1, "binary16 can't hold 2 of the coefficients"),
        (["--rho=-1", "--tol", "0.1"], 2, "got '-1'"),
    ],
)
def test_what_is_wrong(a, arguments, code, says):
    np.save("huge.npy", np.array([0.5, 1e6, 1e7]))
    result = run(*arguments, code=code)
    assert result.stdout == ""
    assert says in " ".join(result.stderr.replace("│", " ").split())


def test_no_file_is_written(a):
    run("--a", "a.npy")
    assert [path.name for path in Path().iterdir()] == ["a.npy"]


def test_a_window_for_all_sequences(a):
    gates = np.stack([np.stack([a, a / 2], axis=1), np.stack([a * 0.99, a / 3], axis=1)])  # (2, 300, 2)
    np.save("gates.npy", gates)
    (found,) = choices("--a", "gates.npy", "--axis", 1, "--tol", "0.01")
    expected = pr.choose_window(gates, 0.01, axis=1)
    assert window_of(found["window"]) == expected.window == pr.choose_window(a, 0.01).window
    assert tuple(found["worst"]) == expected.worst
    assert found["horizon"] == pr.effective_horizon(gates, 0.01, axis=1).largest
    text = run("--a", "gates.npy", "--axis", "-2", "--tol", "0.01").stdout
    assert "4 sequences of 300 steps" in text
    assert "in 4 sequences" in text
    assert f"a{list(expected.worst)}" in text
    assert "--axis" in run("--a", "gates.npy", "--tol", "0.01", code=1).stderr
    for wrong in (("--a", "gates.npy", "--axis", 1, "--pick", "0,:,0"), ("--rho", "0.5", "--axis", 0)):
        assert "--axis" in run(*wrong, "--tol", "0.01", code=2).stderr
    assert "axis" in run("--a", "gates.npy", "--axis", 3, "--tol", "0.01", code=1).stderr


def test_windows_of_coefficients_as_blocks_store_them(a, rng):
    several = rng.uniform(0.3, 0.95, (100, 3))
    np.save("several.npy", several)
    for axis, given, options in ((0, a, ("--a", "a.npy")), (0, several, ("--a", "several.npy", "--axis", 0))):
        (found,) = choices(*options, "--format", "mxfp4")
        kept = pr.block_format("mxfp4").round(given, axis=axis)
        expected = pr.choose_window(kept, format="binary32", axis=axis)
        assert (found["format"], window_of(found["window"])) == ("mxfp4", expected.window)
        assert found["horizon"] == pr.effective_horizon(kept, 2.0**-24, axis=axis).largest
    (found,) = choices("--a", 0.9, "--format", "mxfp4")
    assert window_of(found["window"]) == pr.choose_window(0.75, format="binary32").window
    assert "(for coefficients as mxfp4 stores them)" in run("--a", "a.npy", "--format", "mxfp4").stdout


def test_it_says_where_a_format_changes_coefficients():
    """0.9 in bfloat16 is 0.8984, which fades sooner; 0.75 is itself, and so is a bound."""
    note = "(for coefficients as bfloat16 stores them)"
    assert note in run("--a", 0.9, "--format", "bfloat16").stdout
    for same in (("--a", 0.75), ("--rho", 0.9)):
        assert note not in run(*same, "--format", "bfloat16").stdout
    assert "weights are below 2^-8 after 51 steps" in run("--a", 0.9, "--format", "bfloat16").stdout
    assert "weights never fall below 2^-8" in run("--a", 0.999, "--format", "bfloat16").stdout


def test_windows_of_segments(a):
    offsets = [0, 100, 100, 300]
    np.save("offsets.npy", np.array(offsets))
    Path("offsets.csv").write_text("offsets\n" + "\n".join(map(str, offsets)) + "\n")
    for name in ("bfloat16", "nvfp4"):
        fmt = number_format(name)
        parts = [np.asarray(fmt.round(part)) for part in (a[:100], a[100:])]
        kept, goal = np.concatenate(parts), pr.Arithmetic.of(fmt).format
        expected = pr.choose_window(kept, format=goal, offsets=offsets)
        reach = pr.effective_horizon(kept, expected.tol, offsets=offsets)
        for given in ("0,100,100,300", "offsets.npy", "offsets.csv"):
            (found,) = choices("--a", "a.npy", "--format", name, "--offsets", given)
            assert window_of(found["window"]) == expected.window
            assert (found["error"], found["horizon"]) == (expected.error, reach.largest)


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--a", "a.npy", "--offsets", "0,x"), "must be integers with commas between them", 2),
        (("--a", "a.npy", "--offsets", "0,200"), "offsets must begin with 0 and end with 300", 1),
        (("--a", "0.9", "--tol", "0.1", "--offsets", "0,2"), "--offsets goes with a file in --a", 2),
        (("--rho", "0.9", "--tol", "0.1", "--offsets", "0,2"), "--offsets goes with a file in --a", 2),
    ],
)
def test_offsets_that_do_not_fit(a, arguments, message, code):
    assert message in " ".join(run(*arguments, code=code).stderr.replace("│", " ").split())
