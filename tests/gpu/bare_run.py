"""Run a kernel's source on the CPU with g++ and nothing else: many cases a second, and no questions asked.

The emulator asks them, of the kernels as CUDA's compiler makes them: of every order of threads, and of each access.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
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
"""Where what is built stays for other files of tests and later runs, by a stamp of all that it is made of."""
C_INTEGERS = {"int": ctypes.c_int, "long long": ctypes.c_longlong}


def _compile(*arguments: str) -> None:
    flags = ["-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-w", f"-DSTACK_BYTES={STACK_BYTES}", f"-I{HEADERS}"]
    flags.append("-U_FORTIFY_SOURCE")  # which takes a jump to another stack for a fault
    done = subprocess.run(["g++", *flags, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of what is built, with what all kernels share compiled once: the headers, and the fibers."""
    folder = tempfile.TemporaryDirectory(prefix="recfact-bare-")
    _compile("-x", "c++-header", str(HEADERS / "cuda.h"), "-o", str(Path(folder.name) / "cuda.h.gch"))
    _compile("-c", str(HEADERS / "fibers.cpp"), "-o", str(Path(folder.name) / "fibers.o"))
    return folder


@cache
def _stamp() -> str:
    """Return a text that changes with the headers, with this file, which has the options, and with the compiler."""
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    return compiler + "".join(path.read_text() for path in (Path(__file__), *sorted(HEADERS.iterdir())))


@cache
def _built(kernel: str, signature: tuple[str, ...], options: tuple[str, ...]) -> Any:
    source = re.sub(
        r"extern __shared__ .* unsigned char (\w+)\[\];",
        rf"alignas(16) static unsigned char \1[{SHARED_BYTES}];",
        source_of(kernel),
    )
    call = ", ".join(f"*static_cast<{c_type}*>(values[{k}])" for k, c_type in enumerate(signature))
    text = (
        f'#include "cuda.h"\n{source}\n'
        f"static void called(void** values) {{ {kernel}({call}); }}\n"
        'extern "C" long long enter_kernel(void** values, int threads, long long grid) {\n'
        "    bare::launch(called, values, threads, grid);\n    return bare::misaligned;\n}\n"
    )
    defines = [option for option in options if option.startswith("-D")]
    library = KEPT / f"{kernel}_{sha256(repr((_stamp(), text, defines)).encode()).hexdigest()[:20]}.so"
    if not library.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        folder = Path(_folder().name)
        path = folder / f"{library.stem}.cpp"
        path.write_text(text)
        made = library.with_suffix(f".{os.getpid()}")  # another process may be making it too
        _compile(*defines, "-DRECFACT_EMULATOR", "-shared", str(path), str(folder / "fibers.o"), "-o", str(made))
        made.replace(library)
    entered = ctypes.CDLL(str(library)).enter_kernel
    entered.restype = ctypes.c_longlong
    return entered


def need_compiler() -> None:
    """Skip where there is no C++ compiler."""
    if shutil.which("g++") is None:
        pytest.skip("g++ isn't installed: the kernels' source is compiled with it to run on the CPU")


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
    misaligned = _built(kernel, signature, options)(pointers, threads, ctypes.c_longlong(grid))
    assert misaligned == 0, f"{kernel} has {misaligned} accesses that aren't aligned to their size"
