"""How long rounding takes for each format, and what a verification of a long sequence takes in time and memory.

    python benchmarks/precision.py

Every verification runs in a process of its own, whose peak memory is then its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter
from timeit import repeat

import numpy as np

from recfact import Jagged
from recfact import precision as pr

MODES = ("nearest-even", "nearest-away", "toward-zero", "stochastic")
LENGTHS = (100_000, 1_000_000)
FORMATS = ("binary32", "bfloat16")


def rounding_times(size: int = 1 << 20) -> None:
    """Print the nanoseconds a number of arrays of float64, on one core: the best of five."""
    values = np.abs(np.random.default_rng(0).standard_normal(size))
    print(f"{'ns a number':20}", *(f"{mode:>12}" for mode in MODES))
    for name, fmt in pr.FORMATS.items():
        if fmt.fits_float64:
            times = (
                min(repeat(lambda m=mode, f=fmt: f.round(values, m, seed=0), number=1, repeat=5)) for mode in MODES
            )
            print(f"{name:20}", *(f"{time / size * 1e9:12.1f}" for time in times))


def verification(n: int, name: str) -> None:
    """Verify one sequence of gates, and print seconds and the peak of memory."""
    rng = np.random.default_rng(0)
    a, u = 1 / (1 + np.exp(-rng.standard_normal(n))), rng.standard_normal(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    found = pr.verify(a, u, window=Jagged(16), format=name, algorithm="b2p")
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{n:>10,} {name:10} {seconds:6.1f} s {peak / 1024:6.0f} MiB, {(peak - before) / 1024:.0f} more", found.holds)


if __name__ == "__main__":
    if sys.argv[1:]:
        verification(int(sys.argv[1]), sys.argv[2])
    else:
        rounding_times()
        for n in LENGTHS:
            for name in FORMATS:
                subprocess.run([sys.executable, __file__, str(n), name], check=True)
