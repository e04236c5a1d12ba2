"""`recfact gpu`: what it tells of a machine, and its exit codes."""

from __future__ import annotations

import json
import sys

import pytest
from gpu import stand_in
from typer.testing import CliRunner

import recfact
from recfact.cli.app import app
from recfact.gpu import compiler


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["gpu", *arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def gpu(machine, monkeypatch):
    """A GPU with the numbers of an H100 (SXM): 3.35 TB/s, by its clock of 2.619 GHz and its 5120 lines."""
    numbers = {
        "MultiProcessorCount": 132,
        "ClockRate": 1_755_000,
        "MemoryClockRate": 2_619_000,
        "GlobalMemoryBusWidth": 5120,
    }
    monkeypatch.setattr(stand_in.Device, "attributes", numbers)
    monkeypatch.setattr(sys.modules["cupy"], "__version__", "14.2.0", raising=False)
    return machine


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("recfact.gpu.machine.why_unavailable", lambda: "the driver shows no GPU")
    monkeypatch.setattr("recfact.gpu.machine.driver_version", lambda: 0)
    monkeypatch.setitem(sys.modules, "cupy", None)


def test_without_anything_it_says_what_to_do(no_gpu):
    printed = " ".join(run(code=3).stdout.split())
    assert "No GPU: the driver shows no GPU " in printed
    assert "CuPy not found" in printed
    told = json.loads(run("--json", code=3).stdout)
    assert told["available"] is False
    assert told["reason"] == "the driver shows no GPU"
    assert told["versions"] == {
        "recfact": recfact.__version__,
        "CuPy": None,
        "CUDA of the driver": None,
        "CUDA of the compiler": None,
    }
    assert (told["gpus"], told["faults"]) == ([], [])


def test_a_gpu_and_its_limits(gpu):
    told = json.loads(run("--json").stdout)
    assert told["available"] is True
    assert told["versions"]["CuPy"] == "14.2.0"
    assert told["versions"]["CUDA of the driver"] == "13.0"
    assert told["versions"]["CUDA of the compiler"] == "13.0"
    (shown,) = told["gpus"]
    assert shown["capability"] == [9, 0]
    assert shown["bandwidth"] == 2 * 2.619e9 * 5120 / 8
    moved = 2 * 128 * 8192 * (16 + 16 + 1)
    assert shown["least_seconds"] == moved / shown["bandwidth"]
    assert shown["instructions_per_kib"] == pytest.approx(132 * 4 * 1.755e9 / (shown["bandwidth"] / 1024), rel=1e-15)
    assert set(gpu.compiled) == {"b2p", "sweep", "chain", "sliding"}
    printed = " ".join(run().stdout.split())
    assert "Solves can run on this machine's GPU." in printed
    assert "0: stand-in 9.0 2 GiB 3352 GB/s 20.6 µs 283 yes" in printed


def test_a_gpu_whose_compiler_fails(gpu):
    gpu.compiler_log = "error: no such header"
    assert "error: no such header" in run(code=1).stdout
    (fault,) = json.loads(run("--json", code=1).stdout)["faults"]
    assert fault.startswith("GPU 0: ")


def test_a_gpu_that_is_too_old_beside_one_that_is_not(gpu, monkeypatch):
    gpu.devices = 2
    monkeypatch.setattr("recfact.gpu.machine.why_unavailable", lambda number=0: "too old" if number == 1 else None)
    assert [shown["reason"] for shown in json.loads(run("--json").stdout)["gpus"]] == [None, "too old"]
    assert {device for _, _, device in compiler._functions} == {0}
