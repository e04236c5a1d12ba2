"""`State`: all that a recurrence needs to continue after any step, in any window.

A jagged window needs one accumulator for each block that it still sees. The accumulator is what the inputs of that
block contribute to the last state. At the start of a block the accumulators move up by one, and the oldest is dropped.
No product of coefficients is kept. The whole recurrence has one accumulator, which never moves. A uniform window drops
an input at every step, so it keeps the last steps themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recfact.array_functions import beside, in_type, is_cupy, namespace
from recfact.arrays import SCALARS, Array, as_operands, library_of, result_dtype, to_torch
from recfact.containers import CONTAINERS, unwrapped
from recfact.errors import DTypeError, OptionError, OptionTypeError, RecfactError, ShapeError, shown
from recfact.state_parts import (
    WHOLE,
    check_fits,
    checked_parts,
    counts,
    frozen,
    holds_steps,
    initial_place,
    listed,
    normal_form,
)
from recfact.windows import Window, check_window, window_of, window_text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """All that a recurrence needs to continue exactly after its last step, in any window.

    `solve` returns it (``return_state=True``) and takes it (``state=``). `step` computes one more step. A State never
    changes: each step gives a new one.

    Parameters
    ----------
    window : Full, Uniform, Jagged or str
        What is kept of the transfer operator.
    parts : array_like, shape (k, ...) or (k, 2, ...)
        What is kept of the past, the newest first. CuPy arrays stay on their GPU. The last axes are those of one step.
        For `Jagged`, ``parts[p]`` is what the inputs of the p-th block before this one contribute to the last state.
        `Full` has one such block. For `Uniform` and blocks of 1, ``parts[p]`` is the coefficient and the input of the
        p-th step before the last.
    phase : int or array of int, default 0
        Number of steps taken in the open block, from 0 to its length. 0 means before the first step: ``parts[0]`` then
        holds the initial state if there is one. It is always 0 for the whole recurrence.
    held : int or array of int, optional
        Number of `parts` that are used, if it differs from row to row. By default all are.
    dtype : dtype, optional
        Number type of the states, by default that of `parts`. The parts of float16 and bfloat16 are float32.

    Attributes
    ----------
    shape : tuple of int
        The shape of one step.
    last : array
        The last state as an array of `dtype` and of the library of `parts`. Before the first step it is the initial
        state, or 0.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or numbers are out of range.
    DTypeError, OptionTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or an argument is of another type.

    Notes
    -----
    ``state[index]`` is the State of some rows, where the index is one into the axes of a step. Iteration goes through
    the first axis. States can be pickled and copied. A window that reaches further than 2^40 steps keeps what the whole
    recurrence keeps. Nothing else is needed, as the page on the state proves.

    Examples
    --------
    >>> import numpy as np, recfact as rf
    >>> a, u = np.full(9, 0.5), np.arange(9.0)
    >>> x, state = rf.solve(a[:7], u[:7], window=rf.Jagged(4), return_state=True)
    >>> state
    State(Jagged(4), shape=(), phase=3, dtype=float64)
    >>> x_7, state = state.step(a[7], u[7])
    >>> rest = rf.solve(a[8:], u[8:], window=rf.Jagged(4), state=state)
    >>> np.array_equal([*x, x_7, *rest], rf.solve(a, u, window=rf.Jagged(4)))
    True
    """

    window: Window
    parts: Array
    phase: Any = 0
    held: Any = None
    dtype: Any = None

    def __post_init__(self) -> None:
        window = check_window(self.window)
        parts, dtype = checked_parts(window, self.parts, self.dtype)
        shape, block = parts.shape[1 + holds_steps(window) :], normal_form(window)[0]
        phase = counts(self.phase, "phase", shape, 0 if block == WHOLE else block)
        held = counts(len(parts) if self.held is None else self.held, "held", shape, len(parts))
        if np.any(np.where(np.equal(phase, 0), np.greater(held, 1), np.equal(held, 0))):
            raise OptionError(
                "must be 0 or 1 where phase is 0, before the first step, and at least 1 elsewhere", "held", given=held
            )
        own = {"window": window, "parts": frozen(parts[: np.max(held, initial=0)]), "phase": phase, "held": held}
        for name, value in {**own, "dtype": dtype}.items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one step."""
        return tuple(self.parts.shape[1 + holds_steps(self.window) :])

    @property
    def last(self) -> Any:
        """The last state."""
        with np.errstate(all="ignore"):
            return in_type(_last(self), self.dtype)[()]

    def step(self, a_t: Any, u_t: Any) -> tuple[Any, State]:
        """Compute the next step.

        Parameters
        ----------
        a_t, u_t : array_like
            Coefficient and input. They broadcast to the shape of one step and have the number type of the states.

        Returns
        -------
        x_t : array
            The new state, as an array of the library of `u_t`, or of `a_t` if `u_t` is plain.
        state : State
            The State after this step.

        Raises
        ------
        ShapeError, DTypeError, ArrayTypeError
            If an array doesn't fit, as for `solve`.
        """
        if is_cupy(self.parts):
            return self._step_on_gpu(a_t, u_t)
        libraries = {library_of(a_t), library_of(u_t)}
        wrap: Callable[[Array], Any] = to_torch if "torch" in libraries else _plain
        if not libraries.isdisjoint(CONTAINERS):
            a_t, u_t, _, _, wrap = unwrapped(libraries, a_t, u_t, None, 0, None)
        a, u, dtype = as_operands(a_t, u_t)
        if type(a_t) in SCALARS and type(u_t) in SCALARS and np.can_cast(dtype.kind, self.dtype, "same_kind"):
            dtype = self.dtype  # numbers of Python take the type of what they meet
        shape = self.shape
        check_fits(self, dtype, shape)
        try:
            a, u = (np.broadcast_to(array, shape).astype(self.parts.dtype) for array in (a, u))
        except ValueError:
            raise ShapeError(
                f"a_t and u_t must broadcast to one step of the State, of shape {shape}, got shapes {a.shape} and "
                f"{u.shape}"
            ) from None
        try:
            state = _after(self, a, u)
            return wrap(np.asarray(state.last)), state
        except TypeError as error:  # Decimals beside floats
            if dtype.kind != "O" or isinstance(error, RecfactError):
                raise
            raise DTypeError(f"a_t and u_t must multiply and add with the State's numbers: {error}") from error

    def _step_on_gpu(self, a_t: Any, u_t: Any) -> tuple[Any, State]:
        for name, value in (("a_t", a_t), ("u_t", u_t)):
            if not is_cupy(value) and type(value) not in SCALARS:
                raise OptionTypeError(
                    "must be a number or a CuPy array, as the parts of the State are", name, given=value
                )
        plain = type(a_t) in SCALARS and type(u_t) in SCALARS
        check_fits(self, self.dtype if plain else result_dtype(a_t, u_t), self.shape)
        xp, kept = namespace(self.parts), self.parts.dtype
        arrays = (in_type(value, kept) if is_cupy(value) else xp.asarray(value, kept) for value in (a_t, u_t))
        try:
            a, u = (np.broadcast_to(array, self.shape) for array in arrays)
        except ValueError:
            raise ShapeError(
                f"a_t and u_t must broadcast to one step of the State, of shape {self.shape}, got shapes "
                f"{getattr(a_t, 'shape', ())} and {getattr(u_t, 'shape', ())}"
            ) from None
        state = _after(self, a, u)
        return state.last, state

    def __getitem__(self, index: Any) -> State:
        try:
            places = np.arange(np.prod(self.shape, dtype=int)).reshape(self.shape)[index]
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise ShapeError(
                f"a State must be indexed like an array of its shape, {self.shape}, got {shown(index)} ({error})"
            ) from None
        lead = self.parts.shape[: 1 + holds_steps(self.window)]
        parts = self.parts.reshape(*lead, int(np.prod(self.shape, dtype=int)))[..., beside(self.parts, places)]
        phase, held = (np.broadcast_to(value, self.shape).reshape(-1)[places] for value in (self.phase, self.held))
        return State(self.window, parts, phase, held, self.dtype)

    def __iter__(self) -> Iterator[State]:
        if not self.shape:
            raise ShapeError("a State of one sequence has no rows to go through; stack it with others")
        return (self[row] for row in range(self.shape[0]))

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
        rows = listed(states, State)
        return joined((len(rows), *rows[0].shape), [((i,), state) for i, state in enumerate(rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return the State as texts, numbers and NumPy arrays. `from_dict` takes them, and ``numpy.savez`` saves them.

        Returns
        -------
        dict
            ``window`` as a text such as "jagged:16", the name of the ``dtype``, and ``parts``, ``phase`` and ``held``.
        """
        parts: Any = self.parts
        return {
            "window": window_text(self.window),
            "dtype": self.dtype.name,
            "parts": parts.get() if is_cupy(parts) else parts.copy(),
            "phase": self.phase,
            "held": self.held,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> State:
        """Return the State that `to_dict` wrote down.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned, or what ``numpy.load`` reads from a file of it.

        Raises
        ------
        OptionTypeError, OptionError, ShapeError, DTypeError
            If it isn't a mapping, if something is missing, or if the values don't fit together.
        """
        if not isinstance(data, Mapping):
            raise OptionTypeError("must be a mapping, as to_dict returns it", "data", given=data)
        names = ("window", "parts", "phase", "held", "dtype")
        missing = [name for name in names if name not in data]
        if missing:
            raise OptionError(f"must have the keys of to_dict, and lacks {', '.join(missing)}", "data")
        window, parts, phase, held, dtype = (data[name] for name in names)
        return State(window_of(str(window)), parts, phase, held, str(dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return State, (self.window, self.parts, self.phase, self.held, self.dtype.name)

    def __repr__(self) -> str:
        phase = self.phase if isinstance(self.phase, int) else f"{self.phase.min()} to {self.phase.max()}"
        return f"State({self.window}, shape={self.shape}, phase={phase}, dtype={self.dtype.name})"


def made(window: Window, parts: Array, phase: Any, held: Any, dtype: np.dtype[Any]) -> State:
    """Return a State without checks; the caller has checked the values and keeps no other reference to the parts."""
    if type(parts) is np.ndarray:
        parts.flags.writeable = False
    state = object.__new__(State)
    for name, value in (("window", window), ("parts", parts), ("phase", phase), ("held", held), ("dtype", dtype)):
        object.__setattr__(state, name, value)
    return state


def turned(state: State, turn: Callable[[Array, int], Array]) -> State:
    """Return a State with its axes rearranged by `turn`, which takes an array and the first axis of a step in it."""
    phase, held = (count if isinstance(count, int) else turn(count, 0) for count in (state.phase, state.held))
    return made(state.window, turn(state.parts, 1 + holds_steps(state.window)), phase, held, state.dtype)


def initial_state_of(state: State) -> Array | None:
    """Return the initial state that a State before the first step holds."""
    if not state.held:
        return None
    held: Array = _array_like(state.parts[initial_place(state.window)], state.parts)
    return held


def is_uniform(state: State) -> bool:
    """Say whether all rows are at the same step of a block and hold the same number of parts."""
    return isinstance(state.phase, int) and isinstance(state.held, int)


def groups(state: State) -> Iterator[tuple[tuple[Array, ...], State]]:
    """Yield the places of rows that are at the same step of a block, and the State of these rows."""
    for rows, part in alike(turned(state, np.expand_dims)):
        yield rows, part[0]


def alike(state: State) -> Iterator[tuple[tuple[Array, ...], State]]:
    """Yield places on all axes but the first whose rows are at the same steps, and the State of these rows.

    The place is () if all rows are.
    """
    if is_uniform(state):
        yield (), state
        return
    counts = [np.broadcast_to(count, state.shape).reshape(state.shape[0], -1) for count in (state.phase, state.held)]
    if not any((count != count[:, :1]).any() for count in counts):
        yield (), state
        return
    patterns, numbers = np.unique(np.concatenate(counts), axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        places = np.nonzero(numbers.reshape(state.shape[1:]) == number)
        yield places, state[(slice(None), *places)]


def joined(shape: tuple[int, ...], pieces: list[tuple[tuple[Any, ...], State]]) -> State:
    """Return the State of an array of rows of some shape, from the places and the States of its rows."""
    like = pieces[0][1]
    steps = holds_steps(like.window)
    parts = namespace(like.parts).zeros(
        (max(len(state.parts) for _, state in pieces), *(2,) * steps, *shape), like.parts.dtype
    )
    phase, held = np.zeros(shape, int), np.zeros(shape, int)
    for rows, state in pieces:
        own = (beside(parts, row) if isinstance(row, np.ndarray) else row for row in rows)
        parts[(slice(len(state.parts)), *(slice(None),) * steps, *own)] = state.parts
        phase[rows], held[rows] = state.phase, state.held
    return State(like.window, parts, phase, held, like.dtype)


def _after(state: State, a: Array, u: Array) -> State:
    """Return the State after a step of the shape and the type of its parts."""
    if not is_uniform(state):
        return joined(state.shape, [(rows, _after(group, *_taken(a, u, rows))) for rows, group in groups(state)])
    block, terms = normal_form(state.window)
    starts = not state.held or state.phase == block
    with np.errstate(all="ignore"):
        if block == 1:
            older = state.parts[: terms if state.phase else 0]
            x0 = None if state.phase else initial_state_of(state)
            newest = np.stack([a, u if x0 is None else _array_like(a * x0[()] + u, u)])
        elif starts:  # the coefficient of a first step isn't read, and may be NaN
            newest, older = u, a * state.parts[:terms]
        else:
            newest, older = a * state.parts[0] + u, a * state.parts[1:]
    phase = 0 if block == WHOLE else 1 if starts or block == 1 else state.phase + 1
    parts = namespace(a).concatenate([_array_like(newest, a)[None], older])
    return made(state.window, parts, phase, len(parts), state.dtype)


def _last(state: State) -> Any:
    """Return the last state in the type of the parts."""
    parts, xp = state.parts, namespace(state.parts)
    if not is_uniform(state):
        x = xp.empty(state.shape, parts.dtype)
        for rows, group in groups(state):
            x[tuple(beside(x, row) for row in rows)] = _last(group)
        return x
    if not state.held:
        return xp.zeros(state.shape, parts.dtype)
    if holds_steps(state.window):
        x = parts[-1, 1]
        for a, u in parts[-2::-1]:
            x = a * x + u
        return _array_like(x, parts)
    return _array_like(parts.sum(axis=0), parts)


def _array_like(values: Any, like: Any) -> Any:
    """Return numbers as an array of the library and the number type of another one."""
    return namespace(like).asarray(values, like.dtype)


def _taken(a: Any, u: Any, rows: tuple[Array, ...]) -> Iterator[Any]:
    return (array[tuple(beside(array, row) for row in rows)] for array in (a, u))


def _plain(array: Array) -> Any:
    return array[()]
