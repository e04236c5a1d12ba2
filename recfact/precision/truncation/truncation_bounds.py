"""What a window can leave out at most, for all coefficients up to rho in magnitude.

The error operators depend on the coefficients' magnitudes alone and grow with them in every norm here, so a constant
coefficient rho is the worst case: `recfact.precision.truncation.constant_coefficient` has its errors in closed form.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import LONGEST, choice, positive_integer
from recfact.errors import OptionError
from recfact.factorizations.norms import check_order
from recfact.precision.exact.outward import Upward
from recfact.precision.reals import Number, as_rational, read_number
from recfact.precision.truncation.constant_coefficient import Cut, error_norm, largest_error, relative_norm
from recfact.windows import WindowLike
from recfact.written_numbers import short

CLOSEST = 1 << 11
"""The binary places of a rho next to 1; of more, a 2-norm takes more than seconds."""


def truncation_bound(
    window: WindowLike,
    rho: Any,
    ord: Any = np.inf,
    *,
    n: int | None = None,
    relative_to: str = "input",
    nu: Any = 1,
    x0: Any = 0,
) -> float:
    """Return the largest truncation error that coefficients up to `rho` in magnitude can bring.

    Parameters
    ----------
    window : Uniform, Jagged or Full
        What is kept.
    rho : real number
        Bound of all coefficients' magnitudes, at least 0; it may be 1 or larger. A float counts as what it is exactly,
        a string like "0.9" or a Fraction as the number it writes.
    ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
        The norm. With numpy.inf the bound holds for the largest error of a step.
    n : int, optional
        Number of steps; any number, however large, if left out.
    relative_to : {"input", "state"}, default "input"
        Whether the error is compared with the inputs, ``norm(x - x~) <= bound`` for all inputs of norm `nu` at most, or
        with the exact states, ``norm(x - x~) <= bound * norm(x)``.
    nu, x0 : real number
        Bounds of the inputs' norm and of the initial state's magnitude, for errors relative to the input.

    Returns
    -------
    float
        The supremum, rounded up; for ``ord=2`` it may be larger than that if rho > 1 or the last block isn't whole.
        Infinite where there is no bound.

    Raises
    ------
    OptionError
        If `rho`, `nu` or `x0` is negative, infinite or NaN, if `rho` is another number than 1 and nearer to it than
        2^-2048, or an option isn't one of its values.

    Notes
    -----
    The `truncation_witness` for a constant coefficient attains the suprema. With ``geo(N)`` the sum of rho^j over
    j < N, and q lost states, ``norm(E)`` is rho^(ml+1) geo(q l) in the orders 1 and inf; the 2-norm is
    rho^(ml+1) (1 - rho^(2l)) / (1 - rho^2) times that of the inverse of the q x q bidiagonal matrix with 1 and -rho^l.

    Derived on the page on truncation bounds, equations (3) to (5).

    Examples
    --------
    >>> from recfact import Jagged, Uniform
    >>> truncation_bound(Jagged(16), "0.8", n=256), truncation_bound(Jagged(16), "0.8", relative_to="state")
    (0.11258999068426241, 0.02251799813685248)
    >>> truncation_bound(Uniform(100), 1)
    inf
    """
    order = check_order(ord)
    choice(relative_to, "relative_to", ("input", "state"))
    largest, given, state = magnitude(rho, "rho"), magnitude(nu, "nu"), magnitude(x0, "x0")
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


def pointwise_truncation_bound(window: WindowLike, rho: Any, n: int, *, nu: Any = 1, x0: Any = 0) -> Array:
    """Return the largest truncation error of each step for coefficients up to `rho` and inputs up to `nu` in magnitude.

    Parameters
    ----------
    window, rho : Window, real number
        As for `truncation_bound`.
    n : int
        Number of steps.
    nu, x0 : real number
        Bounds of every input's and of the initial state's magnitude.

    Returns
    -------
    ndarray of float64, shape (n,)
        rho^(ml+k) (nu geo(N) + rho^N x0) for step k = 1 .. l of a block that loses the state at step N, and 0 for steps
        that lose none; rounded up. Attained where all coefficients are rho, all inputs nu, and the initial state is x0.

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
    >>> pointwise_truncation_bound(Jagged(2), 0.5, 6)
    array([0.     , 0.     , 0.     , 0.     , 0.1875 , 0.09375])
    """
    largest, given, state = (
        Upward.of(magnitude(value, name)) for value, name in ((rho, "rho"), (nu, "nu"), (x0, "x0"))
    )
    steps = positive_integer(n, "n", least=0, most=LONGEST)
    bounds = np.zeros(steps)
    cut = Cut.of(window, steps)
    if cut is None:
        return bounds
    power = Upward(1)
    weights = []  # of the steps of a block
    for _ in range(cut.longest):
        power = power * largest
        weights.append(power)
    passed = Upward(1)
    for bit in f"{cut.terms * cut.block:b}":
        passed = passed * passed * (largest if bit == "1" else 1)
    weights = [passed * weight for weight in weights]
    for start in range(cut.first, steps, cut.block):
        for _ in range(cut.block):
            state = largest * state + given
        stop = min(start + cut.block, steps)
        bounds[start:stop] = [float(weight * state) for weight in weights[: stop - start]]
    return bounds


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
