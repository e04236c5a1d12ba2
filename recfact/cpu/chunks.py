"""Chunks: how a tile reads and writes memory. A chunk is four consecutive numbers, and has a lane of its own.

A sub-tile is four rows of memory, each a vector. Number k of every chunk goes into vector k, so all chunks are solved
at once. The cheapest moves decide which lane a chunk takes. They interleave halves of short spans: two moves for each
vector, or one for two vectors of bfloat16, whose chunks are pairs of 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recfact.cpu.halves import narrow_pairs, permutes_halves, widen_pairs
from recfact.cpu.pairs import Pair, PairRegisters
from recfact.cpu.vectors import VECTOR, Registers

CHUNK = 4  # steps in a lane

# Two vectors of integers follow each other in memory. These are the first pairs of all chunks in them, then the second.
PAIRS = [[lane + at for lane in range(0, 16, 4) for at in (k, k + 2, k + 16, k + 18)] for k in (0, 1)]

# Number k of each chunk of float16, in the order of lanes that `exchange` gives. The same moves lead back.
CHUNKS = [16 * row + 4 * chunk + k for k in range(4) for chunk in range(4) for row in range(4)]
ROWS = [CHUNKS.index(place) for place in range(64)]


def chunk_lane(storage: str, count: int, chunk: int) -> int:
    """Return the lane, one of `count`, of the chunk that is number `chunk` in memory."""
    if storage == "bfloat16":
        return chunk % 8 // 2 * 4 + chunk // 8 * 2 + chunk % 2
    runs = count // CHUNK  # chunks in a row
    return chunk % runs * CHUNK + chunk // runs


def load_chunks(r: Registers, address: Any, reverse: bool) -> list[Any]:
    """Load a sub-tile, the last row first if in `reverse`. Result k has number k of each chunk.

    If a step has several channels, a chunk is a single step.
    """
    if not r.exchanges:
        return [r.load(address)]
    if r.lanes.storage == "bfloat16":
        halves = {half: r.load_pairs(r.at(address, half * VECTOR)) for half in ordered(2, reverse)}
        pairs = [r.shuffle(halves[0], halves[1], lanes) for lanes in PAIRS]
        return [*widen_pairs(r.b, pairs[0]), *widen_pairs(r.b, pairs[1])]
    if moves_halves(r):
        halves = {half: r.load_halves(r.at(address, half * VECTOR)) for half in ordered(2, reverse)}
        chunks = [r.shuffle(halves[0], halves[1], CHUNKS[k : k + 32]) for k in (0, 32)]
        return [r.widened(r.shuffle(pair, pair, range(k, k + 16))) for pair in chunks for k in (0, 16)]
    parts = 2 if isinstance(r, PairRegisters) else 1
    loaded = {row: r.load(r.at(address, row * r.row_bytes)) for row in ordered(parts * CHUNK, reverse)}
    rows = [loaded[row] for row in range(len(loaded))]
    return separated(r, rows) if isinstance(r, PairRegisters) else exchange(r, rows)


def packed(r: Registers, chunks: Sequence[Any]) -> list[Any]:
    """Return chunks of finite numbers in the form that `store_packed` takes, in the order of memory."""
    if not r.exchanges:
        return list(chunks)
    if r.lanes.storage == "bfloat16":
        return list(r.interleave(narrow_pairs(r.b, *chunks[:2]), narrow_pairs(r.b, *chunks[2:]), 1, 4))
    if moves_halves(r):
        halves = [r.narrowed(chunk) for chunk in chunks]
        pairs = [r.shuffle(halves[k], halves[k + 1], range(32)) for k in (0, 2)]
        return [r.shuffle(pairs[0], pairs[1], ROWS[k : k + 32]) for k in (0, 32)]
    return joined(r, chunks) if isinstance(r, PairRegisters) else exchange(r, chunks)


def turned(r: Registers, chunks: Sequence[Any]) -> list[Any]:
    """Return the chunks that a sub-tile would have if its numbers lay in memory the other way round."""
    return [r.shuffle(chunk, chunk, ordered(r.count, True)) for chunk in reversed(chunks)]


def store_packed(r: Registers, vectors: Sequence[Any], address: Any, reverse: bool) -> None:
    """Store a sub-tile, the last row first if in `reverse`."""
    bits = r.exchanges and (r.lanes.storage == "bfloat16" or moves_halves(r))
    size = VECTOR if bits else r.row_bytes
    for row in ordered(len(vectors), reverse):
        (r.store_bits if bits else r.store)(vectors[row], r.at(address, row * size))


def moves_halves(r: Registers) -> bool:
    """Return whether chunks of float16 are moved before they are widened. That takes one move for two vectors."""
    return r.lanes.storage == "float16" and permutes_halves(r.context)


def order_of_chunks(r: Registers, chunks: Sequence[Any]) -> list[Any]:
    """Return chunks of accumulators as vectors of numbers in the order of memory."""
    return exchange(r, [r.shuffle(chunk, chunk, _moved_lanes(r, False)) for chunk in chunks])


def chunks_in_order(r: Registers, rows: Sequence[Any]) -> list[Any]:
    """Return chunks of accumulators that lie in the order of memory. This is the inverse of `order_of_chunks`."""
    return [r.shuffle(chunk, chunk, _moved_lanes(r, True)) for chunk in exchange(r, rows)]


def _moved_lanes(r: Registers, back: bool) -> list[int]:
    """Return the lanes that move chunks of a storage to the places of the chunks of its accumulators, or back."""
    lanes = [0] * r.count
    for chunk in range(r.count):
        own, common = (chunk_lane(storage, r.count, chunk) for storage in (r.lanes.storage, r.lanes.state.storage))
        lanes[own if back else common] = common if back else own
    return lanes


def exchange(r: Registers, rows: Sequence[Any]) -> list[Any]:
    """Exchange row numbers with lane numbers in four rows. Lane 4 h + r of result k is lane 4 h + k of row r.

    The exchange is its own inverse.
    """
    span = 2 if r.lane_bytes == 8 else 4  # lanes in 128 bits; four lanes if each has 128 bits
    low, high = r.interleave(rows[0], rows[1], 1, span)
    other_low, other_high = r.interleave(rows[2], rows[3], 1, span)
    first, second = r.interleave(low, other_low, 2, 4), r.interleave(high, other_high, 2, 4)
    return [*first, *second] if span == 4 else [first[0], second[0], first[1], second[1]]


def separated(r: PairRegisters, rows: Sequence[Any]) -> list[Pair]:
    """Return chunks of complex numbers, given as the vectors of their reals in memory.

    Two numbers next to each other are four reals, so an exchange gives each part a vector of its own. The first and the
    second two numbers of the chunks are exchanged separately.
    """
    reals, halves = r.reals, []
    for start in (0, CHUNK):
        lanes = [lane for at in range(start, 2 * r.count, 2 * CHUNK) for lane in range(at, at + CHUNK)]
        vectors = [reals.shuffle(rows[k], rows[k + 1], lanes) for k in range(0, len(rows), 2)]
        halves += exchange(reals, vectors)
    return [Pair(*halves[k : k + 2]) for k in range(0, len(halves), 2)]


def joined(r: PairRegisters, chunks: Sequence[Pair]) -> list[Any]:
    """Return the vectors of reals in memory of chunks of complex numbers. This is the inverse of `separated`."""
    reals, parts = r.reals, [part for chunk in chunks for part in chunk]
    first, second = exchange(reals, parts[:CHUNK]), exchange(reals, parts[CHUNK:])
    pairs = zip(first, second, strict=True)
    return [row for pair in pairs for row in reals.interleave(*pair, CHUNK, r.count)]


def ordered(count: int, reverse: bool) -> Sequence[int]:
    """Return the first `count` integers, the last first if in `reverse`."""
    return range(count)[:: -1 if reverse else 1]
