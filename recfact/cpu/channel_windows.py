"""Long windows over channels that lie next to each other in memory, at a cost that doesn't depend on their length.

A window of many blocks (uniform windows have blocks of one step) is cut where it crosses the edge of a group of
``terms + 1`` blocks. In the group, the states w that start at the edge from zero and the products g of the coefficients
since the edge are plain loops. Before it, the window takes in a suffix of the group before, whose state S at the edge
depends on the suffix alone. So the states are w + g S, and the suffix sums are made once a group, backwards: the
sliding-window minimum of van Herk (1992) and Gil and Werman (1993), for affine maps.

Where neither the result nor the states on a window's way are sure to be finite, the definition takes over
(`recfact.cpu.channel_mending`).
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_kernels import Strides, enter, place, vectors
from recfact.cpu.channel_mending import mend, trusted
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.magnitudes import grown, largest
from recfact.cpu.numbers import (
    accumulator,
    fma,
    integer,
    load,
    load_shared,
    multiply,
    nought,
    put_integer,
    single,
    size,
    store,
    width,
)


@helper
def copy(lanes: Any, u: int, us: Strides, to: int, ts: Strides, steps: int, groups: int, channels: int) -> None:
    """Copy the inputs of a group of blocks, before the states overwrite them."""
    for i in range(steps):
        for h in range(groups):
            for v in range(vectors(lanes, channels)):
                channel = min(v * width(lanes), channels - width(lanes))
                store(lanes, to, place(ts, i, h, channel), load(lanes, u, place(us, i, h, channel)))


@helper
def suffixes(
    lanes: Any,
    a: int,
    u: int,
    as_: Strides,
    us: Strides,
    steps: int,
    groups: int,
    channels: int,
    lead: int,
    block: int,
    areas: tuple[int, int, int],
) -> None:
    """Find the states that the suffixes of a group of blocks reach at its end; the first block has `lead` steps."""
    kept = accumulator(lanes)
    sums, products, found = areas
    count = vectors(lanes, channels)
    for i in range(steps - 1, lead - 1, -1):
        edge = (i - lead) % block == 0
        row = found + (i - lead) // block * (groups * count * size(kept))
        for h in range(groups):
            common = load_shared(lanes, a, place(as_, i, h, 0))
            for v in range(count):
                channel = min(v * width(lanes), channels - width(lanes))
                factor = common if as_.lane == 0 else load(lanes, a, place(as_, i, h, channel))
                value = load(lanes, u, place(us, i, h, channel))
                at = (h * count + v) * size(kept)
                if i < steps - 1:
                    product = load(kept, products, at)
                    value = fma(kept, product, value, load(kept, sums, at))
                    factor = multiply(kept, product, factor)
                store(kept, sums, at, value)
                store(kept, products, at, factor)
                if edge:
                    store(kept, row, at, value)


@helper
def combine(
    lanes: Any,
    a: int,
    now: int,
    before: int,
    x: int,
    as_: Strides,
    us: Strides,
    xs: Strides,
    edge: int,
    steps: int,
    lead: int,
    groups: int,
    channels: int,
    joined: int,
    entered: bool,
    block: int,
    terms: int,
    areas: tuple[int, int, int, int, int, int, int, int],
) -> None:
    """Write the states of the group of blocks that starts at step `edge`; `joined` of them follow a group before."""
    kept = accumulator(lanes)
    sums, products, found, peaks, bounds, bounds_before, spare, marks = areas
    for i in range(steps):
        suffix = found + i // block * (groups * vectors(lanes, channels) * size(kept))
        start = edge - (terms - i // block) * block
        for h in range(groups):
            common = load_shared(lanes, now, place(us, i, h, 0))
            if i > 0 or edge > 0 or entered:  # nothing stands before the first coefficient in reverse
                common = load_shared(lanes, a, place(as_, edge + i, h, 0))
            for v in range(vectors(lanes, channels)):
                channel = min(v * width(lanes), channels - width(lanes))
                at = (h * vectors(lanes, channels) + v) * size(kept)
                value = load(lanes, now, place(us, i, h, channel))
                state, factor = value, common
                if as_.lane != 0 and (i > 0 or edge > 0 or entered):
                    factor = load(lanes, a, place(as_, edge + i, h, channel))
                if i > 0 or entered:
                    state = fma(kept, factor, load(kept, sums, at), value)
                store(kept, sums, at, state)
                bound = nought(kept)
                if i > 0:
                    bound = load(kept, bounds, at)
                else:
                    store(kept, bounds_before, at, load(kept, bounds, at))
                bound = grown(kept, bound, factor, value)
                store(kept, bounds, at, bound)
                if i < joined:
                    peak = nought(kept)
                    if i > 0:
                        factor = multiply(kept, load(kept, products, at), factor)
                        peak = load(kept, peaks, at)
                    peak = largest(kept, peak, factor)
                    store(kept, products, at, factor)
                    store(kept, peaks, at, peak)
                    entry, before_edge = load(kept, suffix, at), load(kept, bounds_before, at)
                    state = fma(kept, factor, entry, state)
                    if not trusted(kept, state, peak, entry, bound, before_edge):
                        store(kept, spare, 0, state)
                        mend(
                            lanes,
                            a + place(as_, 0, h, channel),
                            now + place(us, 0, h, channel),
                            before + place(us, 0, h, channel),
                            as_,
                            us,
                            edge,
                            start,
                            edge + i,
                            spare,
                            peaks + at,
                            suffix + at,
                            bounds + at,
                            bounds_before + at,
                            marks + at // size(kept) * width(lanes) * 16,
                        )
                        state = load(kept, spare, 0)
                store(lanes, x, place(xs, edge + i, h, channel), state)


@kernel
def slide(
    lanes: Any,
    table: int,
    problems: int,
    steps: int,
    groups: int,
    channels: int,
    x_time: int,
    u_time: int,
    a_time: int,
    x_group: int,
    u_group: int,
    a_group: int,
    x0_group: int,
    x_lane: int,
    u_lane: int,
    a_lane: int,
    x0_lane: int,
    enters: int,
    first: int,
    block: int,
    terms: int,
    keeps: int,
    scratch: int,
) -> None:
    """Solve problems of one shape under a window of ``terms + 1`` blocks; see `channel_kernels.follow`.

    Parameters
    ----------
    keeps : int
        Whether the states overwrite the inputs, so that copies of these are kept.
    scratch : address
        Room for ``terms + 5`` states of each channel, one vector, two integers for each channel, and the copies.
    """
    one = single(lanes)
    kept = accumulator(lanes)
    as_ = Strides(a_time, a_group, a_lane)
    xs = Strides(x_time, x_group, x_lane)
    row = groups * vectors(lanes, channels) * size(kept)
    sums, products, peaks = scratch, scratch + row, scratch + 2 * row
    bounds, bounds_before, found = scratch + 3 * row, scratch + 4 * row, scratch + 5 * row
    spare = found + terms * row
    marks = spare + size(kept)
    copies = marks + row // size(kept) * width(lanes) * 16
    source = Strides(u_time, u_group, u_lane)
    us = source
    if keeps:
        us = Strides(groups * channels * size(one), channels * size(one), size(one))
    areas = (sums, products, found, peaks, bounds, bounds_before, spare, marks)
    for problem in range(problems):
        x = integer(table, problem)
        u = integer(table, problems + problem)
        a = integer(table, 2 * problems + problem)
        for at in range(0, row, size(kept)):
            store(kept, bounds, at, nought(kept))
        for k in range(row // size(kept) * width(lanes)):
            put_integer(marks, 2 * k, 0)
            put_integer(marks, 2 * k + 1, -1)
        if enters:
            x0 = integer(table, 3 * problems + problem)
            enter(lanes, x0, x0_group, x0_lane, groups, channels, sums, 1)
        edge = 0
        lead = first
        half = 0
        before = u
        while edge < steps:
            taken = min(lead + terms * block, steps - edge)
            now = u + edge * u_time
            if keeps:
                now = copies + half * (terms + 1) * block * us.time
                copy(lanes, u + edge * u_time, source, now, us, taken, groups, channels)
            joined = 0
            if edge > 0:
                joined = min(terms * block, taken)
            entered = edge == 0 and enters != 0
            combine(
                lanes,
                a,
                now,
                before,
                x,
                as_,
                us,
                xs,
                edge,
                taken,
                lead,
                groups,
                channels,
                joined,
                entered,
                block,
                terms,
                areas,
            )
            if edge + taken < steps:
                a_at = a + edge * a_time
                suffixes(lanes, a_at, now, as_, us, taken, groups, channels, lead, block, areas[:3])
            # The inputs of this group, addressed from the edge of the next one.
            before = now + taken * us.time
            edge += taken
            lead = block
            half = 1 - half
