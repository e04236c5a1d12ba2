"""The ways to solve the recurrence inside each of the blocks of a sequence."""

from collections.abc import Callable
from math import prod

import numpy as np

from recfact.algorithms import kogge_stone
from recfact.arrays import Array
from recfact.factorizations.materialize import materialize
from recfact.factorizations.scalars import beside
from recfact.recurrence import forward, transposed
from recfact.solve import solve


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

    On a GPU the engine of `recfact.solve` solves all blocks at once, and `solver` doesn't matter.

    Parameters
    ----------
    a : ndarray, shape (b, l)
        Coefficients; ``a[:, 0]`` is not read.
    u : ndarray, shape (b, l, ...)
        Inputs. On a GPU they are a CuPy array.
    solver : {"gemm", "scan", "sequential"}
        "gemm" multiplies by the materialized blocks. "scan" runs the Kogge-Stone stages in all blocks at once.
        "sequential" runs the loop.
    reverse : bool, default False
        Whether to apply the transposes of the blocks.

    Returns
    -------
    ndarray, shape (b, l, ...)
        The states, on the device of the inputs.
    """
    if not isinstance(u, np.ndarray):
        states: Array = solve(beside(a, u), u, axis=1, reverse=reverse)
        return states
    run, steps_first = SOLVERS[solver], (a.T, np.swapaxes(u, 0, 1))
    return np.swapaxes(transposed(run, *steps_first) if reverse else run(*steps_first), 0, 1)
