"""The search of `choose_window`: the shortest windows of each kind that are proved to lose no more than a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, log, prod
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from recfact.arrays import Array
from recfact.errors import OptionError, shown
from recfact.precision.exact.outward import Upward
from recfact.precision.truncation.truncation_bounds import magnitude, truncation_bound
from recfact.precision.truncation.window_errors import truncation_norm
from recfact.precision.truncation.window_losses import WindowLosses
from recfact.precision.truncation.window_rows import RowLosses, rows_of
from recfact.windows import Jagged, Uniform

MARGIN = 1e-6
"""Sums of logarithms this far above the limit's are still left to the proof."""

SEEN = 8
"""Coefficients are looked at so many times before all of a sequence are multiplied in 128 bits."""

NEAREST = Fraction(1, 2**256)
"""Bounds nearer to 1 than that need windows of more than 10^77 steps, and minutes to find them."""

_GROWTH = "coefficients above 1 in magnitude make lost states larger"

_NO_JAGGED = "no jagged window that was tried is good enough"

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

    length = None

    def __init__(self, rho: Any, limit: Fraction, relative_to: str) -> None:
        self.rho, self.limit, self.relative_to = magnitude(rho, "a"), limit, relative_to

    def prove(self, window: W) -> tuple[W, float] | None:
        """Return the window with its error if that is small enough."""
        # What is nearer to 1 than bounds are computed for has a smaller error than the next number that isn't.
        near = 0 < abs(1 - self.rho) < NEAREST
        rho = (1 if self.rho < 1 else 1 + NEAREST) if near else self.rho
        error = truncation_bound(rho, window, relative_to=self.relative_to)
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

    def without_jagged(self, _: int | None) -> str:
        """Return why no jagged window is good enough beside a uniform one."""
        return f"{_NO_JAGGED}: {_GROWTH}"

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
    offsets : array_like of int, optional
        Where segments start, each a sequence of its own, and where the last one ends.
    """

    def __init__(self, a: Array, limit: Fraction, relative_to: str, axis: int, offsets: Any = None) -> None:
        self.a, self.axis = np.moveaxis(a, axis, -1), axis
        self.limit, self.relative_to = limit, relative_to
        self.parts = [RowLosses(rows, rows.of(self.a), relative_to) for rows in rows_of(self.a.shape, offsets)]
        self.length = max((part.length for part in self.parts), default=self.a.shape[-1])
        self.grows = any(part.grows for part in self.parts)
        self.target = _log(limit) + MARGIN if limit else -inf

    def fits(self, window: Uniform | Jagged) -> bool:
        """Return whether a window's error is small enough, as far as sums of logarithms tell."""
        return all(part.most(window) <= self.target for part in self.parts)

    def worst(self, window: Uniform | Jagged) -> tuple[int, ...] | None:
        """Return where in the coefficients a window loses most, as far as logarithms tell."""
        most, sequence, step = max((part.worst(window) for part in self.parts), key=itemgetter(0), default=(-inf, 0, 0))
        if most == -inf:
            return None
        place = [int(at) for at in np.unravel_index(sequence, self.a.shape[:-1])] if self.a.ndim > 1 else []
        return (*place[: self.axis], step, *place[self.axis :])

    def prove(self, window: W) -> tuple[W, float] | None:
        """Return the window with its error if the error is small enough; sharper numbers decide close cases."""
        if not self.fits(window):
            return None
        largest = 0.0
        for part in self.parts:
            a = part.rows.of(self.a)
            errors = WindowLosses(a, self.relative_to).bounds(window)
            for close in np.flatnonzero(errors > self.limit):
                errors[close] = self._sharper(a[close], window)
                if errors[close] > self.limit:
                    return None
            largest = max(largest, float(np.max(errors, initial=0.0)))
        return window, largest

    def _sharper(self, a: Array, window: Uniform | Jagged) -> float:
        """Return what a window loses in a sequence: in 128 bits, if 53 don't tell that it is more than the limit."""
        losses = WindowLosses(a, self.relative_to)
        _, states, lag, errors = losses.lost(window)
        most = errors.max()
        least = most * (1 - (lag + 2) * 2.0**-50)
        if least > self.limit:
            return float(most)
        states = states[errors >= least]
        if losses.grows or self.relative_to == "input" or len(states) * lag > SEEN * len(a):
            return float(truncation_norm(a, window, relative_to=self.relative_to))
        seen = dict.fromkeys(map(tuple, sliding_window_view(a[1:], lag)[states].tolist()))
        return max(float(prod(map(Upward.of, factors), start=Upward(1))) for factors in seen)

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

    def without_jagged(self, block: int | None) -> str:
        """Return that no jagged window is good enough, and the one for whoever needs one: it keeps every lag."""
        n = self.length
        whole = Jagged(max(1, -(-n // 2))) if block is None else Jagged(block, -(-n // block) - 1)
        return f"{_NO_JAGGED}; {whole} keeps whole sequences"

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
        kept = np.zeros(self.length, dtype=bool)
        for part in self.parts:
            steps = slice(1, part.length)
            kept[steps] |= (part.lost(steps, steps) > self.target).any(axis=0)
        ends = np.flatnonzero(~kept[: longest + 1])[1:].tolist()  # of first blocks; few, if few coefficients are small
        yield from (length for length in ends if not kept[length::length].any())

    def reason(self) -> str:
        """Return why there is none."""
        n = self.length
        if self.grows:
            return _GROWTH
        window = Uniform(n - 1)
        error = max(WindowLosses(part.rows.of(self.a), self.relative_to).bound(window) for part in self.parts)
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


def _log(value: Fraction) -> float:
    """Return the logarithm of a positive number that a float may not hold."""
    return log(value.numerator) - log(value.denominator)
