"""Flags for the starts of blocks: they say which lanes discard the values that reach them.

The bits of an integer, in the order of memory, say at which steps of a sub-tile a block starts. A scan must not cross a
start. Here these bits become flags of lanes: for each step of a chunk, for each stage of Kogge and Stone, and for the
state that enters a chunk from before the sub-tile.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from recfact.cpu.chunks import CHUNK
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import Registers

EACH = 0x1111111111111111  # the first step of each chunk


class Starts:
    """Flags of the lanes of a sub-tile.

    Parameters
    ----------
    r, tile
        The registers and the tile.
    bits : i64
        Bit k says that a block starts at step k of the sub-tile, as steps lie in memory.

    Attributes
    ----------
    at : list
        For each step of a chunk, by place in memory: whether the step is a start.
    since : list
        For each step of a chunk: whether the step or one before it in the chunk is a start.
    within : list
        For stages 0, 1, 2, ...: whether there is a start in the 1, 2, 4, ... chunks that end with the chunk of a lane.
    before : vector
        Whether there is a start in the chunks of the sub-tile before the chunk of a lane.
    """

    def __init__(self, r: Registers, tile: Tile, bits: Any) -> None:
        self.r, self.tile = r, tile
        b = r.b
        if tile.sub_tile < 64:
            bits = b.and_(bits, self.r.index((1 << tile.sub_tile) - 1))
        self.at = self.steps(bits)
        self.since = list(self.at)
        for k, following in pairwise(tile.order):
            self.since[following] = b.or_(self.since[k], self.at[following])
        any_of = b.or_(bits, self.moved(bits, -1))
        any_of = b.and_(b.or_(any_of, self.moved(any_of, -2)), self.r.index(EACH))
        self.within = []
        later = 1 if not tile.reverse else -1
        distance = 1
        while distance < tile.count:
            self.within.append(self.chunks(any_of))
            any_of = b.or_(any_of, self.moved(any_of, later * CHUNK * distance))
            distance *= 2
        self.before = self.chunks(self.moved(any_of, later * CHUNK))

    def moved(self, word: Any, distance: int) -> Any:
        """Return the bits of a word, moved to later places in memory."""
        if distance > 0:
            return self.r.b.shl(word, self.r.index(distance))
        return self.r.b.lshr(word, self.r.index(-distance))

    def steps(self, bits: Any) -> list[Any]:
        """Return the flags of all steps of the chunks, by place in memory."""
        return [self.r.test(bits, [CHUNK * place + k for place in self.places()]) for k in range(CHUNK)]

    def chunks(self, word: Any) -> Any:
        """Return a flag for each chunk from the bit of its first step. No other bits are set."""
        half = CHUNK * self.tile.count // 2
        if self.tile.count == 8:
            return self.r.test(word, [CHUNK * place for place in self.places()])
        folded = self.r.b.or_(word, self.moved(word, 1 - half))
        return self.r.test(folded, [CHUNK * place % half + CHUNK * place // half for place in self.places()])

    def places(self) -> list[int]:
        """Return the number in memory of each lane's chunk."""
        found = [0] * self.tile.count
        for chunk in range(self.tile.count):
            found[self.tile.lane(chunk)] = self.tile.count - 1 - chunk if self.tile.reverse else chunk
        return found
