"""Solvers for a sequence in pieces: they carry what each piece needs, so that the result is that of the whole.

Arrays have time on axis 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from recfact.arrays import Array
from recfact.windows import Full, Window, blocks_and_terms

# Solves coefficients, inputs and an initial state or None.
Run = Callable[[Array, Array, Array | None], Array]

# The same for steps of a longer sequence, from a time on.
RunFrom = Callable[[Array, Array, Array | None, int], Array]


class Solver(Protocol):
    """Solves pieces one after another."""

    def solve(self, a: Array, u: Array) -> Array:
        """Return the states of the next piece."""


class LastState:
    """Carries the last state, which is all that a plain loop needs.

    Parameters
    ----------
    run : callable
        The loop.
    x0 : ndarray or None
        The state before the first piece.
    """

    def __init__(self, run: Run, x0: Array | None) -> None:
        self.run = run
        self.state = x0

    def solve(self, a: Array, u: Array) -> Array:
        """Return the states of the next piece."""
        x = self.run(a, u, self.state)
        if len(x):
            self.state = np.array(x[-1], x.dtype)
        return x


class RecentSteps:
    """Carries as many of the last steps as a window needs, and solves them again with the next piece.

    Parameters
    ----------
    run : callable
        Solves the window. Its last argument is the time of the first step, a multiple of `period`.
    x0 : ndarray or None
        The state before the first piece.
    period, lead : int
        Every piece is solved from a multiple of `period` steps, `lead` periods before the one in which it starts. The
        order of the arithmetic depends on the position in a period, so it is that of the whole sequence.
    """

    def __init__(self, run: RunFrom, x0: Array | None, period: int, lead: int) -> None:
        self.run = run
        self.x0 = x0
        self.period, self.lead = period, lead
        self.start = 0
        self.recent: tuple[Array, Array] | None = None

    def solve(self, a: Array, u: Array) -> Array:
        """Return the states of the next piece."""
        known = 0
        if self.recent is not None:
            known = len(self.recent[1])
            a, u = (np.concatenate(pair) for pair in zip(self.recent, (a, u), strict=True))
        x = self.run(a, u, self.x0 if self.start == 0 else None, self.start)[known:]
        keep = max(0, ((self.start + len(u)) // self.period - self.lead) * self.period)
        self.recent = (a[keep - self.start :].copy(), u[keep - self.start :].copy())
        self.start = keep
        return x


def plain_solver(run: Run, window: Window, x0: Array | None) -> Solver:
    """Return the solver for loops that only depend on the blocks of a window."""

    def run_from(a: Array, u: Array, x0: Array | None, _: int) -> Array:
        return run(a, u, x0)

    if isinstance(window, Full):
        return LastState(run, x0)
    block, terms = blocks_and_terms(window)
    return RecentSteps(run_from, x0, block * (terms + 1), min(terms, 1))
