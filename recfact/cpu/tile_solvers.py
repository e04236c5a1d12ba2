"""What kernels do with a tile of the whole recurrence: solve it, or find its totals.

The operations take the addresses of the tile's first coefficient, input and state in memory, and what enters it. Those
that write say whether all states are finite, and write nothing if one isn't.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from recfact.cpu.chunks import CHUNK
from recfact.cpu.numbers import Lanes, operation
from recfact.cpu.tiles import combine, finish, read, write
from recfact.cpu.vectors import Registers


@operation
def scan_tile(typingctx: Any, tile: Any, a: Any, u: Any, x: Any, entry: Any, local: Any, factor: Any) -> Any:
    """Solve a tile; return the new `local` and `factor` and whether they and every state are finite."""
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, entry, local, factor = args
        last, before = tile.lane(tile.count - 1), tile.earlier(1)
        checks, results = r.zero, {}
        for part, sub in read(r, tile, a, u).items():
            combine(r, tile, sub)
            nothing_left = b.fcmp_ordered("==", factor, ir.Constant(factor.type, 0.0))
            state = r.splat(b.select(nothing_left, local, r.fma(factor, entry, local)))
            entering = r.fma(r.shuffle(sub.total, r.one, before), state, r.shuffle(sub.reached, r.zero, before))
            results[part], checks = finish(r, sub, [entering] * CHUNK, checks)
            total = r.lane(sub.total, last)
            local, factor = r.fma(total, local, r.lane(sub.reached, last)), r.decaying_product(factor, total)
        # Both can overflow behind the last state that needs them, and would spoil the next tile.
        checks = r.fma(r.splat(local), r.zero, r.fma(r.splat(factor), r.zero, checks))
        finite = write(r, tile, x, results, checks)
        return context.make_tuple(b, signature.return_type, (local, factor, finite))

    address = types.int64
    result = types.Tuple((number, number, types.boolean))
    return result(tile, address, address, address, number, number, number), codegen


@operation
def scan_totals(typingctx: Any, tile: Any, a: Any, u: Any, local: Any, factor: Any) -> Any:
    """Return what `scan_tile` would, without the states; finite speaks of the totals of the chunks and of the tile."""
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, local, factor = args
        last, checks = tile.lane(tile.count - 1), r.zero
        for sub in read(r, tile, a, u).values():
            combine(r, tile, sub)
            checks = r.fma(sub.total, r.zero, r.fma(sub.reached, r.zero, checks))
            total = r.lane(sub.total, last)
            local, factor = r.fma(total, local, r.lane(sub.reached, last)), r.decaying_product(factor, total)
        checks = r.fma(r.splat(local), r.zero, r.fma(r.splat(factor), r.zero, checks))
        return context.make_tuple(b, signature.return_type, (local, factor, r.all_finite(checks)))

    address = types.int64
    return types.Tuple((number, number, types.boolean))(tile, address, address, number, number), codegen


@operation
def tile_steps(typingctx: Any, tile: Any) -> Any:
    """Return the number of steps in a tile."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), tile.steps)

    return types.int64(tile), codegen


@operation
def runs_in_reverse(typingctx: Any, tile: Any) -> Any:
    """Return whether the steps run from the last number to the first."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(tile.reverse))

    return types.boolean(tile), codegen


@operation
def number(typingctx: Any, lanes: Any, value: Any) -> Any:
    """Return a float as an accumulator."""
    kept = Lanes(lanes.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return context.cast(b, args[1], types.float64, kept)

    return kept(lanes, types.float64), codegen


@operation
def block_steps(typingctx: Any, tile: Any) -> Any:
    """Return the number of steps in a block."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), tile.block)

    return types.int64(tile), codegen
