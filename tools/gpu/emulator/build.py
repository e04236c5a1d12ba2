"""From CUDA source to a shared library of the emulator, built once for each source, macros and compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
COMPILER = shutil.which(os.environ.get("CXX", "g++")) if platform.system() == "Linux" else None
"""Path of the compiler, or None where there is none (the fibers and the shared-memory ranges are Linux's)."""

OPTIONS = ("-std=c++17", "-O2", "-fPIC", "-fwrapv", "-fvisibility=hidden", "-ffp-contract=off", "-fno-extern-tls-init")
WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-parameter", "-Wno-unused-function")
DYNAMIC_SHARED = re.compile(r"extern\s+__shared__[^;]*?(\w+)\s*\[\s*\]\s*;")
ROOM = 232448  # of dynamic shared memory, as in shared_range.h


class BuildError(Exception):
    """g++ doesn't take the source; the message is its output."""


@dataclass(frozen=True)
class Library:
    """A built kernel, and the sizes of its parameters (-8 for a pointer)."""

    path: Path
    handle: ctypes.CDLL
    parameter_sizes: tuple[int, ...]


def _machine_options() -> tuple[str, ...]:
    return ("-march=native",) if platform.machine() in ("x86_64", "AMD64") else ()


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"{' '.join(command)}\n{result.stderr}")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


@cache
def _sources() -> str:
    """Return all that the engine is made of, with the compiler and the processor it is built for."""
    compiler = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True, check=True).stdout
    processor = Path("/proc/cpuinfo")
    flags = "".join(
        line for line in processor.read_text().splitlines()[:40] if line.startswith(("model name", "flags"))
    )
    files = sorted((*HERE.glob("include/*.h"), *HERE.glob("engine/*")))
    return compiler + flags + "".join(file.name + file.read_text(encoding="utf-8") for file in files)


def _folder(cache_folder: Path | None) -> Path:
    folder = cache_folder or Path(tempfile.gettempdir()) / f"recfact-emulator-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _engine(folder: Path) -> Path:
    """Return the engine's object file."""
    target = folder / f"engine-{_digest(_sources(), *OPTIONS, *WARNINGS)}.o"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            whole = Path(temporary) / "engine.cpp"
            parts = sorted(HERE.glob("engine/*.cpp"))
            whole.write_text("".join(f'#include "{part}"\n' for part in parts), encoding="utf-8")
            built = Path(temporary) / "engine.o"
            _run(
                [
                    str(COMPILER),
                    *OPTIONS,
                    *WARNINGS,
                    *_machine_options(),
                    *_include(),
                    "-c",
                    str(whole),
                    "-o",
                    str(built),
                ]
            )
            built.replace(target)
    return target


def _include() -> tuple[str, ...]:
    return (f"-I{HERE / 'include'}", f"-I{HERE / 'engine'}")


def _footer(source: str, kernel: str) -> str:
    """Return what is compiled behind the kernel: its entry, and where its shared arrays are."""
    lines = [
        '#line 1 "entry"',
        f"EMULATOR_ENTRY({kernel})",
        "thread_local volatile unsigned char emulator_anchor;",
        "void emulator::touch_shared() { emulator_anchor = 0xff; }",
    ]
    dynamic = DYNAMIC_SHARED.search(source)
    if dynamic is None:
        lines.append("void* emulator::dynamic_shared_begin() { return nullptr; }")
    else:
        name = dynamic[1]
        lines += [" ".join(dynamic[0].split()), f"void* emulator::dynamic_shared_begin() {{ return {name}; }}"]
        lines.append(
            f'asm(".pushsection .tbss,\\"awT\\",@nobits\\n.globl {name}\\n.hidden {name}\\n.type {name}, @object\\n'
            f'.balign 1024\\n{name}: .zero {ROOM}\\n.size {name}, {ROOM}\\n.popsection");'
        )
    return "\n".join(lines) + "\n"


@cache
def build(
    source: str, kernel: str, macros: tuple[tuple[str, str], ...] = (), cache_folder: Path | None = None
) -> Library:
    """Build a kernel for the emulator.

    Parameters
    ----------
    source : str
        CUDA C++, as NVRTC would take it.
    kernel : str
        Name of an ``extern "C" __global__`` function in it.
    macros : tuple of (name, value)
        Given to the compiler.
    cache_folder : Path, optional
        Where libraries are kept; a folder of the system's temporary one by default.

    Raises
    ------
    BuildError
        If the compiler doesn't take it.
    """
    folder = _folder(cache_folder)
    defines = ["-DRECFACT_EMULATOR=1", *(f"-D{name}={value}" for name, value in macros)]
    target = folder / f"{kernel}-{_digest(source, kernel, *defines, _sources(), *OPTIONS, *WARNINGS)}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            whole = Path(temporary) / f"{kernel}.cpp"
            whole.write_text(source + "\n" + _footer(source, kernel), encoding="utf-8")
            built = Path(temporary) / "kernel.so"
            command = [str(COMPILER), *OPTIONS, *WARNINGS, *_machine_options(), *_include(), *defines]
            command += ["-include", "emulator.h", "-shared", "-Wl,-Bsymbolic", str(whole), str(_engine(folder))]
            _run([*command, "-o", str(built)])
            built.replace(target)
    handle = ctypes.CDLL(str(target))
    handle.emulator_run.restype = ctypes.c_char_p
    sizes = (ctypes.c_int * 256)()
    count = handle.emulator_parameters(sizes)
    return Library(target, handle, tuple(sizes[:count]))
