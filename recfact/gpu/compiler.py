"""Compiled kernels, each once for a GPU, and what NVRTC gets of them: one source, options, and folders of headers."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock
from typing import Any

from recfact.errors import DeviceError
from recfact.gpu.cuda_streams import check_uncaptured
from recfact.gpu.plans import Launch

LOCAL_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


@cache
def source_of(kernel: str) -> str:
    """Return the source of a kernel with its local headers in place of their includes, each once.

    NVRTC's caches don't look into headers, so a change in one wouldn't be noticed otherwise.

    Parameters
    ----------
    kernel : str
        Name of the kernel, and of its file without the suffix.

    Returns
    -------
    str
        CUDA C++; ``#line`` says which file and line each part comes from.
    """
    return _expanded(f"{kernel}.cu", set())


def _expanded(name: str, included: set[str]) -> str:
    """Return the text of a file, with the headers that aren't `included` yet."""
    included.add(name)
    lines = []
    text = (resources.files("recfact.gpu") / "kernels" / name).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = LOCAL_INCLUDE.match(line)
        if match is None:
            lines.append("" if line == "#pragma once" else line)
            continue
        if match[1] not in included:
            lines.append(_expanded(match[1], included))
        lines.append(f'#line {number + 1} "{name}"')
    return "\n".join((f'#line 1 "{name}"', *lines))


def options_of(launch: Launch) -> tuple[str, ...]:
    """Return the options that NVRTC takes for a launch, besides the target and the folders of headers.

    Products and sums are fused only where the source says so. So the CPU of the tests computes the same bits.
    """
    return ("--std=c++17", "-fmad=false", "-lineinfo", *(f"-D{name}={value}" for name, value in launch.macros))


def header_folders(series: int | None = None) -> tuple[Path, ...]:
    """Return the folders of CUDA's headers among the installed packages.

    Parameters
    ----------
    series : int, optional
        Series of CUDA, as 12 or 13. By default the newest installed one.

    Returns
    -------
    tuple of Path
        The folders in the order in which NVRTC searches them. Empty if ``mma.h`` isn't there.
    """
    spec = PathFinder.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for header in sorted(Path(root).glob("cu[0-9]*/include/mma.h"), reverse=True):
            if series is None or header.parts[-3] == f"cu{series}":
                return (header.parent,)
        if series in (None, 12) and (Path(root) / "cuda_runtime" / "include" / "mma.h").exists():
            return tuple(Path(root) / package / "include" for package in ("cuda_runtime", "cuda_nvcc"))
    return ()


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
        If CUDA's compiler doesn't take the kernel. The text has the compiler's message. Also if the kernel isn't
        compiled yet and the current stream is captured.
    """
    key = launch.kernel, launch.macros, device
    with _lock:  # a thread that waited for the lock finds the kernel compiled
        if key not in _functions:
            check_uncaptured("compiles its kernel", "do the same once before")
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
