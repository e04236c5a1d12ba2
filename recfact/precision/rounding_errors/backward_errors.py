"""Componentwise backward errors: by how much coefficients and inputs change so that computed states become exact ones.

The states x^ solve x^_i = (a_i + da_i) x^_{i-1} + (u_i + du_i) with |da_i| <= e |a_i| and |du_i| <= e |u_i| for no
smaller e than the residual over |a_i x^_{i-1}| + |u_i| (Oettli and Prager 1964). The sequential algorithm computes
((a_i x^_{i-1}) (1 + d) + u_i) (1 + d'), so it needs no more than (1 + u)^2 - 1, and with fused multiply-adds u.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, broadcast_shape, check_axis, check_step
from recfact.checks import boolean
from recfact.containers import without_labels
from recfact.errors import OptionError, ShapeError
from recfact.precision.exact.outward import round_up
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.reals import as_rationals, as_reals
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.error_bounds import BoundArithmetic


@dataclass(frozen=True, slots=True)
class BackwardError:
    """The smallest componentwise change of a recurrence that explains given states.

    Parameters
    ----------
    relative : ndarray of float64, shape of the states
        The size of the changes in terms of the coefficient and of the input, the same for both, rounded up.
        Infinite where both a_i x_{i-1} and u_i are 0 and the state is not.
    da, du : ndarray of object, shape of the states
        The changes themselves, exact Fractions: the recurrence with a + da and u + du has the given states.

    Notes
    -----
    Oettli and Prager (1964).
    """

    relative: Array
    da: Array
    du: Array

    @property
    def largest(self) -> float:
        """The largest relative change."""
        return float(np.max(self.relative, initial=0.0))


def backward_error(a: Any, u: Any, x: Any, x0: Any = None, *, axis: int = -1) -> BackwardError:
    """Measure the componentwise backward error of computed states, exactly.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, which broadcast.
    x : array_like
        Computed states, of any algorithm.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the states without `axis`.
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
    fma: bool = False,
    x0: Any = None,
    axis: int = -1,
    rounding: str = "nearest-even",
    underflow: str = "gradual",
) -> Array:
    """Bound the componentwise backward error of the sequential algorithm.

    Parameters
    ----------
    a, u, x, x0, axis
        As for `backward_error`.
    format, fma, rounding, underflow
        The arithmetic, as in `rounded_solve`.

    Returns
    -------
    ndarray of float64, shape of `x`
        (1 + u)^2 - 1, or u with fused multiply-adds, with the unit roundoff u of the format, doubled where it doesn't
        round to nearest; where a product is below the smallest normal number, or a state not above it, what underflow
        may add. Rounded up.

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
    fmt = format_of(format)
    Arithmetic(fmt, rounding, underflow=underflow)  # checks the options
    limits = BoundArithmetic(fmt, rounding, underflow)
    if np.isinf(limits.quantum):
        raise OptionError(
            f"the bounds are floats, and float64 doesn't reach the smallest numbers of {fmt}; pass another"
        )
    unit = Fraction(limits.unit)
    relative = unit if boolean(fma, "fma") else unit * (2 + unit)
    a, u, x, x0, axis = _without_labels(a, u, x, x0, axis)
    coefficients, inputs, states, before = _exact_arrays(a, u, x, x0, axis)
    smallest = Fraction(fmt.smallest_normal)
    bound = np.zeros(states.shape)
    for at in np.ndindex(states.shape):
        product: Any = coefficients[at] * before[at]
        state: Any = states[at]
        own: Any = inputs[at]
        scale = abs(product) + abs(own)
        # What is added to 0 is not rounded, unless it is flushed.
        if (product or limits.sum_quantum) and scale:
            absolute = Fraction(0)
            if 0 < abs(product) < smallest:
                absolute += (1 + unit) * Fraction(limits.quantum)
            if abs(state) <= smallest:  # what is below it may round to it
                absolute += Fraction(limits.sum_quantum)
            bound[at] = round_up(relative + absolute / scale)
    return np.moveaxis(bound, 0, axis)


def _without_labels(a: Any, u: Any, x: Any, x0: Any, axis: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return all arrays without labels, which must be those of each other, and the number of the axis."""
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
        raise OptionError("backward errors are those of finite numbers, got NaN or infinity; leave out such steps")
    return np.broadcast_to(exact, shape)
