"""What is missing for solves on a GPU: found in fake packages on disk, and said with the command that helps."""

from __future__ import annotations

import sys
from configparser import ConfigParser
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from recfact.errors import DeviceError, OptionError, OptionTypeError
from recfact.gpu import availability
from recfact.gpu.availability import current_gpu, require, why_unavailable
from recfact.gpu.compiler import header_folders
from tools.gpu.machine_code import DISASSEMBLERS

CUPY = """
from types import SimpleNamespace

class CUDARuntimeError(RuntimeError):
    pass

def raising(error):
    def call(*_):
        raise error
    return call

DEVICES = {devices}
runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    is_hip={is_hip},
    driverGetVersion=lambda: {driver},
    runtimeGetVersion=lambda: {built},
    getDevice=lambda: {current},
    getDeviceCount=lambda: len(DEVICES) or raising(CUDARuntimeError("cudaErrorNoDevice: no device"))(),
    getDeviceProperties=lambda number: dict(zip(("name", "major", "minor"), DEVICES[number])),
)
nvrtc = SimpleNamespace(getVersion={compiler})
cuda = SimpleNamespace(runtime=runtime, nvrtc=nvrtc, get_cuda_path=lambda: {toolkit!r})
"""
H100 = (b"NVIDIA H100", 9, 0)
T4 = (b"Tesla T4", 7, 5)
V100 = (b"Tesla V100", 7, 0)
THERE = {
    "devices": [H100],
    "is_hip": False,
    "driver": 13000,
    "built": 13020,
    "current": 0,
    "compiler": "lambda: (13, 5)",
    "toolkit": None,
}
CUDA_13 = ("cu13/include/cuda_fp16.h", "cu13/include/mma.h", "cu13/include/crt/mma.h")
CUDA_12 = ("cuda_runtime/include/cuda_fp16.h", "cuda_runtime/include/mma.h", "cuda_nvcc/include/crt/mma.h")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages in front of all others, and without the real ones."""
    hidden = [folder for folder in sys.path if (Path(folder) / "nvidia").exists() or (Path(folder) / "cupy").exists()]
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(folder for folder in sys.path if folder not in hidden)])
    yield tmp_path
    sys.modules.pop("cupy", None)
    require.cache_clear()


def install(packages: Path, *headers: str, **cupy: object) -> None:
    """Put CuPy and headers there."""
    (packages / "cupy.py").write_text(dedent(CUPY).format(**{**THERE, **cupy}))
    for header in headers:
        path = packages / "nvidia" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("headers", "cupy"),
    [
        (CUDA_13, {}),
        (CUDA_12, {"built": 12090, "compiler": "lambda: (12, 9)"}),
        ((*CUDA_12, *CUDA_13), {"built": 12090, "compiler": "lambda: (12, 9)", "driver": 12020}),
        (CUDA_13, {"devices": [V100, T4], "current": 1}),
    ],
)
def test_nothing_is_missing(packages, headers, cupy):
    install(packages, *headers, **cupy)
    assert why_unavailable() is None
    require()


def test_a_toolkit_will_do(packages):
    toolkit = packages / "toolkit"
    for header in availability.HEADERS:
        (toolkit / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (toolkit / "include" / header).touch()
    install(packages, toolkit=str(toolkit))
    assert why_unavailable() is None


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("device", "kind", "says"),
    [
        ("0", OptionTypeError, r"device must be an integer, got '0' of type str; convert it with int\(\)"),
        (1.0, OptionTypeError, "device must be an integer, got 1.0 of type float"),
        (True, OptionTypeError, "device must be an integer, got the boolean True"),
        (-1, OptionError, "device must be at least 0, got -1; pass a larger integer"),
    ],
)
def test_a_device_is_a_number_of_a_gpu(packages, there, device, kind, says):
    if there:
        install(packages, *CUDA_13)
    with pytest.raises(kind, match=says):
        why_unavailable(device)


@pytest.mark.parametrize(("devices", "shows"), [([H100], "GPU 0 only"), ([H100, T4], "GPUs 0 to 1")])
def test_a_gpu_that_is_not_there_is_said_to_be_missing(packages, devices, shows):
    install(packages, *CUDA_13, devices=devices)
    for number in (len(devices), 10**30):
        reason = f"the driver shows {shows}, got device {number}: pass one of these, or see CUDA_VISIBLE_DEVICES"
        assert why_unavailable(number) == reason
        with pytest.raises(DeviceError, match=reason):
            require(number)
    assert why_unavailable(np.int64(len(devices) - 1)) is None


INSTALL_12 = 'pip install "cupy-cuda12x>=14" "cuda-toolkit[nvrtc,cudart,nvcc]==12.*"'
INSTALL_13 = 'pip install "cupy-cuda13x>=14" "cuda-toolkit[nvrtc,cudart,crt]==13.*"'


@pytest.mark.parametrize(
    ("headers", "cupy", "says"),
    [
        (CUDA_13, {"driver": 0}, ["no driver for an NVIDIA GPU is installed", "580 or newer for CUDA 13"]),
        (CUDA_12, {"driver": 0, "built": 12090}, ["525 or newer for CUDA 12"]),
        (CUDA_13, {"driver": 11080}, ["up to 11.8 only", "update it to 525", INSTALL_13]),
        (CUDA_13, {"driver": 12040}, ["up to 12.4", "pip uninstall cupy-cuda13x", INSTALL_12, "580 or newer"]),
        (CUDA_13, {"devices": []}, ["the driver says: cudaErrorNoDevice"]),
        (CUDA_13, {"devices": [V100]}, ["GPU 0 (Tesla V100)", "compute capability 7.0", "needs 7.5"]),
        (CUDA_13, {"devices": [H100, V100], "current": 1}, ["GPU 1 (Tesla V100)"]),
        (CUDA_13, {"is_hip": True}, ["AMD"]),
        (CUDA_13, {"compiler": "raising(RuntimeError())"}, ["compiler (NVRTC), which isn't installed", INSTALL_13]),
        (CUDA_12, {"built": 12090, "compiler": "raising(RuntimeError())"}, [INSTALL_12]),
        (CUDA_12, {"compiler": "lambda: (12, 9)"}, ["built for CUDA 13", "compiler of CUDA 12.9", INSTALL_13]),
        (CUDA_13[:2], {}, ["crt/mma.h of nvidia-cuda-crt", 'pip install "cuda-toolkit[crt]==13.5.*"']),
        (CUDA_12, {}, ["cuda_fp16.h of nvidia-cuda-runtime,", 'pip install "cuda-toolkit[cudart,crt]==13.5.*"']),
        (
            CUDA_12[:2],
            {"built": 12090, "compiler": "lambda: (12, 4)"},
            ["crt/mma.h of nvidia-cuda-nvcc-cu12", 'pip install "cuda-toolkit[nvcc]==12.4.*"'],
        ),
        ((), {"built": 14000, "driver": 14000, "compiler": "lambda: (14, 1)"}, ['"cuda-toolkit[cudart,crt]==14.1.*"']),
    ],
)
def test_what_is_missing(packages, headers, cupy, says):
    install(packages, *headers, **cupy)
    reason = why_unavailable()
    assert reason is not None
    assert "\n" not in reason
    assert [part for part in says if part not in reason] == []
    with pytest.raises(DeviceError) as error:
        require()
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("driver", "says"),
    [
        (0, ["no driver for an NVIDIA GPU is installed", INSTALL_13]),
        (11080, ["up to 11.8 only", INSTALL_13]),
        (12080, ["CuPy, which isn't installed", INSTALL_12]),
        (13000, ["CuPy, which isn't installed", INSTALL_13]),
    ],
)
def test_without_cupy_the_driver_decides_which_one(packages, monkeypatch, driver, says):
    monkeypatch.setattr(availability, "driver_version", lambda: driver)
    reason = why_unavailable()
    assert [part for part in says if part not in reason] == []


def test_the_driver_is_asked_itself(monkeypatch):
    class Driver:
        @staticmethod
        def cuDriverGetVersion(version):
            version._obj.value = 12080
            return 0

    monkeypatch.setattr(availability.ctypes, "CDLL", lambda _: Driver)
    assert availability.driver_version() == 12080
    monkeypatch.setattr(Driver, "cuDriverGetVersion", lambda version: 3)
    assert availability.driver_version() == 0

    def missing(_):
        raise OSError

    monkeypatch.setattr(availability.ctypes, "CDLL", missing)
    assert availability.driver_version() == 0


def test_the_release_of_the_driver(monkeypatch):
    called = []

    class Library:
        ready, told = 0, 0

        def nvmlInit_v2(self):  # NVML's name
            called.append("init")
            return self.ready

        def nvmlSystemGetDriverVersion(self, text, size):
            assert len(text) == size
            text.value = b"580.95.05"
            return self.told

        def nvmlShutdown(self):
            called.append("shutdown")

    library = Library()
    monkeypatch.setattr(availability.ctypes, "CDLL", lambda _: library)
    assert availability.driver_release() == "580.95.05"
    library.told = 3
    assert availability.driver_release() is None
    assert called == 2 * ["init", "shutdown"]
    library.ready = 9
    assert availability.driver_release() is None
    assert called[4:] == ["init"]

    def missing(_):
        raise OSError

    monkeypatch.setattr(availability.ctypes, "CDLL", missing)
    assert availability.driver_release() is None


def test_a_cupy_that_fails_to_import_says_why(packages):
    (packages / "cupy.py").write_text(
        "try:\n    raise ImportError('libcudart is broken')\n"
        "except ImportError as error:\n    raise ImportError('====\\nlong\\n====') from error\n"
    )
    assert why_unavailable().endswith("can't be imported: libcudart is broken")


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ("raise OSError('no such library')", "no such library"),
        ("raise RuntimeError('another NumPy')", "another NumPy"),
        ("", "has no attribute 'cuda'"),
    ],
)
def test_an_incomplete_cupy_says_why(packages, left, says):
    (packages / "cupy.py").write_text(left)
    assert "CuPy, which is installed but can't be imported: " in why_unavailable()
    assert says in why_unavailable()
    with pytest.raises(DeviceError, match=says):
        current_gpu()


def test_what_works_is_looked_up_once_and_what_does_not_again(packages, monkeypatch):
    install(packages, *CUDA_13, devices=[V100, H100])
    for _ in range(2):
        with pytest.raises(DeviceError, match="GPU 0"):
            require()
    require(1)
    monkeypatch.setattr(availability, "why_unavailable", lambda _: pytest.fail("looked up again"))
    require(1)


@pytest.mark.parametrize(
    ("series", "found"),
    [(None, ["cu13/include"]), (13, ["cu13/include"]), (12, ["cuda_runtime/include", "cuda_nvcc/include"]), (11, [])],
)
def test_headers_of_a_series(packages, series, found):
    install(packages, *CUDA_12, *CUDA_13)
    assert header_folders(series) == tuple(packages / "nvidia" / folder for folder in found)


def test_the_extras_bring_what_the_messages_say():
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    extras = {
        name: [f'"{requirement.replace(" ", "")}"' for requirement in requirements.strip().splitlines()]
        for name, requirements in setup["options.extras_require"].items()
    }
    assert f"pip install {' '.join(extras['gpu-cuda12'])}" == INSTALL_12
    assert f"pip install {' '.join(extras['gpu-cuda13'])}" == INSTALL_13
    assert extras["gpu-test"] == [availability.install_compiler(13, *DISASSEMBLERS)]
