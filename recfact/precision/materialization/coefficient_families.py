"""Coefficients that recurrences meet, by name, to compare constructions on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recfact.arrays import Array

Family = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _gates(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return the logistic function of normal variates, as an untrained gate has it."""
    return 1 / (1 + np.exp(-rng.standard_normal(shape)))


def _with_resets(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.1, 0.0, _gates(rng, shape))


def _first_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return gates with a zero at the start of each block, where L doesn't see it."""
    gates = _gates(rng, shape)
    gates[..., 0] = 0
    return gates


COEFFICIENT_FAMILIES: dict[str, Family] = {
    "sigmoid(N)": _gates,
    "U(0, 1)": lambda rng, shape: rng.uniform(0, 1, shape),
    "U(0.9, 1)": lambda rng, shape: rng.uniform(0.9, 1, shape),
    "1 - U(0, 1/32)": lambda rng, shape: 1 - rng.uniform(0, 1 / 32, shape),
    "U(1, 1.05)": lambda rng, shape: rng.uniform(1, 1.05, shape),
    "U(-1, 1)": lambda rng, shape: rng.uniform(-1, 1, shape),
    "10% zeros": _with_resets,
    "first one zero": _first_zero,
}
"""Draws of coefficients, of a generator and a shape (blocks, block): logistic gates, uniform ones, slow decay, slow
growth, both signs, gates with resets, and gates whose block begins with a reset."""
