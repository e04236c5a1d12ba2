"""The requirements of a solve on a GPU, and one sentence on what is missing."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recfact.checks import positive_integer
from recfact.errors import DeviceError, shown
from recfact.gpu.compiler import header_folders

if TYPE_CHECKING:
    from types import ModuleType

SERIES = {13: 580, 12: 525}  # each series of CUDA with an extra, and the first driver for Linux that takes it
LEAST_CAPABILITY = (7, 5)
RELEASE_BYTES = 80  # that the name of a driver's release takes at most, by NVML
BROKEN = (ImportError, AttributeError, OSError, RuntimeError)  # the errors that importing an incomplete CuPy raises
# The headers that the kernels include, with the extra of cuda-toolkit and the package that bring them. Those of CUDA's
# C++ library (<nv/target>) aren't among them: compiled at run time, these include none of it, from CUDA 12.0 to 13.5.
HEADERS = {
    "cuda_fp16.h": {13: ("cudart", "nvidia-cuda-runtime"), 12: ("cudart", "nvidia-cuda-runtime-cu12")},
    "mma.h": {13: ("cudart", "nvidia-cuda-runtime"), 12: ("cudart", "nvidia-cuda-runtime-cu12")},
    "crt/mma.h": {13: ("crt", "nvidia-cuda-crt"), 12: ("nvcc", "nvidia-cuda-nvcc-cu12")},
}


def why_unavailable(device: int | None = None) -> str | None:
    """Say what is missing for solves on a GPU.

    It looks for CuPy, the driver, the GPU, CUDA's compiler and its headers, in this order. It imports CuPy if that is
    installed. It compiles nothing; ``recfact gpu`` does.

    Parameters
    ----------
    device : int, optional
        Number of the GPU, by default CuPy's current one.

    Returns
    -------
    str or None
        One sentence on what is missing and how to get it. None if nothing is missing.

    Raises
    ------
    OptionTypeError, OptionError
        If `device` isn't an integer of at least 0.

    Examples
    --------
    >>> isinstance(why_unavailable(), str | None)
    True
    """
    if device is not None:
        device = positive_integer(device, "device", least=0)
    try:
        import cupy

        cupy.cuda  # noqa: B018  # missing from what an uninstalled CuPy may leave behind
    except BROKEN as error:
        if isinstance(error, ImportError) and error.name == "cupy":
            return _without_cupy(driver_version())
        return f"the GPU engine needs CuPy, which is installed but can't be imported: {error.__cause__ or error}"
    return _driver_fault(cupy) or _device_fault(cupy, device) or compiler_fault(cupy)


@cache
def require(device: int | None = None) -> None:
    """Raise DeviceError with the text of `why_unavailable`. Once nothing is missing, this isn't looked up again.

    Raises
    ------
    DeviceError
        If solves on this GPU aren't possible.
    """
    reason = why_unavailable(device)
    if reason is not None:
        raise DeviceError(reason)


def current_gpu() -> int:
    """Return the number of CuPy's current GPU, even if solves can't run on it.

    Raises
    ------
    DeviceError
        If there is no CuPy, or if it finds no GPU. The text is that of `why_unavailable`.
    """
    try:
        import cupy

        number: int = cupy.cuda.runtime.getDevice()
    except BROKEN as error:  # CUDA's errors are RuntimeErrors
        raise DeviceError(why_unavailable() or str(error)) from error
    return number


def _install(series: int) -> str:
    """Return the command that installs the packages of recfact's extra for a series."""
    known = _known(series)
    return f'pip install "cupy-cuda{known}x>=14" {install_compiler(known)}'


def install_compiler(series: int, *more: str) -> str:
    """Return the requirement for pip with CUDA's compiler, the headers that it needs, and `more` of the toolkit."""
    headers = (packages[series][0] for packages in HEADERS.values())
    extras = ",".join(dict.fromkeys(("nvrtc", *headers, *more)))
    return f'"cuda-toolkit[{extras}]=={series}.*"'


def _known(series: int) -> int:
    """Return the series of CUDA whose packages have the same names as those of `series`."""
    return min(series, max(SERIES))


def _series_of(driver: int) -> int | None:
    """Return the newest series of CUDA with an extra that a driver takes."""
    return next((series for series in SERIES if driver >= 1000 * series), None)


def driver_version() -> int:
    """Return the newest version of CUDA that the driver takes, 12080 for 12.8; 0 if there is no driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0


def driver_release() -> str | None:
    """Return the release of the driver, "580.95.05". None where its library for management, NVML, isn't installed."""
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        text = ctypes.create_string_buffer(RELEASE_BYTES)
        return text.value.decode() if nvml.nvmlSystemGetDriverVersion(text, RELEASE_BYTES) == 0 else None
    finally:
        nvml.nvmlShutdown()


def _without_driver(series: int) -> str:
    known = _known(series)
    return (
        "no driver for an NVIDIA GPU is installed: get it from NVIDIA or your system's packages, "
        f"{SERIES[known]} or newer for CUDA {known}"
    )


def _without_cupy(driver: int) -> str:
    if driver == 0:
        return f"{_without_driver(13)}, and then {_install(13)}"
    series = _series_of(driver)
    if series is None:
        return _old_driver(driver)
    return f"the GPU engine needs CuPy, which isn't installed: {_install(series)}"


def _old_driver(driver: int) -> str:
    return (
        f"the driver of the GPU takes CUDA up to {version_text(driver)} only: update it to {SERIES[12]} or newer for "
        f"CUDA 12, to {SERIES[13]} or newer for CUDA 13, and then {_install(13)}"
    )


def version_text(number: int) -> str:
    """Return a version of CUDA in the form that people write.

    Examples
    --------
    >>> version_text(12080)
    '12.8'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_fault(cupy: ModuleType) -> str | None:
    if cupy.cuda.runtime.is_hip:
        return "the GPU engine runs on NVIDIA GPUs, and this CuPy is built for AMD's"
    driver, built = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion() // 1000
    if driver == 0:
        return _without_driver(built)
    series = _series_of(driver)
    if series is None:
        return _old_driver(driver)
    if driver < 1000 * built:
        return (
            f"the driver of the GPU takes CUDA up to {version_text(driver)}, and CuPy is built for CUDA {built}: "
            f"pip uninstall cupy-cuda{built}x, and then {_install(series)}; or update the driver to "
            f"{SERIES[_known(built)]} or newer"
        )
    return None


def _device_fault(cupy: ModuleType, device: int | None) -> str | None:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return f"no GPU can be used, because the driver says: {error}"
    if count == 0:
        return "the driver shows no GPU: see whether nvidia-smi lists one, and what CUDA_VISIBLE_DEVICES is set to"
    number = runtime.getDevice() if device is None else device
    if number >= count:
        there = "GPU 0 only" if count == 1 else f"GPUs 0 to {count - 1}"
        return f"the driver shows {there}, got device {shown(number)}: pass one of these, or see CUDA_VISIBLE_DEVICES"
    properties = runtime.getDeviceProperties(number)
    capability = properties["major"], properties["minor"]
    if capability < LEAST_CAPABILITY:
        name = properties["name"].decode()
        return (
            f"GPU {number} ({name}) has compute capability {capability[0]}.{capability[1]}, and the GPU engine needs "
            f"{LEAST_CAPABILITY[0]}.{LEAST_CAPABILITY[1]}: a GPU of the Turing generation (2018) or a newer one"
        )
    return None


def compiler_fault(cupy: ModuleType) -> str | None:
    """Say what CuPy lacks to compile kernels, or return None. This needs no GPU."""
    built = cupy.cuda.runtime.runtimeGetVersion() // 1000
    try:
        version = cupy.cuda.nvrtc.getVersion()
    except RuntimeError:  # CuPy loads the library now
        return f"the GPU engine needs CUDA's compiler (NVRTC), which isn't installed: {_install(built)}"
    series, minor = version
    if series != built:
        return f"CuPy is built for CUDA {built}, and finds the compiler of CUDA {series}.{minor}: {_install(built)}"
    folders = search_folders(cupy, series)
    missing = [header for header in HEADERS if not any((folder / header).exists() for folder in folders)]
    if missing:
        extras, packages = zip(*(HEADERS[header][_known(series)] for header in missing), strict=True)
        return (
            f"the GPU engine needs CUDA's header {missing[0]} of {packages[0]}, which isn't installed: "
            f'pip install "cuda-toolkit[{",".join(dict.fromkeys(extras))}]=={series}.{minor}.*"'
        )
    return None


def search_folders(cupy: Any, series: int) -> tuple[Path, ...]:
    """Return the folders in which CuPy's compiler finds CUDA's headers: those of packages, and of a toolkit."""
    toolkit = cupy.cuda.get_cuda_path()
    return (*header_folders(series), *(() if toolkit is None else (Path(toolkit) / "include",)))
