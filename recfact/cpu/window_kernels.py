"""Uniform windows whose lags are a power of two that fits into a sub-tile, tile by tile.

A tile passes on what its last sub-tile has for the steps behind it. That depends on the tile alone, so any tile can be
solved once the tile before it was: `skip` tiles at the start of a row are solved for what they pass on, and not
written. A tile whose states aren't all finite is repeated by the definition, step by step.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.numbers import accumulator, drain, fma, load, single, size, store, width
from recfact.cpu.row_steps import (
    Row,
    put,
    row_at,
    spare,
    tile_coefficients,
    tile_inputs,
    tile_position,
    tile_target,
)
from recfact.cpu.tile_solvers import block_steps, number, runs_in_reverse, tile_steps
from recfact.cpu.uniform_tiles import carried_bytes, start_carried, uniform_tile


@helper
def uniform_steps(tile: Any, row: Row, position: int, history: int, x0: float, initial: bool) -> None:
    """Repeat a tile of the uniform window by its definition, the last step first.

    `history` points at the inputs of the sub-tile before, or is 0 where they still stand in memory. `initial` says that
    `x0` enters the first step of the row.
    """
    one = single(tile)
    kept = accumulator(one)
    length = min(row.steps - position, tile_steps(tile))
    forward = -1 if runs_in_reverse(tile) else 1
    start = row.steps - 1 if runs_in_reverse(tile) else 0
    before = position + tile_steps(tile) if runs_in_reverse(tile) else position - CHUNK * width(tile)
    for turn in range(length):
        i = position + turn if runs_in_reverse(tile) else position + length - 1 - turn
        lags = min(block_steps(tile), (i - start) * forward + 1)
        state = number(tile, 0.0)
        for lag in range(lags - 1, -1, -1):
            j = i - lag * forward
            if history != 0 and (j < position or j >= position + tile_steps(tile)):
                value = load(kept, history, (j - before) * size(kept))
            else:
                value = load(one, row.u, j * row.u_step)
            if lag < lags - 1:
                value = fma(kept, load(one, row.a, j * row.a_step), state, value)
            elif initial and j == start:
                value = fma(kept, load(one, row.a, j * row.a_step), x0, value)
            state = value
        store(one, row.x, i * row.x_step, state)


@helper
def remember(tile: Any, inputs: int, history: int) -> None:
    """Keep the inputs of a tile's last sub-tile."""
    sub_tile = CHUNK * width(tile)
    if not runs_in_reverse(tile):
        inputs += (tile_steps(tile) - sub_tile) * size(single(tile))
    for row in range(CHUNK):
        store(accumulator(tile), history, row * size(accumulator(tile)), load(tile, inputs, row * size(tile)))


@kernel
def uniform_rows(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    x0: int,
    alone: int,
    skip: int,
    scratch: int,
) -> int:
    """Solve the uniform window in each row.

    `x0` points at the initial states, or is 0; `alone` says that no step comes before the row; `skip` tiles aren't
    written.
    """
    kept = accumulator(single(tile))
    area = CHUNK * size(accumulator(tile))
    carried = spare(tile, scratch) + tile_steps(tile) * size(kept)
    inputs_before = carried + carried_bytes(tile)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        state = number(tile, 0.0)
        if x0 != 0:
            state = load(kept, x0, index * size(kept))
        start_carried(tile, carried, state)
        for turn in range((steps + tile_steps(tile) - 1) // tile_steps(tile)):
            position = tile_position(tile, turn, steps)
            coefficients = tile_coefficients(tile, row, position, scratch)
            inputs = tile_inputs(tile, row, position, scratch)
            written = turn >= skip
            history = 0
            if row.u == row.x:
                history = inputs_before + turn % 2 * area
                remember(tile, inputs, inputs_before + (turn + 1) % 2 * area)
            target = tile_target(tile, row, position, scratch) if written else spare(tile, scratch)
            finite = uniform_tile(tile, coefficients, inputs, target, carried)
            if written:
                if finite:
                    put(tile, row, position, target)
                else:
                    uniform_steps(tile, row, position, history, state, turn == 0 and x0 != 0)
    drain(tile)
    return 0
