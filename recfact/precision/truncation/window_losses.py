"""Proved bounds of the truncation error for long sequences, in float64 arrays that always round up.

This is the proof of `truncation_norm` in the maximum norm. It has 53 bits instead of 128, and arrays instead of
scalars. A row loses one earlier state times a product of consecutive coefficients. So the only sums are those
in the lost states. Significands and exponents are kept apart, so no product leaves their range.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from recfact.arrays import Array
from recfact.factorizations.norms import row_sums
from recfact.precision.exact.outward import Upward, ldexp_up
from recfact.precision.exact.scaled import Scaled
from recfact.windows import Jagged, Uniform

NORMAL = 2.0**-900
"""Products of floats down to it have lost no bits to underflow."""


class WindowLosses:
    """Upper bounds of the truncation error in the maximum norm, for given coefficients.

    Parameters
    ----------
    a : ndarray, shape (n,) or (rows, n)
        Coefficients of one sequence or many, real and finite, in the range of float64.
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
        self.moduli = np.atleast_2d(np.abs(a.astype(np.float64)) if exact else _round_up(a))
        self.relative_to = relative_to
        self.grows = bool(np.any(self.moduli[..., 1:] > 1))

    def bound(self, window: Uniform | Jagged) -> float:
        """Return an upper bound of what the window loses.

        It exceeds the loss by 2^-52 for each factor and state at most, relatively. It is infinite where a state leaves
        the range of float64.
        """
        return float(np.max(self.bounds(window), initial=0.0))

    def bounds(self, window: Uniform | Jagged) -> Array:
        """Return an upper bound of what the window loses in each sequence, shape (rows,)."""
        most = np.zeros(len(self.moduli))
        rows, _, _, errors = self.lost(window)
        np.maximum.at(most, rows, errors)
        return most

    def lost(self, window: Uniform | Jagged) -> tuple[Array, Array, int, Array]:
        """Return the states that may be lost with the largest errors.

        Returns
        -------
        rows, steps : ndarray of int
            The states: the sequence and step of each.
        lag : int
            Without growth, what is lost of a state is its product with the `lag` coefficients after it.
        errors : ndarray of float64
            Upper bounds of what is lost of them.
        """
        n = self.moduli.shape[-1]
        match window:
            case Uniform(lag):
                first, step = 0, 1
            case Jagged(step, terms):  # without growth the first step of a later block loses most of a block's state
                first, lag = step - 1, terms * step + 1
        last = slice(first, max(first, n - lag), step)
        states = self._states[:, last]
        rows, places = np.nonzero(self._heavy(window, states))
        if not len(rows):
            return rows, places, lag, np.zeros(0)
        factors = self._coefficients[:, 1:]
        if step == 1 and len(places) * lag > states.size:
            products = _lag_products(factors, lag, Scaled.times_up)[rows, places]
        else:
            products = _product(
                factors.each(lambda part: sliding_window_view(part, lag, axis=-1)[:, last][rows, places])
            )
        if isinstance(window, Jagged) and self.grows:
            products = products.times_up(self._growth(window.block, window.terms + 1)[rows, places])
        known = np.asarray(np.isfinite(self._states).all(axis=-1))[rows]
        reached = products.times_up(Scaled.of(np.where(known, states[rows, places], 1.0)))
        errors = np.where(known, ldexp_up(reached.significands, reached.exponents), inf)
        return rows, first + step * places, lag, errors

    def _heavy(self, window: Uniform | Jagged, states: Array) -> Array:
        """Return which of the states may be lost with the largest error of their sequence: all if that isn't known."""
        every = np.ones(states.shape, dtype=bool)
        if isinstance(window, Jagged) or self.grows or not states.size:
            return every
        lag = window.lags
        products = _lag_products(self.moduli[:, 1:], lag, np.multiply)
        if self.relative_to == "state":  # coefficients that repeat those of the state before lose no more than it does
            changes = np.cumsum(self.moduli[:, 1:] != self.moduli[:, :-1], axis=-1)
            every[:, 1:] = changes[:, lag:] != changes[:, :-lag]
        weights = products * states
        most = weights.max(axis=-1, keepdims=True)
        # Both a weight and its bound are `lag` + 2 roundings off at most, if none of them underflows.
        heavy = weights >= most * (1 - (lag + 2) * 2.0**-50)
        return np.asarray(every & (heavy | (most < NORMAL)))

    def _growth(self, block: int, before: int) -> Scaled:
        """Return for each block after the first `before` the largest product of coefficients from its second row on.

        Such a product ends at any row of the block; that of its first row is 1.
        """
        sequences, n = self.moduli.shape
        blocks = -(-n // block)
        values = np.zeros((sequences, blocks * block))
        values[:, :n] = self.moduli
        rows = values.reshape(sequences, blocks, block)[:, before:]
        rows[..., 0] = 1
        products = Scaled.of(rows)
        shift = 1
        while shift < block:
            products[..., shift:] = products[..., shift:].times_up(products[..., :-shift])
            shift *= 2
        exponents = np.where(products.significands > 0, products.exponents, np.iinfo(np.int32).min)
        top = exponents.max(axis=-1, keepdims=True)
        return Scaled(np.where(exponents == top, products.significands, 0).max(axis=-1), top[..., 0])

    @cached_property
    def _coefficients(self) -> Scaled:
        return Scaled.of(self.moduli)

    @cached_property
    def _states(self) -> Array:
        """Return the largest states that inputs up to 1 reach, or 1 if errors are compared with the states."""
        if self.relative_to == "state":
            return np.ones_like(self.moduli)
        # Where all terms are positive the engine errs by gamma_(n+5), and underflow adds nothing that counts beside 1.
        slack = 1 + (self.moduli.shape[-1] + 8) * 2.0**-53 * (1 + 2.0**-20)
        with np.errstate(over="ignore"):
            return np.asarray(np.nextafter(row_sums(self.moduli) * slack, inf))


def _lag_products(x: Any, lag: int, times: Callable[[Any, Any], Any]) -> Any:
    """Return the products of `lag` consecutive numbers."""
    if lag == 1:
        return x
    half = _lag_products(x, lag // 2, times)
    squared = times(half[..., lag // 2 :], half[..., : -(lag // 2)])
    return squared if lag % 2 == 0 else times(x[..., lag - 1 :], squared[..., :-1])


def _product(x: Scaled) -> Scaled:
    """Return the products along the last axis, in the order of `_lag_products`, rounded up."""
    lag = x.significands.shape[-1]
    if lag == 1:
        return x[..., 0]
    halves = _product(x.each(lambda part: part[..., : lag // 2 * 2].reshape(*part.shape[:-1], 2, lag // 2)))
    squared = halves[..., 1].times_up(halves[..., 0])
    return squared if lag % 2 == 0 else x[..., -1].times_up(squared)


def _round_up(a: Array) -> Array:
    """Return the magnitudes of exact scalars as floats."""
    return np.array([float(Upward.of(each)) for each in a.ravel()]).reshape(a.shape)
