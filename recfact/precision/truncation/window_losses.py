"""Proved bounds of the truncation error for long sequences, in float64 arrays that always round up.

This is the proof of `truncation_norm` in the maximum norm. It has 53 bits instead of 128, and arrays instead of
scalars. What a row loses is one earlier state times a product of consecutive coefficients. So the only sums are those
in the lost states. Significands and exponents are kept apart, so no product leaves their range.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from recfact.arrays import Array
from recfact.factorizations.norms import row_sums
from recfact.precision.exact.outward import Upward, ldexp_up
from recfact.precision.exact.scaled import Scaled, at, times_up
from recfact.windows import Jagged, Uniform


class WindowLosses:
    """Upper bounds of the truncation error in the maximum norm, for given coefficients.

    Parameters
    ----------
    a : ndarray, shape (..., n)
        Coefficients, real and finite, in the range of float64; time is the last axis.
    relative_to : {"state", "input"}
        What the error is compared with.

    Examples
    --------
    >>> losses = WindowLosses(np.full(16, 0.5), "state")
    >>> losses.bound(Uniform(4)), losses.bound(Jagged(4)), losses.bound(Uniform(16))
    (0.0625, 0.03125, 0.0)
    """

    def __init__(self, a: Array, relative_to: str) -> None:
        exact = a.dtype != object and np.can_cast(a.dtype, np.float64)
        self.moduli = np.abs(a.astype(np.float64)) if exact else _round_up(a)
        self.relative_to = relative_to
        self.grows = bool(np.any(self.moduli[..., 1:] > 1))

    def bound(self, window: Uniform | Jagged) -> float:
        """Return an upper bound of what the window loses.

        It exceeds the loss by 2^-52 for each factor and state at most, relatively. It is infinite where a state leaves
        the range of float64.
        """
        return float(np.max(self.bounds(window), initial=0.0))

    def bounds(self, window: Uniform | Jagged) -> Array:
        """Return an upper bound of what the window loses in each sequence, shape (...)."""
        n = self.moduli.shape[-1]
        if isinstance(window, Uniform):
            lags = window.lags
            return self._largest(self._products(lags), self._states[..., : n - lags]) if lags < n else self._none
        block, terms = window.block, window.terms
        if (terms + 1) * block >= n:
            return self._none
        # The first row of each block that loses a state: its factors begin where the first block that is kept does.
        lag = terms * block + 1
        factors = at(self._coefficients, np.s_[..., block:])
        first = _product(_each(factors, lambda part: sliding_window_view(part, lag, axis=-1)[..., ::block, :]))
        states = self._states[..., block - 1 :: block][..., : first[0].shape[-1]]
        # Without growth the first step of a block loses most.
        return self._largest(times_up(first, self._growth(block, terms + 1)) if self.grows else first, states)

    @property
    def _none(self) -> Array:
        return np.zeros(self.moduli.shape[:-1])

    def _largest(self, products: Scaled, states: Array) -> Array:
        """Return the largest product with a state of each sequence, rounded up to a float."""
        known = np.asarray(np.isfinite(self._states).all(axis=-1))
        states = np.where(known[..., None], states, 1.0)
        return np.where(known, ldexp_up(*times_up(products, np.frexp(states))).max(axis=-1), inf)

    def _products(self, lag: int) -> Scaled:
        """Return the products of `lag` consecutive coefficients for the rows from `lag` on, as `lag_products` does."""
        if lag == 1:
            return at(self._coefficients, np.s_[..., 1:])
        half = lag // 2
        products = self._products(half)
        squared = times_up(at(products, np.s_[..., half:]), at(products, np.s_[..., :-half]))
        if lag % 2 == 0:
            return squared
        return times_up(at(self._coefficients, np.s_[..., lag:]), at(squared, np.s_[..., :-1]))

    def _growth(self, block: int, before: int) -> Scaled:
        """Return for each block after the first `before` the largest product of coefficients from its second row on.

        Such a product ends at any row of the block; that of its first row is 1.
        """
        *sequences, n = self.moduli.shape
        blocks = -(-n // block)
        values = np.zeros((*sequences, blocks * block))
        values[..., :n] = self.moduli
        rows = values.reshape(*sequences, blocks, block)[..., before:, :]
        rows[..., 0] = 1
        products = np.frexp(rows)
        shift = 1
        while shift < block:
            longer = times_up(at(products, np.s_[..., shift:]), at(products, np.s_[..., :-shift]))
            for part, new in zip(products, longer, strict=True):
                part[..., shift:] = new
            shift *= 2
        exponents = np.where(products[0] > 0, products[1], np.iinfo(np.int32).min)
        top = exponents.max(axis=-1, keepdims=True)
        return np.where(exponents == top, products[0], 0).max(axis=-1), top[..., 0]

    @cached_property
    def _coefficients(self) -> Scaled:
        return np.frexp(self.moduli)

    @cached_property
    def _states(self) -> Array:
        """Return the largest states that inputs up to 1 reach, or 1 if errors are compared with the states."""
        if self.relative_to == "state":
            return np.ones_like(self.moduli)
        # Where all terms are positive the engine errs by gamma_(n+5), and underflow adds nothing that counts beside 1.
        slack = 1 + (self.moduli.shape[-1] + 8) * 2.0**-53 * (1 + 2.0**-20)
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(row_sums(self.moduli) * slack, inf))


def _each(x: Scaled, change: Callable[[Array], Array]) -> Scaled:
    return change(x[0]), change(x[1])


def _product(x: Scaled) -> Scaled:
    """Return the products along the last axis, in the order of `WindowLosses._products`."""
    lag = x[0].shape[-1]
    if lag == 1:
        return at(x, np.s_[..., 0])
    halves = _product(_each(x, lambda part: part[..., : lag // 2 * 2].reshape(*part.shape[:-1], 2, lag // 2)))
    squared = times_up(at(halves, np.s_[..., 1]), at(halves, np.s_[..., 0]))
    return squared if lag % 2 == 0 else times_up(at(x, np.s_[..., -1]), squared)


def _round_up(a: Array) -> Array:
    """Return the magnitudes of exact scalars as floats."""
    return np.array([float(Upward.of(each)) for each in a.ravel()]).reshape(a.shape)
