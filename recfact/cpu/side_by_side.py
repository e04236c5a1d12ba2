"""A few channels next to each other in registers: vectors of their numbers as these lie in memory.

A lane of a tile is a step of all channels. As many vectors as there are channels hold whole steps. A stage moves steps,
so it moves numbers by a multiple of the number of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from recfact.cpu.halves import I32
from recfact.cpu.numbers import Lanes
from recfact.cpu.pairs import PairRegisters
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import Registers


class SideBySide(Registers):
    """Builds the LLVM code of operations on steps of several channels: on as many vectors at once.

    Parameters
    ----------
    context, builder
        As in `Registers`.
    tile : Tile
        A tile of several channels. A scalar is a tuple of a number of each.
    """

    def __init__(self, context: Any, builder: Any, tile: Tile) -> None:
        own = Lanes(tile.storage, tile.count, tile.streams)
        super().__init__(context, builder, own)
        self.each = Registers(context, builder, own)  # for single vectors
        self.channels = tile.channels
        self.exchanges = False
        self.zero, self.one = (self.zero,) * self.channels, (self.one,) * self.channels

    def splat(self, value: Sequence[Any]) -> Any:
        """Return the numbers of a step, in the first lanes of a single vector."""
        step = self.each.zero
        for channel, number in enumerate(value):
            step = self.b.insert_element(step, number, ir.Constant(I32, channel))
        return step

    def scalars(self, step: Any) -> Sequence[Any]:
        """Return the numbers of a step."""
        return [self.each.lane(step, channel) for channel in range(self.channels)]

    def step(self, x: Any, index: int) -> Any:
        """Return the numbers of one step of vectors, in the first lanes of a single vector."""
        places = [index * self.channels + lane % self.channels for lane in range(self.count)]
        return self.picked(x, places)

    def every_step(self, step: Any) -> Any:
        """Return vectors in which all steps are one step."""
        places = [place % self.channels for place in range(self.channels * self.count)]
        return self.cut(places, lambda lanes: self.each.shuffle(step, step, lanes))

    def shuffle(self, x: Any, y: Any, indices: Sequence[int]) -> Any:
        """Pick steps from x (0 .. count-1) and y (count ..)."""
        places = [index * self.channels + channel for index in indices for channel in range(self.channels)]
        return self.cut(places, lambda own: self.picked((*x, *y), own))

    def picked(self, vectors: Sequence[Any], places: Sequence[int]) -> Any:
        """Return a vector of numbers of several vectors."""
        first, *others = sorted({place // self.count for place in places})
        found = self.each.shuffle(vectors[first], vectors[first], [place % self.count for place in places])
        for number in others:
            lanes = [
                self.count + place % self.count if place // self.count == number else lane
                for lane, place in enumerate(places)
            ]
            found = self.each.shuffle(found, vectors[number], lanes)
        return found

    def cut(self, places: Sequence[int], make: Callable[[Sequence[int]], Any]) -> Any:
        """Make vectors from as many places each as they have lanes."""
        return tuple(make(places[start : start + self.count]) for start in range(0, len(places), self.count))

    def load(self, address: Any) -> Any:
        """Load steps."""
        return tuple(self.each.load(self.at(address, vector * self.row_bytes)) for vector in range(self.channels))

    def store(self, x: Any, address: Any) -> None:
        """Store steps of finite numbers."""
        for vector, numbers in enumerate(x):
            self.each.store(numbers, self.at(address, vector * self.row_bytes))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Return x y + z."""
        return self.by_vector(self.each.fma, x, y, z)

    def multiply(self, x: Any, y: Any) -> Any:
        """Return x y."""
        return self.by_vector(self.each.multiply, x, y)

    def checked(self, x: Any, checks: Any) -> Any:
        """Return `checks`, a vector of sums of zero times numbers, with the numbers of vectors added."""
        for numbers in x:
            checks = self.each.checked(numbers, checks)
        return checks

    def all_finite(self, checks: Any) -> Any:
        """Return whether `checks` is zero in every lane."""
        return self.each.all_finite(checks)

    def by_vector(self, operation: Callable[..., Any], *values: Any) -> Any:
        """Apply an operation to the vectors of some values."""
        return tuple(operation(*vectors) for vectors in zip(*values, strict=True))


def registers_of(context: Any, builder: Any, tile: Any) -> Registers:
    """Return the registers of a tile."""
    if tile.channels > 1:
        return SideBySide(context, builder, tile)
    return (PairRegisters if tile.is_complex else Registers)(context, builder, tile)
