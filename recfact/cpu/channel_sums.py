"""The states of a group of blocks under a long window, and the sums of its suffixes, a few vectors at a time.

Most of the time is spent here. So the numbers that pass from step to step stay in registers, and single states aren't
checked. If coefficients are hardly above 1 and inputs are far from the largest number, no state on the way of a window
can overflow. Only this is checked.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_vectors import AHEAD, FOLD, factor_at, fetch_ahead, folded, folded_vectors, place, vectors
from recfact.cpu.compilation import helper
from recfact.cpu.magnitudes import below, higher
from recfact.cpu.operations import accumulator, fma, load, multiply, nought, single, size, store, width
from recfact.cpu.runs import is_streamed
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled
from recfact.cpu.tile_solvers import further
from recfact.cpu.turning import Strides


@helper
def suffixes_of(
    lanes: Any, a: int, u: int, as_: Strides, us: Strides, steps: int, lead: int, block: int, found: int, row: int
) -> None:
    """Find the suffix sums of the channels of a vector. The addresses are those of its first channel."""
    kept = accumulator(lanes)
    last = steps - 1
    factor, value = factor_at(lanes, a, last * as_.time, as_, 0), load(lanes, u, last * us.time)
    after = found + (last - lead) // block * row
    left = (last - lead) % block
    scale = no_scale(kept)
    for i in range(last, lead - 1, -1):
        if i < last:
            if (last - i) % SPACING == 0:
                factor, scale = rescaled(kept, factor, scale)
            value = fma(kept, factor, scaled(kept, scale, load(lanes, u, i * us.time)), value)
            factor = multiply(kept, factor, factor_at(lanes, a, i * as_.time, as_, 0))
        if left == 0:
            store(kept, after, 0, value)
            after -= row
            left = block
        left -= 1


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
    found: int,
) -> None:
    """Find the states that the suffixes of a group of blocks reach at its end. The first block has `lead` steps."""
    kept = accumulator(lanes)
    count = vectors(lanes, channels)
    row = groups * count * size(kept)
    whole = folded_vectors(lanes, channels)
    for h in range(groups):
        a_at, u_at, at = a + h * as_.group, u + h * us.group, found + h * count * size(kept)
        for v in range(0, whole, FOLD):
            offset = v * width(lanes)
            a_tile, u_tile = a_at + offset * as_.lane, u_at + offset * us.lane
            suffixes_of(folded(lanes), a_tile, u_tile, as_, us, steps, lead, block, at + v * size(kept), row)
        for v in range(whole, count):
            channel = min(v * width(lanes), channels - width(lanes))
            a_tile, u_tile = a_at + channel * as_.lane, u_at + channel * us.lane
            suffixes_of(lanes, a_tile, u_tile, as_, us, steps, lead, block, at + v * size(kept), row)


@helper
def join_of(
    lanes: Any,
    a: int,
    u: int,
    x: int,
    as_: Strides,
    us: Strides,
    xs: Strides,
    steps: int,
    joined: int,
    known: bool,
    entered: bool,
    block: int,
    most: tuple[float, float],
    sums: int,
    found: int,
    row: int,
    later: tuple[int, int, int],
) -> Any:
    """Do what `join` does for the channels of a vector. The addresses are those of its first channel.

    `later` are the addresses of later coefficients, inputs and states to fetch. Returns those at which to go on, and
    whether nothing is wild.
    """
    kept = accumulator(lanes)
    value = load(lanes, u, 0)
    state, factor = value, nought(kept)
    highest, largest = nought(kept), higher(kept, nought(kept), value)
    if known:
        factor = factor_at(lanes, a, 0, as_, 0)
        highest = higher(kept, highest, factor)
    if entered:
        entry = load(kept, sums, 0)
        largest = higher(kept, largest, entry)
        state = fma(kept, factor, entry, state)
    product, scale = factor, no_scale(kept)
    for i in range(steps):
        fetch_ahead(lanes, later[0], as_, i)
        fetch_ahead(lanes, later[1], us, i)
        if not is_streamed(lanes):
            fetch_ahead(lanes, later[2], xs, i)
        if i > 0:
            factor, value = factor_at(lanes, a, i * as_.time, as_, 0), load(lanes, u, i * us.time)
            highest, largest = higher(kept, highest, factor), higher(kept, largest, value)
            state = fma(kept, factor, state, value)
        result = state
        if i < joined:
            if i > 0:
                if i % SPACING == 0:
                    product, scale = rescaled(kept, product, scale)
                product = multiply(kept, product, factor)
            result = fma(kept, product, scaled(kept, scale, load(kept, found, i // block * row)), state)
        store(lanes, x, i * xs.time, result)
    passed = steps * size(lanes)
    if us.time < 0:
        passed = -passed
    tame = below(kept, highest, most[0]) and below(kept, largest, most[1])
    return (later[0] + passed, later[1] + passed, later[2] + passed), tame


@helper
def join(
    lanes: Any,
    a: int,
    now: int,
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
    most: tuple[float, float],
    sums: int,
    found: int,
) -> bool:
    """Do what `channel_mending.combine` does if nothing is wild, and return whether nothing is.

    If something is wild, the states are worthless. `most` are the largest allowed magnitudes of coefficients and
    inputs. At `sums` are the states that enter the first step, if any.
    """
    kept = accumulator(lanes)
    count = vectors(lanes, channels)
    row = groups * count * size(kept)
    known = edge > 0 or entered  # in reverse, the first coefficient isn't there
    calm = True
    for h in range(groups):
        a_at, u_at, x_at = a + place(as_, edge, h, 0), now + place(us, 0, h, 0), x + place(xs, edge, h, 0)
        distance = max(steps, AHEAD)
        end_of_row = channels * size(single(lanes)) if us.time < 0 else 0
        later = (
            a_at + distance * as_.time + end_of_row,
            further(u_at + distance * us.time + end_of_row, us.time < 0),
            x_at + distance * xs.time + end_of_row,
        )
        for v in range(0, folded_vectors(lanes, channels), FOLD):
            channel, at = v * width(lanes), (h * count + v) * size(kept)
            later, tame = join_of(
                folded(lanes),
                a_at + channel * as_.lane,
                u_at + channel * us.lane,
                x_at + channel * xs.lane,
                as_,
                us,
                xs,
                steps,
                joined,
                known,
                entered,
                block,
                most,
                sums + at,
                found + at,
                row,
                later,
            )
            calm = calm and tame
        for v in range(folded_vectors(lanes, channels), count):
            channel, at = min(v * width(lanes), channels - width(lanes)), (h * count + v) * size(kept)
            later, tame = join_of(
                lanes,
                a_at + channel * as_.lane,
                u_at + channel * us.lane,
                x_at + channel * xs.lane,
                as_,
                us,
                xs,
                steps,
                joined,
                known,
                entered,
                block,
                most,
                sums + at,
                found + at,
                row,
                later,
            )
            calm = calm and tame
    return calm
