"""What a jagged window loses against uniform ones, over families of coefficients.

python -m benchmarks.open_questions.jagged

A step of Jagged(l) keeps l + 1 to 2 l lags, by its phase in its block. So row by row, and for any coefficients, it
loses no more than Uniform(l + 1) and no less than Uniform(2 l). Where it lies in between is said by its *equivalent*
window: the K, between two integers, for which Uniform(K) loses as much. There are two losses, of the rows of
E = L - L~ that every one of these windows cuts off:

    worst       the largest sum of |E_ij| over j: the largest error for inputs up to 1
    rms         the root of the mean sum of E_ij^2: that of the error for independent inputs of mean 0 and variance 1

Both are computed for given coefficients, without drawing inputs, as exactly as float64 adds up numbers of one sign.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad

import recfact as rf
from benchmarks.open_questions.records import record
from recfact.arrays import Array
from recfact.errors import GrowthWarning

STEPS, BLOCKS = 1 << 16, (16, 64)


class Family(NamedTuple):
    """How coefficients are drawn, and the mean of their squares if they are independent and that is below 1."""

    draw: Callable[[np.random.Generator, int], Array]
    square: float | None


def constant(rho: float) -> Family:
    """Return one coefficient at all steps."""
    return Family(lambda _, n: np.full(n, rho), rho**2)


def logistic(x: Any) -> Any:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def gates(mean: float) -> Family:
    """Return the logistic function of normal variates of variance 1."""
    square = quad(lambda z: logistic(mean + z) ** 2 * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]
    return Family(lambda rng, n: np.asarray(logistic(mean + rng.standard_normal(n))), square)


FAMILIES = {
    "constant 0.9": constant(0.9),
    "constant 0.99": constant(0.99),
    "0.9 with random signs": Family(lambda rng, n: rng.choice([-0.9, 0.9], n), 0.81),
    "rotations, modulus 1": Family(lambda rng, n: np.exp(2j * np.pi * rng.random(n)), None),
    "uniform in [0, 1]": Family(lambda rng, n: rng.random(n), 1 / 3),
    "uniform in [0.9, 1]": Family(lambda rng, n: rng.uniform(0.9, 1, n), 2.71 / 3),
    "sigmoid(N(0, 1))": gates(0),
    "sigmoid(N(3, 1))": gates(3),
    "0.95, 2 % resets": Family(lambda rng, n: np.where(rng.random(n) < 0.02, 0.0, 0.95), 0.98 * 0.95**2),
    "0.95, a reset every 64 steps": Family(lambda _, n: np.where(np.arange(n) % 64 == 0, 0.0, 0.95), None),
    "0.8 Student's t, 3 degrees": Family(lambda rng, n: 0.8 * rng.standard_t(3, n), None),
}
"""The last one is heavy-tailed: states have a limit distribution, since E log |a| < 0, of mean 0 and infinite variance,
since E a^2 = 1.92 (Kesten, 1973)."""


def losses(a: Array, window: rf.Uniform | rf.Jagged) -> tuple[Array, Array]:
    """Return the sums of |E_ij| and of E_ij^2 for each row: E of |a|, and of its squares, for inputs of 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrowthWarning)
        moduli = np.abs(a)
        worst, square = (
            rf.TransferOperator(each).truncate(window).error(np.ones(len(a)))  # type: ignore[union-attr]
            for each in (moduli, moduli**2)
        )
    return worst, square


def equivalent(measure: Callable[[int], float], target: float, block: int) -> float | None:
    """Return the lags of the uniform window that loses as much, interpolated in the logarithm; None if nothing is lost.

    The measure falls with the lags. It is above the target at `block` + 1 lags and below it at twice the block.
    """
    if target == 0:
        return None
    low, high = block + 1, 2 * block
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if measure(middle) >= target else (low, middle)
    above, below = np.log(measure(low)), np.log(measure(high))
    return float(low + (above - np.log(target)) / (above - below)) if above > below else float(low)


def predicted(square: float, block: int) -> float:
    """Return the equivalent lags of the rms for independent coefficients whose squares have this mean."""
    powers = np.mean(square ** np.arange(1, block + 1))
    return float(block + np.log(powers) / np.log(square))


def row(name: str, block: int, steps: int) -> dict[str, Any]:
    """Return the equivalent windows for one family, and the losses relative to a uniform window of as many lags."""
    family = FAMILIES[name]
    a = family.draw(np.random.default_rng([0, *name.encode()]), steps)

    def worst(window: rf.Uniform | rf.Jagged) -> float:
        return float(np.max(losses(a, window)[0][2 * block :]))

    def rms(window: rf.Uniform | rf.Jagged) -> float:
        return float(np.sqrt(np.mean(losses(a, window)[1][2 * block :])))

    jagged, same = rf.Jagged(block), rf.Uniform((3 * block + 1) // 2)
    found: dict[str, Any] = {"family": name, "block": block, "square": family.square}
    found["predicted"] = None if family.square is None else predicted(family.square, block)
    for label, measure in (("worst", worst), ("rms", rms)):
        loss = measure(jagged)
        found[label] = loss
        found[f"{label}_equivalent"] = equivalent(lambda lags, of=measure: of(rf.Uniform(lags)), loss, block)
        found[f"{label}_ratio"] = loss / measure(same) if loss else None
    return found


def by_step(rho: float = 0.9, block: int = 16) -> dict[str, list[float]]:
    """Return the rms error of each step of three blocks, far from the start, for one constant coefficient."""
    windows = rf.Jagged(block), rf.Uniform(block + 1), rf.Uniform((3 * block + 1) // 2), rf.Uniform(2 * block)
    a = np.full(16 * block, rho)
    return {repr(window): np.sqrt(losses(a, window)[1][-3 * block :]).tolist() for window in windows}


def answer(names: Any = tuple(FAMILIES), blocks: Any = BLOCKS, steps: int = STEPS) -> dict[str, Any]:
    """Return a row for each family and block length."""
    rows = [row(name, block, steps) for block in blocks for name in names]
    return {"steps": steps, "steps_of_three_blocks": by_step(), "rows": rows}


if __name__ == "__main__":
    record("jagged", answer)
