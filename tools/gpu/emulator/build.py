"""The emulator's engine: C++, built by g++ once for all programs."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from recfact.errors import MissingExtraError

SOURCES = Path(__file__).parent / "engine"
COMPILER = shutil.which(os.environ.get("CXX", "g++"))
OPTIONS = ("-std=c++20", "-O2", "-fPIC", "-fwrapv", "-ffp-contract=off")


@cache
def library() -> ctypes.CDLL:
    """Build the engine, unless that was done before, and load it.

    Raises
    ------
    MissingExtraError
        If there is no g++.
    """
    if COMPILER is None:
        raise MissingExtraError("the emulator is built by g++, and g++ isn't installed")
    native = ("-march=native",) if platform.machine() in ("x86_64", "AMD64") else ()
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
    files = sorted(SOURCES.iterdir())
    texts = [version, platform.node(), *OPTIONS, *(file.read_text(encoding="utf-8") for file in files)]
    name = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]
    folder = Path(tempfile.gettempdir()) / f"recfact-emulator-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{name}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            parts = [Path(temporary) / f"{file.stem}.o" for file in files if file.suffix == ".cpp"]
            sources = [SOURCES / f"{part.stem}.cpp" for part in parts]
            compiling = [
                subprocess.Popen([COMPILER, *OPTIONS, *native, "-c", str(source), "-o", str(part)])
                for source, part in zip(sources, parts, strict=True)
            ]
            failed = sum(process.wait() != 0 for process in compiling)
            if failed:
                raise RuntimeError("g++ doesn't take the emulator's engine: see what it wrote")
            built = Path(temporary) / "engine.so"
            subprocess.run([COMPILER, "-shared", *map(str, parts), "-o", str(built)], check=True)
            built.replace(target)
    loaded = ctypes.CDLL(str(target))
    loaded.emulator_sizes.restype = loaded.emulator_run.restype = ctypes.c_char_p
    return loaded


@cache
def operand_sizes(name: str) -> tuple[int, ...] | None:
    """Return the bytes of an instruction's operands; None if the emulator doesn't have it."""
    sizes = library().emulator_sizes(name.encode())
    return None if sizes is None else tuple(map(int, sizes.split()))
