"""Blocks by products compute the states of their window, exactly in exact arithmetic, and cast what they say."""

from fractions import Fraction

import numpy as np
import pytest

from recfact.precision.run import blocks_by_products
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 13])
@pytest.mark.parametrize(("block", "terms"), [(1, 1), (3, None), (3, 0), (3, 1), (4, 2), (20, None), (20, 1)])
def test_exactly(n, block, terms, rng):
    a, u = (np.array([Fraction(int(x), 7) for x in rng.integers(-9, 9, n)], dtype=object) for _ in range(2))
    window = Full() if terms is None else Jagged(block, terms)
    assert blocks_by_products(a, u, block, terms).tolist() == windowed(a, u, window).tolist()


def test_what_is_cast():
    seen = {}

    def cast(name, values):
        seen.setdefault(name, []).append(values.copy())
        return values

    a, u = np.arange(2.0, 10.0), np.ones(8)
    blocks_by_products(a, u, 4, 1, cast)
    assert set(seen) == {"L", "g", "v"}
    assert seen["L"][0][:, 0].tolist() == [3 * 4, 3 * 4 * 5]
    assert seen["g"][0][:, 0].tolist() == [2 * 3, 2 * 3 * 4, 2 * 3 * 4 * 5]
    assert seen["v"][0].tolist() == [1 + 5 + 20 + 60, 1 + 9 + 72 + 504]


def test_a_cast_is_used():
    a, u = np.full(6, 2.0), np.ones(6)
    x = blocks_by_products(a, u, 3, 1, lambda name, values: values * (name != "L"))
    assert x.tolist() == [1, 3, 3, 2 * 3 + 1, 4 * 3 + 3, 8 * 3 + 3]
