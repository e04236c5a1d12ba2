"""Compile a kernel the first time it runs on a number type, and keep the machine code on disk.

A kernel is a function (`recfact.cpu.language`). Its first argument is a `Lanes` type (`recfact.cpu.numbers`). Its other
arguments are 64-bit integers: addresses, byte strides and counts. A kernel knows nothing else of an array, so one
compilation serves every layout.

Each pair of kernel and type has a file of its own. Its name contains a stamp of all sources of this package, of the
processor and of the layout of Python's objects. A damaged file is written anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from threading import RLock, Timer
from types import FunctionType
from typing import Any

from recfact.cpu.language import Helper
from recfact.cpu.machine_code import LAYOUT, loaded, object_code, processor
from recfact.cpu.types import int64

FOLDER = "RECFACT_CACHE_DIR"
"""The environment variable that names another folder for machine code."""

CHECK = 32  # bytes of a file before its code; they say whether the file is whole

# Seconds without a message. A call may stay silent for one second, and the import has used a part of it.
PATIENCE = 0.6

# What this process has said about compiling. Once is enough.
SAID: list[str] = []

ONE_AT_A_TIME = RLock()

# A fork while another thread compiles would leave the child with a lock that is held for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ONE_AT_A_TIME.acquire, after_in_parent=ONE_AT_A_TIME.release, after_in_child=ONE_AT_A_TIME.release
    )


@cache
def source_stamp() -> str:
    """Return a short text that changes with every source file of this package, the processor and Python's objects."""
    here = processor()
    text = sha256(f"{here.triple} {here.name} {here.features} {LAYOUT}".encode())
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            text.update(file.read_bytes())
    return text.hexdigest()[:12]


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Write `message` to stderr, once in a process, if the work inside takes longer than a caller's patience."""

    def say() -> None:
        if sys.stderr is not None and not SAID:
            SAID.append(message)
            sys.stderr.write(f"recfact: {message}\n")

    timer = Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Kernel:
    """A function of a `Lanes` type and integers. It is compiled for each type on first use.

    ``kernel[lanes]`` is the compiled function. It takes only the integers, and releases the GIL while it runs.

    Parameters
    ----------
    function : function
        The source: ``function(lanes, *integers)``. It returns nothing or an integer.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.compiled: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, lanes: Any) -> Callable[..., Any]:
        found = self.compiled.get(lanes.name)
        return self._prepare(lanes) if found is None else found

    def _prepare(self, lanes: Any) -> Callable[..., Any]:
        """Load the machine code for `lanes` from disk, or compile it and put it there."""
        with ONE_AT_A_TIME:
            if lanes.name in self.compiled:  # another thread compiled it while this one waited
                return self.compiled[lanes.name]
            name = f"{self.function.__name__}_{lanes.name}"
            file = f"{name}_{source_stamp()}.code"
            entry = from_disk(file, name)
            if entry is None:
                folder = folder_to_write()
                each = "number type and kind of window"
                often = f"once for each {each}" if folder else f"in every process (see {FOLDER})"
                kinds = [lanes, *[int64] * (self.function.__code__.co_argcount - 1)]
                with announced(f"compiling for this processor may take some seconds, {often}"):
                    code = object_code(self.function, kinds)
                if folder:
                    to_disk(folder / file, code)
                entry = loaded(code, name)
            self.compiled[lanes.name] = entry
        return entry


def folders() -> list[Path]:
    """Return the folders in which machine code may be kept, the best one first."""
    if named := os.environ.get(FOLDER):
        return [Path(named)]
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path("~/.cache").expanduser()
    return [Path(str(files(__package__))) / "__pycache__", Path(home) / "recfact"]


def folder_to_write() -> Path | None:
    """Return the first folder that is writable, or None."""
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def from_disk(file: str, name: str) -> Callable[..., Any] | None:
    """Return the kernel whose machine code is in a file. None if there is no file, or if it is damaged."""
    for folder in folders():
        try:
            kept = (folder / file).read_bytes()
        except OSError:
            continue
        check, code = kept[:CHECK], kept[CHECK:]
        if sha256(code).digest() == check:
            return loaded(code, name)
    return None


def to_disk(file: Path, code: bytes) -> None:
    """Write machine code to a file, completely or not at all."""
    try:
        descriptor, written = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(sha256(code).digest() + code)
        Path(written).replace(file)
    except OSError:  # such as a full disk
        return


def kernel(function: Any) -> Kernel:
    """Make `function` a kernel, as a decorator."""
    return Kernel(function)


def helper(function: Any) -> Any:
    """Make `function` callable from kernels only, as a decorator. Its code becomes part of theirs."""
    return Helper(function)


def apart(function: Any) -> Any:
    """Make `function` a separate function that kernels call, as a decorator. It isn't part of their code."""
    return Helper(function, apart=True)
