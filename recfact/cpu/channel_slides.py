"""Steps of a uniform window of a few channels that no run takes, beside those that runs take: see `channel_bands`.

They are solved channel by channel with sliding windows (`channel_windows`), from what the block before adds to them.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.channel_mending import areas_at
from recfact.cpu.channel_steps import Steps
from recfact.cpu.channel_sums import suffixes
from recfact.cpu.channel_vectors import factor_at, place
from recfact.cpu.channel_windows import TAME, slide_groups
from recfact.cpu.compilation import apart, helper
from recfact.cpu.magnitudes import below, higher
from recfact.cpu.operations import accumulator, load, nought, single, size, store
from recfact.cpu.row_steps import Row
from recfact.cpu.tile_solvers import runs_in_reverse
from recfact.cpu.turning import Strides


@helper
def strides_of(runs: Any, step: int, channels: int) -> Strides:
    """Return the strides, in the order of the steps, of numbers that take `step` bytes from one to the next."""
    one = size(single(runs))
    lane = one if step == channels * one else 0
    return Strides(-step if runs_in_reverse(runs) else step, 0, lane)


@helper
def first_step(runs: Any, base: int, step: int, steps: int) -> Any:
    """Return the address of the numbers of the first step, if the first numbers in memory are at `base`."""
    return base + (steps - 1) * step if runs_in_reverse(runs) else base


@apart
def slide_steps(
    runs: Any,
    row: Row,
    first: int,
    last: int,
    skipped: int,
    lags: int,
    channels: int,
    x0: int,
    entered: bool,
    scratch: int,
) -> None:
    """Solve the steps first .. last-1, from the start of a block on, and write the steps from `skipped` on.

    At `scratch` is room for ``2 channels`` integers, ``(lags + 5) channels + 1`` accumulators, and the states of a
    block. Not all states of that block may be written.
    """
    one = single(runs)
    a = first_step(runs, row.a, row.a_step, row.steps)
    u = first_step(runs, row.u, row.u_step, row.steps)
    x = first_step(runs, row.x, row.x_step, row.steps)
    xs = strides_of(runs, row.x_step, channels)
    us, as_ = strides_of(runs, row.u_step, channels), strides_of(runs, row.a_step, channels)
    word = size(accumulator(one))
    states = channels * word
    areas = areas_at(scratch, states, lags - 1, channels)
    if first < skipped:
        rest = areas.spare + word
        dense = Strides(channels * size(one), 0, size(one))
        edge = min(first + lags, last)
        slide_groups(
            one,
            a,
            u,
            rest - first * dense.time,
            x0,
            as_,
            us,
            us,
            dense,
            0,
            word,
            first,
            edge,
            1,
            channels,
            entered,
            1,
            1,
            lags - 1,
            was_calm(runs, row, first, lags, channels, entered),
            False,
            areas,
            0,
        )
        for step in range(skipped, edge):
            for channel in range(channels):
                store(one, x, place(xs, step, 0, channel), load(one, rest, place(dense, step - first, 0, channel)))
        first = edge
    if first < last:
        slide_groups(
            one,
            a,
            u,
            x,
            x0,
            as_,
            us,
            us,
            xs,
            0,
            word,
            first,
            last,
            1,
            channels,
            entered,
            1,
            1,
            lags - 1,
            was_calm(runs, row, first, lags, channels, entered),
            False,
            areas,
            0,
        )


@apart
def look_back(runs: Any, row: Row, edge: int, lags: int, channels: int, entered: bool, sums: int, spare: int) -> bool:
    """Find for each channel the suffix sums of the block before a step, and return whether nothing in it is wild.

    At `spare` is room for three accumulators.
    """
    one = single(runs)
    us, as_ = strides_of(runs, row.u_step, channels), strides_of(runs, row.a_step, channels)
    a = first_step(runs, row.a, row.a_step, row.steps) + (edge - lags) * as_.time
    u = first_step(runs, row.u, row.u_step, row.steps) + (edge - lags) * us.time
    for channel in range(channels):
        part = Steps(a + channel * as_.lane, u + channel * us.lane, 0, as_, us, us, 1, 1, spare)
        suffixes(one, part, lags, 1, 1, sums + channel * lags * size(accumulator(one)))
    calm: bool = was_calm(runs, row, edge, lags, channels, entered)
    return calm


@apart
def was_calm(runs: Any, row: Row, edge: int, lags: int, channels: int, entered: bool) -> bool:
    """Return whether nothing is wild in the block before a step, or there is none."""
    one = single(runs)
    kept = accumulator(one)
    us, as_ = strides_of(runs, row.u_step, channels), strides_of(runs, row.a_step, channels)
    a, u = first_step(runs, row.a, row.a_step, row.steps), first_step(runs, row.u, row.u_step, row.steps)
    highest, largest = nought(kept), nought(kept)
    for channel in range(channels):
        for step in range(max(edge - lags, 0), edge):
            if step > 0 or entered:  # in reverse, the first coefficient isn't there
                highest = higher(kept, highest, factor_at(one, a, step * as_.time, as_, channel))
            largest = higher(kept, largest, load(one, u, place(us, step, 0, channel)))
    calm: bool = is_calm(kept, highest, largest, lags)
    return calm


@helper
def is_calm(kept: Any, highest: Any, largest: Any, lags: int) -> bool:
    """Return whether no state of a window overflows if coefficients and inputs have at most these magnitudes."""
    calm: bool = below(kept, highest, 1.0 + 1.0 / lags) and below(kept, largest, TAME)
    return calm
