"""Products of floats with what their rounding took away, exactly."""

from __future__ import annotations

from recfact.arrays import Array


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded product of numbers up to 1 and what the rounding took away (Dekker, 1971).

    Parameters
    ----------
    x, y : ndarray of float64
        At most 1 in magnitude, and so large, or 0, that their product is above 2^-960.

    Examples
    --------
    >>> import numpy as np
    >>> two_product(np.array([1 - 2.0**-53]), np.array([1 - 2.0**-53]))[1].item() == 2.0**-106
    True
    """
    product = x * y
    (x1, x2), (y1, y2) = _split(x), _split(y)
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _split(x: Array) -> tuple[Array, Array]:
    """Return x as a sum of two numbers of 26 bits."""
    scaled = (2.0**27 + 1) * x
    upper = scaled - (scaled - x)
    return upper, x - upper
