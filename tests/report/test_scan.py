"""Reports on files that are looked at piece by piece: what sequences need, memory, and interruptions."""

import errno
import json
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from samples import one_in
from typer.testing import CliRunner

from recfact import precision as pr
from recfact.cli import study
from recfact.cli.app import app
from recfact.precision.truncation.window_losses import WindowLosses
from recfact.report import boxes, scan
from recfact.report import stored as files
from recfact.report.batch import batch_from_files, sequence_needs
from recfact.report.safety import chosen_formats
from recfact.report.scan import Scan

FORMATS = ["bfloat16", "binary16", "mxfp4"]


@pytest.fixture(autouse=True)
def _(tmp_path, monkeypatch):
    """Pieces of few steps, of files that count as large."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boxes, "PIECE", 1 << 12)
    monkeypatch.setattr(scan, "LOOK", 300)
    monkeypatch.setattr(scan, "NEAR", 30)
    monkeypatch.setattr(scan, "NOTED", 0.0)
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(study, "STRETCH", 400)


def written(kind, a):
    if kind == "npy":
        np.save("a.npy", a)
    else:
        zarr = pytest.importorskip("zarr", reason="zarr is not installed")
        zarr.create_array("a.zarr", data=a, chunks=tuple(min(n, 70) for n in a.shape))


def looked_at(kind, axis, out=None, names=FORMATS):
    return Scan(batch_from_files(f"a.{kind}", None, axis, mapped=True), chosen_formats(names), out)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2000,), 0), ((3, 1500), 1), ((900, 5), 0), ((3, 700, 2), 1), ((90, 40), 1), ((2, 800, 2), -2)]
)
def test_needs_are_those_of_arrays_in_memory(shape, axis, kind, rng):
    a = rng.uniform(-0.9, 0.9, shape)
    far = 90 if shape[axis] > 1000 else 40  # further back than is looked first
    np.moveaxis(a, axis, 0)[500 : 500 + far] = 0.97
    written(kind, a)
    found = looked_at(kind, axis)
    assert len(found.boxes) > 1
    given = batch_from_files(f"a.{kind}", None, axis)
    told = []
    for own, expected in zip(found.run(told.append), sequence_needs(given, found.formats), strict=True):
        np.testing.assert_array_equal(own.horizons.by_sequence, expected.horizons.by_sequence)
        np.testing.assert_array_equal(own.horizons.steps, expected.horizons.steps)
        assert own.worst() == expected.worst()
        assert own.unseen == own.out_of_range == 0
    assert told[-1] == found.nbytes == a.nbytes
    assert told == sorted(told)


def test_blocks_of_formats_are_those_of_whole_sequences(rng):
    written("npy", np.where(rng.random((20, 2000)) < 0.01, 0.8, 0.45))  # 0.8 makes its block coarser
    (own,) = looked_at("npy", 1, names=["mxfp4"]).run(lambda _: None)
    (expected,) = sequence_needs(batch_from_files("a.npy", None, 1), chosen_formats(["mxfp4"]))
    np.testing.assert_array_equal(own.horizons.by_sequence, expected.horizons.by_sequence)
    np.testing.assert_array_equal(own.horizons.steps, expected.horizons.steps)


def test_the_window_is_proved_for_all_sequences(rng):
    a = rng.uniform(0.3, 0.95, (40, 500))
    a[3, 100:130] = 1.01
    written("npy", a)
    for found in looked_at("npy", 1, names=["bfloat16", "binary32"]).run(lambda _: None):
        kept = np.asarray(found.format.round(a))
        lost = max(WindowLosses(row, "state").bound(found.good.window) for row in kept)
        assert lost <= found.good.error <= float(Fraction(found.format.unit_roundoff)) * (1 + 1e-5)
        assert found.good.window.block % 16 == 0
        assert found.good.window.block < found.horizons.largest + 16


def test_sequences_that_may_look_back_further_are_counted(rng):
    a = rng.uniform(0.3, 0.9, (3, 2000))
    a[1] = 0.999999
    written("npy", a)
    (found,) = looked_at("npy", 1, names=["bfloat16"]).run(lambda _: None)
    assert found.unseen == 1
    assert found.window is None
    assert found.horizons.by_sequence[1] >= 300
    exact = pr.effective_horizon(pr.format("bfloat16").round(a[::2]), 2.0**-8)
    np.testing.assert_array_equal(found.horizons.by_sequence[::2], exact.by_sequence)


def test_out_of_range_coefficients_are_counted_in_all_pieces(rng):
    a = rng.uniform(0.3, 0.9, (3, 2000))
    a[0, 7] = a[2, 1999] = 1e6
    written("npy", a)
    (found,) = looked_at("npy", 1, names=["binary16"]).run(lambda _: None)
    assert found.out_of_range == 2
    assert found.horizons is None


def test_few_pieces_are_in_memory(rng, monkeypatch):
    written("npy", rng.uniform(0.3, 0.9, 1 << 19))
    monkeypatch.setattr(boxes, "PIECE", 1 << 18)
    monkeypatch.setattr(scan, "LOOK", 1 << 12)
    look = looked_at("npy", 0, names=["bfloat16"])
    tracemalloc.start()
    look.run(lambda _: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 21 < look.nbytes


@pytest.mark.parametrize("shape", one_in(2, [(2048, 128), (2048, 2, 64)]), ids=str)
def test_channels_are_looked_at_in_groups(shape, rng, monkeypatch):
    written("npy", rng.uniform(0.999, 0.9999, shape))
    monkeypatch.setattr(boxes, "PIECE", 1 << 17)
    monkeypatch.setattr(scan, "LOOK", 1 << 12)
    look = looked_at("npy", 0, names=["binary32"])
    tracemalloc.start()
    look.run(lambda _: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * boxes.PIECE < look.nbytes


def report(*options, code=0):
    result = CliRunner().invoke(app, ["report", "--a", "a.npy", "--format", "bfloat16", *options])
    assert result.exit_code == code, result.output
    return result


def test_an_interrupted_look_goes_on(rng, monkeypatch, blank_pictures):
    a = rng.uniform(0.3, 0.9, (4, 900))
    a[2, 440:560] = 0.96  # the interruption comes at step 512
    written("npy", a)
    look, boxes_seen = Scan._look, []

    def some(self, box, past):
        if len(boxes_seen) == 5:
            raise KeyboardInterrupt
        boxes_seen.append(box)
        return look(self, box, past)

    monkeypatch.setattr(Scan, "_look", some)
    CliRunner().invoke(app, ["report", "--a", "a.npy", "--axis", "1", "--format", "bfloat16"])
    assert sorted(path.name for path in Path().iterdir()) == [".report.html.state", "a.npy"]
    boxes_seen.append(None)
    result = report("--axis", "1")
    assert "looking at coefficients goes on after" in result.stderr
    assert boxes_seen[:5] + boxes_seen[6:] == looked_at("npy", 1).boxes
    (needs,) = sequence_needs(batch_from_files("a.npy", None, 1), chosen_formats(["bfloat16"]))
    assert f"[2, :] {needs.horizons.largest}" in result.stdout
    again = report("--axis", "1", "--json")
    assert "goes on" not in again.stderr
    assert json.loads(again.stdout)["sequences"][0]["quartiles"] == needs.horizons.quantile(0.25, 0.5, 0.75)
    assert sorted(path.name for path in Path().iterdir()) == ["a.npy", "report.html"]
    # other formats, other numbers, damage
    for change in (["--format", "binary16"], [], None):
        boxes_seen[:] = []
        CliRunner().invoke(app, ["report", "--a", "a.npy", "--axis", "1", "--format", "bfloat16"])
        if change is None:
            Path(".report.html.state").write_bytes(b"no notes")
        elif not change:
            written("npy", a[:, ::-1])
        boxes_seen.append(None)
        assert "goes on" not in report("--axis", "1", *(change or [])).stderr


def test_coefficients_in_memory_that_changed_are_looked_at_anew(rng):
    a = rng.uniform(0.3, 0.9, 2000)
    np.save("u.npy", a)
    seen = []
    for change in (0, 0, 0.05):
        a[1000] += change
        np.savetxt("a.csv", a)
        look = Scan(batch_from_files("a.csv", "u.npy", 0, mapped=True), chosen_formats(["bfloat16"]), Path("r.html"))
        seen.append(look.done)
        look.run(lambda _: None)
    assert seen == [0, len(look.boxes), 0]


def test_the_page_is_about_the_steps_up_to_the_worst(rng, blank_pictures):
    a = rng.uniform(0.3, 0.9, 2000)
    a[1200:1260] = 0.95
    written("npy", a)
    said = report("--u", "impulse", "--json", "--out", "r.html").stdout
    made = json.loads(said)
    end = int(pr.effective_horizon(pr.format("bfloat16").round(a), 2.0**-8).worst[0]) + 1
    assert made["title"] == f"a.npy at [{end - 400}:{end}], an impulse as inputs"
    assert made["source"].endswith(" The last step is the one that looks back furthest.")
    assert made["recurrence"]["n"] == 400
    assert made["findings"][0].startswith("In bfloat16, the sequence looks back")
    assert "All sequences" in Path("r.html").read_text(encoding="utf-8")
    a[5] = 1e30
    written("npy", a)
    made = json.loads(report("--format", "binary16", "--json").stdout)
    assert made["sequences"][1]["out_of_range"] == 1
    a[:] = 1e30
    written("npy", a)
    only = CliRunner().invoke(app, ["report", "--a", "a.npy", "--format", "binary16", "--json"])
    assert json.loads(only.stdout)["title"] == "a.npy at [0:400], inputs of ones"
    assert json.loads(only.stdout)["source"].endswith(" These are its first steps.")


def test_the_rate_and_the_time_left_are_told(rng, monkeypatch):
    from recfact.cli import progress

    written("npy", rng.uniform(0.3, 0.9, 2000))
    monkeypatch.setattr(progress, "FIRST", 0.0)
    said = next(line for line in report("--json").stderr.splitlines() if "MB/s" in line)
    assert said.startswith("looking at coefficients, ")
    assert said.endswith(" s left ...")


def test_several_axes_need_one_of_time(rng):
    written("npy", rng.uniform(0.3, 0.9, (3, 100)))
    assert "--axis must be given for a.npy of shape (3, 100)" in report(code=2).stderr
    assert report("--pick", "0,:", "--json").exit_code == 0
    a = np.load("a.npy")
    a[1, 50] = np.nan
    written("npy", a)
    assert "holds nan at index" in report("--axis", "1", code=1).stderr
    assert report("--pick", "0,:", "--json").exit_code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["a.npy"]


@pytest.mark.parametrize("command", ["report", "window", "verify", "plot"])
def test_commands_read_zarr(command, rng, monkeypatch):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    monkeypatch.setattr(files, "LARGE", 1 << 30)
    group = zarr.create_group("both.zarr")
    for name in "au":
        group.create_array(name, data=rng.uniform(0.3, 0.9, (2, 60)), chunks=(1, 7))
    more = {
        "window": [],
        "report": ["--json"],
        "verify": ["--window", "jagged:16"],
        "plot": ["solution", "--out", "x.svg"],
    }
    options = ["--a", "both.zarr:a", "--pick", "1,:"] + (["--u", "both.zarr:u"] if command != "window" else [])
    done = CliRunner().invoke(app, [command, *more[command], *options])
    assert done.exit_code == 0, done.output
    wrong = CliRunner().invoke(app, [command, *more[command], "--a", "both.zarr", *options[2:]])
    assert wrong.exit_code == 1
    assert "both.zarr is a group of zarr; choose one of its arrays, as in FILE:NAME: a, u" in wrong.stderr


def test_a_full_disk_ends_with_a_message(rng, monkeypatch):
    written("npy", rng.uniform(0.3, 0.9, 2000))

    def full(stream, **_):
        stream.write(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert "No space left on device" in report(code=1).stderr
    assert sorted(path.name for path in Path().iterdir()) == ["a.npy"]
