"""If the suffix sums of a long window can't be trusted, its states come from the definition.

There are two dangers. Products can overflow although no state does. And sums can miss infinities that the states on the
way of a window reach. Sums of absolute values bound these states: within a group of blocks by the plain loop, and
across its edge by the entering state times the largest product so far. If a result or a bound isn't finite, the plain
loop over its own window repeats the step. NaN shortens this loop, because no later step removes it. Infinities don't
shorten it, so a window of K steps costs K steps if states overflow.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import helper
from recfact.cpu.magnitudes import reached
from recfact.cpu.operations import (
    accumulator,
    all_finite,
    all_nan,
    any_nan,
    fma,
    integer,
    load,
    nought,
    put_integer,
    single,
    size,
    store,
    width,
)
from recfact.cpu.turning import Strides


@helper
def trusted(kept: Any, value: Any, peak: Any, entry: Any, bound: Any, before: Any) -> bool:
    """Return whether a result and the bounds of the states on its window's way are finite."""
    zero = nought(kept)
    finite: bool = all_finite(kept, fma(kept, zero, reached(kept, peak, entry, bound), fma(kept, zero, before, value)))
    return finite


@helper
def input_at(one: Any, step: int, edge: int, now: int, before: int, time: int) -> Any:
    """Return an input of one channel, in the group of blocks that starts at step `edge` or in the group before."""
    return load(one, now if step >= edge else before, (step - edge) * time)


@helper
def defined(
    one: Any, a: int, a_time: int, now: int, before: int, time: int, edge: int, start: int, step: int, marks: int
) -> Any:
    """Return the state of one channel at a step by the plain loop from the start of its window.

    A state stays NaN, so the loop starts at the last NaN that it would meet. `marks` has two steps: the one up to which
    NaN were looked for, and the last one that makes a state NaN if the window contains it.
    """
    kept = accumulator(one)
    seen = max(integer(marks, 0), start)
    spoilt = integer(marks, 1)
    for i in range(seen, step):
        if any_nan(kept, input_at(one, i, edge, now, before, time)):
            spoilt = i
        elif any_nan(kept, load(one, a, i * a_time)):
            spoilt = max(spoilt, i - 1)
    put_integer(marks, 0, max(seen, step))
    put_integer(marks, 1, spoilt)
    start = max(start, spoilt)
    state = input_at(one, start, edge, now, before, time)
    for i in range(start + 1, step + 1):
        state = fma(kept, load(one, a, i * a_time), state, input_at(one, i, edge, now, before, time))
        if all_nan(kept, state):
            break
    return state


@helper
def mend(
    lanes: Any,
    a: int,
    now: int,
    before: int,
    as_: Strides,
    us: Strides,
    edge: int,
    start: int,
    step: int,
    spare: int,
    peak: int,
    entry: int,
    bound: int,
    bound_before: int,
    marks: int,
) -> None:
    """Replace the states of a vector in the spare area that can't be trusted."""
    one = single(lanes)
    kept = accumulator(one)
    for k in range(width(lanes)):
        at = k * size(kept)
        if not trusted(
            kept,
            load(kept, spare, at),
            load(kept, peak, at),
            load(kept, entry, at),
            load(kept, bound, at),
            load(kept, bound_before, at),
        ):
            a_lane, now_lane, before_lane = a + k * as_.lane, now + k * us.lane, before + k * us.lane
            exact = defined(one, a_lane, as_.time, now_lane, before_lane, us.time, edge, start, step, marks + k * 16)
            store(kept, spare, at, exact)
