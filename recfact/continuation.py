"""Solving from a `State`, and to one.

What stands in a State touches the steps up to the end of its block, and the `terms` blocks behind: these few steps are
solved block by block, in which nothing is dropped. The rest doesn't see it, and is solved as ever. The State after the
last step comes from the last ``terms + 1`` blocks alone.

Arrays have time on axis 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.carry import LastState
from recfact.checks import boolean
from recfact.errors import OptionError
from recfact.number_types import accumulator
from recfact.recurrence import folded
from recfact.state import (
    State,
    check_fits,
    check_state,
    first_state,
    groups,
    initial_state_of,
    is_uniform,
    joined,
)
from recfact.state_parts import WHOLE, holds_steps, normal_form
from recfact.windows import Full, Window

# Solves coefficients and inputs into the states, from an initial state or None, in a window.
Run = Callable[[Array, Array, Array, Array | None, Window], None]

PIECE = 1 << 20  # numbers that are solved at once where states aren't kept


def check_options(
    state: Any, return_state: Any, states: Any, window: Window, reverse: bool, given: dict[str, bool]
) -> tuple[bool, bool]:
    """Return two options of `solve` as booleans, if they go with the others.

    Parameters
    ----------
    given : dict
        Which other arguments are there, of "x0", "out", a named "algorithm" and a "device".
    """
    return_state, states = boolean(return_state, "return_state"), boolean(states, "states")
    name = "return_state" if state is None else "state"
    if state is not None:
        check_state(state, window)
        if given["x0"]:
            raise OptionError("doesn't go with x0, which a State holds already", "state", advice="pass one of them")
    if not states and not return_state:
        raise OptionError("=False leaves nothing to return", "states", advice="pass return_state=True as well")
    if not states and given["out"]:
        raise OptionError("=False writes no states", "states", advice="leave out away")
    if state is None and not return_state:
        return return_state, states
    if reverse:
        raise OptionError(
            "doesn't go with reverse, whose steps come from the end", name, advice="flip a and u, if that is meant"
        )
    if given["algorithm"]:
        raise OptionError("goes with the engine only", name, advice="leave algorithm out")
    if given["device"]:
        raise OptionError("is for arrays on the host as yet", name, advice="copy them there, or pass x0 with Full()")
    return return_state, states


def solve_on(
    run: Run, a: Array, u: Array, x: Array | None, x0: Array | None, state: State | None, axis: int, window: Window
) -> State:
    """Solve from a State, or an initial state, into `x` if there is one; return the State after the last step.

    Parameters
    ----------
    run : callable
        Solves without States.
    a, u, x : ndarray
        Coefficients, inputs and states, of one number type, with time on `axis`; `x` may be `u`.
    """
    shape = np.broadcast_shapes(a.shape, u.shape)
    a, u = (np.moveaxis(np.broadcast_to(array, shape), axis, 0) for array in (a, u))
    if state is None:
        state = first_state(window, u.shape[1:], u.dtype, x0)
    check_fits(state, u.dtype, u.shape[1:])
    return solve_from(run, a, u, None if x is None else np.moveaxis(x, axis, 0), state)


def solve_from(run: Run, a: Array, u: Array, x: Array | None, start: State) -> State:
    """Solve from a State into `x`, if there is one, and return the State after the last step."""
    n = len(u)
    if n == 0:
        return start
    if not is_uniform(start):
        return _solve_groups(run, a, u, x, start)
    block, terms = normal_form(start.window)
    if block == WHOLE:
        return _solve_whole(run, a, u, x, start)
    left = block - start.phase
    reach = left + terms * block
    if n <= reach:
        head, end = _advance(run, a, u, start)
    else:
        if x is not None and start.phase:
            head, _ = _advance(run, a[:reach], u[:reach], start)
        first = left + ((n - 1 - left) // block - terms) * block
        empty = first_state(start.window, start.shape, start.dtype, None)
        _, end = _advance(run, a[first:], u[first:], empty)
    if x is not None and start.phase == 0:
        run(a, u, x, initial_state_of(start), start.window)
    elif x is not None:
        if n > reach:
            run(a[left:], u[left:], x[left:], None, start.window)
        with np.errstate(all="ignore"):
            x[:reach] = head
    return end


def _solve_groups(run: Run, a: Array, u: Array, x: Array | None, start: State) -> State:
    ends = []
    for rows, state in groups(start):
        at: Any = (slice(None), *rows)
        states = None if x is None else np.empty((len(u), *state.shape), x.dtype)
        ends.append((rows, solve_from(run, a[at], u[at], states, state)))
        if x is not None:
            x[at] = states
    return joined(start.shape, ends)


def _solve_whole(run: Run, a: Array, u: Array, x: Array | None, start: State) -> State:
    """Solve where nothing is dropped: the last state continues, in the type that it is computed in."""
    kept = accumulator(start.dtype)
    if x is not None and x.dtype == kept:
        run(a, u, x, initial_state_of(start), Full())
        return State(start.window, x[-1:], dtype=start.dtype)
    carried = LastState(lambda a, u, x0: _solved(run, a, u, x0), initial_state_of(start))
    steps = max(1, PIECE * len(u) // max(1, u.size))
    for first in range(0, len(u), steps):
        piece = slice(first, first + steps)
        states = carried.solve(a[piece].astype(kept), u[piece].astype(kept))
        if x is not None:
            with np.errstate(all="ignore"):
                x[piece] = states
    return State(start.window, np.asarray(carried.state)[None], dtype=start.dtype)


def _solved(run: Run, a: Array, u: Array, x0: Array | None, window: Window = Full()) -> Array:
    x = np.empty(u.shape, u.dtype)
    run(a, u, x, x0, window)
    return x


def _advance(run: Run, a: Array, u: Array, start: State) -> tuple[Array, State]:
    """Return all states and the State after them, in the type that they are computed in."""
    a, u = (array.astype(start.parts.dtype) for array in (a, u))
    return (_advance_steps if holds_steps(start.window) else _advance_blocks)(run, a, u, start)


def _advance_steps(run: Run, a: Array, u: Array, start: State) -> tuple[Array, State]:
    known = len(start.parts) if start.phase else 0
    u = folded(a, u, None if start.phase else initial_state_of(start))
    a, u = (np.concatenate([start.parts[:known, i][::-1], new]) for i, new in enumerate((a, u)))
    _, terms = normal_form(start.window)
    recent = np.stack([a[::-1][: terms + 1], u[::-1][: terms + 1]], axis=1)
    return _solved(run, a, u, None, start.window)[known:], State(start.window, recent, 1, dtype=start.dtype)


def _advance_blocks(run: Run, a: Array, u: Array, start: State) -> tuple[Array, State]:
    block, terms = normal_form(start.window)
    parts, phase = start.parts, start.phase
    states = [u[:0]]
    first = 0
    while first < len(u):
        starts = not len(parts) or phase == block
        phase = 0 if starts else phase
        newest, older = (None, parts[:terms]) if starts else (parts[0], parts[1:])
        piece = slice(first, first + block - phase)
        x = _solved(run, a[piece], u[piece], newest)
        parts = x[-1:]
        if len(older):
            own = np.broadcast_to(a[piece][:, None], (len(x), *older.shape))
            faded = _solved(run, own, np.broadcast_to(np.zeros((), u.dtype), own.shape), older)
            parts = np.concatenate([parts, faded[-1]])
            with np.errstate(all="ignore"):
                x = x + faded.sum(axis=1)
        states.append(x)
        first, phase = first + len(x), phase + len(x)
    return np.concatenate(states), State(start.window, parts, phase, dtype=start.dtype)
