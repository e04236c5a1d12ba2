"""Tiles: pieces of the recurrence solved in registers.

A tile is four sub-tiles, a sub-tile four vectors of consecutive numbers. An exchange of rows and lanes puts each run of
four steps, a chunk, into one lane, so that all chunks of a sub-tile are solved at once by plain steps. Their totals
(the product of the coefficients, the state reached from zero) are combined over the lanes by the stages of Kogge and
Stone (1973), v <- v + f shift(v, s), f <- f shift(f, s) for s = 1, 2, 4, ..., and the state that enters each chunk
follows with one multiplication and addition: the hierarchical decomposition with blocks of one chunk.

Three kinds of tile share this. The *scan tile* solves the whole recurrence: between sub-tiles pass the state `local`
reached from zero and the product `factor` since the start of a segment, so that the true state is
local + factor * entry. The *jagged tile* stops the stages at the blocks of the jagged window and lets each block start
from what the block before reached from zero. The *uniform tile* does the same with the suffix sums of the block before
(van Herk 1992, Gil and Werman 1993, for the affine maps of the recurrence instead of maxima).

Every tile says whether all its states are finite, and writes nothing if one isn't: the caller repeats it step by step,
so that NaN, infinities and products that overflow where the states don't end up where the plain loop puts them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from recfact.cpu.vectors import Lanes, address, all_true, fma, lane, load, shuffle, splat, store, transpose

CHUNK = 4  # steps in a lane
SUB_TILES = 4  # memory answers best to bursts of about 1 KiB of one array after the other


def sub_tile_steps(lanes: Lanes) -> int:
    """Steps that a sub-tile solves: 64 in float32, 32 in float64."""
    return CHUNK * lanes.count


def tile_steps(lanes: Lanes) -> int:
    """Steps that a tile solves: 256 in float32, 128 in float64."""
    return SUB_TILES * sub_tile_steps(lanes)


@dataclass(frozen=True)
class Order:
    """How the chunks of a sub-tile follow each other.

    Parameters
    ----------
    lanes : Lanes
        The vectors.
    reverse : bool
        Whether the steps run from the last number in memory to the first.
    block : int
        Chunks in a block; what the stages combine stays within a block.
    """

    lanes: Lanes
    reverse: bool
    block: int

    @property
    def steps(self) -> Sequence[int]:
        """Positions in a chunk, first step first."""
        return range(CHUNK)[:: -1 if self.reverse else 1]

    @property
    def parts(self) -> Sequence[int]:
        """Sub-tiles of a tile, or rows of a sub-tile, first step first."""
        return range(SUB_TILES)[:: -1 if self.reverse else 1]

    def lane(self, chunk: int) -> int:
        """Return the lane of the chunk that is number `chunk` in the order of the steps."""
        runs = self.lanes.count // CHUNK  # chunks in a row
        place = self.lanes.count - 1 - chunk if self.reverse else chunk
        return place % runs * CHUNK + place // runs

    def shift(self, b: Any, x: Any, fill: Any, distance: int) -> Any:
        """Give each chunk what x holds `distance` chunks earlier in its block, and `fill` where that is outside."""
        count = self.lanes.count
        sources = list(range(count, 2 * count))
        for chunk in range(count):
            source = chunk - distance
            if 0 <= source < count and source // self.block == chunk // self.block:
                sources[self.lane(chunk)] = self.lane(source)
        return shuffle(b, x, fill, sources)

    def from_block_before(self, b: Any, x: Any, x_before: Any, *, last: bool) -> Any:
        """Give each chunk what x holds one block earlier (`x_before` in the first block of a sub-tile).

        The value is that of the block's last chunk if `last`, else that of the chunk at the same place in its block.
        """
        count = self.lanes.count
        sources = [0] * count
        for chunk in range(count):
            source = (chunk // self.block) * self.block - 1 if last else chunk - self.block
            sources[self.lane(chunk)] = self.lane(source) if source >= 0 else count + self.lane(source + count)
        return shuffle(b, x, x_before, sources)


@dataclass
class SubTile:
    """A sub-tile on its way through the registers: vectors by position in memory within a chunk."""

    coefficients: list[Any]
    inputs: list[Any]
    w: list[Any]  # states of each chunk from zero
    g: list[Any]  # products of its coefficients
    f: Any = None  # product over the chunks of the block so far
    v: Any = None  # state reached from zero over them


def _read(b: Any, order: Order, a: Any, u: Any, part: int) -> SubTile:
    """Load a sub-tile and solve its chunks from zero."""
    lanes = order.lanes

    def rows(base: Any) -> list[Any]:
        width = lanes.count * lanes.itemsize
        got = {row: load(b, lanes, address(b, base, (part * CHUNK + row) * width)) for row in order.parts}
        return transpose(b, lanes, [got[row] for row in range(CHUNK)])

    coefficients, inputs = rows(a), rows(u)
    w, g = list(inputs), list(coefficients)
    for before, k in zip(order.steps, order.steps[1:], strict=False):
        w[k] = fma(b, coefficients[k], w[before], inputs[k])
        g[k] = b.fmul(g[before], coefficients[k])
    return SubTile(coefficients, inputs, w, g)


def _combine(b: Any, order: Order, tile: SubTile) -> None:
    """Combine the totals of the chunks over the lanes of each block, by the stages of Kogge and Stone."""
    zero, one = order.lanes.constant(0.0), order.lanes.constant(1.0)
    v, f = tile.w[order.steps[-1]], tile.g[order.steps[-1]]
    distance = 1
    while distance < order.block:
        v = fma(b, f, order.shift(b, v, zero, distance), v)
        f = b.fmul(f, order.shift(b, f, one, distance))
        distance *= 2
    tile.v, tile.f = v, f


def _finish(b: Any, order: Order, tile: SubTile, entering: list[Any], checks: Any) -> tuple[list[Any], Any]:
    """Return the rows of states, given the state that enters each chunk (per step), and the updated checks."""
    states = [fma(b, tile.g[k], entering[k], tile.w[k]) for k in range(CHUNK)]
    for value in states:
        checks = fma(b, value, order.lanes.constant(0.0), checks)
    return transpose(b, order.lanes, states), checks


def _write(b: Any, order: Order, x: Any, results: dict[int, list[Any]], checks: Any) -> Any:
    """Store the tile if every state is finite, and return whether it is."""
    lanes = order.lanes
    finite = all_true(b, b.fcmp_ordered("==", checks, lanes.constant(0.0)))
    with b.if_then(finite, likely=True):
        for part in order.parts:
            for row in order.parts:
                at = (part * CHUNK + row) * lanes.count * lanes.itemsize
                store(b, lanes, results[part][row], address(b, x, at))
    return finite


def make_scan_tile(lanes: Lanes, reverse: bool, write: bool) -> Any:
    """Return ``tile(a, u, x, entry, local, factor) -> (local, factor, finite)``, an intrinsic of addresses and states.

    ``a``, ``u``, ``x`` point at the tile's first number in memory, also with `reverse`. Without `write` only `local`
    and `factor` are found, `finite` speaks of them, and ``x`` isn't used.
    """
    number = lanes.number
    order = Order(lanes, reverse, lanes.count)
    last = order.lane(lanes.count - 1)

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, a: Any, u: Any, x: Any, entry: Any, local: Any, factor: Any) -> Any:
        address_type = types.intp
        signature = types.Tuple((number, number, types.boolean))(
            address_type, address_type, address_type, number, number, number
        )

        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, x, entry, local, factor = args
            zero, one = lanes.constant(0.0), lanes.constant(1.0)
            checks = zero
            results: dict[int, list[Any]] = {}
            tiles = {part: _read(b, order, a, u, part) for part in order.parts}
            for part, sub in tiles.items():
                _combine(b, order, sub)
                if write:
                    nothing_left = b.fcmp_ordered("==", factor, ir.Constant(lanes.scalar, 0.0))
                    state = splat(b, lanes, b.select(nothing_left, local, fma(b, factor, entry, local)))
                    entering = fma(b, order.shift(b, sub.f, one, 1), state, order.shift(b, sub.v, zero, 1))
                    results[part], checks = _finish(b, order, sub, [entering] * CHUNK, checks)
                else:
                    checks = fma(b, sub.f, zero, fma(b, sub.v, zero, checks))
                total = lane(b, sub.f, last)
                local = fma(b, total, local, lane(b, sub.v, last))
                factor = b.fmul(factor, total)
            if write:
                finite = _write(b, order, x, results, checks)
            else:
                finite = all_true(b, b.fcmp_ordered("==", checks, zero))
            return context.make_tuple(b, sig.return_type, (local, factor, finite))

        return signature, codegen

    return tile


def make_jagged_tile(lanes: Lanes, reverse: bool, block: int) -> Any:
    """Return ``tile(a, u, x, before) -> (before, finite)`` for the jagged window with one carrier term.

    `block` is a power of two of steps from CHUNK to a sub-tile; ``before`` is the state that the block before the tile
    reached from zero, and the result that of the tile's last block.
    """
    number = lanes.number
    order = Order(lanes, reverse, block // CHUNK)
    last = order.lane(lanes.count - 1)

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, a: Any, u: Any, x: Any, before: Any) -> Any:
        signature = types.Tuple((number, types.boolean))(types.intp, types.intp, types.intp, number)

        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, x, before = args
            zero, one = lanes.constant(0.0), lanes.constant(1.0)
            v_before, checks = splat(b, lanes, before), zero
            results: dict[int, list[Any]] = {}
            tiles = {part: _read(b, order, a, u, part) for part in order.parts}
            for part, sub in tiles.items():
                _combine(b, order, sub)
                carrier = order.from_block_before(b, sub.v, v_before, last=True)
                entering = fma(b, order.shift(b, sub.f, one, 1), carrier, order.shift(b, sub.v, zero, 1))
                results[part], checks = _finish(b, order, sub, [entering] * CHUNK, checks)
                v_before = sub.v
            finite = _write(b, order, x, results, checks)
            return context.make_tuple(b, sig.return_type, (lane(b, v_before, last), finite))

        return signature, codegen

    return tile


def _suffix_sums(b: Any, order: Order, sub: SubTile) -> list[Any]:
    """Return, for each step, what the later inputs of its block add to the state at the block's end."""
    zero, one = order.lanes.constant(0.0), order.lanes.constant(1.0)
    v, f = sub.w[order.steps[-1]], sub.g[order.steps[-1]]
    distance = 1
    while distance < order.block:
        later = order.shift(b, f, one, -distance)
        v = fma(b, later, v, order.shift(b, v, zero, -distance))
        f = b.fmul(later, f)
        distance *= 2
    total, product = order.shift(b, v, zero, -1), order.shift(b, f, one, -1)
    sums = [total] * CHUNK
    for k, after in zip(order.steps[-2::-1], order.steps[:0:-1], strict=True):
        total = fma(b, product, sub.inputs[after], total)
        product = b.fmul(product, sub.coefficients[after])
        sums[k] = total
    return sums


def make_uniform_tile(lanes: Lanes, reverse: bool, lags: int) -> Any:
    """Return ``tile(a, u, x, sums) -> finite`` for the uniform window of `lags` steps.

    `lags` is a power of two from CHUNK to a sub-tile; ``sums`` points at CHUNK vectors of accumulators with the suffix
    sums of the sub-tile before, which those of the tile's last sub-tile replace.
    """
    order = Order(lanes, reverse, lags // CHUNK)
    accumulators = lanes.accumulators

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, a: Any, u: Any, x: Any, sums: Any) -> Any:
        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            a, u, x, sums = args
            zero, one = lanes.constant(0.0), lanes.constant(1.0)
            places = [address(b, sums, k * 64) for k in range(CHUNK)]
            sums_before, checks = [load(b, accumulators, place) for place in places], zero
            results: dict[int, list[Any]] = {}
            tiles = {part: _read(b, order, a, u, part) for part in order.parts}
            for part, sub in tiles.items():
                _combine(b, order, sub)
                own = _suffix_sums(b, order, sub)
                product, local = order.shift(b, sub.f, one, 1), order.shift(b, sub.v, zero, 1)
                entering = [
                    fma(b, product, order.from_block_before(b, own[k], sums_before[k], last=False), local)
                    for k in range(CHUNK)
                ]
                results[part], checks = _finish(b, order, sub, entering, checks)
                sums_before = own
            for value, place in zip(sums_before, places, strict=True):
                store(b, accumulators, value, place)
            return _write(b, order, x, results, checks)

        return types.boolean(types.intp, types.intp, types.intp, types.intp), codegen

    return tile
