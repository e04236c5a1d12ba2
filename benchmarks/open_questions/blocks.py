"""How long a block carries in a narrow format with sums in binary32, before rounding costs more than truncation.

python -m benchmarks.open_questions.blocks

Inputs are independent, of mean 0 and variance 1, and q is the mean square of the coefficients. All errors are root mean
squares relative to that of the states. Jagged(l) loses, with A the mean of q, q^2, ..., q^l over the steps of a block,

    T^2 = q^l A

A cast to a format with unit roundoff u counts as an independent relative error of variance s^2 = u^2 / (8 ln 2), which
is that of numbers whose logarithms are evenly spread. Every state is cast once. A kernel on tensor cores also casts the
entries of its blocks, the carriers and the products that bring them to their steps, and each of these casts counts with
the share of the states that passes through it:

    R^2 = s^2 (1 + [L] + [v] + [g])     v: (1 - q^l) A     g: (1 - q^l) (A - q / l)
                                        L: the mean of q^2 - q^k over k = 2 ... l, and (q^2 - q^l) A of the block before

T falls with l and R hardly changes. They cross at the block that this module computes, and then measures.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

import recfact as rf
from benchmarks.open_questions.records import record
from recfact import precision as pr
from recfact.arrays import Array

TYPES = {"bfloat16": ml_dtypes.bfloat16, "binary16": np.float16}
COEFFICIENTS = (0.5, 0.75, 0.9, 0.95, 0.98)
KERNELS = ("tensor cores", "rf.solve")
BLOCKS, CHANNELS, ROUNDED = 12, 32, 1
"""How many blocks and channels are measured, and of how many of these the roundings, which take the time."""


def truncation(q: float, block: float) -> float:
    """Return T."""
    return math.sqrt(q**block * q * (1 - q**block) / (block * (1 - q)))


def rounding(q: float, block: float, format: str, kernel: str) -> float:
    """Return R."""
    variance = float(pr.format(format).unit_roundoff) ** 2 / (8 * math.log(2))
    if kernel == "rf.solve":
        return math.sqrt(variance)
    mean, passed = q * (1 - q**block) / (block * (1 - q)), 1 - q**block
    entries = ((block - 1) * q**2 - q**2 * (1 - q ** (block - 1)) / (1 - q)) / block + (q**2 - q**block) * mean
    return math.sqrt(variance * (1 + max(entries, 0) + passed * mean + passed * (mean - q / block)))


def crossing(q: float, format: str, kernel: str) -> float:
    """Return the block at which T = R."""

    def excess(block: float) -> float:
        return math.log(truncation(q, block) / rounding(q, block, format, kernel))

    return float(brentq(excess, 1, 64 / -math.log(q)))


def time_constants(format: str, kernel: str) -> float:
    """Return the limit of the crossing for q near 1, times -log(q) / 2: half of Lambert's W of 1 / (casts s^2).

    A block has 1 / -log(q) steps and more, so A is 1 / (2 y) after y time constants, and two casts count in full.
    """
    variance = float(pr.format(format).unit_roundoff) ** 2 / (8 * math.log(2))
    casts, y = 1.0, 1.0
    for _ in range(50):
        y = float(lambertw(1 / (casts * variance)).real) / 2
        casts = 1.0 if kernel == "rf.solve" else 2 + 2 / (2 * y)
    return y


def proved(rho: float, format: str) -> float:
    """Return the block up to which truncation costs more than any rounding, for a constant coefficient and inputs of 1.

    The first step of a block loses rho^(l+1) of a state. A term of a state is cast four times at most, and takes part
    in 3 l operations in binary32 at most.
    """
    unit, inner = float(pr.format(format).unit_roundoff), 2.0**-24
    block = 1.0
    for _ in range(50):
        bound = math.expm1(4 * math.log1p(unit) + 3 * block * math.log1p(inner))
        block = max(math.log(bound) / math.log(rho) - 1, 1.0)
    return block


def errors(a: Array, u: Array, block: int, format: str, kernel: str) -> tuple[Array, Array, Array]:
    """Return exact states, truncation errors and rounding errors, for numbers of the format, without the first blocks.

    Shapes are (time, channels). Rounding errors are those of the first channels alone.
    """
    window, some = rf.Jagged(block), np.s_[:, :ROUNDED]
    exact, kept = rf.solve(a, u, axis=0), rf.solve(a, u, axis=0, window=window)
    if kernel == "rf.solve":
        narrow = (values[some].astype(TYPES[format]) for values in (a, u))
        computed = rf.solve(*narrow, axis=0, window=window).astype(np.float64)
    else:
        computed = pr.rounded_solve(a[some], u[some], format, "mixed-precision", window=window, axis=0)
    start = 2 * block
    return exact[start:], (exact - kept)[start:], (computed - kept[some])[start:]


def rms(x: Array) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(x**2)))


def shares(a: Array, u: Array, block: int, format: str, kernel: str) -> tuple[float, float]:
    """Return T and R as measured."""
    exact, lost, rounded = errors(a, u, block, format, kernel)
    return rms(lost) / rms(exact), rms(rounded) / rms(exact)


def measure(rho: float, drawn: bool, format: str, kernel: str) -> dict[str, Any]:
    """Return T and R around the predicted crossing, and where they cross, interpolated in the logarithm.

    The coefficients are rho, or drawn between 2 rho - 1 and 1.
    """
    fmt, rng = pr.format(format), np.random.default_rng([int(rho * 4096), drawn])
    middle = crossing(rho**2, format, kernel)
    lengths = [max(2, round(middle * factor)) for factor in (0.7, 1, 1.3)]
    steps = (BLOCKS * lengths[-1], CHANNELS)
    a = fmt.round(rng.uniform(2 * rho - 1, 1, steps) if drawn else np.full(steps, rho))
    u = fmt.round(rng.standard_normal(steps))
    q = float(np.mean(a**2))
    pairs = [shares(a, u, length, format, kernel) for length in lengths]
    falling = [math.log(rounded / lost) for lost, rounded in pairs]
    return {
        "format": format,
        "kernel": kernel,
        "drawn": drawn,
        "q": q,
        "blocks": lengths,
        "truncation": [lost for lost, _ in pairs],
        "rounding": [rounded for _, rounded in pairs],
        "predicted": crossing(q, format, kernel),
        "measured": float(np.interp(0, falling, lengths)) if falling[0] < 0 < falling[-1] else None,
    }


def worst(rho: float, format: str = "bfloat16") -> dict[str, Any]:
    """Return the first block at which the largest rounding error is above the largest truncation error, inputs 1."""
    a = float(pr.format(format).round(rho))
    least = proved(a, format)
    block = math.ceil(least)
    while True:
        steps = (4 * block, 1)
        _, lost, rounded = errors(np.full(steps, a), np.ones(steps), block, format, KERNELS[0])
        if abs(rounded).max() > abs(lost).max():
            return {"rho": a, "proved": least, "first": block}
        block += max(1, block // 50)


def curve(rho: float, lengths: Any, format: str = "bfloat16") -> dict[str, Any]:
    """Return T and R over the lengths of blocks, measured on the algorithm of tensor cores."""
    fmt, rng = pr.format(format), np.random.default_rng(1)
    steps = (BLOCKS * max(lengths), CHANNELS)
    a, u = fmt.round(np.full(steps, rho)), fmt.round(rng.standard_normal(steps))
    lost, rounded = zip(*(shares(a, u, length, format, KERNELS[0]) for length in lengths), strict=True)
    return {"q": float(a[0, 0] ** 2), "blocks": list(lengths), "truncation": lost, "rounding": rounded}


def answer(
    coefficients: Any = COEFFICIENTS, lengths: Any = (4, 8, 16, 24, 32, 48, 64, 96, 128), formats: Any = tuple(TYPES)
) -> dict[str, Any]:
    """Return a curve, all crossings, and their limits in time constants."""
    cases = [(rho, drawn, name, kernel) for name in formats for kernel in KERNELS for drawn in (False, True)
             for rho in coefficients if not (drawn and rho == 0.5)]  # fmt: skip
    largest = [(pr.format("bfloat16").largest_below_one, False, "bfloat16", kernel) for kernel in KERNELS]
    return {
        "curve": curve(0.9, lengths),
        "rows": [measure(*case) for case in cases + largest * (len(formats) > 1)],
        "worst": [worst(rho) for rho in coefficients],
        "time_constants": {name: {kernel: time_constants(name, kernel) for kernel in KERNELS} for name in formats},
    }


if __name__ == "__main__":
    record("blocks", answer)
