"""Exponentially weighted statistics, value by value: the recurrences of `recfact.averages` in one pass.

Everything is computed in float64, whatever type the values are stored in. The columns take turns over some rows that
stay in the caches. Between its turns, the numbers that continue a column wait in `state`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.cpu.addresses import address
from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.numbers import Lanes
from recfact.cpu.operations import fma, integer, load, real_number, single, store

MEAN, SUM, SPREAD = range(3)

KINDS = {"mean": MEAN, "sum": SUM, "biased": SPREAD, "unbiased": SPREAD}
"""What is followed for each statistic: means, sums, or the spread around means."""

KEPT = 7
"""How many numbers continue a column."""

TURN = 64
"""Rows after which is looked whether the weights still change."""

NAN = float("nan")


class Average(NamedTuple):
    """Statistics of the values of a group so far. What isn't asked for stays as it was.

    `count` is the number of values, up to the number that is needed for a result. `left` is the rest of all weights, or
    in the recursive form the rest of the newest value's weight. `gone` is the part that was lost. `spread` is the
    biased variance; divided by `correction` it has no bias.
    """

    count: Any
    left: Any
    gone: Any
    mean: Any
    total: Any
    spread: Any
    correction: Any


class Column(NamedTuple):
    """A column of values, and how they are weighted: the arguments of `average` that concern it."""

    u: Any
    u_step: Any
    x: Any
    x_step: Any
    weights: Any
    losses: Any
    weight_step: Any
    starts: Any
    group: Any
    state: Any
    first: Any
    rows: Any
    unbiased: Any
    gaps_age: Any
    least: Any


@helper
def kept(one: Any, state: int) -> Average:
    """Read the numbers that continue a column."""
    return Average(
        load(one, state, 0),
        load(one, state, 8),
        load(one, state, 16),
        load(one, state, 24),
        load(one, state, 32),
        load(one, state, 40),
        load(one, state, 48),
    )


@helper
def keep(one: Any, state: int, found: Average) -> None:
    """Write the numbers that continue a column."""
    store(one, state, 0, found.count)
    store(one, state, 8, found.left)
    store(one, state, 16, found.gone)
    store(one, state, 24, found.mean)
    store(one, state, 32, found.total)
    store(one, state, 40, found.spread)
    store(one, state, 48, found.correction)


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
def is_finite(value: Any) -> Any:
    """Return whether a value is neither infinite nor NaN."""
    return value - value >= 0.0


@apart
def of_large_values(before: Any, mean: Any, share: Any, value: Any) -> Any:
    """Return the mean of values whose difference overflows. In the loop itself, LLVM would compute it for all."""
    return before * mean + share * value


@helper
def shares(now: Average, newest: Any, adjust: int) -> Any:
    """Return which share of all weights a new value gets, and which one the values before it keep.

    In the recursive form the weight of a value is `newest`, or if that is 0 what the one before has lost. The first
    value gets all the weight.
    """
    share, before = now.gone if now.left > 0.0 else 1.0, now.left
    if adjust:
        share = 1.0 / (now.left + 1.0)
        before = now.left * share
    elif newest > 0.0:
        share = newest / (now.left + newest)
        before = now.left / (now.left + newest)
    return share, before


@helper
def with_value(
    one: Any, now: Average, value: Any, share: Any, before: Any, least: Any, kind: int, adjust: int
) -> Average:
    """Take in a value of which the shares are known."""
    left = now.left + 1.0 if adjust else 1.0
    mean, total, spread, correction = now.mean, now.total, now.spread, now.correction
    if kind == SUM:
        total = now.total + value
    else:
        away = value - now.mean
        mean = fma(one, share, away, now.mean)
        if not is_finite(away):
            mean = of_large_values(before, now.mean, share, value)
        if kind == SPREAD:
            spread = before * fma(one, share * away, away, now.spread)
            correction = fma(one, before * before, now.correction, 2.0 * before * share)
    return Average(min(now.count + 1.0, least), left, 0.0, mean, total, spread, correction)


@helper
def shown(now: Average, least: Any, kind: int, unbiased: int) -> Any:
    """Return the requested statistic, or NaN if there are fewer values than `least`."""
    value = now.mean
    if kind == SUM:
        value = now.total
    if kind == SPREAD:
        value = now.spread / (now.correction if unbiased else 1.0)
    return value if now.count >= least else NAN


@helper
def weight_and_loss(one: Any, of: Column, row: int, adjust: int) -> Any:
    """Return the share of the weights that the time before a row leaves, and the share that is lost."""
    weight = load(one, of.weights, row * of.weight_step)
    loss = 1.0 - weight
    if not adjust:
        loss = load(one, of.losses, row * of.weight_step)
    return weight, loss


@helper
def steady_rows(lanes: Any, of: Column, now: Average, first: int, end: int, newest: Any, kind: int, adjust: int) -> Any:
    """Average rows from `first` on while the weights stay as they are, up to a missing value. Return the next row.

    Weights that all rows share soon have a sum that one value more doesn't change. Then shares are the same for all
    further values, and need not be computed.
    """
    given, one = single(lanes), real_number(lanes)
    weight, loss = weight_and_loss(one, of, 0, adjust)
    aged = older(now, weight, loss)
    share, before = shares(aged, newest, adjust)
    after = with_value(one, aged, now.mean, share, before, of.least, kind, adjust)
    i = first
    going = now.gone == 0.0 and after.left == now.left and after.count == now.count
    if going and after.correction == now.correction:
        while i < end and going:
            value = 0.0
            value = load(given, of.u, i * of.u_step)
            going = is_finite(value)
            if going:
                aged = Average(
                    aged.count, aged.left, aged.gone, now.mean, now.total * weight, now.spread, aged.correction
                )
                now = with_value(one, aged, value, share, before, of.least, kind, adjust)
                store(given, of.x, i * of.x_step, shown(now, of.least, kind, of.unbiased))
                i += 1
    return i, now


@helper
def average_column(lanes: Any, of: Column, kind: int, adjust: int) -> None:
    """Average a column. `kind` and `adjust` are known at compile time, so that each has a loop of its own."""
    given, one = single(lanes), real_number(lanes)
    newest = 0.0
    if not adjust and of.weight_step == 0:
        newest = load(one, of.losses, 0)
    now = kept(one, of.state)
    start, following = 0, of.group
    while start < of.rows:
        end = min(of.rows, integer(of.starts, following) - of.first)
        i = start
        while i < end:
            until = min(end, i + TURN)
            for k in range(i, until):
                value = 0.0  # makes the variable a float64, whatever is loaded
                value = load(given, of.u, k * of.u_step)
                weight, loss = weight_and_loss(one, of, k, adjust)
                aged = older(now, weight, loss)
                if is_finite(value):
                    share, before = shares(aged, newest, adjust)
                    now = with_value(one, aged, value, share, before, of.least, kind, adjust)
                elif of.gaps_age:
                    now = aged
                store(given, of.x, k * of.x_step, shown(now, of.least, kind, of.unbiased))
            i = until
            if i < end and of.weight_step == 0:
                i, now = steady_rows(lanes, of, now, i, end, newest, kind, adjust)
        start = end
        if end < of.rows:
            now = nothing_yet()
            following += 1
    keep(one, of.state, now)


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
    starts: int,
    group: int,
    state: int,
    columns: int,
    first: int,
    rows: int,
    kind: int,
    adjust: int,
    unbiased: int,
    gaps_age: int,
    least: int,
) -> None:
    """Average `rows` rows from row `first` on. The next group to start has the number `group`.

    Each row has the share of the weights that the time before it leaves, and the share that is lost. From row to row
    these are `weight_step` bytes apart. The share that is lost isn't read if `adjust`. Time passes at missing values if
    `gaps_age`.
    """
    needed = 0.0
    needed += least
    for k in range(columns):
        of = Column(
            u + k * u_column, u_step, x + k * x_column, x_step, weights, losses, weight_step, starts, group,
            state + k * (KEPT * 8), first, rows, unbiased, gaps_age, needed,
        )  # fmt: skip
        if kind == SUM:
            average_column(lanes, of, SUM, 1)
        elif kind == MEAN and adjust:
            average_column(lanes, of, MEAN, 1)
        elif kind == MEAN:
            average_column(lanes, of, MEAN, 0)
        elif adjust:
            average_column(lanes, of, SPREAD, 1)
        else:
            average_column(lanes, of, SPREAD, 0)


def average_rows(
    values: Array,
    found: Array,
    weights: Array,
    losses: Array,
    starts: Array,
    state: Array,
    first: int,
    kind: str,
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
    modes = KINDS[kind], adjust, kind == "unbiased", gaps_age, least
    run = average[Lanes(values.dtype.name, 1)]
    run(
        *place[0], *place[1], address(weights), address(losses), step, address(starts), group, address(state), *sizes,
        *map(int, modes),
    )  # fmt: skip
