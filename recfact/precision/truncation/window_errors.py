"""The truncation error for given coefficients: proved bounds of its norm, and the inputs that reach them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import choice
from recfact.containers import without_labels
from recfact.errors import OptionError
from recfact.factorizations.norms import check_order
from recfact.factorizations.scalars import as_coefficients
from recfact.factorizations.transfer import truncate
from recfact.factorizations.truncated import TruncatedOperator
from recfact.factorizations.truncation_error import RelativeErrorOperator
from recfact.precision.exact.outward import Upward
from recfact.precision.sequences import segments_of
from recfact.recurrence import forward
from recfact.windows import Full, Window, WindowLike, check_window

as_upward = np.frompyfunc(Upward.of, 1, 1)


def truncation_norm(
    a: Any, window: WindowLike, ord: Any = np.inf, *, relative_to: str = "input", axis: int = -1, offsets: Any = None
) -> Any:
    """Return the largest truncation error that any inputs cause, for given coefficients, rounded up.

    Parameters
    ----------
    a : array_like
        Coefficients of one sequence or many: real numbers of any kind. A float counts as exactly the number it holds.
    window : Uniform, Jagged or Full
        The window, which says what is kept.
    ord : {1, 2, numpy.inf, "fro"}, default numpy.inf
        The norm.
    relative_to : {"input", "state"}, default "input"
        What the error is compared with. "input": ``norm(x - x~) <= bound * norm(u)``. "state":
        ``norm(x - x~) <= bound * norm(x)``, where x are the exact states.
    axis : int, default -1
        The axis of `a` along which time runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. The norm is that of all segments
        together.

    Returns
    -------
    float or ndarray of float64
        An upper bound of the norm of E = L - L~ for "input", or of N in L~ = (I - N) L for "state". It exceeds the
        norm by some units of rounding at most. There is one for each sequence, in the shape of `a` without `axis`, and
        a float for one sequence. The methods `error_norm` and `relative_error_norm` of ``L.truncate(window)`` compute
        the same norms faster, but without proof.

    Raises
    ------
    ShapeError
        If `a` has no such axis.
    OptionError
        If a coefficient is infinite or NaN, or an option isn't one of its values.

    Notes
    -----
    The norms are computed in numbers of 128 bits that are rounded up. The 2-norm is first guessed and then proved:
    every sigma for which all pivots in `recfact.factorizations.carrier_norm` are positive is an upper bound.

    Derived on the page on windows ("The error as an operator").

    Examples
    --------
    >>> from recfact import Jagged
    >>> truncation_norm([0.5] * 16, Jagged(4)), truncation_norm([0.5] * 16, Jagged(4), relative_to="state")
    (0.062255859375, 0.03125)
    """
    order = check_order(ord)
    choice(relative_to, "relative_to", ("input", "state"))
    window = check_window(window)
    a, _, _, axis = without_labels(a, None, None, axis)
    coefficients = as_numpy(a, "a")
    sequences = np.moveaxis(coefficients, check_axis(axis, coefficients.ndim), -1)
    segments = segments_of(offsets, sequences.shape[-1])
    norms = np.empty(sequences.shape[:-1])
    for place in np.ndindex(norms.shape):
        parts = [norm_of_one(sequences[(*place, segment)], window, order, relative_to) for segment in segments]
        norms[place] = norm_of_blocks(parts, order)
    return norms if norms.ndim else float(norms)


def norm_of_blocks(norms: list[float], order: Any) -> float:
    """Return the norm of a block diagonal matrix from those of its blocks, rounded up."""
    if order != "fro" or len(norms) == 1 or max(norms) == inf:
        return max(norms)
    return float(sum((Upward.of(norm) ** 2 for norm in norms), Upward(0)) ** 0.5)


def norm_of_one(a: Array, window: Window, order: Any, relative_to: str) -> float:
    """Return the norm for one sequence."""
    operator = upward_operator(as_coefficients(a), window)
    if relative_to == "state":
        return float(operator.relative_error_norm(order))
    if order == 2:
        return float(spectral_norm(operator, a))
    return float(operator.error_norm(order))


def upward_operator(a: Any, window: WindowLike) -> TruncatedOperator:
    """Return the truncated operator of the coefficients' magnitudes, rounded up."""
    coefficients = as_coefficients(a)
    if isinstance(window, Full):  # which loses nothing, not even of an infinite coefficient
        return truncate(coefficients, window)
    magnitudes = as_upward(coefficients) if len(coefficients) else coefficients.astype(object)
    if len(magnitudes):
        magnitudes[0] = Upward(0)  # it multiplies the initial state alone, which is part of the first input
    return truncate(magnitudes, window)


def spectral_norm(operator: TruncatedOperator, a: Any) -> Upward:
    """Return an upper bound of the 2-norm of E, proved by its pivots."""
    if len(operator.relative_error_operator().weights) == 0:
        return Upward(0)
    bundles = state_bundles(operator)
    with np.errstate(all="ignore"):
        guess = truncate(as_floats(a), operator.window).error_norm(2)
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


def truncation_witness(
    a: Any, window: WindowLike, ord: Any = np.inf, *, relative_to: str = "state", axis: int = -1, offsets: Any = None
) -> Array:
    """Return inputs for which the truncation error is as large as it can be for given coefficients.

    Parameters
    ----------
    a : array_like
        Real coefficients of one sequence or many.
    window, relative_to : Window, str
        As for `truncation_norm`.
    ord : {1, 2, numpy.inf}, default numpy.inf
        The norm in which the error is the largest one.
    axis : int, default -1
        The axis of `a` along which time runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. Each is a sequence of its own.

    Returns
    -------
    ndarray
        The inputs, in the shape of `a`. Every sequence has its own worst case. All are zero if nothing is ever lost.

        Relative to the state: u = e_j - a[j+1] e_(j+1). Its only state other than zero is x[j] = 1, and j is the state
        that is lost with the largest weight.

        Relative to the input: for the order 1, a single 1. For numpy.inf, entries 1 and -1 with the signs of a row of
        E. For 2, the first right singular vector of E in floats. All but this last one are exact in the arithmetic of
        the coefficients.

    Raises
    ------
    ShapeError
        If `a` has no such axis.
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
    a, _, _, axis = without_labels(a, None, None, axis)
    coefficients = as_numpy(a, "a")
    time = check_axis(axis, coefficients.ndim)
    sequences = np.moveaxis(coefficients, time, -1)
    segments = segments_of(offsets, sequences.shape[-1])
    found = [
        witness_of_one(as_coefficients(sequences[(*place, segment)]), window, order, relative_to)
        for place in np.ndindex(sequences.shape[:-1])
        for segment in segments
    ]
    witnesses = np.concatenate(found).reshape(sequences.shape) if found else sequences.copy()
    return np.moveaxis(witnesses, -1, time)


def witness_of_one(coefficients: Array, window: Window, order: Any, relative_to: str) -> Array:
    """Return the inputs for one sequence."""
    inputs = np.zeros(len(coefficients), dtype=int).astype(coefficients.dtype)
    magnitudes = _magnitudes(coefficients, window)
    if not np.any(magnitudes.relative_error_operator().weights != 0):
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


def _magnitudes(coefficients: Array, window: Window) -> TruncatedOperator:
    """Return the operator of the magnitudes: in floats if all that is lost is in their range, otherwise rounded up."""
    upward = upward_operator(coefficients, window)  # refuses what isn't real and finite
    if coefficients.dtype == object:
        return upward
    floats = truncate(np.abs(coefficients), window)
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
        error = truncate(np.abs(as_floats(coefficients)), window).error_operator()
        sums = np.concatenate([error @ np.ones(n), error.T @ np.ones(n)])
        if 1e-150 < sums.max() < 1e150:  # beyond, squares leave the range
            try:
                _, _, vectors = svds(error, k=1, v0=np.ones(n))
                return np.asarray(np.abs(np.asarray(vectors)[0]))
            except ArpackError:
                pass
    raise OptionError(
        "the witness of the 2-norm needs products of coefficients in the range of float64, got some beyond it; ask "
        "for the order 1 or numpy.inf"
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
