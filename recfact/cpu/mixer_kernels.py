"""The mixer of a Phalanx layer and its gradients: gates, recurrence and residual in one pass over memory.

Numbers lie in C order: values (batch, n, groups, heads, channels), gates (batch, n, groups, channels), coefficients
(batch, n, groups, heads). Groups of heads share gates. A problem is one sequence, or some groups of it. It walks
through memory in one direction, forward or backward. Its states wait in a scratch area that stays in a cache. What is
read and what is written is fetched ahead: processors see few steps ahead themselves, and lines that are written would
be waited for as well.

A row is one loop over its vectors, which are as wide as some heads together. Loops over groups, heads and vectors
inside each other would begin anew all the time. That takes longer than the arithmetic.

The states that enter tiles of steps are kept. The gradients need no others, because they solve each tile again. Where
blocks see the block before, two recurrences are followed each way: one within the block, and one that starts a block
earlier. Results come from the second one itself. The sum of its two parts would be NaN where both overflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from recfact.cpu.channel_vectors import fetch
from recfact.cpu.compilation import helper, kernel
from recfact.cpu.head_vectors import (
    each_head,
    for_heads,
    heads_at_once,
    load_factors,
    one_head,
    over_channels,
    over_heads,
)
from recfact.cpu.numbers import PAGE
from recfact.cpu.operations import add, fma, load, multiply, nought, single, size, store, width


class Part(NamedTuple):
    """The part of an array that a problem works on: groups of some heads.

    A head has `vectors` vectors, or a vector has several heads. `bytes` is the size of the part of a row of values. The
    rows of values, gates and coefficients are `row`, `gate_row` and `factor_row` bytes apart. The first numbers of the
    part are `value`, `gate` and `factor` bytes behind those of the arrays. Memory is fetched `ahead` bytes ahead.
    """

    heads: int
    vectors: int
    bytes: int
    row: int
    gate_row: int
    factor_row: int
    value: int
    gate: int
    factor: int
    ahead: int


class Place(NamedTuple):
    """Where a vector of a row is: bytes behind the start of values, gates and coefficients.

    `head` counts from the first one of its group, and `vector` from the first one of its head.
    """

    value: int
    gate: int
    factor: int
    head: int
    vector: int


@helper
def part_of(lanes: Any, problem: int, n: int, groups: int, together: int, heads: int, channels: int) -> Part:
    """Return the part of a problem."""
    number = size(single(lanes))
    batch, group = problem * together // groups, problem * together % groups
    factor, gate, value = heads * number, channels * number, heads * channels * number
    row = groups * value
    return Part(
        heads,
        channels // width(lanes) if heads_at_once(lanes) == 1 else 1,
        together * value,
        row,
        groups * gate,
        groups * factor,
        batch * n * row + group * value,
        batch * n * groups * gate + group * gate,
        batch * n * groups * factor + group * factor,
        (PAGE + row - 1) // row * row,
    )


@helper
def first_of(part: Part, i: int) -> Place:
    """Return the place of the first vector of the part of row `i`."""
    return Place(part.value + i * part.row, part.gate + i * part.gate_row, part.factor + i * part.factor_row, 0, 0)


@helper
def next_to(lanes: Any, part: Part, place: Place) -> Place:
    """Return the place of the next vector. Divisions would take longer than counting."""
    gate, factor, head, vector = place.gate + size(one_head(lanes)), place.factor, place.head, place.vector + 1
    if vector == part.vectors:
        vector, head, factor = 0, head + heads_at_once(lanes), factor + size(each_head(lanes))
        if head == part.heads:
            head = 0
        else:  # the heads of a group share gates
            gate = gate - part.vectors * size(one_head(lanes))
    return Place(place.value + size(lanes), gate, factor, head, vector)


@helper
def copy(lanes: Any, source: int, target: int, part: Part) -> None:
    """Copy the part of a row."""
    for at in range(0, part.bytes, size(lanes)):
        store(lanes, target, at, load(lanes, source, at))


@helper
def gated(lanes: Any, gate: int, at: int, value: Any) -> Any:
    """Multiply by a gate. Without gates, at address 0, they are 1."""
    return multiply(lanes, for_heads(lanes, load(one_head(lanes), gate, at)), value) if gate else value


@helper
def mix_row(
    lanes: Any, y: int, a: int, q: int, k: int, v: int, part: Part, i: int, own: int, old: int, starts: bool
) -> None:
    """Take step `i`. The states `own` start anew with blocks, and the states `old`, unless at 0, a block earlier."""
    place = first_of(part, i)
    for at in range(0, part.bytes, size(lanes)):
        fetch(lanes, v + place.value + part.ahead)
        fetch(lanes, y + place.value + part.ahead)
        factor, value = load_factors(lanes, a, place.factor), load(lanes, v, place.value)
        u = gated(lanes, k, place.gate, value)
        x = u if starts else fma(lanes, factor, load(lanes, own, at), u)
        store(lanes, own, at, x)
        if old:
            x = fma(lanes, factor, load(lanes, old, at), u) if i else u
            store(lanes, old, at, x)
        store(lanes, y, place.value, add(lanes, gated(lanes, q, place.gate, x), value))
        place = next_to(lanes, part, place)


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
    place = first_of(part, i)
    for at in range(0, part.bytes, size(lanes)):
        before = pairs + 2 * at
        factor = load_factors(lanes, a, place.factor)
        u = gated(lanes, k, place.gate, load(lanes, v, place.value))
        w = u if starts else fma(lanes, factor, load(lanes, before, 0), u)
        store(lanes, before + 2 * part.bytes, 0, w)
        if carries:
            x = fma(lanes, factor, load(lanes, before, size(lanes)), u)
            store(lanes, before + 2 * part.bytes, size(lanes), x)
        place = next_to(lanes, part, place)


@helper
def give(lanes: Any, of: int, gate: int, value: Any, first: bool) -> None:
    """Store the gradient of a gate, or add that of more heads to it. It isn't wanted at address 0."""
    if of:
        found = over_heads(lanes, value)
        if not first:
            found = add(one_head(lanes), load(one_head(lanes), of, gate), found)
        store(one_head(lanes), of, gate, found)


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
) -> None:
    """Take step `i` back, from the pairs of the step before it, and from the triples of cotangents at `later`.

    The vectors of a triple are the cotangent within the block, what the block behind adds to it, and their sum.
    `starts` and `ends` say whether a block does. `carries` and `passes` say whether it sees the block before, and
    whether it is seen from the block behind.
    """
    sums = nought(lanes)
    place = first_of(part, i)
    for at in range(0, part.bytes, size(lanes)):
        before, behind = pairs + 2 * at, later + 3 * at
        fetch(lanes, g + place.value - part.ahead)
        fetch(lanes, dv + place.value - part.ahead)
        value, given = load(lanes, v, place.value), load(lanes, g, place.value)
        z = gated(lanes, q, place.gate, given)
        du, passed = z, nought(lanes)
        if passes or not ends:
            factor = load_factors(lanes, a, place.factor + part.factor_row)
            if passes:
                passed = multiply(lanes, factor, load(lanes, behind, size(lanes)))
                du = fma(lanes, factor, load(lanes, behind, 2 * size(lanes)), z)
                store(lanes, behind, size(lanes), passed)
                store(lanes, behind, 2 * size(lanes), du)
            if not ends:
                z = fma(lanes, factor, load(lanes, behind, 0), z)
            if not passes:
                du = z
        store(lanes, behind, 0, z)
        product = nought(lanes)
        x = load(lanes, before + 2 * part.bytes, 0)
        if carries:
            x = load(lanes, before + 2 * part.bytes, size(lanes))
            product = multiply(lanes, z, load(lanes, before, size(lanes)))
            if passes and not starts:
                product = fma(lanes, passed, load(lanes, before, 0), product)
        elif not starts:
            product = multiply(lanes, du, load(lanes, before, 0))
        sums = add(lanes, sums, product) if place.vector else product
        if place.vector == part.vectors - 1:
            store(each_head(lanes), da, place.factor, over_channels(lanes, sums))
        give(lanes, dq, place.gate, multiply(lanes, given, x), place.head == 0)
        give(lanes, dk, place.gate, multiply(lanes, value, du), place.head == 0)
        store(lanes, dv, place.value, add(lanes, gated(lanes, k, place.gate, du), given))
        place = next_to(lanes, part, place)


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
    for the part of ``2 * tile + 5`` rows.
    """
    tiles = (n + tile - 1) // tile
    for problem in range(first, last):
        part = part_of(lanes, problem, n, groups, together, heads, channels)
        kept = entering + part_of(lanes, problem, tiles, groups, together, heads, channels).value
        later = scratch + 2 * (tile + 1) * part.bytes
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
                    z = load(lanes, later + 3 * at, 0)
                    store(lanes, later + 3 * at, size(lanes), z)
                    store(lanes, later + 3 * at, 2 * size(lanes), z)
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
                )
            end = begin
