"""Compile a kernel the first time it runs on a number type, and keep the machine code on disk.

A kernel is a function for numba whose first argument is a `Lanes` type (`recfact.cpu.numbers`) and whose other
arguments are 64-bit integers: addresses, byte strides, counts. Nothing else about an array enters, so one compilation
serves every layout.

Numba's own cache looks at the file of the kernel alone, and two processes that compile two types of one function at
once can mix up its files. Here each pair of kernel and type has files of its own, named after a stamp of all sources
of this package and of the processor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from threading import Timer
from types import FunctionType
from typing import Any

import numba
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

# Seconds: a call may stay silent for one, and importing numba has taken its part of that.
PATIENCE = 0.6

# Kernels divide without a check for zero, and C has no call for them.
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

# Messages that were written: one is enough.
SAID: set[str] = set()

# A fork while another thread compiles would leave the child with numba's lock held for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


@cache
def source_stamp() -> str:
    """Return a short text that changes with any source file of this package and with the processor."""
    text = sha256(repr(cpu_target.target_context.codegen().magic_tuple()).encode())
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            text.update(file.read_bytes())
    return text.hexdigest()[:12]


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Write `message` to stderr if the work inside takes longer than the patience of a caller, but not again."""

    def say() -> None:
        if sys.stderr is not None and message not in SAID:
            SAID.add(message)
            sys.stderr.write(f"recfact: {message}\n")

    timer = Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Kernel:
    """A function of a `Lanes` type and integers, compiled for each type when it is first asked for.

    ``kernel[lanes]`` is the compiled function; it takes the integers alone and releases the GIL while it runs.

    Parameters
    ----------
    function : function
        The source, for numba: ``function(lanes, *integers)``, returning nothing or an integer.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.compiled: dict[Any, Callable[..., Any]] = {}

    def __getitem__(self, lanes: Any) -> Callable[..., Any]:
        found = self.compiled.get(lanes)
        return self._prepare(lanes) if found is None else found

    def _prepare(self, lanes: Any) -> Callable[..., Any]:
        """Load the machine code for `lanes` from disk, or compile it."""
        if config.DISABLE_JIT:
            raise RuntimeError(
                "recfact's CPU engine consists of kernels that numba compiles, and NUMBA_DISABLE_JIT forbids that; "
                "unset it"
            )
        with global_compiler_lock:
            if lanes in self.compiled:  # by another thread, while this one waited
                return self.compiled[lanes]
            name = f"{self.function.__name__}_{lanes.name}_{source_stamp()}"
            signature = (lanes, *[numba.int64] * (self.function.__code__.co_argcount - 1))
            task = f"compiling the kernel {self.function.__name__}[{lanes.name}] for this CPU; this happens "
            try:
                entry = self._kept_on_disk(name, signature, task)
            except Exception:  # no folder to write, a full disk; an error of the source comes again
                with announced(task + "in every process, because numba can't use its cache (see NUMBA_CACHE_DIR)"):
                    entry = numba.njit(**OPTIONS)(renamed(self.function, name)).compile(signature)
            self.compiled[lanes] = partial(entry, None)
        return self.compiled[lanes]

    def _kept_on_disk(self, name: str, signature: tuple[Any, ...], task: str) -> Callable[..., Any]:
        """Load the machine code from numba's cache, or compile it and put it there, in place of damaged files."""
        dispatcher = numba.njit(cache=True, **OPTIONS)(renamed(self.function, name))
        if files := cache_files(dispatcher, name):
            try:
                return dispatcher.compile(signature)  # type: ignore[no-any-return]
            except Exception:  # numba reads a damaged file again in every process, and never replaces it
                for file in files:
                    file.unlink(missing_ok=True)
        with announced(task + "once"):
            return dispatcher.compile(signature)  # type: ignore[no-any-return]


def cache_files(dispatcher: Any, name: str) -> list[Path]:
    """Return the files of numba's cache for a dispatcher whose function is called `name`: an index, and its code."""
    folder = dispatcher.stats.cache_path
    return [] if folder is None else list(Path(folder).glob(f"*.{name}-*.nb[ic]"))


def renamed(function: FunctionType, name: str) -> FunctionType:
    """Return a copy of `function` called `name`, which is what numba names the files of its cache after."""
    copy = FunctionType(function.__code__, function.__globals__, name)
    copy.__module__ = function.__module__
    copy.__qualname__ = name
    return copy


def kernel(function: Any) -> Kernel:
    """Make `function` a kernel, as a decorator."""
    return Kernel(function)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `function` callable from kernels alone, as a decorator; its code becomes part of theirs."""
    compiled: Callable[..., Any] = numba.njit(no_cpython_wrapper=True, forceinline=True, **OPTIONS)(function)
    return compiled


def seldom(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make `function` callable from kernels that need it seldom, as a decorator: a call, apart from their loops."""
    compiled: Callable[..., Any] = numba.njit(no_cpython_wrapper=True, **OPTIONS)(function)
    return compiled
