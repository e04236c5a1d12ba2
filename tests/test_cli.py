"""The command: what it prints where, its exit codes, and its answers to what users get wrong."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import run_python
from samples import one_in
from typer.testing import CliRunner

import recfact
from recfact.cli import study
from recfact.cli.app import app
from recfact.errors import DeviceError
from recfact.report.gallery import PICTURES
from recfact.windows import window_of

COMMANDS = ["report", "solve", "plot", "window", "horizon", "verify", "materialize", "bench", "gpu"]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def arrays(rng):
    a, u = rng.uniform(0, 1, 40), rng.standard_normal(40)
    np.save("a.npy", a)
    np.save("u.npy", u)
    return a, u


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def run_process(*arguments, **environment):
    return run_python("import sys; from recfact.cli import main; main()", *map(str, arguments), **environment)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_shows_an_example(command):
    text = " ".join(run(*command, "--help").output.split())
    assert "Usage:" in text
    if command:
        assert f"Example: recfact {command[0]}" in text
    else:
        assert all(name in text for name in COMMANDS)
        page = (Path(__file__).parents[1] / "docs" / "command.md").read_text()
        codes = re.findall(r"^\| (\d) \| (.*) \|$", page, re.MULTILINE)
        assert f"Exit codes: {'; '.join(map(' '.join, codes))}." in text


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["horizon", "half"], ["solve", "--a", "0.5", "--u", "u.npy", "--out", "x.npy"], ["gpu"]],
    ids=lambda arguments: arguments[0],
)
def test_commands_load_no_library_that_they_do_not_use(arguments):
    np.save("u.npy", np.ones(3))
    code = """
import sys
from recfact.cli import app
try:
    app(sys.argv[1:])
finally:
    print(*{name.partition(".")[0] for name in sys.modules})
"""
    loaded = run_python(code, *arguments).stdout.splitlines()[-1].split()
    assert "recfact" in loaded
    assert not {"scipy", "sympy", "matplotlib", "jinja2", "pandas", "torch"} & set(loaded)


def test_the_main_job_is_the_first_command():
    text = run("--help").output
    assert sorted(COMMANDS[:7], key=lambda name: text.index(f" {name} ")) == COMMANDS[:7]


def test_version():
    assert run("--version").output == f"recfact {recfact.__version__}\n"


def test_nothing_typed_shows_the_help():
    assert "Usage:" in run(code=2).output


def test_report_on_the_bundled_record():
    result = run("report")
    assert "An input is forgotten after 154 steps" in " ".join(result.stdout.split())
    assert result.stdout.endswith("wrote report.html\n")
    assert all(line == line.rstrip() for line in result.stdout.splitlines())
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_on_files(arrays, blank_pictures):
    a, u = arrays
    run("report", "--a", "a.npy", "--u", "u.npy", "--block", 8, "--out", "page.html")
    assert "a.npy and u.npy" in Path("page.html").read_text(encoding="utf-8")
    made = json.loads(run("report", "--a", "a.npy", "--u", "u.npy", "--block", 8, "--json").stdout)
    assert made["recurrence"]["n"] == 40
    assert made["recurrence"]["largest_state"] == np.abs(recfact.solve(a, u)).max()
    assert made["page"] is None
    assert {path.name for path in Path().iterdir()} == {"a.npy", "u.npy", "page.html"}


def test_report_on_one_archive_and_on_one_of_several_sequences(arrays):
    a, u = arrays
    np.savez("both.npz", a=np.stack([a, a]), u=np.stack([u, 2 * u], axis=0))
    made = json.loads(run("report", "--a", "both.npz", "--u", "both.npz", "--pick", "1,:", "--json").stdout)
    assert made["recurrence"]["largest_state"] == np.abs(recfact.solve(a, 2 * u)).max()


def test_report_on_a_record_with_dates(blank_pictures):
    Path("r.csv").write_text("day,level\n2001-01-01,1.0\n2001-01-02,2.0\n2001-01-05,4.0\n")
    made = json.loads(
        run("report", "--u", "r.csv:level", "--time", "day", "--tau", 86400, "--json", "--out", "p.html").stdout
    )
    assert made["recurrence"]["smallest"] == np.exp(-3.0)
    assert made["page"] == "p.html"
    assert "averaged over 1 day" in Path("p.html").read_text(encoding="utf-8")


def test_solve_writes_the_average_of_a_record_and_skips_what_is_missing():
    rows = ["2001-01-01,1.0", "2001-01-02,2.0", "2001-01-03,", "2001-01-04,NA", "2001-01-05,4.0", "2001-01-06,nan"]
    Path("r.csv").write_text("\n".join(["day,level", *rows]) + "\n")
    Path("s.csv").write_text("step,level\n0,1.0\n86400,2.0\n86400,\n86400,NULL\n86400,4.0\n86400,N/A\n")
    expected = recfact.ewm([1.0, 2.0, 4.0], tau=2.0, times=[0.0, 1.0, 4.0], adjust=False)
    for options in (["--u", "r.csv:level", "--time", "day"], ["--u", "s.csv:level", "--dt", "step"]):
        for tau in ("2d", "48h", "172800"):
            said = run("solve", *options, "--steps-as-given", "--tau", tau, "--out", "x.csv").stderr
            assert "Skipped 3 missing values, whose time passes." in said
            header, *lines = Path("x.csv").read_text().splitlines()
            *times, x = zip(*(line.split(",") for line in lines), strict=True)
            np.testing.assert_allclose(np.array(x, float), expected, rtol=1e-14)
            assert header == ("day,x" if "--time" in options else "x")
            assert times == ([("2001-01-01", "2001-01-02", "2001-01-05")] if "--time" in options else [])
    halved = ["--u", "s.csv:level", "--dt", "step", "--steps-as-given", "--halflife", "3d", "--out", "x.csv"]
    run("solve", *halved)
    expected = recfact.ewm([1.0, 2.0, 4.0], halflife=3.0, times=[0.0, 1.0, 4.0], adjust=False)
    np.testing.assert_allclose(np.array(Path("x.csv").read_text().split()[1:], float), expected, rtol=1e-14)
    Path("r.csv").write_text("day,level\n2001-01-01,\n2001-01-02,\n")
    options = ["--u", "r.csv:level", "--time", "day", "--tau", "2d", "--out", "x.csv"]
    assert "all values of column 'level' are missing" in run("solve", *options, code=1).stderr
    assert "--x0 goes with --a" in run("solve", *options, "--x0", "1", code=2).stderr
    assert "--offsets goes with --a" in run("solve", *options, "--offsets", "0,2", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--u", "u.npy"],
        ["--dt", "day"],
        ["--u", "u.npy", "--dt", "day"],
        ["--a", "a.npy", "--u", "u.npy", "--dt", "day", "--tau", "1"],
        ["--a", "a.npy", "--u", "u.npy", "--tau", "1"],
        ["--tau", "0"],
        ["--tau", "nan"],
        ["--pick", "0"],
        ["--block", "0"],
        ["--block", "x"],
        ["--a", "a.npy", "--u", "u.npy", "--pick", "7"],
        ["--nonsense"],
        ["--a", "a.npy", "--a", "a.npy", "--u", "u.npy"],
        ["--block", "8", "--block", "16"],
        ["--out", "report.pdf"],
        ["--out", "report"],
        ["--u", "r.csv", "--dt", "day", "--tau", "30 moons"],
    ],
)
def test_wrong_usage_is_exit_code_2(arrays, arguments):
    result = run("report", *arguments, code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.output
    assert not Path("report.html").exists()


@pytest.mark.parametrize("command", [["report"], ["solve", "--out", "x.npy"], ["plot", "blocks", "--out", "x.png"]])
def test_bad_data_is_exit_code_1_and_one_line(arrays, command):
    Path("bad.csv").write_text("a\n1\noops\n")
    Path("junk.npy").write_bytes(os.urandom(64))
    for a in ("bad.csv", "junk.npy", "missing.npy", "."):
        result = run(*command, "--a", a, "--u", "u.npy", code=1)
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert len(result.stderr.splitlines()) == 1
    assert {path.suffix for path in Path().iterdir()} == {".npy", ".csv"}


def test_several_formats_are_looked_at(arrays):
    typed = ["--a", "a.npy", "--u", "u.npy", "--format", "bf16", "--format", "half"]
    made = json.loads(run("report", *typed, "--json").stdout)
    assert [found["format"] for found in made["formats"]] == ["bfloat16", "binary16"]
    run("plot", "bounds", *typed, "--out", "b.svg")
    text = Path("b.svg").read_text(encoding="utf-8")
    assert "in bfloat16" in text
    assert "in binary16" in text


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_than_commas_decimal_commas_dates_and_gaps(separator):
    lines = ["# a gauge", "day;level", "01.02.2001;1,5", "02.02.2001;", "01.03.2001;4,25"]
    Path("s.csv").write_text("\n".join(lines).replace(";", separator), encoding="utf-8")
    said = run("solve", "--u", "s.csv:2", "--time", "1", "--date-format", "%d.%m.%Y", "--tau", "28d", "--out", "x.csv")
    assert "2001-02-01 to 2001-03-01, 28 days apart. Skipped 1 missing value" in said.stderr
    assert Path("x.csv").read_text().splitlines()[0] == "day,x"
    written = np.loadtxt("x.csv", delimiter=",", skiprows=1, usecols=1)
    assert np.allclose(written, [1.5, 4.25 + (1.5 - 4.25) / np.e], rtol=1e-15)


def test_groups_are_averaged_as_pandas_averages_them(rng):
    count = 60
    table = pd.DataFrame({
        "at": np.arange(count) * 86400.0 * rng.uniform(1, 1.5, count),
        "station": rng.permuted(np.repeat(["north", "south", "7"], count // 3)),
        "level": rng.standard_normal(count),
    })  # fmt: skip
    table = table.sort_values("at")
    table.loc[rng.permuted(table.index.to_numpy())[:15], "level"] = np.nan
    table.to_csv("g.csv", index=False)
    options = ["--u", "g.csv:level", "--time", "at", "--group", "station", "--tau", "3d"]
    said = run("solve", *options, "--out", "x.csv").stderr
    assert "Each of 3 groups of column 'station' is averaged by itself. Skipped 15 missing values" in said
    written = pd.read_csv("x.csv", dtype={"station": str}, converters={"at": float})
    there = table.dropna()
    assert written["station"].drop_duplicates().tolist() == there["station"].drop_duplicates().tolist()
    for name, own in there.groupby("station"):
        found = written[written["station"] == name]
        assert found["at"].tolist() == own["at"].tolist()
        seconds = (own["at"] * 1e6).round().astype("int64").astype("datetime64[us]")
        expected = own["level"].ewm(halflife=pd.Timedelta(3 * np.log(2), "D"), times=seconds, adjust=False).mean()
        np.testing.assert_allclose(found["x"], expected, rtol=1e-9)
    run("solve", *options, "--window", "jagged:2", "--out", "x.npy")
    assert len(np.load("x.npy")) == 45


def test_missing_inputs_are_refused_or_zero():
    Path("r.csv").write_text("a,u\n0.5,1\n0.5,\n0.5,NA\n0.5,2\n", encoding="utf-8")
    files = ["--a", "r.csv", "--u", "r.csv"]
    refused = run("solve", *files, "--out", "x.npy", code=1).stderr
    assert (
        "r.csv, line 3, column 'u': the cell is blank, and a number is required; --missing zero takes missing inputs"
        in refused
    )
    told = "Took 2 missing inputs for 0.\n"
    assert run("solve", *files, "--missing", "zero", "--out", "x.npy").stderr == told
    assert np.load("x.npy").tolist() == [1, 0.5, 0.25, 2.125]
    assert run("verify", *files, "--missing", "zero", "--axis", "0").stderr == told
    assert run("verify", *files, "--missing", "zero").stderr == told
    np.save("u.npy", [1, 3, 2, np.nan])
    said = run("verify", "--a", "0.5", "--u", "u.npy", "--missing", "zero", "--pick", ":").stderr
    assert said == "Took 1 missing input for 0.\n"
    np.save("u.npy", [1.0, 3.0])
    assert run("verify", "--a", "0.5", "--u", "u.npy", "--missing", "zero").stderr == ""
    Path("b.csv").write_text("a,u\n0.5,1\n,1\n", encoding="utf-8")
    files = ["--a", "b.csv", "--u", "b.csv", "--missing", "zero"]
    assert "line 3, column 'a'" in run("solve", *files, "--out", "x.npy", code=1).stderr
    refused = run("solve", *files, "--out", "x.zarr", code=2).stderr
    assert "with .npy and .zarr files only" in " ".join(refused.replace("│", " ").split())


def test_what_takes_longer_than_a_second_is_said():
    code = (
        "import time; from recfact.cli.progress import progress\n"
        "with progress(4) as step: step('reading'); step('solving'); time.sleep(1.5)"
    )
    done = run_python(code)
    assert done.stderr.splitlines() == ["solving, 25 % ..."]
    assert done.stdout == ""
    assert run_python(code.replace("1.5", "0")).stderr == ""


def test_an_unwritable_page_is_exit_code_1():
    assert "there is no directory no" in run("report", "--out", "no/page.html", code=1).stderr


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_said_before_anything_is_computed(monkeypatch, missing):
    def compute(*_, **__):
        pytest.fail("computed first")

    with monkeypatch.context() as without:
        without.setitem(sys.modules, missing, None)
        without.setitem(sys.modules, f"{missing}.style", None)
        json.loads(run("report", "--json").stdout)  # which draws nothing
        without.setattr("recfact.report.build.build_report", compute)
        said = run("report", code=1)
        assert said.stdout == ""
        assert re.search(r"error: .* pip install .*matplotlib; or pass --json, which prints the findings", said.stderr)
        if missing == "matplotlib":
            without.setattr("recfact.report.gallery.draw", compute)
            without.setattr("recfact.plot.window_bounds.verify", compute)  # imported before it is replaced there
            without.setattr("recfact.precision.verify", compute)
            for command in (["plot", "blocks", "--out", "b.svg"], ["verify", "--plot", "b.svg"]):
                assert "drawing needs matplotlib" in run(*command, code=1).stderr


def test_the_help_says_when_no_page_is_written():
    assert "With --json no page is written unless --out names it" in " ".join(
        run("report", "--help").output.replace("│", "").split()
    )


def test_too_little_memory_is_exit_code_1(monkeypatch, arrays):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 1. EiB")

    monkeypatch.setattr(sys.modules["recfact.solve"], "solve", fail)
    assert "not enough memory" in run("solve", "--a", "a.npy", "--u", "u.npy", "--out", "x.npy", code=1).stderr


@pytest.mark.parametrize("window", ["full", "uniform:5", "jagged:8", "jagged:8:2"])
@pytest.mark.parametrize("reverse", [False, True])
def test_solve(arrays, window, reverse):
    a, u = arrays
    result = run(
        "solve", "--a", "a.npy", "--u", "u.npy", "--window", window, "--out", "x.npy", *["--reverse"] * reverse
    )
    expected = recfact.solve(a, u, window=window_of(window), reverse=reverse)
    assert np.array_equal(np.load("x.npy"), expected)
    assert result.stdout.startswith("solved 40 states in float64, the largest ")


def test_solve_with_an_initial_state_along_an_axis(rng):
    a, u, x0 = rng.uniform(0, 1, (7, 1)), rng.standard_normal((7, 3)), rng.standard_normal(3)
    for name, array in (("a", a), ("u", u), ("s", x0)):
        np.save(f"{name}.npy", array)
    options = ["--a", "a.npy", "--u", "u.npy", "--axis", 0, "--json"]
    about = json.loads(run("solve", *options, "--x0", "s.npy", "--out", "x.npz").stdout)
    assert np.array_equal(np.load("x.npz")["x"], recfact.solve(a, u, x0=x0, axis=0))
    assert about == {
        "shape": [7, 3], "dtype": "float64", "window": "full", "axis": 0, "reverse": False,
        "largest_state": np.abs(recfact.solve(a, u, x0=x0, axis=0)).max(), "out": "x.npz",
    }  # fmt: skip
    run("solve", *options, "--x0", "2.5", "--out", "x.csv")
    assert np.array_equal(np.loadtxt("x.csv", delimiter=","), recfact.solve(a, u, x0=2.5, axis=0))


@pytest.mark.parametrize("large", [False, True])
def test_solve_in_segments(arrays, monkeypatch, large):
    """Each segment is the solve of its own steps, also of files that would otherwise be streamed."""
    if large:
        monkeypatch.setattr("recfact.report.stored.LARGE", 0)
    a, u = arrays
    options = ["solve", "--a", "a.npy", "--u", "u.npy", "--window", "jagged:4", "--out", "x.npy", "--offsets"]
    pieces, window = (slice(0, 7), slice(7, 40)), window_of("jagged:4")
    run(*options, "0,7,40")
    assert np.allclose(np.load("x.npy"), np.concatenate([recfact.solve(a[p], u[p], window=window) for p in pieces]))
    np.save("offsets.npy", [0, 7, 7, 40])
    np.save("before.npy", [1.0, 2.0, 3.0])
    run(*options, "offsets.npy", "--x0", "before.npy")
    each = [recfact.solve(a[p], u[p], x0=x0, window=window) for p, x0 in zip(pieces, (1.0, 3.0), strict=True)]
    assert np.allclose(np.load("x.npy"), np.concatenate(each))
    assert "offsets must begin with 0 and end with 40" in run(*options, "0,30", code=1).stderr
    assert "must be integers with commas between them" in run(*options, "0,x", code=2).stderr


def test_solve_in_segments_of_a_store(arrays):
    a, u = arrays
    pytest.importorskip("zarr").save("a.zarr", a)
    run("solve", "--a", "a.zarr", "--u", "u.npy", "--out", "x.npy", "--offsets", "0,7,40")
    assert np.allclose(np.load("x.npy"), recfact.solve(a, u, offsets=[0, 7, 40]))


@pytest.mark.parametrize(
    "window",
    ["", "all", "full:1", "uniform", "uniform:0", "uniform:x", "jagged", "jagged:8:-1", "jagged:8:1:1", "jagged:1.5"],
)
def test_bad_windows_are_exit_code_2(arrays, window):
    result = run("solve", "--a", "a.npy", "--u", "u.npy", "--window", window, "--out", "x.npy", code=2)
    assert "--window" in result.stderr
    assert not Path("x.npy").exists()


def test_shapes_that_do_not_fit_are_exit_code_1(arrays):
    np.save("three.npy", np.ones(3))
    assert run("solve", "--a", "a.npy", "--u", "three.npy", "--out", "x.npy", code=1).stderr.startswith("error: ")


def test_a_state_is_a_number_or_a_file(arrays):
    result = run("solve", "--a", "a.npy", "--u", "u.npy", "--x0", "foo", "--out", "x.npy", code=2)
    assert "--x0 must be a number or a file" in result.stderr
    for number in ("nan", "-inf", "1e999"):
        result = run("solve", "--a", "a.npy", "--u", "u.npy", "--x0", number, "--out", "x.npy", code=2)
        assert f"--x0 must be finite, got '{number}'" in result.stderr


def test_solve_refuses_an_unknown_kind_of_file_before_it_works(arrays):
    assert "must end in" in run("solve", "--a", "a.npy", "--u", "u.npy", "--out", "x.txt", code=2).stderr


@pytest.mark.parametrize("picture", one_in(3, PICTURES))
def test_plot(picture):
    result = run("plot", picture, "--out", f"{picture}.svg")
    assert result.stdout == f"wrote {picture}.svg: {PICTURES[picture]}\n"
    assert Path(f"{picture}.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_plot_as_json_and_its_refusals():
    made = json.loads(run("plot", "blocks", "--out", "b.png", "--json").stdout)
    assert made == {"picture": "blocks", "shows": PICTURES["blocks"], "out": "b.png"}
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    run("plot", "portrait", "--out", "b.png", code=2)
    run("plot", "blocks", "--out", "b.gif", code=2)


def test_pictures_are_those_of_the_gallery():
    assert tuple(PICTURES) == study.PICTURES


@pytest.mark.parametrize("columns", one_in(2, ["80", "100"]))
def test_the_help_breaks_no_name_of_a_picture(columns):
    text = run_process("plot", "--help", COLUMNS=columns, TERMINAL_WIDTH=columns).stdout
    assert all(re.search(rf"[ <|]{picture}[,.>|]", text) for picture in PICTURES)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["horizon", "zz"], "': must be the name of a floating-point format, got 'zz'"),
        (["horizon", "--format", "zz"], "'--format': must be the name of a floating-point format, got 'zz'"),
        (["horizon", "--style", "foo"], "'--style': must be one of text, markdown, latex, csv, html, got 'foo'"),
        (["plot", "nope", "--out", "x.svg"], f"'PICTURE': must be one of {', '.join(PICTURES)}, got 'nope'"),
        (["plot", "kogge_stone", "--out", "x.svg"], "got 'kogge_stone'; did you mean kogge-stone?"),
        (["verify", "--algorithm", "kogge_stone"], "got 'kogge_stone'; did you mean 'kogge-stone'?"),
        (["report", "--block", "0"], "'--block': must be an integer of at least 1, got '0'"),
        (["report", "--block", str(2**63)], f"'--block': must be at most {2**63 - 1} in magnitude, got '{2**63}'"),
        (["plot", "blocks", "--out", "x.svg", "--block", "x"], "'--block': must be an integer of at least 1, got 'x'"),
        (["window", "--block", "-2"], "'--block': must be an integer of at least 1, got '-2'"),
        (["materialize", "--block", "0"], "'--block': must be an integer of at least 1, got '0'"),
        (["materialize", "--blocks", "1.5"], "'--blocks': must be an integer of at least 1, got '1.5'"),
        (["materialize", "--seed", "-1"], "'--seed': must be an integer of at least 0, got '-1'"),
        (["solve", "--a", "a", "--u", "u", "--out", "x.npy", "--axis", "t"], "'--axis': must be an integer, got 't'"),
    ],
)
def test_what_was_required_and_what_was_given_is_said_of_the_option(command, said):
    assert said in " ".join(re.sub("[│╭╮╰╯─]", " ", run(*command, code=2).stderr).split())


def test_in_a_process_json_is_alone_on_standard_output():
    done = run_process("report", "--json")
    assert done.returncode == 0, done.stderr  # which may say that the engine compiles
    assert json.loads(done.stdout)["recurrence"]["horizon"] == 154


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("options", one_in(2, [[], ["--json"]]))
def test_a_terminal_sees_a_progress_bar(options):
    watching, terminal = os.openpty()
    code = "import sys; from recfact.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(recfact.__file__).parents[1]), "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code, "plot", "operator", "--out", "o.svg", *options],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment,
        timeout=120,
    )
    os.close(terminal)
    seen = b""
    with contextlib.suppress(OSError):  # Linux says so where nothing more was written
        while more := os.read(watching, 100_000):
            seen += more
    os.close(watching)
    assert done.returncode == 0
    assert b"drawing" in seen
    assert b"\x1b" not in done.stdout


def test_in_a_process_errors_leave_no_traceback():
    Path("pickle.npy").write_bytes(b"\x80\x04\x95\x0b\x00\x00\x00")
    done = run_process("report", "--a", "pickle.npy", "--u", "pickle.npy")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: pickle.npy holds pickled Python objects, which are never loaded")
    assert len(done.stderr.splitlines()) == 1
    assert run_process("report", "--block", "zero").returncode == 2


def test_a_terminal_without_mathematical_signs_gets_question_marks():
    code = (
        "import sys; from recfact.cli import main; from recfact.report import html\n"
        "html.draw, html.inline_svg = lambda *_: None, lambda *_: ''\n"  # pictures take longer than all else
        "main()"
    )
    here = {"PYTHONPATH": str(Path(recfact.__file__).parents[1])}
    ascii_alone = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}  # which Python reads when it starts
    command = [sys.executable, "-c", code, "report", "--format", "bf16"]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, **here, **ascii_alone})
    assert done.returncode == 0, done.stderr
    assert b"Weekly CO? at Mauna Loa" in done.stdout


def test_the_command_starts_without_the_heavy_packages():
    code = "import sys, recfact.cli; print(sorted({'matplotlib', 'jinja2', 'sympy', 'llvmlite'} & set(sys.modules)))"
    assert run_python(code).stdout.split() == ["[]"]


def test_no_gpu_has_an_exit_code_of_its_own(monkeypatch):
    def refuse(*_):
        raise DeviceError("the driver shows no GPU")

    monkeypatch.setattr("recfact.cli.study.read_problem", refuse)
    result = run("report", code=3)
    assert result.stderr == "error: the driver shows no GPU\n"
