"""How far back given coefficients look: the last input of every state whose weight still counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.errors import DTypeError, OptionError, shown
from recfact.number_types import BFLOAT16
from recfact.precision.exact.moduli import scaled_moduli
from recfact.precision.horizons.horizon import threshold
from recfact.precision.reals import Number, as_rational
from recfact.precision.time_axis import check_sequence
from recfact.written_numbers import as_text, given

BAR = 40
"""Characters of the longest bar of a printed histogram."""

# A magnitude as frexp gives it: fractions in [1/2, 1), or 0, and binary exponents, which have no range to leave.
Scaled = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EffectiveHorizon:
    """How far back every position of a sequence looks; prints its distribution.

    Parameters
    ----------
    lags : ndarray of int64, shape (n,)
        For each position the smallest k >= 0 so that every input more than k steps back has a weight below `eps`.
    eps : float or Fraction
        The smallest weight that counts.

    Notes
    -----
    The definition is that of `effective_horizon`, on the page on computational horizons ("Given coefficients").
    """

    lags: Array
    eps: Number

    def __len__(self) -> int:
        return len(self.lags)

    @property
    def largest(self) -> int:
        """The horizon of the position that looks back furthest; 0 without any."""
        return int(self.lags.max(initial=0))

    @property
    def unbounded(self) -> int:
        """How many positions, but the first, look back to the start: their horizon may only end with the sequence."""
        return int(np.count_nonzero(self.lags[1:] == np.arange(1, len(self.lags))))

    def quantile(self, *shares: float) -> list[int]:
        """Return the horizons that these shares of the positions, between 0 and 1, don't exceed.

        Raises
        ------
        OptionError
            If a share is outside [0, 1], or there are no positions.
        """
        if not all(isinstance(share, Real) and 0 <= share <= 1 for share in shares):
            raise OptionError(f"shares must be numbers from 0 to 1, got {shown(shares)}; divide percentages by 100")
        if len(self.lags) == 0:
            raise OptionError("a sequence without positions has no quantiles; pass one of at least one step")
        return [int(lag) for lag in np.quantile(self.lags, shares, method="inverted_cdf")]

    def histogram(self) -> list[tuple[int, int, int]]:
        """Return how many positions have which horizons: (first, last, count) for 0, 1, 2 to 3, 4 to 7, and so on."""
        octaves = np.frexp(self.lags.astype(np.float64))[1]
        counts = np.bincount(octaves).tolist() if len(octaves) else []
        return [((1 << k) >> 1, (1 << k) - 1 if k else 0, count) for k, count in enumerate(counts)]

    def __str__(self) -> str:
        n = len(self)
        head = f"effective horizon of {n} positions, eps = {as_text(given(self.eps))}"
        if n == 0:
            return head
        low, first, median, third, high = self.quantile(0, 0.25, 0.5, 0.75, 1)
        lines = [head, f"smallest {low}, quartiles {first}, {median}, {third}, largest {high}"]
        rows = self.histogram()
        most = max(count for *_, count in rows)
        labels = [str(a) if a == b else f"{a} - {b}" for a, b, _ in rows]
        width, digits = max(map(len, labels)), len(str(most))
        for label, (*_, count) in zip(labels, rows, strict=True):
            bar = "#" * math.ceil(BAR * count / most)
            lines.append(f"{label.rjust(width)}  {count:{digits}d}  {bar}".rstrip())
        if self.unbounded:
            lines.append(f"{self.unbounded} positions look back to the start of the sequence")
        return "\n".join(lines)

    __repr__ = __str__


def effective_horizon(a: Any, eps: Any) -> EffectiveHorizon:
    """Return how far back each position of the recurrence with given coefficients looks.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, real or complex. ``a[0]`` is not read: no input comes before the first.
    eps : number, str, FloatFormat or dtype
        The smallest weight that counts, or a format, for its smallest normal number, as in `horizon`.

    Returns
    -------
    EffectiveHorizon
        Its `lags` are, for each row i of the transfer operator L, the largest d with ``|L[i, i - d]| >= eps``, or 0.

    Raises
    ------
    ShapeError
        If `a` isn't one sequence.
    DTypeError
        If its numbers aren't floats, complex or integers.
    OptionError
        If a coefficient that is read isn't finite, or eps is negative or NaN.

    See Also
    --------
    recfact.precision.horizon : The horizon of a bound on all coefficients.
    recfact.precision.saturated : Which inputs of a logistic function give a coefficient of exactly 1.

    Notes
    -----
    A later weight can be above eps again where coefficients are above 1, and then counts. The products are those of the
    Kogge-Stone factors, squared until none matters, and each row takes the longest steps that stay above: O(n log d)
    work for a longest horizon of d, no division and no logarithm, so zeros are exact. Products have 53 bits and
    exponents of any size: nothing underflows, and a weight of d factors is decided rightly unless it is within d 2^-53
    of eps, relatively. That is 4 d 2^-53 if the magnitudes themselves are rounded: those of complex coefficients, and
    what float64 doesn't hold.

    The pointwise horizon of the sliding window recurrences paper, for the products at hand; the steps are those of
    Kogge and Stone (1973).

    Examples
    --------
    >>> effective_horizon(np.full(8, 0.5), 0.25).lags.tolist()
    [0, 1, 2, 2, 2, 2, 2, 2]
    >>> print(effective_horizon(np.linspace(0.5, 0.99, 1000), "float16"))
    effective horizon of 1000 positions, eps = 2^-14
    smallest 0, quartiles ...
    """
    coefficients = as_numpy(a, "a")
    check_sequence(coefficients, "a")
    level = threshold(eps, "normal")
    n = len(coefficients)
    if level == 0:
        return EffectiveHorizon(np.arange(n), level)
    if n == 0 or level == math.inf:
        return EffectiveHorizon(np.zeros(n, dtype=np.int64), level)
    return EffectiveHorizon(_search(_magnitudes(coefficients), *_rounded_up(Fraction(level))), level)


def row_growth(a: Array) -> Array:
    """Return the largest entry of each row of the transfer operator in magnitude, max_j |L[i, j]|.

    It obeys a recurrence of its own, b_i = max(1, |a_i| b_{i-1}), and is 1 throughout where no |a_i| passes 1.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients. ``a[0]`` is not read.

    Returns
    -------
    ndarray of float64, shape (n,)
        Infinite where it is out of range.

    Examples
    --------
    >>> row_growth(np.array([0.0, 2.0, 2.0, 0.125])).tolist()
    [1.0, 2.0, 4.0, 1.0]
    """
    with np.errstate(over="ignore"):
        return np.ldexp(*_growth(_magnitudes(a)))


def _magnitudes(a: Array) -> Scaled:
    """Return |a|, with 0 for the first coefficient: nothing reaches past the first row."""
    if a.dtype == object:
        return _exact_magnitudes(a)
    if a.dtype.kind not in "biufcV" or (a.dtype.kind == "V" and a.dtype != BFLOAT16):
        raise DTypeError(f"a must be real or complex numbers, got an array of {a.dtype}; pass floats")
    fractions, exponents = scaled_moduli(a if a.dtype.kind == "c" or a.dtype == np.longdouble else a.astype(np.float64))
    fractions[:1] = exponents[:1] = 0
    if not np.isfinite(fractions).all():
        place = int(np.argmin(np.isfinite(fractions)))
        raise _not_finite(a[place], place)
    return fractions, exponents


def _exact_magnitudes(a: Array) -> Scaled:
    """Return the magnitudes of exact scalars of any size, rounded to 53 bits."""
    fractions, exponents = np.zeros(len(a)), np.zeros(len(a), dtype=np.int64)
    for place, value in enumerate(a[1:], 1):
        number = as_rational(value)
        if isinstance(number, float):
            raise _not_finite(value, place)
        if number:
            power = number.numerator.bit_length() - number.denominator.bit_length()
            fractions[place], shift = math.frexp(float(abs(number) / Fraction(2) ** power))
            exponents[place] = power + shift
    return fractions, exponents


def _not_finite(value: Any, place: int) -> OptionError:
    return OptionError(f"coefficients must be finite, got {shown(value)} at position {place}; replace it first")


def _growth(magnitudes: Scaled) -> Scaled:
    fractions, exponents = magnitudes
    growth, scales = np.full(len(fractions), 0.5), np.ones(len(fractions), dtype=np.int64)
    if not np.any(exponents > 0):  # none above 1
        return growth, scales
    b, k = 0.5, 1
    for i, (m, e) in enumerate(zip(fractions.tolist(), exponents.tolist(), strict=True)):
        b, shift = math.frexp(b * m)
        k += shift + e
        if k < 1 or b == 0:
            b, k = 0.5, 1
        growth[i], scales[i] = b, k
    return growth, scales


def _rounded_up(level: Fraction) -> tuple[float, int]:
    """Return the smallest product of 53 bits that is at least `level`, scaled."""
    exponent = level.numerator.bit_length() - level.denominator.bit_length()
    exponent += level >= Fraction(2) ** exponent
    fraction, carry = math.frexp(math.ceil(level * Fraction(2) ** (53 - exponent)) / 2**53)
    return fraction, exponent + carry


def _times(x: Scaled, y: Scaled) -> Scaled:
    fractions, shifts = np.frexp(x[0] * y[0])
    return fractions, x[1] + y[1] + shifts


def _at(x: Scaled, rows: Array) -> Scaled:
    return x[0][rows], x[1][rows]


def _search(magnitudes: Scaled, fraction: float, exponent: int) -> Array:
    """Return for each row the largest lag whose weight is at least fraction * 2^exponent."""
    growth = _growth(magnitudes)
    n = len(growth[0])
    rows = np.arange(n)

    def counts(x: Scaled) -> Array:
        above = (x[1] > exponent) | ((x[1] == exponent) & (x[0] >= fraction))
        counted: Array = above & (x[0] > 0)
        return counted

    # steps[k][i] is the product over 2^k lags that ends in row i. Beyond d lags the largest weight in row i is their
    # product times growth[i - d], which never rises with d: so each row may search by halving.
    steps = [magnitudes]
    while True:
        before = np.maximum(rows - (1 << (len(steps) - 1)), 0)
        if not np.any(counts(_times(steps[-1], _at(growth, before)))):
            break
        steps.append(_times(steps[-1], _at(steps[-1], before)))

    lags = np.zeros(n, dtype=np.int64)
    product: Scaled = (np.full(n, 0.5), np.ones(n, dtype=np.int64))
    for k in reversed(range(len(steps))):
        at = rows - lags
        longer = _times(product, _at(steps[k], at))
        further = counts(_times(longer, _at(growth, np.maximum(at - (1 << k), 0))))
        lags[further] += 1 << k
        product = np.where(further, longer[0], product[0]), np.where(further, longer[1], product[1])
    return lags
