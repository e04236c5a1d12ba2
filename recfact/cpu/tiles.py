"""Tiles: pieces of the recurrence solved in registers.

A tile consists of a few sub-tiles. A sub-tile consists of four vectors of consecutive numbers. An exchange of rows and
lanes puts four consecutive steps, a chunk, into one lane. So plain steps solve all chunks of a sub-tile at once. The
totals of a chunk are the product of its coefficients and the state that it reaches from zero. The stages of Kogge and
Stone (1973) combine them over the lanes: v <- v + f shift(v, s), f <- f shift(f, s) for s = 1, 2, 4, ... The state that
enters each chunk follows with one multiplication and addition. This is the hierarchical decomposition with blocks of
one chunk.

There are three kinds of tile. The *scan tile* solves the whole recurrence. Between sub-tiles pass two numbers: the
state `local` reached from zero and the product `factor`, both since the start of a span. The true state is local +
factor * entry. The tiles of blocks (`block_tiles`) start anew at every block. Those of bands (`band_tiles`) take the
suffix sums of the block before. Windows of short blocks don't need tiles (`runs`).

Every tile says whether all its states are finite. If one isn't, the tile writes nothing, and the caller repeats it step
by step. So NaN, infinities and overflowing products have the same effect as in the plain loop.

All addresses are those of the tile's first number in memory. This is also true if the steps run in reverse, and if an
array is flipped: its numbers then lie in memory the other way round. Lanes and sub-tiles have the order of the inputs
in memory. If another array lies the other way round than the inputs, it is turned in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recfact.cpu import types
from recfact.cpu.chunks import CHUNK, chunk_lane, load_chunks, ordered, packed, store_packed, turned
from recfact.cpu.directions import Directed
from recfact.cpu.numbers import Lanes
from recfact.cpu.vectors import Registers, vector_lanes

SUB_TILES = 2  # in a tile; memory is fastest with bursts of about half a KiB, from one array after the other


class Tile(Directed):
    """The lanes of a tile, and the direction of its steps.

    Parameters
    ----------
    storage : str
        Number type in memory.
    reverse : bool
        Whether the steps run from the last number in memory to the first.
    sub_tiles : int, default SUB_TILES
        Number of sub-tiles in a tile.
    streams : bool, default False
        As in `Lanes`.
    flipped : str, default ""
        The arrays, of x, u and a, that lie in memory the other way round.
    channels : int, default 1
        Number of channels that lie next to each other. A step then consists of a number of each.
    """

    def __init__(
        self,
        storage: str,
        reverse: bool,
        sub_tiles: int = SUB_TILES,
        streams: bool = False,
        flipped: str = "",
        channels: int = 1,
    ) -> None:
        super().__init__(storage, vector_lanes(storage).count, reverse, flipped, streams)
        self.channels = channels
        self.chunk = CHUNK if channels == 1 else 1
        self.sub_tile = self.chunk * self.count
        self.sub_tiles = sub_tiles
        self.steps = sub_tiles * self.sub_tile
        self.name = f"tile_{storage}_{'reverse' if reverse else 'forward'}_{sub_tiles}"
        self.name += ("_streamed" if streams else "") + (f"_flipped_{flipped}" if flipped else "")
        self.name += f"_{channels}_channels" if channels > 1 else ""
        self.backwards = self.runs_backwards("u")

    @property
    def itemsize(self) -> int:
        """Bytes of a step in memory."""
        return self.channels * super().itemsize

    @property
    def passed(self) -> Any:
        """The type of a state that passes from tile to tile: a number, or several by channel."""
        number = Lanes(self.storage, 1).value
        return number if self.channels == 1 else types.Tuple([number] * self.channels)

    @property
    def order(self) -> Sequence[int]:
        """Positions in a chunk, first step first."""
        return ordered(self.chunk, self.backwards)

    @property
    def parts(self) -> Sequence[int]:
        """The sub-tiles, first step first."""
        return ordered(self.sub_tiles, self.backwards)

    @property
    def first_bit(self) -> int:
        """The bit of the first step among those of a sub-tile, in the order of memory."""
        return 1 << (self.sub_tile - 1 if self.reverse else 0)

    @property
    def last_chunk(self) -> int:
        """The bits of the steps of the last chunk."""
        return 0b1111 << (0 if self.reverse else self.sub_tile - CHUNK)

    def lane(self, chunk: int) -> int:
        """Return the lane of the chunk that is number `chunk` in the order of the steps."""
        place = self.count - 1 - chunk if self.backwards else chunk
        return place if self.chunk == 1 else chunk_lane(self.storage, self.count, place)

    def earlier(self, distance: int) -> list[int]:
        """Return the lanes that give each chunk the content of the chunk `distance` earlier in the sub-tile.

        If there is no such chunk, it gets its own lane of the second vector.
        """
        lanes = list(range(self.count, 2 * self.count))
        for chunk in range(self.count):
            source = chunk - distance
            if source in range(self.count):
                lanes[self.lane(chunk)] = self.lane(source)
        return lanes

    def before(self, distance: int) -> list[int]:
        """Return the lanes that give each chunk the content of the chunk `distance` before it, in any block.

        The second vector is the sub-tile before.
        """
        return self._lanes_of([chunk - distance for chunk in range(self.count)])

    def turns(self, array: str) -> bool:
        """Return whether an array lies in memory the other way round than the inputs, so that registers turn it."""
        return self.runs_backwards(array) != self.backwards

    def part_of(self, array: str, part: int) -> tuple[int, bool]:
        """Return the offset in bytes of a sub-tile of an array, and whether its steps run backwards in memory."""
        place = self.sub_tiles - 1 - part if self.turns(array) else part
        return place * self.sub_tile * self.itemsize, self.runs_backwards(array)

    def _lanes_of(self, sources: Sequence[int]) -> list[int]:
        lanes = [0] * self.count
        for chunk, source in enumerate(sources):
            lanes[self.lane(chunk)] = self.lane(source) if source >= 0 else self.count + self.lane(source + self.count)
        return lanes


@dataclass
class SubTile:
    """A sub-tile in registers. Lists are in the order of the positions in a chunk, in memory."""

    coefficients: list[Any]
    inputs: list[Any]
    states: list[Any]  # of each chunk, from zero
    products: list[Any]  # of the chunk's coefficients
    reached: Any = None  # state that the chunks so far reach from zero
    latest: Any = None  # product of the coefficients of these chunks, but of no more than half of a sub-tile
    earlier: Any = None  # product of the coefficients of those before


def read(r: Registers, tile: Tile, a: Any, u: Any) -> dict[int, SubTile]:
    """Load a tile and solve its chunks from zero. The sub-tiles come in the order of their steps."""
    return {part: read_part(r, tile, a, u, part) for part in tile.parts}


def read_part(r: Registers, tile: Tile, a: Any, u: Any, part: int) -> SubTile:
    """Load one sub-tile and solve its chunks from zero."""
    coefficients, inputs = load_part(r, tile, "a", a, part), load_part(r, tile, "u", u, part)
    states, products = list(inputs), list(coefficients)
    for before, k in zip(tile.order, tile.order[1:], strict=False):
        states[k] = r.fma(coefficients[k], states[before], inputs[k])
        products[k] = r.multiply(products[before], coefficients[k])
    return SubTile(coefficients, inputs, states, products)


def load_part(r: Registers, tile: Tile, array: str, base: Any, part: int) -> list[Any]:
    """Load a sub-tile of one of the arrays."""
    start, backwards = tile.part_of(array, part)
    chunks = load_chunks(r, r.at(base, start), backwards)
    return turned(r, chunks) if tile.turns(array) else chunks


def combine(r: Registers, tile: Tile, sub: SubTile) -> None:
    """Combine the totals of the chunks by the stages of Kogge and Stone.

    The products of the last stage aren't formed. In float32 many would be subnormal, and some processors take a hundred
    times as long to compute with such numbers. What enters is multiplied by both factors, one after the other.
    """
    reached, latest, distance = sub.states[tile.order[-1]], sub.products[tile.order[-1]], 1
    while True:
        lanes = tile.earlier(distance)
        reached = r.fma(latest, r.shuffle(reached, r.zero, lanes), reached)
        earlier = r.shuffle(latest, r.one, lanes)
        distance *= 2
        if distance == tile.count:
            break
        latest = r.multiply(latest, earlier)
    sub.reached, sub.latest, sub.earlier = reached, latest, earlier


def finish(r: Registers, tile: Tile, sub: SubTile, entering: Sequence[Any], checks: Any) -> tuple[list[Any], Any]:
    """Return the states for `write`, and the updated checks. `entering` has for each step what enters the chunks."""
    states = [r.fma(sub.products[k], entering[k], sub.states[k]) for k in range(tile.chunk)]
    for state in states:
        checks = r.checked(state, checks)
    return packed(r, turned(r, states) if tile.turns("x") else states), checks


def write(r: Registers, tile: Tile, x: Any, results: dict[int, list[Any]], checks: Any) -> Any:
    """Store the tile if every state is finite, and return whether it is."""
    finite = r.all_finite(checks)
    with r.b.if_then(finite, likely=True):
        for part in tile.parts:
            start, backwards = tile.part_of("x", part)
            store_packed(r, results[part], r.at(x, start), backwards)
    return finite
