"""The states of a group of blocks under a long window, and the sums of its suffixes, a few vectors at a time.

Most of the time is spent here. So the numbers that pass from step to step stay in registers for `SPACING` steps. Then
the other channels take these steps, so memory is walked in its order. Single states aren't checked. If coefficients are
hardly above 1 and inputs are far from the largest number, no state on the way of a window can overflow. Only this is
checked.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_steps import Steps
from recfact.cpu.channel_vectors import AHEAD, FOLD, factor_at, fetch_ahead, folded, folded_vectors, place, vectors
from recfact.cpu.compilation import helper
from recfact.cpu.magnitudes import below, higher
from recfact.cpu.operations import accumulator, fma, load, multiply, nought, single, size, store, width
from recfact.cpu.runs import is_streamed
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled
from recfact.cpu.tile_solvers import further


@helper
def suffixes_of(lanes: Any, part: Steps, begun: int, steps: int, lead: int, block: int, found: int, row: int) -> None:
    """Take up to `SPACING` steps of `suffixes`, of which `begun` are done, for the channels of a vector.

    The addresses are those of its first channel.
    """
    kept = accumulator(lanes)
    last = steps - 1 - begun
    after = found + (last - lead) // block * row
    left = (last - lead) % block
    factor = factor_at(lanes, part.a, last * part.as_.time, part.as_, 0)
    value, scale = load(lanes, part.u, last * part.us.time), no_scale(kept)
    if begun > 0:
        value = load(kept, part.state, 0)
        factor, scale = rescaled(kept, load(kept, part.state, row), load(kept, part.state, 2 * row))
    for i in range(last, max(last - SPACING, lead - 1), -1):
        if i < steps - 1:
            value = fma(kept, factor, scaled(kept, scale, load(lanes, part.u, i * part.us.time)), value)
            factor = multiply(kept, factor, factor_at(lanes, part.a, i * part.as_.time, part.as_, 0))
        if left == 0:
            store(kept, after, 0, value)
            after -= row
            left = block
        left -= 1
    store(kept, part.state, 0, value)
    store(kept, part.state, row, factor)
    store(kept, part.state, 2 * row, scale)


@helper
def suffixes(lanes: Any, part: Steps, steps: int, lead: int, block: int, found: int) -> None:
    """Find the states that the suffixes of a group of blocks reach at its end. The first block has `lead` steps.

    At `part.state` is room for three numbers of each channel.
    """
    kept = accumulator(lanes)
    count = vectors(lanes, part.channels)
    row = part.groups * count * size(kept)
    whole = folded_vectors(lanes, part.channels)
    for begun in range(0, steps - lead, SPACING):
        for h in range(part.groups):
            for v in range(0, whole, FOLD):
                at = (h * count + v) * size(kept)
                suffixes_of(folded(lanes), vector_of(lanes, part, h, v), begun, steps, lead, block, found + at, row)
            for v in range(whole, count):
                at = (h * count + v) * size(kept)
                suffixes_of(lanes, vector_of(lanes, part, h, v), begun, steps, lead, block, found + at, row)


@helper
def vector_of(lanes: Any, part: Steps, group: int, vector: int) -> Steps:
    """Return the steps from the first channel of a vector on. The last vector may overlap the one before it."""
    channel = min(vector * width(lanes), part.channels - width(lanes))
    return Steps(
        part.a + place(part.as_, 0, group, channel),
        part.u + place(part.us, 0, group, channel),
        part.x + place(part.xs, 0, group, channel),
        part.as_,
        part.us,
        part.xs,
        part.groups,
        part.channels,
        part.state + (group * vectors(lanes, part.channels) + vector) * size(accumulator(lanes)),
    )


@helper
def join_of(
    lanes: Any,
    part: Steps,
    begun: int,
    steps: int,
    joined: int,
    known: bool,
    entered: bool,
    block: int,
    most: tuple[float, float],
    found: int,
    row: int,
    later: tuple[int, int, int],
) -> Any:
    """Take up to `SPACING` steps of `join`, of which `begun` are done, for the channels of a vector.

    The addresses are those of its first channel. `later` are those of later coefficients, inputs and states to fetch.
    Returns those at which to go on, and whether nothing is wild.
    """
    kept = accumulator(lanes)
    a, u, x, as_, us, xs = part.a, part.u, part.x, part.as_, part.us, part.xs
    value = load(lanes, u, begun * us.time)
    state, factor = value, nought(kept)
    highest, largest = nought(kept), nought(kept)
    product, scale = factor, no_scale(kept)
    if begun > 0:
        state = load(kept, part.state, 0)
        product, scale = rescaled(kept, load(kept, part.state, row), load(kept, part.state, 2 * row))
    else:
        largest = higher(kept, largest, value)
        if known:
            factor = factor_at(lanes, a, 0, as_, 0)
            highest = higher(kept, highest, factor)
        if entered:
            entry = load(kept, part.state, 0)
            largest = higher(kept, largest, entry)
            state = fma(kept, factor, entry, state)
        product = factor
    turns = min(SPACING, steps - begun)
    for turn in range(turns):
        i = begun + turn
        fetch_ahead(lanes, later[0], as_, turn)
        fetch_ahead(lanes, later[1], us, turn)
        if not is_streamed(lanes):
            fetch_ahead(lanes, later[2], xs, turn)
        if i > 0:
            factor, value = factor_at(lanes, a, i * as_.time, as_, 0), load(lanes, u, i * us.time)
            highest, largest = higher(kept, highest, factor), higher(kept, largest, value)
            state = fma(kept, factor, state, value)
        result = state
        if i < joined:
            if i > 0:
                product = multiply(kept, product, factor)
            result = fma(kept, product, scaled(kept, scale, load(kept, found, i // block * row)), state)
        store(lanes, x, i * xs.time, result)
    store(kept, part.state, 0, state)
    store(kept, part.state, row, product)
    store(kept, part.state, 2 * row, scale)
    passed = turns * size(lanes)
    if us.time < 0:
        passed = -passed
    tame = below(kept, highest, most[0]) and below(kept, largest, most[1])
    return (later[0] + passed, later[1] + passed, later[2] + passed), tame


@helper
def join(
    lanes: Any,
    part: Steps,
    steps: int,
    joined: int,
    known: bool,
    entered: bool,
    block: int,
    most: tuple[float, float],
    found: int,
) -> bool:
    """Do what `channel_mending.combine` does if nothing is wild, and return whether nothing is.

    If something is wild, the states are worthless. `known` says that the first coefficient is there. `most` are the
    largest allowed magnitudes of coefficients and inputs. At `part.state` are the states that enter the first step, if
    any, and behind them is room for the products and their scales.
    """
    kept = accumulator(lanes)
    count = vectors(lanes, part.channels)
    row = part.groups * count * size(kept)
    whole = folded_vectors(lanes, part.channels)
    calm = True
    backwards = part.us.time < 0
    end_of_row = part.channels * size(single(lanes)) if backwards else 0
    for begun in range(0, steps, SPACING):
        for h in range(part.groups):
            ahead = begun + AHEAD
            later = (
                part.a + place(part.as_, ahead, h, 0) + end_of_row,
                further(part.u + place(part.us, ahead, h, 0) + end_of_row, backwards),
                part.x + place(part.xs, ahead, h, 0) + end_of_row,
            )
            for v in range(0, whole, FOLD):
                at = found + (h * count + v) * size(kept)
                later, tame = join_of(
                    folded(lanes),
                    vector_of(lanes, part, h, v),
                    begun,
                    steps,
                    joined,
                    known,
                    entered,
                    block,
                    most,
                    at,
                    row,
                    later,
                )
                calm = calm and tame
            for v in range(whole, count):
                at = found + (h * count + v) * size(kept)
                later, tame = join_of(
                    lanes,
                    vector_of(lanes, part, h, v),
                    begun,
                    steps,
                    joined,
                    known,
                    entered,
                    block,
                    most,
                    at,
                    row,
                    later,
                )
                calm = calm and tame
    return calm
