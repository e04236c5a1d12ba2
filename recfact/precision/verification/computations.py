"""The computations of a verification and the bounds of their rounding errors: algorithms, and the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, as_operands
from recfact.checks import choice
from recfact.errors import DTypeError, OptionError
from recfact.number_types import REALS, accumulator
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import forward_bounds
from recfact.precision.counts import engine_bounds
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_reals
from recfact.precision.run import ALGORITHMS, Task
from recfact.precision.sequences import Pieces
from recfact.solve import solve
from recfact.windows import Window, WindowLike, check_window

COMPUTATIONS = (*ALGORITHMS, "engine")
"""The algorithms of `rounded_solve`; and "engine", what `recfact.solve` computes."""

ENGINE = {FORMATS[name]: kind.dtype for name, kind in REALS.items()}
"""The number types of the engine by their formats."""


@dataclass(frozen=True, slots=True)
class EngineTask:
    """A computation of `recfact.solve` in a format, as `Task` is one of an algorithm.

    Parameters
    ----------
    arithmetic : Arithmetic
        A plain arithmetic in a format of the engine. Its `fma` doesn't matter, because the engine always fuses.
    window : Full, Uniform or Jagged
        What is kept.
    """

    arithmetic: Arithmetic
    window: Window

    def __post_init__(self) -> None:
        fmt, options = self.arithmetic.format, self.arithmetic.options
        if fmt not in ENGINE:
            required = f"must be one that the engine computes in, {', '.join(map(str, ENGINE))}"
            raise OptionError(required, "format", given=fmt.name, advice="pass one of them, or another algorithm")
        for name in options.keys() - {"fma"}:
            raise OptionError(
                "can't be chosen for the engine, which rounds to nearest even, with gradual underflow, and accumulates "
                "halves in binary32",
                name,
                given=str(options[name]),
                advice="leave it out, or pass another algorithm",
            )

    def states(self, pieces: Pieces) -> Array:
        """Return the states along axis 0. Each sequence is solved by itself, so that it can be run again alone."""
        found = []
        for a, u, x0 in pieces:
            x = np.empty(u.shape)
            for channel in np.ndindex(u.shape[1:]):
                at = (slice(None), *channel)
                x[at] = self.solve(a[at], u[at], x0=None if x0 is None else x0[channel])
            found.append(x)
        return np.concatenate(found)

    def solve(self, a: Any, u: Any, **options: Any) -> Array:
        """Return the states that `recfact.solve` computes from a caller's arrays, as they are and along their own axis.

        If it wouldn't compute in the format, the arrays are first rounded to it. The axes of the rounded arrays lie in
        memory in the same order.
        """
        fmt = self.arithmetic.format
        if not _computes_in(fmt, a, u):
            a, u = _rounded(a, "a", fmt), _rounded(u, "u", fmt)
        return as_numpy(solve(a, u, window=self.window, **options), "x").astype(np.float64)


def task_of(algorithm: str, window: WindowLike, arithmetic: Arithmetic) -> Task | EngineTask:
    """Return the computation to run.

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't make that window or run in that arithmetic.
    """
    choice(algorithm, "algorithm", COMPUTATIONS)
    if algorithm == "engine":
        return EngineTask(arithmetic, check_window(window))
    return Task.of(arithmetic, algorithm, window)


def compute(task: Task | EngineTask, pieces: Pieces) -> tuple[Array, Array]:
    """Return computed states along axis 0, and which of them aren't finite or come from a hidden overflow.

    Infinities and NaN show by themselves. If a format saturates, or if a rounding is directed, the algorithm runs once
    more to find overflows.
    """
    x = task.states(pieces)
    lost = ~np.isfinite(x.astype(np.float64))
    how = task.arithmetic
    saturates = "saturate" in (how.format.overflow, how.accumulate.overflow)
    if isinstance(task, Task) and (saturates or how.rounding in ("toward-zero", "up", "down")):
        lost |= task.overflows(pieces)
    return x, np.asarray(lost)


def rounding_bound(task: Task | EngineTask, pieces: Pieces, several: bool = False) -> Array:
    """Return the bounds of the rounding errors of states. For the engine, `several` sequences are solved together."""
    if isinstance(task, Task):
        return forward_bounds(task, pieces)
    fmt = task.arithmetic.format
    return np.concatenate([engine_bounds(*piece, fmt, task.window, several) for piece in pieces])


def accumulator_of(fmt: FloatFormat) -> FloatFormat:
    """Return the format in which the engine computes states of a format."""
    return format_of(accumulator(ENGINE[fmt])) if fmt in ENGINE else fmt


def _computes_in(fmt: FloatFormat, a: Any, u: Any) -> bool:
    """Return whether `recfact.solve` computes in a format if it is given these arrays."""
    try:
        return bool(as_operands(a, u)[2] == ENGINE[fmt])
    except DTypeError:  # it doesn't take some numbers that the format may hold
        return False


def _rounded(values: Any, name: str, fmt: FloatFormat) -> Array:
    rounded = np.empty_like(as_numpy(values, name), dtype=ENGINE[fmt])
    rounded[...] = np.asarray(fmt.round(as_reals(values, name))).astype(np.float64)
    return rounded
