"""Steps of channels that lie next to each other in memory: rows of one number of each channel.

Each channel is a plain loop with one fused multiply-add per step and state. The states stay in registers if the
channels fill one, two or four vectors and the window follows up to three states. Others wait in a scratch area that
stays in the first-level cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.channel_vectors import doubled, factor_at, fetch, folded, overlapped, place, vectors
from recfact.cpu.compilation import apart, helper
from recfact.cpu.four_vectors import fma_four, load_four, load_shared_four, store_four, vector_step
from recfact.cpu.numbers import PAGE
from recfact.cpu.operations import accumulator, fma, load, load_shared, size, store, width
from recfact.cpu.runs import is_streamed
from recfact.cpu.turning import Strides


class Steps(NamedTuple):
    """Some steps of a problem: the addresses of the first numbers, how all numbers lie, and the address of the states.

    There are `groups` groups of `channels` channels.
    """

    a: int
    u: int
    x: int
    as_: Strides
    us: Strides
    xs: Strides
    groups: int
    channels: int
    state: int


@helper
def later_inputs(part: Steps) -> int:
    """Return the address of the inputs that memory is asked for at the first step.

    They are a page ahead if channels share coefficients and steps run forwards, which takes up to a quarter less time.
    Others gain nothing by this, and so ask for the inputs of the step itself.
    """
    return part.u + PAGE if part.as_.lane == 0 and part.us.time > 0 else part.u


@helper
def narrow(lanes: Any, part: Steps, steps: int) -> None:
    """Take `steps` steps with one state of channels that fill one vector or two. The state stays in registers."""
    kept = accumulator(lanes)
    edge = part.channels - width(lanes)
    value, other = load(kept, part.state, 0), load(kept, part.state, size(kept) if edge else 0)
    later = later_inputs(part)
    for i in range(steps):
        fetch(lanes, later + i * part.us.time)
        common = load_shared(lanes, part.a, i * part.as_.time)
        last = load(lanes, part.u, place(part.us, i, 0, edge))
        factor = common if part.as_.lane == 0 else load(lanes, part.a, i * part.as_.time)
        value = fma(lanes, factor, value, load(lanes, part.u, i * part.us.time))
        store(lanes, part.x, i * part.xs.time, value)
        if edge:
            factor = common if part.as_.lane == 0 else load(lanes, part.a, place(part.as_, i, 0, edge))
            other = fma(lanes, factor, other, last)
            store(lanes, part.x, place(part.xs, i, 0, edge), other)
    store(kept, part.state, 0, value)
    if edge:
        store(kept, part.state, size(kept), other)


@helper
def four(lanes: Any, part: Steps, steps: int) -> None:
    """Take `steps` steps with one state of channels that fill four vectors. The states stay in registers."""
    kept = accumulator(lanes)
    values = load_four(kept, part.state, 0, size(kept))
    later = later_inputs(part)
    for i in range(steps):
        fetch(folded(lanes), later + i * part.us.time)
        factors = load_shared_four(lanes, part.a, i * part.as_.time, part.as_.lane)
        values = fma_four(
            lanes, factors, values, load_four(lanes, part.u, i * part.us.time, vector_step(lanes, part.us.lane))
        )
        store_four(lanes, part.x, i * part.xs.time, vector_step(lanes, part.xs.lane), values)
    store_four(kept, part.state, 0, size(kept), values)


@helper
def three_of(lanes: Any, part: Steps, steps: int, places: tuple[int, int, int], starts: bool, passes: bool) -> None:
    """Do what `three` does for channels that fill a vector. The states stay in registers."""
    kept = accumulator(lanes)
    old, middle, new = load(kept, places[0], 0), load(kept, places[1], 0), load(kept, places[2], 0)
    only_two = places[0] == places[1]
    later = later_inputs(part)
    for i in range(steps):
        fetch(lanes, later + i * part.us.time)
        factor, value = factor_at(lanes, part.a, i * part.as_.time, part.as_, 0), load(lanes, part.u, i * part.us.time)
        if passes:
            old = fma(kept, factor, new if only_two else middle, value)
            middle, new = fma(kept, factor, new, value), value
        else:
            old, middle = fma(kept, factor, old, value), fma(kept, factor, middle, value)
            new = value if starts else fma(kept, factor, new, value)
            starts = False
        store(lanes, part.x, i * part.xs.time, old)
    store(kept, places[1], 0, middle)
    store(kept, places[0], 0, old)
    store(kept, places[2], 0, new)


@helper
def three(lanes: Any, part: Steps, steps: int, places: tuple[int, int, int], starts: bool, passes: bool) -> None:
    """Take `steps` steps with three states of channels that fill one vector, two or four.

    `places` are those of the states, the oldest first. The other parameters are as in `several`: the newest starts anew
    at the first step if it `starts`. With two states, the first two places are the same.
    """
    if part.channels == width(lanes):
        three_of(lanes, part, steps, places, starts, passes)
    elif part.channels == 2 * width(lanes):
        three_of(doubled(lanes), part, steps, places, starts, passes)
    else:
        three_of(doubled(doubled(lanes)), part, steps, places, starts, passes)


@apart
def several(lanes: Any, part: Steps, steps: int, states: int, oldest: int, fresh: int, passes: bool) -> None:
    """Take `steps` steps with `states` states of each channel, row after row of memory.

    The state number `oldest` is the result. Number `fresh` starts anew at the first step. If it `passes`, each state
    takes over from the one behind it at every step, and the last one starts anew.
    """
    kept = accumulator(lanes)
    count = vectors(lanes, part.channels)
    whole, edge = part.channels // width(lanes), part.channels - width(lanes)
    further = part.groups * count * size(kept)
    u_step, x_step = vector_step(lanes, part.us.lane), vector_step(lanes, part.xs.lane)
    a_step = 0 if part.as_.lane == 0 else vector_step(lanes, part.as_.lane)
    # Memory is fetched ahead in one direction: if most arrays run backwards, from the last channel back.
    backwards = part.as_.time + part.us.time + part.xs.time < 0
    source = further if passes else 0
    later = later_inputs(part)
    ahead = max(1, PAGE // (part.groups * part.channels * size(lanes) // width(lanes)))
    for i in range(steps):
        for h in range(part.groups):
            a, u = part.a + place(part.as_, i, h, 0), part.u + place(part.us, i, h, 0)
            x, state = part.x + place(part.xs, i, h, 0), part.state + h * count * size(kept)
            common = load_shared(lanes, a, 0)
            last = overlapped(lanes, u, 0, part.us.lane, part.channels)
            for turn in range(whole // 4):
                v = 4 * (whole // 4 - 1 - turn if backwards else turn)
                if not backwards:
                    fetch(folded(lanes), later + place(part.us, i, h, 0) + v * u_step)
                else:
                    if a_step:
                        fetch(folded(lanes), a + ahead * part.as_.time + v * a_step)
                    fetch(folded(lanes), u + ahead * part.us.time + v * u_step)
                    if not is_streamed(lanes):
                        fetch(folded(lanes), x + ahead * part.xs.time + v * x_step)
                factors = load_shared_four(lanes, a, v * a_step, part.as_.lane)
                values = load_four(lanes, u, v * u_step, u_step)
                at = state + v * size(kept)
                for j in range(states):
                    results = values
                    if j != fresh:
                        results = fma_four(kept, factors, load_four(kept, at + source, 0, size(kept)), values)
                    store_four(kept, at, 0, size(kept), results)
                    if j == oldest:
                        store_four(lanes, x, v * x_step, x_step, results)
                    at += further
            for v in range(whole // 4 * 4, count):
                split = v == whole
                factor = common
                if part.as_.lane != 0:
                    factor = load(lanes, a, edge * part.as_.lane if split else v * a_step)
                value = last if split else load(lanes, u, v * u_step)
                at = state + v * size(kept)
                for j in range(states):
                    reached = value
                    if j != fresh:
                        reached = fma(kept, factor, load(kept, at + source, 0), value)
                    store(kept, at, 0, reached)
                    if j == oldest:
                        store(lanes, x, edge * part.xs.lane if split else v * x_step, reached)
                    at += further
        if not passes:
            fresh = -1
