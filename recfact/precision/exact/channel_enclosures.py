"""Rigorous enclosures of the exact states of many short sequences at once, in float64 with proved radii.

The float64 states are wrong by at most a radius that obeys a recurrence of its own (Wilkinson's running error bound,
Higham 2002, section 3.3). Next to the errors of a format of few digits it is nothing, so almost every comparison with
a bound is decided here; the others are left to `recfact.precision.exact`.
"""

from __future__ import annotations

import numpy as np

from recfact.arrays import Array
from recfact.recurrence import first_kept
from recfact.windows import Window

_HALF_ULP = 2.0**-53
_SLACK = 1 + 2.0**-50  # covers the roundings of up to seven operations on radii
_TINY = 2.0**-1072  # covers all that underflows in a step, three times 2^-1075


def enclose_channels(a: Array, u: Array, window: Window) -> tuple[Array, Array]:
    """Enclose the exact, or exactly truncated, states of every channel.

    Parameters
    ----------
    a, u : ndarray of float64, shape (n, ...)
        Coefficients and inputs, finite.
    window : Full, Uniform, Jagged or str
        What is kept.

    Returns
    -------
    centers, radii : ndarray of float64, shape (n, ...)
        ``abs(x - centers) <= radii``, proved; infinite or NaN where float64 overflows. O(n w) for a window of w rows.

    Examples
    --------
    >>> from recfact import Full
    >>> centers, radii = enclose_channels(np.full(3, 0.1), np.ones(3), Full())
    >>> centers.tolist(), bool(radii.max() < 1e-15)
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
    return centers, radii


def _step(a: Array, u: Array, center: Array, radius: Array) -> tuple[Array, Array]:
    """Return an enclosure of a x + u.

    A product and a sum in float64 are wrong by at most 2^-53 of what they return, a product by 2^-1075 more.
    """
    product = a * center
    state = product + u
    grown = (np.abs(a) * radius + _HALF_ULP * (np.abs(product) + np.abs(state))) * _SLACK + _TINY
    nothing = (a == 0) | ((center == 0) & (radius == 0))  # then both operations are exact
    return state, np.where(nothing, 0.0, grown)


def distance(values: Array, centers: Array, radii: Array) -> Array:
    """Return floats at least as large as the distance of `values` from whatever the enclosures hold."""
    with np.errstate(all="ignore"):
        return np.asarray((np.abs(values - centers) + radii) * _SLACK)
