"""Tiles of the uniform window whose block fits into a sub-tile.

A step sees the steps of its own chunk before it, as many whole chunks as a block has, less one, and the end of the
chunk before those. The whole chunks are a window that slides over chunks: 2^p - 1 of them are 2^(p-1) and 2^(p-2) and
... and 1 that follow each other, and doubling forms these. The end of a chunk is a suffix sum. So nothing is
subtracted, and all chunks are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

from recfact.cpu.chunks import CHUNK
from recfact.cpu.numbers import Lanes, operation
from recfact.cpu.tiles import SubTile, Tile, finish, read_part, write
from recfact.cpu.vectors import VECTOR, Registers


@dataclass
class Carried:
    """What the steps behind a sub-tile see of it, by chunks.

    Parameters
    ----------
    reached : list of vectors
        The state reached from zero over the 1, 2, 4, ... chunks that end with each; none for blocks of one chunk.
    suffixes : list of vectors
        For each step of a chunk, what the later inputs of the chunk add to the state at its end.
    totals : list of vectors
        The products of the coefficients of 1, 2, 4, ... chunks.
    """

    reached: list[Any]
    suffixes: list[Any]
    totals: list[Any]

    @staticmethod
    def stages(tile: Tile) -> int:
        """Return how many of `reached` and of `totals` there are."""
        return (tile.block // CHUNK).bit_length() - 1

    @staticmethod
    def size(tile: Tile) -> int:
        """Return how many bytes all vectors take."""
        return (2 * Carried.stages(tile) + CHUNK) * VECTOR

    @staticmethod
    def load(r: Registers, tile: Tile, address: Any) -> Carried:
        """Load all vectors from scratch memory."""
        vectors = [r.load_accumulators(r.at(address, place)) for place in range(0, Carried.size(tile), VECTOR)]
        stages = Carried.stages(tile)
        return Carried(vectors[:stages], vectors[stages : -stages or None], vectors[len(vectors) - stages :])

    def store(self, r: Registers, address: Any) -> None:
        """Store all vectors in scratch memory."""
        for k, vector in enumerate([*self.reached, *self.suffixes, *self.totals]):
            r.store_accumulators(vector, r.at(address, k * VECTOR))


def windows(r: Registers, tile: Tile, sub: SubTile, earlier: Carried) -> Carried:
    """Return what a sub-tile leaves to the steps behind it."""
    last = tile.order[-1]
    suffixes, added, product = [r.zero] * CHUNK, sub.inputs[last], sub.coefficients[last]
    for k in tile.order[-2::-1]:
        suffixes[k] = added
        added, product = r.fma(product, sub.inputs[k], added), r.b.fmul(product, sub.coefficients[k])
    if not earlier.reached:
        return Carried([], suffixes, [])
    reached, totals = [sub.states[last]], [sub.products[last]]
    for stage in range(len(earlier.reached) - 1):
        lanes = tile.before(1 << stage)
        shifted = r.shuffle(reached[stage], earlier.reached[stage], lanes)
        factor = r.shuffle(totals[stage], earlier.totals[stage], lanes)
        reached.append(r.fma(totals[stage], shifted, reached[stage]))
        totals.append(r.b.fmul(totals[stage], factor))
    return Carried(reached, suffixes, totals)


def entering(r: Registers, tile: Tile, own: Carried, earlier: Carried) -> list[Any]:
    """Return what enters each chunk of a sub-tile, for each of its steps: whole chunks, and the end of one more."""
    states: list[Any] = [r.zero] * CHUNK
    lanes = tile.before(tile.block // CHUNK)
    for k, (suffix, before) in enumerate(zip(own.suffixes, earlier.suffixes, strict=True)):
        if before is not r.zero:  # only an initial state, in the place of a whole chunk, is behind a chunk's last step
            states[k] = r.shuffle(suffix, before, lanes)
    if not own.reached:
        return states
    whole = product = None
    distance = tile.block // CHUNK
    for stage, parts in enumerate(zip(own.reached, own.totals, earlier.reached, earlier.totals, strict=True)):
        distance -= 1 << stage
        lanes = tile.before(distance)
        reached, total = r.shuffle(parts[0], parts[2], lanes), r.shuffle(parts[1], parts[3], lanes)
        # The farthest chunks first, because the nearest have been added up most often.
        whole = reached if whole is None else r.fma(total, whole, reached)
        product = total if product is None else r.b.fmul(total, product)
    return [whole if state is r.zero else r.fma(product, state, whole) for state in states]


@operation
def start_carried(typingctx: Any, tile: Any, carried: Any, state: Any) -> Any:
    """Write to `carried` what the first tile of a row finds there: nothing but a state before its first step."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, carried, state = args
        lanes = [tile.count] * tile.count
        lanes[tile.lane(tile.count - 1)] = 0
        entered = r.shuffle(r.splat(state), r.zero, lanes)
        stages = Carried.stages(tile)
        Carried([entered] * stages, [entered] * CHUNK, [r.one] * stages).store(r, carried)
        return context.get_dummy_value()

    return types.void(tile, types.int64, Lanes(tile.storage, 1).value), codegen


@operation
def carried_bytes(typingctx: Any, tile: Any) -> Any:
    """Return the size of what tiles carry."""

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), Carried.size(tile))

    return types.int64(tile), codegen


@operation
def uniform_tile(typingctx: Any, tile: Any, a: Any, u: Any, x: Any, carried: Any) -> Any:
    """Solve a tile of the uniform window; return whether all is finite.

    ``carried`` points at what the sub-tile before left, which what the tile's last sub-tile leaves replaces.
    """

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, carried = args
        earlier, checks, results = Carried.load(r, tile, carried), r.zero, {}
        for part in tile.parts:
            sub = read_part(r, tile, a, u, part)
            own = windows(r, tile, sub, earlier)
            results[part], checks = finish(r, sub, entering(r, tile, own, earlier), checks)
            earlier = own
        earlier.store(r, carried)
        return write(r, tile, x, results, checks)

    address = types.int64
    return types.boolean(tile, address, address, address, address), codegen
