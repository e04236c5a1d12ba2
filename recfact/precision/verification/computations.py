"""What a verification runs, and what bounds its rounding errors: algorithms, the engine, and mixed precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, as_operands
from recfact.checks import boolean, choice
from recfact.errors import DTypeError, OptionError
from recfact.number_types import REALS, accumulator
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_reals
from recfact.precision.rounding_errors.counted_bounds import engine_bounds
from recfact.precision.rounding_errors.error_bounds import forward_bound
from recfact.precision.rounding_errors.mixed_precision import (
    mixed_precision_bound,
    mixed_precision_overflows,
    mixed_precision_solve,
)
from recfact.precision.rounding_errors.operands import ALGORITHMS
from recfact.precision.rounding_errors.rounded_algorithms import overflows, rounded_solve
from recfact.solve import solve
from recfact.windows import Window

COMPUTATIONS = (*ALGORITHMS, "engine", "mixed-precision")
"""The algorithms of `rounded_solve`; "engine", what `recfact.solve` computes; and "mixed-precision", what
`mixed_precision_solve` does with all casts, in binary32 if no other format is named."""

ENGINE = {FORMATS[name]: kind.dtype for name, kind in REALS.items()}
"""The number types of the engine by their formats."""


def compute(
    a: Array, u: Array, fmt: FloatFormat, algorithm: str, *, seed: Any = None, **options: Any
) -> tuple[Array, Array]:
    """Return computed states along axis 0, and which aren't finite or come from an overflow that doesn't show.

    Infinities and NaN show by themselves. Where a format saturates, or a rounding is directed, the algorithm runs once
    more to find out.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, numbers of the format.
    fmt : FloatFormat
        The format.
    algorithm : str
        One of `COMPUTATIONS`. The engine solves each sequence by itself, so that any of them can be run again alone.
    seed, **options
        As for `rounded_solve`.

    Returns
    -------
    x : ndarray of float64 or object, shape (n, ...)
    lost : ndarray of bool, shape (n, ...)

    Raises
    ------
    OptionError
        If there is no such algorithm, or it doesn't do what the options ask for.
    """
    choice(algorithm, "algorithm", COMPUTATIONS)
    if algorithm == "engine":
        x = np.empty(u.shape)
        for channel in np.ndindex(u.shape[1:]):
            at = (slice(None), *channel)
            x[at] = engine_states(a[at], u[at], fmt, **options)
        return x, ~np.isfinite(x)
    solving: Callable[..., Array] = rounded_solve
    finding: Callable[..., Array] = overflows
    if algorithm == "mixed-precision":
        solving, finding, options = mixed_precision_solve, mixed_precision_overflows, _in_wider(options)
    else:
        options["algorithm"] = algorithm
    x = solving(a, u, fmt, axis=0, seed=seed, **options)
    lost = ~np.isfinite(x.astype(np.float64))
    inside = fmt if options["accumulate"] is None else format_of(options["accumulate"])
    if "saturate" in (fmt.overflow, inside.overflow) or options["rounding"] in ("toward-zero", "up", "down"):
        lost |= finding(a, u, fmt, seed=seed, **options)
    return x, np.asarray(lost)


def rounding_bound(a: Array, u: Array, fmt: FloatFormat, algorithm: str, **options: Any) -> Array:
    """Return the bounds of the rounding errors of states that `compute` returns; parameters are as there."""
    if algorithm == "engine":
        return engine_bounds(a, u, None, fmt, options["window"], several=False)
    if algorithm == "mixed-precision":
        return mixed_precision_bound(a, u, fmt, axis=0, **_in_wider(options))
    return forward_bound(a, u, fmt, algorithm, axis=0, **options)


def _in_wider(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "accumulate": FORMATS["binary32"]} if options["accumulate"] is None else options


def engine_states(
    a: Any,
    u: Any,
    fmt: FloatFormat,
    *,
    window: Window,
    x0: Any = None,
    axis: int = -1,
    threads: int | None = None,
    accumulate: Any = None,
    fma: bool = False,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
) -> Array:
    """Return what `recfact.solve` computes of a caller's arrays, as they are and along their own axis.

    Parameters
    ----------
    a, u, x0 : array_like
        Coefficients, inputs and initial state. Where `recfact.solve` wouldn't compute in the format, they are rounded
        to it first, to arrays whose axes lie in memory in the same order.
    fmt : FloatFormat
        The format.
    window, axis, threads
        As for `recfact.solve`.
    accumulate, fma, rounding, underflow
        As for `rounded_solve`, at their defaults; but for `fma`, because the engine fuses in any case.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    OptionError
        If the engine doesn't compute in the format, or not with that arithmetic.
    """
    boolean(fma, "fma")
    if fmt not in ENGINE:
        required = f"must be one that the engine computes in, {', '.join(map(str, ENGINE))}"
        raise OptionError(required, "format", given=fmt.name, advice="pass one of them, or another algorithm")
    of_the_engine = {
        "accumulate": (accumulate, None),
        "rounding": (rounding, "nearest-even"),
        "underflow": (underflow, "gradual"),
    }
    for name, (given, own) in of_the_engine.items():
        if given != own:
            raise OptionError(
                "can't be chosen for the engine, which rounds to nearest even, with gradual underflow, and accumulates "
                "halves in binary32",
                name,
                given=given,
                advice="leave it out, or pass another algorithm",
            )
    if not _computes_in(fmt, a, u):
        a, u = _rounded(a, "a", fmt), _rounded(u, "u", fmt)
    return as_numpy(solve(a, u, x0=x0, axis=axis, window=window, threads=threads), "x").astype(np.float64)


def accumulator_of(fmt: FloatFormat) -> FloatFormat:
    """Return the format in which the engine computes states of a format."""
    return format_of(accumulator(ENGINE[fmt])) if fmt in ENGINE else fmt


def _computes_in(fmt: FloatFormat, a: Any, u: Any) -> bool:
    """Return whether `recfact.solve` computes in a format if it is given these arrays."""
    try:
        return bool(as_operands(a, u)[2] == ENGINE[fmt])
    except DTypeError:  # of numbers that it doesn't take, which the format may hold
        return False


def _rounded(values: Any, name: str, fmt: FloatFormat) -> Array:
    rounded = np.empty_like(as_numpy(values, name), dtype=ENGINE[fmt])
    rounded[...] = np.asarray(fmt.round(as_reals(values, name))).astype(np.float64)
    return rounded
