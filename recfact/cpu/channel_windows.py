"""Long windows over channels that lie next to each other in memory, at a cost that doesn't depend on their length.

A window of many blocks is cut where it crosses the edge of a group of ``terms + 1`` blocks. (Uniform windows have
blocks of one step.) The part in the group consists of plain loops: the states w that start from zero at the edge, and
the products g of the coefficients since the edge. The part before it is a suffix of the previous group. Its state S at
the edge depends on the suffix alone. So the states are w + g S. The suffix sums are formed once per group, backwards.
This is the sliding-window minimum of van Herk (1992) and Gil and Werman (1993), for affine maps.

If the result, or a state on the way of a window, might not be finite, the definition takes over
(`recfact.cpu.channel_mending`).
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_kernels import enter
from recfact.cpu.channel_mending import Areas, areas_at, bound_states, combine
from recfact.cpu.channel_steps import Steps
from recfact.cpu.channel_sums import join, suffixes
from recfact.cpu.channel_vectors import place, vectors
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.operations import (
    accumulator,
    drain,
    integer,
    load,
    put_integer,
    single,
    size,
    store,
    streamed,
    width,
)
from recfact.cpu.turning import Strides, copy_start, turn_back, turn_in, turned

# Largest tame input. Inputs up to it stay far from the largest number, however many are added up.
TAME = 1e15


@helper
def copy(lanes: Any, u: int, us: Strides, to: int, ts: Strides, steps: int, groups: int, channels: int) -> None:
    """Copy the inputs of a group of blocks, before the states overwrite them."""
    for i in range(steps):
        for h in range(groups):
            for v in range(vectors(lanes, channels)):
                channel = min(v * width(lanes), channels - width(lanes))
                store(lanes, to, place(ts, i, h, channel), load(lanes, u, place(us, i, h, channel)))


@apart
def slide_groups(
    lanes: Any,
    a: int,
    u: int,
    x: int,
    x0: int,
    as_: Strides,
    source: Strides,
    us: Strides,
    xs: Strides,
    x0_group: int,
    x0_lane: int,
    begin: int,
    steps: int,
    groups: int,
    channels: int,
    entered: bool,
    first: int,
    block: int,
    terms: int,
    calm_before: bool,
    keeps: bool,
    areas: Areas,
    copies: int,
) -> None:
    """Solve group after group of blocks, from step `begin` to `steps`. `a`, `u` and `x` are the addresses of step 0.

    A group begins at `begin`, with a block of `first` steps. A whole group stands before it, or nothing does. It says
    by `calm_before` what `join` says of a group, so that the bits don't depend on where steps begin. Inputs have the
    strides `source`. Where they are worked on they have the strides `us`: in `copies`, if it `keeps` these.
    """
    most = (1.0 + 1.0 / (block * (terms + 1)), TAME)
    for k in range(groups * vectors(lanes, channels) * width(lanes)):
        put_integer(areas.marks, 2 * k, 0)
        put_integer(areas.marks, 2 * k + 1, -1)
    edge, lead, half = begin, first, 0
    before = u + begin * us.time
    earlier = 0
    if begin > 0:
        earlier = (terms + 1) * block
        a_at, u_at = a + (begin - earlier) * as_.time, before - earlier * us.time
        part = Steps(a_at, u_at, x, as_, us, xs, groups, channels, areas.sums)
        suffixes(lanes, part, earlier, block, block, areas.found)
    while edge < steps:
        taken = min(lead + terms * block, steps - edge)
        now = u + edge * source.time
        if keeps:
            now = copies + half * (terms + 1) * block * us.time
            copy(lanes, u + edge * source.time, source, now, us, taken, groups, channels)
        joined = 0
        if edge > 0:
            joined = min(terms * block, taken)
        enters_now = edge == 0 and entered
        if enters_now:
            enter(lanes, x0, x0_group, x0_lane, groups, channels, areas.sums, 1)
        part = Steps(a + edge * as_.time, now, x + edge * xs.time, as_, us, xs, groups, channels, areas.sums)
        # In reverse, the first coefficient isn't there.
        calm_now = join(lanes, part, taken, joined, edge > 0 or enters_now, enters_now, block, most, areas.found)
        if not (calm_now and calm_before):
            if enters_now:
                enter(lanes, x0, x0_group, x0_lane, groups, channels, areas.sums, 1)
            known = edge > earlier or entered
            a_at, u_at = a + (edge - earlier) * as_.time, before - earlier * us.time
            bound_states(lanes, a_at, u_at, as_, us, earlier, groups, channels, known, areas.bounds)
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
                groups,
                channels,
                joined,
                enters_now,
                block,
                terms,
                areas,
            )
        calm_before = calm_now
        if edge + taken < steps:
            suffixes(lanes, part, taken, lead, block, areas.found)
        # The inputs of this group, addressed from the edge of the next group.
        before = now + taken * us.time
        earlier = taken
        edge += taken
        lead = block
        half = 1 - half


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
    turns: int,
    skip: int,
    scratch: int,
) -> None:
    """Solve problems of one shape under a window of ``terms + 1`` blocks, as `channel_kernels.follow` does.

    Parameters
    ----------
    keeps : int
        Whether the states overwrite the inputs. Copies of the inputs are then kept.
    turns, skip : int
        As in `follow`. Copies have all steps.
    scratch : address
        Room for ``terms + 6`` states of each channel, one vector, two integers of each channel, and the copies.
    """
    one = single(lanes)
    kept = accumulator(lanes)
    row = groups * vectors(lanes, channels) * size(kept)
    areas = areas_at(scratch, row, terms, groups * vectors(lanes, channels) * width(lanes))
    copies = areas.spare + size(kept)
    xm, um, am = Strides(x_time, x_group, x_lane), Strides(u_time, u_group, u_lane), Strides(a_time, a_group, a_lane)
    a_groups = groups if a_group != 0 else 1  # with 0, the groups share their coefficients
    xs = turned(lanes, xm, steps, groups, channels) if turns & 1 else xm
    source = turned(lanes, um, steps, groups, channels) if turns & 2 else um
    as_ = turned(lanes, am, steps, a_groups, channels) if turns & 4 else am
    room = steps * groups * channels * size(one)
    us = source
    if keeps:
        us = Strides(groups * channels * size(one), channels * size(one), size(one))
    entered = enters != 0
    for problem in range(problems):
        x_memory = integer(table, problem)
        x = x_memory
        u = integer(table, problems + problem)
        a = integer(table, 2 * problems + problem)
        x0 = integer(table, 3 * problems + problem)
        following = min(problem + 1, problems - 1)
        if turns & 1:
            x = copy_start(lanes, xm, steps, groups, channels, copies)
        if turns & 2:
            ahead = integer(table, problems + following) - u
            turn_in(lanes, u, um, steps, groups, channels, 0, copies + room, ahead)
            u = copy_start(lanes, um, steps, groups, channels, copies + room)
        if turns & 4:
            ahead = integer(table, 2 * problems + following) - a
            turn_in(lanes, a, am, steps, a_groups, channels, 0 if entered else 1, copies + 2 * room, ahead)
            a = copy_start(lanes, am, steps, a_groups, channels, copies + 2 * room)
        slide_groups(
            lanes,
            a,
            u,
            x,
            x0,
            as_,
            source,
            us,
            xs,
            x0_group,
            x0_lane,
            0,
            steps,
            groups,
            channels,
            entered,
            first,
            block,
            terms,
            True,
            keeps != 0,
            areas,
            copies,
        )
        if turns & 1:
            spare_copy = copies + room
            turn_back(lanes, x_memory, xm, steps, groups, channels, skip, copies, spare_copy, turns & 8 != 0)
    if turns & 8:
        drain(streamed(lanes))
    drain(lanes)
