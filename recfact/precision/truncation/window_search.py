"""The search of `choose_window`: the shortest windows of each kind that are proved to lose no more than a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, log, prod
from typing import Any, TypeVar

import numpy as np

from recfact.arrays import Array
from recfact.errors import DTypeError, OptionError, shown
from recfact.factorizations.norms import row_sums
from recfact.factorizations.scalars import as_coefficients
from recfact.precision.truncation.truncation_bounds import magnitude, truncation_bound
from recfact.precision.truncation.window_errors import truncation_norm
from recfact.precision.truncation.window_losses import WindowLosses
from recfact.windows import Jagged, Uniform

MARGIN = 1e-6
"""Sums of logarithms this far above the limit's are still left to the proof."""

NEAREST = Fraction(1, 2**256)
"""Bounds nearer to 1 than that need windows of more than 10^77 steps, and minutes to find them."""

_GROWTH = "coefficients above 1 in magnitude make lost states larger"

W = TypeVar("W", Uniform, Jagged)
Steps = slice | Array
"""Steps of a sequence, as an index."""


class BoundSearch:
    """Windows for all coefficients up to a bound, in sequences of any length.

    Parameters
    ----------
    rho : real number
        The bound.
    limit : Fraction
        What the error may be.
    relative_to : {"state", "input"}
        What it is compared with.
    """

    length = None

    def __init__(self, rho: Any, limit: Fraction, relative_to: str) -> None:
        self.rho, self.limit, self.relative_to = magnitude(rho, "a"), limit, relative_to

    def prove(self, window: W) -> tuple[W, float] | None:
        """Return the window with its error if that is small enough."""
        # What is nearer to 1 than bounds are computed for has a smaller error than the next number that isn't.
        near = 0 < abs(1 - self.rho) < NEAREST
        rho = (1 if self.rho < 1 else 1 + NEAREST) if near else self.rho
        error = truncation_bound(window, rho, relative_to=self.relative_to)
        return (window, error) if error <= self.limit else None

    def uniform(self) -> tuple[Uniform, float] | None:
        """Return the shortest uniform window."""
        if found := self.prove(Uniform(1)):
            return found
        if self.rho >= 1 or self.limit == 0:
            return None
        if 1 - self.rho < NEAREST:
            raise OptionError(
                f"windows are searched for bounds up to 1 - 2^-256 and from 1 on, got a = {shown(self.rho)} between "
                "them; round it to one of the two"
            )
        lags = smallest(lambda lags: self.prove(Uniform(lags)) is not None)
        return None if lags is None else self.prove(Uniform(lags))

    def jagged(self, block: int | None, uniform: Uniform) -> tuple[Jagged, float] | None:
        """Return the shortest jagged window, or that of the fewest terms for a given block."""
        if block is None:
            return self.prove(Jagged(max(1, uniform.lags - 1)))
        return self.prove(Jagged(block, -(-(uniform.lags - 1) // block)))

    def worst(self, window: Uniform | Jagged) -> None:
        """Return None: a bound is no place."""

    def reason(self) -> str:
        """Return why there is none."""
        if self.rho > 1:
            return _GROWTH
        if self.rho == 1:
            return "coefficients of magnitude 1 let no input fade"
        return "no coefficient is 0, so every input leaves a trace"


class DataSearch:
    """Windows for given coefficients, good for every sequence of them.

    Parameters
    ----------
    a : ndarray
        Coefficients, real.
    limit, relative_to : Fraction, str
        As for `BoundSearch`.
    axis : int
        The axis of `a` along which time runs, from 0.
    """

    def __init__(self, a: Array, limit: Fraction, relative_to: str, axis: int) -> None:
        last = np.moveaxis(a, axis, -1)
        self.axis, self.sequences, self.length = axis, last.shape[:-1], last.shape[-1]
        self.a = as_coefficients(last.ravel()).reshape(prod(self.sequences), self.length)
        self.limit, self.relative_to = limit, relative_to
        if self.a.dtype.kind == "c":
            raise DTypeError("windows are chosen for real coefficients, got complex ones; pass their magnitudes")
        try:
            moduli = np.abs(self.a.astype(np.float64))
        except (TypeError, ValueError):
            raise DTypeError("a window needs real coefficients, got an array of other objects; pass numbers") from None
        except OverflowError:
            raise OptionError("a window needs coefficients in the range of float64, got larger ones") from None
        if not np.all(np.isfinite(moduli)):
            raise OptionError("a window needs finite coefficients, got NaN or infinity; replace them first")
        self.proved = WindowLosses(self.a, relative_to)
        self.grows = self.proved.grows
        zero = np.asarray(self.a == 0, dtype=bool)
        logarithms = np.log(np.where(zero, 1.0, np.maximum(moduli, np.nextafter(0.0, 1.0))))
        logarithms[..., :1], zero[..., :1] = 0.0, False  # a[0] multiplies the initial state alone
        # The product of a[i] ... a[j] has the logarithm products[i + 1] - products[j], and zeros[i + 1] - zeros[j]
        # factors 0 besides: a sum of logarithms alone would not tell 0 from what is merely small. states[j] is that of
        # the largest state before j.
        self.products = _sums(logarithms)
        self.zeros = _sums(zero) if zero.any() else None
        self.states = np.log(_one_later(row_sums(moduli))) if relative_to == "input" else None
        self.target = _log(limit) + MARGIN if limit else -inf

    def rows(self, window: Uniform | Jagged) -> tuple[Steps, Steps]:
        """Return the rows that lose most, and the first step that each of them keeps."""
        n = self.length
        if isinstance(window, Uniform):
            return slice(window.lags, n), slice(1, max(1, n - window.lags + 1))
        block, lost = window.block, (window.terms + 1) * window.block
        if self.grows:
            rows = np.arange(min(lost, n), n)
            return rows, (rows // block - window.terms) * block
        # Without growth the first step of a block loses most.
        return slice(lost, n, block), slice(block, max(block, n - window.terms * block), block)

    def lost(self, rows: Steps, first: Steps) -> Array:
        """Return the logarithms of what rows lose whose windows begin at `first` > 0; -inf where they lose nothing."""
        lost: Array = self.products[:, 1:][:, rows] - self.products[:, first]
        if self.states is not None:
            lost += self.states[:, first]
        if self.zeros is not None:
            lost[self.zeros[:, 1:][:, rows] != self.zeros[:, first]] = -inf
        return lost

    def fits(self, window: Uniform | Jagged) -> bool:
        """Return whether a window's error is small enough, as far as sums of logarithms tell."""
        return bool(np.max(self.lost(*self.rows(window)), initial=-inf) <= self.target)

    def worst(self, window: Uniform | Jagged) -> tuple[int, ...] | None:
        """Return where in the coefficients a window loses most, as far as logarithms tell."""
        rows, first = self.rows(window)
        lost = self.lost(rows, first)
        if np.max(lost, initial=-inf) == -inf:
            return None
        sequence, row = np.unravel_index(int(np.argmax(lost)), lost.shape)
        place = [int(at) for at in np.unravel_index(sequence, self.sequences)] if self.sequences else []
        return (*place[: self.axis], int(np.arange(self.length)[rows][row]), *place[self.axis :])

    def prove(self, window: W) -> tuple[W, float] | None:
        """Return the window with its error if the error is small enough; sharper numbers decide close cases."""
        if not self.fits(window):
            return None
        errors = self.proved.bounds(window)
        for close in np.flatnonzero(errors > self.limit):
            errors[close] = truncation_norm(self.a[close], window, relative_to=self.relative_to)
            if errors[close] > self.limit:
                return None
        return window, float(np.max(errors, initial=0.0))

    def uniform(self) -> tuple[Uniform, float] | None:
        """Return the shortest uniform window; one of the shorter ones if coefficients grow."""
        most = max(1, self.length - 1)
        lags = smallest(lambda lags: self.fits(Uniform(lags)), most)
        while lags is not None and lags <= most:
            if found := self.prove(Uniform(lags)):
                return found
            lags += 1
        return None

    def jagged(self, block: int | None, uniform: Uniform) -> tuple[Jagged, float] | None:
        """Return the shortest jagged window of one term or none; that of the fewest terms for a given block."""
        for window in self._jagged_windows(block, uniform.lags):
            if found := self.prove(window):
                return found
        return None

    def _jagged_windows(self, block: int | None, lags: int) -> Iterator[Jagged]:
        """Yield the windows to try, the cheaper first.

        If nothing grows, a block of `lags` - 1 steps with one term is good enough. More terms aren't needed: one block
        as long as m blocks keeps all that m terms keep, and costs less.
        """
        n = self.length
        if block is not None:
            yield from (Jagged(block, terms) for terms in range(max(1, -(-n // block) - 1)))
            return
        short = min(2 * lags, n - 1)
        # Where one coefficient in ten may end a block, about n / (k^2 10^k) long ones end k times by accident.
        often = (n - 1) // len(str(n))
        yield from (Jagged(length, 0) for length in self._resets(short if self.grows else max(short, often)))
        yield from (Jagged(length, 1) for length in range(1, short // 2 + 1))

    def _resets(self, longest: int) -> Iterator[int]:
        """Yield the lengths of blocks without terms whose first steps all lose little enough."""
        steps = slice(1, self.length)
        kept = np.concatenate([[False], (self.lost(steps, steps) > self.target).any(axis=0)])
        ends = np.flatnonzero(~kept[: longest + 1])[1:].tolist()  # of first blocks; few, if few coefficients are small
        yield from (length for length in ends if not kept[length::length].any())

    def reason(self) -> str:
        """Return why there is none."""
        n = self.length
        if self.grows:
            return _GROWTH
        error = self.proved.bound(Uniform(n - 1))
        return (
            f"the last of {n} steps still sees the first with a weight of {error:.3g}, the product of all coefficients"
        )


def smallest(fits: Callable[[int], bool], most: int | None = None) -> int | None:
    """Return the smallest positive number that fits; None if none up to `most` does. All numbers above it must fit."""
    low, high = 0, 1
    while not fits(high):
        if high == most:
            return None
        low, high = high, 2 * high if most is None else min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _sums(values: Array) -> Array:
    """Return the sums of the values before each place, and of all."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=float if values.dtype.kind == "f" else int)
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return sums


def _one_later(values: Array) -> Array:
    """Return the values one step later, and 1 first."""
    return np.concatenate([np.ones_like(values[:, :1]), values[:, :-1]], axis=1)


def _log(value: Fraction) -> float:
    """Return the logarithm of a positive number that a float may not hold."""
    return log(value.numerator) - log(value.denominator)
