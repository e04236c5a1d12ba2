"""Tiles: pieces of the recurrence solved in registers.

A tile is a few sub-tiles, a sub-tile four vectors of consecutive numbers. An exchange of rows and lanes puts each run
of four steps, a chunk, into one lane, so that all chunks of a sub-tile are solved at once by plain steps. Their totals
(the product of the coefficients, the state reached from zero) are combined over the lanes by the stages of Kogge and
Stone (1973), v <- v + f shift(v, s), f <- f shift(f, s) for s = 1, 2, 4, ..., and the state that enters each chunk
follows with one multiplication and addition: the hierarchical decomposition with blocks of one chunk.

Three kinds of tile share this. The *scan tile* solves the whole recurrence: between sub-tiles pass the state `local`
reached from zero and the product `factor` since the start of a segment, so that the true state is
local + factor * entry. The *jagged tile* stops the stages at the blocks of the jagged window and lets each block start
from what the block before reached from zero. The *uniform tile* (`uniform_tiles`) lets a window of chunks slide; blocks
longer than a sub-tile take the suffix sums of the block before instead (van Herk 1992, Gil and Werman 1993, for the
affine maps of the recurrence instead of maxima).

Every tile says whether all its states are finite, and writes nothing if one isn't: the caller repeats it step by step,
so that NaN, infinities and products that overflow where the states don't end up where the plain loop puts them.

All addresses are those of the tile's first number in memory, also where the steps run in reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.extending import register_model, unbox

from recfact.cpu.chunks import CHUNK, chunk_lane, load_chunks, ordered, packed, store_packed
from recfact.cpu.numbers import Lanes, LanesModel, unbox_lanes
from recfact.cpu.vectors import Registers, vector_lanes

SUB_TILES = 2  # in a tile, because memory answers best to bursts of about half a KiB of one array after the other


class Tile(Lanes):
    """The lanes of a tile, the direction of its steps, and the blocks that it keeps apart.

    Parameters
    ----------
    storage : {'float32', 'float64', 'float16', 'bfloat16'}
        How the numbers lie in memory.
    reverse : bool
        Whether the steps run from the last number in memory to the first.
    block : int, optional
        Steps in a block, a power of two from CHUNK to a sub-tile; one block is a sub-tile by default.
    sub_tiles : int, default SUB_TILES
        Sub-tiles in a tile.
    streams : bool, default False
        As of `Lanes`.
    """

    def __init__(
        self, storage: str, reverse: bool, block: int = 0, sub_tiles: int = SUB_TILES, streams: bool = False
    ) -> None:
        super().__init__(storage, vector_lanes(storage).count, streams)
        self.reverse = reverse
        self.sub_tile = CHUNK * self.count
        self.sub_tiles = sub_tiles
        self.steps = sub_tiles * self.sub_tile
        self.block = block or self.sub_tile
        self.name = f"tile_{storage}_{'reverse' if reverse else 'forward'}_{self.block}_{sub_tiles}"
        self.name += "_streamed" if streams else ""

    @property
    def order(self) -> Sequence[int]:
        """Positions in a chunk, first step first."""
        return ordered(CHUNK, self.reverse)

    @property
    def parts(self) -> Sequence[int]:
        """The sub-tiles, first step first."""
        return ordered(self.sub_tiles, self.reverse)

    def lane(self, chunk: int) -> int:
        """Return the lane of the chunk that is number `chunk` in the order of the steps."""
        place = self.count - 1 - chunk if self.reverse else chunk
        return chunk_lane(self.storage, self.count, place)

    def earlier(self, distance: int) -> list[int]:
        """Return the lanes that give each chunk what one `distance` chunks earlier in its block holds.

        A chunk without such a one takes its own lane of the second vector.
        """
        lanes = list(range(self.count, 2 * self.count))
        for chunk in range(self.count):
            source = chunk - distance
            if source in range(self.count) and source * CHUNK // self.block == chunk * CHUNK // self.block:
                lanes[self.lane(chunk)] = self.lane(source)
        return lanes

    def before(self, distance: int) -> list[int]:
        """Return the lanes that give each chunk what the one `distance` chunks before it holds, in any block.

        The second vector is the sub-tile before.
        """
        return self._lanes_of([chunk - distance for chunk in range(self.count)])

    def _lanes_of(self, sources: Sequence[int]) -> list[int]:
        lanes = [0] * self.count
        for chunk, source in enumerate(sources):
            lanes[self.lane(chunk)] = self.lane(source) if source >= 0 else self.count + self.lane(source + self.count)
        return lanes


register_model(Tile)(LanesModel)
unbox(Tile)(unbox_lanes)


@dataclass
class SubTile:
    """A sub-tile in registers; lists are by position in memory within a chunk."""

    coefficients: list[Any]
    inputs: list[Any]
    states: list[Any]  # of each chunk from zero
    products: list[Any]  # of the chunk's coefficients
    total: Any = None  # product over the chunks of the block so far
    reached: Any = None  # state reached from zero over them


def read(r: Registers, tile: Tile, a: Any, u: Any) -> dict[int, SubTile]:
    """Load a tile and solve its chunks from zero; the sub-tiles come in the order of their steps."""
    return {part: read_part(r, tile, a, u, part) for part in tile.parts}


def read_part(r: Registers, tile: Tile, a: Any, u: Any, part: int) -> SubTile:
    """Load one sub-tile and solve its chunks from zero."""
    start = part * tile.sub_tile * tile.itemsize
    coefficients, inputs = (load_chunks(r, r.at(base, start), tile.reverse) for base in (a, u))
    states, products = list(inputs), list(coefficients)
    for before, k in zip(tile.order, tile.order[1:], strict=False):
        states[k] = r.fma(coefficients[k], states[before], inputs[k])
        products[k] = r.b.fmul(products[before], coefficients[k])
    return SubTile(coefficients, inputs, states, products)


def combine(r: Registers, tile: Tile, sub: SubTile) -> None:
    """Combine the totals of the chunks of each block by the stages of Kogge and Stone."""
    reached, total = sub.states[tile.order[-1]], sub.products[tile.order[-1]]
    distance = 1
    while distance * CHUNK < tile.block:
        lanes = tile.earlier(distance)
        reached = r.fma(total, r.shuffle(reached, r.zero, lanes), reached)
        total = r.b.fmul(total, r.shuffle(total, r.one, lanes))
        distance *= 2
    sub.reached, sub.total = reached, total


def finish(r: Registers, sub: SubTile, entering: Sequence[Any], checks: Any) -> tuple[list[Any], Any]:
    """Return the states for `write`, given what enters each chunk for each of its steps, and the updated checks."""
    states = [r.fma(sub.products[k], entering[k], sub.states[k]) for k in range(CHUNK)]
    for state in states:
        checks = r.fma(state, r.zero, checks)
    return packed(r, states), checks


def write(r: Registers, tile: Tile, x: Any, results: dict[int, list[Any]], checks: Any) -> Any:
    """Store the tile if every state is finite, and return whether it is."""
    finite = r.all_finite(checks)
    with r.b.if_then(finite, likely=True):
        for part in tile.parts:
            store_packed(r, results[part], r.at(x, part * tile.sub_tile * tile.itemsize), tile.reverse)
    return finite
