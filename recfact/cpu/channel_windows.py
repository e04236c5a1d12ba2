"""Long windows over channels that lie next to each other in memory, at a cost that doesn't depend on their length.

A window of many blocks (uniform windows have blocks of one step) is cut where it crosses the edge of a group of
``terms + 1`` blocks. In the group, the states w that start at the edge from zero and the products g of the coefficients
since the edge are plain loops. Before it, the window takes in a suffix of the group before, whose state S at the edge
depends on the suffix alone. So the states are w + g S, and the suffix sums are made once a group, backwards: the
sliding-window minimum of van Herk (1992) and Gil and Werman (1993), for affine maps.

Products can overflow where states don't, and skip infinities and NaN that plain steps meet. A magnitude, the plain loop
on absolute values, bounds every state on every window's way; where it or a result isn't finite, the step is done again
by the definition, the plain loop over its own window. NaN, which no step leaves, shortens that.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_kernels import Strides, enter, place
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.numbers import (
    accumulator,
    all_finite,
    all_nan,
    any_nan,
    enlarged,
    fma,
    grown,
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
            for v in range(-(-channels // width(lanes))):
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
    areas: tuple[int, int, int, int],
) -> None:
    """Find the states that the suffixes of a group of blocks reach at its end; the first block has `lead` steps."""
    kept = accumulator(lanes)
    sums, products, total, found = areas
    count = -(-channels // width(lanes))
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
                if i == steps - 1:
                    store(kept, total, at, nought(kept))
                else:
                    product = load(kept, products, at)
                    value = fma(kept, product, value, load(kept, sums, at))
                    factor = multiply(kept, product, factor)
                store(kept, sums, at, value)
                store(kept, products, at, factor)
                if edge:
                    store(kept, row, at, value)
                    store(kept, total, at, enlarged(kept, load(kept, total, at), value))


@helper
def trusted(kept: Any, value: Any, bound: Any, before: Any) -> Any:
    """Return whether a result is finite, and no state of its window's plain loop came near overflow."""
    twice = enlarged(kept, bound, bound)
    return all_finite(kept, fma(kept, nought(kept), twice, fma(kept, nought(kept), before, value)))


@helper
def input_at(one: Any, step: int, edge: int, now: int, before: int, time: int) -> Any:
    """Return an input of one channel, of the group of blocks that starts at the step `edge` or of the one before."""
    return load(one, now if step >= edge else before, (step - edge) * time)


@helper
def defined(
    one: Any, a: int, a_time: int, now: int, before: int, time: int, edge: int, start: int, step: int, marks: int
) -> Any:
    """Return the state of one channel at a step by the plain loop from the start of its window.

    A state stays NaN, so the loop needn't start before the last NaN it would meet. `marks` keeps the step up to which
    NaN were looked for, and the last step that a window must not contain if its state is to be a number.
    """
    kept = accumulator(one)
    seen = max(integer(marks, 0), start)
    spoilt = integer(marks, 1)
    for i in range(seen, step):
        if any_nan(kept, input_at(one, i, edge, now, before, time)):
            spoilt = i
        elif any_nan(kept, load(one, a, i * a_time)):
            spoilt = max(spoilt, i - 1)
    put_integer(marks, 0, max(seen, step))
    put_integer(marks, 1, spoilt)
    start = max(start, spoilt)
    state = input_at(one, start, edge, now, before, time)
    for i in range(start + 1, step + 1):
        state = fma(kept, load(one, a, i * a_time), state, input_at(one, i, edge, now, before, time))
        if all_nan(kept, state):
            break
    return state


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
    one = single(lanes)
    single_kept = accumulator(one)
    sums, products, total, found, bounds, bounds_before, spare, marks = areas
    count = -(-channels // width(lanes))
    for i in range(steps):
        suffix = found + i // block * (groups * count * size(kept))
        start = edge - (terms - i // block) * block
        for h in range(groups):
            common = load_shared(lanes, a, place(as_, edge + i, h, 0))
            for v in range(count):
                channel = min(v * width(lanes), channels - width(lanes))
                at = (h * count + v) * size(kept)
                value = load(lanes, now, place(us, i, h, channel))
                reached = value
                factor = value
                bound = enlarged(kept, nought(kept), value)
                if i > 0 or edge > 0 or entered:
                    factor = common if as_.lane == 0 else load(lanes, a, place(as_, edge + i, h, channel))
                    if i > 0 or entered:
                        reached = fma(kept, factor, load(kept, sums, at), value)
                    if i == 0:
                        store(kept, bounds_before, at, load(kept, bounds, at))
                    bound = grown(kept, load(kept, total if i == 0 else bounds, at), factor, value)
                store(kept, sums, at, reached)
                store(kept, bounds, at, bound)
                if i < joined:
                    if i > 0:
                        factor = multiply(kept, load(kept, products, at), factor)
                    store(kept, products, at, factor)
                    reached = fma(kept, factor, load(kept, suffix, at), reached)
                    if not trusted(kept, reached, bound, load(kept, bounds_before, at)):
                        store(kept, spare, 0, reached)
                        for k in range(width(lanes)):
                            k_at = k * size(single_kept)
                            if not trusted(
                                single_kept,
                                load(single_kept, spare, k_at),
                                load(single_kept, bounds, at + k_at),
                                load(single_kept, bounds_before, at + k_at),
                            ):
                                state = defined(
                                    one,
                                    a + place(as_, 0, h, channel + k),
                                    as_.time,
                                    now + place(us, 0, h, channel + k),
                                    before + place(us, 0, h, channel + k),
                                    us.time,
                                    edge,
                                    start,
                                    edge + i,
                                    marks + ((h * count + v) * width(lanes) + k) * 16,
                                )
                                store(single_kept, spare, k_at, state)
                        reached = load(kept, spare, 0)
                store(lanes, x, place(xs, edge + i, h, channel), reached)


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
        Room for `scratch_bytes`.
    """
    one = single(lanes)
    kept = accumulator(lanes)
    as_ = Strides(a_time, a_group, a_lane)
    xs = Strides(x_time, x_group, x_lane)
    row = groups * -(-channels // width(lanes)) * size(kept)
    sums, products, total, bounds, bounds_before = (
        scratch,
        scratch + row,
        scratch + 2 * row,
        scratch + 3 * row,
        scratch + 4 * row,
    )
    found = scratch + 5 * row
    spare = found + terms * row
    marks = spare + size(kept)
    copies = marks + row // size(kept) * width(lanes) * 16
    source = Strides(u_time, u_group, u_lane)
    us = source
    if keeps:
        us = Strides(groups * channels * size(one), channels * size(one), size(one))
    areas = (sums, products, total, found, bounds, bounds_before, spare, marks)
    for problem in range(problems):
        x = integer(table, problem)
        u = integer(table, problems + problem)
        a = integer(table, 2 * problems + problem)
        for at in range(0, row, size(kept)):
            store(kept, bounds, at, nought(kept))
            store(kept, total, at, nought(kept))
        for k in range(row // size(kept) * width(lanes)):
            put_integer(marks, 2 * k, 0)
            put_integer(marks, 2 * k + 1, -1)
        if enters:
            x0 = integer(table, 3 * problems + problem)
            enter(lanes, x0, x0_group, x0_lane, groups, channels, sums, 1)
            for at in range(0, row, size(kept)):
                store(kept, total, at, enlarged(kept, nought(kept), load(kept, sums, at)))
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
                suffixes(lanes, a_at, now, as_, us, taken, groups, channels, lead, block, areas[:4])
            # The inputs of this group, addressed from the edge of the next one.
            before = now + taken * us.time
            edge += taken
            lead = block
            half = 1 - half
