"""`recfact solve` on files that are solved piece by piece: results, memory, interruptions and what stays behind."""

import errno
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import recfact as rf
from recfact.cli.app import app
from recfact.report import boxes, streaming
from recfact.report import stored as files
from recfact.report.stored import stored

STEPS = 5000


@pytest.fixture(autouse=True)
def _(tmp_path, monkeypatch):
    """Pieces of few steps, of files that count as large."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boxes, "PIECE", 1 << 14)
    monkeypatch.setattr(files, "LARGE", 0)


def run(*options, code=0):
    result = CliRunner().invoke(app, ["solve", *options])
    assert result.exit_code == code, result.output
    return result


def written(rng, shape, dtype=float, kind="npy", shared=False):
    """Write coefficients and inputs to files, and return them."""
    a = rng.uniform(-1, 1, shape[-1:] if shared else shape).astype(dtype)
    u = rng.standard_normal(shape).astype(dtype)
    for name, array in (("a", a), ("u", u)):
        if kind == "npy":
            np.save(f"{name}.npy", array)
        else:
            zarr = pytest.importorskip("zarr", reason="zarr is not installed")
            zarr.create_array(f"{name}.zarr", data=array, chunks=tuple(min(n, 300) for n in array.shape))
    return a, u


def read(path):
    if path.endswith(".npy"):
        return np.load(path)
    import zarr

    return zarr.open_array(path, mode="r")[...]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", ["full", "jagged:16", "uniform:30"])
@pytest.mark.parametrize(("kind", "out"), [("npy", "x.npy"), ("npy", "x.zarr"), ("zarr", "x.zarr"), ("zarr", "x.npy")])
def test_the_states_are_those_of_arrays_in_memory(kind, out, window, rng):
    if "zarr" in kind + out:
        pytest.importorskip("zarr", reason="zarr is not installed")
    for shape, axis, shared in (((STEPS,), 0, False), ((STEPS, 2), 0, False), ((3, STEPS), -1, True)):
        for old in (*Path().glob("[au].zarr"), *Path().glob("[au].npy")):
            subprocess.run(["rm", "-r", old], check=True)
        a, u = written(rng, shape, kind=kind, shared=shared)
        options = ["--a", f"a.{kind}", "--u", f"u.{kind}", "--axis", str(axis), "--window", window, "--x0", "2"]
        about = json.loads(run(*options, "--out", out, "--json").stdout)
        expected = rf.solve(a, u, x0=2.0, axis=axis, window=window)
        np.testing.assert_allclose(read(out), expected, rtol=1e-12, atol=1e-12)
        assert about["shape"] == list(shape)
        assert about["largest_state"] == np.abs(read(out)).max()
        assert not list(Path().glob(".x*"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", ["full", "jagged:16:2"])
@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize(
    ("shape", "axis", "first", "pieces"),
    [
        ((700, 30), 1, (slice(0, 22), slice(0, 30)), 32),  # whole sequences
        ((2, 5000), -1, (slice(0, 1), slice(0, 682)), 16),  # parts of one
        ((3, 400, 7), 1, (slice(0, 1), slice(0, 97), slice(0, 7)), 15),  # parts of several
        ((40, 3, 1000), 0, (slice(0, 1), slice(0, 1), slice(0, 682)), 240),  # a step is longer than a piece
        ((40, 900), 0, (slice(0, 1), slice(0, 682)), 80),
    ],
    ids=str,
)
def test_pieces_hold_what_lies_together(shape, axis, first, pieces, kind, window, rng):
    if kind == "zarr":
        pytest.importorskip("zarr", reason="zarr is not installed")
    a, u = written(rng, shape, kind=kind)
    x0 = rng.standard_normal(np.delete(shape, axis))
    np.save("x0.npy", x0)
    found = streaming.Stream(
        *(stored(f"{name}.{kind}", name) for name in "au"), x0, axis, rf.windows.window_of(window), Path("x.npy")
    )
    assert max(map(boxes.size, found.boxes)) * 24 <= boxes.PIECE
    if kind == "npy":
        assert [(at.start, at.stop) for at in found.boxes[0]] == [(at.start, at.stop) for at in first]
        assert len(found.boxes) == pieces
    run(
        "--a",
        f"a.{kind}",
        "--u",
        f"u.{kind}",
        "--axis",
        str(axis),
        "--window",
        window,
        "--x0",
        "x0.npy",
        "--out",
        "x.npy",
    )
    expected = rf.solve(a, u, x0=x0, axis=axis, window=window)
    np.testing.assert_allclose(np.load("x.npy"), expected, rtol=1e-12, atol=1e-12)


def test_pieces_are_whole_chunks_of_zarr_if_these_fit():
    shape, numbers = (50, 5000), (1 << 14) / 24
    for chunks, lengths in (((1, 300), (1, 600)), ((7, 50), (7, 50)), ((1, 700), (1, 682)), ((50, 1), (50, 13))):
        found = boxes.boxes(shape, 1, chunks, 24 * 50 * 5000)
        assert [at.stop for at in found[0]] == list(lengths)
        assert sum(map(boxes.size, found)) == 250_000
        assert max(map(boxes.size, found)) <= numbers
        filled = np.zeros(shape, int)
        for box in found:
            filled[box] += 1
        assert (filled == 1).all()


def test_missing_inputs_of_files_may_be_zero(rng):
    a, u = written(rng, (STEPS,))
    u[::7] = np.nan
    np.save("u.npy", u)
    said = run("--a", "a.npy", "--u", "u.npy", "--missing", "zero", "--out", "x.npy").stderr
    assert f"Took {len(u[::7])} missing inputs for 0." in said
    np.testing.assert_allclose(np.load("x.npy"), rf.solve(a, np.nan_to_num(u)), rtol=1e-12, atol=1e-12)


def test_missing_inputs_that_sequences_share_are_counted_once(rng):
    _, u = written(rng, (3, STEPS))
    u[0, ::7] = np.nan
    np.save("u.npy", u[0])
    said = run("--a", "a.npy", "--u", "u.npy", "--missing", "zero", "--out", "x.npy").stderr
    assert f"Took {len(u[0, ::7])} missing inputs for 0." in said


def test_missing_inputs_from_before_an_interruption_are_counted(rng, monkeypatch):
    _, u = written(rng, (STEPS,))
    u[::7] = np.nan
    np.save("u.npy", u)
    options = ["--a", "a.npy", "--u", "u.npy", "--missing", "zero", "--out", "x.npy"]
    solve = streaming.Stream._solve

    def some(self, box):
        if box[0].start > STEPS // 2:
            raise KeyboardInterrupt
        solve(self, box)

    monkeypatch.setattr(streaming.Stream, "_solve", some)
    CliRunner().invoke(app, ["solve", *options])
    monkeypatch.setattr(streaming.Stream, "_solve", solve)
    said = run(*options).stderr
    assert "solving goes on" in said
    assert f"Took {len(u[::7])} missing inputs for 0." in said


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.int16])
def test_number_types_are_those_of_arrays_in_memory(dtype, rng):
    a, u = written(rng, (STEPS,), dtype)
    run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy")
    expected = rf.solve(a, u)
    found = np.load("x.npy").view(expected.dtype)
    precise = np.finfo(np.float32 if expected.dtype.itemsize < 4 else expected.dtype).eps
    near = {"rtol": 8 * precise, "atol": 8 * precise} if expected.dtype.itemsize > 2 else {"rtol": 1e-2, "atol": 1e-2}
    np.testing.assert_allclose(found.astype(complex), expected.astype(complex), **near)


def test_few_pieces_are_in_memory(rng, monkeypatch):
    written(rng, (1 << 19,))
    monkeypatch.setattr(boxes, "PIECE", 1 << 18)
    tracemalloc.start()
    run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy")  # compiles, and imports
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy")
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < 4 * boxes.PIECE < 8 << 19


CHILD = """
import os, signal, sys
from pathlib import Path
from recfact.cli.app import main
from recfact.report import boxes, partial, stored
boxes.PIECE, stored.LARGE = 1 << 14, 0
left, half, log = int(sys.argv.pop(1)), sys.argv.pop(1) == "half", Path("log")
write = partial.Partial.write

def deadly(self, box, states):
    global left
    left -= 1
    if left == 0:
        if half:
            write(self, (slice(box[0].start, box[0].start + len(states) // 2),), states[: len(states) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    with log.open("a") as stream:
        print(box[0].start, file=stream)
    write(self, box, states)

partial.Partial.write = deadly
main()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", ["half", "none"])
@pytest.mark.parametrize(
    ("kind", "window"),
    [
        pytest.param("npy", "full", marks=pytest.mark.slow),
        ("npy", "jagged:16"),
        ("zarr", "uniform:30"),
    ],
)
def test_a_killed_solve_goes_on_and_writes_nothing_twice(kind, window, half, rng):
    written(rng, (STEPS,), kind=kind)
    options = ["solve", "--a", f"a.{kind}", "--u", f"u.{kind}", "--out", f"x.{kind}", "--window", window, "--x0", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def child(pieces):
        command = [sys.executable, "-c", CHILD, str(pieces), half, *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    piece = int(rng.integers(2, 7))
    assert child(piece).returncode == -signal.SIGKILL
    assert not Path(f"x.{kind}").exists()
    finished = child(0)
    assert finished.returncode == 0, finished.stderr
    starts = [int(line) for line in Path("log").read_text().split()]
    assert f"solving goes on after {100 * starts[piece - 1] // STEPS} %" in finished.stderr
    assert starts == sorted(set(starts))
    interrupted = read(f"x.{kind}")
    run(*options[1:])
    np.testing.assert_array_equal(interrupted, read(f"x.{kind}"))
    assert not list(Path().glob(".x*"))


def test_another_solve_starts_anew(rng, monkeypatch):
    a, u = written(rng, (STEPS,))
    options = ["--a", "a.npy", "--u", "u.npy", "--out", "x.npy"]

    def interrupted(self, box):
        if box[0].start:
            raise KeyboardInterrupt
        solve(self, box)

    solve = streaming.Stream._solve
    for change in (["--window", "jagged:4"], ["--x0", "3"], []):
        monkeypatch.setattr(streaming.Stream, "_solve", interrupted)
        CliRunner().invoke(app, ["solve", *options])
        assert sorted(path.name for path in Path().glob(".x*")) == [".x.npy.part", ".x.npy.state"]
        monkeypatch.setattr(streaming.Stream, "_solve", solve)
        if not change:
            np.save("u.npy", 2 * u)
            os.utime("u.npy", ns=(1, 1))
        assert "goes on" not in run(*options, *change).stderr
        np.testing.assert_allclose(np.load("x.npy")[0], (1 + (not change)) * u[0] + 3 * a[0] * ("--x0" in change))


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_bad_numbers_leave_nothing_behind_and_change_nothing(kind, rng):
    written(rng, (STEPS,), kind=kind)
    options = ["--a", f"a.{kind}", "--u", f"u.{kind}", "--out", f"x.{kind}"]
    run(*options)
    before = read(f"x.{kind}")
    if kind == "npy":
        u = np.load("u.npy", mmap_mode="r+")
    else:
        import zarr

        u = zarr.open_array("u.zarr")
    u[4321] = np.nan
    del u
    assert f"u.{kind} holds nan at index 4321" in run(*options, code=1).stderr
    np.testing.assert_array_equal(read(f"x.{kind}"), before)
    assert not list(Path().glob(".x*"))


@pytest.fixture
def interrupted(rng, monkeypatch):
    """Leave what a solve has written when it is interrupted, and return its options and the right states."""
    a, u = written(rng, (STEPS,))
    options = ["--a", "a.npy", "--u", "u.npy", "--out", "x.npy"]
    solve = streaming.Stream._solve

    def some(self, box):
        if box[0].start > STEPS // 2:
            raise KeyboardInterrupt
        solve(self, box)

    monkeypatch.setattr(streaming.Stream, "_solve", some)
    CliRunner().invoke(app, ["solve", *options])
    monkeypatch.setattr(streaming.Stream, "_solve", solve)
    return options, rf.solve(a, u)


def flip(path):
    found = bytearray(path.read_bytes())
    found[found.index(b"NUMPY") + 200] ^= 255  # in the text of the options
    path.write_bytes(bytes(found))


def change(path, **numbers):
    with np.load(path) as saved:
        found = {**saved, **numbers}
    put(path, np.savez, **found)


def put(path, save, *arrays, **named):
    with path.open("wb") as stream:
        save(stream, *arrays, **named)


DAMAGE = {
    "state cut short": lambda part, state: os.truncate(state, state.stat().st_size // 2),
    "state with another bit": lambda part, state: flip(state),
    "no number of steps": lambda part, state: change(state, done=np.array("x")),
    "more steps than there are": lambda part, state: change(state, done=np.array(STEPS + 1)),
    "states cut short": lambda part, state: os.truncate(part, 1000),
    "no states": lambda part, state: part.write_bytes(b""),
    "states of another shape": lambda part, state: put(part, np.save, np.zeros(10)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_written_anew(damage, interrupted):
    options, expected = interrupted
    DAMAGE[damage](Path(".x.npy.part"), Path(".x.npy.state"))
    assert "goes on" not in run(*options).stderr
    np.testing.assert_allclose(np.load("x.npy"), expected, rtol=1e-12, atol=1e-12)
    assert not list(Path().glob(".x*"))


def test_one_command_at_a_time_writes(interrupted):
    pytest.importorskip("fcntl", reason="there are no such locks here")
    options, expected = interrupted
    first = streaming.Stream(*(stored(f"{name}.npy", name) for name in "au"), None, -1, rf.Full(), Path("x.npy"))
    assert first.written > 8 * STEPS // 2
    for others in ([], ["--window", "jagged:4"]):
        assert "x.npy is being written by another command" in run(*options, *others, code=1).stderr
    first.run(lambda _: None)
    np.testing.assert_allclose(np.load("x.npy"), expected, rtol=1e-12, atol=1e-12)
    assert not list(Path().glob(".x*"))
    run(*options)


def test_chunks_of_zarr_that_change_start_anew(interrupted, rng):
    pytest.importorskip("zarr", reason="zarr is not installed")
    import zarr

    written(rng, (STEPS,), kind="zarr")
    found = stored("u.zarr", "u")
    before = found.identity()
    array = zarr.open_array("u.zarr")
    array[0] = 3
    for path in Path("u.zarr").rglob("0"):
        os.utime(path, ns=(1, 1 << 61))
    assert found.identity() != before


def test_a_solve_without_steps_is_refused():
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    zarr.create_array("u.zarr", shape=(0,), dtype=float, chunks=(1,))
    for out, said in (("x.npy", "u.zarr is empty"), ("x.zarr", "states would be empty")):
        assert said in run("--a", "0.5", "--u", "u.zarr", "--out", out, code=1).stderr


def test_other_folders_of_zarr_are_not_replaced(rng):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    written(rng, (STEPS,))
    options = ["--a", "a.npy", "--u", "u.npy", "--out"]
    zarr.create_group("group.zarr").create_array("kept", data=np.ones(3))
    Path("file.zarr").write_text("kept")
    Path("x.zarr").mkdir()
    for name in ("group.zarr", "file.zarr"):
        assert "isn't an array of zarr" in run(*options, name, code=1).stderr
    run(*options, "x.zarr")
    Path(".x.zarr.old").mkdir()  # as a killed command leaves it
    Path(".x.zarr.old/0").touch()
    run(*options, "x.zarr")
    assert sorted(path.name for path in Path().glob("*.zarr")) == ["file.zarr", "group.zarr", "x.zarr"]
    assert Path("group.zarr/kept").is_dir()
    assert not list(Path().glob(".*"))


def test_a_start_that_fails_leaves_nothing_behind(rng, monkeypatch):
    written(rng, (STEPS,))
    options = ["--a", "a.npy", "--u", "u.npy", "--out", "x.npy"]
    np.save("three.npy", np.ones(3))
    assert "--x0 must broadcast" in run(*options, "--x0", "three.npy", code=1).stderr
    assert not list(Path().glob(".*"))
    pytest.importorskip("fcntl", reason="room isn't made beforehand here")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert "No space left" in run(*options, code=1).stderr
    assert not list(Path().glob(".*"))


def test_zarr_takes_no_bfloat16(rng):
    pytest.importorskip("zarr", reason="zarr is not installed")
    written(rng, (STEPS,), ml_dtypes.bfloat16)
    assert "can't hold bfloat16" in run("--a", "a.npy", "--u", "u.npy", "--out", "x.zarr", code=1).stderr


def test_states_that_are_not_numbers_are_the_largest():
    a, u = np.ones(STEPS), np.ones(STEPS)
    a[1:10], a[-3:] = 1e200, 0  # infinity times 0
    np.save("a.npy", a)
    np.save("u.npy", u)
    with np.errstate(all="ignore"):
        assert np.isnan(rf.solve(a, u)).any()
    about = json.loads(run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy", "--json").stdout)
    assert about["largest_state"] is None


def test_progress_tells_the_rate_and_the_time_left(rng, monkeypatch):
    from recfact.cli import progress

    written(rng, (STEPS,))
    monkeypatch.setattr(progress, "FIRST", 0.0)
    said = run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy").stderr.splitlines()
    assert said[0].startswith("solving, ")
    assert said[0].endswith(" s left ...")
    assert "MB/s" in said[0]
    assert len(said) == 1


def test_small_files_are_solved_at_once(rng, monkeypatch):
    a, u = written(rng, (STEPS,))
    monkeypatch.setattr(files, "LARGE", 1 << 30)
    monkeypatch.setattr(streaming.Stream, "run", None)
    run("--a", "a.npy", "--u", "u.npy", "--out", "x.npy")
    np.testing.assert_array_equal(np.load("x.npy"), rf.solve(a, u))


def test_what_is_not_streamed_is_refused(rng):
    pytest.importorskip("zarr", reason="zarr is not installed")
    written(rng, (30,), kind="zarr")
    options = ["--a", "a.zarr", "--u", "u.zarr"]

    def said(*options, code):
        return " ".join(run(*options, code=code).stderr.replace("│", " ").split())

    assert "goes without --reverse" in said(*options, "--out", "x.zarr", "--reverse", code=2)
    assert "goes without --offsets" in said(*options, "--out", "x.zarr", "--offsets", "0,30", code=2)
    np.savetxt("u.csv", np.ones(30))
    for u, message in (("u.csv", "goes with .npy and .zarr files only, got u.csv"), ("ones", "got 'ones'")):
        assert message in said("--a", "a.zarr", "--u", u, "--out", "x.zarr", code=2)
    Path("no.zarr").mkdir()
    Path("n.npy").write_bytes(b"nothing")
    for name, message in (
        ("no.zarr", "no.zarr is not a readable array of zarr"),
        ("n.npy", "n.npy is not a readable .npy array"),
        ("no-such.npy", "no-such.npy"),
    ):
        assert message in said("--a", name, "--u", "u.zarr", "--out", "x.npy", code=1)
