"""How far back an input still matters: the effective horizon of given coefficients."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from recfact.arrays import Array


def row_growth(a: Array) -> Array:
    """Return the largest entry of each row of the transfer operator in magnitude, max_j |L[i, j]|.

    It obeys a recurrence of its own, b_i = max(1, |a_i| b_{i-1}), and is 1 throughout where no |a_i| passes 1.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients. ``a[0]`` is not read.

    Returns
    -------
    ndarray of float64, shape (n,)

    Examples
    --------
    >>> row_growth(np.array([0.0, 2.0, 2.0, 0.125])).tolist()
    [1.0, 2.0, 4.0, 1.0]
    """
    magnitude = np.abs(a[1:]).astype(np.float64)
    if not np.any(magnitude > 1):
        return np.ones(len(a))
    return np.fromiter(accumulate(magnitude.tolist(), lambda b, m: max(1.0, m * b), initial=1.0), np.float64, len(a))


def horizons(a: Array, threshold: float) -> Array:
    """Return for each row of the transfer operator the largest lag d with ``|L[i, i - d]| >= threshold``.

    An input further back than that reaches the state with a smaller weight than `threshold`, always. The products are
    those of the Kogge-Stone factors, squared until none matters, and each row then takes the longest steps that stay
    above the threshold: O(n log d) work for a longest horizon of d, no division and no logarithm, so zeros are exact.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients. ``a[0]`` is not read.
    threshold : float
        Smallest weight that counts, in (0, 1].

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> horizons(np.full(8, 0.5), 0.25).tolist()
    [0, 1, 2, 2, 2, 2, 2, 2]
    """
    magnitude = np.abs(a).astype(np.float64)
    if len(a) == 0:
        return np.zeros(0, dtype=np.int64)
    magnitude[0] = 0.0  # nothing reaches past the first row
    growth = row_growth(a)
    rows = np.arange(len(a))

    # steps[k][i] is the product over 2^k lags that ends in row i. Beyond d lags the largest weight in row i is their
    # product times growth[i - d], which never rises with d: so each row may search by halving.
    steps = [magnitude]
    while True:
        lag = 1 << (len(steps) - 1)
        before = np.maximum(rows - lag, 0)
        if not np.any(steps[-1] * growth[before] >= threshold):
            break
        steps.append(steps[-1] * steps[-1][before])

    horizon = np.zeros(len(a), dtype=np.int64)
    product = np.ones(len(a))
    for k in reversed(range(len(steps))):
        at = rows - horizon
        longer = product * steps[k][at]
        further = longer * growth[np.maximum(at - (1 << k), 0)] >= threshold
        horizon[further] += 1 << k
        product = np.where(further, longer, product)
    return horizon
