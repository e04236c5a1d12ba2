"""Magnitudes of complex numbers with a known error: NumPy's is that of its platform's `hypot`, and several last bits.

Both parts are divided by the power of two above the larger one, so that no square leaves the range of float64. Where
it underflows, it is far below what the roundings of the larger one may take away.
"""

from __future__ import annotations

import numpy as np

from recfact.arrays import Array
from recfact.precision.exact.outward import ldexp_up


def scaled_moduli(a: Array) -> tuple[Array, Array]:
    """Return magnitudes as significands in [1/2, 1), or 0, and binary exponents, which have no range to leave.

    Each is (1 + d)^3 times the truth for some d up to 2^-53 in magnitude: the parts may be rounded to float64, then
    squares and their sum are rounded, under a root, and so is the root. What isn't finite has a significand that isn't.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Floats of any size, real or complex.

    Examples
    --------
    >>> scaled_moduli(np.array([3 + 4j, 0.25, 5e-324j]))
    (array([0.625, 0.5  , 0.5  ]), array([    3,    -1, -1073]))
    """
    parts = np.abs(a.real), np.abs(a.imag)
    larger, smaller = np.maximum(*parts), np.minimum(*parts)
    exponents = np.frexp(larger)[1].astype(np.int64)
    with np.errstate(all="ignore"):
        x, y = (np.ldexp(part, -exponents).astype(np.float64) for part in (larger, smaller))
        significands, shifts = np.frexp(np.where(y == 0, x, np.sqrt(x * x + y * y)))
    return significands, exponents + shifts


def upper_moduli(a: Array) -> Array:
    """Return magnitudes rounded up to float64, those of numbers on an axis exactly where float64 holds them.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Floats of any size, real or complex.

    Notes
    -----
    With u = 2^-53 a modulus is at most (1 - u)^-3 times the computed one. Three floats further up that is passed: a
    step adds u to a significand below 1 and 2 u above, and m (1 - u)^-3 < m + 3 u for m <= 1 - 2 u.

    Examples
    --------
    >>> upper_moduli(np.array([-0.9j, 3 + 4j])).tolist()
    [0.9, 5.000000000000003]
    """
    significands, exponents = scaled_moduli(a)
    raised = significands
    for _ in range(3):
        raised = np.nextafter(raised, np.inf)
    with np.errstate(all="ignore"):
        nearest = np.ldexp(significands, exponents)
    exact = ((a.real == 0) | (a.imag == 0)) & (nearest == np.maximum(np.abs(a.real), np.abs(a.imag)))
    return np.where(exact, nearest, ldexp_up(raised, exponents))
