"""Launches a built kernel on NumPy arrays, from a launch plan."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recfact.gpu.plans import Launch
from tools.gpu.emulator.build import build
from tools.gpu.emulator.report import Report

Array = np.ndarray[Any, Any]
ROLES = {"in": 0, "out": 1, "inout": 2, "scratch": 3}
SPACING = 1 << 44  # between the virtual addresses of two arrays
PICKS = {"oldest": 0, "newest": 1, "random": 2, "rotate": 3}


@dataclass(frozen=True)
class Schedule:
    """How thread blocks take turns: in which order they start, how many are there at once, and who goes next.

    `hold` keeps a block that has released something from going on until all others are stuck; `quantum` preempts
    after so many steps of a warp, and at polls.
    """

    start: str = "forward"
    resident: int = 1
    pick: str = "oldest"
    hold: bool = False
    quantum: int = 0
    reverse_lanes: bool = False
    seed: int = 0

    def order(self, blocks: int) -> Array:
        """Return the linear block numbers in the order in which they start."""
        numbers = np.arange(blocks, dtype=np.uint32)
        if self.start == "forward":
            return numbers
        if self.start == "reversed":
            return numbers[::-1].copy()
        return np.random.default_rng(self.seed).permutation(numbers)


SCHEDULES = {
    "in order": Schedule(),
    "reversed": Schedule(start="reversed", reverse_lanes=True),
    "interleaved": Schedule(resident=8, pick="rotate", quantum=3),
    "newest first": Schedule(resident=8, pick="newest", quantum=5, reverse_lanes=True),
    "held after release": Schedule(resident=8, pick="newest", hold=True),
    "random": Schedule(start="random", resident=6, pick="random", quantum=2, seed=7),
}
"""Orders in which every kernel must give the same result. "reversed" and "random" start blocks in another order than
that of their indices, so a block that waits for another must get its number from a counter."""


@dataclass(frozen=True)
class Buffer:
    """An array as the kernel sees it: an extent of addresses, with memory behind pieces of it.

    Parameters
    ----------
    pieces : dict of int to array
        Offset in bytes -> C-contiguous array behind these addresses. Accesses in bounds but outside all pieces are
        reported.
    bytes : int
        Extent.
    role : {"in", "out", "inout", "scratch"}
        Only read; only written, each byte exactly once; both, and initialized; both, and not.
    misalignment : int
        The base address modulo 256.
    expected : dict of int to array of bool
        For pieces: which bytes are to be written. All, where none is given.
    """

    pieces: Mapping[int, Array]
    bytes: int
    role: str
    misalignment: int = 0
    expected: Mapping[int, Array] = field(default_factory=dict)
    pointer: int = 0

    @classmethod
    def of(cls, array: Array, role: str) -> Buffer:
        """Describe a NumPy array of any strides: its own elements are to be written, its address counts modulo 16."""
        low, high = np.lib.array_utils.byte_bounds(array)
        if array.size == 0:
            high = low
        memory = np.ctypeslib.as_array((ctypes.c_ubyte * (high - low)).from_address(low))
        expected = {}
        if role == "out" and array.size and high - low != array.nbytes:
            mask = np.zeros(high - low, bool)
            rows = np.lib.stride_tricks.as_strided(
                mask[array.ctypes.data - low :], (*array.shape, array.itemsize), (*array.strides, 1), writeable=True
            )
            rows[...] = True
            expected[0] = mask
        return cls({0: memory}, high - low, role, low % 16, expected, array.ctypes.data - low)


class _Piece(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("data", ctypes.c_void_p))


class _Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("role", ctypes.c_int32),
        ("piece_count", ctypes.c_int32),
        ("pieces", ctypes.POINTER(_Piece)),
        ("expected", ctypes.POINTER(ctypes.c_void_p)),
    )


class _Schedule(ctypes.Structure):
    _fields_ = (
        ("start_order", ctypes.c_void_p),
        ("resident", ctypes.c_int32),
        ("pick", ctypes.c_int32),
        ("hold", ctypes.c_int32),
        ("quantum", ctypes.c_int32),
        ("reverse_lanes", ctypes.c_int32),
        ("seed", ctypes.c_uint32),
    )


class _Request(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint32),
        ("flush_subnormals", ctypes.c_int32),
        ("truncate_products", ctypes.c_int32),
        ("array_count", ctypes.c_int32),
        ("schedule", _Schedule),
        ("arrays", ctypes.POINTER(_Array)),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
    )


INTEGERS = {
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def emulate(
    launch: Launch,
    arrays: Mapping[str, Array | Buffer],
    *,
    source: str,
    schedule: Schedule = SCHEDULES["in order"],
    outputs: Sequence[str] = ("x",),
    flush_subnormals: bool = False,
    truncate_products: bool = False,
    cache_folder: Path | None = None,
) -> Report:
    """Run a planned launch.

    Parameters
    ----------
    launch : Launch
        The plan that the launcher for GPUs takes, too.
    arrays : dict of str to array or Buffer
        By the names in the plan. Arrays named in `outputs` are written in place, each element exactly once; the others
        are only read. An array that is both is passed as a `Buffer`.
    source : str
        The kernel's source, ``recfact.gpu.compiler.source_of(launch.kernel)``.
    schedule : Schedule
        Order of the blocks.
    flush_subnormals : bool
        Flush subnormal numbers to zero, as CuPy's ``-ftz=true`` does (here doubles, too).
    truncate_products : bool
        Sum on the tensor cores as hardware does: aligned and cut, instead of rounded to nearest.

    Returns
    -------
    Report
        Faults are in it; nothing is raised for them.
    """
    library = build(source, launch.kernel, tuple(launch.macros), cache_folder)
    buffers = {
        name: array if isinstance(array, Buffer) else Buffer.of(array, "out" if name in outputs else "in")
        for name, array in arrays.items()
    }
    for scratch in launch.scratch:
        memory = np.full(scratch.bytes, 0 if scratch.zeroed else 0xFF, np.uint8)
        buffers[scratch.name] = Buffer({0: memory}, scratch.bytes, "inout" if scratch.zeroed else "scratch")
    bases = {
        name: (1 << 60) + (i + 1) * SPACING + buffer.misalignment for i, (name, buffer) in enumerate(buffers.items())
    }
    values: list[ctypes.c_void_p] = []
    keep: list[Any] = []
    for argument, size in zip(launch.arguments, library.parameter_sizes, strict=True):
        value: Any = argument.value
        cell: Any
        if argument.c_type.endswith("*"):
            address = 0 if value is None else bases[value] + buffers[value].pointer + argument.offset
            cell, needed = ctypes.c_uint64(address), -8
        else:
            cell = INTEGERS[argument.c_type](value)
            needed = ctypes.sizeof(cell)
        if size != needed:
            raise TypeError(
                f"{launch.kernel}'s parameter for {argument.name} has {size} bytes (-8: a pointer), "
                f"but is passed as {argument.c_type}"
            )
        values.append(ctypes.cast(ctypes.pointer(cell), ctypes.c_void_p))
        keep.append(cell)
    records = (_Array * max(len(buffers), 1))(
        *(_record(name, bases[name], buffer, keep) for name, buffer in buffers.items())
    )
    order = schedule.order(int(np.prod(launch.grid)))
    request = _Request(
        tuple(launch.grid),
        tuple(launch.block),
        launch.shared_bytes,
        flush_subnormals,
        truncate_products,
        len(buffers),
        _Schedule(
            order.ctypes.data,
            schedule.resident,
            PICKS[schedule.pick],
            schedule.hold,
            schedule.quantum,
            schedule.reverse_lanes,
            schedule.seed,
        ),
        records,
        (ctypes.c_void_p * max(len(values), 1))(*values),
    )
    return Report.from_json(library.handle.emulator_run(ctypes.byref(request)).decode())


def _record(name: str, base: int, buffer: Buffer, keep: list[Any]) -> _Array:
    pieces = (_Piece * len(buffer.pieces))()
    masks = (ctypes.c_void_p * len(buffer.pieces))()
    for i, (offset, array) in enumerate(buffer.pieces.items()):
        pieces[i] = _Piece(offset, array.nbytes, array.ctypes.data)
        if offset in buffer.expected:
            mask = np.ascontiguousarray(buffer.expected[offset], np.uint8)
            keep.append(mask)
            masks[i] = mask.ctypes.data
    keep += [pieces, masks, *buffer.pieces.values()]
    return _Array(name.encode(), base, buffer.bytes, ROLES[buffer.role], len(buffer.pieces), pieces, masks)
