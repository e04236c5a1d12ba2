"""Solving from a `State`, and to one.

A State acts on the steps up to the end of its block and on the next `terms` blocks. These few steps are solved after
the ghosts that stand for the State (`recfact.past`). All later steps don't see the State, and are solved as usual. The
State after the last step depends on the last ``terms + 1`` blocks alone.

Every array consists of segments here; a single sequence is one segment. Time is on axis 0. Arrays are NumPy's, or all
of them CuPy's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from recfact.array_functions import beside, bits, is_cupy, namespace, put, taken
from recfact.arrays import Array
from recfact.checks import boolean
from recfact.errors import ArrayTypeError, OptionError
from recfact.number_types import accumulator
from recfact.past import Past, Run
from recfact.state import State, alike, joined, made, turned
from recfact.state_parts import WHOLE, check_fits, check_state, holds_steps, initial_place, normal_form
from recfact.windows import Full, Window

PIECE, LEAST_STEPS = 1 << 16, 1 << 8
"""Numbers that are solved at once where states aren't kept, of at least so many steps."""


def check_options(
    state: Any, return_state: Any, states: Any, window: Window, reverse: bool, given: dict[str, bool]
) -> tuple[bool, bool]:
    """Return `return_state` and `states` as booleans, if they agree with the other options of `solve`.

    Parameters
    ----------
    given : dict
        Which of the other arguments are given: "x0", "out", a named "algorithm" and a "device" that takes no State.
    """
    return_state, states = boolean(return_state, "return_state"), boolean(states, "states")
    name = "return_state" if state is None else "state"
    if state is not None:
        check_state(state, State, window)
        if given["x0"]:
            raise OptionError("doesn't go with x0, which a State holds already", "state", advice="pass one of them")
    if not states and not return_state:
        required = "must be True if no State is returned"
        raise OptionError(required, "states", given=False, advice="pass return_state=True as well")
    if not states and given["out"]:
        raise OptionError(
            "must be True beside out, which takes states", "states", given=False, advice="pass one of them"
        )
    if state is None and not return_state:
        return return_state, states
    if reverse:
        raise OptionError(
            "doesn't go with reverse, which starts from the end", name, advice="flip a and u, if that is meant"
        )
    if given["algorithm"]:
        raise OptionError("doesn't go with a named algorithm", name, advice='pass algorithm="auto"')
    if given["device"]:
        raise OptionError("doesn't go with device='gpu'", name, advice="pass CuPy arrays, or solve on the host")
    return return_state, states


def solve_on(
    run: Run,
    a: Array,
    u: Array,
    x: Array | None,
    x0: Array | None,
    state: State | None,
    axis: int,
    window: Window,
    offsets: Array | None,
    dtype: Any = None,
) -> State:
    """Solve from a State or from initial states, into `x` if there is one, and return the State after the last step.

    Parameters
    ----------
    run : callable
        Solves without States.
    a, u, x : ndarray
        Coefficients, inputs and states, of one number type, with time on `axis`. `x` may be `u`. On a GPU coefficients
        and states may be float32 beside inputs in half precision.
    x0 : ndarray or None
        Initial states. Segments are on axis 0.
    offsets : ndarray of int64 or None
        Where segments start, and where the last one ends. A State then has an axis of segments in the place of time.
    dtype : dtype, optional
        Number type of the State, by default that of the inputs.
    """
    dtype = u.dtype if dtype is None else dtype
    shape = u.shape
    if a.shape != shape:
        shape = np.broadcast_shapes(a.shape, shape)
        a, u = np.broadcast_to(a, shape), np.broadcast_to(u, shape)
    a, u = time_first(a, axis), time_first(u, axis)
    x = None if x is None else time_first(x, axis)
    whole = type(window) is Full and state is None and offsets is None
    if whole and x is not None and x.dtype == accumulator(dtype) and len(u):
        # This call is usual, and most of its time would be spent below: what continues it is the last state alone.
        run(a, u, x, x0, window, None)
        return made(window, x[-1:].copy(), 0, 1, dtype)
    cuts = [0, len(u)] if offsets is None else offsets.tolist()

    def segments_first(array: Array, at: int) -> Array:
        return np.expand_dims(array, at) if offsets is None else np.moveaxis(array, at + axis, at)

    def segments_back(array: Array, at: int) -> Array:
        return array[(slice(None),) * at + (0,)] if offsets is None else np.moveaxis(array, at, at + axis)

    if state is None:
        past = before_first(window, (len(cuts) - 1, *u.shape[1:]), u.dtype, x0, namespace(u))
        return turned(state_of(solve_from(run, a, u, x, cuts, past, window), window, dtype), segments_back)
    if is_cupy(state.parts) != is_cupy(u):
        raise ArrayTypeError(
            "must hold its parts where a and u are, on the host or on a GPU; convert it with "
            "dataclasses.replace(state, parts=cupy.asarray(state.parts)), or with cupy.asnumpy",
            "state",
        )
    check_fits(state, dtype, (*shape[:axis], *([] if offsets is None else [len(cuts) - 1]), *shape[axis + 1 :]))
    if len(u) == 0:
        return state
    start = turned(state, segments_first)
    ends = []
    for places, part in alike(start):
        if not places:
            end = solve_from(run, a, u, x, cuts, past_of(part), window)
            return turned(state_of(end, window, dtype), segments_back)
        rows: Any = (slice(None), *(beside(u, place) for place in places))
        own_a, own_u = (taken(array, rows) for array in (a, u))
        states = None if x is None else np.empty_like(own_u)
        end = solve_from(run, own_a, own_u, states, cuts, past_of(part), window)
        ends.append(((slice(None), *places), state_of(end, window, dtype)))
        if x is not None:
            put(x, rows, states)
    return turned(joined(start.shape, ends), segments_back)


def solve_from(run: Run, a: Array, u: Array, x: Array | None, offsets: list[int], past: Past, window: Window) -> Past:
    """Solve segments from their past, into `x` if there is one, and return the past of the steps that follow."""
    if len(u) == 0:
        return past
    if past.block == WHOLE:
        return solve_whole(run, a, u, x, offsets, past)
    end = past.after(run, a, u, offsets)  # before states are written, where inputs may be
    if x is not None:
        solve_window(run, a, u, x, offsets, past, window)
    return end


def solve_window(run: Run, a: Array, u: Array, x: Array, offsets: list[int], past: Past, window: Window) -> None:
    """Solve segments in a window, from their past."""
    if not any(past.phase) and len(set(map(bool, past.held))) == 1:
        solve_between(run, a, u, x, past.initial(), window, offsets)
        return
    heads, places, cuts = [], [], [0]
    for segment, (start, end) in enumerate(pairwise(offsets)):
        phase, ghosts = past.phase[segment], past.ghosts(segment)
        cuts += [min(start + (past.block - phase if phase else 0), end), end]
        if past.held[segment] and start < end:
            stop = min(start + past.block - phase + past.terms * past.block, end)
            heads.append(past.steps(a[start:end], u[start:end], segment, 0, ghosts + stop - start))
            places.append((slice(start, stop), ghosts))
    if not heads:  # only empty segments have something before them
        solve_between(run, a, u, x, None, window, cuts)
        return
    coefficients, inputs = (np.concatenate(arrays) for arrays in zip(*heads, strict=True))
    ends = [0, *accumulate(len(head) for head, _ in heads)]
    head = np.empty_like(inputs)
    solve_between(run, coefficients, inputs, head, None, window, ends)
    solve_between(run, a, u, x, None, window, cuts)
    for (place, ghosts), (start, end) in zip(places, pairwise(ends), strict=True):
        put(x, place, head[start + ghosts : end])


def solve_between(run: Run, a: Array, u: Array, x: Array, x0: Array | None, window: Window, offsets: list[int]) -> None:
    """Solve segments. One or two are solved as separate sequences, which is faster."""
    if len(offsets) > 3:
        run(a, u, x, x0, window, np.array(offsets))
        return
    for segment, (start, end) in enumerate(pairwise(offsets)):
        if start < end:
            run(a[start:end], u[start:end], x[start:end], None if x0 is None else x0[segment], window, None)


def solve_whole(run: Run, a: Array, u: Array, x: Array | None, offsets: list[int], past: Past) -> Past:
    """Solve segments without a window. Their last states, in the type computed in, are all that continues."""
    n, kept, xp = len(u), past.parts.dtype, namespace(u)
    last, begun = xp.zeros(past.parts.shape[1:], kept), [held > 0 for held in past.held]
    if any(begun):
        last[:] = past.parts[0]
    if xp is not np:  # kernels round states themselves, and say what the last ones were before
        run(reset(a, offsets, begun), u, x, past.parts[0] if any(begun) else None, Full(), np.array(offsets), last)
        taken_up = [old or cut < following for (cut, following), old in zip(pairwise(offsets), begun, strict=True)]
        return Past(past.block, past.terms, last[None], past.phase, list(map(int, taken_up)))
    if x is None and u.dtype == kept and len(offsets) == 2:
        x = in_one_place(n, np.empty(u.shape[1:], kept))
    if x is not None and x.dtype == kept:
        solve_piece(run, a, u, x, offsets, last, begun)
        return Past(past.block, past.terms, last[None], past.phase, list(map(int, begun)))
    steps = max(LEAST_STEPS, PIECE // max(1, prod(u.shape[1:])))
    spare = np.empty((min(n, steps), *u.shape[1:]), kept)
    for start in range(0, n, steps):
        end = min(start + steps, n)
        first, behind = bisect_right(offsets, start) - 1, bisect_left(offsets, end)
        cuts = [min(max(offset - start, 0), end - start) for offset in offsets[first : behind + 1]]
        own_a, own_u = a[start:end].astype(kept, copy=False), u[start:end].astype(kept, copy=False)
        states, own_begun = spare[: end - start], begun[first:behind]
        solve_piece(run, own_a, own_u, states, cuts, last[first:behind], own_begun)
        begun[first:behind] = own_begun
        if x is not None:
            put(x, slice(start, end), states)
    return Past(past.block, past.terms, last[None], past.phase, list(map(int, begun)))


def solve_piece(run: Run, a: Array, u: Array, x: Array, cuts: list[int], last: Array, begun: list[bool]) -> None:
    """Solve segments from their `last` states, which follow those that have `begun`, and replace both."""
    solve_between(run, reset(a, cuts, begun), u, x, last if any(begun) else None, Full(), cuts)
    for segment, (cut, following) in enumerate(pairwise(cuts)):
        if cut < following:
            last[segment], begun[segment] = x[following - 1], True


def in_one_place(n: int, place: Array) -> Array:
    """Return an array of `n` steps that share one place in memory, so the last one written stays there."""
    return np.lib.stride_tricks.as_strided(place, (n, *place.shape), (0, *place.strides))


def reset(a: Array, cuts: list[int], begun: list[bool]) -> Array:
    """Return coefficients with 0 where segments start that haven't begun beside others that have.

    They stay as they are if a coefficient there times a state of 0 is 0. On a GPU they don't, because the host doesn't
    wait for an answer.
    """
    fresh = zip(pairwise(cuts), begun, strict=True)
    steps = [cut for (cut, following), old in fresh if cut < following and not old] if any(begun) else []
    if not steps or (type(a) is np.ndarray and a.dtype != object and np.isfinite(a[steps]).all()):
        return a
    numbers: Array = bits(a).copy()
    numbers[beside(a, np.array(steps))] = 0
    return numbers if numbers.dtype == a.dtype else numbers.view(a.dtype)


def time_first(array: Array, axis: int) -> Array:
    """Return an array with an axis moved to the front."""
    return np.moveaxis(array, axis, 0) if axis else array


def before_first(window: Window, shape: tuple[int, ...], dtype: np.dtype[Any], x0: Array | None, xp: Any = np) -> Past:
    """Return the past of segments before their first step; `shape` is that of their states, in the library `xp`."""
    parts = xp.zeros((0 if x0 is None else 1, *(2,) * holds_steps(window), *shape), accumulator(dtype))
    if x0 is not None:
        parts[initial_place(window)] = x0
    return Past(*normal_form(window), parts, [0] * shape[0], [len(parts)] * shape[0])


def past_of(state: State) -> Past:
    """Return the past of the segments on the first axis of a State, whose channels are all at the same step."""
    phase, held = (
        [count] * state.shape[0] if isinstance(count, int) else count.reshape(len(count), -1)[:, 0].tolist()
        for count in (state.phase, state.held)
    )
    return Past(*normal_form(state.window), state.parts, phase, held)


def state_of(past: Past, window: Window, dtype: np.dtype[Any]) -> State:
    """Return the State that holds what a `Past` does."""
    shape = past.parts.shape[1 + holds_steps(window) :]
    phase, held = (
        count[0] if len(set(count)) == 1 else np.broadcast_to(np.reshape(count, (-1, *(1,) * (len(shape) - 1))), shape)
        for count in (past.phase, past.held)
    )
    return made(window, past.parts, phase, held, dtype)
