"""What windows lose at most, proved in float64 arrays that only ever round up: what long sequences take.

The proof of `truncation_norm` in the maximum norm, with 53 bits in place of 128 and arrays in place of scalars. A row
loses what its window sees last of all, a product of consecutive coefficients, so there are no sums but those of the
states that are lost. Significands and exponents are kept apart: no product leaves their range.
"""

from __future__ import annotations

from functools import cached_property
from math import inf, nextafter
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.exact.error_free import two_product
from recfact.precision.exact.outward import Upward, ldexp_up
from recfact.windows import Jagged, Uniform

# Significands in [1/2, 1), or 0, and binary exponents.
Scaled = tuple[Array, Array]


class WindowLosses:
    """Upper bounds of the truncation error in the maximum norm, for given coefficients.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients, real and finite, in the range of float64.
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
        self.moduli = np.abs(a.astype(np.float64)) if exact else np.array([float(Upward.of(each)) for each in a])
        self.relative_to = relative_to
        self.grows = bool(np.any(self.moduli[1:] > 1))

    def bound(self, window: Uniform | Jagged) -> float:
        """Return what the window loses at most, above the truth by 2^-52 for each factor at most.

        Infinite where a state leaves the range of float64.
        """
        n = len(self.moduli)
        if not np.isfinite(self._states).all():
            return inf
        if isinstance(window, Uniform):
            lags = window.lags
            return _largest(self._products(lags), self._states[: n - lags]) if lags < n else 0.0
        block, terms = window.block, window.terms
        if (terms + 1) * block >= n:
            return 0.0
        # The state before the first block that is kept, in the first row of each block that loses one.
        lost = slice(block - 1, None, block)
        first = _at(self._products(terms * block + 1), lost)
        states = self._states[lost][: len(first[0])]
        # Without growth the first step of a block loses most.
        return _largest(_times(first, self._growth(block, terms + 1)) if self.grows else first, states)

    def _products(self, lag: int) -> Scaled:
        """Return the products of `lag` consecutive coefficients for the rows from `lag` on, as `lag_products` does."""
        if lag == 1:
            return _at(self._coefficients, np.s_[1:])
        half = lag // 2
        products = self._products(half)
        squared = _times(_at(products, np.s_[half:]), _at(products, np.s_[:-half]))
        return squared if lag % 2 == 0 else _times(_at(self._coefficients, np.s_[lag:]), _at(squared, np.s_[:-1]))

    def _growth(self, block: int, before: int) -> Scaled:
        """Return the largest product that rows of each block, but the first `before`, have beyond that of its first."""
        blocks = -(-len(self.moduli) // block)
        values = np.zeros(blocks * block)
        values[: len(self.moduli)] = self.moduli
        rows = values.reshape(blocks, block)[before:]
        rows[:, 0] = 1
        products = np.frexp(rows)
        shift = 1
        while shift < block:
            longer = _times(_at(products, np.s_[:, shift:]), _at(products, np.s_[:, :-shift]))
            for part, new in zip(products, longer, strict=True):
                part[:, shift:] = new
            shift *= 2
        exponents = np.where(products[0] > 0, products[1], np.iinfo(np.int32).min)
        top = exponents.max(axis=1, keepdims=True)
        return np.where(exponents == top, products[0], 0).max(axis=1), top[:, 0]

    @cached_property
    def _coefficients(self) -> Scaled:
        return np.frexp(self.moduli)

    @cached_property
    def _states(self) -> Array:
        """Return the largest states that inputs up to 1 reach, or 1 where states are what errors are compared with."""
        if self.relative_to == "state":
            return np.ones(len(self.moduli))
        states, state = [], 0.0
        for factor in self.moduli.tolist():
            state = nextafter(1 + nextafter(factor * state, inf), inf) if factor and state else 1.0
            states.append(state)
        return np.array(states)


def _at(numbers: Scaled, index: Any) -> Scaled:
    return numbers[0][index], numbers[1][index]


def _times(x: Scaled, y: Scaled) -> Scaled:
    """Return products, rounded up."""
    product, rest = two_product(x[0], y[0])
    significand, shift = np.frexp(np.where(rest > 0, np.nextafter(product, inf), product))
    return significand, x[1] + y[1] + shift


def _largest(products: Scaled, states: Array) -> float:
    """Return the largest product with a state, rounded up to a float."""
    significand, shift = np.frexp(states)
    return float(np.max(ldexp_up(*_times(products, (significand, shift)))))
