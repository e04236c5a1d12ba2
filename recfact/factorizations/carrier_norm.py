"""The 2-norm of a recurrence with weighted inputs and outputs, without forming its matrix."""

from math import hypot, isfinite


def carrier_norm(outputs: list[float], factors: list[float], inputs: list[float]) -> float:
    """Return the largest singular value of diag(outputs) (I - diag(factors) Z)^-1 diag(inputs).

    Parameters
    ----------
    outputs, factors, inputs : list of float, length q
        Non-negative and finite numbers. Zeros are allowed. ``factors[0]`` is not read.

    Returns
    -------
    float
        The norm. Its relative error is at most a few units of rounding for each of the q steps.

    Notes
    -----
    The recurrence is z[i] = c[i] z[i-1] + r[i] y[i], with outputs p[i] z[i]. The norm is the smallest sigma such that
    the energy of the outputs is at most sigma^2 times the energy of the input y, for every y. From row i on, at most
    X[i] z[i-1]^2 can be gained, where (backwards, from X = 0)

        S = (p[i] / sigma)^2 + X[i+1],    X[i] = c[i]^2 S / (1 - S r[i]^2).

    This holds as long as every 1 - S r[i]^2 is positive. Otherwise the gain is unbounded. It is a scalar Riccati
    recursion (the finite-horizon bounded real lemma). Up to a factor, the 1 - S r[i]^2 are the pivots of
    sigma^2 I - M^T M. Only the pivot itself is a difference. So the answer is exact for a problem whose entries are
    changed by a few units of rounding.
    """
    if not outputs:
        return 0.0
    # The norm lies between the longest row and the length of all entries together (the Frobenius norm).
    row = low = high = 0.0
    for output, factor, given in zip(outputs, factors, inputs, strict=True):
        row = hypot(factor * row, given)
        low, high = max(low, output * row), hypot(high, output * row)
    if low == 0.0 or not isfinite(high):
        return high
    if last_pivot(low, outputs, factors, inputs) >= 0:  # a single row: both bounds are equal
        return low
    from scipy.optimize import brentq  # imported here, because it takes longer to import than the rest of recfact

    while last_pivot(high, outputs, factors, inputs) <= 0:
        high *= 1 + 2**-40
    return float(brentq(last_pivot, low, high, args=(outputs, factors, inputs), xtol=5e-324, rtol=2**-50, maxiter=1000))


def last_pivot(sigma: float, outputs: list[float], factors: list[float], inputs: list[float]) -> float:
    """Return the last pivot 1 - S r[0]^2 of the recursion, or -1 if an earlier pivot isn't positive.

    The result is positive exactly if `sigma` is larger than the norm.
    """
    gain, pivot = 0.0, 1.0
    for output, factor, given in zip(reversed(outputs), reversed(factors), reversed(inputs), strict=True):
        if pivot <= 0.0:
            return -1.0
        supply = (output / sigma) ** 2 + gain
        pivot = 1.0 - supply * given * given
        if pivot > 0.0:
            gain = factor * factor * supply / pivot
    return pivot
