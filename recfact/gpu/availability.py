"""What a solve on a GPU needs, and one sentence for what of it is missing."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recfact.errors import DeviceError
from recfact.gpu.compiler import header_folders

if TYPE_CHECKING:
    from types import ModuleType

SERIES = {13: 580, 12: 525}  # of CUDA that there are extras for, and the first driver for Linux that takes each
LEAST_CAPABILITY = (7, 5)
# The headers that the kernels include, directly or not, and which of cuda-toolkit's extras bring them.
HEADERS = {
    "cuda_fp16.h": {13: "cudart", 12: "cudart"},
    "mma.h": {13: "cudart", 12: "cudart"},
    "crt/mma.h": {13: "crt", 12: "nvcc"},
    "nv/target": {13: "cccl", 12: "cccl"},
}
PACKAGES = {
    "cudart": "nvidia-cuda-runtime",
    "crt": "nvidia-cuda-crt",
    "nvcc": "nvidia-cuda-nvcc-cu12",
    "cccl": "nvidia-cuda-cccl",
}


def why_unavailable(device: int | None = None) -> str | None:
    """Say what is missing for solves on a GPU.

    Looks for CuPy, the driver, the GPU, CUDA's compiler and its headers, in this order, and imports CuPy if it is
    there. Compiles nothing: ``recfact gpu`` does.

    Parameters
    ----------
    device : int, optional
        Number of the GPU; CuPy's current one by default.

    Returns
    -------
    str or None
        One sentence on what is missing and how to get it; None if nothing is.

    Examples
    --------
    >>> reason = why_unavailable()
    >>> reason is None or "GPU" in reason
    True
    """
    if find_spec("cupy") is None:
        return _without_cupy(_driver_version())
    try:
        import cupy
    except ImportError as error:
        return f"the GPU engine needs CuPy, and importing it fails: {str(error).strip().splitlines()[0]}"
    return _driver_fault(cupy) or _device_fault(cupy, device) or _compiler_fault(cupy)


@cache
def require(device: int | None = None) -> None:
    """Raise what `why_unavailable` says, unless nothing is missing; then that isn't looked up again.

    Raises
    ------
    DeviceError
        If solves on this GPU aren't possible.
    """
    reason = why_unavailable(device)
    if reason is not None:
        raise DeviceError(reason)


def _install(series: int) -> str:
    return f'pip install "recfact[gpu-cuda{series}]"'


def _series_of(driver: int) -> int | None:
    """Return the newest series of CUDA with an extra that a driver takes."""
    return next((series for series in SERIES if driver >= 1000 * series), None)


def _driver_version() -> int:
    """Return the newest version of CUDA that the driver takes, 12080 for 12.8; 0 if there is no driver."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0


def _without_driver() -> str:
    return (
        "no driver for an NVIDIA GPU is installed: get it from NVIDIA or your system's packages, "
        f"{SERIES[13]} or newer for CUDA 13"
    )


def _without_cupy(driver: int) -> str:
    if driver == 0:
        return f"{_without_driver()}, and then {_install(13)}"
    series = _series_of(driver)
    if series is None:
        return _old_driver(driver)
    return f"the GPU engine needs CuPy, which isn't installed: {_install(series)}"


def _old_driver(driver: int) -> str:
    return (
        f"the driver of the GPU takes CUDA up to {_version(driver)} only: update it to {SERIES[12]} or newer for "
        f"CUDA 12, to {SERIES[13]} or newer for CUDA 13, and then {_install(13)}"
    )


def _version(number: int) -> str:
    """Write a version of CUDA as people do.

    Examples
    --------
    >>> _version(12080)
    '12.8'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_fault(cupy: ModuleType) -> str | None:
    if cupy.cuda.runtime.is_hip:
        return "the GPU engine runs on NVIDIA GPUs, and this CuPy is built for AMD's"
    driver, built = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion() // 1000
    if driver == 0:
        return _without_driver()
    series = _series_of(driver)
    if series is None:
        return _old_driver(driver)
    if driver < 1000 * built:
        return (
            f"the driver of the GPU takes CUDA up to {_version(driver)}, and CuPy is built for CUDA {built}: "
            f"pip uninstall cupy-cuda{built}x, and then {_install(series)}; or update the driver to "
            f"{SERIES.get(built, SERIES[13])} or newer"
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
    properties = runtime.getDeviceProperties(number)
    capability = properties["major"], properties["minor"]
    if capability < LEAST_CAPABILITY:
        name = properties["name"].decode()
        return (
            f"GPU {number} ({name}) has compute capability {capability[0]}.{capability[1]}, and the GPU engine needs "
            f"{LEAST_CAPABILITY[0]}.{LEAST_CAPABILITY[1]}: a GPU of the Turing generation (2018) or a newer one"
        )
    return None


def _compiler_fault(cupy: ModuleType) -> str | None:
    built = cupy.cuda.runtime.runtimeGetVersion() // 1000
    try:
        version = cupy.cuda.nvrtc.getVersion()
    except RuntimeError:  # CuPy loads the library now
        return f"the GPU engine needs CUDA's compiler (NVRTC), which isn't installed: {_install(built)}"
    series, minor = version
    if series != built:
        return f"CuPy is built for CUDA {built}, and finds the compiler of CUDA {series}.{minor}: {_install(built)}"
    missing = missing_headers(search_folders(cupy, series))
    if missing:
        # The package that only names others keeps them all at the compiler's version.
        extras = dict.fromkeys(HEADERS[header][series] for header in missing)
        return (
            f"the GPU engine needs CUDA's header {missing[0]} of {PACKAGES[HEADERS[missing[0]][series]]}, which isn't "
            f'installed: pip install "cuda-toolkit[{",".join(extras)}]=={series}.{minor}.*"'
        )
    return None


def search_folders(cupy: Any, series: int) -> tuple[Path, ...]:
    """Return the folders in which CuPy's compiler finds headers: of installed packages, CuPy's own, of a toolkit."""
    own = Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx"
    toolkit = cupy.cuda.get_cuda_path()
    return (*header_folders(series), own, *(() if toolkit is None else (Path(toolkit) / "include",)))


def missing_headers(folders: tuple[Path, ...]) -> list[str]:
    """Return those headers that the kernels need and none of the folders has."""
    return [header for header in HEADERS if not any((folder / header).exists() for folder in folders)]
