"""Bounds of what a window leaves out: before the solve, and from its result.

**Before the solve**, for all coefficients up to rho in magnitude. The norms of the error depend on the magnitudes of
the coefficients alone, and they grow with them. So the constant coefficient rho is the worst case.
`recfact.precision.truncation.constant_coefficient` has its errors in closed form.

**From the truncated states**, after the solve. Neither inputs nor exact states are needed.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import LONGEST, choice, positive_integer
from recfact.containers import without_labels
from recfact.errors import OptionError, OptionTypeError, ShapeError
from recfact.factorizations.norms import check_order
from recfact.precision.exact.outward import Upward, floats_up
from recfact.precision.reals import Number, as_rational, one_bound, read_number
from recfact.precision.sequences import segments_of, time_first
from recfact.precision.truncation.constant_coefficient import Cut, error_norm, largest_error, relative_norm
from recfact.precision.truncation.window_errors import upward_operator
from recfact.windows import Window, WindowLike, check_window
from recfact.written_numbers import short

PIECE = 1 << 14
"""Steps whose weights are held at a time, or those of a window if they are more."""

CLOSEST = 1 << 11
"""The binary places of a rho next to 1; of more, a 2-norm takes more than seconds."""


def truncation_bound(
    rho: Any,
    window: WindowLike,
    ord: Any = np.inf,
    *,
    n: int | None = None,
    relative_to: str = "input",
    nu: Any = 1,
    x0: Any = 0,
) -> float:
    """Return the largest truncation error that coefficients up to `rho` in magnitude can cause.

    Parameters
    ----------
    rho : real number
        Bound of the magnitudes of all coefficients, at least 0. It may be 1 or larger. A float counts as exactly the
        number that it holds. A string like "0.9" and a Fraction count as the number that they write.
    window : Uniform, Jagged or Full
        The window, which says what is kept.
    ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
        The norm. With numpy.inf the bound holds for the largest error of a step.
    n : int, optional
        Number of steps. If left out, the bound holds for any number of steps.
    relative_to : {"input", "state"}, default "input"
        What the error is compared with. "input": ``norm(x - x~) <= bound`` for all inputs whose norm is at most `nu`.
        "state": ``norm(x - x~) <= bound * norm(x)``, where x are the exact states.
    nu, x0 : real number
        Bounds of the norm of the inputs and of the magnitude of the initial state, for errors relative to the input.

    Returns
    -------
    float
        The supremum of the error, rounded up. For ``ord=2`` the result may be larger than the supremum, if rho > 1 or
        if the last block is shorter than the others. Infinite if there is no bound.

    Raises
    ------
    OptionError
        If `rho`, `nu` or `x0` is negative, infinite or NaN. If `rho` is closer to 1 than 2^-2048 without being 1. If
        an option isn't one of its values.

    Notes
    -----
    The suprema are attained: by the inputs that `truncation_witness` returns for a constant coefficient. Let ``geo(N)``
    be the sum of rho^j over j < N, and q the number of lost states. In the orders 1 and inf, ``norm(E)`` is
    rho^(ml+1) geo(q l). The 2-norm is rho^(ml+1) (1 - rho^(2l)) / (1 - rho^2) times the 2-norm of the inverse of a
    matrix: the q x q bidiagonal matrix with 1 on the diagonal and -rho^l below it.

    Derived on the page on truncation bounds, equations (3) to (5).

    Examples
    --------
    >>> from recfact import Jagged, Uniform
    >>> truncation_bound("0.8", Jagged(16), n=256), truncation_bound("0.8", Jagged(16), relative_to="state")
    (0.11258999068426241, 0.02251799813685248)
    >>> truncation_bound(1, Uniform(100))
    inf
    """
    order = check_order(ord)
    choice(relative_to, "relative_to", ("input", "state"))
    largest, given, state = largest_magnitude(rho), magnitude(nu, "nu"), magnitude(x0, "x0")
    cut = Cut.of(window, None if n is None else positive_integer(n, "n", least=0))
    if cut is None or largest == 0:
        return 0.0
    if 0 < abs(1 - largest) < Fraction(1, 1 << CLOSEST):
        raise OptionError(
            f"rho must be 1, or differ from it by at least 2^-{CLOSEST}, got {short(largest)}; pass 1, or a rounder one"
        )
    if relative_to == "state":
        return relative_norm(cut, largest, order)
    if order == np.inf:
        return largest_error(cut, largest, given, state)
    if not given and not state:
        return 0.0
    # The initial state is part of the first input.
    first = Upward.of(given) + Upward.of(largest) * Upward.of(state)
    norm = error_norm(cut, largest, order)
    return float(Upward.of(norm) * first) if norm < inf else inf


def pointwise_truncation_bound(rho: Any, window: WindowLike, n: int, *, nu: Any = 1, x0: Any = 0) -> Array:
    """Return the largest truncation error of each step, for coefficients up to `rho` and inputs up to `nu`.

    Parameters
    ----------
    rho, window : real number, Window
        As for `truncation_bound`.
    n : int
        Number of steps.
    nu, x0 : real number
        Bounds of the magnitude of every input and of the initial state.

    Returns
    -------
    ndarray of float64, shape (n,)
        For step k = 1 .. l of a block that loses the state at step N: rho^(ml+k) (nu geo(N) + rho^N x0). For steps that
        lose nothing: 0. All are rounded up. The error reaches these bounds if all coefficients are rho, all inputs are
        nu and the initial state is x0.

    Raises
    ------
    OptionError
        As `truncation_bound`.

    Notes
    -----
    Derived on the page on truncation bounds, equation (2).

    Examples
    --------
    >>> from recfact import Jagged
    >>> pointwise_truncation_bound(0.5, Jagged(2), 6)
    array([0.     , 0.     , 0.     , 0.     , 0.1875 , 0.09375])
    """
    largest, given, state = map(Upward.of, (largest_magnitude(rho), magnitude(nu, "nu"), magnitude(x0, "x0")))
    steps = positive_integer(n, "n", least=0, most=LONGEST)
    bounds = np.zeros(steps)
    cut = Cut.of(window, steps)
    if cut is None:
        return bounds
    power = Upward(1)
    weights = []  # of the steps of a block
    entered = Upward(0)  # in the last state of a block, of its own inputs
    for _ in range(cut.block):
        power = power * largest
        weights.append(power)
        entered = largest * entered + given
    passed = Upward(1)
    for bit in f"{cut.terms * cut.block:b}":
        passed = passed * passed * (largest if bit == "1" else 1)
    weights = [passed * weight for weight in weights]
    for start in range(cut.first, steps, cut.block):
        state = power * state + entered
        stop = min(start + cut.block, steps)
        bounds[start:stop] = floats_up([weight * state for weight in weights[: stop - start]])
    return bounds


def largest_magnitude(rho: Any) -> Fraction:
    """Return `rho` as a Fraction.

    Raises
    ------
    OptionTypeError
        If it is a window: up to version 0.1.0 the window came first.
    DTypeError, OptionError
        If it isn't one number, or doesn't bound magnitudes.
    """
    if isinstance(rho, Window) or (isinstance(rho, str) and ":" in rho):
        required = "must be a number, the largest magnitude of a coefficient"
        raise OptionTypeError(required, "rho", given=rho, advice="pass the number first, and then the window")
    return magnitude(one_bound(rho, "truncation_norm"), "rho")


def magnitude(value: Any, name: str) -> Fraction:
    """Return a bound of magnitudes as a Fraction.

    Raises
    ------
    OptionError
        If it is negative, infinite, NaN or a string that writes no number.
    """
    number: Number = float("nan")
    if isinstance(value, str):
        with suppress(ValueError):
            number = read_number(value)
    else:
        number = as_rational(value)
    if isinstance(number, float) or number < 0:
        raise OptionError("bounds magnitudes: it must be a finite number of at least 0", name, given=value)
    return number


def posterior_truncation_bound(
    a: Any, kept: Any, window: WindowLike, *, rounding: Any = 0.0, axis: int = -1, offsets: Any = None
) -> Array:
    """Return a bound of the truncation error of each step, from the truncated states.

    Step j loses the state of an earlier step i, with the weight w[j]. That exact state is at most the truncated state
    of step i plus the error of step i, and this error is bounded in the same way:
    ``sigma[j] = |x~[j]| + w[j] * sigma[i]``.

    Parameters
    ----------
    a, kept : array_like
        Real coefficients, and the truncated states as they were computed. The two broadcast.
    window : Uniform, Jagged or Full
        The window that the states were computed with.
    rounding : float or array_like, default 0
        Bound of the rounding errors in `kept`. It broadcasts to the shape of the states.
    axis : int, default -1
        The axis of the result along which time runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`.

    Returns
    -------
    ndarray of float64
        The bound, rounded up: ``|x - x~| <= bound``, where x~ are the truncated states without rounding. It takes O(n)
        time. For non-negative coefficients and inputs nothing cancels, and the bound is the error itself.

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
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
    array([0.       , 0.       , 0.       , 0.       , 0.1875   , 0.09375  , 0.234375 , 0.1171875])
    """
    a, kept, _, axis = without_labels(a, kept, None, axis)
    window = check_window(window)
    coefficients, states = time_first(as_numpy(a, "a"), as_numpy(kept, "kept"), axis)
    time = check_axis(axis, states.ndim)
    shape = np.moveaxis(states, 0, time).shape
    try:
        errors = np.moveaxis(np.broadcast_to(given := as_numpy(rounding, "rounding"), shape), time, 0)
    except ValueError:
        raise ShapeError(f"rounding must broadcast to shape {shape}, got {given.shape}") from None
    bounds = np.zeros(states.shape)
    for segment, *channel in product(segments_of(offsets, len(states)), *map(range, states.shape[1:])):
        at = (segment, *channel)
        bounds[at] = bound_of_one(coefficients[at], states[at], window, errors[at])
    return np.moveaxis(bounds, 0, time)


def bound_of_one(a: Array, kept: Array, window: Window, rounding: Array) -> Array:
    """Return the bounds of one sequence."""
    bounds = np.zeros(len(kept))
    if (cut := Cut.of(window, len(kept))) is None:
        return bounds
    block, first = cut.block, cut.first
    ends: dict[int, Upward] = {}  # the errors of states that later blocks lose
    step = -(-max(PIECE, first) // block) * block
    for start in range(first, len(kept), step):
        stop = min(start + step, len(kept))
        weights = upward_operator(a[start - first : stop], window).relative_error_operator().weights
        errors: list[Upward] = []
        for row in range(start, stop, block):
            j = row - cut.weight
            lost = Upward.of(kept[j]) + Upward.of(rounding[j]) + ends.pop(j, 0)
            errors += [weight * lost for weight in weights[row - start : row - start + block]]
            ends[row + block - 1] = errors[-1]
        bounds[start:stop] = floats_up(errors)
    return bounds


def posterior_truncation_norm(relative: Any, kept_norm: Any) -> Any:
    """Return a bound of the norm of the truncation error, from the norm of the truncated states.

    The exact states are x = x~ + N x, so norm(x) <= norm(x~) / (1 - norm(N)). The error is N x, so its norm is at most

        norm(N) / (1 - norm(N)) * norm(x~).

    Parameters
    ----------
    relative : float or array_like
        Bound of the norm of N. `truncation_norm` and `truncation_bound` return it with ``relative_to="state"``, the
        former for each sequence.
    kept_norm : float or array_like
        Bound of the norm of the truncated states, in the same order. It broadcasts against `relative`.

    Returns
    -------
    float or ndarray of float64
        The bound, rounded up. Infinite unless `relative` is below 1.

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
    OptionError
        If a norm is negative, infinite or NaN.
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
    norms, sizes = as_numpy(relative, "relative"), as_numpy(kept_norm, "kept_norm")
    try:
        norms, sizes = np.broadcast_arrays(norms, sizes)
    except ValueError:
        raise ShapeError(
            f"relative and kept_norm must broadcast, got shapes {norms.shape} and {sizes.shape}; give one number each "
            "for every sequence"
        ) from None
    bounds = np.asarray(_posterior_norms(norms, sizes), dtype=np.float64)
    return bounds if bounds.ndim else float(bounds)


def _posterior_norm(relative: Any, kept_norm: Any) -> float:
    norm, size = _norm(relative, "relative"), _norm(kept_norm, "kept_norm")
    share = norm.over_complement(norm)
    return inf if share is None else float(share * size)


def _norm(value: Any, name: str) -> Upward:
    number = as_rational(value)
    if isinstance(number, float) or number < 0:
        advice = "recfact.precision.posterior_truncation_bound takes coefficients and states themselves"
        raise OptionError("is a norm: it must be a finite number of at least 0", name, given=value, advice=advice)
    return Upward.of(number)


_posterior_norms = np.frompyfunc(_posterior_norm, 2, 1)
