"""Exact blocks against fractions, beyond the range of float64 too."""

from fractions import Fraction

import numpy as np
import pytest
from market import fractions, literal_matrix

from recfact.precision.materialization.exact_blocks import exact_blocks


def as_fraction(blocks, place):
    return (Fraction(blocks.high[place]) + Fraction(blocks.low[place])) * Fraction(2) ** int(blocks.exponent[place])


@pytest.mark.parametrize("scale", [1, 2.0**-500, 2.0**500])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 40])
def test_entries_are_products(steps, scale, rng):
    a = rng.uniform(-1, 1, steps) * scale
    a[steps // 2 : steps // 2 + 1] = 0
    for row in (a, rng.uniform(0.9, 1, steps) * scale):
        exact, blocks = literal_matrix(fractions(row)), exact_blocks(row)
        for i, j in np.ndindex(exact.shape):
            allowed = max(i - j - 1, 0) * abs(exact[i, j]) / 2**103
            assert abs(as_fraction(blocks, (i, j)) - exact[i, j]) <= allowed


def test_short_products_of_short_numbers_are_exact(rng):
    a = rng.uniform(0, 1, 5).astype(np.float32).astype(np.float64)
    exact, blocks = literal_matrix(fractions(a)), exact_blocks(a)
    assert all(as_fraction(blocks, place) == exact[place] for place in np.ndindex(5, 5))


def test_errors_are_those_of_fractions(rng):
    a = rng.uniform(0.1, 1, 8)
    a[5] = 0
    exact, blocks = literal_matrix(fractions(a)), exact_blocks(a)
    computed = exact.astype(np.float64) * (1 + rng.uniform(-1e-8, 1e-8, (8, 8)))
    computed[7, 0], computed[4, 1] = 1.0, 0.0
    absolute, relative = blocks.compare(computed)
    for place in np.ndindex(8, 8):
        error = abs(Fraction(computed[place]) - exact[place])
        assert abs(Fraction(absolute[place]) - error) <= error / 2**50 + exact[place] / 2**90
        if exact[place]:
            assert abs(Fraction(relative[place]) - error / exact[place]) <= error / exact[place] / 2**50 + Fraction(
                1, 2**90
            )
        else:
            assert np.isnan(relative[place])


@pytest.mark.parametrize(
    ("entry", "value", "least", "most"),
    [(2.0**-1000, 0.0, 1, 1), (2.0**-1000, 1.0, 2.0**900, 2.0**1000), (2.0**1000, 2.0**-1000, 1, 1)],
)
def test_errors_of_numbers_far_apart(entry, value, least, most):
    blocks = exact_blocks(np.array([1.0, entry]))
    absolute, relative = blocks.compare(np.array([[1, 0], [value, 1]]))
    assert absolute[1, 0] == max(entry, value)
    assert least <= relative[1, 0] <= most
    assert absolute[0, 0] == relative[0, 0] == 0


def test_special_values_stay_special():
    absolute, relative = exact_blocks(np.full(2, 0.5)).compare(np.array([[1, 0], [np.nan, np.inf]]))
    assert np.isnan(absolute[1, 0])
    assert np.isnan(relative[1, 0])
    assert absolute[1, 1] == relative[1, 1] == np.inf
