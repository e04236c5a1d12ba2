"""If the suffix sums of a long window can't be trusted, its states come from the definition.

There are two dangers. Products can overflow although no state does. And sums can miss infinities that the states on the
way of a window reach. Sums of absolute values bound these states: within a group of blocks by the plain loop, and
across its edge by the entering state times the largest product so far. If a result or a bound isn't finite, the plain
loop over its own window repeats the step. NaN shortens this loop, because no later step removes it. Infinities don't
shorten it, so a window of K steps costs K steps if states overflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.channel_vectors import factor_at, place, vectors
from recfact.cpu.compilation import helper
from recfact.cpu.magnitudes import grown, largest, reached
from recfact.cpu.operations import (
    accumulator,
    all_finite,
    all_nan,
    any_nan,
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
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled
from recfact.cpu.turning import Strides


class Areas(NamedTuple):
    """The addresses of areas of scratch memory, each with a number of every channel unless said otherwise.

    `sums`, `products` and `scales` have the state and the product of the coefficients since the edge of the group of
    blocks, and the product's scale. `peaks`, `bounds` and `bounds_before` bound states on the way of a window. `found`
    has the suffix sums of ``terms`` blocks, `spare` one vector, and `marks` two integers of every channel.
    """

    sums: int
    products: int
    scales: int
    peaks: int
    bounds: int
    bounds_before: int
    found: int
    spare: int
    marks: int


@helper
def areas_at(start: int, row: int, terms: int, channels: int) -> Areas:
    """Return the areas from an address on. `row` is the size of a number of each of the channels."""
    marks = start
    start += channels * 16
    return Areas(
        start,
        start + row,
        start + 2 * row,
        start + 3 * row,
        start + 4 * row,
        start + 5 * row,
        start + 6 * row,
        start + (6 + terms) * row,
        marks,
    )


@helper
def trusted(kept: Any, value: Any, peak: Any, entry: Any, bound: Any, before: Any) -> bool:
    """Return whether a result and the bounds of the states on its window's way are finite."""
    zero = nought(kept)
    finite: bool = all_finite(kept, fma(kept, zero, reached(kept, peak, entry, bound), fma(kept, zero, before, value)))
    return finite


@helper
def input_at(one: Any, step: int, edge: int, now: int, before: int, time: int) -> Any:
    """Return an input of one channel, in the group of blocks that starts at step `edge` or in the group before."""
    return load(one, now if step >= edge else before, (step - edge) * time)


@helper
def defined(
    one: Any, a: int, a_time: int, now: int, before: int, time: int, edge: int, start: int, step: int, marks: int
) -> Any:
    """Return the state of one channel at a step by the plain loop from the start of its window.

    A state stays NaN, so the loop starts at the last NaN that it would meet. `marks` has two steps: the one up to which
    NaN were looked for, and the last one that makes a state NaN if the window contains it.
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
def mend(
    lanes: Any,
    a: int,
    now: int,
    before: int,
    as_: Strides,
    us: Strides,
    edge: int,
    start: int,
    step: int,
    spare: int,
    peak: int,
    entry: int,
    bound: int,
    bound_before: int,
    marks: int,
) -> None:
    """Replace the states of a vector in the spare area that can't be trusted."""
    one = single(lanes)
    kept = accumulator(one)
    for k in range(width(lanes)):
        at = k * size(kept)
        if not trusted(
            kept,
            load(kept, spare, at),
            load(kept, peak, at),
            load(kept, entry, at),
            load(kept, bound, at),
            load(kept, bound_before, at),
        ):
            a_lane, now_lane, before_lane = a + k * as_.lane, now + k * us.lane, before + k * us.lane
            exact = defined(one, a_lane, as_.time, now_lane, before_lane, us.time, edge, start, step, marks + k * 16)
            store(kept, spare, at, exact)


@helper
def bound_states(
    lanes: Any,
    a: int,
    u: int,
    as_: Strides,
    us: Strides,
    steps: int,
    groups: int,
    channels: int,
    known: bool,
    area: int,
) -> None:
    """Bound the states of a group of blocks at its end. `known` says that its first coefficient is there."""
    kept = accumulator(lanes)
    for i in range(steps):
        at = area
        for h in range(groups):
            for start in range(0, channels, width(lanes)):
                channel = min(start, channels - width(lanes))
                value = load(lanes, u, place(us, i, h, channel))
                factor = value
                if known or i > 0:
                    factor = factor_at(lanes, a, place(as_, i, h, 0), as_, channel)
                bound = load(kept, area, at - area) if i > 0 else nought(kept)
                store(kept, area, at - area, grown(kept, bound, factor, value))
                at += size(kept)


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
    groups: int,
    channels: int,
    joined: int,
    entered: bool,
    block: int,
    terms: int,
    areas: Areas,
) -> None:
    """Write the states of the group of blocks that starts at step `edge`. `joined` of them follow a group before."""
    kept = accumulator(lanes)
    for i in range(steps):
        suffix = areas.found + i // block * (groups * vectors(lanes, channels) * size(kept))
        start = edge - (terms - i // block) * block
        for h in range(groups):
            common = load_shared(lanes, now, place(us, i, h, 0))
            if i > 0 or edge > 0 or entered:  # in reverse, the first coefficient isn't there
                common = load_shared(lanes, a, place(as_, edge + i, h, 0))
            for v in range(vectors(lanes, channels)):
                channel = min(v * width(lanes), channels - width(lanes))
                at = (h * vectors(lanes, channels) + v) * size(kept)
                value = load(lanes, now, place(us, i, h, channel))
                state, factor = value, common
                if as_.lane != 0 and (i > 0 or edge > 0 or entered):
                    factor = load(lanes, a, place(as_, edge + i, h, channel))
                if i > 0 or entered:
                    state = fma(kept, factor, load(kept, areas.sums, at), value)
                store(kept, areas.sums, at, state)
                bound = nought(kept)
                if i > 0:
                    bound = load(kept, areas.bounds, at)
                else:
                    store(kept, areas.bounds_before, at, load(kept, areas.bounds, at))
                bound = grown(kept, bound, factor, value)
                store(kept, areas.bounds, at, bound)
                if i < joined:
                    peak, scale = nought(kept), no_scale(kept)
                    if i > 0:
                        product, scale = load(kept, areas.products, at), load(kept, areas.scales, at)
                        if i % SPACING == 0:
                            product, scale = rescaled(kept, product, scale)
                        factor, peak = multiply(kept, product, factor), load(kept, areas.peaks, at)
                    peak = largest(kept, peak, scaled(kept, scale, factor))
                    store(kept, areas.products, at, factor)
                    store(kept, areas.scales, at, scale)
                    store(kept, areas.peaks, at, peak)
                    entry, before_edge = load(kept, suffix, at), load(kept, areas.bounds_before, at)
                    state = fma(kept, factor, scaled(kept, scale, entry), state)
                    if not trusted(kept, state, peak, entry, bound, before_edge):
                        store(kept, areas.spare, 0, state)
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
                            areas.spare,
                            areas.peaks + at,
                            suffix + at,
                            areas.bounds + at,
                            areas.bounds_before + at,
                            areas.marks + at // size(kept) * width(lanes) * 16,
                        )
                        state = load(kept, areas.spare, 0)
                store(lanes, x, place(xs, edge + i, h, channel), state)
