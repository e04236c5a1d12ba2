"""The commands on number formats: what they print, draw and refuse."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from samples import one_in
from typer.testing import CliRunner

import recfact
from recfact import precision as pr
from recfact.cli.app import app
from recfact.cli.precision import _percents
from recfact.data import load_co2
from recfact.plot import window_bounds
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.materialization.constructions import METHODS
from recfact.precision.verification.computations import COMPUTATIONS
from recfact.windows import Full, Jagged, Uniform


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def unboxed(text):
    """Return the words of an error in its box."""
    return " ".join(text.replace("│", " ").split())


def test_horizon_prints_the_table_of_the_paper():
    rows = json.loads(run("horizon", "fp32", "fp16", "bf16", "fp8 e5m2", "fp8 e4m3fn", "--json").stdout)
    assert [(row["normal"], row["subnormal"]) for row in rows] == [
        (1465264032, 1732732863),
        (19869, 34061),
        (22314, 23554),
        (72, 83),
        (64, 96),
    ]


def test_horizon_takes_rho_exactly():
    printed = run("horizon", "bf16", "--rho", "0.99", "--rho", "1/2", "--style", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [int(row["normal"]) for row in rows] == [pr.horizon("0.99", "bf16"), 126]


@pytest.mark.parametrize(
    ("style", "start"), [("text", "format"), ("markdown", "| format"), ("latex", r"\begin"), ("html", "<table")]
)
def test_horizon_prints_in_every_style(style, start):
    assert run("horizon", "half", "--style", style).stdout.lstrip().startswith(start)
    assert run("horizon", "half", "--actual", "--style", style).stdout.lstrip().startswith(start)


def test_horizon_takes_formats_as_other_commands_do():
    expected = run("horizon", "bf16", "half").stdout
    assert run("horizon", "--format", "bf16", "--format", "half").stdout == expected
    assert run("horizon", "bf16", "--format", "half").stdout == expected


@pytest.mark.parametrize("style", ["text", "markdown", "latex", "csv", "html"])
def test_tables_end_with_one_line_end(style):
    printed = run("horizon", "half", "--style", style).stdout
    assert printed.endswith("\n")
    assert not printed.endswith("\n\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("width", one_in(3, [60, 80, 200]))
def test_tables_are_no_wider_than_the_terminal(width):
    watching, terminal = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(recfact.__file__).parents[1]), "COLUMNS": str(width)}
    command = [sys.executable, "-c", "from recfact.cli import main; main()", "horizon", "half", "binary128"]
    subprocess.run(command, stdout=terminal, stderr=subprocess.DEVNULL, env=environment, timeout=120, check=True)
    os.close(terminal)
    seen = os.read(watching, 100_000).decode().splitlines()
    os.close(watching)
    assert max(map(len, seen)) <= width
    table = pr.horizon_table(["half", "binary128"])
    assert "\n".join(line.rstrip() for line in seen) == table.to_text(width)
    for heading in str(table).splitlines()[0].split("  "):
        assert heading.strip() in "\n".join(seen)


@pytest.mark.parametrize(
    "arguments",
    [["horizon"], pytest.param(["horizon", "--actual"], marks=pytest.mark.slow), ["materialize", "--blocks", 2]],
    ids=str,
)
def test_tables_in_pipes_have_at_most_100_columns(arguments):
    lines = run(*arguments).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    rows = csv.DictReader(run(*arguments, "--style", "csv").stdout.splitlines()) if "horizon" in arguments else ()
    for row in rows:  # grep finds each row in every part of the table
        assert sum(line.split()[:1] == [row["format"]] for line in lines) == lines.count("") + 1


def test_horizon_draws():
    assert run("horizon", "fp32", "bf16", "--plot", "h.svg").stderr == "wrote h.svg\n"
    picture = Path("h.svg").read_text(encoding="utf-8")
    assert "bfloat16" in picture
    assert "all weights further back together" in picture


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fp8 e4m3"], "float8_e4m3fn"),
        (["nosuch"], "nosuch"),
        (["half", "--rho", "-1"], "rho"),
        (["half", "--rho", "nan"], "rho"),
        (["half", "--json", "--style", "csv"], "exclude"),
        (["half", "--plot", "h.pdf"], ".svg"),
        (["half", "--style", "rst"], "rst"),
        (["half", "--rho", "-0.9"], "at least 0"),
        (["--format", "markdown"], "--style markdown"),
    ],
)
def test_horizon_says_what_is_wrong(arguments, says):
    assert says in unboxed(run("horizon", *arguments, code=2).output)
    assert not list(Path().iterdir())


@pytest.fixture
def arrays(rng):
    a, u = rng.uniform(0.5, 1, 60), rng.standard_normal(60)
    np.save("a.npy", a)
    np.save("u.npy", u)
    return a, u


@pytest.mark.parametrize(
    ("typed", "window", "algorithm"),
    [
        ("full", Full(), "kogge-stone"),
        ("jagged:8", Jagged(8), "hierarchical"),
        ("uniform:5", Uniform(5), "sequential"),
    ],
)
def test_verify_says_what_the_function_finds(arrays, typed, window, algorithm):
    options = [
        "verify",
        "--a",
        "a.npy",
        "--u",
        "u.npy",
        "--window",
        typed,
        "--format",
        "half",
        "--algorithm",
        algorithm,
    ]
    expected = pr.verify(*arrays, window=window, format="half", algorithm=algorithm)
    made = json.loads(run(*options, "--json").stdout)
    assert made.pop("source") == "Coefficients from a.npy, inputs from u.npy."
    assert made == expected.to_dict()
    assert str(expected) in run(*options).stdout


@pytest.mark.parametrize("axis", [1, -2])
def test_verify_takes_all_sequences_of_arrays_along_an_axis(rng, axis):
    a, u = rng.uniform(0.5, 0.9, (2, 60, 1)).astype(np.float32), rng.standard_normal((2, 60, 3)).astype(np.float32)
    a[1] = 0.99
    np.save("a.npy", a)
    np.save("u.npy", u)
    typed = ["verify", "--a", "a.npy", "--u", "u.npy", "--axis", axis, "--window", "jagged:8", "--format", "bf16"]
    expected = pr.verify(np.broadcast_to(a, u.shape), u, axis=1, window=Jagged(8), format="bf16")
    made = json.loads(run(*typed, "--json").stdout)
    assert made.pop("source") == "Coefficients from a.npy, inputs from u.npy: 6 sequences of 60 steps."
    assert made == expected.to_dict()
    text = run(*typed, "--plot", "v.svg").stdout
    assert text.startswith("6 sequences of a.npy and u.npy, 60 steps each")
    assert f"largest {expected.total.largest:.3g}"[:10] in text
    assert Path("v.svg").exists()
    impulse = json.loads(run(*typed[:3], "--u", "impulse", "--axis", axis, "--json").stdout)
    kicks = np.zeros_like(a)
    kicks[:, 0] = 1
    assert impulse["rounding"] == pr.verify(a, kicks, axis=1).to_dict()["rounding"]


@pytest.mark.parametrize("command", ["verify", "report"])
def test_all_sequences_are_those_of_a_file(arrays, command):
    for wrong in (["--axis", 0], ["--a", "a.npy", "--axis", 0, "--pick", "0"], ["--u", "u.npy", "--axis", 0]):
        assert "--axis" in run(command, *wrong, code=2).stderr
    assert "axis must be" in unboxed(run(command, "--a", "a.npy", "--axis", 1, code=1).output)
    np.save("none.npy", np.zeros((3, 0)))
    assert "is empty" in unboxed(run(command, "--a", "none.npy", "--axis", 1, code=1).output)


def test_verify_on_the_bundled_record_in_its_own_format():
    made = json.loads(run("verify", "--json").stdout)
    assert (made["format"], made["shape"], made["holds"]) == ("binary64", [len(load_co2().value)], True)
    assert made["rounding"]["ratio"] <= 1


def test_verify_takes_an_arithmetic(arrays):
    typed = ["--accumulate", "fp32", "--fma", "--rounding", "toward-zero", "--underflow", "flush-before"]
    made = json.loads(run("verify", "--a", "a.npy", "--u", "u.npy", "--format", "bf16", *typed, "--json").stdout)
    arithmetic = pr.Arithmetic("bf16", "fp32", fma=True, rounding="toward-zero", underflow="flush-before")
    assert made["rounding"]["largest"] == pr.verify(*arrays, format=arithmetic).rounding.largest


@pytest.mark.parametrize("window", ["full", "uniform:4", "jagged:4"])
def test_verify_draws_errors_and_bounds(arrays, window):
    typed = ["--a", "a.npy", "--u", "u.npy", "--format", "half", "--window", window]
    assert run("verify", *typed, "--plot", "v.svg").stderr.endswith("wrote v.svg\n")
    picture = Path("v.svg").read_text(encoding="utf-8")
    kind = "Uniform" if window.startswith("u") else "Jagged"
    assert all(text in picture for text in (f"{kind}(k) in binary16, 60 steps", "proved bound", "measured exactly"))


def test_verify_ends_with_1_where_states_overflow():
    np.save("a.npy", np.full(40, 2.0))
    np.save("u.npy", np.ones(40))
    options = ["verify", "--a", "a.npy", "--u", "u.npy", "--format", "half"]
    # 2^(i + 1) - 1 rounds to 2^16 from i = 15 on.
    assert "FAILS: 25 of 40 states overflowed" in run(*options, code=1).stdout
    made = json.loads(run(*options, "--json", code=1).stdout)
    assert (made["nonfinite"], made["first_nonfinite"], made["holds"]) == (25, [15], False)
    run(*options, "--plot", "v.png", code=1)
    assert Path("v.png").read_bytes().startswith(b"\x89PNG")


def test_verify_refuses_complex_numbers():
    np.save("a.npy", np.full(4, 0.5j))
    result = run("verify", "--a", "a.npy", "--u", "a.npy", "--format", "half", code=1)
    assert result.stderr.startswith("error: ")
    assert "complex" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "fp8 e4m3"], "float8_e4m3fn"),
        (["--format", "half", "--algorithm", "nosuch"], "algorithm"),
        (["--format", "half", "--algorithm", "kogge-stone", "--window", "jagged:4"], "kogge-stone"),
        (["--format", "half", "--rounding", "nosuch"], "rounding"),
        (["--format", "half", "--window", "nosuch"], "--window"),
        (["--format", "half", "--plot", "v.pdf"], ".svg"),
        (["--tau", "0"], "--tau"),
        (["--format", "half", "--format", "bf16"], "takes one value"),
        (["--format", "half", "--algorithm", "b2p"], "--window jagged:16"),
        (["--format", "half", "--accumulate", "x"], "'--accumulate': must be the name of a floating-point format"),
    ],
)
def test_verify_says_what_is_wrong(arguments, says):
    assert says in unboxed(run("verify", *arguments, code=2).output)
    assert not list(Path().iterdir())


def test_materialize_compares_families():
    options = ["materialize", "--family", "10% zeros", "--family", "U(0.9, 1)", "--format", "bf16", "--blocks", 20]
    table = pr.materialization_table(["10% zeros", "U(0.9, 1)"], format="bf16", blocks=20)
    assert run(*options).stdout == f"{table}\n"
    assert json.loads(run(*options, "--json").stdout) == json.loads(table.to_json())


def test_materialize_compares_what_is_asked_for(arrays):
    typed = ["--block", 4, "--block", 8, "--format", "half", "--accumulate", "fp32", "--method", "cumprod"]
    made = json.loads(run("materialize", "--a", "a.npy", *typed, "--json").stdout)["rows"]
    kinds = [(row["coefficients"], row["block"], row["accumulate"], row["method"], row["blocks"]) for row in made]
    assert kinds == [("a.npy", b, inside, "cumprod", 60 // b) for b in (4, 8) for inside in ("binary16", "binary32")]


def test_materialize_cuts_coefficients_along_an_axis(rng):
    a = rng.uniform(0, 1, (9, 4))
    np.save("a.npy", a)
    typed = ["--format", "bfloat16", "--block", 3, "--json"]
    for axis, options in ((0, ["--axis", 0]), (1, []), (1, ["--axis", -1])):
        made = json.loads(run("materialize", "--a", "a.npy", *typed, *options).stdout)["rows"]
        rows = pr.materialization_table({"a.npy": a}, block=3, format="bfloat16", axis=axis).to_rows()
        assert made == json.loads(json.dumps(rows))


def test_materialize_draws_all_families():
    run("materialize", "--format", "half", "--blocks", 3, "--plot", "m.svg")
    picture = Path("m.svg").read_text(encoding="utf-8")
    assert all(name in picture for name in pr.COEFFICIENT_FAMILIES)
    assert "failed entries in %" in picture
    run("materialize", "--block", 1, "--family", "U(0, 1)", "--format", "half", "--plot", "m.svg")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--family", "nosuch"], 2, "--family must be one of 'sigmoid(N)'"),
        (["--accumulate", "nosuch"], 2, "'--accumulate': must be"),
        (["--format", "nosuch"], 2, "nosuch"),
        (["--method", "nosuch"], 2, "cumprod"),
        (["--block", "0"], 2, "--block"),
        (["--a", "a.npy", "--family", "U(0, 1)"], 2, "exclude"),
        (["--a", "a.npy", "--block", "100"], 1, "at least"),
        (["--a", "missing.npy"], 1, "missing.npy"),
        (["--plot", "m.pdf"], 2, ".svg"),
    ],
)
def test_materialize_says_what_is_wrong(arrays, arguments, code, says):
    assert says in unboxed(run("materialize", *arguments, code=code).output)


def test_the_help_names_what_can_be_chosen():
    def listed(command):
        return set(re.findall(r"[\w-]+", unboxed(run(command, "--help").output).replace("- ", "-")))

    assert {*COMPUTATIONS, *ROUNDINGS, *UNDERFLOWS} <= listed("verify")
    assert set(METHODS) <= listed("materialize")


def test_progress_is_told_each_percent_once():
    told = []
    tell = _percents(told.append, "verifying")
    for share in (0.0, 0.005, 0.25, 0.25, 1.0):
        tell(share)
    assert told == ["verifying"] * 100


@pytest.mark.parametrize("name", ["mxfp4", "MX-INT8", "nvfp4"])
def test_verify_stores_operands_in_blocks(name, rng):
    a, u = rng.uniform(0.3, 0.99, (2, 70)), rng.standard_normal((2, 70))
    np.save("a.npy", a)
    np.save("u.npy", u)
    given = ("verify", "--a", "a.npy", "--u", "u.npy", "--axis", "1", "--window", "jagged:16", "--format", name)
    expected = pr.verify(a, u, window=Jagged(16), format=name)
    assert str(expected) in run(*given).stdout
    assert f"rounded to {pr.block_format(name)} first" in run(*given, "--accumulate", "bfloat16", "--fma").stdout
    said = unboxed(run(*given, "--algorithm", "engine", code=2).stderr)
    assert "--format can't store the operands for the engine" in said


def test_verify_draws_windows_of_operands_in_blocks():
    run("verify", "--format", "mxfp4", "--plot", "errors.svg")
    assert "Jagged(k) in mxfp4" in Path("errors.svg").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("horizon", "mxfp4"),
        ("horizon", "--format", "mxfp4"),
        ("verify", "--accumulate", "mxfp4"),
        ("materialize", "--format", "mxfp4"),
        ("materialize", "--accumulate", "mxfp4"),
    ],
)
def test_formats_of_blocks_are_refused_where_something_is_computed(arguments):
    said = unboxed(run(*arguments, code=2).stderr)
    assert "must be a format of single numbers, got 'mxfp4'" in said
    assert "recfact window, verify and report take it" in said


def test_errors_list_both_kinds_of_formats():
    said = unboxed(run("verify", "--format", "elephant", code=2).stderr)
    assert all(name in said for name in (*pr.FORMATS, *pr.BLOCK_FORMATS))
    said = unboxed(run("verify", "--format", "mxfp5", code=2).stderr)
    assert all(name in said for name in pr.BLOCK_FORMATS)


def test_verify_takes_segments_and_draws_the_one_with_the_largest_error(rng, monkeypatch):
    a, u = rng.uniform(0.3, 0.99, (90, 2)), rng.standard_normal((90, 2))
    u[20:60, 1] *= 100
    np.save("a.npy", a)
    np.save("u.npy", u)
    given = ("verify", "--a", "a.npy", "--u", "u.npy", "--axis", "0", "--window", "jagged:16")
    expected = pr.verify(a, u, window=Jagged(16), axis=0, offsets=[0, 20, 60, 90])
    assert str(expected) in run(*given, "--offsets", "0,20,60,90").stdout
    drawn, real = [], window_bounds.sweep_windows
    monkeypatch.setattr(window_bounds, "sweep_windows", lambda a, u, *rest: drawn.append(u) or real(a, u, *rest))
    run(*given, "--offsets", "0,20,60,90", "--plot", "errors.svg")
    np.testing.assert_array_equal(drawn[0], u[20:60, 1])
