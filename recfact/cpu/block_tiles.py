"""Tiles of blocks: scans that start anew at every block, for jagged windows and for segments.

A sub-tile is solved from zero as a scan tile is, but no stage crosses the start of a block. Flags (`starts`) leave out
the lanes that would cross it. Nothing is multiplied by zero, so neither NaN nor infinities cross a start.

For each step two numbers are kept: the state w reached from zero and the product g of the coefficients, both since the
last start in the sub-tile or since its beginning. With e, the state that entered there, the state is x = w + g e. For
states without carrier terms, e is 0 at a start, and at the beginning of the sub-tile it is the state before it. With
each further term, e at a start is the state of the previous step with one term less. Only this part is repeated for
each term. It only moves numbers, so no state is rounded more often than in the whole recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from recfact.cpu import types
from recfact.cpu.chunks import CHUNK, chunk_lane, load_chunks, order_of_chunks, packed
from recfact.cpu.language import operation
from recfact.cpu.starts import Starts
from recfact.cpu.tiles import Tile, combine, read, write
from recfact.cpu.vectors import VECTOR, Registers


class BlockScan:
    """A sub-tile solved from zero since the last start in it.

    Parameters
    ----------
    r, tile
        The registers and the tile.
    a, u : sequence of vectors
        Its coefficients and inputs, by place in a chunk.
    starts : Starts
        Where blocks start.

    Attributes
    ----------
    states, products : list of vectors
        The states w and products g of the steps since the last start in their chunk, by place in the chunk.
    reached : vector
        The same state for all chunks before, since the last start in them.
    latest, earlier : vector
        Two factors of the same product. They aren't multiplied by each other, for the reason given at `tiles.combine`.
    """

    def __init__(self, r: Registers, tile: Tile, a: Sequence[Any], u: Sequence[Any], starts: Starts) -> None:
        self.r, self.tile, self.starts = r, tile, starts
        self.last = tile.order[-1]
        products, states = list(a), list(u)
        for before, k in pairwise(tile.order):
            products[k] = r.select(starts.at[k], a[k], r.b.fmul(products[before], a[k]))
            states[k] = r.select(starts.at[k], u[k], r.fma(a[k], states[before], u[k]))
        latest, earlier, reached = products[self.last], r.one, states[self.last]
        for stage, within in enumerate(starts.within):
            lanes = tile.earlier(1 << stage)
            reached = r.select(within, reached, r.fma(latest, r.shuffle(reached, r.zero, lanes), reached))
            earlier = r.select(within, r.one, r.shuffle(latest, r.one, lanes))
            if stage < len(starts.within) - 1:
                latest = r.b.fmul(latest, earlier)
        self.states, self.products = states, products
        self.reached = r.shuffle(reached, r.zero, tile.earlier(1))
        self.latest, self.earlier = (r.shuffle(factor, r.one, tile.earlier(1)) for factor in (latest, earlier))

    def entered(self, entry: Any) -> Any:
        """Return the states that enter the chunks from the states that entered at the last start before them."""
        return self.r.fma(self.latest, self.r.b.fmul(self.earlier, entry), self.reached)

    def alone(self, entry: Any) -> list[Any]:
        """Return the states without carrier terms. `entry` is the state before the sub-tile, in all lanes."""
        r = self.r
        entering = r.select(self.starts.before, self.reached, self.entered(entry))
        steps = zip(self.starts.since, self.states, self.products, strict=True)
        return [r.select(since, state, r.fma(product, entering, state)) for since, state, product in steps]

    def joined(self, states: Sequence[Any], before: Any, entry: Any, fresh: Any) -> list[Any]:
        """Return the states with one more term.

        Parameters
        ----------
        states : sequence of vectors
            The states with one term less.
        before, entry : vector
            The state before the sub-tile with one term less, and with as many terms as the result, in all lanes.
        fresh : i64
            Bits of the starts that nothing passes.
        """
        r, order, starts = self.r, self.tile.order, self.starts
        found = {order[0]: r.shuffle(states[self.last], before, self.tile.before(1))}
        found |= {k: states[earlier] for earlier, k in pairwise(order)}

        def none_passes(_: Any, values: Sequence[Any]) -> list[Any]:
            return [r.select(flags, r.zero, value) for flags, value in zip(starts.steps(fresh), values, strict=True)]

        previous = r.repeat(r.nonzero(fresh), none_passes, [found[k] for k in range(CHUNK)])
        latest = previous[order[0]]
        for k in order[1:]:
            latest = r.select(starts.at[k], previous[k], latest)
        # The numbers so far don't wait for the sub-tile before. Only the entry does.
        for stage, within in enumerate(starts.within):
            latest = r.select(within, latest, r.shuffle(latest, r.zero, self.tile.earlier(1 << stage)))
        latest = r.select(starts.before, r.shuffle(latest, r.zero, self.tile.earlier(1)), entry)
        entering = self.entered(latest)
        results = {}
        for k in order:
            entering = r.select(starts.at[k], previous[k], entering)
            results[k] = r.fma(self.products[k], entering, self.states[k])
        return [results[k] for k in range(CHUNK)]


@operation
def blocks_tile(
    tile: Any,
    a: Any,
    u: Any,
    x: Any,
    starts: Any,
    fresh: Any,
    terms: Any,
    carried: Any,
    left: Any,
    unsure: Any,
) -> Any:
    """Solve a tile of blocks, one sub-tile, with up to `terms` carrier terms, and return whether all is finite.

    The bits of ``starts`` say which steps are starts, in the order of memory. Those of ``fresh`` say which of the
    starts nothing passes. ``carried`` points at the last states before the tile, with 0 .. `terms` terms. Those of the
    tile go to ``left``. If something isn't finite, nothing is written to ``x``, and the states go to ``unsure``, as
    accumulators.
    """

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, bits, fresh, terms, carried, left, unsure = args
        last = tile.lane(tile.count - 1)

        def leave(states: Sequence[Any], number: Any, checks: Any) -> Any:
            return keep_last(r, r.lane(states[tile.order[-1]], last), left, number, checks)

        coefficients, inputs = (load_chunks(r, base, tile.reverse) for base in (a, u))
        scan = BlockScan(r, tile, coefficients, inputs, Starts(r, tile, bits))
        before = r.splat(r.load_number(carried, r.index(0)))
        states = scan.alone(before)

        def one_more(turn: Any, values: Any) -> Any:
            *states, before, checks = values
            number = b.add(turn, r.index(1))
            entry = r.splat(r.load_number(carried, number))
            states = scan.joined(states, before, entry, fresh)
            return [*states, entry, leave(states, number, checks)]

        *states, _, checks = r.repeat(terms, one_more, [*states, before, leave(states, r.index(0), r.zero)])
        return write_sure(r, tile, x, states, checks, unsure)

    address = types.int64
    return types.boolean(tile, *[address] * 9), codegen


@operation
def inner_tile(tile: Any, a: Any, u: Any, x: Any, terms: Any, carried: Any, left: Any, unsure: Any) -> Any:
    """Solve a tile in which no block starts, with the same bits as `blocks_tile`."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, terms, carried, left, unsure = args
        (sub,) = read(r, tile, a, u).values()
        combine(r, tile, sub)
        before, last, step = tile.earlier(1), tile.lane(tile.count - 1), tile.order[-1]
        latest, earlier = (r.shuffle(factor, r.one, before) for factor in (sub.latest, sub.earlier))
        within = latest, earlier, r.shuffle(sub.reached, r.zero, before)
        ends = [r.lane(vector, last) for vector in (*within, sub.products[step], sub.states[step])]

        def leave(term: Any, values: Sequence[Any]) -> list[Any]:
            entering = r.fma(ends[0], r.multiply(ends[1], r.load_number(carried, term)), ends[2])
            return [keep_last(r, r.fma(ends[3], entering, ends[4]), left, term, values[0])]

        entering = r.fma(latest, r.multiply(earlier, r.splat(r.load_number(carried, terms))), within[2])
        (checks,) = r.repeat(b.add(terms, r.index(1)), leave, [r.zero])
        states = [r.fma(sub.products[k], entering, sub.states[k]) for k in range(CHUNK)]
        return write_sure(r, tile, x, states, checks, unsure)

    address = types.int64
    return types.boolean(tile, *[address] * 7), codegen


@operation
def one_start_tile(
    tile: Any,
    a: Any,
    u: Any,
    x: Any,
    starts: Any,
    fresh: Any,
    terms: Any,
    carried: Any,
    left: Any,
    unsure: Any,
) -> Any:
    """Solve a tile in which one block starts, with one carrier term or more and the same bits as `blocks_tile`.

    The states that pass the start are scalars. The state w and the product g of the step before are found once. Each
    number of terms then gives the state that passes. Behind ``unsure`` is room for eleven vectors.
    """

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, bits, fresh, terms, carried, left, unsure = args
        coefficients, inputs = (load_chunks(r, base, tile.reverse) for base in (a, u))
        starts = Starts(r, tile, bits)
        scan = BlockScan(r, tile, coefficients, inputs, starts)
        step, last = tile.order[-1], tile.lane(tile.count - 1)
        pieces = [*scan.states, *scan.products, scan.reached, scan.latest, scan.earlier]
        room = r.at(unsure, CHUNK * VECTOR)
        for row, vector in enumerate(pieces):
            r.store_accumulators(vector, r.at(room, row * VECTOR))
        lane, place = place_before(r, tile, bits)
        number = b.add(place, lane)
        state, product, reached, latest, earlier = (
            r.load_number(room, b.add(at, r.index(row * tile.count)))
            for at, row in ((number, 0), (number, CHUNK), *((lane, 2 * CHUNK + factor) for factor in range(3)))
        )
        own_state, own_product, *within = (
            r.lane(vector, last)
            for vector in (scan.states[step], scan.products[step], scan.reached, scan.latest, scan.earlier)
        )
        ended = r.nonzero(b.and_(bits, r.index(tile.last_chunk)))
        at_first, nothing_passes = r.nonzero(b.and_(bits, r.index(tile.first_bit))), r.nonzero(fresh)

        def passes(entry: Any) -> Any:
            """Return the state that passes the start, from the state that enters the tile."""
            before = r.fma(product, r.fma(latest, b.fmul(earlier, entry), reached), state)
            before = b.select(at_first, entry, before)
            return b.select(nothing_passes, r.lane(r.zero, 0), before)

        def one_more(turn: Any, values: Sequence[Any]) -> list[Any]:
            checks, _, passed = values
            term = b.add(turn, r.index(1))
            entering = b.select(ended, passed, r.fma(within[1], b.fmul(within[2], passed), within[0]))
            checks = keep_last(r, r.fma(own_product, entering, own_state), left, term, checks)
            return [checks, passed, passes(r.load_number(carried, term))]

        alone = b.select(ended, own_state, r.fma(own_product, within[0], own_state))
        first = passes(r.load_number(carried, r.index(0)))
        checks, passed, _ = r.repeat(terms, one_more, [keep_last(r, alone, left, r.index(0), r.zero), first, first])
        passed = r.splat(passed)
        entering = r.select(starts.before, passed, r.splat(r.load_number(carried, terms)))
        entering = scan.entered(entering)
        states = [
            r.fma(product, r.select(since, passed, entering), state)
            for since, product, state in zip(starts.since, scan.products, scan.states, strict=True)
        ]
        return write_sure(r, tile, x, states, checks, unsure)

    address = types.int64
    return types.boolean(tile, *[address] * 9), codegen


def place_before(r: Registers, tile: Tile, bits: Any) -> tuple[Any, Any]:
    """Return the lane of the step before the only bit set, and the number of its vector times the number of lanes."""
    b = r.b
    place = r.trailing_zeros(b.lshr(bits, r.index(1)) if not tile.reverse else b.shl(bits, r.index(1)))
    place = b.and_(place, r.index(tile.sub_tile - 1))  # any place if there is no such step
    chunk = b.lshr(place, r.index(2))
    lanes = sum(chunk_lane(tile.storage, tile.count, number) << 4 * number for number in range(tile.count))
    lane = b.and_(b.lshr(r.index(lanes), b.shl(chunk, r.index(2))), r.index(15))
    return lane, b.mul(b.and_(place, r.index(CHUNK - 1)), r.index(tile.count))


def keep_last(r: Registers, state: Any, left: Any, term: Any, checks: Any) -> Any:
    """Keep the last state with `term` terms, and return the checks with it: it may enter nothing but a start."""
    r.store_number(state, left, term)
    return r.fma(r.splat(state), r.zero, checks)


def write_sure(r: Registers, tile: Tile, x: Any, states: Sequence[Any], checks: Any, unsure: Any) -> Any:
    """Store the states if they and the numbers in `checks` are finite, or else at `unsure`. Return whether all are."""
    for state in states:
        checks = r.fma(state, r.zero, checks)
    finite = write(r, tile, x, {0: packed(r, states)}, checks)
    with r.b.if_then(r.b.not_(finite), likely=False):
        for row, vector in enumerate(order_of_chunks(r, states)):
            r.store_accumulators(vector, r.at(unsure, row * VECTOR))
    return finite
