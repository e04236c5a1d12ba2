"""Errors of computed and of truncated states, with proved enclosures in floats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import without_labels
from recfact.errors import RecfactError, ShapeError
from recfact.precision.exact.balls import Balls
from recfact.precision.exact.enclosures import BITS, Sequence, enclosed, exponent_range, integers, shifted
from recfact.precision.sequences import check_sequence
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Window, WindowLike, check_window
from recfact.written_numbers import at_most

MAX_BITS = 1 << 17
"""Most bits behind the last bit of the inputs; what they leave undecided stays so."""

ACCURACY = 2.0**-50
"""Largest relative width of a measured error."""


class UndecidedError(RecfactError, ArithmeticError):
    """No affordable precision decides the comparison."""


class Measured:
    """Magnitudes of errors, each enclosed between two floats.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (n,)
        Proved bounds: ``lower[i] <= |error[i]| <= upper[i]``. Their relative width is at most 2^-50, except for errors
        below the smallest float64. They are infinite where the error is, and NaN where there is none.
    enclosures : callable
        Takes a number of bits and yields enclosures of the errors, `Balls`.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> error = measure([0.5, 0.1], [1.0, 1.0], computed=[1.0, 1.1])
    >>> error.upper.tolist(), error.within(2.0**-53)
    ([0.0, 8.326672684688674e-17], array([ True,  True]))
    """

    def __init__(self, lower: Array, upper: Array, enclosures: Callable[[int], Iterator[Balls]]) -> None:
        self.lower, self.upper, self._enclosures = lower, upper, enclosures

    def __repr__(self) -> str:
        return f"<{len(self.upper)} measured errors, the largest {at_most(np.max(self.upper, initial=0.0), 6):.6g}>"

    def within(self, bound: Any) -> Array:
        """Return where the error is at most `bound`, decided for every step.

        Parameters
        ----------
        bound : float or array_like, shape (n,)
            Bounds. NaN bounds nothing.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        UndecidedError
            If an error and its bound are so close that 2^17 bits don't tell which is larger.
        """
        limit = np.broadcast_to(np.asarray(bound, dtype=np.float64), self.upper.shape)
        inside = self.upper <= limit
        open_ = ~inside & (self.lower <= limit)
        bits = BITS
        while open_.any():
            bits = _more(bits, open_)
            for piece, rows in _rows(self._enclosures(bits), open_):
                for row in rows:
                    center, radius = abs(piece.centers[row - piece.start]), piece.radii[row - piece.start]
                    # |error| <= limit if center + radius <= limit. The limit is a float, so its integer ratio is exact.
                    numerator, denominator = float(limit[row]).as_integer_ratio()
                    target, unit = numerator << max(0, piece.scale), denominator << max(0, -piece.scale)
                    inside[row] = (center + radius) * unit <= target
                    open_[row] = not inside[row] and (center - radius) * unit <= target
        return inside


Progress = Callable[[int], object]


def measure(
    a: Any, u: Any, computed: Any, window: WindowLike = Full(), x0: Any = None, progress: Progress | None = None
) -> Measured:
    """Measure the errors of computed states, ``|computed - x|``, against the exact, or exactly truncated, states.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs, dyadic numbers.
    computed : array_like, shape (n,)
        States that an algorithm has computed in some format.
    window : Full, Uniform, Jagged or str
        The states to compare with. With the window of the algorithm, the errors are those of rounding alone.
    x0 : scalar, optional
        State before the first step.
    progress : callable, optional
        Is called after each thousand steps, with the number of steps that were measured.

    Returns
    -------
    Measured
        The errors. They are infinite where `computed` is, and NaN where it is NaN.

    Raises
    ------
    ShapeError
        If the three aren't sequences of one length.
    UndecidedError
        If an error can't be told from 0.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> measure([0.5, 0.1], [1.0, 1.0], computed=[1.0, 1.25]).upper
    array([0.  , 0.15])
    """
    window = check_window(window)
    for states in (a, u):
        _, own, _, _ = without_labels(states, computed)
    given, sequence = as_numpy(own, "computed"), Sequence.of(a, u, x0)
    check_sequence(given, "computed")
    if given.shape != sequence.u.shape:
        raise ShapeError(f"computed states and inputs must have one shape, got {given.shape} and {sequence.u.shape}")
    if given.dtype != object and given.dtype.itemsize <= 8:
        given = given.astype(np.float64) if given.dtype.kind not in "iu" else given.astype(object)
    lower, upper, open_ = np.zeros(len(given)), np.zeros(len(given)), np.ones(len(given), dtype=bool)
    if given.dtype != object:
        open_ = np.isfinite(given)
        lower[~open_] = upper[~open_] = np.abs(given[~open_])
        given = np.where(open_, given, 0)
    finest = -(exponent_range(given) or (0, 0))[0]

    def errors(bits: int) -> Iterator[Balls]:
        for x in enclosed(sequence, window, bits, finest):
            significands, exponents = integers(given[x.start : x.start + len(x)])
            centers = [shifted(m, e + x.scale) - c for m, e, c in zip(significands, exponents, x.centers, strict=True)]
            # If x has dropped bits, the shift takes less than a unit from computed states, downwards: see `full`.
            yield Balls(centers, x.radii, x.scale, x.start)
            if progress is not None:
                progress(len(x))

    return _settled(lower, upper, open_, errors)


def truncation_error(a: Any, u: Any, window: WindowLike, x0: Any = None, progress: Progress | None = None) -> Measured:
    """Measure the truncation error of a window, ``|x - x~|``, for given inputs.

    Parameters
    ----------
    a, u, window, x0, progress
        As for `measure`.

    Returns
    -------
    Measured
        The errors. They are 0 where the window reaches every input that matters.

    Raises
    ------
    ShapeError
        If coefficients and inputs aren't sequences of one length.
    UndecidedError
        If an error can't be told from 0.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> from recfact import Uniform
    >>> truncation_error([0.5] * 6, [1.0] * 6, Uniform(4)).upper.tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0625, 0.09375]
    """
    window = check_window(window)
    sequence = Sequence.of(a, u, x0)

    def errors(bits: int) -> Iterator[Balls]:
        for x, kept in zip(enclosed(sequence, Full(), bits), enclosed(sequence, window, bits), strict=True):
            drop = kept.scale - x.scale  # full states that have grown keep fewer bits
            centers = [c - (d >> drop) for c, d in zip(x.centers, kept.centers, strict=True)]
            # A shifted radius rounds up. The center loses by its shift the same as in `measure`.
            radii = [r - (-s >> drop) for r, s in zip(x.radii, kept.radii, strict=True)]
            yield Balls(centers, radii, x.scale, x.start)
            if progress is not None:
                progress(len(x))

    zeros = np.zeros(len(sequence))
    return _settled(zeros, zeros.copy(), losing(sequence.a, sequence.u, window, x0), errors)


def losing(a: Array, u: Array, window: Window, x0: Any = None) -> Array:
    """Return where truncated states lose something: a state that may differ from 0, times nonzero coefficients.

    Returns
    -------
    ndarray of bool, shape (n,)
        False if the window reaches the first input, or across a coefficient 0, or if all inputs before it since the
        last coefficient 0 are 0.
    """
    n = len(u)
    rows = np.arange(n)
    first = first_kept_rows(n, window)
    reset, fed = a == 0, u != 0
    if n:
        reset[0] = True
        fed[0] |= x0 is not None
    last_reset = np.maximum.accumulate(np.where(reset, rows, 0))
    last_fed = np.maximum.accumulate(np.where(fed, rows, -1))
    lost = np.maximum(first, 1) - 1
    return np.asarray((first > 0) & (last_reset < first) & (last_fed[lost] >= last_reset[lost]))


def _settled(lower: Array, upper: Array, open_: Array, errors: Callable[[int], Iterator[Balls]]) -> Measured:
    """Fill in the bounds of the open rows, with as many bits as their accuracy needs."""
    open_, bits = open_.copy(), 0
    while open_.any():
        bits = _more(bits, open_)
        for piece, rows in _rows(errors(bits), open_):
            low, high = lower[rows], upper[rows] = piece.magnitudes(rows)
            exact = np.array([piece.radii[row - piece.start] == 0 for row in rows])
            with np.errstate(all="ignore"):
                narrow = (high - low <= ACCURACY * high) | (high <= 5e-324) | (low == np.finfo(float).max)
            open_[rows] = ~(exact | narrow)
    return Measured(lower, upper, errors)


def _more(bits: int, open_: Array) -> int:
    """Return the number of bits to try next."""
    if bits >= MAX_BITS:
        raise UndecidedError(
            f"{MAX_BITS} bits don't tell {np.count_nonzero(open_)} errors, the first at step {np.flatnonzero(open_)[0]}"
            ", from 0 or from their bound; solve a shorter sequence exactly with exact.solve"
        )
    return max(BITS, 4 * bits)


def _rows(pieces: Iterator[Balls], open_: Array) -> Iterator[tuple[Balls, Array]]:
    """Yield the pieces that hold open rows, with those rows."""
    last = int(np.flatnonzero(open_)[-1])
    for piece in pieces:
        rows = piece.start + np.flatnonzero(open_[piece.start : piece.start + len(piece)])
        if len(rows):
            yield piece, rows
        if piece.start + len(piece) > last:
            return
