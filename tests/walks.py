"""Recurrences whose coefficients, inputs, products, sums and states are exact in every number type that is computed in.

So whatever the order of the arithmetic, an engine must find the states that are known before, to the last bit. States
are 2^c_i k_i with integers k_i below 20 and c_i from -3 to 3, and a coefficient is 2^(c_i - c_(i-1)) with any sign (one
of 1, i, -1, -i if complex), or a reset, 0.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from recfact.number_types import accumulator
from recfact.windows import Full, Jagged, Uniform, Window

Array = np.ndarray[Any, Any]

DTYPES = {np.dtype(kind).name: np.dtype(kind) for kind in ("f4", "f8", "c8", "c16", "f2", ml_dtypes.bfloat16)}
TWINS = {"float16": "bfloat16", "complex128": "complex64"}
"""Types that only the slow tests have where many kernels are compiled, and those that take their place."""
FEW_DTYPES = [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("float32", "bfloat16"))) for name in DTYPES]
"""A type that is computed in itself and one that isn't, where what is drawn decides which kernels are compiled."""
EACH_DTYPE = [pytest.param(name, marks=[pytest.mark.slow] * (name in TWINS)) for name in DTYPES]


class Walk:
    """Coefficients and inputs of at most `most` steps, in the order of the steps, time on axis 0; and their states.

    Parameters
    ----------
    most : int
        How many steps there are to choose from.
    channels : tuple of int
        The other axes.
    dtype : dtype
        Of the numbers.
    resets : float
        The part of the coefficients that are 0.
    shared : bool
        Whether the coefficients are the same along the last axis, of which theirs has length 1.
    """

    def __init__(
        self, most: int, channels: tuple[int, ...], dtype: np.dtype[Any], resets: float, shared: bool = False
    ) -> None:
        rng = np.random.default_rng(most)
        shape = (most + 1, *channels)  # the first is the initial state
        own = (*shape[:-1], 1) if shared and channels else shape
        is_complex = dtype.kind == "c"
        self.dtype = dtype
        self.scale = np.exp2(rng.integers(-3, 4, own))
        self.k = rng.integers(-19, 20, shape) + (1j * rng.integers(-19, 20, shape) if is_complex else 0)
        turn = rng.choice([1, 1j, -1, -1j] if is_complex else [1, -1], own)
        reset = rng.random(own) < resets
        self.turned = np.multiply.accumulate(turn, axis=0)
        if is_complex:
            self.turned = self.turned.real.round() + 1j * self.turned.imag.round()
        self.last_reset = np.maximum.accumulate(
            np.where(reset, np.arange(-1, most).reshape(-1, *[1] * len(channels)), -1)
        )
        a = np.where(reset, 0, turn)[1:] * (self.scale[1:] / self.scale[:-1])
        u = self.scale[1:] * (self.k[1:] - np.where(reset, 0, turn)[1:] * self.k[:-1])
        self.a, self.u = a.astype(dtype), u.astype(dtype)
        self.x0 = (self.scale[0] * self.k[0]).astype(accumulator(dtype))

    def problem(self, n: int, reverse: bool) -> tuple[Array, Array]:
        """Return coefficients and inputs of n steps."""
        if not reverse:
            return self.a[:n], self.u[:n]
        return np.concatenate([self.a[:1], self.a[n - 1 : 0 : -1]]), self.u[:n][::-1]

    def states(self, n: int, window: Window, reverse: bool, initial: bool) -> Array:
        """Return the states of `problem` under a window, from the initial state or from nothing."""
        starts = first_steps(n, window, reverse)
        before, after = starts, np.arange(1, n + 1)
        left_out = self.turned[after] * self.turned[before].conj() * self.k[before]
        wide = starts.reshape(-1, *[1] * (self.k.ndim - 1))
        left_out = np.where((self.last_reset[after] >= wide) | (initial & (wide == 0)), 0, left_out)
        x = (self.scale[after] * (self.k[after] - left_out)).astype(self.dtype)
        return x[::-1] if reverse else x


def first_steps(n: int, window: Window, reverse: bool) -> Array:
    """Return for each of n steps, in their order, the first step that its window holds."""
    place = np.arange(n)
    match window:
        case Full():
            return np.zeros(n, np.int64)
        case Uniform(lags):
            return np.maximum(0, place - lags + 1)
        case Jagged(block, terms) if not reverse:
            return np.maximum(0, (place // block - terms) * block)
        case Jagged(block, terms):  # blocks count from the first number in memory, which the last step writes
            return np.maximum(0, n - (((n - 1 - place) // block + terms + 1) * block))
    raise AssertionError(window)
