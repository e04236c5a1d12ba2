"""The uniform window step by step, by its definition. It repeats steps whose states aren't all finite."""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import helper
from recfact.cpu.operations import accumulator, all_nan, fma, load, single, store
from recfact.cpu.row_steps import Row
from recfact.cpu.tile_solvers import number, runs_in_reverse

NAN = float("nan")


@helper
def brings_nan(tile: Any, row: Row, i: int, start: int) -> Any:
    """Return whether a step makes NaN of every state whose window has it, unless it is the first step of the window."""
    one = single(tile)
    kept = accumulator(one)
    value, factor = row.u + i * row.u_step, row.a + i * row.a_step
    return all_nan(kept, load(one, value, 0)) or (i != start and all_nan(kept, load(one, factor, 0)))


@helper
def state_in_window(tile: Any, row: Row, i: int, reach: int, x0: Any, starts: bool) -> Any:
    """Return the state at position i due to the last `reach` steps. If it `starts`, `x0` enters the first of them."""
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
def window_steps(tile: Any, row: Row, first: int, count: int, lags: int, start: int, x0: Any, initial: bool) -> None:
    """Repeat by the definition `count` steps from position `first` on. The sequence starts at `start`.

    `x0` enters its first step if `initial`. A NaN remains as long as it is in the window, so only the other steps need
    a loop over their window.
    """
    one = single(tile)
    forward = -1 if runs_in_reverse(tile) else 1
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
        state = number(accumulator(one), NAN)
        if since >= reach - 1:
            state = state_in_window(tile, row, i, reach, x0, initial and reach - 1 == (i - start) * forward)
        store(one, row.x, i * row.x_step, state)
