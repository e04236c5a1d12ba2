"""Gradients of channels that lie next to each other in memory: one pass, from the last step to the first.

A tile of steps of a few channels is read once and stays in the caches. The first pass over it goes forwards and brings
what comes from earlier steps. The second pass goes backwards and brings what comes from later steps. docs/gradients.md
has the formulas.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.compilation import helper, kernel
from recfact.cpu.operations import (
    add,
    fma,
    integer,
    load,
    load_shared,
    multiply,
    nought,
    single,
    size,
    store,
    total,
    width,
)


@helper
def coefficient(lanes: Any, a: int, at: int, shared: int) -> Any:
    """Return the coefficients of a vector of channels. The channels may share one."""
    return load_shared(lanes, a, at) if shared else load(lanes, a, at)


@helper
def give(lanes: Any, da: int, at: int, product: Any, shared: int, v: int, count: int, sums: int) -> None:
    """Store the gradient of the coefficients of a vector of channels, or add it up if the group shares one."""
    if not shared:
        store(lanes, da, at, product)
        return
    if v:
        product = add(lanes, load(lanes, sums, 0), product)
    if v == count - 1:
        store(single(lanes), da, at, total(lanes, product))
    else:
        store(lanes, sums, 0, product)


class Times(NamedTuple):
    """The bytes from step to step of each array."""

    du: int
    x: int
    g: int
    a: int
    da: int


@helper
def descend_tile(
    lanes: Any,
    du: int,
    x: int,
    g: int,
    a: int,
    da: int,
    times: Times,
    shared: bool,
    end: int,
    first: int,
    v: int,
    count: int,
    sums: int,
    z: Any,
) -> Any:
    """Take the steps end-1 .. first+1 of a vector of channels, and return the gradient of the input of step `first`.

    `z` is that of the last one. Whether coefficients are `shared` is known at compile time: each step would ask for it.
    """
    for k in range(end - 1, first, -1):
        store(lanes, du, k * times.du, z)
        product = multiply(lanes, z, load(lanes, x, (k - 1) * times.x))
        give(lanes, da, k * times.da, product, shared, v, count, sums + (k - first) * size(lanes))
        z = fma(lanes, coefficient(lanes, a, k * times.a, shared), z, load(lanes, g, (k - 1) * times.g))
    return z


@kernel
def descend(
    lanes: Any,
    table: int,
    problems: int,
    groups: int,
    channels: int,
    du_time: int,
    x_time: int,
    g_time: int,
    a_time: int,
    da_time: int,
    du_group: int,
    x_group: int,
    g_group: int,
    a_group: int,
    da_group: int,
    shared: int,
    n: int,
    tile: int,
    joined: int,
    scratch: int,
) -> None:
    """Compute the gradients of the whole recurrence, or of separate blocks, from their states.

    Parameters
    ----------
    table : address of int64, shape (5, problems)
        Addresses in each problem of the first gradient of the inputs, state, cotangent, coefficient and gradient of it.
    shared : int
        Whether the channels of a group share their coefficient.
    tile, joined : int
        Steps of a tile, and whether the recurrence goes on from tile to tile.
    scratch : address
        Room for a vector of each channel, and for as many vectors as a tile has steps.
    """
    count, step = channels // width(lanes), size(lanes)
    lane = 0 if shared else step
    sums = scratch + groups * count * step
    times = Times(du_time, x_time, g_time, a_time, da_time)
    for problem in range(problems):
        starts = table + 8 * problem
        end = n
        while end > 0:
            first = (end - 1) // tile * tile
            for h in range(groups):
                for v in range(count):
                    at = scratch + (h * count + v) * step
                    du = integer(starts, 0) + h * du_group + v * step
                    x = integer(starts, problems) + h * x_group + v * step
                    g = integer(starts, 2 * problems) + h * g_group + v * step
                    a = integer(starts, 3 * problems) + h * a_group + v * lane
                    da = integer(starts, 4 * problems) + h * da_group + v * lane
                    z = load(lanes, g, (end - 1) * g_time)
                    if joined and end < n:
                        z = fma(lanes, coefficient(lanes, a, end * a_time, shared), load(lanes, at, 0), z)
                    if shared:
                        z = descend_tile(lanes, du, x, g, a, da, times, True, end, first, v, count, sums, z)
                    else:
                        z = descend_tile(lanes, du, x, g, a, da, times, False, end, first, v, count, sums, z)
                    store(lanes, du, first * du_time, z)
                    product = nought(lanes)
                    if joined and first:
                        product = multiply(lanes, z, load(lanes, x, (first - 1) * x_time))
                    give(lanes, da, first * da_time, product, shared, v, count, sums)
                    store(lanes, at, 0, z)
            end = first


@helper
def local(lanes: Any, a: int, u: int, a_time: int, u_time: int, steps: int, shared: int, states: int) -> None:
    """Solve a block from its first step on."""
    w = load(lanes, u, 0)
    store(lanes, states, 0, w)
    for i in range(1, steps):
        w = fma(lanes, coefficient(lanes, a, i * a_time, shared), w, load(lanes, u, i * u_time))
        store(lanes, states, i * size(lanes), w)


@kernel
def descend_blocks(
    lanes: Any,
    table: int,
    problems: int,
    groups: int,
    channels: int,
    du_time: int,
    u_time: int,
    g_time: int,
    a_time: int,
    da_time: int,
    du_group: int,
    u_group: int,
    g_group: int,
    a_group: int,
    da_group: int,
    shared: int,
    n: int,
    block: int,
    scratch: int,
) -> None:
    """Compute the gradients of the jagged window of one term from its inputs.

    The parameters are those of `descend`, with inputs in the place of states. `scratch` has room for ``2 * block + 1``
    vectors of each channel, and for ``2 * block`` vectors more.
    """
    count, step = channels // width(lanes), size(lanes)
    lane = 0 if shared else step
    columns = groups * count
    entering = scratch + 2 * columns * block * step
    carried = entering + columns * step
    sums = carried + block * step
    for problem in range(problems):
        starts = table + 8 * problem
        first = (n - 1) // block * block
        end, turn = n, 0
        while end > 0:
            for h in range(groups):
                for v in range(count):
                    column = h * count + v
                    du = integer(starts, 0) + h * du_group + v * step
                    u = integer(starts, problems) + h * u_group + v * step
                    g = integer(starts, 2 * problems) + h * g_group + v * step
                    a = integer(starts, 3 * problems) + h * a_group + v * lane
                    da = integer(starts, 4 * problems) + h * da_group + v * lane
                    own = scratch + (turn * columns + column) * block * step
                    before = scratch + ((1 - turn) * columns + column) * block * step
                    if end == n:
                        local(lanes, a + first * a_time, u + first * u_time, a_time, u_time, end - first, shared, own)
                    left = nought(lanes)
                    if first:
                        early = first - block
                        local(lanes, a + early * a_time, u + early * u_time, a_time, u_time, block, shared, before)
                        left = load(lanes, before, (block - 1) * step)
                        c = multiply(lanes, coefficient(lanes, a, first * a_time, shared), left)
                        store(lanes, carried, 0, c)
                        for k in range(first + 1, end - 1):
                            c = multiply(lanes, coefficient(lanes, a, k * a_time, shared), c)
                            store(lanes, carried, (k - first) * step, c)
                    z = load(lanes, g, (end - 1) * g_time)
                    y = nought(lanes)
                    if end < n:
                        y = multiply(
                            lanes, coefficient(lanes, a, end * a_time, shared), load(lanes, entering, column * step)
                        )
                    for k in range(end - 1, first, -1):
                        i = k - 1 - first
                        factor = coefficient(lanes, a, k * a_time, shared)
                        both = z
                        if end < n:
                            both = add(lanes, z, y)
                            y = multiply(lanes, factor, y)
                        store(lanes, du, k * du_time, both)
                        product = multiply(lanes, both, load(lanes, own, i * step))
                        if first:
                            product = fma(lanes, z, load(lanes, carried, i * step), product)
                        give(lanes, da, k * da_time, product, shared, v, count, sums + (i + 1) * step)
                        z = fma(lanes, factor, z, load(lanes, g, (k - 1) * g_time))
                    store(lanes, du, first * du_time, add(lanes, z, y) if end < n else z)
                    product = multiply(lanes, z, left) if first else nought(lanes)
                    give(lanes, da, first * da_time, product, shared, v, count, sums)
                    store(lanes, entering, column * step, z)
            end, first, turn = first, first - block, 1 - turn
