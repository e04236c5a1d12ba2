"""The growth of time with the number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from recfact.bench.cases import inputs
from recfact.bench.timing import Effort, compare
from recfact.solve import solve


@dataclass(frozen=True)
class Growth:
    """Median times of one float32 sequence on one thread, by its length.

    Parameters
    ----------
    numbers : tuple of int
        Lengths, in ascending order.
    solve, multiply : tuple of float
        Seconds.
    """

    numbers: tuple[int, ...]
    solve: tuple[float, ...]
    multiply: tuple[float, ...]

    @property
    def fitted_from(self) -> int:
        """The length from which on the exponents are fitted. At shorter ones the fixed cost of a call shows."""
        return self.numbers[len(self.numbers) // 2]

    def exponents(self) -> tuple[float, float]:
        """Return p of the best fit of time ~ n^p to the longer half, for `solve` and for the multiply.

        Examples
        --------
        >>> growth = Growth((1, 2, 4, 8), (5.0, 5.0, 4.0, 8.0), (1.0, 1.0, 1.0, 4.0))
        >>> [round(p, 6) for p in growth.exponents()]
        [1.0, 2.0]
        """
        long = slice(len(self.numbers) // 2, None)
        fits = (
            np.polyfit(np.log(self.numbers[long]), np.log(seconds[long]), 1) for seconds in (self.solve, self.multiply)
        )
        solve, multiply = (float(slope) for slope, _ in fits)
        return solve, multiply


def measure_growth(numbers: tuple[int, ...], effort: Effort) -> Growth:
    """Time `solve` and the multiply on the first numbers of one set of arrays."""
    a, u, x = inputs((max(numbers),))
    found = [
        compare(
            partial(solve, a[:n], u[:n], out=x[:n], threads=1), partial(np.multiply, a[:n], u[:n], out=x[:n]), effort
        )
        for n in numbers
    ]
    times = [(comparison.ours.median, comparison.baseline.median) for comparison in found]
    return Growth(numbers, *zip(*times, strict=True))
