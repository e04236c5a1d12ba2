"""What causes an error: backward errors blame the algorithm, condition numbers blame the recurrence.

**Backward errors** say how much coefficients and inputs must change to make computed states exact. The computed states
x^ solve x^_i = (a_i + da_i) x^_{i-1} + (u_i + du_i) with |da_i| <= e |a_i| and |du_i| <= e |u_i|. The smallest such e
is the residual over |a_i x^_{i-1}| + |u_i| (Oettli and Prager 1964). The sequential algorithm computes
((a_i x^_{i-1}) (1 + d) + u_i) (1 + d'). So its e is at most (1 + u)^2 - 1, or u with fused multiply-adds.

**Condition numbers** say how much relative changes of coefficients and inputs can change the states. If |da_i| <=
e |a_i| and |du_i| <= e |u_i|, the states change by dx = L (da x_{i-1} + du) to first order. This is at most e times
|L| (|AZ| |x| + |u|), and that is attained (Skeel 1979; Gohberg and Koltracht 1993). The product of a condition number
and a backward error bounds the forward error of any algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, as_operands, broadcast_shape, check_axis, check_step, initial_state
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.factorizations.norms import bidiagonal_norm, largest, transfer_norm
from recfact.plain_records import PlainRecord
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import Loss
from recfact.precision.exact.outward import round_up
from recfact.precision.reals import as_rationals, as_reals
from recfact.precision.sequences import time_first
from recfact.recurrence import forward
from recfact.solve import solve
from recfact.written_numbers import at_most, short


@dataclass(frozen=True, slots=True, repr=False)
class BackwardError(PlainRecord):
    """The smallest componentwise change of a recurrence that explains given states.

    Parameters
    ----------
    relative : ndarray of float64, shape of the states
        The relative size of the changes, rounded up. It is the same for the coefficient and for the input. It is
        infinite where both a_i x_{i-1} and u_i are 0 and the state is not.
    da, du : ndarray of object, shape of the states
        The changes themselves, as exact Fractions. The recurrence with a + da and u + du has exactly the given states.

    Notes
    -----
    Oettli and Prager (1964).
    """

    relative: Array
    da: Array
    du: Array

    def __repr__(self) -> str:
        largest = f"{at_most(self.largest, 6):.6g}"
        return f"<backward errors of {self.relative.size} states, the largest relative change {largest}>"

    @property
    def largest(self) -> float:
        """The largest relative change."""
        return float(np.max(self.relative, initial=0.0))


def backward_error(a: Any, u: Any, x: Any, x0: Any = None, *, axis: int = -1) -> BackwardError:
    """Measure the componentwise backward error of computed states, exactly.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs. They broadcast.
    x : array_like
        States that any algorithm has computed.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the states without `axis`.
    axis : int, default -1
        The axis of the states along which the recurrence runs.

    Returns
    -------
    BackwardError

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
    OptionError
        If a number is infinite or NaN.

    Notes
    -----
    The componentwise backward error of Oettli and Prager (1964).

    Examples
    --------
    >>> from recfact import precision as pr
    >>> a, u = np.full(2000, 1 - 2**-11), np.ones(2000)
    >>> x = pr.rounded_solve(a, u, "float16")
    >>> float(x[-1]), backward_error(a, u, x).largest < 2**-10
    (1024.0, True)
    """
    a, u, x, x0, axis = _without_labels(a, u, x, x0, axis)
    coefficients, inputs, states, before = _exact_arrays(a, u, x, x0, axis)
    relative = np.zeros(states.shape)
    da, du = (np.full(states.shape, Fraction(0), dtype=object) for _ in range(2))
    for at in np.ndindex(states.shape):
        product = coefficients[at] * before[at]
        residual, scale = states[at] - product - inputs[at], abs(product) + abs(inputs[at])
        if residual and not scale:
            relative[at] = np.inf
        elif residual:
            share = residual / scale
            relative[at] = round_up(share)
            da[at] = share * abs(coefficients[at]) * ((before[at] > 0) - (before[at] < 0))
            du[at] = share * abs(inputs[at])
    return BackwardError(*(np.moveaxis(each, 0, axis) for each in (relative, da, du)))


def backward_error_bound(
    a: Any,
    u: Any,
    x: Any,
    format: Any,
    *,
    x0: Any = None,
    axis: int = -1,
) -> Array:
    """Bound the componentwise backward error of the sequential algorithm.

    Parameters
    ----------
    a, u, x, x0, axis
        As for `backward_error`.
    format : str, dtype, FloatFormat or Arithmetic
        The number format, or the whole arithmetic, as for `rounded_solve`. It must accumulate in the same format.

    Returns
    -------
    ndarray of float64, shape of `x`
        The bound, rounded up. It is (1 + u)^2 - 1, or u with fused multiply-adds. Here u is the unit roundoff of the
        format, doubled if it doesn't round to nearest. What underflow may add is included where a product is below the
        smallest normal number, or where a state isn't above it.

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
    OptionError
        If a number is infinite or NaN, or an option isn't one of its values.

    Notes
    -----
    Derived on the page on rounding bounds ("Whose fault is it?").

    Examples
    --------
    >>> backward_error_bound([0.5, 0.5], [1.0, 1.0], [1.0, 1.5], "float16").tolist()
    [0.0, 0.0009768009185791016]
    """
    how = Arithmetic.of(format).of_given_operands()
    fmt, loss = how.format, Loss(how.format, how)
    if how.accumulate != fmt:
        required = (
            f"must be {fmt} too, because states have a backward error of their own only if one format computes them"
        )
        raise OptionError(required, "accumulate", given=how.accumulate.name, advice="leave it out")
    if np.isinf(loss.quantum):
        raise OptionError(
            f"the bounds are in float64, which doesn't hold the smallest numbers of {fmt}; pass another format"
        )
    unit = Fraction(loss.unit)
    relative = unit if how.fma else unit * (2 + unit)
    a, u, x, x0, axis = _without_labels(a, u, x, x0, axis)
    coefficients, inputs, states, before = _exact_arrays(a, u, x, x0, axis)
    smallest = Fraction(fmt.smallest_normal)
    bound = np.zeros(states.shape)
    for at in np.ndindex(states.shape):
        product: Any = coefficients[at] * before[at]
        state: Any = states[at]
        own: Any = inputs[at]
        scale = abs(product) + abs(own)
        # A sum with 0 is not rounded, unless it is flushed.
        if (product or loss.sum_quantum) and scale:
            absolute = Fraction(0)
            if 0 < abs(product) < smallest:
                absolute += (1 + unit) * Fraction(loss.quantum)
            if abs(state) <= smallest:  # smaller numbers may round to it
                absolute += Fraction(loss.sum_quantum)
            bound[at] = round_up(relative + absolute / scale)
    return np.moveaxis(bound, 0, axis)


def _without_labels(a: Any, u: Any, x: Any, x0: Any, axis: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return all arrays without labels, after a check that their labels agree, and the number of the axis."""
    for given in (u, a):
        _, states, _, _ = without_labels(given, x, None, axis)
    a, u, x0, axis = without_labels(a, u, x0, axis)
    return a, u, states, x0, axis


def _exact_arrays(a: Any, u: Any, x: Any, x0: Any, axis: int) -> tuple[Array, Array, Array, Array]:
    """Return coefficients, inputs, states and the states before them as Fractions, with time along the first axis."""
    given = [as_reals(values, name) for values, name in ((a, "a"), (u, "u"), (x, "x"))]
    shape = broadcast_shape(given[0], given[1])
    if given[2].shape != shape:
        raise ShapeError(f"x must have the shape of a and u together, {shape}, got {given[2].shape}")
    time = check_axis(axis, len(shape))
    coefficients, inputs, states = (np.moveaxis(_fractions(values, shape), time, 0) for values in given)
    before = np.empty_like(states)
    before[1:] = states[:-1]
    state = as_reals(0 if x0 is None else x0, "x0")
    check_step(state.shape, states.shape[1:])
    before[:1] = _fractions(state, states.shape[1:])
    return coefficients, inputs, states, before


def _fractions(values: Array, shape: tuple[int, ...]) -> Array:
    exact = as_rationals(values)
    if any(isinstance(value, float) for value in exact.flat):
        raise OptionError("backward errors need finite numbers, got NaN or infinity; leave out such steps")
    return np.broadcast_to(exact, shape)


@dataclass(frozen=True, slots=True, repr=False)
class Condition(PlainRecord):
    """Condition numbers of a recurrence. There is one of each for every channel; the last is for every state.

    Parameters
    ----------
    normwise : scalar or ndarray, shape (...)
        ``||L|| ||I - AZ||`` in the maximum norm. It is for changes anywhere in the matrix that are small compared with
        its norm.
    skeel : scalar or ndarray, shape (...)
        ``|| |L| |I - AZ| ||`` in the maximum norm. It is for relative changes of each coefficient, for the worst
        inputs. It doesn't depend on the scaling of rows.
    mixed : scalar or ndarray, shape (...)
        The largest change of a state over the largest state. It is for relative changes of every a_i and u_i.
    componentwise : ndarray, shape of the states
        The relative change of each state. It is infinite for a state that is 0 and can change.

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
        Coefficients and inputs. They broadcast. Exact scalars in object arrays give exact condition numbers. For floats
        the computation is in float64.
    x0 : scalar or array_like, optional
        State before the first step. It broadcasts against the states without `axis`. It counts as free of changes.
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
        raise DTypeError("condition numbers need real coefficients and inputs, got complex ones")
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
    """Return a change relative to the number that changes. 0 / 0 is no change."""
    if not size:
        return np.inf if change else change
    try:
        with np.errstate(all="ignore"):
            return change / size
    except ZeroDivisionError:  # a fraction that is 0 as the float that it becomes beside one
        return np.inf
