"""What kernels do with a tile: solve it for one of the windows, or find its totals.

The operations take the addresses of the tile's first coefficient, input and state in memory, and what enters it. Those
that write say whether all states are finite, and write nothing if one isn't.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from recfact.cpu.chunks import CHUNK
from recfact.cpu.numbers import Lanes, operation
from recfact.cpu.tiles import combine, finish, read, suffix_sums, write
from recfact.cpu.vectors import VECTOR, Registers


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
def jagged_tile(typingctx: Any, tile: Any, a: Any, u: Any, x: Any, before: Any) -> Any:
    """Solve a tile of the jagged window with one carrier term; return the next `before` and whether all is finite.

    ``before`` is the state that the block before the tile reached from zero.
    """
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, before = args
        previous, checks, results = r.splat(before), r.zero, {}
        chunk_before, carrier = tile.earlier(1), tile.block_before()
        for part, sub in read(r, tile, a, u).items():
            combine(r, tile, sub)
            entering = r.fma(
                r.shuffle(sub.total, r.one, chunk_before),
                r.shuffle(sub.reached, previous, carrier),
                r.shuffle(sub.reached, r.zero, chunk_before),
            )
            results[part], checks = finish(r, sub, [entering] * CHUNK, checks)
            previous = sub.reached
        reached = r.lane(previous, tile.lane(tile.count - 1))
        finite = write(r, tile, x, results, r.fma(r.splat(reached), r.zero, checks))
        return context.make_tuple(b, signature.return_type, (reached, finite))

    address = types.int64
    return types.Tuple((number, types.boolean))(tile, address, address, address, number), codegen


@operation
def sums_tile(typingctx: Any, tile: Any, a: Any, u: Any, sums: Any, added: Any, product: Any) -> Any:
    """Find the suffix sums of a tile in a longer block, whose later tiles have the totals `added` and `product`.

    ``sums`` points at CHUNK vectors of accumulators for each sub-tile. Returns the totals from this tile on.
    """
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, sums, added, product = args
        last = tile.lane(tile.count - 1)
        for part, sub in reversed(read(r, tile, a, u).items()):
            combine(r, tile, sub)
            later, factor = r.splat(added), r.splat(product)
            for k, value in enumerate(suffix_sums(r, tile, sub)):
                r.store_accumulators(r.fma(factor, value, later), r.at(sums, (part * CHUNK + k) * VECTOR))
            added = r.fma(product, r.lane(sub.reached, last), added)
            product = b.fmul(product, r.lane(sub.total, last))
        return context.make_tuple(b, signature.return_type, (added, product))

    address = types.int64
    return types.Tuple((number, number))(tile, address, address, address, number, number), codegen


@operation
def window_tile(typingctx: Any, tile: Any, a: Any, u: Any, x: Any, sums: Any, local: Any, factor: Any) -> Any:
    """Solve a tile in a longer block of the uniform window; return the new totals and whether all is finite.

    ``sums`` points at the suffix sums of the block before; `local` and `factor` are the state that the block reached
    from zero and the product of its coefficients.
    """
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, sums, local, factor = args
        last, before = tile.lane(tile.count - 1), tile.earlier(1)
        checks, results = r.zero, {}
        for part, sub in read(r, tile, a, u).items():
            combine(r, tile, sub)
            places = [r.at(sums, (part * CHUNK + k) * VECTOR) for k in range(CHUNK)]
            entering_block = [r.load_accumulators(place) for place in places]
            total, reached = r.shuffle(sub.total, r.one, before), r.shuffle(sub.reached, r.zero, before)
            product, state = b.fmul(total, r.splat(factor)), r.fma(total, r.splat(local), reached)
            entering = [r.fma(product, value, state) for value in entering_block]
            results[part], checks = finish(r, sub, entering, checks)
            total = r.lane(sub.total, last)
            local, factor = r.fma(total, local, r.lane(sub.reached, last)), r.decaying_product(factor, total)
        finite = write(r, tile, x, results, checks)
        return context.make_tuple(b, signature.return_type, (local, factor, finite))

    address = types.int64
    result = types.Tuple((number, number, types.boolean))
    return result(tile, address, address, address, address, number, number), codegen


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
