"""Wrong values of every option of every command: the message names the option as typed, and nothing of Python's."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from noted import in_turn
from typer.testing import CliRunner

from recfact.cli.app import app
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.verification.computations import COMPUTATIONS

COMMANDS = typer.main.get_command(app).commands

# What makes each command run but for the option in question.
REST = {
    "report": ["--json"],
    "solve": ["--a", "a.npy", "--u", "a.npy", "--out", "x.npy"],
    "plot": ["blocks", "--out", "p.svg"],
    "window": ["--tol", "0.1"],
    "horizon": [],
    "verify": ["--a", "a.npy", "--u", "a.npy", "--format", "half"],
    "materialize": ["--a", "a.npy", "--format", "half"],
    "bench": [],
    "gpu": [],
}

FORMATS = ["nosuch", "", "fp8 e4m3", "int8", "half "[::-1]]
INTEGERS = ["x", "1.5", "", "1e3", str(10**40)]
WRONG = {
    "--a": ["missing.npy", "nan", "-inf", "a.txt", "."],
    "--u": ["missing.npy", "nan", "a.txt"],
    "--x0": ["x", "nan", "missing.npy"],
    "--out": ["x.txt", "no/x.npy", "."],
    "--plot": ["p.txt", "no/p.svg"],
    "--window": ["x", "", "jagged", "jagged:0", "jagged:8:-1", "uniform:0", "full:1", "jagged:1.5"],
    "--format": FORMATS,
    "--accumulate": FORMATS,
    "--algorithm": ["x", ""],
    "--rounding": ["x", ""],
    "--underflow": ["x", ""],
    "--method": ["x", ""],
    "--family": ["x", ""],
    "--relative-to": ["x", ""],
    "--style": ["x", "rst"],
    "--time-unit": ["x", "minutes"],
    "--date-format": ["", "x", "%d.%m", "%Y %q"],
    "--missing": ["", "x", "mean"],
    "--group": ["x"],
    "--block": [*INTEGERS, "0", "-1"],
    "--blocks": [*INTEGERS, "0"],
    "--seed": [*INTEGERS, "-1"],
    "--axis": [*INTEGERS, "7", "-9"],
    "--rho": ["x", "-1", "nan", "1/0", ""],
    "--tol": ["x", "-1", "nan", "inf", "1/0", "1e-400", ""],
    "--tau": ["x", "0", "-1", "nan", "inf", "30x"],
    "--halflife": ["x", "0", "-1", "nan", "inf", "30x"],
    "--offsets": ["", "x", "0,1.5", "0,12,5", "1,12", "0,11", "missing.npy"],
    "--device": ["x", ""],
    "--pick": ["x", "0", ":,:", "9,:", ""],
    "--dt": ["x"],
    "--time": ["x"],
}

# What else an option needs to be looked at.
WITH = {
    ("window", "--format"): ["--rho", "0.5"],
    ("window", "--rho"): ["--tol", "0.1"],
    ("window", "--tol"): ["--rho", "0.5"],
    ("window", "--offsets"): ["--a", "a.npy", "--tol", "0.1"],
    ("report", "--offsets"): ["--a", "a.npy"],
    ("window", "--pick"): ["--a", "two.npy", "--tol", "0.1"],
    **{
        (name, "--pick"): [*REST[name][: 2 if name == "plot" else 0], "--a", "two.npy"] for name in ("report", "verify")
    },
    ("plot", "--pick"): [*REST["plot"], "--a", "two.npy"],
    **{(name, option): [*REST[name], "--a", "a.npy"] for name, option in [("report", "--u"), ("plot", "--u")]},
    **{(name, "--format"): ["--tau", "3e6", *REST[name]] for name in ("report", "plot")},
    ("verify", "--format"): [],
    ("materialize", "--format"): [],
    ("materialize", "--a"): [],
    ("materialize", "--family"): [],
    ("verify", "--a"): ["--u", "a.npy"],
    ("verify", "--u"): ["--a", "a.npy"],
    ("verify", "--tau"): [],
    ("verify", "--halflife"): [],
    ("solve", "--a"): ["--u", "a.npy", "--out", "x.npy"],
    ("solve", "--u"): ["--a", "a.npy", "--out", "x.npy"],
    ("solve", "--out"): ["--a", "a.npy", "--u", "a.npy"],
    ("plot", "--out"): ["blocks"],
    ("report", "--out"): [],
}

CASES = [
    (name, option, value)
    for name, command in COMMANDS.items()
    for param in command.params
    for option in param.opts
    if option.startswith("--") and not param.is_flag and option != "--help"
    for value in WRONG[option]
]

# Arguments of functions, values as Python writes them.
PYTHONS = re.compile(
    r"\b(Jagged|Uniform|Full)\(|\w=|<class|FloatFormat|\b(relative_to|number_format|from_bits|steps_as_given|time_unit)\b"
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.full(12, 0.5))
    np.save("two.npy", np.full((2, 12), 0.5))
    np.save("turned.npy", np.full(12, 0.5j))
    np.save("huge.npy", np.full(12, 1e6))
    np.save("narrow.npy", np.full(12, 0.5, np.float32))
    Path("a.txt").write_text("1\n2\n")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})


def refused(*arguments):
    """Return what is said on standard error of a command that fails, in one line without its box."""
    return said_of(run(*arguments), arguments)


def said_of(result, arguments):
    """Return what a failed run said, as `refused` does."""
    assert result.exit_code in (1, 2), (arguments, result.output)
    assert result.stdout == ""
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit), result.exception
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())
    assert not PYTHONS.search(said.replace("--", "")), said
    return said


@in_turn(("command", "option", "value"), CASES)
def test_the_message_names_the_option_as_typed(command, option, value):
    said = refused(command, *WITH.get((command, option), REST[command]), f"{option}={value}")
    named = re.search(rf"(?<![\w-]){option}(?![\w-])", said)
    # Of files the message says which one is wrong, and where.
    assert named or (option in ("--a", "--u", "--x0", "--out", "--plot") and value in said), said


@pytest.mark.parametrize("command", ["plot", "horizon"])
def test_arguments_are_named_as_the_help_has_them(command):
    name = {"plot": "PICTURE", "horizon": "FORMAT"}[command]
    for value in ["nosuch", ""]:
        # Typer 0.26 puts what may be left out in brackets.
        assert re.search(rf"'\[?{name}\]?': must be", refused(command, value, *REST[command][1:]))


WINDOWS = ["full", "uniform:3", "uniform:4", "jagged:4", "jagged:4:2"]


@pytest.mark.parametrize("run_of", ["default", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("algorithm", COMPUTATIONS)
def test_options_that_do_not_fit_together_are_named_as_typed(algorithm, run_of):
    """Windows, formats and arithmetics that an algorithm can't have: what is refused is said in options.

    In the default run an algorithm has each arithmetic in one of the formats, and the next algorithm in the next.
    """
    arithmetics = [
        *(["--rounding", rounding] for rounding in ROUNDINGS),
        *(["--underflow", underflow] for underflow in UNDERFLOWS),
        *(["--accumulate", fmt] for fmt in ("half", "binary128", "float8_e8m0fnu")),
        ["--fma"],
    ]
    formats = ["half", "tf32", "float8_e8m0fnu", "binary128"]
    windows = [("half", ["--window", window]) for window in WINDOWS]  # whether a window goes isn't up to the format
    shift = [*COMPUTATIONS].index(algorithm)
    grid = [
        (fmt, chosen)
        for (row, fmt), (column, chosen) in itertools.product(enumerate(formats), enumerate(arithmetics))
        if ((row + column + shift) % len(formats) == 0) == (run_of == "default")
    ]
    for fmt, chosen in [*windows, *grid] if run_of == "default" else grid:
        arguments = ["verify", "--a", "a.npy", "--u", "a.npy", "--algorithm", algorithm, "--format", fmt, *chosen]
        result = run(*arguments)
        if result.exit_code == 2:
            assert "--" in said_of(result, arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "--u", "r.csv", "--time", "day"], "--time needs --tau, the time constant"),
        (["report", "--u", "r.csv", "--dt", "day"], "--dt needs --tau, the time constant"),
        (["report", "--dt", "day", "--tau", "1"], "--dt needs --u, the file with the values"),
        (["verify", "--a", "a.npy", "--dt", "day", "--tau", "1"], "--dt goes without --a"),
        (["verify", "--u", "r.csv", "--dt", "d", "--time", "d", "--tau", "1"], "--dt and --time exclude each other"),
        (["verify", "--tau", "1d", "--halflife", "1d"], "--tau and --halflife exclude each other"),
        (["verify", "--time-unit", "s"], "--time-unit goes with --time"),
        (["verify", "--date-format", "%Y"], "--date-format goes with --time"),
        (["verify", "--time-unit", "s", "--date-format", "%Y"], "--date-format goes without --time-unit s"),
        (["verify", "--missing", "zero"], "--missing goes with --a"),
        (["solve", "--a", "1", "--u", "u.npy", "--out", "x.npy", "--group", "g"], "--group goes with --time"),
        (["verify", "--steps-as-given"], "--steps-as-given goes with --dt or --time"),
        (
            ["plot", "blocks", "--out", "x.svg", "--u", "r.csv"],
            "--u needs coefficients: pass --a, or --tau with --time",
        ),
        (
            ["report", "--a", "a.npy", "--halflife", "1"],
            "--tau or --halflife goes with --time or --dt",
        ),
        (["solve", "--a", "a.npy", "--u", "a.npy", "--out", "x.npy", "--reverse", "--x0", "1"], "--x0 doesn't go with"),
        (["report", "--a", "0.5"], "a sequence is required, and 0.5 is a number; name a file"),
        (["report", "--a", "0.5", "--u", "2"], "a sequence is required, and 0.5 and 2 are numbers; name a file"),
        (["solve", "--a", "0.5", "--u", "2", "--out", "x.npy"], "0.5 and 2 are numbers; name a file for one of them"),
        (["window", "--a", "0.5", "--pick", "0,:"], "--pick goes with a file in --a"),
        (["solve", *REST["solve"], "--x0", "turned.npy"], "--x0 must fit into float64, got complex128"),
        (["solve", *REST["solve"], "--x0", "two.npy"], "--x0 must broadcast against one step"),
        (["verify", "--a", "a.npy", "--u", "turned.npy", "--format", "half"], "--u must be real numbers"),
        (
            ["verify", "--a", "a.npy", "--u", "huge.npy", "--format", "half"],
            "--u must hold finite numbers in the range",
        ),
        (
            ["verify", "--a", "a.npy", "--u", "narrow.npy"],
            "--format must be given where coefficients and inputs are not",
        ),
        (["verify", "--a", "a.npy", "--u", "narrow.npy"], "; pass --format 'float32', or another"),
        (["materialize", "--format", "float8_e8m0fnu"], "--format must have zero and negative numbers"),
        (
            ["materialize", "--format", "half", "--accumulate", "float8_e8m0fnu"],
            "--accumulate must have the zero and the sign",
        ),
        (["materialize", "--format", "binary128"], "--format must be one whose numbers float64 holds"),
        (["solve", "--a", "a.npy", "--u", "ones", "--out", "x.npy"], "--u must be a file or a number here, got 'ones'"),
        (["solve", "--a", "a.npy", "--u", "ones", "--out", "x.npy"], "; type --u 1"),
        (["solve", *REST["solve"], "--steps-as-given"], "--steps-as-given goes with --dt or --time"),
        (["solve", *REST["solve"], "--time-unit", "s"], "--time-unit goes with --time"),
        (["verify", "--a", "two.npy", "--axis", "1", "--date-format", "%Y"], "--date-format goes with --time"),
        (["solve", *REST["solve"], "--offsets", f"0,{10**19}"], "--offsets must be at most"),
        (["window", "--a", ""], "a file is required, got an empty text; name a file"),
        (["window", "--a", "tow.npy"], "there is no file tow.npy; did you mean two.npy?"),
        (["solve", "--u", "1", "--time", "t", "--tau", "1", "--out", "x.npy"], "1 is a number, and a file is needed"),
        (["solve", "--a", "a.npy", "--u", "a.npy", "--out", "x"], "x must end in .npy, .npz, .csv or .zarr"),
    ],
)
def test_what_is_missing_or_too_much_is_named(arguments, says):
    assert says in refused(*arguments)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["npy", "npz", "zarr", "csv"])
@pytest.mark.parametrize("command", ["solve", "solve to zarr", "verify", "verify --axis", "report"])
def test_missing_inputs_are_refused_with_the_option_that_takes_them(command, kind):
    u = np.full(12, 0.5)
    u[3] = np.nan
    match kind:
        case "zarr":
            pytest.importorskip("zarr", reason="zarr is not installed").save_array("u.zarr", u)
        case "csv":
            Path("u.csv").write_text("\n".join(["u", *map(str, u)]))
        case _:
            getattr(np, {"npy": "save", "npz": "savez"}[kind])(f"u.{kind}", **{"arr" if kind == "npy" else "u": u})
    name, *more = command.split()
    if more == ["to", "zarr"]:
        if kind not in ("npy", "zarr"):
            pytest.skip("is not solved piece by piece")
        more = []
    out = {"solve": ["--out", "x.zarr" if "zarr" in command else "x.npy"], "report": ["--json"]}.get(name, [])
    more = ["--axis", "0"] if more else []
    arguments = [name, "--a", "a.npy", "--u", f"u.{kind}", *more, *out]
    said = refused(*arguments)
    assert re.search("index 3|line 5", said), said
    assert said.endswith("--missing zero takes missing inputs for 0")
    assert "index" not in refused(*arguments[:2], "gone.npy", *arguments[3:])
    found = run(*arguments, "--missing", "zero")
    assert found.exit_code == 0, found.output
    assert "Took 1 missing input for 0." in found.stderr
    if kind != "csv":
        arguments[2], arguments[4] = f"u.{kind}", "1"
        assert "--missing" not in refused(*arguments)
