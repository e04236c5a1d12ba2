"""Proved bounds for the entries of L, by construction, with every operation rounded to nearest even.

Each bound is a recurrence, the same that the construction itself runs. Let a number be z up to an error e. After it is
rounded to a format with unit roundoff u, its error is at most

    e + u (|z| + e),   plus half the smallest number if it may lie below the smallest normal number.

If it may lie beyond the largest number, there is no bound. A product with the 1 of the diagonal is exact, and so is a
sum with its 0. If there are subnormals, small sums are exact as well. Without underflow and overflow, the relative
error of an entry at lag d is

    cumprod      phi_(d-1)          where phi_N = (1 + u)^N - 1 <= N u / (1 - N u)
    ratio        phi_(d+1)          g_i and g_j share the roundings of the first j steps, which cancel
    reciprocal   phi_(d+2)
    segsum       expm1(E) + u exp(E),   E = u (|log L| + sums from j) <= phi_d |log L| for coefficients up to 1
    log-outer    expm1(E) + u exp(E),   E = u (2 |log L| + sums from the first step)

where E is without terms in u^2. segsum and log-outer sum the same logarithms of the steps up to i, and round each sum
once. The sums of segsum start at step j, those of log-outer at the first step of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.exact_blocks import ExactBlocks

_DOUBT = 2.0**-40
"""What float64 may take away from a sum or product below, relatively: no more than 8 operations a step of up to 4096
steps, and logarithms good to 4 units."""

_SLACK = 2.0**-32
"""What the bounds are raised by: exp(E) makes at most 33 times E's own _DOUBT of it, E being at most 32."""


def error_bound(a: Array, exact: ExactBlocks, method: str, storage: FloatFormat, wide: FloatFormat) -> Array:
    """Return for every entry a bound of its absolute error, or infinity if there is none.

    Parameters
    ----------
    a : ndarray of float64, shape (..., l)
        Finite coefficients, numbers of `storage`.
    exact : ExactBlocks
        Their blocks.
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
    magnitude = _visible(np.abs(exact.to_float()), exact.high != 0)
    with np.errstate(all="ignore"):
        bound = _LAWS[method](a, magnitude, Rounding(wide))
        if storage != wide:
            bound = Rounding(storage)(magnitude, bound)
    bound = np.where(np.isnan(bound), np.inf, bound) * (1 + _SLACK)
    return np.where(np.tri(a.shape[-1], dtype=bool), bound, 0.0)


class Rounding:
    """The error of a number after one rounding to a format.

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
        """Return the error after rounding sums. If there are subnormals, small sums are exact."""
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
    """Replace zeros that float64 has flushed by its smallest number, so that they don't count as true zeros."""
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
        Bound of the distance of g_i / g_j from L.
    smallest, largest : ndarray, shape (..., l)
        Bounds of |g_j| from below and above. They are 0 and infinity where nothing is known.
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
    """Return the logarithms and their rounding errors. For zero and negative numbers these are 0 and infinity."""
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
