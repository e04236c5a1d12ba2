"""Long uniform windows of a few channels next to each other, by runs: see `channel_runs`.

A window slides over blocks of as many steps as it keeps (`channel_windows`). Here runs take these blocks. In the table
of a group each channel is solved by itself, block by block: first against the steps, for the suffix sums, and then
along them. The result has the same bits as beside many other channels.

Steps before and after the groups are solved channel by channel with sliding windows (`channel_slides`). So are groups
with a number that might make a state on the way of a window overflow.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.block_runs import blocks_in_run, steps_skipped
from recfact.cpu.channel_runs import (
    Channel,
    channel_edge,
    channel_of,
    factors_in_run,
    first_of_step,
    gather_both,
    scatter,
    takes_two,
)
from recfact.cpu.channel_slides import is_calm, look_back, slide_steps
from recfact.cpu.channel_vectors import doubled
from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.magnitudes import higher
from recfact.cpu.numbers import LINE
from recfact.cpu.operations import accumulator, drain, fma, load, multiply, nought, single, size, store, width
from recfact.cpu.row_steps import row_at
from recfact.cpu.runs import entered
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled
from recfact.cpu.stage import clear_stage, enter_stage, leave_stage

MOST_LAGS_OF_TWO = 64  # so many lags of two channels at once have room in the first-level cache


@helper
def walk_back(kept: Any, a: int, a_step: int, u: int, u_step: int, start: int, lags: int, sums: int) -> None:
    """Find the suffix sums of the block of a channel that starts at a step."""
    a += (start + lags - 1) * a_step
    u += (start + lags - 1) * u_step
    sums += (lags - 2) * size(kept)
    factor, value = load(kept, a, 0), load(kept, u, 0)
    store(kept, sums, 0, value)
    scale = no_scale(kept)
    for turn in range(0, lags - 1, SPACING):
        if turn > 0:
            factor, scale = rescaled(kept, factor, scale)
        for _ in range(max(turn, 1), min(turn + SPACING, lags - 1)):
            a -= a_step
            u -= u_step
            sums -= size(kept)
            value = fma(kept, factor, scaled(kept, scale, load(kept, u, 0)), value)
            factor = multiply(kept, factor, load(kept, a, 0))
            store(kept, sums, 0, value)


@helper
def walk_on(
    kept: Any,
    a: int,
    a_step: int,
    u: int,
    u_step: int,
    start: int,
    lags: int,
    sums: int,
    highest: Any,
    largest: Any,
) -> Any:
    """Replace the inputs of a block of a channel by its states, and return the largest magnitudes up to its end.

    At `sums` are the suffix sums of the block before.
    """
    a += start * a_step
    u += start * u_step
    product, state = load(kept, a, 0), load(kept, u, 0)
    highest, largest = higher(kept, highest, product), higher(kept, largest, state)
    store(kept, u, 0, fma(kept, product, load(kept, sums, 0), state))
    scale = no_scale(kept)
    for turn in range(0, lags - 1, SPACING):
        if turn > 0:
            product, scale = rescaled(kept, product, scale)
        for _ in range(max(turn, 1), min(turn + SPACING, lags - 1)):
            a += a_step
            u += u_step
            sums += size(kept)
            factor, value = load(kept, a, 0), load(kept, u, 0)
            highest, largest = higher(kept, highest, factor), higher(kept, largest, value)
            state, product = fma(kept, factor, state, value), multiply(kept, product, factor)
            store(kept, u, 0, fma(kept, product, scaled(kept, scale, load(kept, sums, 0)), state))
    factor, value = load(kept, a, a_step), load(kept, u, u_step)
    highest, largest = higher(kept, highest, factor), higher(kept, largest, value)
    store(kept, u, u_step, fma(kept, factor, state, value))
    return highest, largest


@apart
def slide_channels(
    runs: Any,
    lanes: Any,
    channel: Channel,
    blocks: int,
    lags: int,
    turn: int,
    channels: int,
    before: int,
    sums: int,
) -> bool:
    """Do what `follow_channels` does for a uniform window. Return whether nothing is wild.

    `before` is that of `solve_band`. At `sums` is room for the suffix sums of two blocks.
    """
    one, kept = accumulator(single(runs)), accumulator(runs)
    word, row = size(kept), size(lanes)
    a, a_step, u, u_step = channel.a, channel.a_step, channel.u, channel.u_step
    earlier, later = sums, sums + lags * row
    walk_back(lanes, a, a_step, u, u_step, (blocks - 1) * lags, lags, later)
    for beside in range(row // word):
        own = before + channel_of(runs, turn + beside, channels) * lags * size(one)
        for k in range(lags - 1):
            at = k * row + beside * word
            last = load(kept, later, at)
            store(kept, earlier, at, entered(runs, last, load(one, own, k * size(one))))
            store(one, own, k * size(one), load(one, later, at + word - size(one)))
    highest, largest = nought(lanes), nought(lanes)
    for index in range(blocks):
        if index < blocks - 1:
            walk_back(lanes, a, a_step, u, u_step, index * lags, lags, later)
        highest, largest = walk_on(lanes, a, a_step, u, u_step, index * lags, lags, earlier, highest, largest)
        earlier, later = later, earlier
    calm: bool = is_calm(lanes, highest, largest, lags)
    return calm


@apart
def solve_band(
    runs: Any,
    a: int,
    u: int,
    x: int,
    a_step: int,
    blocks: int,
    lags: int,
    channels: int,
    before: int,
    room: int,
) -> bool:
    """Solve a group of runs with `blocks` blocks each, unless something is wild. Return whether nothing is.

    At `before` are the suffix sums of the block before, for each channel. In the end those of the last block are there.
    The other parameters are those of `channel_runs.solve_blocks`.
    """
    kept = accumulator(runs)
    word, run = size(kept), blocks * lags
    sums = room + CHUNK * word
    inputs = sums + 4 * lags * word
    count = factors_in_run(runs, a_step, run, channels)
    factors, factor_step, factor_lane = gather_both(runs, a, u, count, run, channels, inputs)
    turn, calm = 0, True
    while turn < channels:
        channel = Channel(factors + turn * factor_lane, factor_step, inputs + turn * word, channels * word)
        if lags <= MOST_LAGS_OF_TWO and takes_two(kept, factor_lane, channels - turn):
            fine = slide_channels(runs, doubled(kept), channel, blocks, lags, turn, channels, before, sums)
            turn += 2
        else:
            fine = slide_channels(runs, kept, channel, blocks, lags, turn, channels, before, sums)
            turn += 1
        calm = calm and fine
    if not calm:
        return False
    scatter(runs, a, u, x, count, run * channels, inputs, room)
    return True


@kernel
def band_channels(
    runs: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    channels: int,
    lags: int,
    x0: int,
    alone: int,
    first: int,
    skip: int,
    most: int,
    scratch: int,
    room: int,
    stage: int,
) -> None:
    """Solve the uniform window in rows of a few channels. The states must not overwrite the inputs.

    Parameters
    ----------
    channels : int
        As in `channel_runs.block_channels`, like the parameters before it.
    lags : int
        Lags to keep, and steps in a block.
    x0 : address of accumulators, shape (count, channels)
        The initial states, or 0.
    alone, first, skip, most, stage
        As in `band_runs`.
    scratch : address
        Room for ``lags channels`` accumulators, rounded up to a line, and for the scratch memory of `slide_steps`.
    room : address
        Room for ``4 lags + 2 channels run + 12`` vectors of accumulators.
    """
    word = size(accumulator(single(runs)))
    skipped = steps_skipped(runs, steps, skip)
    initial = alone == 0 and x0 != 0
    begin = first
    if begin < skipped:
        begin += (skipped - begin) // lags * lags
    sums, more = scratch, scratch + -(-lags * channels * word // LINE) * LINE
    for index in range(count):
        row = row_at(runs, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        entry = x0 + index * channels * word if initial else 0
        done = begin
        ready, calm = False, False
        settled = channel_edge(runs, row, done)
        while done < steps:
            blocks = 0
            if done >= max(skipped, lags):
                blocks = blocks_in_run(runs, steps - done, lags, most, 0)
            if blocks > 0 and not ready:
                calm, ready = look_back(runs, row, done, lags, channels, initial, sums, more), True
            following = min(done + max(width(runs) * blocks, 1) * lags, steps)
            solved = False
            if blocks > 0 and calm:
                edge, end = channel_edge(runs, row, done), channel_edge(runs, row, following)
                x = enter_stage(
                    runs, stage, edge, end, settled, first_of_step(runs, row.x, x_step, x_step, steps, done)
                )
                a = first_of_step(runs, row.a, a_step, x_step, steps, done)
                u = first_of_step(runs, row.u, u_step, x_step, steps, done)
                solved = solve_band(runs, a, u, x, a_step, blocks, lags, channels, sums, room)
                if solved:
                    settled = leave_stage(runs, stage, edge, end, settled)
            if not solved:
                clear_stage(runs, stage, settled, channel_edge(runs, row, done))
                slide_steps(runs, row, done, following, skipped, lags, channels, entry, initial, more)
                settled = channel_edge(runs, row, following)
                ready = False
            done = following
        clear_stage(runs, stage, settled, channel_edge(runs, row, done))
    drain(runs)
