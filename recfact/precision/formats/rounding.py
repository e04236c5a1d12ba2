"""Rounding to a format: the options, and which arithmetic serves which kind of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, library_of, to_torch
from recfact.checks import choice, generator
from recfact.errors import DTypeError, OptionError
from recfact.precision.formats.array_rounding import round_array
from recfact.precision.formats.limits import FormatLimits
from recfact.precision.formats.rational_rounding import round_rational
from recfact.precision.reals import as_rational, as_reals

REPEATABLE = ("nearest-even", "nearest-away", "toward-zero", "up", "down")
ROUNDINGS = (*REPEATABLE, "stochastic")
UNDERFLOWS = ("gradual", "flush-before", "flush-after", "flush-result")
OVERFLOWS = ("infinity", "nan", "saturate")


def round_values(
    fmt: FormatLimits, values: Any, rounding: str, *, underflow: str, overflow: str | None, seed: Any
) -> Any:
    """Return `values` rounded to the format; see ``FloatFormat.round``."""
    choice(rounding, "rounding", ROUNDINGS)
    choice(underflow, "underflow", UNDERFLOWS)
    overflow = fmt.overflow if overflow is None else choice(overflow, "overflow", OVERFLOWS)
    if (overflow == "infinity" and not fmt.infinities) or (overflow == "nan" and not fmt.has_nan):
        raise OptionError(
            f"{fmt} has no {overflow}; overflow must be 'saturate', or None, which means {fmt.overflow!r} here"
        )
    if underflow != "gradual" and not fmt.zero:
        raise OptionError(f"must be 'gradual' in {fmt}, which has no zero to flush to", "underflow", given=underflow)
    options = (rounding, underflow, overflow, generator(seed) if rounding == "stochastic" else None)

    if type(values) is float:
        return float(round_array(fmt, np.array([values]), *options)[0])
    reals = as_reals(values, "values")
    if reals.dtype.kind != "O":
        rounded = round_array(fmt, reals, *options)
    else:
        rounded = _round_objects(fmt, reals, *options)
        kind = getattr(values, "dtype", reals.dtype)
        if kind != reals.dtype:  # integers and long doubles, wider than float64, which the rounded ones need not be
            if not fmt.fits_float64:
                raise DTypeError(
                    f"values of {kind} and numbers of {fmt} can have more digits than float64; "
                    "pass exact scalars, values.astype(object)"
                )
            rounded = rounded.astype(np.float64)
    if library_of(values) == "torch":
        return to_torch(rounded)
    return rounded[()] if rounded.ndim == 0 else rounded


def _round_objects(fmt: FormatLimits, array: Array, rounding: str, underflow: str, overflow: str, random: Any) -> Array:
    uniform = np.zeros(array.size) if random is None else random.random(array.size)
    rounded = np.empty(array.shape, dtype=object)
    rounded.reshape(-1)[:] = [
        round_rational(fmt, as_rational(value), rounding, underflow, overflow, draw)
        for value, draw in zip(array.flat, uniform.tolist(), strict=True)
    ]
    return rounded
