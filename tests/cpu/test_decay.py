"""Products of many coefficients: those that can't become smaller become zero, and cost no accuracy."""

import numpy as np
import pytest

import recfact as rf
from recfact.recurrence import forward


@pytest.mark.parametrize("coefficient", [0.98, 0.99, 0.999, -0.99])
def test_products_that_stick_at_a_subnormal_change_no_state(coefficient):
    n = 140_000
    a, u = np.full(n, coefficient, np.float32), np.zeros(n, np.float32)
    u[[0, 70_000]] = 1e6, 1.0
    x = rf.solve(a, u)
    assert x.tobytes() == rf.solve(a, u, threads=1).tobytes() == rf.solve(a, u, threads=2).tobytes()
    exact = forward(a.astype(float), u.astype(float))
    distance = np.where(np.arange(n) < 70_000, np.arange(n), np.arange(n) - 70_000)
    # Two inputs: at most d + 7 roundings each, and a product that underflows or sticks loses 2^-126 of a state.
    limit = 2.0**-24 * (distance + 7) * abs(exact) * 1.01 + 2.0**-126 * 1e6 * 8
    assert (abs(x - exact) <= limit).all()


def test_ones_carry_a_state_through_any_number_of_spans():
    n = 200_000
    u = np.zeros(n, np.float32)
    u[0] = 3
    a = np.ones(n, np.float32)
    a[1] = 1e-40
    for threads in (1, 2):
        assert rf.solve(a, u, threads=threads)[-1] == np.float32(3) * np.float32(1e-40)
