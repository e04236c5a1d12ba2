"""How long a number format remembers: predicted horizons, and what the rounded recurrence really does for 10^9 steps.

python -m benchmarks.open_questions.horizons

Three recurrences are followed in every format, with the coefficients rho that it holds:

* a single input, x <- round(rho x) from 1: when does its weight vanish, or stop changing?
* a constant input, x <- round(round(rho x) + 1) from 0: when does the state stop changing, and how far from its limit?
* the same from every state of the format at once: how many of them are still apart after 10^9 steps?

The first two are exact in any format, because equal steps are taken at once. The third goes through tables of 2^16
codes. Two compiled loops in binary32, SciPy's and recfact's, run beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import recfact as rf
from benchmarks.open_questions.records import record
from recfact import precision as pr
from recfact.arrays import Array

STEPS = 10**9
CHUNK = 1 << 24
GIVEN = ("0.9", "0.99", "0.999"), ("binary32", "binary16", "bfloat16")


def walk(fmt: pr.FloatFormat, rho: Any, u: int, x: int, steps: float = math.inf) -> tuple[int, Fraction]:
    """Follow x <- round(round(rho x) + u), with 0 <= rho <= 1 and x, u >= 0.

    Return the step and the state where it ends: after so many steps, or where the state stays the same.

    A step changes the state by its gain. While all numbers stay in one binade, of whose unit u is a multiple, sums are
    exact, and a product loses the more units the larger it is. So the gain is monotone there, and equal at all steps
    between two where it is equal. Such steps are taken at once.
    """
    rho, now = Fraction(rho), Fraction(x)

    def gain(at: Fraction) -> Fraction:
        product = fmt.round(rho * at, overflow="saturate")
        return Fraction(fmt.round(Fraction(product) + u, overflow="saturate")) - at

    step, stride = 0, 1
    while step < steps and (change := gain(now)):
        taken = int(min(stride, steps - step))
        last = now + (taken - 1) * change
        ends = {_binade(each) for each in (rho * min(now, last), now, last + change)}
        whole = len(ends) == 1 and u % Fraction(2) ** (ends.pop() - fmt.fraction_bits) == 0
        if taken == 1 or (whole and gain(last) == change):
            step, now, stride = step + taken, last + change, 2 * stride
        else:
            stride //= 2
    return step, now


def _binade(x: Fraction) -> int | None:
    """Return floor(log2 x), or None for 0."""
    if x <= 0:
        return None
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if x >= Fraction(2) ** guess else guess - 1


def apart(fmt: pr.FloatFormat, rho: float, u: int, steps: int = STEPS) -> tuple[int, int]:
    """Return how many of the states from 0 on there are, and how many are apart after so many of the same steps.

    A step is a table from codes to codes. Tables of 2, 4, 8, ... steps are made by looking one up in itself.
    """
    states = fmt.values()
    states = states[states >= 0]
    product = fmt.round(rho * states, overflow="saturate")
    following = np.searchsorted(states, fmt.round(product + u, overflow="saturate"))
    reached = np.arange(len(states))
    while steps:
        if steps & 1:
            reached = following[reached]
        following, steps = following[following], steps >> 1
    return len(states), len(np.unique(reached))


def finite(lag: float) -> float | None:
    """Return a lag, or None for one without end."""
    return None if lag == math.inf else lag


def row(fmt: pr.FloatFormat, rho: Any = None) -> dict[str, Any]:
    """Return what is predicted and what happens for one coefficient, by default the largest below 1."""
    nearest, truncated = (pr.actual_horizon(fmt, rho, rounding=mode) for mode in ("nearest-even", "toward-zero"))
    stored = Fraction(nearest.rho)
    settles, state = walk(fmt, stored, 1, 1)
    short, unit = 1 - stored, Fraction(fmt.unit_roundoff)  # of 1, and of the format
    return {
        "format": fmt.name,
        "rho": str(stored),
        "settling": pr.horizon(stored, unit / short) if short else None,
        "predicted": finite(pr.horizon(stored, fmt)),
        "nearest": finite(nearest.last_nonzero),
        "stays_from": nearest.stagnates_from,
        "truncated": finite(truncated.last_nonzero),
        "settles": settles + 1,  # the first step made 1 of 0
        "share": None if state == fmt.max else float(state * short),
        "error_over_bound": None if state == fmt.max else float(abs(1 - state * short) / (unit * (1 + stored) * state)),
        "apart": apart(fmt, float(stored), 1) if fmt.bits <= 16 else None,
    }


def run(step: Callable[[Array, Array], Array], u: float, x0: float, steps: int, chunk: int) -> float:
    """Run a compiled loop in binary32 with the largest coefficient below 1, and return the state at the end.

    If a chunk ends in the state from which it started, so do all later ones.
    """
    inputs, state = np.full(chunk, u, np.float32), np.array([x0], np.float32)
    whole, rest = divmod(steps, chunk)
    for _ in range(whole):
        before, state = state, step(inputs, state)
        if before == state:
            break
    return float(step(inputs[:rest], state)[0] if rest else state[0])


def runs(steps: int = STEPS, chunk: int = CHUNK) -> list[dict[str, Any]]:
    """Run SciPy's loop and recfact's engine in binary32, beside the exact and the predicted states."""
    from scipy.signal import lfilter  # its import takes a second, and nothing else here needs it

    fmt = pr.format("binary32")
    rho = np.float32(fmt.largest_below_one)
    one, filter_ = np.ones(1, np.float32), np.array([1, -rho], np.float32)

    def loop(inputs: Array, state: Array) -> Array:
        return lfilter(one, filter_, inputs, zi=rho * state)[0][-1:]

    def engine(inputs: Array, state: Array) -> Array:
        return np.asarray(rf.solve(np.full(1, rho), inputs, x0=state[0]))[-1:]

    found = []
    for u, x0 in ((0, 1), (1, 0)):
        weight = math.exp(steps * math.log1p(-(2.0**-24)))
        found.append(
            {
                "input": u,
                "steps": steps,
                "exact": (1 - weight) * 2**24 if u else weight,
                "predicted": float(walk(fmt, Fraction(float(rho)), u, x0, steps)[1]),
                "loop": run(loop, u, x0, steps, chunk),
                "engine": run(engine, u, x0, steps, chunk),
            }
        )
    return found


def answer(formats: Any = None, steps: int = STEPS, chunk: int = CHUNK) -> dict[str, Any]:
    """Return all rows and runs."""
    every = pr.FORMATS.values() if formats is None else [pr.format(name) for name in formats]
    rates, some = GIVEN
    return {
        "largest": [row(fmt) for fmt in every if fmt.signed],
        "given": [row(pr.format(name), rate) for rate in rates for name in some],
        "runs": runs(steps, chunk),
    }


if __name__ == "__main__":
    record("horizons", answer)
