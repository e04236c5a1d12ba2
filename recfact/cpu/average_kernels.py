"""Exponentially weighted statistics, value by value: the recurrences of `recfact.averages` in one pass.

Everything is computed in float64, whatever type the values are stored in. The columns take turns over some rows that
stay in the caches. Between its turns, the numbers that continue a column wait in `state`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.cpu.addresses import address
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.numbers import Lanes
from recfact.cpu.operations import integer, load, real_number, single, store

MEAN, SUM, BIASED, UNBIASED = range(4)

KINDS = {"mean": MEAN, "sum": SUM, "biased": BIASED, "unbiased": UNBIASED}
"""What is computed: means, sums, and variances with bias and without."""

KEPT = 7
"""How many numbers continue a column."""

NAN = float("nan")


class Average(NamedTuple):
    """Statistics of the values of a group so far.

    `left` is the rest of all weights, or in the recursive form the rest of the newest value's weight. `gone` is the
    part that was lost. `spread` is the biased variance; divided by `correction` it has no bias.
    """

    count: Any
    left: Any
    gone: Any
    mean: Any
    total: Any
    spread: Any
    correction: Any


@helper
def kept(lanes: Any, state: int, column: int) -> Average:
    """Read the numbers that continue a column."""
    one = real_number(lanes)
    at = column * (KEPT * 8)
    return Average(
        load(one, state, at),
        load(one, state, at + 8),
        load(one, state, at + 16),
        load(one, state, at + 24),
        load(one, state, at + 32),
        load(one, state, at + 40),
        load(one, state, at + 48),
    )


@helper
def keep(lanes: Any, state: int, column: int, found: Average) -> None:
    """Write the numbers that continue a column."""
    one = real_number(lanes)
    at = column * (KEPT * 8)
    store(one, state, at, found.count)
    store(one, state, at + 8, found.left)
    store(one, state, at + 16, found.gone)
    store(one, state, at + 24, found.mean)
    store(one, state, at + 32, found.total)
    store(one, state, at + 40, found.spread)
    store(one, state, at + 48, found.correction)


@helper
def nothing_yet() -> Average:
    """Return the statistics before the first value."""
    return Average(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@helper
def older(now: Average, weight: Any, loss: Any) -> Average:
    """Let time pass. Weights lose a share of themselves in it."""
    gone = now.gone + now.left * loss
    return Average(now.count, now.left * weight, gone, now.mean, now.total * weight, now.spread, now.correction)


@helper
def with_value(now: Average, value: Any, newest: Any, adjust: int, timed: int, kind: int) -> Average:
    """Take in a value. Its weight is `newest`, or if `timed` what the weight of the value before has lost."""
    if now.count == 0.0:
        return Average(1.0, 1.0, 0.0, value, value, 0.0, 0.0)
    share, before, left = now.gone, now.left, 1.0
    if adjust or not timed:
        share = newest / (now.left + newest)
        before = now.left / (now.left + newest)
    if adjust:
        left = now.left + newest
    away = value - now.mean
    mean, total = now.mean + share * away, now.total + value
    if away - away != 0.0:  # value and mean are large
        mean = before * now.mean + share * value
    spread, correction = 0.0, 0.0
    if kind >= BIASED:
        spread = before * (now.spread + share * away * away)
        correction = before * (before * now.correction + 2.0 * share)
    return Average(now.count + 1.0, left, 0.0, mean, total, spread, correction)


@helper
def shown(now: Average, least: int, kind: int) -> Any:
    """Return the requested statistic, or NaN if there are fewer values than `least`."""
    value = now.mean
    if kind == SUM:
        value = now.total
    if kind == BIASED:
        value = now.spread
    if kind == UNBIASED:
        value = now.spread / now.correction
    return value if now.count >= least else NAN


@kernel
def average(
    lanes: Any,
    u: int,
    u_step: int,
    u_column: int,
    x: int,
    x_step: int,
    x_column: int,
    weights: int,
    losses: int,
    weight_step: int,
    newest: int,
    starts: int,
    group: int,
    state: int,
    columns: int,
    first: int,
    rows: int,
    kind: int,
    adjust: int,
    timed: int,
    gaps_age: int,
    least: int,
) -> None:
    """Average `rows` rows from row `first` on. The next group to start has the number `group`.

    Each row has the share of the weights that the time before it leaves, and the share that is lost. From row to row
    these are `weight_step` bytes apart. Time passes at missing values if `gaps_age`.
    """
    one, wide = single(lanes), real_number(lanes)
    alpha = load(wide, newest, 0)
    for column in range(columns):
        now = kept(lanes, state, column)
        following = group
        border = integer(starts, following) - first
        for i in range(rows):
            if i == border:
                now = nothing_yet()
                following += 1
                border = integer(starts, following) - first
            value = 0.0  # makes the variable a float64, whatever is loaded
            value = load(one, u, i * u_step + column * u_column)
            seen = value - value == 0.0
            if now.count > 0.0 and (seen or gaps_age):
                now = older(now, load(wide, weights, i * weight_step), load(wide, losses, i * weight_step))
            if seen:
                now = with_value(now, value, alpha, adjust, timed, kind)
            store(one, x, i * x_step + column * x_column, shown(now, least, kind))
        keep(lanes, state, column, now)


def average_rows(
    values: Array,
    found: Array,
    weights: Array,
    losses: Array,
    newest: Array,
    starts: Array,
    state: Array,
    first: int,
    kind: int,
    adjust: bool,
    timed: bool,
    gaps_age: bool,
    least: int,
) -> None:
    """Average rows of values, shape (rows, columns), into `found`. The first of them has the number `first`."""
    group = int(np.searchsorted(starts, first))
    place = [(address(array), *array.strides) for array in (values, found)]
    step = 8 if timed else 0
    sizes = values.shape[1], first, len(values)
    modes = kind, adjust, timed, gaps_age, least
    run = average[Lanes(values.dtype.name, 1)]
    run(
        *place[0], *place[1], address(weights), address(losses), step, address(newest), address(starts), group,
        address(state), *sizes, *map(int, modes),
    )  # fmt: skip
