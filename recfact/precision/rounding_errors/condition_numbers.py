"""Condition numbers: how much relative changes of coefficients and inputs can change the states.

To first order, |da_i| <= e |a_i| and |du_i| <= e |u_i| change the states by dx = L (da x_{i-1} + du), so by at most e
times |L| (|AZ| |x| + |u|), and that is attained (Skeel 1979; Gohberg and Koltracht 1993). Times a backward error it
bounds the forward error of any algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from recfact.arrays import Array, as_operands, initial_state
from recfact.containers import without_labels
from recfact.errors import DTypeError
from recfact.factorizations.norms import bidiagonal_norm, largest, transfer_norm
from recfact.precision.time_axis import time_first
from recfact.recurrence import forward
from recfact.solve import solve
from recfact.written_numbers import short


@dataclass(frozen=True, slots=True, repr=False)
class Condition:
    """Condition numbers of a recurrence; as many of each as there are channels, except for the last.

    Parameters
    ----------
    normwise : scalar or ndarray, shape (...)
        ``||L|| ||I - AZ||`` in the maximum norm: changes of the matrix that are small next to its norm, anywhere in it.
    skeel : scalar or ndarray, shape (...)
        ``|| |L| |I - AZ| ||`` in the maximum norm: changes of each coefficient in terms of itself, for the worst
        inputs. It doesn't see how rows are scaled.
    mixed : scalar or ndarray, shape (...)
        The largest change of a state over the largest state, in terms of relative changes of every a_i and u_i.
    componentwise : ndarray, shape of the states
        The change of each state in terms of itself; infinite for a state that is 0 and can change.

    Notes
    -----
    `skeel` is the condition number of Skeel (1979); `mixed` and `componentwise` are named as in Gohberg and Koltracht
    (1993).
    """

    normwise: Any
    skeel: Any
    mixed: Any
    componentwise: Array

    def __repr__(self) -> str:
        return f"Condition({', '.join(f'{each.name}={_written(getattr(self, each.name))}' for each in fields(self))})"


def _written(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python doesn't write integers of more than 4300 digits
        return str(np.vectorize(lambda number: str(short(number)), otypes=[object])(value))


def condition(a: Any, u: Any, x0: Any = None, *, axis: int = -1) -> Condition:
    """Return the condition numbers of the recurrence, in O(n).

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, which broadcast. Exact scalars in object arrays give exact condition numbers; floats
        are computed with, in float64.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the states without `axis`; it isn't changed.
    axis : int, default -1
        The axis of the states along which the recurrence runs.

    Returns
    -------
    Condition

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
    DTypeError
        If the numbers aren't real.

    Notes
    -----
    Skeel (1979), Gohberg and Koltracht (1993); derived on the page on rounding bounds ("Whose fault is it?").

    Examples
    --------
    >>> from fractions import Fraction
    >>> a, u = np.full(3, Fraction(1, 2)), np.full(3, Fraction(1))
    >>> c = condition(a, u)
    >>> [str(value) for value in (c.normwise, c.skeel, c.mixed)]
    ['21/8', '5/2', '11/7']
    >>> [str(value) for value in c.componentwise]
    ['1', '4/3', '11/7']
    """
    a, u, x0, axis = without_labels(a, u, x0, axis)
    coefficients, inputs, _ = as_operands(a, u)
    coefficients, inputs = time_first(coefficients, inputs, axis)
    shape = inputs.shape
    if coefficients.dtype.kind == "c":
        raise DTypeError("condition numbers here are those of real recurrences, got complex numbers")
    kind = np.dtype(object) if coefficients.dtype == object else np.dtype(np.float64)
    coefficients, inputs = (values.astype(kind) for values in (coefficients, inputs))
    state = None if x0 is None else np.broadcast_to(initial_state(x0, shape[1:], kind), shape[1:])

    with np.errstate(all="ignore"):
        x = _solve(coefficients, inputs, state)
        before = np.zeros_like(x)
        before[1:] = x[:-1]
        if state is not None:
            before[:1] = state
        moduli = np.abs(coefficients)
        changes = _solve(moduli, moduli * np.abs(before) + np.abs(inputs), None)
        own = moduli.copy()
        own[:1] = 0  # the first coefficient isn't part of the matrix
        rows = _solve(moduli, 1 + own, None)
    componentwise = np.empty(shape, dtype=kind)
    for at in np.ndindex(shape):
        componentwise[at] = _quotient(changes[at], abs(x[at]))
    normwise, skeel, mixed = (np.empty(shape[1:], dtype=kind) for _ in range(3))
    for channel in np.ndindex(shape[1:]):
        at = (slice(None), *channel)
        normwise[channel] = transfer_norm(coefficients[at], np.inf) * bidiagonal_norm(coefficients[at], np.inf)
        skeel[channel] = largest(rows[at])
        mixed[channel] = _quotient(largest(changes[at]), largest(np.abs(x[at])))
    worst, entrywise, relative = (each if each.ndim else each.item() for each in (normwise, skeel, mixed))
    return Condition(worst, entrywise, relative, np.moveaxis(componentwise, 0, axis))


def _solve(a: Array, u: Array, x0: Any) -> Array:
    return forward(a, u, x0) if a.dtype == object else np.asarray(solve(a, u, axis=0, x0=x0))


def _quotient(change: Any, size: Any) -> Any:
    """Return how large a change is next to what changes: 0 / 0 is no change."""
    if not size:
        return np.inf if change else change
    try:
        with np.errstate(all="ignore"):
            return change / size
    except ZeroDivisionError:  # a fraction that is 0 as the float that it becomes beside one
        return np.inf
