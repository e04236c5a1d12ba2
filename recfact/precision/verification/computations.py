"""What a verification runs, and what bounds its rounding errors: algorithms, the engine, and mixed precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import BFLOAT16, Array
from recfact.checks import choice
from recfact.errors import OptionError
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.rounding_errors.counted_bounds import engine_bound
from recfact.precision.rounding_errors.error_bounds import forward_bound
from recfact.precision.rounding_errors.mixed_precision import (
    mixed_precision_bound,
    mixed_precision_overflows,
    mixed_precision_solve,
)
from recfact.precision.rounding_errors.operands import ALGORITHMS
from recfact.precision.rounding_errors.rounded_algorithms import overflows, rounded_solve
from recfact.solve import solve

COMPUTATIONS = (*ALGORITHMS, "engine", "mixed-precision")
"""The algorithms of `rounded_solve`; "engine", what `recfact.solve` computes of a single sequence; and
"mixed-precision", what `mixed_precision_solve` does with all casts, in binary32 if no other format is named."""

ENGINE = {
    FORMATS["binary16"]: np.dtype(np.float16),
    FORMATS["bfloat16"]: BFLOAT16,
    FORMATS["binary32"]: np.dtype(np.float32),
    FORMATS["binary64"]: np.dtype(np.float64),
}
"""The formats of the engine's number types."""


def compute(
    a: Array, u: Array, fmt: FloatFormat, algorithm: str, *, seed: Any = None, **options: Any
) -> tuple[Array, Array]:
    """Return computed states, and which of them aren't finite or come from an overflow that doesn't show.

    Infinities and NaN show by themselves. Where a format saturates, or a rounding is directed, the algorithm runs once
    more to find out.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs, numbers of the format.
    fmt : FloatFormat
        The format.
    algorithm : str
        One of `COMPUTATIONS`.
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
        del options["fma"]  # it fuses in any case
        x = _run_engine(a, u, fmt, **options)
        return x, ~np.isfinite(x)
    solving: Callable[..., Array] = rounded_solve
    finding: Callable[..., Array] = overflows
    if algorithm == "mixed-precision":
        solving, finding, options = mixed_precision_solve, mixed_precision_overflows, _in_wider(options)
    else:
        options["algorithm"] = algorithm
    x = solving(a, u, fmt, seed=seed, **options)
    lost = ~np.isfinite(x.astype(np.float64))
    inside = fmt if options["accumulate"] is None else format_of(options["accumulate"])
    if "saturate" in (fmt.overflow, inside.overflow) or options["rounding"] in ("toward-zero", "up", "down"):
        lost |= finding(a, u, fmt, seed=seed, **options)
    return x, np.asarray(lost)


def rounding_bound(a: Array, u: Array, fmt: FloatFormat, algorithm: str, **options: Any) -> Array:
    """Return the bounds of the rounding errors of states that `compute` returns; parameters are as there."""
    if algorithm == "engine":
        return engine_bound(a, u, fmt, window=options["window"], x0=options.get("x0"))
    if algorithm == "mixed-precision":
        return mixed_precision_bound(a, u, fmt, **_in_wider(options))
    return forward_bound(a, u, fmt, algorithm, **options)


def _in_wider(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "accumulate": FORMATS["binary32"]} if options["accumulate"] is None else options


def _run_engine(
    a: Array,
    u: Array,
    fmt: FloatFormat,
    *,
    window: Any,
    accumulate: Any,
    rounding: str,
    underflow: str,
    x0: Any = None,
) -> Array:
    if fmt not in ENGINE:
        raise OptionError(
            f"the engine computes in {', '.join(map(str, ENGINE))}, got {fmt}; pass one of them, or another algorithm"
        )
    if accumulate is not None or (rounding, underflow) != ("nearest-even", "gradual"):
        raise OptionError(
            "the engine rounds to nearest even, with gradual underflow, and accumulates halves in binary32: leave out "
            "accumulate, rounding and underflow, or pass another algorithm"
        )
    a, u = (values.astype(ENGINE[fmt]) for values in (a, u))
    x = np.empty(u.shape)
    for channel in np.ndindex(u.shape[1:]):  # one by one: short sequences side by side would take another order
        at = (slice(None), *channel)
        x[at] = solve(a[at], u[at], window=window, x0=None if x0 is None else x0[channel])
    return x
