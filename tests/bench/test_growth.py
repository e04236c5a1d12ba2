"""The growth of time with the length."""

import math

import pytest

from recfact.bench.growth import Growth, measure_growth
from recfact.bench.timing import Effort

LENGTHS = tuple(1 << k for k in range(10, 27))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    growth = Growth(LENGTHS, tuple(1e-9 * n**power for n in LENGTHS), tuple(3e-9 * n for n in LENGTHS))
    assert growth.exponents() == pytest.approx((power, 1.0), abs=1e-9)


def test_what_a_call_costs_at_any_length_hardly_matters():
    growth = Growth(LENGTHS, tuple(1e-5 + 1e-9 * n for n in LENGTHS), LENGTHS)
    assert growth.fitted_from == 1 << 18
    # Between two lengths the exponent is at least its value at the shorter one, n / (n + 10^4).
    assert (1 << 18) / ((1 << 18) + 1e4) < growth.exponents()[0] < 1


def test_every_length_is_timed_on_both_sides():
    growth = measure_growth((16, 32, 64), Effort(0, 1, 1, 0))
    assert growth.numbers == (16, 32, 64)
    assert all(time > 0 and math.isfinite(time) for time in (*growth.solve, *growth.multiply))
    assert len(growth.solve) == len(growth.multiply) == 3
