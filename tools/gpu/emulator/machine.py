"""Executes a planned launch on NumPy arrays, from the PTX that CUDA's compiler makes of it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from recfact.gpu.compiler import options_of, source_of
from recfact.gpu.plans import Launch
from tools.gpu.emulator.build import library
from tools.gpu.emulator.program import LANES, parse, value_bytes
from tools.gpu.emulator.report import Report
from tools.gpu.nvrtc import compile_ptx

Array = np.ndarray[Any, Any]
ROLES = {"in": 0, "out": 1, "inout": 2, "scratch": 3}
SPACING = 1 << 44  # between the virtual addresses of two arrays


@dataclass(frozen=True)
class Schedule:
    """How lanes, warps and thread blocks take turns.

    Parameters
    ----------
    seed : int, optional
        Of what is left to chance: who goes next, and when memory shows what was written. Without one, lanes go together
        wherever they can, thread blocks take turns, and memory shows all at once.
    resident : int
        Thread blocks that are there at once.
    order : {"forward", "reversed", "random"}
        In which they start.
    """

    seed: int | None = None
    resident: int = 8
    order: str = "forward"

    def started(self, blocks: int) -> Array:
        """Return the numbers of thread blocks in the order in which they start."""
        numbers = np.arange(blocks, dtype=np.uint32)
        if self.order == "random":
            return np.random.default_rng(self.seed).permutation(numbers)
        return numbers[::-1].copy() if self.order == "reversed" else numbers


TOGETHER = Schedule()
RANDOM = tuple(Schedule(seed, resident, "random") for seed, resident in enumerate((2, 4, 8, 16)))
"""Schedules in which every kernel must give the same result."""


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
    pointer : int
        Bytes from the start to where the array's own pointer is.
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


_program = lru_cache(64)(parse)


class _Step(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int) for name in ("operation", "guard", "negated", "target", "offset", "line", "first", "count")
    )


class _Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("role", ctypes.c_int),
        ("pieces", ctypes.c_int),
        ("offsets", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("expected", ctypes.c_void_p),
    )


class _Request(ctypes.Structure):
    _fields_ = (
        ("program", ctypes.c_void_p),
        ("operands", ctypes.c_void_p),
        ("operations", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("instructions", "operation_count", "register_bytes", "special")),
        *((name, ctypes.c_uint32) for name in ("grid", "threads", "shared_bytes", "resident", "seed", "weak")),
        ("order", ctypes.c_void_p),
        ("array_count", ctypes.c_int),
        ("arrays", ctypes.c_void_p),
    )


@lru_cache(64)
def _text(kernel: str, options: tuple[str, ...], capability: tuple[int, int]) -> str:
    return compile_ptx(source_of(kernel), options, capability)


def text_of(launch: Launch, capability: tuple[int, int]) -> str:
    """Compile the kernel of a launch to PTX for a target as CuPy would."""
    return _text(launch.kernel, options_of(launch), capability)


def execute(
    launch: Launch,
    arrays: Mapping[str, Array | Buffer],
    capability: tuple[int, int],
    *,
    text: str | None = None,
    schedule: Schedule = TOGETHER,
    outputs: Sequence[str] = ("x",),
) -> Report:
    """Execute a planned launch.

    Parameters
    ----------
    launch : Launch
        The plan that the launcher for GPUs takes, too.
    arrays : dict of str to array or Buffer
        By the names in the plan. Arrays named in `outputs` are written in place, each element exactly once; the others
        are only read.
    capability : tuple of int
        Compute capability of the target that PTX is made for.
    text : str, optional
        PTX to execute instead of the launch's own kernel.
    schedule : Schedule
        Who goes next.
    outputs : sequence of str
        Names of the arrays that are written.

    Returns
    -------
    Report
        Faults are in it; nothing is raised for them.
    """
    program = _program(text or text_of(launch, capability))
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
    constants = bytearray(program.constants)
    for argument, (name, kind) in zip(
        launch.arguments, zip(program.places, program.parameters, strict=True), strict=True
    ):
        value = argument.value or 0
        if isinstance(value, str):
            value = bases[value] + buffers[value].pointer + argument.offset
        row = value_bytes(kind, value) * LANES
        constants[program.places[name] : program.places[name] + len(row)] = row
    keep: list[Any] = []  # alive until the engine is done
    records = (_Array * max(len(buffers), 1))(*(_record(name, bases[name], buffers[name], keep) for name in buffers))
    operands = np.array([place for step in program.steps for place in step.operands] or [0], np.intc)
    steps, first = (_Step * len(program.steps))(), 0
    for k, step in enumerate(program.steps):
        steps[k] = _Step(
            step.operation, step.guard, step.negated, step.target, step.offset, step.line, first, len(step.operands)
        )
        first += len(step.operands)
    names = (ctypes.c_char_p * len(program.operations))(*(name.encode() for name in program.operations))
    values = (ctypes.c_ubyte * max(len(constants), 1)).from_buffer(constants)
    order = schedule.started(launch.grid[0])
    request = _Request(
        ctypes.addressof(steps),
        operands.ctypes.data,
        ctypes.addressof(names),
        ctypes.addressof(values),
        len(program.steps),
        len(program.operations),
        program.register_bytes,
        program.special,
        launch.grid[0],
        launch.block[0],
        program.shared_bytes + launch.shared_bytes,
        schedule.resident,
        schedule.seed or 0,
        schedule.seed is not None,
        order.ctypes.data,
        len(buffers),
        ctypes.addressof(records),
    )
    return Report.from_json(library().emulator_run(ctypes.byref(request)).decode(), program.place)


def _record(name: str, base: int, buffer: Buffer, keep: list[Any]) -> _Array:
    """Return what the engine is told of an array, its pieces in the order of their addresses."""
    pieces = sorted(buffer.pieces.items())
    masks = [
        np.ascontiguousarray(buffer.expected[offset], np.uint8) if offset in buffer.expected else None
        for offset, _ in pieces
    ]
    columns = (
        np.array([offset for offset, _ in pieces], np.uint64),
        np.array([array.nbytes for _, array in pieces], np.uint64),
        np.array([array.ctypes.data for _, array in pieces], np.uint64),
        np.array([0 if mask is None else mask.ctypes.data for mask in masks], np.uint64),
    )
    keep += [*columns, *masks, *(array for _, array in pieces)]
    places = (column.ctypes.data for column in columns)
    return _Array(name.encode(), base, buffer.bytes, ROLES[buffer.role], len(pieces), *places)
