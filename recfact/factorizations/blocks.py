"""Blocks of a sequence, and the ways to solve the recurrence inside each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from recfact.algorithms import kogge_stone
from recfact.arrays import Array
from recfact.factorizations.materialize import materialize
from recfact.factorizations.scalars import beside
from recfact.recurrence import forward, transposed
from recfact.solve import solve


@dataclass(frozen=True, slots=True)
class Blocks:
    """The partition of n steps into blocks of `length` steps, the last of which may be shorter.

    A sequence is worked on as an array of shape (count, length, ...) with the last block filled up: coefficients by 1
    and inputs by 0, so that the state at the end of the last block is the state at the end of the sequence.
    """

    steps: int
    length: int

    @classmethod
    def of(cls, steps: int, length: int) -> "Blocks":
        """Return the partition; a block longer than the sequence is cut to it."""
        return cls(steps, max(1, min(length, steps)))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.steps // self.length)

    def split(self, x: Array, fill: int) -> Array:
        """Return `x` of shape (steps, ...) as (count, length, ...)."""
        missing = self.count * self.length - self.steps
        if missing:
            x = np.concatenate([x, np.full_like(x, fill, shape=(missing, *x.shape[1:]), order="C")])
        return x.reshape(self.count, self.length, *x.shape[1:])

    def join(self, x: Array) -> Array:
        """Return `x` of shape (count, length, ...) as (steps, ...)."""
        return x.reshape(self.count * self.length, *x.shape[2:])[: self.steps]

    def each(self, x: Array) -> tuple[Array, ...]:
        """Return the blocks of `x` of shape (count, length), the last one cut to its own length."""
        sizes = [min(self.length, self.steps - t * self.length) for t in range(self.count)]
        return tuple(row[:size] for row, size in zip(x, sizes, strict=True))


def align(a: Array, x: Array) -> Array:
    """Return `a` with axes of size 1 appended until it has as many axes as `x`."""
    return np.reshape(a, a.shape + (1,) * (x.ndim - a.ndim))


def _gemm(a: Array, u: Array) -> Array:
    columns = np.swapaxes(u, 0, 1)
    columns = np.reshape(columns, (*columns.shape[:2], prod(columns.shape[2:])))
    states = np.reshape(np.matmul(materialize(a.T), columns), (u.shape[1], u.shape[0], *u.shape[2:]))
    return np.swapaxes(states, 0, 1)


def _scan(a: Array, u: Array) -> Array:
    return kogge_stone(align(a, u), u)


def _sequential(a: Array, u: Array) -> Array:
    return forward(align(a, u), u)


SOLVERS: dict[str, Callable[[Array, Array], Array]] = {"gemm": _gemm, "scan": _scan, "sequential": _sequential}
"""Of coefficients of shape (l, b) and inputs of shape (l, b, ...), steps first."""


def solve_blocks(a: Array, u: Array, solver: str, reverse: bool = False) -> Array:
    """Solve the recurrence in every block from a zero state, in the arithmetic of the inputs.

    On a GPU the engine of `recfact.solve` does, all blocks at once, whatever `solver` says.

    Parameters
    ----------
    a : ndarray, shape (b, l)
        Coefficients; ``a[:, 0]`` is not read.
    u : ndarray, shape (b, l, ...)
        Inputs; a CuPy array if they are on a GPU.
    solver : {"gemm", "scan", "sequential"}
        Multiply by the materialized blocks, run the Kogge-Stone stages in all blocks at once, or run the loop.
    reverse : bool, default False
        Apply the transposes of the blocks.

    Returns
    -------
    ndarray, shape (b, l, ...)
        The states, where the inputs are.
    """
    if not isinstance(u, np.ndarray):
        states: Array = solve(beside(a, u), u, axis=1, reverse=reverse)
        return states
    run, steps_first = SOLVERS[solver], (a.T, np.swapaxes(u, 0, 1))
    return np.swapaxes(transposed(run, *steps_first) if reverse else run(*steps_first), 0, 1)
