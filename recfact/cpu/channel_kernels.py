"""The recurrence over channels that lie next to each other in memory, as plain loops.

At every step all channels advance together, so memory is read and written in its own order. The states are kept in a
scratch area that stays in the first-level cache. Every channel is the plain loop, with one fused multiply-add per step.
So the bits of the result don't depend on the layout, nor on how the work was split.

A window of whole blocks (`recfact.windows.Jagged`) is followed with ``terms + 1`` states. Each of them is the plain
loop from the start of another block. The output comes from the oldest state, which starts anew at the next block. So
truncated results are plain loops too, with NaN and infinities in the same places.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_steps import Steps, four, narrow, several, three
from recfact.cpu.channel_vectors import fills, overlapped, place, vectors
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.operations import accumulator, drain, integer, load, single, size, store, streamed, width
from recfact.cpu.turning import Strides, copy_start, turn_back, turn_in, turned


@helper
def begin(
    lanes: Any, u: int, x: int, us: Strides, xs: Strides, groups: int, channels: int, state: int, states: int
) -> None:
    """Take the first step. No state enters it, so every state is the input."""
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
    """Set all states to the initial one."""
    one = accumulator(single(lanes))
    count = vectors(lanes, channels)
    for j in range(states):
        for h in range(groups):
            for v in range(count):
                channel = min(v * width(lanes), channels - width(lanes))
                for k in range(width(lanes)):
                    value = load(one, x0, h * x0_group + (channel + k) * x0_lane)
                    store(one, state, (((j * groups + h) * count + v) * width(lanes) + k) * size(one), value)


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
    turns: int,
    chunk: int,
    skip: int,
    state: int,
) -> None:
    """Solve problems of one shape and with the same segments. Each has `groups` groups of `channels` channels.

    Several lanes need at least as many channels, and these must have no gaps in memory, or be turned. The last vector
    of a group overlaps the one before it.

    Parameters
    ----------
    table : address of int64, shape (4, problems)
        Addresses of the first state, input, coefficient and initial state of each problem.
    enters : int
        Whether there are initial states. Without one, the first coefficient of a segment isn't read.
    x0_time : int
        Bytes from the initial state of one segment to that of the next.
    starts : address of int64, shape (segments + 1,)
        The first step of each segment, in the order of the steps, and the end of the last segment.
    reverse : int
        Whether blocks are counted from the ends of segments.
    block, states : int
        Steps of a block, and the number of states that are followed. The exact recurrence has one block.
    turns : int
        The bits 1, 2 and 4 say whether x, u and a are turned: worked on in copies (`recfact.cpu.turning`). The bit 8
        says that x may be written past the caches.
    chunk : int
        Steps in a copy.
    skip : int
        Steps whose states aren't written, if the states are turned.
    state : address
        Room for ``states`` times the vectors of a problem, in the type that is computed in, and then for three copies.
    """
    xm, um, am = Strides(x_time, x_group, x_lane), Strides(u_time, u_group, u_lane), Strides(a_time, a_group, a_lane)
    end = integer(starts, segments)
    chunk = min(chunk, end) if turns else end
    a_groups = groups if a_group != 0 else 1  # with 0, the groups share their coefficients
    xs = turned(lanes, xm, chunk, groups, channels) if turns & 1 else xm
    us = turned(lanes, um, chunk, groups, channels) if turns & 2 else um
    as_ = turned(lanes, am, chunk, a_groups, channels) if turns & 4 else am
    room = chunk * groups * channels * size(single(lanes))
    x_copy = state + states * groups * vectors(lanes, channels) * size(accumulator(lanes))
    u_copy, a_copy = x_copy + room, x_copy + 2 * room
    for problem in range(problems):
        x_memory = integer(table, problem)
        u_memory = integer(table, problems + problem)
        a_memory = integer(table, 2 * problems + problem)
        x0 = integer(table, 3 * problems + problem)
        x, u, a = x_memory, u_memory, a_memory
        begun, ready = 0, 0
        for segment in range(segments):
            done, steps = integer(starts, segment), integer(starts, segment + 1)
            edge = done + block
            if reverse:
                edge -= (done - steps) % block
            first = True
            turn_of_block = 0
            while done < steps:
                if done == ready:
                    if turns & 1 and ready > 0:
                        less, place = min(max(skip - begun, 0), ready - begun), x_memory + begun * x_time
                        turn_back(
                            lanes, place, xm, ready - begun, groups, channels, less, x_copy, u_copy, turns & 8 != 0
                        )
                    begun, ready = ready, min(ready + chunk, end)
                    count = ready - begun
                    if turns & 1:
                        x = copy_start(lanes, xm, count, groups, channels, x_copy) - begun * xs.time
                    if turns & 2:
                        ahead, place = chunk * u_time, u_memory + begun * u_time
                        if ready == end:
                            ahead = integer(table, problems + min(problem + 1, problems - 1)) - place
                        turn_in(lanes, place, um, count, groups, channels, 0, u_copy, ahead)
                        u = copy_start(lanes, um, count, groups, channels, u_copy) - begun * us.time
                    if turns & 4:
                        ahead, place = chunk * a_time, a_memory + begun * a_time
                        if ready == end:
                            ahead = integer(table, 2 * problems + min(problem + 1, problems - 1)) - place
                        less = 1 if begun == 0 and not enters else 0
                        turn_in(lanes, place, am, count, a_groups, channels, less, a_copy, ahead)
                        a = copy_start(lanes, am, count, a_groups, channels, a_copy) - begun * as_.time
                if first:
                    first = False
                    if enters:
                        enter(lanes, x0 + segment * x0_time, x0_group, x0_lane, groups, channels, state, states)
                    else:
                        begin(lanes, u + done * us.time, x + done * xs.time, us, xs, groups, channels, state, states)
                        done += 1
                        continue
                at = Steps(
                    a + done * as_.time,
                    u + done * us.time,
                    x + done * xs.time,
                    as_,
                    us,
                    xs,
                    groups,
                    channels,
                    state,
                )
                fits = (states == 2 or states == 3) and groups == 1 and fills(lanes, channels)
                row = vectors(lanes, channels) * size(accumulator(lanes))
                if block == 1 and states > 1 and done == edge:
                    edge = min(steps, ready)
                    if fits:
                        places = (state, state + (states - 2) * row, state + (states - 1) * row)
                        three(lanes, at, edge - done, places, False, True)
                    else:
                        several(lanes, at, edge - done, states, 0, states - 1, True)
                    done = edge
                    continue
                fresh = -1
                if done == edge:
                    fresh = turn_of_block % states
                    turn_of_block += 1
                    edge += block
                taken = min(edge, steps, ready) - done
                oldest = turn_of_block % states
                if states == 1 and fresh >= 0:
                    taken = 1
                    several(lanes, at, 1, 1, 0, 0, False)
                elif fits:
                    middle, newest = (oldest + states - 2) % states, (oldest + states - 1) % states
                    places = (state + oldest * row, state + middle * row, state + newest * row)
                    three(lanes, at, taken, places, fresh >= 0, False)
                elif states == 1 and groups == 1 and channels <= 2 * width(lanes):
                    narrow(lanes, at, taken)
                elif states == 1 and groups == 1 and channels == 4 * width(lanes):
                    four(lanes, at, taken)
                else:
                    several(lanes, at, taken, states, oldest, fresh, False)
                done += taken
        if turns & 1:
            less, place = min(max(skip - begun, 0), ready - begun), x_memory + begun * x_time
            turn_back(lanes, place, xm, ready - begun, groups, channels, less, x_copy, u_copy, turns & 8 != 0)
    if turns & 8:
        drain(streamed(lanes))
    drain(lanes)
