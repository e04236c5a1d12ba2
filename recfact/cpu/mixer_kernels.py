"""The mixer of a Phalanx layer and its gradients: gates, recurrence and residual in one pass over memory.

Numbers lie in C order: values (batch, n, groups, heads, channels), gates (batch, n, groups, channels), coefficients
(batch, n, groups, heads). Groups of heads share gates. A problem is one sequence, or some groups of it. It walks
through memory in one direction, forward or backward. Its states wait in a scratch area that stays in a cache. What is
read and what is written is fetched a page ahead: processors see few steps ahead themselves, and lines that are written
would be waited for as well.

The states that enter tiles of steps are kept. The gradients need no others, because they solve each tile again. What
they hold of a step lies in pairs of vectors: what a state is by its own block, and what the block before adds to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.backward_kernels import give
from recfact.cpu.channel_vectors import fetch
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.numbers import PAGE
from recfact.cpu.operations import add, fma, load, load_shared, multiply, nought, single, size, store, width


class Part(NamedTuple):
    """The part of an array that a problem works on: groups of heads of some vectors each.

    `bytes` is the size of the part of a row of values. The rows of values, gates and coefficients are `row`, `gate_row`
    and `factor_row` bytes apart. The first numbers of the part are `value`, `gate` and `factor` bytes behind those of
    the arrays.
    """

    groups: int
    heads: int
    vectors: int
    bytes: int
    row: int
    gate_row: int
    factor_row: int
    value: int
    gate: int
    factor: int


@helper
def part_of(lanes: Any, problem: int, n: int, groups: int, together: int, heads: int, channels: int) -> Part:
    """Return the part of a problem."""
    number = size(single(lanes))
    batch, group = problem * together // groups, problem * together % groups
    factor, gate, value = heads * number, channels * number, heads * channels * number
    return Part(
        together,
        heads,
        channels // width(lanes),
        together * value,
        groups * value,
        groups * gate,
        groups * factor,
        batch * n * groups * value + group * value,
        batch * n * groups * gate + group * gate,
        batch * n * groups * factor + group * factor,
    )


@helper
def copy(lanes: Any, source: int, target: int, part: Part) -> None:
    """Copy the part of a row."""
    for at in range(0, part.bytes, size(lanes)):
        store(lanes, target, at, load(lanes, source, at))


@helper
def gated(lanes: Any, gate: int, at: int, value: Any) -> Any:
    """Multiply by a gate. Without gates, at address 0, they are 1."""
    return multiply(lanes, load(lanes, gate, at), value) if gate else value


@helper
def mix_row(
    lanes: Any, y: int, a: int, q: int, k: int, v: int, part: Part, i: int, own: int, old: int, starts: bool
) -> None:
    """Take step `i`. The states `own` start anew with blocks, and the states `old`, unless at 0, a block earlier."""
    for j in range(part.groups):
        for c in range(part.vectors):
            gate = part.gate + i * part.gate_row + (j * part.vectors + c) * size(lanes)
            for h in range(j * part.heads, (j + 1) * part.heads):
                at = (h * part.vectors + c) * size(lanes)
                place = part.value + i * part.row + at
                fetch(lanes, v + place + PAGE)
                fetch(lanes, y + place + PAGE)
                factor = load_shared(lanes, a, part.factor + i * part.factor_row + h * size(single(lanes)))
                value = load(lanes, v, place)
                u = gated(lanes, k, gate, value)
                x = u if starts else fma(lanes, factor, load(lanes, own, at), u)
                store(lanes, own, at, x)
                if old:
                    x = fma(lanes, factor, load(lanes, old, at), u) if i else u
                    store(lanes, old, at, x)
                store(lanes, y, place, add(lanes, gated(lanes, q, gate, x), value))


@kernel
def mix(
    lanes: Any,
    y: int,
    entering: int,
    a: int,
    q: int,
    k: int,
    v: int,
    first: int,
    last: int,
    n: int,
    groups: int,
    together: int,
    heads: int,
    channels: int,
    tile: int,
    block: int,
    carries: int,
    scratch: int,
) -> None:
    """Compute q x + v, where x solves the recurrence with inputs k v.

    Parameters
    ----------
    y, a, q, k, v : address
        Results, coefficients, gates and values. Gates of 1 are at address 0.
    entering : address, or 0
        Room for the states that enter tiles, (batch, tiles, groups, heads, channels). Nothing enters the first one.
    first, last : int
        The first problem, and the end of the last one.
    groups, together, heads : int
        Groups of a sequence, groups of a problem, and heads of a group.
    tile, block, carries : int
        Steps of a tile, steps after which states start anew, and whether blocks see the block before.
    scratch : address
        Room for the part of two rows.
    """
    tiles = (n + tile - 1) // tile
    for problem in range(first, last):
        part = part_of(lanes, problem, n, groups, together, heads, channels)
        kept = entering + part_of(lanes, problem, tiles, groups, together, heads, channels).value
        own, old = scratch, scratch + part.bytes if carries else 0
        for i in range(n):
            if entering and i and i % tile == 0:
                copy(lanes, own, kept + i // tile * part.row, part)
            starts = i % block == 0
            if starts and carries:
                own, old = old, own
            mix_row(lanes, y, a, q, k, v, part, i, own, old, starts)


@helper
def put(lanes: Any, source: int, target: int, second: bool, part: Part) -> None:
    """Put the part of a row into the first or into the second vectors of a row of pairs."""
    for at in range(0, part.bytes, size(lanes)):
        store(lanes, target, 2 * at + second * size(lanes), load(lanes, source, at))


@helper
def solve_row(lanes: Any, a: int, k: int, v: int, part: Part, i: int, pairs: int, starts: bool, carries: bool) -> None:
    """Take step `i` from the row of pairs before it, at `pairs`."""
    for j in range(part.groups):
        for c in range(part.vectors):
            gate = part.gate + i * part.gate_row + (j * part.vectors + c) * size(lanes)
            for h in range(j * part.heads, (j + 1) * part.heads):
                at = (h * part.vectors + c) * size(lanes)
                factor = load_shared(lanes, a, part.factor + i * part.factor_row + h * size(single(lanes)))
                w = gated(lanes, k, gate, load(lanes, v, part.value + i * part.row + at))
                before = pairs + 2 * at
                if not starts:
                    w = fma(lanes, factor, load(lanes, before, 0), w)
                store(lanes, before + 2 * part.bytes, 0, w)
                if carries:
                    carried = multiply(lanes, factor, load(lanes, before, size(lanes)))
                    store(lanes, before + 2 * part.bytes, size(lanes), carried)


@helper
def back_row(
    lanes: Any,
    dv: int,
    dk: int,
    dq: int,
    da: int,
    g: int,
    a: int,
    q: int,
    k: int,
    v: int,
    part: Part,
    i: int,
    pairs: int,
    later: int,
    starts: bool,
    carries: bool,
    ends: bool,
    passes: bool,
    sums: int,
) -> None:
    """Take step `i` back, from the pairs of the step before it, and from the pairs of cotangents at `later`.

    The first vector of a pair of cotangents is of the step behind it, and the second of the block behind it.
    `starts` and `ends` say whether a block does. `carries` and `passes` say whether it sees the block before, and
    whether it is seen from the block behind.
    """
    for j in range(part.groups - 1, -1, -1):
        for c in range(part.vectors - 1, -1, -1):
            gate = part.gate + i * part.gate_row + (j * part.vectors + c) * size(lanes)
            of_key, of_query = nought(lanes), nought(lanes)
            for h in range((j + 1) * part.heads - 1, j * part.heads - 1, -1):
                at, number = (h * part.vectors + c) * size(lanes), h * size(single(lanes))
                place = part.value + i * part.row + at
                before, behind = pairs + 2 * at, later + 2 * at
                fetch(lanes, g + place - PAGE)
                fetch(lanes, dv + place - PAGE)
                value, given = load(lanes, v, place), load(lanes, g, place)
                z = gated(lanes, q, gate, given)
                factor = nought(lanes)
                if passes or not ends:
                    factor = load_shared(lanes, a, part.factor + (i + 1) * part.factor_row + number)
                if not ends:
                    z = fma(lanes, factor, load(lanes, behind, 0), z)
                store(lanes, behind, 0, z)
                du = z
                if passes:
                    passed = multiply(lanes, factor, load(lanes, behind, size(lanes)))
                    store(lanes, behind, size(lanes), passed)
                    du = add(lanes, z, passed)
                x, product = load(lanes, before + 2 * part.bytes, 0), nought(lanes)
                if not starts:
                    product = multiply(lanes, du, load(lanes, before, 0))
                if carries:
                    x = add(lanes, x, load(lanes, before + 2 * part.bytes, size(lanes)))
                    product = fma(lanes, z, load(lanes, before, size(lanes)), product)
                give(
                    lanes,
                    da,
                    part.factor + i * part.factor_row + number,
                    product,
                    1,
                    part.vectors - 1 - c,
                    part.vectors,
                    sums + h * size(lanes),
                )
                of_query, of_key = fma(lanes, given, x, of_query), fma(lanes, value, du, of_key)
                store(lanes, dv, place, add(lanes, gated(lanes, k, gate, du), given))
            if q:
                store(lanes, dq, gate, of_query)
            if k:
                store(lanes, dk, gate, of_key)


@kernel
def mix_back(
    lanes: Any,
    dv: int,
    dk: int,
    dq: int,
    da: int,
    g: int,
    entering: int,
    a: int,
    q: int,
    k: int,
    v: int,
    first: int,
    last: int,
    n: int,
    groups: int,
    together: int,
    heads: int,
    channels: int,
    tile: int,
    block: int,
    carries: int,
    scratch: int,
) -> None:
    """Compute the gradients of values, gates and coefficients from those of the results, `g`.

    The other parameters are those of `mix`. A tile is a block, or the block is the whole sequence. `scratch` has room
    for the part of ``2 * tile + 4`` rows, and for a vector of each head.
    """
    tiles = (n + tile - 1) // tile
    for problem in range(first, last):
        part = part_of(lanes, problem, n, groups, together, heads, channels)
        kept = entering + part_of(lanes, problem, tiles, groups, together, heads, channels).value
        later = scratch + 2 * (tile + 1) * part.bytes
        sums = later + 2 * part.bytes
        end = n
        while end > 0:
            begin = (end - 1) // tile * tile
            fresh = begin % block == 0
            left, passes = carries and begin > 0, carries and end < n
            if not fresh:
                put(lanes, kept + begin // tile * part.row, scratch, False, part)
            if left:
                put(lanes, kept + begin // tile * part.row, scratch, True, part)
            if passes:
                for at in range(0, part.bytes, size(lanes)):
                    store(lanes, later + 2 * at, size(lanes), load(lanes, later + 2 * at, 0))
            for i in range(begin, end):
                row = scratch + 2 * (i - begin) * part.bytes
                solve_row(lanes, a, k, v, part, i, row, fresh and i == begin, left)
            for i in range(end - 1, begin - 1, -1):
                row = scratch + 2 * (i - begin) * part.bytes
                starts, ends = fresh and i == begin, i == n - 1 or (i + 1) % block == 0
                back_row(
                    lanes,
                    dv,
                    dk,
                    dq,
                    da,
                    g,
                    a,
                    q,
                    k,
                    v,
                    part,
                    i,
                    row,
                    later,
                    starts,
                    left,
                    ends,
                    passes,
                    sums,
                )
            end = begin
