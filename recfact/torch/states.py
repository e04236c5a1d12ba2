"""`State` with tensors, through which gradients pass from one piece of a sequence to the piece before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

import recfact.state
from recfact.arrays import broadcast_shape
from recfact.errors import DTypeError, OptionTypeError, ShapeError
from recfact.past import Ending, history
from recfact.recurrence import first_kept
from recfact.state_parts import WHOLE, check_fits, check_state, holds_steps, initial_place, listed, normal_form
from recfact.torch.operators import computed_type, recurrence
from recfact.windows import Full, Window, check_window


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """All that a recurrence needs to continue exactly after its last step: `recfact.State` with tensors and gradients.

    `recfact.torch.solve` returns it and takes it. `step` computes one more step. A State never changes: each step gives
    a new one. Its parts may be tensors that require gradients, or results of other operations.

    Parameters
    ----------
    window, parts, phase
        As for `recfact.State`. `parts` is a tensor. `phase` is an integer. For rows at different steps it is a tensor
        of integers that broadcasts to one step.
    dtype : torch.dtype, optional
        Number type of the states, by default that of `parts`. The parts of float16 and bfloat16 are float32.

    Attributes
    ----------
    shape : torch.Size
        The shape of one step.
    last : tensor
        The last state. Before the first step it is the initial state, or 0.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or if numbers are out of range.
    DTypeError, OptionTypeError
        (TypeErrors) If an argument has a wrong type.

    Notes
    -----
    Rows with fewer parts than others have zeros instead, which change nothing. The page on gradients shows truncated
    backpropagation through time.

    Examples
    --------
    >>> import torch, recfact as rf
    >>> u = torch.ones(6, requires_grad=True)
    >>> x, state = rf.torch.solve(0.5, u[:4], window="jagged:2", return_state=True)
    >>> state
    State(Jagged(2), shape=(), phase=2, dtype=torch.float32)
    >>> rf.torch.solve(0.5, u[4:], window="jagged:2", state=state).sum().backward()
    >>> u.grad
    tensor([0.0000, 0.0000, 0.3750, 0.7500, 1.5000, 1.0000])
    """

    window: Window
    parts: Tensor
    phase: Any = 0
    dtype: Any = None

    def __post_init__(self) -> None:
        window = check_window(self.window)
        parts = self.parts
        if not isinstance(parts, Tensor):
            raise OptionTypeError("must be a tensor", "parts", given=parts, advice="use recfact.State for other arrays")
        dtype = parts.dtype if self.dtype is None else self.dtype
        if parts.dtype != computed_type(dtype):
            raise DTypeError(f"must be {computed_type(dtype)} for states of {dtype}, got {parts.dtype}", "parts")
        most, steps = normal_form(window)[1] + 1, holds_steps(window)
        if parts.ndim < 1 + steps or (steps and parts.shape[1] != 2) or len(parts) > most:
            form = "(k, 2, ...)" if steps else "(k, ...)"
            raise ShapeError(f"must have shape {form} with k at most {most}, got {tuple(parts.shape)}", "parts")
        for name, value in {"window": window, "dtype": dtype}.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> torch.Size:
        """The shape of one step."""
        return self.parts.shape[1 + holds_steps(self.window) :]

    @property
    def last(self) -> Tensor:
        """The last state."""
        if not len(self.parts):
            return self.parts.new_zeros(self.shape, dtype=self.dtype)
        if holds_steps(self.window):
            a, u = self.parts.flip(0).unbind(1)
            return recurrence(a, u, None, None, -a.ndim, False, Full())[-1].to(self.dtype)
        return self.parts.sum(0).to(self.dtype)

    def step(self, a_t: Any, u_t: Any) -> tuple[Tensor, State]:
        """Compute the next step, as `recfact.State.step` does.

        Parameters
        ----------
        a_t, u_t : tensor or number
            Coefficient and input. They broadcast to the shape of one step.

        Returns
        -------
        x_t : tensor
            The new state.
        state : State
            The State after this step.

        Raises
        ------
        ShapeError
            If an array doesn't fit.
        """
        try:
            a, u = (
                torch.as_tensor(value, dtype=self.parts.dtype, device=self.parts.device).expand(self.shape)
                for value in (a_t, u_t)
            )
        except RuntimeError as error:
            raise ShapeError(f"a_t and u_t must broadcast to one step of the State, {error}") from error
        state = _after(self, a, u)
        return state.last, state

    def detach(self) -> State:
        """Return the State without its history, so that no gradients pass to earlier steps."""
        return replace(self, parts=self.parts.detach())

    def to(self, device: Any) -> State:
        """Return the State with its tensors on a device."""
        phase = self.phase.to(device) if isinstance(self.phase, Tensor) else self.phase
        return replace(self, parts=self.parts.to(device), phase=phase)

    def __getitem__(self, index: Any) -> State:
        """Return the State of some rows. The index is one into the axes of a step."""
        beside = (slice(None),) * (1 + holds_steps(self.window))
        index = index if isinstance(index, tuple) else (index,)
        phase = self.phase.expand(self.shape)[index] if isinstance(self.phase, Tensor) else self.phase
        return replace(self, parts=self.parts[(*beside, *index)], phase=phase)

    @staticmethod
    def stack(states: Iterable[State]) -> State:
        """Join States along a new first axis. They may be at different steps of a block.

        Parameters
        ----------
        states : iterable of State
            States of one window, shape and number type.

        Returns
        -------
        State
            The rows are the States, one after another.

        Raises
        ------
        ShapeError, OptionError, DTypeError, OptionTypeError
            If there are none, or they differ in window, shape or number type.
        """
        return _joined_along(listed(states, State), 0)

    @staticmethod
    def from_numpy(state: recfact.state.State, device: Any = None) -> State:
        """Return a State of `recfact` as one with tensors."""
        half = state.parts.dtype != state.dtype
        dtype = getattr(torch, state.dtype.name) if half else None
        phase = state.phase if isinstance(state.phase, int) else torch.tensor(state.phase, device=device)
        return State(state.window, torch.tensor(state.parts, device=device), phase, dtype)

    def to_numpy(self) -> recfact.state.State:
        """Return the State as one of `recfact`, without gradients."""
        parts, name = self.parts.detach().cpu(), str(self.dtype).removeprefix("torch.")
        phase = self.phase.cpu().numpy() if isinstance(self.phase, Tensor) else self.phase
        return recfact.state.State(self.window, parts.numpy(), phase, dtype=name)

    def __repr__(self) -> str:
        phase = self.phase
        if isinstance(phase, Tensor):
            phase = f"{int(phase.min())} to {int(phase.max())}" if phase.numel() else "none"
        return f"State({self.window}, shape={tuple(self.shape)}, phase={phase}, dtype={self.dtype})"


def _joined_along(rows: list[State], axis: int) -> State:
    """Return the State of rows along a new axis of one step."""
    most, lead = max(len(one.parts) for one in rows), 1 + holds_steps(rows[0].window)
    parts = torch.stack([_padded(one.parts, most) for one in rows], lead + axis)
    phases = [torch.as_tensor(one.phase, device=parts.device).expand(one.shape) for one in rows]
    return State(rows[0].window, parts, torch.stack(phases, axis), rows[0].dtype)


def _padded(parts: Tensor, most: int) -> Tensor:
    """Return parts with zeros for those that a row doesn't have."""
    return torch.cat([parts, parts.new_zeros(max(0, most - len(parts)), *parts.shape[1:])])


def _after(state: State, a: Tensor, u: Tensor) -> State:
    """Return the State after a step of the shape and the type of its parts."""
    block, terms = normal_form(state.window)
    parts, phase = state.parts, state.phase
    if block == 1:
        begins = phase == 0
        if isinstance(begins, Tensor):
            begins = begins.expand(state.shape)
            u = u + torch.where(begins, a * _padded(parts, 1)[0, 1], 0)
            older = torch.where(begins, 0, parts[:terms])
        else:
            u = u + a * parts[0, 1] if begins and len(parts) else u
            older = parts[: 0 if begins else terms]
        phase = torch.ones_like(phase) if isinstance(phase, Tensor) else 1
        return replace(state, parts=torch.cat([torch.stack([a, u])[None], older]), phase=phase)
    if isinstance(phase, Tensor):
        starts = (phase == block).expand(state.shape)
        moved = a * _padded(parts, terms + 1)
        newest, older = torch.where(starts, u, moved[0] + u), torch.where(starts, moved[:terms], moved[1:])
        phase = torch.where(phase == block, 1, phase + 1)
    elif not len(parts) or phase == block:  # the coefficient of a first step isn't read, and may be NaN
        newest, older, phase = u, a * parts[:terms], 1
    else:
        newest, older, phase = a * parts[0] + u, a * parts[1:], phase + 1
    return replace(state, parts=torch.cat([newest[None], older]), phase=0 if block == WHOLE else phase)


def solve_through(
    a: Tensor, u: Tensor, x0: Tensor | None, state: Any, offsets: Any, dim: int, window: Window
) -> tuple[Tensor, State]:
    """Solve from a State or an initial state, and return the State after the last step as well.

    With segments the State has an axis for them in the place of time.
    """
    dtype = torch.promote_types(a.dtype, u.dtype)
    shape = broadcast_shape(a, u)
    axis = len(shape) + dim
    step = (*shape[:axis], *([] if offsets is None else [len(offsets) - 1]), *shape[axis + 1 :])
    state = _first_state(window, step, x0, u, dtype) if state is None else checked_state(state, window, step, dtype, u)
    a, u = (one.to(computed_type(dtype)).reshape((1,) * (len(shape) - one.ndim) + one.shape) for one in (a, u))
    a, u = (one.expand(*one.shape[:axis], shape[axis], *one.shape[axis + 1 :]) for one in (a, u))
    x, end = _solve_any(a, u, state, dim) if offsets is None else _solve_each(a, u, state, offsets.tolist(), dim)
    return x.to(dtype), end


def _solve_each(a: Tensor, u: Tensor, state: State, offsets: list[int], dim: int) -> tuple[Tensor, State]:
    """Solve segments one after another, each from its row of a State."""
    axis = len(state.shape) + dim
    if len(offsets) == 1:
        return recurrence(a, u, None, None, dim, False, state.window), state
    pieces = []
    for segment, (start, end) in enumerate(pairwise(offsets)):
        own_a, own_u = (one.narrow(dim, start, end - start) for one in (a, u))
        pieces.append(_solve_any(own_a, own_u, state[(slice(None),) * axis + (segment,)], dim))
    return torch.cat([x for x, _ in pieces], dim), _joined_along([end for _, end in pieces], axis)


def _solve_any(a: Tensor, u: Tensor, state: State, dim: int) -> tuple[Tensor, State]:
    """Solve from a State, in the type of its parts."""
    return _solve_rows(a, u, state, dim) if isinstance(state.phase, Tensor) else _solve(a, u, state, dim)


def _first_state(window: Window, step: Any, x0: Tensor | None, u: Tensor, dtype: torch.dtype) -> State:
    steps = holds_steps(window)
    kind = computed_type(dtype)
    if x0 is None:
        return State(window, u.new_zeros((0, *(2,) * steps, *step), dtype=kind), 0, dtype)
    part = x0.to(kind).expand(step)
    return State(window, (torch.stack([torch.zeros_like(part), part]) if steps else part)[None], 0, dtype)


def checked_state(state: Any, window: Window, step: Any, dtype: torch.dtype, u: Tensor) -> State:
    """Return the argument of a caller as a State with tensors that fits what it continues."""
    if isinstance(state, recfact.state.State):
        state = State.from_numpy(state, u.device)
    check_state(state, State, window)
    check_fits(state, dtype, step)
    checked: State = state
    return checked


def _solve(a: Tensor, u: Tensor, state: State, dim: int) -> tuple[Tensor, State]:
    """Solve from a State whose rows are at one step, in the type of its parts."""
    window, parts, phase = state.window, state.parts, state.phase
    block, _ = normal_form(window)
    if u.shape[dim] == 0 or a.shape[dim] == 0:
        return recurrence(a, u, None, None, dim, False, window), state
    x0, known = None, 0
    if phase:
        past = [one.movedim(0, dim) for one in history(parts, block, phase)]
        known = past[1].shape[dim]
        a, u = (_joined(old, new, dim) for old, new in zip(past, (a, u), strict=True))
    elif len(parts):
        x0 = parts[initial_place(window)]
    x = recurrence(a, u, x0, None, dim, False, window)
    steps = x.shape[dim]
    if block == WHOLE:
        end = x.narrow(dim, steps - 1, 1).movedim(dim, 0)
    else:
        end = _ending(a, u, x0, state, x.shape, dim)
    phase = 0 if block == WHOLE else (steps - 1) % block + 1
    return x.narrow(dim, known, steps - known), State(window, end, phase, state.dtype)


def _joined(old: Tensor, new: Tensor, dim: int) -> Tensor:
    """Return two tensors one after the other. Their other axes broadcast against each other first."""
    beside = list(np.broadcast_shapes(old.select(dim, 0).shape, new.select(dim, 0).shape))
    place = len(beside) + 1 + dim
    return torch.cat([one.expand(*beside[:place], one.shape[dim], *beside[place:]) for one in (old, new)], dim)


def _ending(a: Tensor, u: Tensor, x0: Tensor | None, state: State, shape: torch.Size, dim: int) -> Tensor:
    """Return the parts of the State after the last step."""
    block, terms = normal_form(state.window)
    n = shape[dim]
    first = first_kept(n - 1, state.window)
    reach = n - first
    a, u = (one.narrow(dim, first, reach).movedim(dim, 0) for one in (a, u))
    if x0 is not None and first == 0:
        u = torch.cat([one.expand(-1, *state.shape) for one in (u[:1] + a[:1] * x0, u[1:])])
    whole = (reach, *state.shape)
    if block == 1:
        return torch.stack([a.expand(whole), u.expand(whole)], 1).flip(0)
    last = Ending(a, u.expand(whole), block, terms)
    return recurrence(last.a, last.u, None, None, -last.u.ndim, False, Full())[-1]


def _solve_rows(a: Tensor, u: Tensor, state: State, dim: int) -> tuple[Tensor, State]:
    """Solve from a State whose rows may be at different steps: those at one step together."""
    steps, phase = broadcast_shape(a, u)[dim], state.phase.expand(state.shape)
    values = phase.unique()
    if len(values) == 1:
        return _solve(a, u, replace(state, phase=int(values)), dim)
    a, u = (one.movedim(dim, 0).expand(steps, *state.shape) for one in (a, u))
    beside = (slice(None),) * (1 + holds_steps(state.window))
    groups = [phase == value for value in values]
    pieces = [
        _solve(a[:, rows], u[:, rows], replace(state, parts=state.parts[(*beside, rows)], phase=int(value)), -2)
        for rows, value in zip(groups, values, strict=True)
    ]
    x = u.new_zeros(u.shape)
    parts = u.new_zeros((max(len(end.parts) for _, end in pieces), *state.parts.shape[1:]))
    after = torch.zeros_like(phase)
    for rows, (own, end) in zip(groups, pieces, strict=True):
        x[:, rows] = own
        parts[(slice(len(end.parts)), *beside[1:], rows)] = end.parts
        after[rows] = end.phase
    return x.movedim(0, dim), replace(state, parts=parts, phase=after)
