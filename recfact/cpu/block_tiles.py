"""Tiles of blocks: scans that start anew wherever a block does, for jagged windows and for segments.

A sub-tile is solved from zero as a scan tile is, but no stage crosses a start: the lanes that would are left out by
flags (`starts`), never multiplied by zero, so that neither NaN nor infinities cross one. What is kept of a step are
the state w reached from zero and the product g of the coefficients, both since the last start in the sub-tile or since
its begin. What entered there, e, completes the state: x = w + g e. For states without carrier terms e is nothing at a
start, and the state before the sub-tile at its begin. Each further term takes for e, at a start, the state with one
term less that the step before it reached. Only this is done anew for each term. It takes moves alone, so no state is
rounded more often than in the whole recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from numba import types

from recfact.cpu.chunks import CHUNK, load_chunks, order_of_chunks, packed
from recfact.cpu.numbers import operation
from recfact.cpu.starts import Starts
from recfact.cpu.tiles import Tile, write
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
        The states w and products g of the steps, by place in a chunk.
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
        total, reached = r.shuffle(total, r.one, tile.earlier(1)), r.shuffle(reached, r.zero, tile.earlier(1))
        self.states, self.products = [], []
        for since, state, product in zip(starts.since, states, products, strict=True):
            self.states.append(r.select(since, state, r.fma(product, reached, state)))
            self.products.append(r.select(since, product, r.b.fmul(product, total)))

    def alone(self, entry: Any) -> list[Any]:
        """Return the states without carrier terms; `entry` is the one before the sub-tile, in all lanes."""
        r = self.r
        steps = zip(self.starts.begun, self.states, self.products, strict=True)
        return [r.select(begun, state, r.fma(product, entry, state)) for begun, state, product in steps]

    def joined(self, states: Sequence[Any], before: Any, entry: Any, fresh: Any) -> list[Any]:
        """Return the states with one term more.

        Parameters
        ----------
        states : sequence of vectors
            Those with one term less.
        before, entry : vector
            The state before the sub-tile with one term less, and with as many, in all lanes.
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
        latest = r.select(starts.within[0], latest, entry)
        for stage, within in enumerate(starts.within):
            latest = r.select(within, latest, r.shuffle(latest, entry, self.tile.earlier(1 << stage)))
        latest = r.shuffle(latest, entry, self.tile.earlier(1))
        results = {}
        for k in order:
            latest = r.select(starts.at[k], previous[k], latest)
            results[k] = r.fma(self.products[k], latest, self.states[k])
        return [results[k] for k in range(CHUNK)]


@operation
def blocks_tile(
    typingctx: Any,
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
    """Solve a tile of blocks, one sub-tile, to `terms` carrier terms; return whether all is finite.

    The bits of ``starts`` say which steps are starts, in the order of memory, and those of ``fresh`` which of them
    nothing passes. ``carried`` points at the last states before the tile, with 0 .. `terms` terms, and ``left`` at
    where to put those of the tile. If something isn't finite, nothing is written to ``x``, and the states go to
    ``unsure``, as accumulators.
    """

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        r = Registers(context, b, tile)
        _, a, u, x, bits, fresh, terms, carried, left, unsure = args
        last = tile.lane(tile.count - 1)

        def leave(states: Sequence[Any], number: Any, checks: Any) -> Any:
            """Keep the last state, and return the checks with it: a start may be all that it enters."""
            after = r.lane(states[tile.order[-1]], last)
            r.store_number(after, left, number)
            return r.fma(r.splat(after), r.zero, checks)

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
        for state in states:
            checks = r.fma(state, r.zero, checks)
        finite = write(r, tile, x, {0: packed(r, states)}, checks)
        leave_unsure(r, finite, states, unsure)
        return finite

    address = types.int64
    return types.boolean(tile, *[address] * 9), codegen


def leave_unsure(r: Registers, finite: Any, states: Sequence[Any], unsure: Any) -> None:
    """Store the states as accumulators, in the order of memory, unless all is finite."""
    with r.b.if_then(r.b.not_(finite), likely=False):
        for row, vector in enumerate(order_of_chunks(r, states)):
            r.store_accumulators(vector, r.at(unsure, row * VECTOR))
