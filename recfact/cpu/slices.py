"""Slices of runs, four steps of all runs of a group: where they lie, how they are read and written, and asked for.

The functions take the address of the first step of a group, in the order of the steps. Coefficients, inputs and states
may lie in memory the other way round, each by itself.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import helper
from recfact.cpu.operations import accumulator, load, load_shared, single, size, store, width
from recfact.cpu.runs import a_side, fetch, lead, load_slice, store_slice, u_side, x_side
from recfact.cpu.tile_solvers import further, runs_in_reverse


@helper
def place(runs: Any, base: int, step: int, count: int) -> Any:
    """Return the lowest address of `count` numbers from a step on, if the number of the first step is at `base`.

    `runs` are those of one array, here and in the functions below.
    """
    if runs_in_reverse(runs):
        return base - (step + count - 1) * size(single(runs))
    return base + step * size(single(runs))


@helper
def run_bytes(runs: Any, run: int) -> Any:
    """Return the bytes from a run of `run` steps to the next."""
    return (-run if runs_in_reverse(runs) else run) * size(single(runs))


@helper
def coefficients(runs: Any, a: int, a_step: int, step: int, run: int) -> Any:
    """Return the coefficients of a slice. If `a_step` is 0, they are all the same number."""
    if a_step == 0:
        shared = load_shared(runs, a, 0)
        return shared, shared, shared, shared
    side = a_side(runs)
    return load_slice(side, place(side, a, step, CHUNK), run_bytes(side, run))


@helper
def inputs(runs: Any, u: int, step: int, run: int) -> Any:
    """Return the inputs of a slice."""
    side = u_side(runs)
    return load_slice(side, place(side, u, step, CHUNK), run_bytes(side, run))


@helper
def put_slice(runs: Any, x: int, step: int, run: int, states: Any, spare: int) -> None:
    """Write those states of a slice whose steps belong to the runs."""
    one, kept, side = single(runs), accumulator(runs), x_side(runs)
    if step + CHUNK <= run:
        store_slice(side, place(side, x, step, CHUNK), run_bytes(side, run), states[0], states[1], states[2], states[3])
        return
    store(kept, spare, 0, states[0])
    store(kept, spare, size(kept), states[1])
    store(kept, spare, 2 * size(kept), states[2])
    for k in range(run - step):
        for index in range(width(runs)):
            state = load(accumulator(one), spare, (k * width(runs) + index) * size(accumulator(one)))
            store(one, place(side, x, index * run + step + k, 1), 0, state)


@helper
def fetch_slice(runs: Any, base: int, step: int) -> None:
    """Ask memory for numbers from a step on."""
    fetch(runs, place(runs, base, step, CHUNK * width(runs)))


@helper
def fetch_both(runs: Any, a: int, u: int, a_step: int, step: int) -> None:
    """Ask memory for coefficients and inputs from about a step on."""
    if a_step != 0:
        fetch_slice(a_side(runs), a, step + lead(runs))
    side = u_side(runs)
    fetch_slice(side, further(u, runs_in_reverse(side)), step + lead(runs))


@helper
def bits_ahead(pattern: int, offset: int) -> Any:
    """Return the bits of a pattern at the steps of a slice. The pattern begins `offset` steps from the first step."""
    return (pattern << offset) & ((1 << CHUNK) - 1) if offset < CHUNK else 0


@helper
def wrapped(offset: int, block: int) -> Any:
    """Return an offset, and a block more if it is negative."""
    return offset + block if offset < 0 else offset
