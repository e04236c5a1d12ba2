"""Jagged windows in each row: a plain loop for each number of carrier terms, over some runs of blocks at a time.

At the start of a block the state with t terms continues from the state with one term less. The state without terms
starts from zero there. At its beginning a run needs these states from the run before, whose last blocks (as many as
there are terms) must be solved for that. So all runs solve their last blocks first.

Every state is the result of the loop over its window, wherever runs begin and end. So the steps before and after the
groups of runs can be solved one by one, and so can numbers with gaps between them.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.operations import accumulator, drain, fma, load, nought, single, size, store, width
from recfact.cpu.row_steps import Row, row_at
from recfact.cpu.runs import entered, is_streamed, store_slice, x_side
from recfact.cpu.slices import (
    bits_ahead,
    coefficients,
    fetch_both,
    fetch_slice,
    inputs,
    place,
    put_slice,
    run_bytes,
    wrapped,
)
from recfact.cpu.stage import clear_stage, enter_stage, leave_stage
from recfact.cpu.tile_solvers import runs_in_reverse, tile_steps, units


@helper
def take_step(kept: Any, a: Any, u: Any, state: Any, before: Any, starts: int, term: int) -> Any:
    """Return the state after a step. At a start it follows `before`, the state with one term less."""
    if starts == 0:
        return fma(kept, a, state, u)
    if term == 0:
        return u
    return fma(kept, a, before, u)


@helper
def last_of(values: Any, count: int) -> Any:
    """Return the last one of the first `count` of four values."""
    if count >= CHUNK:
        return values[3]
    if count == 3:
        return values[2]
    return values[1] if count == 2 else values[0]


@helper
def take_slice(runs: Any, a: Any, u: Any, starts: int, count: int, terms: int, states: int) -> Any:
    """Take `count` steps of a slice, and return its states with `terms` terms.

    The last state with each number of terms is left at `states`. The bits of `starts` say which steps are starts.
    """
    kept = accumulator(runs)
    before = u
    found = u
    for term in range(terms + 1):
        state = load(kept, states, term * size(kept))
        if starts == 0:
            first = fma(kept, a[0], state, u[0])
            second = fma(kept, a[1], first, u[1])
            third = fma(kept, a[2], second, u[2])
            fourth = fma(kept, a[3], third, u[3])
        else:
            first = take_step(kept, a[0], u[0], state, before[0], starts & 1, term)
            second = take_step(kept, a[1], u[1], first, before[1], starts & 2, term)
            third = take_step(kept, a[2], u[2], second, before[2], starts & 4, term)
            fourth = take_step(kept, a[3], u[3], third, before[3], starts & 8, term)
            before = (state, first, second, third)
        found = (first, second, third, fourth)
        store(kept, states, term * size(kept), last_of(found, count))
    return found


@helper
def step_both(kept: Any, a: Any, u: Any, local: Any, state: Any, starts: int, terms: int) -> Any:
    """Return the states after a step without terms and with `terms`, which are none or one."""
    if starts == 0:
        return fma(kept, a, local, u), fma(kept, a, state, u)
    if terms == 0:
        return u, u
    return u, fma(kept, a, local, u)


@helper
def step_four(kept: Any, a: Any, u: Any, local: Any, state: Any, starts: int, terms: int) -> Any:
    """Return the last state of a slice without terms, and its four states with `terms`, which are none or one."""
    local, first = step_both(kept, a[0], u[0], local, state, starts & 1, terms)
    local, second = step_both(kept, a[1], u[1], local, first, starts & 2, terms)
    local, third = step_both(kept, a[2], u[2], local, second, starts & 4, terms)
    local, fourth = step_both(kept, a[3], u[3], local, third, starts & 8, terms)
    return local, (first, second, third, fourth)


@helper
def solve_slices(
    runs: Any,
    a: int,
    u: int,
    x: int,
    a_step: int,
    step: int,
    run: int,
    block: int,
    pattern: int,
    terms: int,
    states: int,
    keeps: bool,
) -> Any:
    """Solve all slices from `step` on, a start, but an incomplete last one. Return where it begins, and the next start.

    `terms` is 0 or 1. Then the states that pass from step to step stay in registers. They are written if it `keeps`
    them.
    """
    kept, side = accumulator(runs), x_side(runs)
    local, state = load(kept, states, 0), load(kept, states, terms * size(kept))
    offset, hop = 0, CHUNK % block
    while step + CHUNK <= run:
        if keeps:
            ahead = width(runs) * (run + step)
            fetch_both(runs, a, u, a_step, ahead)
            if not is_streamed(runs):
                fetch_slice(side, x, ahead)
        starts = bits_ahead(pattern, offset)
        own, values = coefficients(runs, a, a_step, step, run), inputs(runs, u, step, run)
        if starts == 0:  # most slices: one test does for four steps
            local, found = step_four(kept, own, values, local, state, 0, terms)
        else:
            local, found = step_four(kept, own, values, local, state, starts, terms)
        state = found[3]
        if keeps:
            store_slice(side, place(side, x, step, CHUNK), run_bytes(side, run), found[0], found[1], found[2], found[3])
        offset = wrapped(offset - hop, block)
        step += CHUNK
    store(kept, states, 0, local)
    store(kept, states, terms * size(kept), state)
    return step, offset


@apart
def solve_runs(
    runs: Any,
    a: int,
    u: int,
    x: int,
    a_step: int,
    run: int,
    block: int,
    pattern: int,
    terms: int,
    carried: int,
    states: int,
) -> None:
    """Solve a group of runs with `run` steps each.

    `a`, `u` and `x` are the addresses of the first step; `x` may be on a stage. `carried` points at the states before
    it, with 0 .. `terms` terms. In the end the states behind the group are there. At `states` is room for as many
    vectors, and four more.
    """
    one, kept = accumulator(single(runs)), accumulator(runs)
    spare = states + (terms + 1) * size(kept)
    hop = CHUNK % block
    if terms > 0:
        for term in range(terms):
            store(kept, states, term * size(kept), nought(kept))
        offset, step = 0, run - terms * block
        if terms == 1:
            step, offset = solve_slices(runs, a, u, x, a_step, step, run, block, pattern, 0, states, False)
        while step < run:
            starts = bits_ahead(pattern, offset)
            own = coefficients(runs, a, a_step, step, run)
            take_slice(runs, own, inputs(runs, u, step, run), starts, run - step, terms - 1, states)
            offset = wrapped(offset - hop, block)
            step += CHUNK
        for term in range(terms):
            last = load(kept, states, term * size(kept))
            store(kept, states, term * size(kept), entered(runs, last, load(one, carried, term * size(one))))
    store(kept, states, terms * size(kept), nought(kept))
    offset, step = 0, 0
    if terms == 0:
        step, offset = solve_slices(runs, a, u, x, a_step, 0, run, block, pattern, 0, states, True)
    elif terms == 1:
        step, offset = solve_slices(runs, a, u, x, a_step, 0, run, block, pattern, 1, states, True)
    while step < run:
        ahead = width(runs) * (run + step)
        fetch_both(runs, a, u, a_step, ahead)
        if not is_streamed(runs):
            fetch_slice(x_side(runs), x, ahead)
        starts = bits_ahead(pattern, offset)
        own = coefficients(runs, a, a_step, step, run)
        found = take_slice(runs, own, inputs(runs, u, step, run), starts, run - step, terms, states)
        put_slice(runs, x, step, run, found, spare)
        offset = wrapped(offset - hop, block)
        step += CHUNK
    for term in range(terms + 1):
        store(one, carried, term * size(one), load(one, states, (term + 1) * size(kept) - size(one)))


@apart
def follow_steps(
    runs: Any,
    row: Row,
    first: int,
    last: int,
    offset: int,
    block: int,
    terms: int,
    carried: int,
    lonely: bool,
    skipped: int,
) -> None:
    """Take the steps first .. last-1 one by one, and write the steps from `skipped` on.

    `offset` is the number of steps to the next start. Nothing enters the first step if it is `lonely`.
    """
    one = single(runs)
    kept = accumulator(one)
    for step in range(first, last):
        i = row.steps - 1 - step if runs_in_reverse(runs) else step
        value = load(one, row.u, i * row.u_step)
        for term in range(terms, -1, -1):
            state = value
            source = term - 1 if offset == 0 else term
            if source >= 0 and not lonely:
                state = fma(kept, load(one, row.a, i * row.a_step), load(kept, carried, source * size(kept)), value)
            store(kept, carried, term * size(kept), state)
        if step >= skipped:
            store(one, row.x, i * row.x_step, load(kept, carried, terms * size(kept)))
        lonely = False
        offset = (block if offset == 0 else offset) - 1


@helper
def first_address(runs: Any, base: int, number_step: int, steps: int, step: int) -> Any:
    """Return the address of a step's number in a row."""
    return base + (steps - 1 - step if runs_in_reverse(runs) else step) * number_step


@helper
def step_edge(runs: Any, row: Row, step: int) -> Any:
    """Return the address at which the states of a dense row from a step on begin, in the order of the steps."""
    return row.x + (row.steps - step if runs_in_reverse(runs) else step) * size(single(runs))


@helper
def steps_skipped(runs: Any, steps: int, skip: int) -> Any:
    """Return how many steps at the start of a row belong to the first `skip` multiples of ``runs.steps``."""
    if runs_in_reverse(runs):  # the first multiple may be incomplete
        return max(skip * tile_steps(runs) - -steps % tile_steps(runs), 0)
    return skip * tile_steps(runs)


@helper
def first_run(first: int, skipped: int, block: int, steps: int) -> int:
    """Return where runs begin: at the first start of a block behind the skipped steps, or at the end."""
    begin = first
    if begin < skipped:
        begin += (skipped - begin + block - 1) // block * block
    return min(begin, steps)


@helper
def blocks_in_run(runs: Any, left: int, block: int, most: int, terms: int) -> Any:
    """Return how many blocks, at most `most`, a run of the next group has if `left` steps are left.

    Whole slices are read, both from the first step of a run on and from the first step of its last `terms` blocks on.
    The last slice also reads steps behind the last run, so these must exist.
    """
    blocks = min(left // block // width(runs), most)
    beyond = max(-(blocks * block) % CHUNK, -(terms * block) % CHUNK)
    return blocks - 1 if width(runs) * blocks * block + beyond > left else blocks


@kernel
def block_runs(
    runs: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    block: int,
    pattern: int,
    terms: int,
    states: int,
    alone: int,
    first: int,
    skip: int,
    most: int,
    scratch: int,
    stage: int,
) -> None:
    """Solve blocks with carrier terms in each row.

    Parameters
    ----------
    rows, count, steps, x_step, u_step, a_step
        As in `scan_rows.scan_rows`.
    block, pattern, terms : int
        Steps in a block, the bits at its multiples, and how many carrier terms to keep.
    states : address of accumulators, shape (count, terms + 1)
        The last states before the rows, with 0 .. `terms` terms. In the end they are the last states of the rows.
    alone : int
        Whether nothing enters the rows. The first coefficient then isn't read.
    first : int
        The first start among the steps. The start of the sequence doesn't count.
    skip : int
        Multiples of ``runs.steps`` at the start that are only solved for the states that they pass on, and not written.
    most : int
        Largest number of blocks in a run, at least the number of terms.
    scratch : address
        Room for ``terms + 5`` vectors of accumulators.
    stage : address
        If the states are streamed: room for those of a group and ``stage.SPARE`` bytes, from a multiple of a line on.
    """
    word = size(accumulator(single(runs)))
    x_unit, u_unit, a_unit = units(runs)
    dense = x_step == x_unit and u_step == u_unit and (a_step == a_unit or a_step == 0)
    skipped = steps_skipped(runs, steps, skip)
    begin = first_run(first, skipped, block, steps)
    for index in range(count):
        row = row_at(runs, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        carried = states + index * (terms + 1) * word
        # An offset of 0 is a start. At the start of the sequence, the next start is a block away.
        follow_steps(runs, row, 0, begin, first, block, terms, carried, alone != 0, skipped)
        done = begin
        settled = step_edge(runs, row, done)
        while dense:
            blocks = blocks_in_run(runs, steps - done, block, most, terms)
            if blocks < max(terms, 1):
                break
            edge, end = step_edge(runs, row, done), step_edge(runs, row, done + width(runs) * blocks * block)
            x = enter_stage(runs, stage, edge, end, settled, first_address(runs, row.x, x_step, steps, done))
            solve_runs(
                runs,
                first_address(runs, row.a, a_step, steps, done),
                first_address(runs, row.u, u_step, steps, done),
                x,
                a_step,
                blocks * block,
                block,
                pattern,
                terms,
                carried,
                scratch,
            )
            settled = leave_stage(runs, stage, edge, end, settled)
            done += width(runs) * blocks * block
        clear_stage(runs, stage, settled, step_edge(runs, row, done))
        follow_steps(runs, row, done, steps, 0, block, terms, carried, False, skipped)
    drain(runs)
