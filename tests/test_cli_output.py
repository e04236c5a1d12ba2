"""What the command does when its output goes nowhere: one line on standard error, and an exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_python
from typer.testing import CliRunner

import recfact
from recfact.cli import app, main
from recfact.cli.output import Stream

# Every command by what makes it print; the measurements themselves are left out.
PRINTING = {
    "report": ["report", "--out", "page.html"],
    "solve": ["solve", "--a", "a.csv", "--u", "a.csv", "--out", "x.npy"],
    "plot": ["plot", "operator", "--out", "p.svg"],
    "window": ["window", "--rho", "0.9", "--tol", "0.1"],
    "horizon": ["horizon", "half"],
    "verify": ["verify", "--a", "a.csv", "--u", "a.csv"],
    "materialize": ["materialize", "--a", "a.csv", "--block", "2"],
    "bench": ["bench", "--help"],
    "gpu": ["gpu", "--help"],
}
OTHERS = [["--help"], ["--version"], ["horizon", "--json"], ["horizon", "--style", "csv"], ["window", "--json"]]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("0.5\n0.25\n0.5\n0.25\n")


FULL = 'os.open("/dev/full", os.O_WRONLY)'
BROKEN = "(lambda reading, writing: os.close(reading) or writing)(*os.pipe())"


def run(arguments, **streams):
    """Run the command in a process of its own, with other files in the place of its standard streams."""
    places = {"stdout": 1, "stderr": 2}
    opened = "".join(f"os.dup2({file}, {places[name]})\n" for name, file in streams.items())
    return run_python(f"import os\n{opened}from recfact.cli import main\nmain()", *arguments)


def test_every_command_is_among_them():
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(PRINTING)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("arguments", [*PRINTING.values(), *OTHERS], ids=" ".join)
def test_a_full_disk_is_one_line_and_exit_code_1(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["recfact", *arguments])
    with Path("/dev/full").open("w") as full, Path("said.txt").open("w") as errors:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", errors)
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.flush()  # what the disk didn't take, which now goes nowhere
    said = [
        line
        for line in Path("said.txt").read_text().splitlines()
        if not (line.startswith("recfact: compiling") or line.endswith(" ..."))
    ]
    assert (ended.value.code, said) == (1, ["error: the output can't be written: No space left on device"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [PRINTING["horizon"], ["--help"]], ids=" ".join)
def test_a_full_disk_leaves_nothing_to_say_at_the_end_of_a_process(arguments):
    done = run(arguments, stdout=FULL)
    assert (done.returncode, done.stderr) == (1, "error: the output can't be written: No space left on device\n")


def test_a_closed_pipe_is_one_line_and_exit_code_1():
    done = run(["horizon"], stdout=BROKEN)
    assert (done.returncode, done.stderr) == (1, "error: the output can't be written: Broken pipe\n")


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_stream_that_is_closed(closed):
    code = f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", code, "-c", "from recfact.cli import main; main()", "horizon", "half"]
    environment = {**os.environ, "PYTHONPATH": str(Path(recfact.__file__).parents[1])}
    done = subprocess.run(command, env=environment, timeout=120, check=False, capture_output=True)
    if closed == "1":
        assert (done.returncode, done.stderr) == (1, b"error: the output can't be written: it is closed\n")
    else:
        assert done.returncode == 0
        assert b"binary16" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["horizon", "nosuch"], ["report", "--a", "missing.npy", "--u", "a.csv"]])
def test_errors_that_nobody_can_read_are_still_exit_codes(arguments):
    done = run(arguments, stderr=FULL)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_of_the_output_that_nobody_can_read_is_still_an_exit_code():
    done = run(["horizon"], stdout=FULL, stderr=FULL)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_error_of_a_file_is_not_one_of_the_output(tmp_path):
    """Only what the standard streams refuse is said to be the output's: an OSError from elsewhere stays one."""
    with (tmp_path / "f").open("w") as file, Stream(file.fileno(), "w", closefd=False) as stream:
        assert stream.write(b"abc") == 3
    assert (tmp_path / "f").read_bytes() == b"abc"


@pytest.mark.parametrize("command", ["", *PRINTING])
def test_flags_show_no_type_in_the_help(command):
    text = CliRunner().invoke(app, [*command.split(), "--help"]).output
    assert "Usage:" in text
    assert "<bool>" not in text
    assert "BOOLEAN" not in text
