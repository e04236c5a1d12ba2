"""Short rows that lie one behind the other: each lane takes some of them, as runs of one sequence that starts anew.

In memory, rows without gaps between them look like a single sequence. Their first steps are starts, like those of
blocks. So eight runs of rows are solved side by side (`recfact.cpu.runs`). Each row is a plain loop, with the same bits
as a channel. If nothing enters the rows and all coefficients are their own, they are the blocks of a jagged window
without carrier terms. Otherwise a kernel of their own solves them, here.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits, rows
from recfact.cpu.addresses import address, addresses
from recfact.cpu.block_runs import blocks_in_run
from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.cuts import pattern_of
from recfact.cpu.operations import accumulator, fma, integer, load, load_shared, nought, single, size, store, width
from recfact.cpu.row_job import scratch_memory
from recfact.cpu.runs import Runs, load_slice
from recfact.cpu.slices import bits_ahead, fetch_slice, inputs, place, put_slice, run_bytes, wrapped
from recfact.cpu.threads import run_all
from recfact.cpu.tile_solvers import runs_in_reverse
from recfact.cpu.uncached_writes import streams_runs
from recfact.cpu.vectors import VECTOR
from recfact.number_types import NUMBER_TYPES
from recfact.strides import Axis, merged
from recfact.windows import Full, Jagged, Window


@helper
def one_for_each(runs: Any, source: int, row_step: int, rows: int, table: int) -> None:
    """Copy a number for each row of a group to a table. In it the numbers of the runs' first rows lie side by side."""
    one, kept = single(runs), accumulator(single(runs))
    for row in range(rows):
        for run in range(width(runs)):
            value = load(one, source, (run * rows + row) * row_step)
            store(kept, table, (row * width(runs) + run) * size(kept), value)


@helper
def take_step(
    runs: Any,
    own: Any,
    u: Any,
    state: Any,
    start: int,
    at: tuple[int, int],
    a: int,
    a_step: int,
    factors: int,
    entries: int,
) -> Any:
    """Return the state after a step, and the next row and place in it. Before the step these are `at`.

    If rows have a coefficient for each step, it is `own`. Otherwise it is from the table of `factors`, if there is one,
    or the same for all rows. `entries` is the table of initial states, or 0.
    """
    kept = accumulator(runs)
    row, step = at[0], at[1] + 1
    if start != 0:
        row += 1
        step = 0
    if start != 0 and entries == 0:
        return u, (row, step)
    factor = own
    if factors != 0:
        factor = load(kept, factors, row * size(kept))
    elif a != 0:
        factor = load_shared(runs, a, step * a_step)
    before = state
    if start != 0:
        before = load(kept, entries, row * size(kept))
    return fma(kept, factor, before, u), (row, step)


@apart
def solve_group(
    runs: Any,
    x: int,
    u: int,
    a: int,
    x0: int,
    steps: int,
    rows: int,
    a_row: int,
    a_step: int,
    x0_row: int,
    pattern: int,
    tables: int,
) -> None:
    """Solve a group of runs of `rows` rows each. `x`, `u`, `a` and `x0` (or 0) are the addresses of its first row."""
    kept = accumulator(runs)
    run = rows * steps
    dense = a_row != 0 and a_step != 0
    spare, entries, factors = tables, 0, 0
    tables += 4 * size(kept)
    if x0 != 0:
        entries = tables
        one_for_each(accumulator(runs), x0, x0_row, rows, entries)
    if a_step == 0 and a_row != 0:
        factors = tables + rows * size(kept)
        one_for_each(runs, a, a_row, rows, factors)
    shared = 0 if dense else a
    state = nought(kept)
    at = (-1, 0)
    offset, step, hop = 0, 0, CHUNK % steps
    while step < run:
        ahead = width(runs) * (run + step)
        values = inputs(runs, u, step, run)
        own = values
        fetch_slice(runs, u, ahead)
        fetch_slice(runs, x, ahead)
        if dense:
            fetch_slice(runs, a, ahead)
            own = load_slice(runs, place(runs, a, step, CHUNK), run_bytes(runs, run))
        starts = bits_ahead(pattern, offset)
        first, at = take_step(runs, own[0], values[0], state, starts & 1, at, shared, a_step, factors, entries)
        second, at = take_step(runs, own[1], values[1], first, starts & 2, at, shared, a_step, factors, entries)
        third, at = take_step(runs, own[2], values[2], second, starts & 4, at, shared, a_step, factors, entries)
        state, at = take_step(runs, own[3], values[3], third, starts & 8, at, shared, a_step, factors, entries)
        put_slice(runs, x, step, run, (first, second, third, state), spare)
        offset = wrapped(offset - hop, steps)
        step += CHUNK


@apart
def follow_row(runs: Any, x: int, u: int, a: int, x0: int, steps: int, a_step: int) -> None:
    """Solve a row step by step."""
    one = single(runs)
    kept = accumulator(one)
    forward = -size(one) if runs_in_reverse(runs) else size(one)
    state = load(one, u, 0)
    if x0 != 0:
        state = fma(kept, load(one, a, 0), load(kept, x0, 0), state)
    store(one, x, 0, state)
    for i in range(1, steps):
        state = fma(kept, load(one, a, i * a_step), state, load(one, u, i * forward))
        store(one, x, i * forward, state)


@kernel
def short_rows(
    runs: Any,
    table: int,
    problems: int,
    count: int,
    steps: int,
    a_row: int,
    a_step: int,
    x0_row: int,
    initial: int,
    pattern: int,
    most: int,
    tables: int,
) -> None:
    """Solve problems of `count` rows of `steps` steps that follow each other without gaps.

    Parameters
    ----------
    table : address of int64, shape (4, problems)
        Addresses in each problem of the first state, input, coefficient and initial state, in the order of the steps.
        Without an initial state the first coefficient isn't read.
    a_row, a_step, x0_row : int
        Bytes from row to row and from step to step of the coefficients, and from an initial state to the next.
        Coefficients have the layout of the inputs, or are the same for all rows, or are the same for all steps.
    initial : int
        Whether there are initial states.
    pattern : int
        The bits at multiples of `steps`.
    most : int
        Largest number of rows in a run.
    tables : address
        Room for ``2 most + 4`` vectors of accumulators.
    """
    row = run_bytes(runs, steps)
    for problem in range(problems):
        x, u = integer(table, problem), integer(table, problems + problem)
        a, x0 = integer(table, 2 * problems + problem), integer(table, 3 * problems + problem)
        done = 0
        while done < count:
            rows = 0
            if done > 0 or runs_in_reverse(runs) == 0:  # in reverse, the first coefficient isn't there
                rows = blocks_in_run(runs, (count - done) * steps, steps, most, 0)
            taken = max(width(runs) * rows, 1)
            x_at, u_at, a_at = x + done * row, u + done * row, a + done * a_row
            x0_at = x0 + done * x0_row if initial else 0
            if rows > 0:
                solve_group(runs, x_at, u_at, a_at, x0_at, steps, rows, a_row, a_step, x0_row, pattern, tables)
            else:
                follow_row(runs, x_at, u_at, a_at, x0_at, steps, a_step)
            done += taken


@cache
def runs_of(storage: str, reverse: bool) -> Runs:
    """Return the lanes of runs."""
    return Runs(storage, reverse)


def rows_behind_each_other(a: Array, u: Array, x: Array, x0: Array | None) -> tuple[list[Axis], list[int]] | None:
    """Return all axes but time, and the addresses of x, u, a and x0, if rows along the first axis have no gaps."""
    steps, number = len(x), x.itemsize
    if u.strides[0] != number:
        return None
    entry = (0,) * (x.ndim - 1) if x0 is None else x0.strides
    axes, within = merged(x.shape[1:], *[array.strides[1:] for array in (x, u, a)], entry)
    row, a_step = steps * number, a.strides[0]
    along = axes[0].strides
    if along[:2] != (row, row) or not ((along[2], a_step) == (row, number) or 0 in (along[2], a_step)):
        return None
    if len(axes) > 1 and axes[0].length < limits.MANY_ROWS:
        return None
    origins = [address(array) for array in (x, u, a)] + [0 if x0 is None else address(x0)]
    return axes, [origin + offset for origin, offset in zip(origins, within, strict=True)]


def solve_blocks_into(a: Array, u: Array, x: Array, reverse: bool, threads: int) -> bool:
    """Solve rows along axis 0 into `x` as the blocks of one sequence, or return False if they don't look like one."""
    flat = [np.moveaxis(array, 0, -1) for array in (a, u, x)]
    if address(x) == address(u) or not all(array.flags.c_contiguous for array in flat):
        return False
    a, u, row = (array.reshape(-1) for array in flat)
    runs = Runs(x.dtype.name, reverse, streams=streams_runs(row, u))
    rows.solve_into(runs, a, u, row, None, window=Jagged(len(x), terms=0), threads=threads)
    return True


def solve_into(a: Array, u: Array, x: Array, x0: Array | None, *, reverse: bool, window: Window, threads: int) -> bool:
    """Solve the recurrence along axis 0 into `x`, or return False if this path doesn't take such arrays.

    The arguments are those of `recfact.cpu.channels.solve_into`, but of one shape and not empty.
    """
    steps = len(x)
    if not isinstance(window, Full) or steps >= limits.SHORT_ROW or x.strides[0] != x.itemsize:
        return False
    if x0 is None and solve_blocks_into(a, u, x, reverse, threads):
        return True
    if NUMBER_TYPES[x.dtype].is_complex:
        return False
    x0 = None if x0 is None else np.broadcast_to(x0, x.shape[1:])
    found = rows_behind_each_other(a, u, x, x0)
    if found is None:
        return False
    (own, *others), starts = found
    strides, a_step = own.strides, a.strides[0]
    if reverse:  # starts at the last number, and the coefficient of a step stands behind its input
        starts = [start + step * (own.length - 1) for start, step in zip(starts, strides, strict=True)]
        starts = [
            starts[0] + (steps - 1) * x.itemsize,
            starts[1] + (steps - 1) * x.itemsize,
            starts[2] + steps * a_step,
            0,
        ]
        strides, a_step = tuple(-step for step in strides), -a_step
    most = limits.most_blocks(steps, x.itemsize, tabled=True)
    solve = short_rows[runs_of(x.dtype.name, reverse)]
    parts = min(threads, own.length)
    cuts = [own.length * part // parts for part in range(parts + 1)]

    def work(table: Array, first: int, last: int) -> None:
        """Solve the rows first .. last-1 of each problem."""
        _scratch, room = scratch_memory((2 * most + 4) * VECTOR)
        there = np.ascontiguousarray(table + first * np.array(strides)[:, None])
        arguments = (there.shape[1], last - first, steps, strides[2], a_step, strides[3], x0 is not None)
        solve(there, *arguments, pattern_of(steps), most, room)

    for table in addresses(others, starts, limits.BATCH):
        run_all([partial(work, table, first, last) for first, last in pairwise(cuts)])
    return True
