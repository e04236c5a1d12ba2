"""`recfact bench --gpu`: its plumbing on a GPU that isn't there, and what it says without one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gpu import stand_in
from gpu.cases import described
from gpu.late_machine import numbers_at
from typer.testing import CliRunner

import recfact as rf
from recfact.cli.app import app
from recfact.gpu import benchmark, roofline, why_unavailable
from recfact.gpu.benchmark import PAPER, Row, goals
from recfact.gpu.timing import Effort
from tools.gpu.examples import HEADS, described_gradients, described_mixer

PAGE = Path(__file__).parents[2] / "docs" / "gpu" / "index.md"
NAMES = ["copy", "multiply", "Jagged(16)", "Full()", "cupy.cumsum"]


def bench(*options: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["bench", "--gpu", *options])
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def gpu(machine, monkeypatch):
    """What the benchmark asks of CuPy besides; by its clock, each call takes as many milliseconds as bytes were put."""
    cupy = sys.modules["cupy"]
    clock = SimpleNamespace(now=0.0)

    def copy(self, source, size):
        clock.now += 1
        machine.put(lambda: np.copyto(stand_in.raw(self.ptr, size), stand_in.raw(source.ptr, size)))

    def counted(function):
        def call(*arrays, out):
            clock.now += 3
            out._write(function, *arrays)

        return call

    def fill(self, value):
        machine.put(lambda place=self.place: numbers_at(*place).fill(value))

    monkeypatch.setattr(stand_in.MemoryPointer, "copy_from_device_async", copy, raising=False)
    monkeypatch.setattr(stand_in.ndarray, "fill", fill, raising=False)
    monkeypatch.setattr(stand_in.ndarray, "nbytes", property(lambda self: self.now.nbytes), raising=False)
    monkeypatch.setattr(cupy, "multiply", counted(lambda a, u: a * u), raising=False)
    monkeypatch.setattr(cupy, "cumsum", counted(np.cumsum), raising=False)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: end.time - start.time, raising=False)
    monkeypatch.setattr(stand_in.Event, "record", lambda self: setattr(self, "time", clock.now), raising=False)
    monkeypatch.setattr(stand_in.Event, "synchronize", lambda self: machine.wait_for(0), raising=False)

    def ticking(real):
        def call(*arrays, **options):
            clock.now += 2
            return real(*arrays, **options)

        return call

    monkeypatch.setattr(benchmark, "solve", ticking(benchmark.solve))
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    monkeypatch.setattr(benchmark, "HEADS", 4)
    monkeypatch.setattr(roofline, "HEADS", 4)
    monkeypatch.setattr(roofline, "WIDE", 2)
    for module in ("solve", "gradients", "start"):
        monkeypatch.setattr(roofline, module, ticking(getattr(roofline, module)))
    device = SimpleNamespace(name="stand-in")
    found = SimpleNamespace(gpus=(device,), versions={"CuPy": "14"}, as_dict=lambda: {"gpus": ["stand-in"]})
    monkeypatch.setattr("recfact.gpu.machine.this_machine", lambda: found)
    return machine


def test_all_is_timed_behind_copies(gpu):
    (row,) = benchmark.measure(Effort((1024,), rounds=3, calls=2, busy=1 << 10), lambda text: None)
    assert row.bytes == 2 * 4 * 1024 * (16 + 16 + 1)
    assert row.seconds == pytest.approx(dict(zip(NAMES, (1e-3, 3e-3, 2e-3, 2e-3, 3e-3), strict=True)))
    assert row.missing == {"torch.cumsum": "torch isn't installed"}
    assert {recorded.launch.kernel for recorded in gpu.launches} >= {"b2p"}


def test_the_tables_of_a_smoke_run(gpu):
    told = bench("--smoke", "--markdown")
    words = " ".join(told.split())
    # With the fractions of a copy and the paper's times.
    assert "| steps | copy | multiply | Jagged(16) | Full() | cupy.cumsum | paper |" in words
    assert "| 1024 | 1000.0 | 3000.0 (33%) | 2000.0 (50%) | 2000.0 (50%) | 3000.0 (33%) | 43.2 |" in words
    assert "Not measured: torch.cumsum" in words
    assert "A smoke run" in words
    # Goals beside what was measured.
    assert "| time of 1024 steps | Full() | < 12.0 µs | 2000.0 µs (1024 steps) | NO | 43.2 µs |" in told
    assert "| speed relative to a copy's, from 65536 steps on | Jagged(16) | >= 90.0% | not measured | - |  |" in told
    assert "| kernel | of | µs | GB/s | of a copy | paper |" in told
    assert "| backward_window | gradients of jagged:16, 4 x 1024 x 16 float32 | 2000.0 | 0 | 50% |  |" in told
    plain = bench("--smoke")
    assert "Jagged(16)" in plain
    assert "not measured" in plain


def test_the_roofline_has_each_kernel(gpu):
    found = list(roofline.measure_roofline(Effort((1024,), rounds=1, calls=1, busy=1)))
    assert [roof.kernel for roof in found if roof.solve.startswith("gates and ")] == ["b2p", "sweep"]
    # There are too few heads for `backward`.
    assert {roof.kernel for roof in found} == {"b2p", "sweep", "sliding", "chain", "backward_window"}
    assert [roof.paper for roof in found] == [None] * len(found)  # which had other heads
    jagged = next(roof for roof in found if roof.kernel == "backward_window")
    assert jagged.bytes == 4 * 1024 * 4 * (3 * 16 + 2)
    assert (jagged.speed, jagged.of_copy) == (jagged.bytes / 2e-3, 0.5)


@pytest.mark.slow
def test_the_papers_speed_stands_beside_its_solve(gpu, monkeypatch):
    monkeypatch.setattr(roofline, "cases", lambda longest: [roofline.Case("bfloat16", rf.Jagged(16), 128, 1024)])
    (roof,) = roofline.measure_roofline(Effort((1024,), rounds=1, calls=1, busy=1))
    assert roof.paper == PAPER[1024]


def test_on_a_large_gpu_the_cases_take_all_kernels():
    solved, gradients, gated = (
        [case for case in roofline.cases(1 << 19) if case.what == what]
        for what in (roofline.SOLVED, roofline.GRADIENTS, roofline.GATED)
    )
    kernels = {described(HEADS, case.heads, case.steps, 16, case.type, case.window).kernel for case in solved}
    assert kernels == {"b2p", "sweep", "sliding", "chain"}
    mixers = (described_mixer(case.heads, case.heads // 16, case.steps, 16, case.type, case.window) for case in gated)
    assert [launch.kernel for launch in mixers] == ["b2p", "sweep"]
    launches = [described_gradients(case.heads, case.steps, 16, case.type, case.window) for case in gradients]
    assert [launch.kernel for launch in launches] == ["backward", *["backward_window"] * 3]


def test_json(gpu):
    told = json.loads(bench("--smoke", "--json"))
    assert [(goal["solve"], goal["measured"], goal["met"]) for goal in told["goals"]] == [
        ("Jagged(16)", None, None),
        ("Jagged(16)", 2e-3, False),
        ("Full()", None, None),
        ("Full()", 2e-3, False),
    ]
    assert list(told["rows"][0]["seconds"]) == NAMES
    assert {"kernel", "solve", "bytes", "seconds", "copy", "paper"} == set(told["roofline"][0])
    assert told["machine"] == {"gpus": ["stand-in"]}


def test_without_a_gpu_it_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    result = CliRunner().invoke(app, ["bench", "--gpu"])
    assert result.exit_code == 3
    assert why_unavailable() in result.output


def test_no_picture_of_a_gpu():
    assert CliRunner().invoke(app, ["bench", "--gpu", "--plot", "a.svg"]).exit_code == 2


def test_the_speed_of_memory_is_one():
    row = Row(1024, 2, {"copy": 1.0, "Jagged(16)": 1.0, "Full()": 2.0}, {})
    assert (row.of_copy("Jagged(16)"), row.of_copy("Full()")) == (1, 0.5)


def test_the_papers_lengths_are_all_measured():
    assert list(benchmark.PAPER) == [1024 << k for k in range(10)]
    assert benchmark.FULL.lengths == tuple(benchmark.PAPER)


def rows(shares, seconds):
    """Return measurements of solves with these speeds by length, and of 1024 steps in so many seconds."""
    for steps, share in shares.items():
        yield Row(steps, 1, {"copy": 2e-3, "Jagged(16)": 2e-3 / share, "Full()": 4e-3}, {})
    yield Row(1024, 1, {"copy": 2e-3, "Jagged(16)": seconds, "Full()": 12e-6}, {})


def test_goals_are_met_at_the_length_that_is_furthest_from_them():
    jagged, jagged_short, full, full_short = goals(list(rows({32768: 0.1, 65536: 0.95, 131072: 0.9}, 11.9e-6)))
    assert (jagged.solve, jagged.steps, jagged.measured, jagged.met) == ("Jagged(16)", 131072, 0.9, True)
    assert jagged.paper == 2e-3 / PAPER[131072]
    assert (jagged_short.measured, jagged_short.paper, jagged_short.met) == (11.9e-6, PAPER[1024], True)
    assert (full.measured, full.met) == (0.5, False)
    assert (full_short.measured, full_short.met) == (12e-6, False)
    assert goals(list(rows({65536: 0.89}, 1.0)))[0].met is False


def test_the_page_states_the_goals():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    share, time, *same = goals([])
    assert [(goal.name, goal.asked) for goal in same] == [(goal.name, goal.asked) for goal in (share, time)]
    of = f"`{share.solve}`, `{same[0].solve}`"
    assert f"| {share.name} | {of} | >= {share.asked:.0%} | {1e6 * PAPER[1 << 16]:.0f} µs for 65536 steps |" in lines
    assert f"| {time.name} | {of} | < {1e6 * time.asked:.0f} µs | {1e6 * PAPER[1 << 10]:.1f} µs |" in lines
