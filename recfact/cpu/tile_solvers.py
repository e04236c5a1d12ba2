"""The operations of kernels on a tile of the whole recurrence: solve it, or find its totals.

They take the state that enters the tile, and the addresses of its first coefficient, input and state in memory.
Operations that write say whether all states are finite. If one isn't, they write nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.chunks import CHUNK, ordered
from recfact.cpu.compilation import helper
from recfact.cpu.language import operation
from recfact.cpu.numbers import LINE, PAGE, Lanes, prefetch
from recfact.cpu.side_by_side import registers_of
from recfact.cpu.tiles import SubTile, Tile, combine, finish, read, write
from recfact.cpu.vectors import Registers


def after(r: Registers, tile: Tile, sub: SubTile, local: Any, factor: Any, gone: Any) -> tuple[Any, Any]:
    """Return `local` and `factor` behind a sub-tile, in all lanes. `gone` says where `factor` is known to be zero.

    Vectors of equal lanes hold them, not scalars: some processors take long to bring a scalar's comparison back. Where
    `factor` is zero, the product of the sub-tile doesn't matter. It would often be subnormal.
    """
    last, one = tile.lane(tile.count - 1), r.each
    latest, earlier, reached = (r.step(vector, last) for vector in (sub.latest, sub.earlier, sub.reached))
    local = one.fma(latest, one.multiply(earlier, local), reached)
    return local, one.decaying_product(factor, one.multiply(latest, one.select(gone, one.zero, earlier)))


@operation
def scan_tile(tile: Any, a: Any, u: Any, x: Any, entry: Any, local: Any, factor: Any) -> Any:
    """Solve a tile. Return the new `local` and `factor`, and whether they and all states are finite."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = registers_of(context, b, tile)
        _, a, u, x, *passed = args
        entry, local, factor = map(r.splat, passed)
        before, one = tile.earlier(1), r.each
        checks, results, gone = one.zero, {}, one.vanishes(factor)
        for part, sub in read(r, tile, a, u).items():
            combine(r, tile, sub)
            state = one.select(one.vanishes(factor), local, one.fma(factor, entry, local))
            latest, earlier = (r.shuffle(vector, r.one, before) for vector in (sub.latest, sub.earlier))
            entering = r.fma(latest, r.multiply(earlier, r.every_step(state)), r.shuffle(sub.reached, r.zero, before))
            results[part], checks = finish(r, tile, sub, [entering] * CHUNK, checks)
            local, factor = after(r, tile, sub, local, factor, gone)
        # Both can overflow behind the last state that needs them. They would then spoil the next tile.
        finite = write(r, tile, x, results, one.checked(local, one.checked(factor, checks)))
        return [*r.scalars(local), *r.scalars(factor), finite]

    address = types.int64
    result = types.Tuple((tile.passed, tile.passed, types.boolean))
    return result(tile, address, address, address, *[tile.passed] * 3), codegen


@operation
def scan_totals(tile: Any, a: Any, u: Any, local: Any, factor: Any) -> Any:
    """Return what `scan_tile` would, without the states. The flag is about the totals of the chunks and of the tile."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = registers_of(context, b, tile)
        _, a, u, *passed = args
        local, factor = map(r.splat, passed)
        checks, gone = r.each.zero, r.each.vanishes(factor)
        for sub in read(r, tile, a, u).values():
            combine(r, tile, sub)
            checks = r.checked(sub.latest, r.checked(sub.reached, checks))
            local, factor = after(r, tile, sub, local, factor, gone)
        checks = r.each.checked(local, r.each.checked(factor, checks))
        return [*r.scalars(local), *r.scalars(factor), r.all_finite(checks)]

    address, number = types.int64, tile.passed
    return types.Tuple((number, number, types.boolean))(tile, address, address, number, number), codegen


@operation
def fetch_tile(tile: Any, address: Any) -> Any:
    """Ask memory for the numbers of a tile, which will be needed soon. Any address is allowed.

    They wait in the second-level cache: the tiles before them need the first one.
    """

    def codegen(context: Any, b: Any, args: Any) -> Any:
        lines = tile.steps * tile.itemsize // LINE
        for line in ordered(lines, tile.backwards):
            prefetch(b, b.add(args[1], ir.Constant(args[1].type, line * LINE)), far=True)

    return types.void(tile, types.int64), codegen


@helper
def further(address: int, backwards: bool) -> Any:
    """Return where to ask memory for inputs, from where the coefficients of the same steps would be asked for.

    Large arrays often begin at the same place of a page, and memory is slower at requests for the same places of pages.
    So inputs are asked for half a page further ahead.
    """
    return address - PAGE // 2 if backwards else address + PAGE // 2


@operation
def tile_steps(tile: Any) -> Any:
    """Return the number of steps in a tile."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), tile.steps)

    return types.int64(tile), codegen


@operation
def runs_in_reverse(tile: Any) -> Any:
    """Return whether the steps run from the last number to the first."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(tile.reverse))

    return types.boolean(tile), codegen


@operation
def units(tile: Any) -> Any:
    """Return the bytes in memory from position to position if a kernel works in place, for x, u and a."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return [ir.Constant(ir.IntType(64), unit) for unit in tile.units]

    return types.Tuple([types.int64] * 3)(tile), codegen


@operation
def number(lanes: Any, value: Any) -> Any:
    """Return a float as an accumulator. A complex accumulator of NaN has NaN in both parts."""
    kept = Lanes(lanes.storage, 1)

    def codegen(context: Any, b: Any, args: Any) -> Any:
        real = args[1] if kept.real == ir.DoubleType() else b.fptrunc(args[1], kept.real)
        if not kept.is_complex:
            return real
        pair = b.insert_value(ir.Constant(kept.value.registers[0], ir.Undefined), real, 0)
        return b.insert_value(pair, b.fsub(real, real), 1)

    return kept.value(lanes, types.float64), codegen
