"""Marks of steps: a byte of memory for each step, and the bits that the bytes of a tile become.

A byte is written without reading its neighbours, so many marks are made at once. A comparison of a vector turns the
bytes into bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.language import operation
from recfact.cpu.numbers import I8, I64, pointer


@operation
def mark(address: Any) -> Any:
    """Mark the step whose byte is at an address."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        b.store(ir.Constant(I8, 1), pointer(b, I8, args[0], ir.Constant(I64, 0)))

    return types.void(types.int64), codegen


@operation
def marked(tile: Any, address: Any) -> Any:
    """Return an integer whose bits say which steps of a tile are marked, in the order of memory."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        kind = ir.VectorType(I8, tile.steps)
        bytes_ = b.load(pointer(b, kind, args[1], ir.Constant(I64, 0)))
        bytes_.align = 1
        bits = b.bitcast(b.icmp_unsigned("!=", bytes_, ir.Constant(kind, None)), ir.IntType(tile.steps))
        return bits if tile.steps == 64 else b.zext(bits, I64)

    return types.int64(tile, types.int64), codegen
