"""Gradients through a solve that takes or returns a `State`. Arrays are NumPy's and have time on axis 0.

A sequence that continues a State is part of one longer sequence (`recfact.past.history`), so its derivatives are those
of the longer one. The whole recurrence, and a State before the first step, have an initial state instead of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.gradients.differentials import Solve, transposed_derivative
from recfact.past import Ending, history, input_places
from recfact.recurrence import folded
from recfact.state import State, groups, initial_state_of, is_uniform
from recfact.state_parts import WHOLE, holds_steps, initial_place, normal_form
from recfact.windows import Full, Window


def shape_after(state: State, cuts: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the parts of a State after the steps of its segments, which are the first axis of a step."""
    counts = (
        _count_after(len(group.parts), group.window, group.phase, end - start)
        for row, (start, end) in zip(state, pairwise(cuts), strict=True)
        for group in _uniform(row)
    )
    return max(counts, default=0), *state.parts.shape[1:]


def _count_after(parts: int, window: Window, phase: int, steps: int) -> int:
    """Return how many parts a State has, from how many it had some steps earlier."""
    block, terms = normal_form(window)
    if steps == 0:
        return parts
    if block == WHOLE:
        return 1
    taken = (parts - 1) * block + phase if phase else 0
    return min(terms + 1, -(-(taken + steps) // block))


def _uniform(state: State) -> list[State]:
    return [state] if is_uniform(state) else [group for _, group in groups(state)]


def through_segments(
    a: Array, u: Array, g: Array, state: State, g_state: Array | None, cuts: Sequence[int], solve: Solve
) -> tuple[Array, Array, Array]:
    """Return the gradients of coefficients, of inputs, and of the parts of a State.

    Parameters
    ----------
    a, u, g : ndarray, shape (n, ...)
        Coefficients, inputs and cotangents of the states, of one shape.
    state : State
        The State that the solve continued, with segments on the first axis of a step.
    g_state : ndarray, or None
        Cotangents of the parts of the State after the last step.
    cuts : sequence of int
        Where segments start, and where the last one ends.
    """
    da, du, d0 = np.zeros_like(a), np.zeros_like(u), np.zeros_like(state.parts)
    beside: Any = (slice(None),) * (1 + holds_steps(state.window))
    for segment, (start, end) in enumerate(pairwise(cuts)):
        own = None if g_state is None else g_state[(*beside, segment)]
        steps = slice(start, end)
        da[steps], du[steps], parts = _through_rows(a[steps], u[steps], g[steps], state[segment], own, solve)
        d0[(slice(len(parts)), *beside[1:], segment)] = parts
    return da, du, d0


def _through_rows(
    a: Array, u: Array, g: Array, state: State, g_state: Array | None, solve: Solve
) -> tuple[Array, Array, Array]:
    if is_uniform(state):
        return _through(a, u, g, state, g_state, solve)
    da, du, d0 = np.zeros_like(a), np.zeros_like(u), np.zeros_like(state.parts)
    beside: Any = (slice(None),) * holds_steps(state.window)
    for rows, group in groups(state):
        at: Any = (slice(None), *rows)
        own = None if g_state is None else g_state[(slice(None), *beside, *rows)]
        da[at], du[at], parts = _through(a[at], u[at], g[at], group, own, solve)
        d0[(slice(len(parts)), *beside, *rows)] = parts
    return da, du, d0


def _through(
    a: Array, u: Array, g: Array, state: State, g_state: Array | None, solve: Solve
) -> tuple[Array, Array, Array]:
    window, phase, count = state.window, state.phase, len(state.parts)
    block, _ = normal_form(window)
    if len(u) == 0:
        return np.zeros_like(a), np.zeros_like(u), np.zeros_like(state.parts) if g_state is None else g_state[:count]
    x0 = None if phase else initial_state_of(state)
    u = folded(a, u, x0)
    known = 0
    if phase:
        past = history(state.parts, block, phase)
        known = len(past[1])
        own = np.broadcast_to(past[0], past[1].shape).astype(a.dtype)
        a, u = np.concatenate([own, a]), np.concatenate([past[1], u])
    g = np.concatenate([np.zeros_like(u[:known]), g])
    if g_state is not None and block == WHOLE:
        g[-1] = g[-1] + g_state[0]
    da, du, _ = transposed_derivative(a, u, g, None, None, window, False, solve)
    if g_state is not None and block != WHOLE:
        _add_ending(a, u, state, g_state, solve, da, du)
    if phase:
        return da[known:], du[known:], _history_gradient(da[:known], du[:known], count, window, phase)
    d0 = np.zeros_like(state.parts)
    if x0 is not None:
        d0[initial_place(window)] = a[0] * du[0]
        da[0] = da[0] + x0 * du[0]
    return da, du, d0


def _history_gradient(da: Array, du: Array, count: int, window: Window, phase: int) -> Array:
    """Return the gradient of the parts of a State, from the gradients of its history's coefficients and inputs."""
    block, _ = normal_form(window)
    if block == 1:
        return np.stack([da[::-1], du[::-1]], 1)
    return du[input_places(count, block, phase)]


def _add_ending(a: Array, u: Array, state: State, g_state: Array, solve: Solve, da: Array, du: Array) -> None:
    """Add the gradients of the parts of the State after the last step."""
    block, terms = normal_form(state.window)
    if block == 1:
        count = min(terms + 1, len(u))
        da[-count:] += g_state[:count, 0][::-1]
        du[-count:] += g_state[:count, 1][::-1]
        return
    end = Ending(a, u, block, terms)
    g = np.zeros_like(end.u)
    g[-1] = g_state[: g.shape[1]]
    own_a, own_u, _ = transposed_derivative(end.a, end.u, g, None, None, Full(), False, solve)
    da[end.first :] += np.where(end.follows, own_a, 0).sum(1)
    du[end.first :] += np.where(end.within, own_u, 0).sum(1)
