"""Vectors of several heads of a layer, whose channels lie next to each other, or of a part of one head."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.language import nothing, operation
from recfact.cpu.numbers import I64, LINE, Lanes, from_vector, read, shuffle, to_vector

LINES = 4  # of memory in the widest vector; a loop over such vectors has few instructions that aren't arithmetic


class Heads(Lanes):
    """Lanes of `heads` heads, `each` channels of each."""

    def __init__(self, storage: str, heads: int, each: int) -> None:
        super().__init__(storage, heads * each)
        self.heads = heads
        self.each = each
        self.name = f"{storage}x{heads}x{each}"


def heads_in_vectors(storage: str, heads: int, channels: int) -> Heads:
    """Return the widest vectors that cover heads of some channels without gaps."""
    most = LINES * LINE // Lanes(storage, 1).itemsize
    each = min(most, channels & -channels)
    return Heads(storage, min(most // each, heads & -heads) if each == channels else 1, each)


@operation
def heads_at_once(lanes: Any) -> Any:
    """Return the number of heads."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return ir.Constant(I64, lanes.heads)

    return types.int64(lanes), codegen


@operation
def one_head(lanes: Any) -> Any:
    """Return the lanes of one of the heads."""
    return Lanes(lanes.storage, lanes.each)(lanes), nothing


@operation
def each_head(lanes: Any) -> Any:
    """Return lanes of one number for each head."""
    return Lanes(lanes.storage, lanes.heads)(lanes), nothing


@operation
def for_heads(lanes: Any, value: Any) -> Any:
    """Return the same vector for every head."""
    one = Lanes(lanes.storage, lanes.each)

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, one, args[1])
        return from_vector(builder, lanes, shuffle(builder, vector, list(range(lanes.each)) * lanes.heads))

    return lanes.value(lanes, one.value), codegen


@operation
def load_factors(lanes: Any, address: Any, offset: Any) -> Any:
    """Load one number for each head into all of its lanes."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        numbers = read(context, builder, lanes, lanes.heads, *args[1:])
        indices = [head for head in range(lanes.heads) for _ in range(lanes.each)]
        return from_vector(builder, lanes, shuffle(builder, numbers, indices))

    return lanes.value(lanes, types.int64, types.int64), codegen


@operation
def over_heads(lanes: Any, value: Any) -> Any:
    """Return the sum of all heads, by halves."""
    one = Lanes(lanes.storage, lanes.each)

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return from_vector(builder, one, halved(builder, vector, 1, lanes.heads, lanes.each))

    return one.value(lanes, lanes.value), codegen


@operation
def over_channels(lanes: Any, value: Any) -> Any:
    """Return the sum of all lanes of each head, by halves."""
    sums = Lanes(lanes.storage, lanes.heads)

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return from_vector(builder, sums, halved(builder, vector, lanes.heads, lanes.each, 1))

    return sums.value(lanes, lanes.value), codegen


def halved(builder: Any, vector: Any, rows: int, terms: int, columns: int) -> Any:
    """Sum up an array (rows, terms, columns) over its second axis. The number of terms is a power of two."""
    while terms > 1:
        terms //= 2
        low = [2 * row * terms * columns + place for row in range(rows) for place in range(terms * columns)]
        high = [place + terms * columns for place in low]
        vector = builder.fadd(shuffle(builder, vector, low), shuffle(builder, vector, high))
    return vector
