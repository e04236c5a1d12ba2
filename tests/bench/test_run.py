"""The command `recfact bench`."""

import json
import platform
import sys
from dataclasses import replace

import pytest
from records import sample_record
from typer.testing import CliRunner

from recfact.bench import machine, run
from recfact.bench.cases import all_cases
from recfact.bench.peers import PEERS
from recfact.bench.record import Record
from recfact.bench.timing import Comparison, Quartiles
from recfact.cli import app
from recfact.errors import MissingExtraError

STUBS = {
    "measure_growth": lambda lengths, effort: sample_record().growth,
    "import_seconds": lambda module: 0.1,
    "largest_extra": lambda numbers: ("one sequence", 0.1),
    "interleave": lambda calls, effort: [(1e-6,) * len(calls)],
    "compare": lambda ours, baseline, effort: Comparison(*[Quartiles(1.0, 2.0, 3.0)] * 3),
    "largest_difference": lambda call, a, u: 0.0,
}


def command(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_smoke_run_measures_or_names_everything(monkeypatch, tmp_path):
    picture = tmp_path / "growth.svg"
    made = command("--smoke", "--json", "--plot", picture)
    record = Record.from_dict(json.loads(made.stdout))
    assert record.smoke
    measured = [row.case for row in record.rows]
    for case in all_cases():
        assert (case.name in measured) != (case.name in record.skipped)
    for peer in PEERS:
        assert (f"peer: {peer.name}, float32" in measured) != (peer.name in record.skipped)
    rows = {row.case: row for row in record.rows}
    assert rows["one call with n = 1000, float32"].at_most == 10
    assert rows["import recfact"].at_most == 0.35
    # A power of n and a difference may be anything where calls are timed once.
    timed = [row for row in record.rows if row.unit != "power" and "beyond solve" not in row.case]
    assert all(row.measured.median > 0 for row in timed)
    # Both are backward stable, so nothing but rounding can be between them.
    assert all(row.difference < 1e-5 for row in record.rows if row.difference is not None)
    assert record.growth.numbers == run.SMOKE.lengths
    assert picture.read_bytes().startswith(b"<?xml")
    monkeypatch.setattr(run, "run", lambda plan, step: record)  # which the tables show, too
    table = command("--smoke", "--markdown").stdout.replace(r"\|", "|")
    assert [row.case for row in record.rows if f"| {row.case} |" not in table] == []
    assert "A smoke run" in command("--smoke").stdout


def test_what_comes_next_is_said_as_often_as_announced(monkeypatch):
    said = []
    for name, stub in STUBS.items():
        monkeypatch.setattr(run, name, stub)
    record = run.run(run.SMOKE, said.append)
    assert len(said) == run.steps(run.SMOKE) == len(record.rows) + len(record.skipped)


def test_all_cases_are_gone_through_again_and_again(monkeypatch):
    said, seconds = [], iter(range(1, 1000))
    monkeypatch.setattr(run, "interleave", lambda calls, effort: [(2.0 * next(seconds), 1.0)[: len(calls)]])
    monkeypatch.setattr(run, "all_cases", lambda: [*all_cases()][:2])
    rows = list(run.measure_cases(replace(run.SMOKE, passes=3), said.append, {}))
    first, second = (row.case for row in rows[:2])
    assert said == [first, second, "a short call"] * 3
    assert [row.measured.median for row in rows] == [2.0 * 4, 2.0 * 5, 2e6 * 6]  # of the rounds 1, 4, 7 and so on


def test_formats_show_the_record(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(run, "run", lambda plan, step: asked.append(plan) or sample_record())
    assert "Abacus 9" in command().stdout
    assert r"| one \| sequence | 1.25x |" in command("--markdown").stdout
    assert Record.from_dict(json.loads(command("--json").stdout)) == sample_record()
    command("--smoke", "--plot", tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert asked == [run.FULL] * 3 + [run.SMOKE]


def test_what_cannot_work_is_said_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "run", lambda plan, step: pytest.fail("measured"))
    command("--json", "--markdown", code=2)
    command("--plot", tmp_path / "growth.gif", code=2)
    command("--plot", tmp_path / "nowhere" / "growth.svg", code=1)


def test_two_threads_are_left_out_on_one_processor(monkeypatch):
    monkeypatch.setattr(run, "processors", lambda: 1)
    monkeypatch.setattr(run, "interleave", STUBS["interleave"])
    skipped = {}
    list(run.measure_cases(run.SMOKE, lambda what: None, skipped))
    assert skipped
    assert all(name.startswith("two threads") for name in skipped)
    assert set(skipped.values()) == {"needs 2 processors, and this process may use 1"}


def test_without_torch_its_call_is_left_out(monkeypatch):
    def missing():
        raise MissingExtraError("install it")

    monkeypatch.setattr(run, "tensor_calls", missing)
    skipped = {}
    assert list(run.measure_tensors(run.SMOKE, lambda what: None, skipped)) == []
    assert [*skipped.values()] == ["install it"]


def test_a_call_of_torch_is_told_by_what_it_takes_beyond(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(run, "interleave", lambda calls, effort: [(5e-5, 2e-5), (9e-5, 3e-5), (7e-5, 4e-5)])
    (row,) = run.measure_tensors(run.SMOKE, lambda what: None, {})
    assert row.measured.median == pytest.approx(30)
    assert (row.at_most, row.unit, row.against) == (60, "µs", "solve of tensors takes 30 µs")


@pytest.mark.parametrize(("module", "package"), [("jax", "jax"), ("torch", "torchlpc"), ("torchlpc", "torchlpc")])
def test_what_brings_a_missing_peer_is_a_package_of_that_name(module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(run, "PEERS", [peer for peer in run.PEERS if peer.package == package])
    skipped = {}
    assert list(run.measure_peers(run.SMOKE, lambda what: None, skipped)) == []
    assert [reason.rpartition("; install it with: pip install ")[2] for reason in skipped.values()] == [package]


def test_the_machine_is_described_without_its_name():
    found = machine.describe()
    assert found["cores"] >= 1
    assert found["packages"].keys() >= {"numpy", "scipy", "llvmlite"}
    assert not platform.node() or platform.node() not in json.dumps(found).split()
