"""Windows of blocks of any length, block by block.

A block is solved by scan tiles of its own. A jagged window follows several states at once: the state that reaches back
to the block's start, the one that reaches back one block more, and so on up to the terms that are kept; all share the
tiles' totals. A uniform window adds to a block's own solution the suffix sums of the block before.

As elsewhere, a tile whose states aren't all finite is repeated by the definition.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import helper, kernel
from recfact.cpu.numbers import accumulator, fma, load, single, size, store
from recfact.cpu.row_steps import (
    Row,
    put,
    row_at,
    take_steps,
    tile_coefficients,
    tile_inputs,
    tile_position,
    tile_target,
)
from recfact.cpu.scan_kernels import true_state
from recfact.cpu.tile_solvers import number, runs_in_reverse, scan_tile, sums_tile, tile_steps, window_tile

NAN = float("nan")


@helper
def block_at(tile: Any, row: Row, turn: int, block: int) -> Any:
    """Return block number `turn`, in the order of the steps, as a row of its own, and where it starts.

    Its coefficients in reverse reach into the next block, if there is one.
    """
    blocks = (row.steps + block - 1) // block
    start = (blocks - 1 - turn if runs_in_reverse(tile) else turn) * block
    return start, Row(
        row.a + start * row.a_step,
        row.u + start * row.u_step,
        row.x + start * row.x_step,
        row.a_step,
        row.u_step,
        row.x_step,
        min(block, row.steps - start),
        min(block, row.known - start),
    )


@helper
def first_step(tile: Any, row: Row, position: int) -> int:
    """Return the position of the first step, in the order of the steps, of the tile at a position."""
    return min(position + tile_steps(tile), row.steps) - 1 if runs_in_reverse(tile) else position


@kernel
def jagged_blocks(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    x0: int,
    alone: int,
    block: int,
    terms: int,
    scratch: int,
    states: int,
) -> int:
    """Solve the jagged window of any block and any number of terms in each row.

    `states` points at ``terms + 1`` accumulators for what enters the next tile, state j from zero j blocks before.
    """
    kept = accumulator(single(tile))
    word = size(kept)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        for j in range(terms + 1):
            store(kept, states, j * word, load(kept, x0, index * word) if x0 != 0 else number(tile, 0.0))
        for turn in range((steps + block - 1) // block):
            _, piece = block_at(tile, row, turn, block)
            local, factor = number(tile, 0.0), number(tile, 1.0)
            for turn_in_block in range((piece.steps + tile_steps(tile) - 1) // tile_steps(tile)):
                position = tile_position(tile, turn_in_block, piece.steps)
                coefficients = tile_coefficients(tile, piece, position, scratch)
                inputs = tile_inputs(tile, piece, position, scratch)
                target = tile_target(tile, piece, position, scratch)
                entry = load(kept, states, terms * word)
                after, product, finite = scan_tile(tile, coefficients, inputs, target, entry, local, factor)
                if finite:
                    put(tile, piece, position, target)
                    local, factor = after, product
                    continue
                first = first_step(tile, piece, position)
                length = min(piece.steps - position, tile_steps(tile))
                for j in range(terms + 1):
                    state = true_state(kept, load(kept, states, j * word), local, factor)
                    nothing = turn_in_block == 0 and ((turn == 0 and alone != 0) or (turn > 0 and j == 0))
                    state = take_steps(tile, piece, first, length, state, nothing, j == terms)
                    store(kept, states, j * word, state)
                local, factor = number(tile, 0.0), number(tile, 1.0)
            for j in range(terms, 0, -1):
                store(kept, states, j * word, true_state(kept, load(kept, states, (j - 1) * word), local, factor))
            store(kept, states, 0, number(tile, 0.0))
    return 0


@helper
def block_sums(tile: Any, piece: Row, scratch: int, sums: int, room: int) -> None:
    """Find the suffix sums of a block, for `window_tile`; beyond a short block, they are all it adds up to."""
    word = size(accumulator(single(tile)))
    added, product = number(tile, 0.0), number(tile, 1.0)
    tiles = (piece.steps + tile_steps(tile) - 1) // tile_steps(tile)
    for turn in range(tiles - 1, -1, -1):
        position = tile_position(tile, turn, piece.steps)
        coefficients = tile_coefficients(tile, piece, position, scratch)
        inputs = tile_inputs(tile, piece, position, scratch)
        added, product = sums_tile(tile, coefficients, inputs, sums + position * word, added, product)
    for i in range(tiles * tile_steps(tile), room):
        store(accumulator(single(tile)), sums, i * word, added)


@helper
def is_nan(value: Any) -> Any:
    """Return whether a number is NaN."""
    return value != value


@helper
def brings_nan(tile: Any, row: Row, i: int, start: int) -> Any:
    """Return whether a step makes every state NaN that it is part of, unless it is the first step of their window."""
    one = single(tile)
    return is_nan(load(one, row.u, i * row.u_step)) or (i != start and is_nan(load(one, row.a, i * row.a_step)))


@helper
def state_in_window(tile: Any, row: Row, i: int, reach: int, x0: Any, starts: bool) -> Any:
    """Return the state at position i due to the last `reach` steps; `x0` enters the first of them if it `starts`."""
    one = single(tile)
    kept = accumulator(one)
    forward = -1 if runs_in_reverse(tile) else 1
    oldest = i - (reach - 1) * forward
    state = load(one, row.u, oldest * row.u_step)
    if starts:
        state = fma(kept, load(one, row.a, oldest * row.a_step), x0, state)
    for lag in range(reach - 2, -1, -1):
        j = i - lag * forward
        state = fma(kept, load(one, row.a, j * row.a_step), state, load(one, row.u, j * row.u_step))
    return state


@helper
def window_steps(tile: Any, row: Row, first: int, count: int, lags: int, x0: Any, initial: bool) -> None:
    """Repeat `count` steps of the uniform window from position `first` on by its definition.

    `x0` enters the row's first step if `initial`. A NaN stays for as long as it is in the window, so only the other
    steps take a loop over their window.
    """
    one = single(tile)
    forward = -1 if runs_in_reverse(tile) else 1
    start = row.steps - 1 if runs_in_reverse(tile) else 0
    since = 1
    while (
        since < lags
        and since <= (first - start) * forward
        and not brings_nan(tile, row, first - since * forward, start)
    ):
        since += 1
    since -= 1
    for turn in range(count):
        i = first + turn * forward
        since = 0 if brings_nan(tile, row, i, start) else since + 1
        reach = min(lags, (i - start) * forward + 1)
        state = number(tile, NAN)
        if since >= reach - 1:
            state = state_in_window(tile, row, i, reach, x0, initial and reach - 1 == (i - start) * forward)
        store(one, row.x, i * row.x_step, state)


@kernel
def uniform_blocks(
    tile: Any,
    rows: int,
    count: int,
    steps: int,
    x_step: int,
    u_step: int,
    a_step: int,
    x0: int,
    alone: int,
    block: int,
    scratch: int,
    sums: int,
) -> int:
    """Solve the uniform window of `block` lags in each row, whose inputs the states don't overwrite.

    `sums` points at room for two blocks of accumulators, each a whole number of tiles.
    """
    kept = accumulator(single(tile))
    word = size(kept)
    room = (block + tile_steps(tile) - 1) // tile_steps(tile) * tile_steps(tile)
    for index in range(count):
        row = row_at(tile, rows, count, index, steps, a_step, u_step, x_step, alone != 0)
        state = load(kept, x0, index * word) if x0 != 0 else number(tile, 0.0)
        # The first block meets the initial state where others meet the suffix sums of the block before.
        for i in range(2 * room):
            store(kept, sums, i * word, state)
        blocks = (steps + block - 1) // block
        for turn in range(blocks):
            place, piece = block_at(tile, row, turn, block)
            before = sums + turn % 2 * room * word
            if turn + 1 < blocks:
                block_sums(tile, piece, scratch, sums + (turn + 1) % 2 * room * word, room)
            local, factor = number(tile, 0.0), number(tile, 1.0)
            for turn_in_block in range((piece.steps + tile_steps(tile) - 1) // tile_steps(tile)):
                position = tile_position(tile, turn_in_block, piece.steps)
                coefficients = tile_coefficients(tile, piece, position, scratch)
                inputs = tile_inputs(tile, piece, position, scratch)
                target = tile_target(tile, piece, position, scratch)
                local, factor, finite = window_tile(
                    tile, coefficients, inputs, target, before + position * word, local, factor
                )
                if finite:
                    put(tile, piece, position, target)
                else:
                    first = place + first_step(tile, piece, position)
                    length = min(piece.steps - position, tile_steps(tile))
                    window_steps(tile, row, first, length, block, state, x0 != 0)
    return 0
