"""The uniform window of short lags in each row, over some runs of blocks at a time.

Blocks have as many steps as there are lags. A step sees two things. One is its own block so far, which is a plain loop
from the start of the block. The other is the end of the block before, whose contribution is a suffix sum
(`band_tiles`). A group of runs is first walked against the steps, for the suffix sums of all blocks, and then along the
steps. The sums of the block before a run are those of the last block of the previous run.

Steps before and after the groups are solved block by block with the same arithmetic. So is a group whose states aren't
all finite. In such a block, the definition repeats the states from the first one that isn't finite. Later steps don't
change a bit of it, because a thread whose piece ends within the block doesn't see them.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.band_scales import scaled_back, scaled_on, turn_back, turn_mask, turn_on
from recfact.cpu.block_runs import blocks_in_run, first_address, step_edge, steps_skipped
from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.operations import (
    accumulator,
    all_finite,
    checked,
    drain,
    fma,
    load,
    multiply,
    nought,
    single,
    size,
    store,
    width,
)
from recfact.cpu.row_steps import Row, row_at
from recfact.cpu.runs import entered, is_streamed, x_side
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled
from recfact.cpu.slices import bits_ahead, coefficients, fetch_both, fetch_slice, inputs, put_slice, wrapped
from recfact.cpu.stage import clear_stage, enter_stage, leave_stage
from recfact.cpu.tile_solvers import number, runs_in_reverse, units
from recfact.cpu.window_steps import window_steps


@apart
def solve_block(
    runs: Any,
    row: Row,
    first: int,
    count: int,
    sums: int,
    lonely: bool,
    skipped: int,
    lags: int,
    x0: Any,
    initial: bool,
) -> None:
    """Solve a block of `count` steps from step `first` on, and write the steps from `skipped` on.

    At `sums` are the suffix sums of the block before, one for each step. In the end its own sums are there. Nothing
    enters its first step if it is `lonely`. `x0` enters the first step of the row if `initial`.
    """
    one = single(runs)
    kept = accumulator(one)
    word = size(kept)
    forward = -1 if runs_in_reverse(runs) else 1
    origin = row.steps - 1 if runs_in_reverse(runs) else 0
    state, product, scale, sound = number(kept, 0.0), number(kept, 1.0), no_scale(kept), count
    for k in range(count):
        if k > 0 and k % SPACING == 0:
            product, scale = rescaled(kept, product, scale)
        i = origin + (first + k) * forward
        value = load(one, row.u, i * row.u_step)
        if k == 0:
            state = value
            if not lonely:
                product = load(one, row.a, i * row.a_step)
        else:
            factor = load(one, row.a, i * row.a_step)
            state, product = fma(kept, factor, state, value), multiply(kept, product, factor)
        result = fma(kept, product, scaled(kept, scale, load(kept, sums, k * word)), state)
        if sound == count and not all_finite(kept, result):
            sound = k
        if first + k >= skipped:
            store(one, row.x, i * row.x_step, result)
    begin = max(first + sound, skipped)
    if begin < first + count:
        window_steps(runs, row, origin + begin * forward, first + count - begin, lags, origin, x0, initial)
    added, factor, scale = number(kept, 0.0), number(kept, 1.0), no_scale(kept)
    for k in range(count - 1, -1, -1):
        later = count - 1 - k
        if later > 0 and later % SPACING == 0:
            factor, scale = rescaled(kept, factor, scale)
        i = origin + (first + k) * forward
        store(kept, sums, k * word, added)
        if k > 0:
            coefficient, value = load(one, row.a, i * row.a_step), load(one, row.u, i * row.u_step)
            if later == 0:
                added, factor = value, coefficient
            else:
                added = fma(kept, factor, scaled(kept, scale, value), added)
                factor = multiply(kept, factor, coefficient)


@helper
def step_back(kept: Any, a: Any, u: Any, ends: int, factor: Any, added: Any, sums: int) -> Any:
    """Store the suffix sum of a step, and return the map of the steps from it on to the end of its block."""
    if ends != 0:
        store(kept, sums, 0, nought(kept))
        return a, u
    store(kept, sums, 0, added)
    return multiply(kept, factor, a), fma(kept, factor, u, added)


@helper
def keep_step(kept: Any, a: Any, u: Any, copy: int) -> None:
    """Keep the coefficients and inputs of a step."""
    store(kept, copy, 0, a)
    store(kept, copy, size(kept), u)


@helper
def walk_back(
    runs: Any, a: int, u: int, a_step: int, run: int, lags: int, pattern: int, sums: int, copies: int
) -> None:
    """Find the suffix sums of a group's steps. Keep its coefficients and inputs in turn, as they lie in lanes.

    Steps behind a run belong to another block. They change nothing before the run's end.
    """
    kept = accumulator(runs)
    word = size(kept)
    factor, scale, added, mask = nought(kept), no_scale(kept), nought(kept), turn_mask(lags)
    step, hop = (run - 1) // CHUNK * CHUNK, CHUNK % lags
    offset = (lags - 1 - step) % lags
    while step >= 0:
        fetch_both(runs, a, u, a_step, width(runs) * (2 * run - step))
        own, values = coefficients(runs, a, a_step, step, run), inputs(runs, u, step, run)
        at = copies + 2 * step * word
        keep_step(kept, own[0], values[0], at)
        keep_step(kept, own[1], values[1], at + 2 * word)
        keep_step(kept, own[2], values[2], at + 4 * word)
        keep_step(kept, own[3], values[3], at + 6 * word)
        ends = bits_ahead(pattern, offset)
        place = sums + step * word
        if turn_back(offset, lags, mask) >= CHUNK:
            factor, added = step_back(kept, own[3], values[3], ends & 8, factor, added, place + 3 * word)
            factor, added = step_back(kept, own[2], values[2], ends & 4, factor, added, place + 2 * word)
            factor, added = step_back(kept, own[1], values[1], ends & 2, factor, added, place + word)
            factor, added = step_back(kept, own[0], values[0], ends & 1, factor, added, place)
        else:
            factor, scale, added, plain = scaled_back(kept, at, place, ends, offset, lags, factor, scale, added)
            mask = turn_mask(lags) if plain else 0
        offset = wrapped(offset + hop - lags, lags)
        step -= CHUNK


@helper
def step_on(kept: Any, copies: int, step: int, starts: int, product: Any, state: Any) -> Any:
    """Return the product and the state of a step's block so far."""
    word = size(kept)
    a, u = load(kept, copies, 2 * step * word), load(kept, copies, (2 * step + 1) * word)
    if starts != 0:
        return a, u
    return multiply(kept, product, a), fma(kept, a, state, u)


@apart
def solve_band(
    runs: Any,
    a: int,
    u: int,
    x: int,
    a_step: int,
    run: int,
    lags: int,
    pattern: int,
    before: int,
    room: int,
) -> bool:
    """Solve a group of runs of `run` steps each, and return whether all its states are finite.

    `a`, `u` and `x` are the addresses of the first step; `x` may be on a stage. At `before` are the suffix sums of the
    block before. If all is finite, those of the last block replace them. `room` is as large as `band_runs` says.
    """
    one, kept = accumulator(single(runs)), accumulator(runs)
    word = size(kept)
    sums = room + 4 * word
    own = sums + lags * word
    copies = own + (run + CHUNK) * word
    walk_back(runs, a, u, a_step, run, lags, pattern, own, copies)
    for k in range(lags):
        last = load(kept, sums, (run + k) * word)
        store(kept, sums, k * word, entered(runs, last, load(one, before, k * size(one))))
    product, scale, state, checks, mask = nought(kept), no_scale(kept), nought(kept), nought(kept), turn_mask(lags)
    step, offset, hop = 0, 0, CHUNK % lags
    while step < run:
        if not is_streamed(runs):
            fetch_slice(x_side(runs), x, width(runs) * (run + step))
        starts = bits_ahead(pattern, offset)
        place = sums + step * word
        first, second, third, fourth = state, state, state, state
        if turn_on(offset, lags, mask) >= CHUNK:
            product, state = step_on(kept, copies, step, starts & 1, product, state)
            first = fma(kept, product, load(kept, place, 0), state)
            product, state = step_on(kept, copies, step + 1, starts & 2, product, state)
            second = fma(kept, product, load(kept, place, word), state)
            product, state = step_on(kept, copies, step + 2, starts & 4, product, state)
            third = fma(kept, product, load(kept, place, 2 * word), state)
            product, state = step_on(kept, copies, step + 3, starts & 8, product, state)
            fourth = fma(kept, product, load(kept, place, 3 * word), state)
        else:
            at = copies + 2 * step * word
            product, scale, state, plain = scaled_on(kept, at, place, starts, offset, lags, product, scale, state)
            mask = turn_mask(lags) if plain else 0
            first, second = load(kept, at, 0), load(kept, at, 2 * word)
            third, fourth = load(kept, at, 4 * word), load(kept, at, 6 * word)
        checks = checked(kept, first, checked(kept, second, checks))
        checks = checked(kept, third, checked(kept, fourth, checks))
        put_slice(runs, x, step, run, (first, second, third, fourth), room)
        offset = wrapped(offset - hop, lags)
        step += CHUNK
    if not all_finite(kept, checks):
        return False
    for k in range(lags):
        store(one, before, k * size(one), load(one, sums, (run + k + 1) * word - size(one)))
    return True


@kernel
def band_runs(
    runs: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    lags: int,
    pattern: int,
    x0: int,
    alone: int,
    first: int,
    skip: int,
    most: int,
    room: int,
    stage: int,
) -> None:
    """Solve the uniform window in each row. The states must not overwrite the inputs.

    Parameters
    ----------
    rows, count, steps, x_step, u_step, a_step, pattern, alone, skip
        As in `block_runs`.
    lags : int
        Lags to keep, and steps in a block.
    x0 : address of accumulators, shape (count,)
        The initial states, or 0.
    first : int
        The first step of the first block that begins in the rows.
    most : int
        Largest number of blocks in a run.
    room : address of accumulators
        Room for `lags` of them, then up to one vector of them, then ``2 lags + 3 run + 20`` vectors.
    stage : address
        As in `block_runs`.
    """
    kept = accumulator(single(runs))
    word = size(kept)
    x_unit, u_unit, a_unit = units(runs)
    dense = x_step == x_unit and u_step == u_unit and (a_step == a_unit or a_step == 0)
    skipped = steps_skipped(runs, steps, skip)
    vectors = room + -(-lags // width(runs)) * size(accumulator(runs))
    initial = alone == 0 and x0 != 0
    for index in range(count):
        row = row_at(runs, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        entering = load(kept, x0, index * word) if x0 != 0 else number(kept, 0.0)
        for k in range(lags):
            store(kept, room, k * word, entering)
        done = min(first, steps)
        if done > 0:
            solve_block(runs, row, 0, done, room + (lags - first) * word, False, skipped, lags, entering, initial)
        rest = 0
        settled = step_edge(runs, row, done)
        while done < steps:
            lonely = done == 0 and (alone != 0 or x0 != 0)
            blocks = 0
            if dense and rest == 0 and done >= skipped and not lonely:
                blocks = blocks_in_run(runs, steps - done, lags, most, 0)
            if blocks > 0:
                following = done + width(runs) * blocks * lags
                edge, end = step_edge(runs, row, done), step_edge(runs, row, following)
                x = enter_stage(runs, stage, edge, end, settled, first_address(runs, row.x, x_step, steps, done))
                if solve_band(
                    runs,
                    first_address(runs, row.a, a_step, steps, done),
                    first_address(runs, row.u, u_step, steps, done),
                    x,
                    a_step,
                    blocks * lags,
                    lags,
                    pattern,
                    room,
                    vectors,
                ):
                    settled = leave_stage(runs, stage, edge, end, settled)
                    done = following
                else:
                    rest = width(runs) * blocks
            else:
                clear_stage(runs, stage, settled, step_edge(runs, row, done))
                length = min(lags, steps - done)
                solve_block(runs, row, done, length, room, done == 0 and alone != 0, skipped, lags, entering, initial)
                rest = max(rest - 1, 0)
                done += length
                settled = step_edge(runs, row, done)
        clear_stage(runs, stage, settled, step_edge(runs, row, done))
    drain(runs)
