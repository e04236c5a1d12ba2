"""Arrays between pages that nobody may touch, and cases that are run where touching one ends no more than a child."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]

PAGE = mmap.PAGESIZE
NO_ACCESS = 0  # PROT_NONE


class Fenced:
    """Memory of whole pages, with a page before and a page behind it whose first touch ends the process.

    Parameters
    ----------
    size : int
        Bytes that fit in.
    """

    def __init__(self, size: int) -> None:
        inside = -(-size // PAGE) * PAGE
        self.map = mmap.mmap(-1, inside + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for page in (start, start + PAGE + inside):
            if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.memory = np.frombuffer(self.map, np.uint8, inside, PAGE)

    def empty(self, shape: Sequence[int], dtype: Any, at: str = "end", steps: Sequence[int] = (1,)) -> Array:
        """Return an array at the "start" or at the "end" of the memory, all of which is filled with NaN (bits of 1).

        Parameters
        ----------
        shape, dtype
            Of the array, whose axes lie in memory in C order.
        at : {"start", "end"}
            Which page it touches. Bytes on the other side tell whether they were written (`untouched`).
        steps : sequence of int, default (1,)
            For the last axis, the one before it and so on: how far apart its numbers are, in multiples of the closest
            they could be, negative to walk backwards. No gap is left behind the last number.
        """
        self.memory.fill(255)
        itemsize = np.dtype(dtype).itemsize
        strides, wide = [], itemsize
        for length, step in zip_longest(reversed(shape), steps[: len(shape)], fillvalue=1):
            strides.insert(0, wide * abs(step))
            wide *= abs(step) * length
        size = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) + itemsize
        offset = 0 if at == "start" else len(self.memory) - size
        array = np.ndarray(tuple(shape), dtype, self.memory, offset, tuple(strides))
        for axis, step in enumerate(steps[: len(shape)], 1):
            array = np.flip(array, -axis) if step < 0 else array
        return array

    def copy(self, values: Array, at: str = "end", steps: Sequence[int] = (1,)) -> Array:
        """Return a copy of an array, placed as by `empty`."""
        array = self.empty(values.shape, values.dtype, at, steps)
        array[...] = values
        return array

    def untouched(self, array: Array) -> bool:
        """Return whether all memory but that of an array is as `empty` left it; what the array holds is lost."""
        array[...] = np.full(array.itemsize, 255, np.uint8).view(array.dtype)[0]
        return bool((self.memory == 255).all())


def check_in_child(check: Callable[[Any], None], cases: Iterable[Any]) -> None:
    """Call ``check(case)`` for each case, in a forked process.

    The first case that raises fails the test, and so does one that ends the process, with its name.
    """
    notes = mmap.mmap(-1, 1 << 16)  # shared with the child

    def note(text: str) -> None:
        kept = text.encode()[-(1 << 16) + 1 :]
        notes[: len(kept) + 1] = kept + b"\0"

    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside threads
        child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            for case in cases:
                if os.getppid() != parent:  # nobody waits any more
                    break
                note(f"{case} ended the process")
                check(case)
            status = 0
        except BaseException:
            note(f"{case}\n{traceback.format_exc()}")
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        pytest.fail(f"{bytes(notes).split(bytes(1))[0].decode()}(exit status {status})", pytrace=False)
