"""How far back given coefficients look: for every state the oldest input whose weight still counts.

A coefficient of 0 separates sequences that lie one behind the other. So a batch is one long sequence in which the first
coefficient of each part is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import integer
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, ShapeError, shown
from recfact.number_types import BFLOAT16
from recfact.precision.exact.scaled import Scaled, scaled_moduli
from recfact.precision.horizons.horizon import threshold
from recfact.precision.reals import Number, as_rational
from recfact.precision.sequence_spread import Spread, quantiles, spread_of
from recfact.precision.sequences import CACHED, segments_of
from recfact.printed_table import Column, PrintedTable, Row, Tabular
from recfact.written_numbers import as_text, given

BAR = 40
"""Characters of the longest bar of a printed histogram."""

LOWEST = -960
"""The exponent of the smallest weight that is looked for among floats, which lose no bit down to 2^-1022."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EffectiveHorizon(Tabular):
    """How far back every position of one sequence or many looks. It is a `Tabular`, which prints the distribution.

    Parameters
    ----------
    lags : ndarray of int64
        For each position, the smallest k >= 0 such that every input more than k steps back has a weight below `eps`.
    eps : float or Fraction
        The smallest weight that counts.
    axis : int, default 0
        The axis of `lags` along which time runs, counted from 0. The other axes number the sequences.
    starts : ndarray of int64, optional
        The steps where segments start. By default one sequence starts at 0.

    Notes
    -----
    The definition is that of `effective_horizon`, on the page on computational horizons ("Given coefficients").
    """

    lags: Array
    eps: Number
    axis: int = 0
    starts: Array = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return self.lags.size

    @property
    def largest(self) -> int:
        """The largest horizon of all positions; 0 if there are no positions."""
        return int(self.lags.max(initial=0))

    @property
    def by_sequence(self) -> Array:
        """The largest horizon of each sequence, in the shape of `lags` without the axis of time."""
        return np.asarray(np.max(self.lags, axis=self.axis, initial=0))

    @property
    def worst(self) -> tuple[int, ...]:
        """The index in `lags` of a position with the largest horizon: the first one in the first such sequence.

        Raises
        ------
        OptionError
            If there are no positions.
        """
        return self.spread.worst

    @property
    def spread(self) -> Spread:
        """The largest horizon of each sequence, its place, and how these horizons are spread."""
        return spread_of(self.lags, self.axis)

    @property
    def unbounded(self) -> int:
        """How many positions after the first look back to the start of the sequence.

        Their horizon may be cut off only because the sequence starts there.
        """
        lags = np.moveaxis(self.lags, self.axis, -1)
        since = since_start(self.starts, lags.shape[-1])
        return int(np.count_nonzero((lags == since) & (since > 0)))

    def needing_more(self, lags: int) -> int:
        """Return how many sequences contain a position that looks back more than `lags` steps.

        Examples
        --------
        >>> effective_horizon([[0.0, 0.5, 0.5], [0.0, 0.1, 0.1]], 0.25).needing_more(1)
        1
        """
        return self.spread.above(integer(lags, "lags"))

    def quantile(self, *shares: float) -> list[int]:
        """Return quantiles of the horizons: a share q of all positions, between 0 and 1, looks back no further.

        Raises
        ------
        OptionError
            If a share is outside [0, 1], or there are no positions.
        """
        return quantiles(self.lags, *shares)

    def histogram(self) -> list[tuple[int, int, int]]:
        """Return (first, last, count): how many positions have horizons of 0, of 1, of 2 to 3, of 4 to 7, and so on."""
        octaves = np.frexp(self.lags.ravel().astype(np.float64))[1]
        counts = np.bincount(octaves).tolist() if len(octaves) else []
        return [((1 << k) >> 1, (1 << k) - 1 if k else 0, count) for k, count in enumerate(counts)]

    def table(self) -> PrintedTable:
        """Return the table that is printed: the distribution of the horizons."""
        sequences = self.by_sequence
        many = f" in {sequences.size} sequences" if self.lags.ndim > 1 else ""
        title = [f"effective horizon of {len(self)} positions{many}, eps = {as_text(given(self.eps))}"]
        rows = tuple(dict(zip(_NAMES, row, strict=True)) for row in self.histogram())
        if not rows:
            return PrintedTable(rows, (), _NAMES, title[0])
        title.append(f"smallest {self.lags.min()}, {_spread(self.lags)}")
        if many:
            title.append(f"the largest of each sequence: {_spread(sequences)}, of {self.spread.place}")
        most = max(row["positions"] for row in rows)
        columns = (
            Column("steps back", "steps back", _steps),
            Column("positions", "positions", itemgetter("positions")),
            Column("", "", lambda row: "#" * math.ceil(BAR * row["positions"] / most), words=True),
        )
        notes = (f"{self.unbounded} positions look back to the start of the sequence",) if self.unbounded else ()
        return PrintedTable(rows, columns, _NAMES, "\n".join(title), notes)

    def _record(self) -> dict[str, Any]:
        about = {"eps": self.eps, "positions": len(self), "largest": self.largest, "unbounded": self.unbounded}
        return {**about, "rows": self.to_rows()}


_NAMES = ("first", "last", "positions")


def _steps(row: Row) -> str:
    first, last = row["first"], row["last"]
    return str(first) if first == last else f"{first} - {last}"


def _spread(lags: Array) -> str:
    first, median, third, high = quantiles(lags, 0.25, 0.5, 0.75, 1)
    return f"quartiles {first}, {median}, {third}, largest {high}"


def effective_horizon(a: Any, eps: Any, *, axis: int = -1, offsets: Any = None) -> EffectiveHorizon:
    """Return how far back each position of the recurrence with given coefficients looks.

    Parameters
    ----------
    a : array_like
        Real or complex coefficients of one sequence or many. The first coefficient of a sequence is not read, because
        no input comes before it.
    eps : number, str, FloatFormat or dtype
        The smallest weight that counts. A format stands for its smallest normal number, as in `horizon`.
    axis : int, default -1
        The axis of `a` along which time runs.
    offsets : array_like of int, shape (N + 1,), optional
        Where segments start, and where the last one ends, as for `recfact.solve`. No segment sees another.

    Returns
    -------
    EffectiveHorizon
        The horizons are its `lags`, in the shape of `a`. For row i of the transfer operator L of a sequence, the
        horizon is the largest d with ``|L[i, i - d]| >= eps``, or 0.

    Raises
    ------
    ShapeError
        If `a` has no such axis.
    DTypeError
        If the coefficients aren't floats, complex numbers or integers.
    OptionError
        If a coefficient that is read isn't finite, or if `eps` is negative or NaN.

    See Also
    --------
    recfact.precision.horizon : The horizon of a bound on all coefficients.
    recfact.precision.saturated : Which inputs of a logistic function give a coefficient of exactly 1.

    Notes
    -----
    If coefficients are above 1, the weight of an older input can be above eps again. It then counts.

    The products of 1, 2, 4, ... neighbouring coefficients are those of the factors of Kogge and Stone (1973). They are
    formed until none of them is large enough to count. Each row then takes the longest steps back whose weight stays
    at eps or above. If the longest horizon is d, this takes O(n log d) work. There is no division and no logarithm, so
    zeros are exact.

    Products have 53 bits and exponents of any size, so nothing underflows. A weight of d factors is compared correctly
    with eps unless their relative distance is below d 2^-53. This becomes 4 d 2^-53 if the magnitudes are rounded
    before: those of complex coefficients, and those of numbers that float64 doesn't hold.

    This is the pointwise horizon of the sliding window recurrences paper, for given coefficients.

    Examples
    --------
    >>> effective_horizon(np.full(8, 0.5), 0.25).lags.tolist()
    [0, 1, 2, 2, 2, 2, 2, 2]
    >>> print(effective_horizon(np.linspace(0.5, 0.99, 1000), "float16"))
    effective horizon of 1000 positions, eps = 2^-14
    smallest 0, quartiles ...

    For many sequences, it tells which is the worst, and how many need more than a window keeps:

    >>> gates = np.full((8, 100, 16), 0.5)
    >>> gates[3, :, 7] = 0.99
    >>> found = effective_horizon(gates, 2**-8, axis=1)
    >>> found.largest, found.worst, found.needing_more(64), found.by_sequence.shape
    (99, (3, 99, 7), 1, (8, 16))
    """
    a, _, _, axis = without_labels(a, None, None, axis)
    coefficients = as_numpy(a, "a")
    if coefficients.ndim == 0:
        raise ShapeError(f"a must be sequences, got the number {shown(a)}; `horizon` takes a bound of all coefficients")
    time = check_axis(axis, coefficients.ndim)
    level = threshold(eps, "normal")
    rows = np.moveaxis(coefficients, time, -1)
    n = rows.shape[-1]
    starts = np.array([segment.start for segment in segments_of(offsets, n) if segment.start < segment.stop], dtype=int)
    lags = np.zeros(rows.shape, dtype=np.int64)
    if level == 0:
        lags[...] = since_start(starts, n)
    elif level != math.inf and lags.size:
        smallest = _rounded_up(Fraction(level))
        sequences, found = rows.reshape(-1, n), lags.reshape(-1, n)
        step = max(1, CACHED // n)
        for first in range(0, len(sequences), step):
            group = np.s_[first : first + step]

            def place(position: int, before: int = first * n) -> str:
                *channel, step = (int(at) for at in np.unravel_index(before + position, rows.shape))
                return str((*channel[:time], step, *channel[time:]) if channel else step)

            found[group] = _lags(_magnitudes(sequences[group], starts, place), smallest).reshape(-1, n)
    return EffectiveHorizon(np.moveaxis(lags, -1, time), level, time, starts)


def since_start(starts: Array, steps: int) -> Array:
    """Return for each step its distance from the start of its segment.

    Examples
    --------
    >>> since_start(np.array([0, 2]), 5).tolist()
    [0, 1, 0, 1, 2]
    """
    rows = np.arange(steps)
    firsts = np.zeros(steps, dtype=np.int64)
    firsts[starts[:steps]] = starts[:steps]
    return rows - np.maximum.accumulate(firsts)


def row_growth(a: Array) -> Array:
    """Return the largest magnitude of the entries in each row of the transfer operator, max_j |L[i, j]|.

    It obeys a recurrence of its own, b_i = max(1, |a_i| b_{i-1}). If no |a_i| exceeds 1, it is 1 everywhere.

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
        growth = _growth(_magnitudes(a[None], np.zeros(1, dtype=int)))
        return np.ones(len(a)) if growth is None else np.ldexp(growth.significands, growth.exponents)


def _magnitudes(sequences: Array, starts: Array, place: Callable[[int], str] = str) -> Scaled:
    """Return |a| of sequences one behind the other, with 0 where segments start, so that no segment sees another.

    `place` names a position among them.
    """
    a = sequences.ravel()
    first = np.zeros(sequences.shape, dtype=bool)
    first[:, starts[: a.size]] = True
    starts = first.ravel()
    if a.dtype == object:
        magnitudes = _exact_magnitudes(a, starts)
    elif a.dtype.kind in "biufc" or a.dtype == BFLOAT16:
        wide = a.dtype.kind == "c" or a.dtype == np.longdouble
        magnitudes = scaled_moduli(a if wide else a.astype(np.float64))
    else:
        raise DTypeError(f"a must be real or complex numbers, got an array of {a.dtype}; pass floats")
    magnitudes.significands[starts] = magnitudes.exponents[starts] = 0
    finite = np.isfinite(magnitudes.significands)
    if not finite.all():
        at = int(np.argmin(finite))
        raise OptionError(f"coefficients must be finite, got {shown(a[at])} at position {place(at)}; replace it first")
    return magnitudes


def _exact_magnitudes(a: Array, starts: Array) -> Scaled:
    """Return the magnitudes of exact scalars of any size, rounded to 53 bits; those at `starts` aren't read."""
    fractions, exponents = np.zeros(len(a)), np.zeros(len(a), dtype=np.int64)
    for place in np.flatnonzero(~starts):
        number = as_rational(a[place])
        if isinstance(number, float):
            fractions[place] = number
        elif number:
            power = number.numerator.bit_length() - number.denominator.bit_length()
            fractions[place], shift = math.frexp(float(abs(number) / Fraction(2) ** power))
            exponents[place] = power + shift
    return Scaled(fractions, exponents)


def _growth(magnitudes: Scaled) -> Scaled | None:
    """Return the row growth, or None if it is 1 everywhere because no magnitude is above 1."""
    fractions, exponents = magnitudes.significands, magnitudes.exponents
    if not np.any((exponents > 1) | ((exponents == 1) & (fractions > 0.5))):
        return None
    growth = Scaled.ones(len(fractions))
    b, k = 0.5, 1
    for i, (m, e) in enumerate(zip(fractions.tolist(), exponents.tolist(), strict=True)):
        b, shift = math.frexp(b * m)
        k += shift + e
        if k < 1 or b == 0:
            b, k = 0.5, 1
        growth.significands[i], growth.exponents[i] = b, k
    return growth


def _rounded_up(level: Fraction) -> Scaled:
    """Return the smallest product of 53 bits that is at least `level`."""
    exponent = level.numerator.bit_length() - level.denominator.bit_length()
    exponent += level >= Fraction(2) ** exponent
    fraction, carry = math.frexp(math.ceil(level * Fraction(2) ** (53 - exponent)) / 2**53)
    return Scaled(np.array(fraction), np.array(exponent + carry))


def _lags(magnitudes: Scaled, level: Scaled) -> Array:
    """Return for each row the largest lag whose weight is at least `level`."""
    growth = _growth(magnitudes)
    if growth is None and LOWEST < level.exponents <= 1:
        # Without growth, products that leave the range of floats are below the level, and stay there.
        moduli, least = (np.ldexp(each.significands, each.exponents) for each in (magnitudes, level))
        return _search(moduli, least, None, np.ones(len(moduli)))
    return _search(magnitudes, level, growth, Scaled.ones(len(magnitudes)))


def _search(magnitudes: Any, level: Any, growth: Any, product: Any) -> Array:
    """Return the lags of `_lags`. Numbers are floats or `Scaled`; `product` is 1 for each row."""
    rows = np.arange(len(magnitudes))

    def counts(weights: Any, before: Array) -> Array:
        return np.asarray((weights if growth is None else weights * growth[np.maximum(before, 0)]) >= level)

    # steps[k][i] is the product over 2^k lags that ends in row i. Beyond d lags the largest weight in row i is their
    # product times growth[i - d]. It never rises with d, so each row may search by halving.
    steps = [magnitudes]
    while np.any(counts(steps[-1], before := rows - (1 << (len(steps) - 1)))):
        steps.append(steps[-1] * steps[-1][np.maximum(before, 0)])

    at = rows
    for k in reversed(range(len(steps))):
        longer = product * steps[k][at]
        further = counts(longer, at - (1 << k))
        at = at - (further.astype(np.int64) << k)
        product = _chosen(further, longer, product)
    return rows - at


def _chosen(first: Array, one: Any, other: Any) -> Any:
    """Return floats or `Scaled` numbers: one of them where `first` is true, and the other elsewhere."""
    if isinstance(one, Scaled):
        significands = np.where(first, one.significands, other.significands)
        return Scaled(significands, np.where(first, one.exponents, other.exponents))
    return np.where(first, one, other)
