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
    reached, total : vector
        The same for all chunks before, since the last start in them.
    """

    def __init__(self, r: Registers, tile: Tile, a: Sequence[Any], u: Sequence[Any], starts: Starts) -> None:
        self.r, self.tile, self.starts = r, tile, starts
        self.last = tile.order[-1]
        products, states = list(a), list(u)
        for before, k in pairwise(tile.order):
            products[k] = r.select(starts.at[k], a[k], r.b.fmul(products[before], a[k]))
            states[k] = r.select(starts.at[k], u[k], r.fma(a[k], states[before], u[k]))
        total, reached = products[self.last], states[self.last]
        for stage, within in enumerate(starts.within):
            lanes = tile.earlier(1 << stage)
            reached = r.select(within, reached, r.fma(total, r.shuffle(reached, r.zero, lanes), reached))
            total = r.select(within, total, r.b.fmul(total, r.shuffle(total, r.one, lanes)))
        self.states, self.products = states, products
        self.reached, self.total = (
            r.shuffle(value, nothing, tile.earlier(1)) for value, nothing in ((reached, r.zero), (total, r.one))
        )

    def alone(self, entry: Any) -> list[Any]:
        """Return the states without carrier terms. `entry` is the state before the sub-tile, in all lanes."""
        r = self.r
        entering = r.select(self.starts.before, self.reached, r.fma(self.total, entry, self.reached))
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
        entering = r.fma(self.total, latest, self.reached)
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
        total = r.shuffle(r.multiply(sub.latest, sub.earlier), r.one, before)
        reached = r.shuffle(sub.reached, r.zero, before)
        ends = [r.lane(vector, last) for vector in (total, reached, sub.products[step], sub.states[step])]

        def leave(term: Any, values: Sequence[Any]) -> list[Any]:
            after = r.fma(ends[2], r.fma(ends[0], r.load_number(carried, term), ends[1]), ends[3])
            return [keep_last(r, after, left, term, values[0])]

        entering = r.fma(total, r.splat(r.load_number(carried, terms)), reached)
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
    number of terms then gives the state that passes. Behind ``unsure`` is room for ten vectors.
    """

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, bits, fresh, terms, carried, left, unsure = args
        coefficients, inputs = (load_chunks(r, base, tile.reverse) for base in (a, u))
        starts = Starts(r, tile, bits)
        scan = BlockScan(r, tile, coefficients, inputs, starts)
        step, last = tile.order[-1], tile.lane(tile.count - 1)
        pieces = [*scan.states, *scan.products, scan.reached, scan.total]
        room = r.at(unsure, CHUNK * VECTOR)
        for row, vector in enumerate(pieces):
            r.store_accumulators(vector, r.at(room, row * VECTOR))
        lane, place = place_before(r, tile, bits)
        number = b.add(place, lane)
        state, product, reached, total = (
            r.load_number(room, b.add(at, r.index(row * tile.count)))
            for at, row in ((number, 0), (number, CHUNK), (lane, 2 * CHUNK), (lane, 2 * CHUNK + 1))
        )
        ends = [r.lane(vector, last) for vector in (scan.states[step], scan.products[step], scan.reached, scan.total)]
        ended = r.nonzero(b.and_(bits, r.index(tile.last_chunk)))
        at_first, nothing_passes = r.nonzero(b.and_(bits, r.index(tile.first_bit))), r.nonzero(fresh)

        def passes(entry: Any) -> Any:
            """Return the state that passes the start, from the state that enters the tile."""
            before = b.select(at_first, entry, r.fma(product, r.fma(total, entry, reached), state))
            return b.select(nothing_passes, r.lane(r.zero, 0), before)

        def one_more(turn: Any, values: Sequence[Any]) -> list[Any]:
            checks, _, passed = values
            term = b.add(turn, r.index(1))
            entering = b.select(ended, passed, r.fma(ends[3], passed, ends[2]))
            checks = keep_last(r, r.fma(ends[1], entering, ends[0]), left, term, checks)
            return [checks, passed, passes(r.load_number(carried, term))]

        alone = b.select(ended, ends[0], r.fma(ends[1], ends[2], ends[0]))
        first = passes(r.load_number(carried, r.index(0)))
        checks, passed, _ = r.repeat(terms, one_more, [keep_last(r, alone, left, r.index(0), r.zero), first, first])
        passed = r.splat(passed)
        entering = r.select(starts.before, passed, r.splat(r.load_number(carried, terms)))
        entering = r.fma(scan.total, entering, scan.reached)
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
