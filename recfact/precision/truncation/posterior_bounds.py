"""Bounds of the truncation error from the truncated states, after the fact: neither inputs nor exact states needed."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import without_labels
from recfact.errors import ShapeError
from recfact.precision.exact.outward import Upward
from recfact.precision.time_axis import check_sequence
from recfact.precision.truncation.window_errors import sequence_of, upward_operator
from recfact.windows import WindowLike


def posterior_truncation_bound(a: Any, kept: Any, window: WindowLike, *, rounding: Any = 0.0) -> Array:
    """Return a bound of each step's truncation error from the truncated states.

    A lost state is bounded by the truncated state in its place and that one's own error, which is bounded in the same
    way: ``sigma[j] = |x~[j]| + w[j] * sigma[i]``, with the state i that step j loses and its weight w[j].

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, real.
    kept : array_like, shape (n,)
        Truncated states, as computed.
    window : Uniform, Jagged or Full
        The window that they were computed with.
    rounding : float or array_like, shape (n,), default 0
        Bound of the rounding errors in `kept`.

    Returns
    -------
    ndarray of float64, shape (n,)
        ``|x - x~| <= bound``, x~ being the exactly truncated states, rounded up; O(n). Sharp where no signs cancel: the
        bound is the error for non-negative coefficients and inputs.

    Raises
    ------
    ShapeError
        If `a` and `kept` aren't single sequences of one length, or `rounding` doesn't broadcast to them.
    OptionError
        If a number is infinite or NaN.

    Notes
    -----
    Derived on the page on truncation bounds, equation (6).

    Examples
    --------
    >>> from recfact import Jagged, solve
    >>> a = [0.5] * 8
    >>> posterior_truncation_bound(a, solve(a, [1.0] * 8, window=Jagged(2)), Jagged(2))
    array([0.        , 0.        , 0.        , 0.        , 0.1875    , 0.09375   , 0.234375  , 0.1171875])
    """
    a, kept, _, _ = without_labels(a, kept)
    states, coefficients = as_numpy(kept, "kept"), sequence_of(a)
    check_sequence(states, "kept")
    if states.shape != coefficients.shape:
        raise ShapeError(
            f"truncated states and coefficients must be as many, got {len(states)} and {len(coefficients)}; pass those "
            "of one sequence"
        )
    try:
        errors = np.broadcast_to(given := as_numpy(rounding, "rounding"), states.shape)
    except ValueError:
        raise ShapeError(f"rounding must broadcast to shape {states.shape}, got {given.shape}") from None
    bounds = np.zeros(len(states))
    operator = upward_operator(coefficients, window)
    if operator is None:
        return bounds
    relative = operator.relative_error_operator()
    first = len(states) - len(relative.weights)
    lost: dict[int, Upward] = {}
    for j in relative.sources[relative.starts].tolist():
        bound = Upward.of(states[j]) + Upward.of(errors[j])
        if j >= first:
            bound = bound + relative.weights[j - first] * lost[int(relative.sources[j - first])]
        lost[j] = bound
    bounds[first:] = [
        float(weight * lost[j]) for weight, j in zip(relative.weights, relative.sources.tolist(), strict=True)
    ]
    return bounds


def posterior_truncation_norm(relative: float, kept_norm: float) -> float:
    """Return a bound of the truncation error's norm from that of the truncated states.

    From x = x~ + N x follows norm(x) <= norm(x~) / (1 - norm(N)), so the error N x is bounded by

        norm(N) / (1 - norm(N)) * norm(x~).

    Parameters
    ----------
    relative : float
        Bound of the norm of N, by `truncation_norm` or `truncation_bound` with ``relative_to="state"``.
    kept_norm : float
        Bound of the truncated states' norm, in the same order.

    Returns
    -------
    float
        Rounded up. Infinite unless `relative` is below 1.

    Raises
    ------
    OptionError
        If a norm is infinite or NaN.
    DTypeError
        If one is no real number.

    Notes
    -----
    Derived on the page on truncation bounds, equation (7).

    Examples
    --------
    >>> posterior_truncation_norm(0.5**5, 1.0) == 1 / 31
    False
    >>> float(np.nextafter(1 / 31, 1)) >= posterior_truncation_norm(0.5**5, 1.0) >= 1 / 31
    True
    """
    norm = Upward.of(relative)
    share = norm.over_complement(norm)
    return inf if share is None else float(share * Upward.of(kept_norm))
