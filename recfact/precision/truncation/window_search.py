"""The search of `choose_window`: the shortest windows of each kind that are proved to lose no more than a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, log
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

    def reason(self) -> str:
        """Return why there is none."""
        if self.rho > 1:
            return _GROWTH
        if self.rho == 1:
            return "coefficients of magnitude 1 let no input fade"
        return "no coefficient is 0, so every input leaves a trace"


class DataSearch:
    """Windows for given coefficients.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients, real.
    limit, relative_to : Fraction, str
        As for `BoundSearch`.
    """

    def __init__(self, a: Any, limit: Fraction, relative_to: str) -> None:
        self.a, self.limit, self.relative_to = as_coefficients(a), limit, relative_to
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
        logarithms[:1], zero[:1] = 0.0, False  # a[0] multiplies the initial state alone
        # The product of a[i] ... a[j] has the logarithm products[i + 1] - products[j], and zeros[i + 1] - zeros[j]
        # factors 0 besides: a sum of logarithms alone would not tell 0 from what is merely small.
        self.products = np.concatenate([[0.0], np.cumsum(logarithms)])
        self.zeros = np.concatenate([[0], np.cumsum(zero)])
        self.states = np.log(row_sums(moduli)) if relative_to == "input" else np.zeros(len(moduli))
        self.target = _log(limit) + MARGIN if limit else -inf

    def losses(self, rows: Array, first: Array) -> float:
        """Return the logarithm of the largest loss among rows whose windows begin at `first`, above 0."""
        lost = self.products[rows + 1] - self.products[first] + self.states[first - 1]
        return float(np.max(lost, initial=-inf, where=self.zeros[rows + 1] == self.zeros[first]))

    def fits(self, window: Uniform | Jagged) -> bool:
        """Return whether a window's error is small enough, as far as sums of logarithms tell."""
        n = len(self.a)
        if isinstance(window, Uniform):
            rows = np.arange(window.lags, n)
            return self.losses(rows, rows - window.lags + 1) <= self.target
        block, terms = window.block, window.terms
        # Without growth the first step of a block loses most.
        if (terms + 1) * block >= n:
            return True
        rows = np.arange((terms + 1) * block, n, 1 if self.grows else block)
        return self.losses(rows, (rows // block - terms) * block) <= self.target

    def prove(self, window: W) -> tuple[W, float] | None:
        """Return the window with its error if that is small enough; sharper numbers decide what is close."""
        if not self.fits(window):
            return None
        error = self.proved.bound(window)
        if error > self.limit:
            error = truncation_norm(self.a, window, relative_to=self.relative_to)
        return (window, error) if error <= self.limit else None

    def uniform(self) -> tuple[Uniform, float] | None:
        """Return the shortest uniform window; one of the shorter ones if coefficients grow."""
        most = max(1, len(self.a) - 1)
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

        Without growth a block of `lags` - 1 steps and one term is good enough, and more terms aren't needed: m blocks
        in one keep all that m terms keep, and cost less.
        """
        n = len(self.a)
        if block is not None:
            yield from (Jagged(block, terms) for terms in range(max(1, -(-n // block) - 1)))
            return
        short = min(2 * lags, n - 1)
        # Where one coefficient in ten may end a block, about n / (k^2 10^k) long ones end k times by accident.
        often = (n - 1) // len(str(n))
        yield from (Jagged(length, 0) for length in self._resets(short if self.grows else max(short, often)))
        yield from (Jagged(length, 1) for length in range(1, short // 2 + 1))

    def _resets(self, longest: int) -> Iterator[int]:
        """Yield the lengths of blocks at whose first steps nothing is lost that is too much."""
        steps = np.arange(1, len(self.a))
        lost = self.products[steps + 1] - self.products[steps] + self.states[steps - 1]
        kept = np.concatenate([[False], (lost > self.target) & (self.zeros[steps + 1] == self.zeros[steps])])
        yield from (length for length in range(1, longest + 1) if not kept[length::length].any())

    def reason(self) -> str:
        """Return why there is none."""
        n = len(self.a)
        if self.grows:
            return _GROWTH
        error = self.proved.bound(Uniform(n - 1))
        return (
            f"of {n} steps the last still sees the first with a weight of {error:.3g}, the product of all coefficients"
        )


def smallest(fits: Callable[[int], bool], most: int | None = None) -> int | None:
    """Return the smallest positive number that fits, as all numbers above it do; None if none up to `most` does."""
    low, high = 0, 1
    while not fits(high):
        if high == most:
            return None
        low, high = high, 2 * high if most is None else min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _log(value: Fraction) -> float:
    """Return the logarithm of a positive number that a float may not hold."""
    return log(value.numerator) - log(value.denominator)
