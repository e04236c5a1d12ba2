"""Rounding of float64 arrays to a format: once, correctly, in any mode.

The distance between neighbouring numbers of a format around x is a power of two. The exponent of x gives it. x is
divided by this distance, rounded to an integer, and multiplied by it again. Division and product are exact, so the only
rounding is the one to the integer. The work is done in pieces that stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import DTypeError
from recfact.precision.formats.limits import FormatLimits

PIECE = 1 << 13

_FIELD = 52  # where the exponent field of a float64 begins
_BIAS = 1023
_EXPONENT = 0x7FF << _FIELD


@dataclass(frozen=True)
class _Plan:
    """The properties of a format that rounding needs, in float64."""

    fmt: FormatLimits
    lowest: int  # exponent below which the spacing stays the same
    highest: int  # numbers of this exponent or a higher one are out of range
    smallest_normal: float
    largest: float  # the largest float64 that isn't beyond the format's
    method: str


@lru_cache(maxsize=256)
def _plan(fmt: FormatLimits, underflow: str) -> _Plan:
    p = fmt.fraction_bits
    lowest = fmt.emin - (underflow == "flush-after")
    highest = max(fmt.emax, fmt.emin) + 1
    if p >= 52 and fmt.emin <= -1022:
        method = "none"  # every float64 up to the largest number is a number of the format
    elif -1022 <= lowest - p <= 0 and highest <= 1022:
        method = "scale"
    else:
        method = "frexp"
    return _Plan(fmt, lowest, highest, _downward(fmt.smallest_normal), _downward(fmt.max), method)


def _downward(number: float | Fraction) -> float:
    """Return the largest float64 that isn't above a positive number."""
    if number >= Fraction(np.finfo(np.float64).max):
        return float(np.finfo(np.float64).max)
    nearest = float(number)
    return nearest if nearest <= number else float(np.nextafter(nearest, 0.0))


def round_array(
    fmt: FormatLimits, values: Array, rounding: str, underflow: str, overflow: str, generator: Any
) -> Array:
    """Return a C-contiguous float64 array rounded to the format; the options are those of ``FloatFormat.round``."""
    plan = _plan(fmt, underflow)
    rounded = np.empty(values.shape)
    flat, flat_rounded = values.reshape(-1), rounded.reshape(-1)
    work = np.empty(min(PIECE, values.size))
    with np.errstate(all="ignore"):
        for start in range(0, values.size, PIECE):
            x, out = flat[start : start + PIECE], flat_rounded[start : start + PIECE]
            _round_piece(plan, x, out, work[: x.size], rounding, underflow, overflow, generator)
    return rounded


def _round_piece(
    plan: _Plan, x: Array, out: Array, work: Array, rounding: str, underflow: str, overflow: str, generator: Any
) -> None:
    if plan.method == "none":
        np.copyto(out, x)
    elif plan.method == "scale":
        _round_by_scale(plan, x, out, work, rounding, underflow, generator)
    else:
        _round_by_frexp(plan, x, out, rounding, underflow, generator)

    np.abs(x if underflow == "flush-before" else out, out=work)
    if underflow != "gradual":
        np.multiply(out, ~(work < plan.smallest_normal), out=out)
    if rounding in ("nearest-away", "stochastic"):
        np.copysign(out, x, out=out)  # they round magnitudes
    if not plan.fmt.negative_zero:
        np.add(out, 0.0, out=out)
    if not work.max() <= plan.largest:
        _mend_large(plan, x, out, rounding, overflow)
    if not (plan.fmt.zero and plan.fmt.signed):
        _mend_absent(plan, x, out, overflow)


def _round_by_scale(
    plan: _Plan, x: Array, out: Array, work: Array, rounding: str, underflow: str, generator: Any
) -> None:
    p = plan.fmt.fraction_bits
    spacing = work.view(np.int64)
    np.bitwise_and(x.view(np.int64), _EXPONENT, out=spacing)
    np.maximum(spacing, (plan.lowest + _BIAS) << _FIELD, out=spacing)
    if p < 2:  # else infinity has a spacing with an inverse
        np.minimum(spacing, (plan.highest + _BIAS) << _FIELD, out=spacing)
    if _is_coarse(plan, underflow):
        np.add(spacing, (np.abs(x) < plan.smallest_normal) * (p << _FIELD), out=spacing)
    # 2^k and 2^-k have exponent fields that add up to twice the bias.
    np.subtract(p << _FIELD, spacing, out=spacing)
    np.add(spacing, (2 * _BIAS) << _FIELD, out=spacing)
    np.multiply(x, work, out=out)
    ties = _ties_down(plan, out, (spacing >> _FIELD) + _BIAS) if p == 0 and rounding == "nearest-even" else None
    _to_integers(out, rounding, generator)
    if ties is not None:
        np.putmask(out, ties, np.copysign(1.0, x))
    np.subtract((2 * _BIAS) << _FIELD, spacing, out=spacing)
    np.multiply(out, work, out=out)


def _round_by_frexp(plan: _Plan, x: Array, out: Array, rounding: str, underflow: str, generator: Any) -> None:
    p = plan.fmt.fraction_bits
    significand, exponent = np.frexp(x)
    leading = np.maximum(exponent - 1, plan.lowest)
    spacing = leading - p
    if _is_coarse(plan, underflow):
        spacing[np.abs(x) < plan.smallest_normal] = plan.lowest
    # Numbers far below the spacing may move up to 2^-1000 of it: no rounding sees the difference.
    np.ldexp(significand, np.maximum(exponent - spacing, -1000), out=out)
    ties = _ties_down(plan, out, leading) if p == 0 and rounding == "nearest-even" else None
    _to_integers(out, rounding, generator)
    if ties is not None:
        np.putmask(out, ties, np.copysign(1.0, x))
    np.ldexp(out, spacing, out=out)


def _ties_down(plan: _Plan, scaled: Array, leading: Array) -> Array:
    """Return where a tie goes down to a power of two: without fraction bits, the last bit is one of the exponent."""
    ties: Array = np.abs(scaled) == 1.5
    ties &= (leading - plan.fmt.emin + plan.fmt.zero) & 1 == 0
    return ties


def _is_coarse(plan: _Plan, underflow: str) -> bool:
    """Return whether the format has nothing between zero and its smallest normal number, and rounding must show it."""
    return underflow in ("gradual", "flush-result") and plan.fmt.zero and not plan.fmt.subnormals


def _to_integers(scaled: Array, rounding: str, generator: Any) -> None:
    """Round `scaled` to integers in place."""
    if rounding == "nearest-even":
        np.rint(scaled, out=scaled)
    elif rounding == "toward-zero":
        np.trunc(scaled, out=scaled)
    elif rounding == "up":
        np.ceil(scaled, out=scaled)
    elif rounding == "down":
        np.floor(scaled, out=scaled)
    else:
        np.abs(scaled, out=scaled)
        whole = np.floor(scaled)
        np.subtract(scaled, whole, out=scaled)  # exact; adding 1/2 or a random number first wouldn't be
        away = scaled >= 0.5 if rounding == "nearest-away" else generator.random(scaled.size) < scaled
        np.add(whole, away, out=scaled)


def _mend_large(plan: _Plan, x: Array, out: Array, rounding: str, overflow: str) -> None:
    """Replace numbers beyond the largest."""
    fmt = plan.fmt
    beyond = np.abs(out) > plan.largest
    finite = beyond & np.isfinite(x)
    if overflow == "saturate":
        saturated = beyond
    elif rounding == "toward-zero":
        saturated = finite
    elif rounding in ("up", "down"):
        saturated = finite & (np.signbit(x) == (rounding == "up"))
    else:
        saturated = np.zeros(x.shape, dtype=bool)
    if not isinstance(fmt.max, float) and (saturated.any() or (fmt.emax > 1023 and finite.any())):
        raise DTypeError(
            f"values round to numbers of {fmt} that float64 doesn't hold; pass exact scalars, values.astype(object)"
        )
    filler = {"infinity": np.inf, "nan": np.nan, "saturate": plan.largest}[overflow]
    np.putmask(out, beyond, np.copysign(np.where(saturated, plan.largest, filler), x))


def _mend_absent(plan: _Plan, x: Array, out: Array, overflow: str) -> None:
    """Replace zeros and negative numbers in a format that has none."""
    fmt = plan.fmt
    absent = fmt.has_nan and overflow != "saturate"
    if x.min() > 0:  # then only numbers below the smallest one can be missing
        if not fmt.zero:
            np.maximum(out, plan.smallest_normal, out=out)
        return
    if not fmt.zero:
        np.abs(out, out=out)
        np.copysign(np.maximum(out, plan.smallest_normal, out=out), x, out=out)
        np.putmask(out, x == 0, np.nan if absent else plan.smallest_normal)
    if not fmt.signed:
        np.putmask(out, out < 0, np.nan if absent else float(fmt.min))
