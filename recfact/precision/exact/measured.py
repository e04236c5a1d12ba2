"""Errors of computed and of truncated states, enclosed by floats with proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import without_labels
from recfact.errors import RecfactError, ShapeError
from recfact.precision.exact.dyadic_sequence import Sequence, exponent_range, integers, shifted
from recfact.precision.exact.enclosures import BITS, Enclosures, enclosed
from recfact.precision.exact.outward import outward
from recfact.precision.time_axis import check_sequence
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Window, WindowLike, check_window
from recfact.written_numbers import at_most

MAX_BITS = 1 << 17
"""Most bits behind the last bit of the inputs; what they leave undecided stays so."""

ACCURACY = 2.0**-50
"""Largest relative width of a measured error."""


class UndecidedError(RecfactError, ArithmeticError):
    """A comparison that no affordable precision decides."""


class Measured:
    """Magnitudes of errors, each between two floats.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (n,)
        ``lower[i] <= |error[i]| <= upper[i]``, proved, with a relative width of 2^-50 at most, except where the error
        is below the smallest float64. Infinite where the error is, NaN where there is none.
    enclosures : callable
        Takes a number of bits and yields enclosures of the errors, `Enclosures`.

    Notes
    -----
    Derived on the page on truncation bounds ("Exact states, and errors measured against them").

    Examples
    --------
    >>> error = measure([0.5, 0.1], [1.0, 1.0], computed=[1.0, 1.1])
    >>> error.upper.tolist(), error.within(2.0**-53)
    ([0.0, 8.326672684688674e-17], array([ True,  True]))
    """

    def __init__(self, lower: Array, upper: Array, enclosures: Callable[[int], Iterator[Enclosures]]) -> None:
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
            If some error equals its bound to so many bits that 2^17 of them don't tell which is larger.
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
                    # |error| <= limit if center + radius is; limit is a float, so its integer ratio is exact.
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
        States as an algorithm in some format returns them.
    window : Full, Uniform, Jagged or str
        The states to compare with: those of the window, which leaves the errors of rounding, or the exact ones.
    x0 : scalar, optional
        State before the first step.
    progress : callable, optional
        Is called with the number of steps that were measured, after each thousand of them.

    Returns
    -------
    Measured
        Infinite where `computed` is, NaN where it is NaN.

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

    def errors(bits: int) -> Iterator[Enclosures]:
        for x in enclosed(sequence, window, bits, finest):
            significands, exponents = integers(given[x.start : x.start + len(x)])
            centers = [shifted(m, e + x.scale) - c for m, e, c in zip(significands, exponents, x.centers, strict=True)]
            # Computed states lose less than a unit by the shift, downwards, where x has dropped bits: see `full`.
            yield Enclosures(x.start, x.scale, centers, x.radii)
            if progress is not None:
                progress(len(x))

    return _settled(lower, upper, open_, errors)


def truncation_error(a: Any, u: Any, window: WindowLike, x0: Any = None, progress: Progress | None = None) -> Measured:
    """Measure what a window leaves out, ``|x - x~|``, for given inputs.

    Parameters
    ----------
    a, u, window, x0, progress
        As for `measure`.

    Returns
    -------
    Measured
        What the states of the window lack of the exact ones: 0 where it reaches all that matters.

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

    def errors(bits: int) -> Iterator[Enclosures]:
        for x, kept in zip(enclosed(sequence, Full(), bits), enclosed(sequence, window, bits), strict=True):
            drop = kept.scale - x.scale  # full states that have grown are held to fewer bits
            centers = [c - (d >> drop) for c, d in zip(x.centers, kept.centers, strict=True)]
            # A radius that is shifted rounds up; what the center loses by its shift is as in `measure`.
            radii = [r - (-s >> drop) for r, s in zip(x.radii, kept.radii, strict=True)]
            yield Enclosures(x.start, x.scale, centers, radii)
            if progress is not None:
                progress(len(x))

    zeros = np.zeros(len(sequence))
    return _settled(zeros, zeros.copy(), losing(sequence.a, sequence.u, window, x0), errors)


def losing(a: Array, u: Array, window: Window, x0: Any = None) -> Array:
    """Return where truncated states lose something: a state that may differ from 0, by coefficients that do.

    Returns
    -------
    ndarray of bool, shape (n,)
        False where the window reaches the first input, or across a coefficient 0, or where all inputs before it since
        the last coefficient 0 are 0.
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


def _settled(lower: Array, upper: Array, open_: Array, errors: Callable[[int], Iterator[Enclosures]]) -> Measured:
    """Fill in the bounds of the rows that are open, with as many bits as their accuracy takes."""
    open_, bits = open_.copy(), 0
    while open_.any():
        bits = _more(bits, open_)
        for piece, rows in _rows(errors(bits), open_):
            centers = [abs(piece.centers[row - piece.start]) for row in rows]
            radii = [piece.radii[row - piece.start] for row in rows]
            lower[rows] = low = outward([max(c - r, 0) for c, r in zip(centers, radii, strict=True)], piece.scale, -1)
            upper[rows] = high = outward([c + r for c, r in zip(centers, radii, strict=True)], piece.scale, 1)
            exact = np.array([r == 0 for r in radii])
            with np.errstate(all="ignore"):
                narrow = (high - low <= ACCURACY * high) | (high <= 5e-324) | (low == np.finfo(float).max)
            open_[rows] = ~(exact | narrow)
    return Measured(lower, upper, errors)


def _more(bits: int, open_: Array) -> int:
    """Return the number of bits to try next."""
    if bits >= MAX_BITS:
        raise UndecidedError(
            f"{np.count_nonzero(open_)} errors, the first at step {np.flatnonzero(open_)[0]}, aren't told from 0 or "
            f"from their bound by {MAX_BITS} bits; solve a shorter sequence exactly with exact.solve"
        )
    return max(BITS, 4 * bits)


def _rows(pieces: Iterator[Enclosures], open_: Array) -> Iterator[tuple[Enclosures, Array]]:
    """Yield the pieces that hold open rows, with those rows."""
    last = int(np.flatnonzero(open_)[-1])
    for piece in pieces:
        rows = piece.start + np.flatnonzero(open_[piece.start : piece.start + len(piece)])
        if len(rows):
            yield piece, rows
        if piece.start + len(piece) > last:
            return
