"""`recfact gpu`: what it tells of a machine and of the figures, and its exit codes."""

from __future__ import annotations

import json
import sys

import pytest
from gpu import stand_in
from gpu.cases import need_tools
from typer.testing import CliRunner

import recfact
from recfact.cli.app import app
from recfact.errors import MissingExtraError
from recfact.gpu import figures, modules, nvrtc
from recfact.gpu.examples import TARGETS, kinds
from recfact.gpu.figures import Figure
from recfact.gpu.plans import Device


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


@pytest.fixture
def no_compiler(monkeypatch):
    nvrtc.compiler.cache_clear()
    monkeypatch.setattr(nvrtc, "library_path", lambda: None)
    yield
    nvrtc.compiler.cache_clear()


@pytest.fixture
def compiled(monkeypatch):
    """A compiler that takes everything, and a list of what it was given."""
    given = []

    def compile_launch(launch, capability):
        given.append((launch, capability))
        return b"", ""

    monkeypatch.setattr("recfact.gpu.machine.compiler", lambda: nvrtc.Compiler(None, (13, 5)))
    monkeypatch.setattr("recfact.gpu.machine.compile_launch", compile_launch)
    return given


def test_without_anything_it_says_what_to_do(no_gpu, no_compiler):
    printed = " ".join(run(code=3).stdout.split())
    assert "No GPU: the driver shows no GPU " in printed
    assert 'pip install "cuda-toolkit[nvrtc,cudart,crt]==13.*" ' in f"{printed} "  # what is copied ends here
    assert "CuPy not there" in printed
    told = json.loads(run("--json", code=3).stdout)
    assert told["available"] is False
    assert told["reason"] == "the driver shows no GPU"
    assert told["versions"] == {
        "recfact": recfact.__version__,
        "CuPy": None,
        "CUDA of the driver": None,
        "CUDA of the compiler": None,
    }
    assert (told["gpus"], told["compiled"], told["faults"]) == ([], {}, [])
    assert told["unchecked"] in printed


def test_every_kind_is_compiled_for_every_target(no_gpu, compiled):
    told = json.loads(run("--json", code=3).stdout)
    assert told["versions"]["CUDA of the compiler"] == "13.5"
    assert told["compiled"] == {f"sm_{major}{minor}": dict.fromkeys(kinds()) for major, minor in TARGETS}
    assert [capability for _, capability in compiled] == [target for target in TARGETS for _ in kinds()]
    assert all(launch in kinds(Device(target, 132)).values() for launch, target in compiled)
    assert "sm_120 yes yes" in " ".join(run(code=3).stdout.split())


@pytest.mark.parametrize("warning", [True, False])
def test_what_does_not_compile_is_shown(no_gpu, compiled, monkeypatch, warning):
    def compile_launch(launch, capability):
        if launch.kernel != "chain" or capability != (9, 0):
            return b"", ""
        if warning:
            return b"", "chain.cu(3): unused variable"
        raise nvrtc.CompileError("chain.cu(3): unused variable")

    monkeypatch.setattr("recfact.gpu.machine.compile_launch", compile_launch)
    printed = run(code=1).stdout
    assert [line.split()[0] for line in printed.splitlines() if " NO " in line] == ["sm_90"]
    assert "sm_90: chain.cu(3): unused variable" in printed
    assert json.loads(run("--json", code=1).stdout)["compiled"]["sm_90"]["chain"] == "chain.cu(3): unused variable"


def test_a_gpu_and_its_limits(gpu, compiled):
    told = json.loads(run("--json").stdout)
    assert told["available"] is True
    assert told["versions"]["CuPy"] == "14.2.0"
    assert told["versions"]["CUDA of the driver"] == "13.0"
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


def test_a_gpu_whose_compiler_fails(gpu, compiled):
    gpu.compiler_log = "error: no such header"
    assert "error: no such header" in run(code=1).stdout
    (fault,) = json.loads(run("--json", code=1).stdout)["faults"]
    assert fault.startswith("GPU 0: ")


def test_a_toolkit_instead_of_packages_is_no_fault(gpu, no_compiler):
    told = json.loads(run("--json").stdout)
    assert told["versions"]["CUDA of the compiler"] == "13.0"
    assert told["compiled"] == {}
    assert "among the installed packages" in told["unchecked"]


def test_a_gpu_that_is_too_old_beside_one_that_is_not(gpu, compiled, monkeypatch):
    gpu.devices = 2
    monkeypatch.setattr("recfact.gpu.machine.why_unavailable", lambda number=0: "too old" if number == 1 else None)
    assert [shown["reason"] for shown in json.loads(run("--json").stdout)["gpus"]] == [None, "too old"]
    assert {device for _, _, device in modules._functions} == {0}


def raising():
    raise MissingExtraError("no emulator here")


REACHED = Figure("bytes read", "b2p", "<=", 1.05, "emulator", lambda: 1.03125)
MISSED = Figure("registers", "chain", "<=", 96, "machine code", lambda: 128.0)
UNCOUNTED = Figure("bytes written", "b2p", "=", 1, "emulator", raising)


@pytest.mark.parametrize(("asked", "code"), [([REACHED], 0), ([REACHED, UNCOUNTED], 0), ([REACHED, MISSED], 1)])
def test_figures_and_exit_codes(monkeypatch, asked, code):
    monkeypatch.setattr(figures, "figures", lambda: asked)
    printed = " ".join(run("--check", code=code).stdout.split())
    assert "bytes read b2p <= 1.05 1.031 yes emulator" in printed
    assert ("registers chain <= 96 128 NO machine code" in printed) == (MISSED in asked)
    assert ("not counted emulator" in printed) == (UNCOUNTED in asked)
    assert ("Not counted: no emulator here." in printed) == (UNCOUNTED in asked)
    told = json.loads(run("--check", "--json", code=code).stdout)
    assert told["source"]["sources"] == figures.digest()
    assert told["figures"][0] == {
        "figure": "bytes read",
        "of": "b2p",
        "relation": "<=",
        "asked": 1.05,
        "counted": 1.03125,
        "holds": True,
        "by": "emulator",
        "missing": None,
    }
    assert [one["counted"] for one in told["figures"]] == [1.03125, None if UNCOUNTED in asked else 128][: len(asked)]
    markdown = run("--check", "--markdown", code=code).stdout
    assert "| bytes read | b2p | <= 1.05 | 1.031 | yes | emulator |" in markdown
    assert f"from sources `{figures.digest()}`" in markdown


@pytest.mark.parametrize("arguments", [["--markdown"], ["--check", "--markdown", "--json"]])
def test_markdown_goes_with_figures(arguments):
    assert "--markdown goes with --check" in " ".join(run(*arguments, code=2).output.replace("│", " ").split())


def test_the_compiler_says_what_is_wrong():
    need_tools()
    with pytest.raises(nvrtc.CompileError, match=r'kernel.cu\(1\): error: identifier "oops" is undefined'):
        nvrtc.compile_source("__global__ void kernel() { oops; }", ("-arch=sm_90",))
