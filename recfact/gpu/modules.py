"""Compiled kernels. Each is compiled once for a GPU and kept for the life of the process."""

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
        The launch. Only its kernel and its macros count.
    device : int
        Number of the GPU, the current one.

    Returns
    -------
    callable
        A CuPy kernel, to be called with grid, block, arguments and ``shared_mem``.

    Raises
    ------
    DeviceError
        If CUDA's compiler doesn't take the kernel. The text has the compiler's message.
    """
    key = launch.kernel, launch.macros, device
    with _lock:  # a thread that waited for the lock finds the kernel compiled
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
            f"CUDA's compiler {series} must compile the kernel {launch.kernel} with the options "
            f"{' '.join(error.options)}, but says:\n{error.get_message()}\nPlease report this with the GPU and the "
            "versions of CuPy and CUDA, as `recfact gpu` prints them"
        ) from error
