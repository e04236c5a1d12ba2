"""Balls: numbers that are known up to a radius, in floats or integers. Float balls enclose many short sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.exact.outward import outward
from recfact.recurrence import first_kept
from recfact.windows import Window

_HALF_ULP = 2.0**-53
_SLACK = 1 + 2.0**-50  # covers the roundings of up to seven operations on radii
_TINY = 2.0**-1072  # covers all that underflows in a step, three times 2^-1075


@dataclass(frozen=True, slots=True)
class Balls:
    """Numbers x that are known up to a radius: ``|x[start + i] * 2**scale - centers[i]| <= radii[i]``.

    Parameters
    ----------
    centers, radii : list of int, or ndarray of float64
        Centers and radii in units of 2^-scale. For floats the scale is 0.
    scale : int
        Number of bits after the binary point.
    start : int
        Index of the first number.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").
    """

    centers: Any
    radii: Any
    scale: int = 0
    start: int = 0

    def __len__(self) -> int:
        return len(self.centers)

    def distance(self, values: Array) -> Array:
        """Return floats at least as large as the distance of `values` from any numbers in balls of floats."""
        with np.errstate(all="ignore"):
            return np.asarray((np.abs(values - self.centers) + self.radii) * _SLACK)

    def magnitudes(self, rows: Array) -> tuple[Array, Array]:
        """Return floats below and above the magnitudes of numbers, by their indices, that balls of integers hold."""
        pairs = [(abs(self.centers[row - self.start]), self.radii[row - self.start]) for row in rows]
        low = outward([max(center - radius, 0) for center, radius in pairs], self.scale, -1)
        return low, outward([center + radius for center, radius in pairs], self.scale, 1)


def float_balls(a: Array, u: Array, window: Window) -> Balls:
    """Enclose the exact, or exactly truncated, states of every channel, in float64.

    The error of the float64 states is at most a radius that obeys a recurrence of its own (Wilkinson's running error
    bound, Higham 2002, section 3.3). The radius is tiny compared with the errors of a format of few digits. So it
    decides almost every comparison with a bound. Integers decide the others.

    Parameters
    ----------
    a, u : ndarray of float64, shape (n, ...)
        Finite coefficients and inputs.
    window : Full, Uniform, Jagged or str
        What is kept.

    Returns
    -------
    Balls
        The enclosures, as arrays of shape (n, ...). They are infinite or NaN where float64 overflows. This takes O(n w)
        time for a window of w rows.

    Examples
    --------
    >>> from recfact import Full
    >>> states = float_balls(np.full(3, 0.1), np.ones(3), Full())
    >>> states.centers.tolist(), bool(states.radii.max() < 1e-15)
    ([1.0, 1.1, 1.11], True)
    """
    centers, radii = np.empty(u.shape), np.zeros(u.shape)
    begin, row = -1, 0
    with np.errstate(all="ignore"):
        for i in range(len(u)):
            j = first_kept(i, window)
            if j != begin:
                begin, row = j, j
                center, radius = u[j], np.zeros(u.shape[1:])
            for k in range(row + 1, i + 1):
                center, radius = _step(a[k], u[k], center, radius)
            row = i
            centers[i], radii[i] = center, radius
    return Balls(centers, radii)


def _step(a: Array, u: Array, center: Array, radius: Array) -> tuple[Array, Array]:
    """Return an enclosure of a x + u.

    A product or a sum in float64 is wrong by at most 2^-53 of its result. A product may be wrong by 2^-1075 more.
    """
    product = a * center
    state = product + u
    grown = (np.abs(a) * radius + _HALF_ULP * (np.abs(product) + np.abs(state))) * _SLACK + _TINY
    nothing = (a == 0) | ((center == 0) & (radius == 0))  # then both operations are exact
    return state, np.where(nothing, 0.0, grown)
