"""Compiled kernels: each once for a GPU, kept for as long as the process lives."""

from __future__ import annotations

from threading import Lock
from typing import Any

from recfact.errors import DeviceError
from recfact.gpu.compiler import header_folders, options_of, source_of
from recfact.gpu.plans import Launch

_functions: dict[tuple[str, tuple[tuple[str, str], ...], int], Any] = {}
_lock = Lock()


def function_of(launch: Launch, device: int) -> Any:
    """Return the kernel of a launch, compiled for a GPU.

    Parameters
    ----------
    launch : Launch
        Of which the kernel and its macros count.
    device : int
        Number of the GPU, the current one.

    Returns
    -------
    callable
        One of CuPy's kernels, called with grid, block, arguments and ``shared_mem``.

    Raises
    ------
    DeviceError
        If CUDA's compiler doesn't take the kernel; with what it says.
    """
    key = launch.kernel, launch.macros, device
    with _lock:  # who waits for it finds the kernel compiled
        if key not in _functions:
            _functions[key] = _compiled(launch)
        return _functions[key]


def _compiled(launch: Launch) -> Any:
    import cupy

    series, _ = cupy.cuda.nvrtc.getVersion()
    folders = (f"-I{folder}" for folder in header_folders(series))
    module = cupy.RawModule(code=source_of(launch.kernel), options=(*options_of(launch), *folders), backend="nvrtc")
    try:
        return module.get_function(launch.kernel)
    except cupy.cuda.compiler.CompileException as error:
        raise DeviceError(
            f"CUDA's compiler {series} must take the kernel {launch.kernel} with the options "
            f"{' '.join(error.options)}, and says:\n{error.get_message()}\nPlease report this with the GPU and the "
            "versions of CuPy and CUDA, as `recfact gpu` prints them"
        ) from error
