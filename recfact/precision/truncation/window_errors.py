"""What a window can leave out for given coefficients: proved norms of the error, and the inputs that reach them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.checks import choice
from recfact.errors import OptionError
from recfact.factorizations.norms import check_order
from recfact.factorizations.scalars import as_coefficients
from recfact.factorizations.transfer import truncate
from recfact.factorizations.truncated import TruncatedOperator
from recfact.factorizations.truncation_error import RelativeErrorOperator
from recfact.precision.exact.outward import Upward
from recfact.precision.time_axis import check_sequence
from recfact.recurrence import forward
from recfact.windows import Window, WindowLike, check_window

as_upward = np.frompyfunc(Upward.of, 1, 1)


def truncation_norm(a: Any, window: WindowLike, ord: Any = np.inf, *, relative_to: str = "input") -> float:
    """Return the largest truncation error that any inputs bring, for given coefficients, rounded up.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients: real numbers of any kind; floats count as what they are exactly.
    window : Uniform, Jagged or Full
        What is kept.
    ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
        The norm.
    relative_to : {"input", "state"}, default "input"
        Whether the error is compared with the inputs, ``norm(x - x~) <= bound * norm(u)``, or with the exact states,
        ``norm(x - x~) <= bound * norm(x)``.

    Returns
    -------
    float
        At least the norm of E = L - L~, or of the N in L~ = (I - N) L, and larger by some units of rounding at most.
        The same norms without proof, and faster, are `error_norm` and `relative_error_norm` of ``L.truncate(window)``.

    Raises
    ------
    ShapeError
        If the coefficients aren't one sequence.
    OptionError
        If a coefficient is infinite or NaN, or an option isn't one of its values.

    Notes
    -----
    The norms' own algebra runs in numbers of 128 bits that are rounded up. For the 2-norm it proves a guess: every
    sigma with positive pivots in `recfact.factorizations.carrier_norm` is an upper bound.

    Derived on the page on windows ("The error as an operator").

    Examples
    --------
    >>> from recfact import Jagged
    >>> truncation_norm([0.5] * 16, Jagged(4)), truncation_norm([0.5] * 16, Jagged(4), relative_to="state")
    (0.062255859375, 0.03125)
    """
    order = check_order(ord)
    choice(relative_to, "relative_to", ("input", "state"))
    operator = upward_operator(sequence_of(a), window)
    if operator is None:
        return 0.0
    if relative_to == "state":
        return float(operator.relative_error_norm(order))
    if order == 2:
        return float(spectral_norm(operator, a))
    return float(operator.error_norm(order))


def sequence_of(a: Any) -> Array:
    """Return the coefficients of one sequence."""
    check_sequence(as_numpy(a, "a"), "a")
    return as_coefficients(a)


def upward_operator(a: Any, window: WindowLike) -> TruncatedOperator | None:
    """Return the truncated operator of the coefficients' magnitudes, rounded up; None if nothing can be lost."""
    operator = truncate(as_coefficients(a), check_window(window))
    if not isinstance(operator, TruncatedOperator):
        return None
    magnitudes = as_upward(operator.a) if len(operator.a) else operator.a.astype(object)
    if len(magnitudes):
        magnitudes[0] = Upward(0)  # it multiplies the initial state alone, which is part of the first input
    return truncate(magnitudes, window)  # type: ignore[return-value]


def spectral_norm(operator: TruncatedOperator, a: Any) -> Upward:
    """Return an upper bound of the 2-norm of E, proved by its pivots."""
    if len(operator.relative_error_operator().weights) == 0:
        return Upward(0)
    bundles = state_bundles(operator)
    with np.errstate(all="ignore"):
        guess = truncate(as_floats(a), operator.window).error_norm(2)  # type: ignore[union-attr]
    slack = 2.0**-51
    while slack < 1 and 0 < guess < inf:
        sigma = Upward.of(guess) * Upward.of(1 + slack)
        if is_above(sigma, *bundles):
            return sigma
        slack *= 4
    return (operator.error_norm(1) * operator.error_norm(np.inf)) ** 0.5  # type: ignore[no-any-return]


def state_bundles(operator: TruncatedOperator) -> tuple[Array, Array, Array]:
    """Return outputs, factors and squared inputs of the carrier problem that has the norm of E; see `ErrorOperator`."""
    relative = operator.relative_error_operator()
    states = relative.sources[relative.starts]
    begins = np.append(0, states[:-1] + 1)
    restarted = operator.a[: states[-1] + 1].copy()
    factors = np.multiply.reduceat(restarted, begins)
    restarted[begins] = Upward(0)
    squares = forward(restarted * restarted, np.ones(len(restarted), dtype=object))[states]
    return relative.lengths(relative.weights), factors, squares


def is_above(sigma: Upward, outputs: Array, factors: Array, squares: Array) -> bool:
    """Return whether the pivots of `carrier_norm` prove that sigma is above the norm."""
    reciprocal = sigma.reciprocal()
    gain = Upward(0)
    for output, factor, square in zip(reversed(outputs), reversed(factors), reversed(squares), strict=True):
        scaled = output * reciprocal
        supply = scaled * scaled + gain
        passed = (factor * factor * supply).over_complement(supply * square)
        if passed is None:
            return False
        gain = passed
    return True


def truncation_witness(a: Any, window: WindowLike, ord: Any = np.inf, *, relative_to: str = "state") -> Array:
    """Return inputs for which the truncation error is as large as it can be for given coefficients.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, real.
    window, relative_to : Window, str
        As for `truncation_norm`.
    ord : {1, 2, numpy.inf}, default numpy.inf
        The norm in which the error is the largest one.

    Returns
    -------
    ndarray, shape (n,)
        Relative to the state: u = e_j - a[j+1] e_(j+1), whose only state is x[j] = 1, the one that is lost with the
        largest weight. Relative to the input: a 1 in one place for the order 1; 1 and -1 with the signs of a row of E
        for numpy.inf; the first right singular vector, in floats, for 2. The others are exact in the coefficients' own
        arithmetic. Zeros if nothing is ever lost.

    Raises
    ------
    ShapeError
        If the coefficients aren't one sequence.
    OptionError
        If `ord` is none of these.

    Notes
    -----
    Derived on the page on truncation bounds ("Relative to the states").

    Examples
    --------
    >>> from recfact import Jagged
    >>> truncation_witness([0.5] * 12, Jagged(4))
    array([ 0. ,  0. ,  0. ,  1. , -0.5,  0. ,  0. ,  0. ,  0. ,  0. ,  0. ,  0. ])
    """
    order = check_order(ord)
    window = check_window(window)
    if order == "fro":
        raise OptionError("the Frobenius norm isn't reached by single inputs; ask for the order 1, 2 or numpy.inf")
    choice(relative_to, "relative_to", ("input", "state"))
    coefficients = sequence_of(a)
    inputs = np.zeros(len(coefficients), dtype=int).astype(coefficients.dtype)
    magnitudes = _magnitudes(coefficients, window)
    if magnitudes is None or not np.any(magnitudes.relative_error_operator().weights != 0):
        return inputs
    error, relative = magnitudes.error_operator(), magnitudes.relative_error_operator()
    if relative_to == "state":
        j = _heaviest_state(relative, order)
        inputs[j], inputs[j + 1] = 1, -coefficients[j + 1]
        return inputs
    ones = np.ones(len(coefficients), dtype=int).astype(magnitudes.a.dtype)
    if order == 1:
        inputs[int(np.argmax(error.T @ ones))] = 1
        return inputs
    # E(a) = D E(|a|) D with the signs of the products of coefficients in D.
    signs = np.multiply.accumulate(np.where(coefficients < 0, -1, 1))
    if order == 2:
        return signs * _singular_vector(coefficients, window)
    row = int(np.argmax(error @ ones))
    lost = relative.sources[row - (len(ones) - len(relative.weights))]
    inputs[: lost + 1] = (signs[: lost + 1] * signs[row]).astype(coefficients.dtype)
    return inputs


def _magnitudes(coefficients: Array, window: Window) -> TruncatedOperator | None:
    """Return the operator of the magnitudes: in floats, if all that is lost is in their range, or else rounded up."""
    upward = upward_operator(coefficients, window)  # refuses what isn't real and finite
    if upward is None or coefficients.dtype == object:
        return upward
    floats = truncate(np.abs(coefficients), window)
    assert isinstance(floats, TruncatedOperator)
    with np.errstate(all="ignore"):
        weights = floats.relative_error_operator().weights
        sums = floats.error_operator() @ np.ones(len(coefficients))
    return floats if np.all(weights != 0) and np.all(np.isfinite(weights)) and np.all(np.isfinite(sums)) else upward


def _heaviest_state(relative: RelativeErrorOperator, order: Any) -> int:
    """Return the state whose column of N has the largest norm; its entries are non-negative."""
    if order == 1:
        return int(np.argmax(relative.collect(relative.weights)))
    if order == 2:
        return int(relative.sources[relative.starts][np.argmax(relative.lengths(relative.weights))])
    return int(relative.sources[np.argmax(relative.weights)])


def _singular_vector(coefficients: Array, window: Window) -> Array:
    """Return the right singular vector of the largest singular value of E for the magnitudes, in float64.

    Raises
    ------
    OptionError
        If products of the coefficients are out of the range of float64.
    """
    from scipy.sparse.linalg import ArpackError, svds

    n = len(coefficients)
    if n == 1:
        return np.ones(1)
    with np.errstate(all="ignore"):
        error = truncate(np.abs(as_floats(coefficients)), window).error_operator()  # type: ignore[union-attr]
        sums = np.concatenate([error @ np.ones(n), error.T @ np.ones(n)])
        if 1e-150 < sums.max() < 1e150:  # beyond, squares leave the range
            try:
                _, _, vectors = svds(error, k=1, v0=np.ones(n))
                return np.asarray(np.abs(np.asarray(vectors)[0]))
            except ArpackError:
                pass
    raise OptionError(
        "the witness of the 2-norm is computed in float64, whose range products of these coefficients leave; ask for "
        "the order 1 or numpy.inf"
    )


def as_floats(a: Any) -> Array:
    """Return real numbers as float64, infinite where they are beyond its range."""

    def nearest(value: Any) -> float:
        try:
            return float(value)
        except OverflowError:
            return inf

    coefficients = as_coefficients(a)
    if coefficients.dtype != object:
        return coefficients.astype(np.float64)
    return np.array([nearest(value) for value in coefficients])
