"""Proved bounds for the entries of L, by construction, with every operation rounded to nearest even.

Each bound is a recurrence, the one that the construction itself runs. A number known to be z up to an error e is, once
rounded to a format with unit roundoff u, known up to

    e + u (|z| + e),   and half the smallest number more where it may lie below the smallest normal one;

where it may lie beyond the largest number there is no bound. A product with the 1 of the diagonal and a sum with its 0
are exact, and so is a sum that is small, if there are subnormals. Without under- and overflow an entry at lag d errs,
relatively, by

    cumprod      phi_(d-1)          where phi_N = (1 + u)^N - 1 <= N u / (1 - N u)
    ratio        phi_(d+1)          g_i and g_j share the roundings of the first j steps, which cancel
    reciprocal   phi_(d+2)
    segsum       expm1(E) + u exp(E),   E = u (|log L| + sums from j) <= phi_d |log L| for coefficients up to 1
    log-outer    expm1(E) + u exp(E),   E = u (2 |log L| + sums from the first step)

with terms in u^2 left out of E. Both sum the same logarithms up to the steps j+1, ..., i and round each sum once: what
segsum adds up starts at j, what log-outer adds up starts at the first step of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.exact_blocks import exact_blocks

_DOUBT = 2.0**-40
"""What float64 may take away from a sum or product below, relatively: no more than 8 operations a step of up to 4096
steps, and logarithms good to 4 units."""

_SLACK = 2.0**-32
"""What the bounds are raised by: exp(E) makes at most 33 times E's own _DOUBT of it, E being at most 32."""


def error_bound(a: Array, method: str, storage: FloatFormat, wide: FloatFormat) -> Array:
    """Return for every entry a bound of its absolute error; infinity where there is none.

    Parameters
    ----------
    a : ndarray of float64, shape (..., l)
        Finite coefficients, numbers of `storage`.
    method : str
        The construction.
    storage, wide : FloatFormat
        Format of coefficients and result, and format of the operations.

    Returns
    -------
    ndarray of float64, shape (..., l, l)
        0 above the diagonal.
    """
    if a.shape[-1] == 0:
        return np.zeros((*a.shape, 0))
    exact = exact_blocks(a)
    magnitude = _visible(np.abs(exact.to_float()), exact.high != 0)
    with np.errstate(all="ignore"):
        bound = _LAWS[method](a, magnitude, Rounding(wide))
        if storage != wide:
            bound = Rounding(storage)(magnitude, bound)
    bound = np.where(np.isnan(bound), np.inf, bound) * (1 + _SLACK)
    return np.where(np.tri(a.shape[-1], dtype=bool), bound, 0.0)


class Rounding:
    """What one rounding to a format makes of the error of a number.

    Parameters
    ----------
    format : FloatFormat
        A format whose numbers float64 holds.
    """

    def __init__(self, format: FloatFormat) -> None:
        self.infinities, self.subnormals = format.infinities, format.subnormals
        self.unit = float(format.unit_roundoff)
        self.smallest_normal, self.max = float(format.smallest_normal), float(format.max)
        self.half_smallest = max(float(Fraction(format.smallest_subnormal) / 2), 2.0**-1074)

    def __call__(self, magnitude: Array, error: Array) -> Array:
        """Return the error after rounding numbers of these exact magnitudes, given their errors before."""
        rounded = self._normal(magnitude, error)
        rounded = np.where(self.small(magnitude, error), rounded + self.half_smallest, rounded)
        return np.where((magnitude == 0) & (error == 0), 0.0, rounded)

    def sum(self, magnitude: Array, error: Array) -> Array:
        """Return the same for sums, which are exact where they are small, if there are subnormals."""
        rounded = self._normal(magnitude, error)
        if self.subnormals:
            return rounded
        nearly = np.maximum(rounded, error + self.half_smallest)
        return np.where((magnitude == 0) & (error == 0), 0.0, nearly)

    def _normal(self, magnitude: Array, error: Array) -> Array:
        rounded = error + self.unit * (magnitude + error)
        return np.where((magnitude + error) * (1 + _DOUBT) > self.max, np.inf, rounded)

    def small(self, magnitude: Array, error: Array) -> Array:
        """Return where a number may lie below the smallest normal one."""
        return np.asarray(magnitude * (1 - _DOUBT) - error * (1 + _DOUBT) < self.smallest_normal)


def _visible(magnitude: Array, nonzero: Array) -> Array:
    """Raise what float64 flushed to zero to its smallest number: an upper bound that isn't taken for a zero."""
    return np.where(nonzero, np.maximum(magnitude, 2.0**-1074), 0.0)


def _cumprod(a: Array, magnitude: Array, rounding: Rounding) -> Array:
    error = np.zeros_like(magnitude)
    for i in range(2, a.shape[-1]):
        factor, before = np.abs(a[..., i, None]), error[..., i - 1, : i - 1]
        error[..., i, : i - 1] = rounding(magnitude[..., i, : i - 1], factor * before)
    return error


def _ratio(a: Array, magnitude: Array, rounding: Rounding) -> Array:
    error, smallest, _ = _prefix_quotients(a, magnitude, rounding)
    rounded = rounding(magnitude, error)
    _on_diagonal(rounded, np.where(smallest > 0, 0.0, np.inf))
    return rounded


def _reciprocal(a: Array, magnitude: Array, rounding: Rounding) -> Array:
    error, smallest, largest = _prefix_quotients(a, magnitude, rounding)
    error = error + rounding.unit * (magnitude + error)
    error = np.where((1 + _DOUBT) / smallest[..., None, :] > rounding.max, np.inf, error)
    small = (1 - _DOUBT) / largest[..., None, :] < rounding.smallest_normal
    error = np.where(small, error + largest[..., :, None] * rounding.half_smallest, error)
    return rounding(magnitude, error)


def _prefix_quotients(a: Array, magnitude: Array, rounding: Rounding) -> tuple[Array, Array, Array]:
    """Bound the exact quotients of the computed prefix products.

    Returns
    -------
    error : ndarray, shape (..., l, l)
        How far g_i / g_j may be from L.
    smallest, largest : ndarray, shape (..., l)
        What |g_j| lies between; 0 and infinity where nothing is known.
    """
    factors = np.abs(a)
    prefix = _visible(factors[..., :1] * magnitude[..., :, 0], (factors[..., :1] != 0) & (magnitude[..., :, 0] != 0))
    slip, small = np.zeros_like(prefix), np.zeros(prefix.shape, dtype=bool)
    for i in range(1, a.shape[-1]):
        before = factors[..., i] * slip[..., i - 1]
        slip[..., i] = rounding(prefix[..., i], before)
        small[..., i] = rounding.small(prefix[..., i], before) & (slip[..., i] > 0)
    slip = np.where(np.isnan(slip), np.inf, slip)
    smallest = np.maximum(prefix * (1 - _DOUBT) - slip * (1 + _DOUBT), 0)
    error = np.zeros_like(magnitude)
    for i in range(1, a.shape[-1]):
        before = factors[..., i, None] * error[..., i - 1, :i]
        error[..., i, :i] = before + rounding.unit * (magnitude[..., i, :i] + before)
        underflow = rounding.half_smallest / smallest[..., :i]
        error[..., i, :i] += np.where(small[..., i, None], underflow, 0)
        error[..., i, :i] = np.where(np.isfinite(slip[..., i, None]), error[..., i, :i], np.inf)
    return np.where(smallest[..., None, :] > 0, error, np.inf), smallest, prefix + slip


def _segsum(a: Array, magnitude: Array, rounding: Rounding) -> Array:
    logs, slips = _logarithms(a, rounding)
    if rounding.infinities:  # the logarithm of 0 is exact, and so is all that follows from it
        slips = np.where(a == 0, 0.0, slips)
    sums, sizes, error = (np.zeros_like(magnitude) for _ in range(3))
    for i in range(1, a.shape[-1]):
        sums[..., i, :i] = sums[..., i - 1, :i] + logs[..., i, None]
        sizes[..., i, :i] = sizes[..., i - 1, :i] + np.abs(logs[..., i, None])
        error[..., i, i - 1] = slips[..., i]
        before = error[..., i - 1, : i - 1] + slips[..., i, None]
        error[..., i, : i - 1] = rounding.sum(np.abs(sums[..., i, : i - 1]) + _DOUBT * sizes[..., i, : i - 1], before)
    bound = _exponential(magnitude, error, rounding)
    _on_diagonal(bound, 0.0)
    return bound


def _log_outer(a: Array, magnitude: Array, rounding: Rounding) -> Array:
    logs, slips = _logarithms(a, rounding)
    prefix, doubt = np.add.accumulate(logs, axis=-1), _DOUBT * np.add.accumulate(np.abs(logs), axis=-1)
    prefix_slip, error = slips.copy(), np.zeros_like(magnitude)
    for i in range(1, a.shape[-1]):
        before = prefix_slip[..., i - 1] + slips[..., i]
        prefix_slip[..., i] = rounding.sum(np.abs(prefix[..., i]) + doubt[..., i], before)
        new = slips[..., i] + (prefix_slip[..., i] - before)
        error[..., i, :i] = error[..., i - 1, :i] + (new * (1 + _DOUBT) + _DOUBT * before)[..., None]
    difference = np.abs(prefix[..., :, None] - prefix[..., None, :]) + doubt[..., :, None]
    bound = _exponential(magnitude, rounding.sum(difference, error), rounding)
    _on_diagonal(bound, np.where(np.isfinite(prefix_slip), 0.0, np.inf))
    return bound


def _logarithms(a: Array, rounding: Rounding) -> tuple[Array, Array]:
    """Return the logarithms, 0 in place of those of zero and less, and their rounding errors, infinite there."""
    positive = a > 0
    logs = np.log(np.where(positive, a, 1.0))
    return logs, np.where(positive, rounding(np.abs(logs), np.zeros_like(logs)), np.inf)


def _exponential(magnitude: Array, error: Array, rounding: Rounding) -> Array:
    """Bound the error of the rounded exponential, given the error of its argument."""
    before = np.where(error < 32, magnitude * np.expm1(error), np.inf)
    return rounding(magnitude, np.where((magnitude == 0) & np.isfinite(error), 0.0, before))


def _on_diagonal(matrices: Array, values: Array | float) -> None:
    steps = np.arange(matrices.shape[-1])
    matrices[..., steps, steps] = values


_LAWS: dict[str, Callable[[Array, Array, Rounding], Array]] = {
    "cumprod": _cumprod,
    "segsum": _segsum,
    "log-outer": _log_outer,
    "ratio": _ratio,
    "reciprocal": _reciprocal,
}
