"""Tiles of the uniform window of any number of lags: blocks of as many steps, and the suffix sums of the block before.

Step k of block t sees two things. One is its own block so far, which a scan from the start of the block gives (w). The
other are the inputs j > k of the block before, whose sum at the end of that block is S. So x = w + g S (van Herk 1992,
Gil and Werman 1993, for the affine maps of the recurrence instead of maxima). The suffix sums are a scan as well, from
the end of a block to its start, over maps (factor, sum). The later map is applied last. So nothing is subtracted.

These tiles consist of one sub-tile. Suffix sums lie in scratch memory in the order of the steps, because they are read
as many steps later as there are lags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recfact.cpu import types
from recfact.cpu.block_tiles import BlockScan, write_sure
from recfact.cpu.chunks import CHUNK, chunks_in_order, load_chunks, order_of_chunks
from recfact.cpu.language import operation
from recfact.cpu.numbers import Lanes
from recfact.cpu.starts import Starts
from recfact.cpu.tiles import Tile
from recfact.cpu.vectors import VECTOR, Registers


class SuffixScan:
    """The maps of a sub-tile, from each step to the end of its block.

    Parameters
    ----------
    r
        The registers.
    tile : Tile
        The tile that runs against the steps.
    a, u : sequence of vectors
        Coefficients and inputs, by place in a chunk.
    ends : Starts
        The last steps of blocks. A walk against the steps starts anew there.

    Attributes
    ----------
    factor, later, added : vector
        The map of all steps from the first of each chunk to the end of the block or of the sub-tile. Its product is in
        two factors, for the reason given at `tiles.combine`.
    """

    def __init__(self, r: Registers, tile: Tile, a: Sequence[Any], u: Sequence[Any], ends: Starts) -> None:
        self.r, self.tile, self.ends = r, tile, ends
        self.a, self.u = a, u
        factor, added = a[tile.order[0]], u[tile.order[0]]
        for k in tile.order[1:]:
            added = r.select(ends.at[k], u[k], r.fma(factor, u[k], added))
            factor = r.select(ends.at[k], a[k], r.b.fmul(factor, a[k]))
        later = r.one
        for stage, within in enumerate(ends.within):
            lanes = tile.earlier(1 << stage)
            factor = r.b.fmul(later, factor)
            before = r.shuffle(factor, r.one, lanes)
            added = r.select(within, added, r.fma(before, added, r.shuffle(added, r.zero, lanes)))
            later = r.select(within, r.one, before)
        self.factor, self.later, self.added = factor, later, added

    def sums(self, factor: Any, scale: Any, added: Any) -> list[Any]:
        """Return for each step what the later inputs of its block add to the block's end, by place in a chunk.

        `factor` times `scale`, and `added`, are the map of the steps behind the sub-tile, in all lanes.
        """
        r, tile, ends = self.r, self.tile, self.ends
        lanes = tile.earlier(1)
        own_factor, own_later = (r.shuffle(vector, r.one, lanes) for vector in (self.factor, self.later))
        own_added = r.shuffle(self.added, r.zero, lanes)
        added = r.select(ends.before, own_added, r.fma(factor, r.b.fmul(scale, own_added), added))
        # Behind a factor of zero no product of the sub-tile is formed: it may be subnormal.
        factor = r.b.fmul(own_factor, r.select(ends.before, own_later, r.b.fmul(factor, own_later)))
        scale = r.select(ends.before, r.one, scale)
        sums = {}
        for k in tile.order:
            sums[k] = r.select(ends.at[k], r.zero, added)
            factor, scale = (r.select(ends.at[k], r.one, value) for value in (factor, scale))
            added = r.fma(factor, r.b.fmul(scale, self.u[k]), sums[k])
            factor = r.b.fmul(factor, self.a[k])
        return [sums[k] for k in range(CHUNK)]


@operation
def suffix_tile(tile: Any, a: Any, u: Any, sums: Any, ends: Any, factor: Any, scale: Any, added: Any) -> Any:
    """Find the suffix sums of a tile, and return the map from its first step on.

    ``ends`` has a bit at the last step of each block. `factor` times `scale`, and `added`, are the map of the steps
    behind the tile.
    """
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, sums, word, factor, scale, added = args
        against = Tile(tile.storage, not tile.reverse, sub_tiles=1)
        coefficients, inputs = (load_chunks(r, base, against.reverse) for base in (a, u))
        scan = SuffixScan(r, against, coefficients, inputs, Starts(r, against, word))
        for row, vector in enumerate(order_of_chunks(r, scan.sums(*map(r.splat, (factor, scale, added))))):
            r.store_accumulators(vector, r.at(sums, row * VECTOR))
        last = against.lane(against.count - 1)
        own_factor, own_later, own_added = (r.lane(vector, last) for vector in (scan.factor, scan.later, scan.added))
        ended = r.nonzero(word)
        added = b.select(ended, own_added, r.fma(factor, b.fmul(scale, own_added), added))
        factor = b.fmul(own_factor, b.select(ended, own_later, b.fmul(factor, own_later)))
        factor, scale = r.rescaled(factor, b.select(ended, r.lane(r.one, 0), scale))
        return factor, scale, added

    address = types.int64
    return types.Tuple([number] * 3)(tile, *[address] * 4, *[number] * 3), codegen


@operation
def band_tile(
    tile: Any,
    a: Any,
    u: Any,
    x: Any,
    sums: Any,
    starts: Any,
    state: Any,
    product: Any,
    scale: Any,
    unsure: Any,
) -> Any:
    """Solve a tile of the uniform window.

    ``sums`` points at the suffix sums of the steps that lie before the tile by the number of lags. ``starts`` has a bit
    at the first step of each block. `state` is the state that the block has reached from zero so far, and `product`
    times `scale` the product of its coefficients. Returns the three after the tile, and whether all states are finite.
    States that aren't all finite go to ``unsure`` instead, as accumulators.
    """
    number = Lanes(tile.storage, 1).value

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, sums, word, state, product, scale, unsure = args
        coefficients, inputs = (load_chunks(r, base, tile.reverse) for base in (a, u))
        starts = Starts(r, tile, word)
        scan = BlockScan(r, tile, coefficients, inputs, starts)
        own = scan.alone(r.splat(state))
        earlier = r.select(starts.before, scan.earlier, r.b.fmul(scan.earlier, r.splat(product)))
        before = r.b.fmul(scan.latest, earlier)
        scale_before = r.select(starts.before, r.one, r.splat(scale))
        products = [
            r.select(since, product, r.b.fmul(product, before))
            for since, product in zip(starts.since, scan.products, strict=True)
        ]
        scales = [r.select(since, r.one, scale_before) for since in starts.since]
        entering = chunks_in_order(r, [r.load_accumulators(r.at(sums, row * VECTOR)) for row in range(CHUNK)])
        states = [
            r.fma(product, r.b.fmul(scale, sum_before), state)
            for product, scale, sum_before, state in zip(products, scales, entering, own, strict=True)
        ]
        finite = write_sure(r, tile, x, states, r.zero, unsure)
        place, last = tile.order[-1], tile.lane(tile.count - 1)
        return r.lane(own[place], last), *r.rescaled(r.lane(products[place], last), r.lane(scales[place], last)), finite

    address = types.int64
    result = types.Tuple((*[number] * 3, types.boolean))
    return result(tile, *[address] * 5, *[number] * 3, address), codegen
