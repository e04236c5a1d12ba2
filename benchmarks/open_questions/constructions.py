"""Which construction of the blocks of L is best where: measured in every format, beside what roundings predict.

python -m benchmarks.open_questions.constructions

Coefficients are exp(-decay v), with v uniform in [0.5, 1.5], and the decay goes from far below 1 / block to 1. Errors
are relative ones of strictly lower entries, as root mean squares. A rounding counts as an independent error of variance
s^2. Then an entry at lag d, row i and column j, whose coefficients have the logarithm -h each, has the variance

    cumprod     s^2 (d - 1)                                  the products but the first
    ratio       s^2 (d + 1)                                  the products from j + 1 to i, and the quotient
    segsum      s^2 (1 + h^2 (d + 2^2 + ... + d^2))          the exponential; logarithms; sums as large as they are
    log-outer   s^2 (1 + h^2 (d + d^2 + (j+1)^2 + ... + i^2))    the same, with sums from the first step of the block

So term by term ratio is never better than cumprod, and log-outer never better than segsum. The best is one of these
two, and their quotient depends on the block and on h, and on the format only by the entries that underflow.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.open_questions.records import record
from recfact import precision as pr
from recfact.arrays import Array

METHODS = ("cumprod", "segsum", "ratio", "log-outer")
FORMATS = ("binary32", "tf32", "binary16", "bfloat16", "float8_e3m4", "float8_e4m3fn", "float8_e5m2")
BLOCKS = (16, 64)
DECAYS = [2.0**-k for k in np.arange(9, -0.5, -0.75)]


def variances(method: str, block: int, decay: float, smallest: float = 0) -> Array:
    """Return the variances in units of s^2 of the strictly lower entries that are no smaller than a number."""
    i, j = np.tril_indices(block, -1)
    held = np.exp(-decay * (i - j)) >= smallest
    i, j = i[held], j[held]
    d = i - j
    squares = np.append(0, np.cumsum(np.arange(1, block + 1) ** 2))  # 1^2 + ... + k^2
    match method:
        case "cumprod":
            return d - 1.0
        case "ratio":
            return d + 1.0
        case "segsum":
            return 1 + decay**2 * (d + squares[d] - 1)
    return 1 + decay**2 * (d + d**2 + squares[i + 1] - squares[j + 1])


def predicted(method: str, format: str, block: int, decay: float) -> float | None:
    """Return the root mean square of the errors of entries in the normal range, relative to that of cumprod."""
    smallest = float(pr.format(format).smallest_normal)
    own, usual = (np.sum(variances(each, block, decay, smallest)) for each in (method, "cumprod"))
    return float(np.sqrt(own / usual)) if usual else None


def crossing(decays: list[float], ratios: list[float | None]) -> float | None:
    """Return the decay from which on a quotient of errors is above 1, interpolated in logarithms."""
    known = [(decay, ratio) for decay, ratio in zip(decays, ratios, strict=True) if ratio]
    for (low, under), (high, over) in pairwise(known):
        if under < 1 <= over:
            share = np.log(under) / np.log(under / over)
            return float(low * (high / low) ** share)
    return None


def row(format: str, block: int, decay: float, blocks: int, seed: int = 0) -> dict[str, Any]:
    """Return the measured errors of all constructions for one decay, and the share of entries that failed."""
    a = np.exp(-decay * np.random.default_rng([seed, block]).uniform(0.5, 1.5, (blocks, block)))
    found: dict[str, Any] = {"format": format, "block": block, "decay": decay}
    for method in METHODS:
        errors = pr.materialization_errors(a, method, format=format)
        found[method] = float(np.sqrt(np.mean(errors.measured**2))) if errors.measured.size else None
        found[f"{method}_failures"] = errors.failures / errors.entries
    return found


def answer(formats: Any = FORMATS, blocks: Any = BLOCKS, decays: Any = DECAYS, count: int = 40) -> dict[str, Any]:
    """Return errors for each decay, where segsum and cumprod err alike, and what `materialization_table` recommends."""
    rows = [row(name, block, decay, count) for name in formats for block in blocks for decay in decays]
    found = []
    for name in formats:
        for block in blocks:
            some = [each for each in rows if (each["format"], each["block"]) == (name, block)]
            measured = [each["segsum"] / each["cumprod"] if each["cumprod"] else None for each in some]
            expected = [predicted("segsum", name, block, decay) for decay in decays]
            ends = {"measured": crossing(decays, measured), "predicted": crossing(decays, expected)}
            found.append({"format": name, "block": block, **ends})
    table = pr.materialization_table(block=list(blocks), format=list(formats), method=METHODS, blocks=count)
    recommended: dict[str, dict[int, dict[str, str]]] = {}
    for best in table.recommendations():
        recommended.setdefault(best.format, {}).setdefault(best.block, {})[best.coefficients] = best.method
    return {"rows": rows, "crossings": found, "recommended": recommended}


if __name__ == "__main__":
    record("constructions", answer)
