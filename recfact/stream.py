"""`solve_chunks`: a sequence that arrives in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from recfact import algorithms
from recfact.arrays import Array, as_operands, broadcast_shape, check_axis, initial_state, library_of, to_torch
from recfact.checks import positive_integer
from recfact.containers import CONTAINERS, unwrapped
from recfact.cpu import limits
from recfact.errors import ArrayTypeError, ShapeError, shown
from recfact.number_types import NUMBER_TYPES, accumulator
from recfact.pieces import Solver, plain_solver
from recfact.windows import Full, Window, WindowLike, check_window


def solve_chunks(
    chunks: Iterable[tuple[Any, Any]],
    *,
    x0: Any = None,
    axis: int | str = -1,
    window: WindowLike = Full(),
    threads: int | None = None,
) -> Iterator[Any]:
    """Solve a recurrence whose coefficients and inputs come in pieces, in constant memory.

    Parameters
    ----------
    chunks : iterable of (a, u)
        Coefficients and inputs as for `solve`, in pieces of any lengths, one after another in time. All pieces must
        agree in everything except their length and their labels.
    x0 : array_like, optional
        State before the first piece, as for `solve`.
    axis : int or str, default -1
        The axis of time, as for `solve`.
    window : Full, Uniform, Jagged or str, default Full()
        What is kept. Blocks of a jagged window count from the start of the first piece.
    threads : int, optional
        As for `solve`.

    Yields
    ------
    array
        The states of each piece, in its type and with its labels, as for `solve`. If there are many sequences and time
        is the last axis, short pieces are held back until 512 steps have come, or 64 steps with a window. So are those
        of two or three channels behind the axis of time, in float32 or halves and without a window.

    Raises
    ------
    ShapeError, DTypeError, OptionError, ArrayTypeError
        As `solve`. Also if a piece doesn't fit the first one.

    Notes
    -----
    If all states are finite, the result has the same bits as one call of `solve` with all pieces joined (in C order),
    wherever they are cut. With infinities or NaN, the finite numbers are within the same bounds. The table on the page
    on the engine (docs/engine.md#the-same-bits) says what else may change. The memory holds the last few hundred steps,
    and as many more as the window is long.

    Equations 2.1 to 2.3 of the sliding window recurrences paper, as for `solve`; cuts are treated on the page on the
    engine.

    Examples
    --------
    >>> import recfact as rf
    >>> pieces = [([0.5, 0.5], [1.0, 1.0]), ([0.5], [1.0])]
    >>> list(rf.solve_chunks(pieces))
    [array([1. , 1.5]), array([1.75])]
    """
    window = check_window(window)
    if threads is not None:
        threads = positive_integer(threads, "threads")
    try:
        pieces = iter(chunks)
    except TypeError:
        raise ArrayTypeError(
            f"chunks must be an iterable of pairs (a, u), got {shown(chunks)}; pass a list of them"
        ) from None
    return _solve_chunks(pieces, x0, axis, window, threads)


def _solve_chunks(
    chunks: Iterator[tuple[Any, Any]], x0: Any, axis: int | str, window: Window, threads: int | None
) -> Iterator[Any]:
    stream: Stream | None = None
    for number, chunk in enumerate(chunks):
        try:
            given_a, given_u = chunk
        except (TypeError, ValueError):
            raise ShapeError(f"chunks must be pairs (a, u), got {type(chunk).__name__} as number {number}") from None
        libraries = {library_of(given_a), library_of(given_u)}
        state, along = x0 if stream is None else None, axis
        wrap: Wrap = to_torch if "torch" in libraries else np.asarray
        if not libraries.isdisjoint(CONTAINERS):
            given_a, given_u, state, along, wrap = unwrapped(libraries, given_a, given_u, state, axis, None)
        a, u, dtype = as_operands(given_a, given_u)
        shape = broadcast_shape(a, u)
        time = check_axis(along, len(shape))
        kind = (dtype, frozenset(libraries - {"numpy"}), time, shape[:time] + shape[time + 1 :])
        if stream is None:
            state = None if state is None else initial_state(state, kind[-1], dtype)
            stream = Stream(kind, state, window, threads)
        stream.check(kind, number)
        a, u = (np.moveaxis(np.broadcast_to(array, shape), time, 0) for array in (a, u))
        yield from stream.push(a, u, wrap)
    if stream is not None:
        yield from stream.release()


Wrap = Callable[[Array], Any]


class Stream:
    """The pieces of one recurrence: what they have in common, and the solver that remembers what came before."""

    def __init__(self, kind: tuple[Any, ...], x0: Array | None, window: Window, threads: int | None) -> None:
        self.kind = kind
        self.x0 = x0
        self.window = window
        self.threads = threads
        self.held: list[tuple[Array, Array, Wrap]] = []
        self.shared = False
        self.solver: Solver | None = None

    def check(self, kind: tuple[Any, ...], number: int) -> None:
        """Raise ShapeError if a piece isn't like the first one."""
        if kind != self.kind:
            raise ShapeError(
                "all chunks must have the number type, library and shape (but for their length) of the first, "
                f"{self.kind[0]} and {self.kind[3]} without time; chunk {number} has {kind[0]} and {kind[3]}"
            )

    def push(self, a: Array, u: Array, wrap: Wrap) -> Iterator[Any]:
        """Take a piece and the function that wraps its result, and yield the results that are ready."""
        dtype, _, time, shape = self.kind
        self.shared = self.shared or shares(a, time) or shares(u, time)
        # The halves are computed in float32, so that what passes from piece to piece isn't rounded.
        self.held.append((a.astype(accumulator(dtype)), u.astype(accumulator(dtype)), wrap))
        # With fewer steps, `solve` may take another path for sequences that it solves one by one, or a few together.
        whole, within = isinstance(self.window, Full), prod(shape[time:])
        together = whole and not self.shared and limits.is_narrow(within, accumulator(dtype).itemsize)
        steps = sum(len(u) for _, u, _ in self.held)
        enough = prod(shape) == 1 or (within > 1 and not together) or steps >= limits.least_steps(whole)
        if self.solver or enough:
            yield from self.release()

    def release(self) -> Iterator[Any]:
        """Yield the results of all pieces that are held back."""
        dtype, _, time, _ = self.kind
        pieces, self.held = self.held, []
        if self.solver is None:
            self.solver = self.choose(sum(len(u) for _, u, _ in pieces))
        for a, u, wrap in pieces:
            x = self.solver.solve(a, u)
            with np.errstate(over="ignore"):  # `solve` doesn't warn of halves either
                x = x.astype(dtype, copy=False)
            yield wrap(np.moveaxis(x, 0, time))

    def choose(self, steps: int) -> Solver:
        """Return the solver that follows the path of `solve` for so many steps."""
        dtype, _, time, shape = self.kind
        if accumulator(dtype) in NUMBER_TYPES:
            from recfact.cpu.piece_solvers import solver

            return solver(accumulator(dtype), self.window, self.threads, self.x0, shape, time, steps, self.shared)
        return plain_solver(partial(algorithms.run, "sequential", window=self.window), self.window, self.x0)


def shares(array: Array, time: int) -> bool:
    """Return whether steps, or channels within a step, share numbers, so that `solve` takes no tiles of a few channels.

    Time is on axis 0, and was on axis number `time`.
    """
    axes = [(array.shape[axis], array.strides[axis]) for axis in (0, *range(time + 1, array.ndim))]
    return any(length > 1 and step == 0 for length, step in axes)
