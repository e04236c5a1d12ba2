"""The recurrence over channels that lie next to each other in memory, as plain loops.

At every step all channels advance together, so memory is read and written in the order in which it lies. The states
are kept in a scratch area that stays in the first-level cache. Every channel is the plain loop, one fused
multiply-add a step, whatever the layout and however the work was split: the bits of the result depend on nothing else.

A window of whole blocks (`recfact.windows.Jagged`) is followed with ``terms + 1`` states, each the plain loop from the
start of another block: the output comes from the oldest, which starts anew at the next block. So truncated results are
plain loops too, and NaN and infinities end up where they do there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.compilation import helper, kernel
from recfact.cpu.four_vectors import fma_four, load_four, load_shared_four, store_four, vector_step
from recfact.cpu.numbers import (
    accumulator,
    drain,
    fma,
    integer,
    load,
    load_shared,
    single,
    size,
    store,
    width,
)


class Strides(NamedTuple):
    """Bytes from one step, one group of channels and one channel to the next."""

    time: int
    group: int
    lane: int


@helper
def place(strides: Strides, step: int, group: int, channel: int) -> int:
    """Return the offset of a number from the first one of its array."""
    return step * strides.time + group * strides.group + channel * strides.lane


@helper
def vectors(lanes: Any, channels: int) -> int:
    """Return the number of vectors that cover the channels of a group; the last one may overlap the one before it."""
    count: int = -(-channels // width(lanes))
    return count


@helper
def overlapped(lanes: Any, u: int, u_at: int, u_lane: int, channels: int) -> Any:
    """Return the inputs of the last vector if it overlaps another one, whose states may overwrite them, or anything."""
    value = load_shared(lanes, u, u_at)
    if channels % width(lanes):
        value = load(lanes, u, u_at + (channels - width(lanes)) * u_lane)
    return value


@helper
def begin(
    lanes: Any, u: int, x: int, us: Strides, xs: Strides, groups: int, channels: int, state: int, states: int
) -> None:
    """Take the first step, which no state enters: every state is the input."""
    kept = accumulator(lanes)
    count = vectors(lanes, channels)
    for h in range(groups):
        last = overlapped(lanes, u, place(us, 0, h, 0), us.lane, channels)
        for v in range(count):
            channel = min(v * width(lanes), channels - width(lanes))
            value = last if channel < v * width(lanes) else load(lanes, u, place(us, 0, h, channel))
            store(lanes, x, place(xs, 0, h, channel), value)
            for j in range(states):
                store(kept, state, ((j * groups + h) * count + v) * size(kept), value)


@helper
def enter(
    lanes: Any, x0: int, x0_group: int, x0_lane: int, groups: int, channels: int, state: int, states: int
) -> None:
    """Fill all states with the initial one."""
    one = accumulator(single(lanes))
    count = vectors(lanes, channels)
    for j in range(states):
        for h in range(groups):
            for v in range(count):
                channel = min(v * width(lanes), channels - width(lanes))
                for k in range(width(lanes)):
                    value = load(one, x0, h * x0_group + (channel + k) * x0_lane)
                    store(one, state, (((j * groups + h) * count + v) * width(lanes) + k) * size(one), value)


@helper
def narrow(
    lanes: Any,
    a: int,
    u: int,
    x: int,
    as_: Strides,
    us: Strides,
    xs: Strides,
    steps: int,
    channels: int,
    state: int,
) -> None:
    """Take `steps` steps with one state of channels that fill one vector, or two; the state stays in registers."""
    kept = accumulator(lanes)
    edge = channels - width(lanes)
    value, other = load(kept, state, 0), load(kept, state, size(kept) if edge else 0)
    for i in range(steps):
        common = load_shared(lanes, a, i * as_.time)
        last = load(lanes, u, place(us, i, 0, edge))
        factor = common if as_.lane == 0 else load(lanes, a, i * as_.time)
        value = fma(lanes, factor, value, load(lanes, u, i * us.time))
        store(lanes, x, i * xs.time, value)
        if edge:
            factor = common if as_.lane == 0 else load(lanes, a, place(as_, i, 0, edge))
            other = fma(lanes, factor, other, last)
            store(lanes, x, place(xs, i, 0, edge), other)
    store(kept, state, 0, value)
    if edge:
        store(kept, state, size(kept), other)


@helper
def four(lanes: Any, a: int, u: int, x: int, as_: Strides, us: Strides, xs: Strides, steps: int, state: int) -> None:
    """Take `steps` steps with one state of channels that fill four vectors; the states stay in registers."""
    kept = accumulator(lanes)
    values = load_four(kept, state, 0, size(kept))
    for i in range(steps):
        factors = load_shared_four(lanes, a, i * as_.time, as_.lane)
        values = fma_four(lanes, factors, values, load_four(lanes, u, i * us.time, vector_step(lanes, us.lane)))
        store_four(lanes, x, i * xs.time, vector_step(lanes, xs.lane), values)
    store_four(kept, state, 0, size(kept), values)


@helper
def wide(
    lanes: Any,
    a: int,
    u: int,
    x: int,
    as_: Strides,
    us: Strides,
    xs: Strides,
    steps: int,
    groups: int,
    channels: int,
    state: int,
) -> None:
    """Take `steps` steps with one state of each channel."""
    kept = accumulator(lanes)
    whole = channels // width(lanes)
    edge = channels - width(lanes)
    u_step, x_step = vector_step(lanes, us.lane), vector_step(lanes, xs.lane)
    a_step = 0 if as_.lane == 0 else vector_step(lanes, as_.lane)
    # Memory that is walked one way is fetched ahead: back from the last channel where most arrays run backwards.
    backwards = as_.time + us.time + xs.time < 0
    for i in range(steps):
        at = state
        for h in range(groups):
            a_at, u_at, x_at = place(as_, i, h, 0), place(us, i, h, 0), place(xs, i, h, 0)
            common = load_shared(lanes, a, a_at)
            last = overlapped(lanes, u, u_at, us.lane, channels)
            for turn in range(whole // 4):
                v = 4 * (whole // 4 - 1 - turn if backwards else turn)
                factors = load_shared_four(lanes, a, a_at + v * a_step, as_.lane)
                entering = load_four(kept, at, v * size(kept), size(kept))
                values = fma_four(lanes, factors, entering, load_four(lanes, u, u_at + v * u_step, u_step))
                store_four(kept, at, v * size(kept), size(kept), values)
                store_four(lanes, x, x_at + v * x_step, x_step, values)
            for v in range(whole // 4 * 4, whole):
                factor = common if as_.lane == 0 else load(lanes, a, a_at + v * a_step)
                value = load(lanes, u, u_at + v * u_step)
                value = fma(lanes, factor, load(kept, at, v * size(kept)), value)
                store(kept, at, v * size(kept), value)
                store(lanes, x, x_at + v * x_step, value)
            at += whole * size(kept)
            if channels % width(lanes):
                factor = common if as_.lane == 0 else load(lanes, a, a_at + edge * as_.lane)
                value = fma(lanes, factor, load(kept, at, 0), last)
                store(kept, at, 0, value)
                store(lanes, x, x_at + edge * xs.lane, value)
                at += size(kept)


@helper
def several(
    lanes: Any,
    a: int,
    u: int,
    x: int,
    as_: Strides,
    us: Strides,
    xs: Strides,
    steps: int,
    groups: int,
    channels: int,
    state: int,
    states: int,
    oldest: int,
    fresh: int,
) -> None:
    """Take `steps` steps with all states; the state number `fresh` starts anew at the first of them."""
    kept = accumulator(lanes)
    count = vectors(lanes, channels)
    for i in range(steps):
        for h in range(groups):
            common = load_shared(lanes, a, place(as_, i, h, 0))
            last = overlapped(lanes, u, place(us, i, h, 0), us.lane, channels)
            for v in range(count):
                channel = min(v * width(lanes), channels - width(lanes))
                factor = common if as_.lane == 0 else load(lanes, a, place(as_, i, h, channel))
                value = last if channel < v * width(lanes) else load(lanes, u, place(us, i, h, channel))
                at = (h * count + v) * size(kept)
                for j in range(states):
                    reached = value if j == fresh else fma(lanes, factor, load(kept, state, at), value)
                    store(kept, state, at, reached)
                    if j == oldest:
                        store(lanes, x, place(xs, i, h, channel), reached)
                    at += groups * count * size(kept)
        fresh = -1


@kernel
def follow(
    lanes: Any,
    table: int,
    problems: int,
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
    x0_time: int,
    starts: int,
    segments: int,
    reverse: int,
    block: int,
    states: int,
    state: int,
) -> None:
    """Solve problems of one shape and the same segments, each over `groups` groups of `channels` channels.

    Several lanes need channels without gaps in memory, and at least as many of them; the last vector of a group
    overlaps the one before it.

    Parameters
    ----------
    table : address of int64, shape (4, problems)
        Addresses of the first state, input, coefficient and initial state of each problem.
    enters : int
        Whether there are initial states. The first coefficient of a segment isn't read without one.
    x0_time : int
        Bytes from the initial state of one segment to that of the next.
    starts : address of int64, shape (segments + 1,)
        The first step of each segment, in the order of the steps, and the end of the last.
    reverse : int
        Whether blocks are counted from the ends of segments.
    block, states : int
        Steps of a block, and how many states follow. The exact recurrence has one block.
    state : address
        Room for ``states`` times the vectors of a problem, in the type computed in.
    """
    as_ = Strides(a_time, a_group, a_lane)
    us = Strides(u_time, u_group, u_lane)
    xs = Strides(x_time, x_group, x_lane)
    for problem in range(problems):
        x = integer(table, problem)
        u = integer(table, problems + problem)
        a = integer(table, 2 * problems + problem)
        x0 = integer(table, 3 * problems + problem)
        for segment in range(segments):
            done, steps = integer(starts, segment), integer(starts, segment + 1)
            edge = done + block
            if reverse:
                edge -= (done - steps) % block
            if done < steps and enters:
                enter(lanes, x0 + segment * x0_time, x0_group, x0_lane, groups, channels, state, states)
            elif done < steps:
                begin(lanes, u + done * u_time, x + done * x_time, us, xs, groups, channels, state, states)
                done += 1
            turns = 0
            while done < steps:
                fresh = -1
                if done == edge:
                    fresh = turns % states
                    turns += 1
                    edge += block
                stop = min(edge, steps)
                a_at, u_at, x_at = a + done * a_time, u + done * u_time, x + done * x_time
                if states > 1 or fresh >= 0:
                    taken = stop - done if states > 1 else 1
                    oldest = turns % states
                    several(lanes, a_at, u_at, x_at, as_, us, xs, taken, groups, channels, state, states, oldest, fresh)
                else:
                    taken = stop - done
                    if groups == 1 and channels <= 2 * width(lanes):
                        narrow(lanes, a_at, u_at, x_at, as_, us, xs, taken, channels, state)
                    elif groups == 1 and channels == 4 * width(lanes):
                        four(lanes, a_at, u_at, x_at, as_, us, xs, taken, state)
                    else:
                        wide(lanes, a_at, u_at, x_at, as_, us, xs, taken, groups, channels, state)
                done += taken
    drain(lanes)
