"""Windows of a few channels next to each other, by runs: pieces of time that are solved side by side.

In memory a few channels without gaps look like a single sequence. So eight runs of them make a group
(`recfact.cpu.runs`). On their way to a table in the first-level cache, its numbers are exchanged between lanes and
vectors: a vector then has a number of each run. In the table each channel is solved by itself, with the same bits as
beside many other channels. The states go back in the same way.

In reverse the numbers of a table are in the order of the steps, so the last channel comes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.block_runs import blocks_in_run, first_address, first_run, follow_steps, steps_skipped
from recfact.cpu.channel_vectors import doubled
from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.numbers import LINE
from recfact.cpu.operations import accumulator, drain, fma, load, load_shared, nought, single, size, store, width
from recfact.cpu.row_steps import Row, row_at
from recfact.cpu.runs import a_side, entered, is_streamed, lead, load_slice, u_side, x_side
from recfact.cpu.slices import fetch_slice, place, put_slice, run_bytes
from recfact.cpu.stage import clear_stage, enter_stage, leave_stage
from recfact.cpu.tile_solvers import runs_in_reverse


@helper
def channel_row(runs: Any, row: Row, channel: int) -> Row:
    """Return the row of a channel. Coefficients have the layout of the inputs, or all channels share them."""
    offset = channel * size(single(runs))
    a = row.a + offset if row.a_step == row.u_step else row.a
    return Row(a, row.u + offset, row.x + offset, row.a_step, row.u_step, row.x_step, row.steps, row.known)


@helper
def channel_of(runs: Any, turn: int, channels: int) -> Any:
    """Return the channel whose numbers are number `turn` of each step of a table."""
    return channels - 1 - turn if runs_in_reverse(runs) else turn


@helper
def gather(runs: Any, base: int, numbers: int, table: int) -> None:
    """Copy the numbers of a group of runs to a table. `base` is the address of the first number."""
    kept = accumulator(runs)
    word = size(kept)
    for k in range(0, numbers, CHUNK):
        first, second, third, fourth = load_slice(runs, place(runs, base, k, CHUNK), run_bytes(runs, numbers))
        store(kept, table, k * word, first)
        store(kept, table, (k + 1) * word, second)
        store(kept, table, (k + 2) * word, third)
        store(kept, table, (k + 3) * word, fourth)


@helper
def scatter(runs: Any, a: int, u: int, x: int, factors: int, numbers: int, table: int, spare: int) -> None:
    """Copy the states of a group from a table. `x` is the address of the first state.

    A run has so many `factors` and `numbers` in memory. Those of the next group are asked for here: nothing that is
    read here waits for them.
    """
    kept = accumulator(runs)
    word = size(kept)
    for k in range(0, numbers, CHUNK):
        if not is_streamed(runs):
            fetch_slice(x_side(runs), x, width(runs) * (numbers + k))
        if k < factors:
            fetch_slice(a_side(runs), a, width(runs) * (factors + k) + lead(runs))
        fetch_slice(u_side(runs), u, width(runs) * (numbers + k) + lead(runs))
        at = table + k * word
        states = (load(kept, at, 0), load(kept, at, word), load(kept, at, 2 * word), load(kept, at, 3 * word))
        put_slice(runs, x, k, numbers, states, spare)


@helper
def factors_in_run(runs: Any, a_step: int, run: int, channels: int) -> int:
    """Return how many coefficients a run of `run` steps has in memory, or 0 if they are all the same number."""
    if a_step == 0:
        return 0
    return run if a_step == size(single(runs)) else run * channels


@helper
def gather_both(runs: Any, a: int, u: int, factors: int, run: int, channels: int, table: int) -> Any:
    """Copy the inputs of a group to a table, and behind it the coefficients, unless these are all the same number.

    Returns the place of the coefficients, and the bytes there from step to step and from channel to channel.
    """
    word = size(accumulator(runs))
    gather(u_side(runs), u, run * channels, table)
    table += (run * channels + CHUNK) * word
    if factors == 0:
        store(accumulator(runs), table, 0, load_shared(runs, a, 0))
        return table, 0, 0
    gather(a_side(runs), a, factors, table)
    shared = factors == run
    return table, word if shared else channels * word, 0 if shared else word


class Channel(NamedTuple):
    """A channel in a table: the addresses of its first numbers, and the bytes from step to step."""

    a: int
    a_step: int
    u: int
    u_step: int


@helper
def follow_states(kept: Any, channel: Channel, start: int, block: int, terms: int, states: int, keeps: bool) -> None:
    """Do what `follow_block` does for any number of terms."""
    for step in range(start, start + block):
        factor, value = load(kept, channel.a, step * channel.a_step), load(kept, channel.u, step * channel.u_step)
        for term in range(terms, -1, -1):
            state = value
            source = term - 1 if step == start else term
            if source >= 0:
                state = fma(kept, factor, load(kept, states, source * size(kept)), value)
            store(kept, states, term * size(kept), state)
        if keeps:
            store(kept, channel.u, step * channel.u_step, load(kept, states, terms * size(kept)))


@helper
def follow_block(kept: Any, channel: Channel, start: int, block: int, terms: int, states: int, keeps: bool) -> None:
    """Solve the block of a channel that starts at step `start`. If it `keeps` the states, they replace the inputs.

    At `states` are the states before it, with 0 .. `terms` terms. In the end the last states of the block are there.
    """
    if terms > 2:
        follow_states(kept, channel, start, block, terms, states, keeps)
        return
    # For the usual windows, the numbers that pass from step to step stay in registers. With fewer than two terms, some
    # of them are the same.
    word, a, u = size(kept), channel.a + start * channel.a_step, channel.u + start * channel.u_step
    factor, alone = load(kept, a, 0), load(kept, u, 0)
    one, state = alone, alone
    if terms > 0:
        one = fma(kept, factor, load(kept, states, 0), alone)
        state = fma(kept, factor, load(kept, states, (terms - 1) * word), alone)
    if keeps:
        store(kept, u, 0, state)
    for _ in range(1, block):
        a += channel.a_step
        u += channel.u_step
        factor, value = load(kept, a, 0), load(kept, u, 0)
        alone, one = fma(kept, factor, alone, value), fma(kept, factor, one, value)
        state = fma(kept, factor, state, value)
        if keeps:
            store(kept, u, 0, state)
    store(kept, states, 0, alone)
    store(kept, states, min(terms, 1) * word, one)
    store(kept, states, terms * word, state)


@helper
def follow_blocks(kept: Any, channel: Channel, blocks: int, block: int, terms: int, states: int) -> None:
    """Solve `blocks` blocks of a channel, and replace its inputs by states.

    At `states` are the states before them, as for `follow_block`.
    """
    if block > 1:
        for turn in range(blocks):
            follow_block(kept, channel, turn * block, block, terms, states, True)
        return
    for step in range(blocks):
        factor, value = load(kept, channel.a, step * channel.a_step), load(kept, channel.u, step * channel.u_step)
        state = value
        for term in range(terms, 0, -1):
            reached = fma(kept, factor, load(kept, states, (term - 1) * size(kept)), value)
            store(kept, states, term * size(kept), reached)
            if term == terms:
                state = reached
        store(kept, states, 0, value)
        store(kept, channel.u, step * channel.u_step, state)


@helper
def channel_edge(runs: Any, row: Row, step: int) -> Any:
    """Return the address at which the states from a step on begin, in the order of the steps."""
    return row.x + (row.steps - step if runs_in_reverse(runs) else step) * row.x_step


@helper
def first_of_step(runs: Any, base: int, number_step: int, dense_step: int, steps: int, step: int) -> Any:
    """Return the address of the number of a step that comes first in a table."""
    at = first_address(runs, base, number_step, steps, step)
    if runs_in_reverse(runs) and number_step == dense_step:
        at += dense_step - size(single(runs))
    return at


@helper
def takes_two(kept: Any, factor_lane: int, left: int) -> bool:
    """Return whether two channels of a table are solved at once, if so many are left.

    Both fill a vector then, and don't wait for one another. `factor_lane` is that of `gather_both`.
    """
    return 2 * size(kept) <= LINE and factor_lane != 0 and left >= 2


@apart
def follow_channels(
    runs: Any,
    lanes: Any,
    channel: Channel,
    blocks: int,
    block: int,
    terms: int,
    turn: int,
    channels: int,
    carried: int,
    states: int,
) -> None:
    """Solve channel number `turn` of a table, and the ones beside it if `lanes` are those of several.

    At `states` is room for the states of all terms.
    """
    one, kept = accumulator(single(runs)), accumulator(runs)
    word, row = size(kept), size(lanes)
    if terms > 0:
        for term in range(terms):
            store(lanes, states, term * row, nought(lanes))
        for index in range(blocks - terms, blocks):
            follow_block(lanes, channel, index * block, block, terms - 1, states, False)
        for beside in range(row // word):
            own = carried + channel_of(runs, turn + beside, channels) * (terms + 1) * size(one)
            for term in range(terms):
                at = term * row + beside * word
                last = load(kept, states, at)
                store(kept, states, at, entered(runs, last, load(one, own, term * size(one))))
    store(lanes, states, terms * row, nought(lanes))
    follow_blocks(lanes, channel, blocks, block, terms, states)
    for beside in range(row // word):
        own = carried + channel_of(runs, turn + beside, channels) * (terms + 1) * size(one)
        for term in range(terms + 1):
            last_lane = term * row + (beside + 1) * word - size(one)
            store(one, own, term * size(one), load(one, states, last_lane))


@apart
def solve_blocks(
    runs: Any,
    a: int,
    u: int,
    x: int,
    a_step: int,
    blocks: int,
    block: int,
    terms: int,
    channels: int,
    carried: int,
    room: int,
) -> None:
    """Solve a group of runs with `blocks` blocks each, as `block_runs.solve_runs` does.

    `carried` has the states of each channel in turn. `room` is as large as `block_channels` says.
    """
    kept = accumulator(runs)
    word, run = size(kept), blocks * block
    states = room + CHUNK * word
    inputs = states + 2 * (terms + 1) * word
    count = factors_in_run(runs, a_step, run, channels)
    factors, factor_step, factor_lane = gather_both(runs, a, u, count, run, channels, inputs)
    turn = 0
    while turn < channels:
        channel = Channel(factors + turn * factor_lane, factor_step, inputs + turn * word, channels * word)
        if takes_two(kept, factor_lane, channels - turn):
            follow_channels(runs, doubled(kept), channel, blocks, block, terms, turn, channels, carried, states)
            turn += 2
        else:
            follow_channels(runs, kept, channel, blocks, block, terms, turn, channels, carried, states)
            turn += 1
    scatter(runs, a, u, x, count, run * channels, inputs, room)


@kernel
def block_channels(
    runs: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    channels: int,
    block: int,
    terms: int,
    states: int,
    alone: int,
    first: int,
    skip: int,
    most: int,
    room: int,
    stage: int,
) -> None:
    """Solve blocks with carrier terms in rows of a few channels. There are no gaps between the numbers.

    Parameters
    ----------
    channels : int
        Number of channels. Each channel has its own coefficients, or all share them.
    states : address of accumulators, shape (count, channels, terms + 1)
        As in `block_runs`, like the other parameters.
    room : address
        Room for ``2 terms + 14 + 2 channels run`` vectors of accumulators.
    """
    word = size(accumulator(single(runs)))
    skipped = steps_skipped(runs, steps, skip)
    begin = first_run(first, skipped, block, steps)
    for index in range(count):
        row = row_at(runs, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        carried = states + index * channels * (terms + 1) * word
        for channel in range(channels):
            own, at = channel_row(runs, row, channel), carried + channel * (terms + 1) * word
            follow_steps(runs, own, 0, begin, first, block, terms, at, alone != 0, skipped)
        done = begin
        settled = channel_edge(runs, row, done)
        while True:
            blocks = blocks_in_run(runs, steps - done, block, most, terms)
            if blocks < max(terms, 1):
                break
            following = done + width(runs) * blocks * block
            edge, end = channel_edge(runs, row, done), channel_edge(runs, row, following)
            x = enter_stage(runs, stage, edge, end, settled, first_of_step(runs, row.x, x_step, x_step, steps, done))
            a = first_of_step(runs, row.a, a_step, x_step, steps, done)
            u = first_of_step(runs, row.u, u_step, x_step, steps, done)
            solve_blocks(runs, a, u, x, a_step, blocks, block, terms, channels, carried, room)
            settled = leave_stage(runs, stage, edge, end, settled)
            done = following
        clear_stage(runs, stage, settled, channel_edge(runs, row, done))
        for channel in range(channels):
            own, at = channel_row(runs, row, channel), carried + channel * (terms + 1) * word
            follow_steps(runs, own, done, steps, 0, block, terms, at, False, skipped)
    drain(runs)
