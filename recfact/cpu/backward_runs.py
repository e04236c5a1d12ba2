"""Gradients of the jagged window of one term in sequences whose steps follow each other in memory.

A sequence is cut into runs of whole blocks, one for each lane of a vector. They follow each other in memory, so a group
of runs is one piece of the sequence. Values from the block before a run and from the block after it are in the
neighbouring lanes. Only the first and the last run of a group read values outside the group. Short sequences are runs
as well, and nothing enters them. The order of the arithmetic is that of a single block, wherever runs begin and end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from recfact.cpu.compilation import apart, helper, kernel
from recfact.cpu.halves import I32
from recfact.cpu.language import operation
from recfact.cpu.numbers import Lanes
from recfact.cpu.operations import add, fma, integer, load, multiply, nought, single, size, store, width
from recfact.cpu.turning import Strides, turn_back, turn_in


class Places(NamedTuple):
    """Addresses of the gradients of the inputs, the inputs, the cotangents, the coefficients and their gradients."""

    du: int
    u: int
    g: int
    a: int
    da: int


@helper
def moved(at: Places, hop: Places, count: int) -> Places:
    """Return the places `count` hops further on."""
    return Places(
        at.du + count * hop.du,
        at.u + count * hop.u,
        at.g + count * hop.g,
        at.a + count * hop.a,
        at.da + count * hop.da,
    )


def _beside(lanes: Lanes, builder: Any, vector: Any, scalar: Any, first: int) -> Any:
    if lanes.count == 1:
        return scalar
    spread = builder.insert_element(ir.Constant(vector.type, ir.Undefined), scalar, ir.Constant(I32, 0))
    order = [lane if 0 <= lane < lanes.count else lanes.count for lane in range(first, first + lanes.count)]
    return builder.shuffle_vector(vector, spread, ir.Constant(ir.VectorType(I32, lanes.count), order))


@operation
def from_before(lanes: Any, vector: Any, scalar: Any) -> Any:
    """Return for each lane the number of the lane before it, and for the first lane a scalar."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return _beside(lanes, builder, args[1], args[2], -1)

    return lanes.value(lanes, lanes.value, Lanes(lanes.storage, 1).value), codegen


@operation
def from_behind(lanes: Any, vector: Any, scalar: Any) -> Any:
    """Return for each lane the number of the lane behind it, and for the last lane a scalar."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return _beside(lanes, builder, args[1], args[2], 1)

    return lanes.value(lanes, lanes.value, Lanes(lanes.storage, 1).value), codegen


@helper
def state_before(one: Any, a: int, u: int, steps: int) -> Any:
    """Return the last state of the block of `steps` steps that ends before these addresses."""
    w = load(one, u, -steps * size(one))
    for k in range(1 - steps, 0):
        w = fma(one, load(one, a, k * size(one)), w, load(one, u, k * size(one)))
    return w


@helper
def cotangent_behind(one: Any, a: int, g: int, steps: int) -> Any:
    """Return what a block passes back to the state before it. The block has `steps` steps and begins at `a` and `g`."""
    z = load(one, g, (steps - 1) * size(one))
    for k in range(steps - 1, 0, -1):
        z = fma(one, load(one, a, k * size(one)), z, load(one, g, (k - 1) * size(one)))
    return multiply(one, load(one, a, 0), z)


@helper
def solve_blocks(lanes: Any, a: int, w: int, z: int, steps: int, block: int) -> None:
    """Replace inputs by the states inside the blocks, and cotangents of states by those of inputs."""
    step = size(lanes)
    for index in range((steps + block - 1) // block):
        first, end = index * block, min(index * block + block, steps)
        state = load(lanes, w, first * step)
        for k in range(first + 1, end):
            state = fma(lanes, load(lanes, a, k * step), state, load(lanes, w, k * step))
            store(lanes, w, k * step, state)
        back = load(lanes, z, (end - 1) * step)
        for k in range(end - 1, first, -1):
            back = fma(lanes, load(lanes, a, k * step), back, load(lanes, z, (k - 1) * step))
            store(lanes, z, (k - 1) * step, back)


@helper
def carry(lanes: Any, a: int, c: int, first: int, end: int, left: Any) -> None:
    """Compute what the last state of the block before adds to each state of a block but the last."""
    step = size(lanes)
    for k in range(first, end - 1):
        left = multiply(lanes, load(lanes, a, k * step), left)
        store(lanes, c, k * step, left)


@helper
def combine(
    lanes: Any, a: int, w: int, z: int, c: int, first: int, end: int, before: bool, behind: bool, y: Any
) -> Any:
    """Compute the gradients of a block, except that of its first coefficient.

    Those of inputs replace `z`, and those of coefficients replace `c`. `before` and `behind` say whether there is a
    block there. `y` is what the block behind passes back. In the first step it becomes what this block passes back.
    """
    step = size(lanes)
    for k in range(end - 1, first, -1):
        own = load(lanes, z, k * step)
        both = own
        if behind:
            both = add(lanes, own, y)
            y = multiply(lanes, load(lanes, a, k * step), y)
        state = load(lanes, w, (k - 1) * step)
        product = multiply(lanes, both, state)
        if before:
            product = fma(lanes, own, load(lanes, c, (k - 1) * step), product)
        store(lanes, z, k * step, both)
        store(lanes, c, k * step, product)
    return y


@apart
def descend_runs(
    lanes: Any, at: Places, hop: Places, steps: int, block: int, before: int, behind: int, scratch: int
) -> None:
    """Compute the gradients of a group of runs.

    Parameters
    ----------
    at, hop : Places
        The place of the first run, and the bytes from run to run.
    steps : int
        Steps of a run. These are whole blocks if something is behind it.
    before, behind : int
        Steps of the block before each run and of the block behind it, or 0 if there is none.
    scratch : address
        Room for ``5 * steps`` vectors.
    """
    one, count, step, number = single(lanes), width(lanes), size(lanes), size(single(lanes))
    a = scratch
    w = a + steps * step
    z = w + steps * step
    c = z + steps * step
    spare = c + steps * step
    turn_in(lanes, at.a, Strides(number, 0, hop.a), steps, 1, count, 0, a, count * hop.a)
    turn_in(lanes, at.u, Strides(number, 0, hop.u), steps, 1, count, 0, w, count * hop.u)
    turn_in(lanes, at.g, Strides(number, 0, hop.g), steps, 1, count, 0, z, count * hop.g)
    solve_blocks(lanes, a, w, z, steps, block)
    left = load(lanes, w, (steps - 1) * step)
    if before:
        left = from_before(lanes, left, state_before(one, at.a, at.u, before))
    passed = multiply(lanes, load(lanes, a, 0), load(lanes, z, 0))
    if behind:
        last = moved(at, hop, count - 1)
        outside = cotangent_behind(one, last.a + steps * number, last.g + steps * number, behind)
        passed = from_behind(lanes, passed, outside)
    for index in range((steps + block - 1) // block):
        first, end = index * block, min(index * block + block, steps)
        has_before, has_behind = first > 0 or before > 0, end < steps or behind > 0
        if has_before:
            carry(lanes, a, c, first, end, left)
        y = passed
        if end < steps:
            y = multiply(lanes, load(lanes, a, end * step), load(lanes, z, end * step))
        y = combine(lanes, a, w, z, c, first, end, has_before, has_behind, y)
        own = load(lanes, z, first * step)
        if has_behind:
            store(lanes, z, first * step, add(lanes, own, y))
        store(lanes, c, first * step, multiply(lanes, own, left) if has_before else nought(lanes))
        left = load(lanes, w, (end - 1) * step)
    turn_back(lanes, at.du, Strides(number, 0, hop.du), steps, 1, count, 0, z, spare, False)
    turn_back(lanes, at.da, Strides(number, 0, hop.da), steps, 1, count, 0, c, spare, False)


@kernel
def descend_rows(
    lanes: Any,
    table: int,
    problems: int,
    count: int,
    du_row: int,
    u_row: int,
    g_row: int,
    a_row: int,
    da_row: int,
    n: int,
    begin: int,
    end: int,
    block: int,
    run: int,
    scratch: int,
) -> None:
    """Compute the gradients of the jagged window of one term from its inputs.

    Parameters
    ----------
    table : address of int64, shape (5, problems)
        Addresses in each problem of the first gradient of the inputs, input, cotangent, coefficient and gradient of it.
    count : int
        Rows of a problem. They are `du_row`, ... bytes apart. Several rows must be short enough to be runs.
    n, begin, end : int
        Steps of a row, and which of them to work on: from the start of a block to the end of one.
    block, run : int
        Steps of a block, and the largest number of steps of a run, a multiple of the block.
    scratch : address
        Room for ``5 * max(n if count > 1 else 0, run, block)`` vectors.
    """
    number = size(single(lanes))
    rows = Places(du_row, u_row, g_row, a_row, da_row)
    for problem in range(problems):
        at = Places(
            integer(table, problem),
            integer(table, problems + problem),
            integer(table, 2 * problems + problem),
            integer(table, 3 * problems + problem),
            integer(table, 4 * problems + problem),
        )
        row = 0
        while row < count:
            if count - row >= width(lanes):
                descend_runs(lanes, moved(at, rows, row), rows, n, block, 0, 0, scratch)
                row += width(lanes)
            else:
                own = moved(at, rows, row)
                done = begin
                while done < end:
                    # Runs side by side have a block before them and a block behind them.
                    left = min(end, (n - 1) // block * block) - done
                    steps = min(run, left // width(lanes) // block * block) if done else 0
                    hop = Places(steps * number, steps * number, steps * number, steps * number, steps * number)
                    place = moved(own, Places(number, number, number, number, number), done)
                    before = block if done else 0
                    if steps:
                        done += width(lanes) * steps
                        descend_runs(lanes, place, hop, steps, block, before, min(block, n - done), scratch)
                    else:
                        steps = end - done if done else min(block, end)
                        done += steps
                        descend_runs(single(lanes), place, hop, steps, block, before, min(block, n - done), scratch)
                row += 1
