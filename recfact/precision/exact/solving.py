"""Exact states, and errors measured against them with proof.

Floats are dyadic rationals, so the recurrence and its truncations can be computed exactly in integers. `solve` returns
these exact numbers. At every step its states grow by as many bits as a coefficient has. For long sequences, `enclose`
yields enclosures of the states in integers of bounded size. `measure` and `truncation_error` get errors from these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, broadcast_state
from recfact.containers import without_labels
from recfact.errors import DTypeError
from recfact.precision.exact.dyadic import Dyadic, shift_left
from recfact.precision.exact.enclosures import integers
from recfact.precision.sequences import time_first
from recfact.recurrence import first_kept, windowed
from recfact.windows import Full, Window, WindowLike, check_window


def solve(a: Any, u: Any, window: WindowLike = Full(), x0: Any = None, *, axis: int = -1) -> Array:
    """Return the exact states of the recurrence, or of its truncation.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They broadcast. Floats of any format and integers become dyadic rationals. So do the
        numbers of an object array, if all are dyadic (an mpf is). If there is any other scalar among them (Fractions,
        mpmath intervals, symbols), the literal definition runs in the arithmetic of the scalars.
    window : Full, Uniform, Jagged or str
        What is kept.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the result without `axis`, and is part of the first input.
    axis : int, default -1
        The axis of the result along which the recurrence runs.

    Returns
    -------
    ndarray of object
        The states, as `Dyadic` numbers or as scalars of the given kind. Without a window, state i has about i times as
        many bits as a coefficient. For long sequences use `enclose` or `measure`.

    Raises
    ------
    OptionError
        If a number is NaN or infinite.
    DTypeError
        If a number is complex, or if something isn't a number.
    ShapeError
        If the shapes don't fit together.

    Notes
    -----
    The loops of the definition run. They take O(n) products for Full and O(n w) for windows of w rows (rows of a jagged
    window share a loop).

    Nothing is rounded, so no precision has to be chosen. Coefficients from logarithms or roots are rounded when they
    are computed. An mpf of mpmath has as many digits as its context. It is dyadic and taken exactly. An interval of
    ``mpmath.iv`` gives states that enclose those of the coefficient itself.

    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> x = solve([0.1] * 3, [1.0, 1.0, 1.0])
    >>> x[2] == 1 + Dyadic.of(0.1) * (1 + Dyadic.of(0.1)), float(x[2])
    (True, 1.11)
    >>> from mpmath import iv, mp
    >>> with mp.workdps(40):
    ...     rate = mp.exp(mp.mpf("-0.1"))
    >>> print(float(solve([rate] * 3, [1, 1, 1])[2]))
    2.7235681711139414
    >>> x = solve([iv.exp(-iv.mpf(1) / 10)] * 3, [iv.mpf(1)] * 3)[2]
    >>> float(x.a) <= 2.7235681711139414 <= float(x.b)
    True
    """
    window = check_window(window)
    a, u, x0, axis = without_labels(a, u, x0, axis)
    coefficients, inputs = time_first(as_numpy(a, "a"), as_numpy(u, "u"), axis)
    if len(inputs) == 0:
        return np.moveaxis(np.empty(inputs.shape, dtype=object), 0, axis)
    states = None if x0 is None else broadcast_state(as_numpy(x0, "x0"), inputs.shape[1:])
    own = [array for array in (coefficients, inputs, states) if array is not None and array.dtype == object]
    if any(not _dyadic(value) for array in own for value in array.flat):
        try:
            x = windowed(coefficients.astype(object), inputs.astype(object), window, states)
        except (TypeError, OverflowError) as error:
            raise DTypeError(f"coefficients and inputs must be numbers that multiply and add: {error}") from None
        return np.moveaxis(np.asarray(x, dtype=object), 0, axis)
    x = np.empty(inputs.shape, dtype=object)
    for channel in np.ndindex(inputs.shape[1:]):
        at = (slice(None), *channel)
        x[at] = _channel(coefficients[at], inputs[at], window, None if states is None else states[channel])
    return np.moveaxis(x, 0, axis)


def _dyadic(value: Any) -> bool:
    try:
        Dyadic.of(value)
    except DTypeError:
        return False
    return True


def _channel(a: Array, u: Array, window: Window, x0: Any) -> list[Dyadic]:
    """Solve one channel in integers."""
    factors = list(zip(*integers(a[1:]), strict=True))
    first = Dyadic.of(u[0]) if x0 is None else Dyadic.of(a[0]) * Dyadic.of(x0) + Dyadic.of(u[0])
    inputs = [(first.significand, first.exponent), *zip(*integers(u[1:]), strict=True)]
    states: list[Dyadic] = []
    begin, row = -1, 0
    for i in range(len(inputs)):
        j = first_kept(i, window)
        if j != begin:
            begin, row = j, j
            m, e = inputs[j]
        for k in range(row + 1, i + 1):
            f, d = factors[k - 1]
            v, at = inputs[k]
            m, e = m * f, e + d
            if m == 0:
                m, e = v, at
            elif v and at < e:
                m, e = shift_left(m, e - at) + v, at
            elif v:
                m += shift_left(v, at - e)
        row = i
        states.append(Dyadic(m, e))
    return states
