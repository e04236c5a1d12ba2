"""Run a kernel's source on the CPU with g++ and nothing else: many cases a second, and no questions asked.

The emulator asks them, of the kernels as CUDA's compiler makes them: of every order of threads, and of each access.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recfact.gpu.compiler import options_of, source_of
from recfact.gpu.plans import Launch

HEADERS = Path(__file__).parent / "bare"
STACK_BYTES = 64 * 1024
SHARED_BYTES = 256 * 1024
KEPT = Path(__file__).parents[2] / ".pytest_cache" / "bare"
"""Where what is built stays for other processes and later runs, by a stamp of all that it is made of."""
UNSEEN = "-DRESIDENT="
"""The macro that only bounds registers, of which the CPU knows nothing: launches that differ in it share a library."""
C_INTEGERS = {"int": ctypes.c_int, "long long": ctypes.c_longlong}


def _make(library: Path, *arguments: str, text: str | None = None) -> Path:
    """Compile a library, unless that was done before."""
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")  # another process may be making it too
        flags = ["-std=c++17", "-Og", "-fPIC", "-ffp-contract=off", "-w", f"-DSTACK_BYTES={STACK_BYTES}"]
        flags.append("-U_FORTIFY_SOURCE")  # which takes a jump to another stack for a fault
        command = ["g++", "-shared", *flags, f"-I{HEADERS}", *arguments, "-o", str(made)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.replace(library)
    return library


@cache
def _folder() -> Path:
    """Return the folder of what is built, having loaded what all kernels share: the fibers.

    Its name changes with the headers, with this file, which has the options, and with the compiler.
    """
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    texts = compiler, *(path.read_text() for path in (Path(__file__), *sorted(HEADERS.iterdir())))
    folder = KEPT / sha256(repr(texts).encode()).hexdigest()[:20]
    folder.mkdir(parents=True, exist_ok=True)
    ctypes.CDLL(str(_make(folder / "fibers.so", str(HEADERS / "fibers.cpp"))), ctypes.RTLD_GLOBAL)
    return folder


@cache
def _built(kernel: str, given: str, signature: tuple[str, ...], options: tuple[str, ...]) -> Any:
    source = re.sub(
        r"extern __shared__ .* unsigned char (\w+)\[\];",
        rf"alignas(16) static unsigned char \1[{SHARED_BYTES}];",
        given,
    )
    call = ", ".join(f"*static_cast<{c_type}*>(values[{k}])" for k, c_type in enumerate(signature))
    text = (
        f'#include "cuda.h"\n{source}\n'
        f"static void called(void** values) {{ {kernel}({call}); }}\n"
        'extern "C" long long enter_kernel(void** values, int threads, long long grid) {\n'
        "    return bare::launch(called, values, threads, grid);\n}\n"
    )
    defines = [option for option in options if option.startswith("-D") and not option.startswith(UNSEEN)]
    library = _folder() / f"{kernel}_{sha256(repr((text, defines)).encode()).hexdigest()[:20]}.so"
    # What it needs is found in the process: to link the library of C++ again would take as long as to compile.
    _make(library, "-nostdlib", *defines, "-DRECFACT_EMULATOR", "-xc++", "-", text=text)
    entered = ctypes.PyDLL(str(library)).enter_kernel  # keeps other threads waiting, for all kernels share the fibers
    entered.restype = ctypes.c_longlong
    return entered


def need_compiler() -> None:
    """Skip where there is no C++ compiler."""
    if shutil.which("g++") is None:
        pytest.skip("g++ isn't installed: the kernels' source is compiled with it to run on the CPU")


def plant(monkeypatch: pytest.MonkeyPatch, kernel: str, old: str, new: str) -> None:
    """Put a fault into a kernel's source, in the one place that has this text."""
    text = source_of(kernel)
    assert text.count(old) == 1
    monkeypatch.setitem(globals(), "source_of", {kernel: text.replace(old, new)}.__getitem__)


def run_bare(launch: Launch, arrays: dict[str, np.ndarray]) -> None:
    """Run a launch on NumPy arrays in place."""
    # All bits set are NaN in every number type.
    scratch = {array.name: np.full(array.bytes, 0 if array.zeroed else 255, np.uint8) for array in launch.scratch}
    values = []
    for argument in launch.arguments:
        if isinstance(argument.value, str):
            array = arrays[argument.value] if argument.value in arrays else scratch[argument.value]
            values.append(array.ctypes.data + argument.offset)
        else:
            values.append(argument.value or 0)
    signature = tuple(argument.c_type for argument in launch.arguments)
    call_bare(launch.kernel, options_of(launch), signature, values, launch.block[0], launch.grid[0])


def call_bare(
    kernel: str, options: tuple[str, ...], signature: tuple[str, ...], values: list[int], threads: int, grid: int
) -> None:
    """Call a kernel with numbers and addresses of the types of its signature, and see that its accesses are aligned."""
    arguments = [
        ctypes.c_void_p(value) if c_type.endswith("*") else C_INTEGERS[c_type](value)
        for c_type, value in zip(signature, values, strict=True)
    ]
    pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
    misaligned = _built(kernel, source_of(kernel), signature, options)(pointers, threads, ctypes.c_longlong(grid))
    assert misaligned == 0, f"{kernel} has {misaligned} accesses that aren't aligned to their size"
