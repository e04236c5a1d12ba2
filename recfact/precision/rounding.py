"""Rounding to a format: the options, and which arithmetic serves which kind of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array, as_numpy, library_of, to_torch
from recfact.checks import choice
from recfact.errors import DTypeError, OptionError
from recfact.precision.array_rounding import round_array
from recfact.precision.rational_rounding import as_rational, round_rational

if TYPE_CHECKING:
    from recfact.precision.formats import FloatFormat

ROUNDINGS = ("nearest-even", "nearest-away", "toward-zero", "up", "down", "stochastic")
UNDERFLOWS = ("gradual", "flush-before", "flush-after", "flush-result")
OVERFLOWS = ("infinity", "nan", "saturate")


def round_values(
    fmt: FloatFormat, values: Any, rounding: str, *, underflow: str, overflow: str | None, seed: Any
) -> Any:
    """Return `values` rounded to the format; see ``FloatFormat.round``."""
    choice(rounding, "rounding", ROUNDINGS)
    choice(underflow, "underflow", UNDERFLOWS)
    overflow = fmt.overflow if overflow is None else choice(overflow, "overflow", OVERFLOWS)
    if (overflow == "infinity" and not fmt.infinities) or (overflow == "nan" and not fmt.has_nan):
        raise OptionError(f"{fmt} has no {overflow}; overflow must be None, which means {fmt.overflow!r}, or 'saturate'")
    if underflow != "gradual" and not fmt.zero:
        raise OptionError(f"{fmt} has no zero to flush to; underflow must be 'gradual', got {underflow!r}")
    generator = np.random.default_rng(seed) if rounding == "stochastic" else None
    options = (rounding, underflow, overflow, generator)

    if isinstance(values, float):
        rounded = round_array(fmt, np.array([values]), *options)[0]
        return rounded if isinstance(values, np.generic) else float(rounded)
    array = as_numpy(values, "values")
    if array.dtype.kind == "O":
        exact = _round_objects(fmt, array, *options)
        return exact[()] if array.ndim == 0 else exact
    if isinstance(values, int):
        return _round_objects(fmt, np.array(values, dtype=object), *options)[()]
    if not np.can_cast(array.dtype, np.float64) and array.dtype != np.longdouble:
        raise DTypeError(f"values must be real numbers, got an array of {array.dtype}; round complex numbers by parts")
    if array.dtype == np.longdouble or (array.dtype.kind in "iu" and _passes(array, 2**53)):
        rounded = _through_rationals(fmt, array, *options)
    else:
        rounded = round_array(fmt, np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape), *options)
    if library_of(values) == "torch":
        return to_torch(rounded)
    return rounded[()] if array.ndim == 0 else rounded


def _passes(array: Array, limit: int) -> bool:
    return bool(array.size) and (int(array.max()) > limit or int(array.min()) < -limit)


def _round_objects(fmt: FloatFormat, array: Array, rounding: str, underflow: str, overflow: str, generator: Any) -> Array:
    uniform = np.zeros(array.size) if generator is None else generator.random(array.size)
    rounded = np.empty(array.shape, dtype=object)
    rounded.reshape(-1)[:] = [
        round_rational(fmt, as_rational(value), rounding, underflow, overflow, draw)
        for value, draw in zip(array.flat, uniform.tolist(), strict=True)
    ]
    return rounded


def _through_rationals(fmt: FloatFormat, array: Array, *options: Any) -> Array:
    """Round numbers that float64 may not hold; the rounded ones it does."""
    if not fmt.fits_float64:
        raise DTypeError(
            f"values of {array.dtype} may need more digits than float64 holds, before and after rounding to {fmt}; "
            "pass exact scalars, values.astype(object)"
        )
    return _round_objects(fmt, array.astype(object), *options).astype(np.float64)
