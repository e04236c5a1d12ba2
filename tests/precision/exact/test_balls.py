"""Enclosures of the states of many sequences in float64 hold the exact states, and are narrow."""

import numpy as np
import pytest

from recfact.precision import exact
from recfact.precision.exact.balls import float_balls
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Uniform(1), Uniform(3), Jagged(3), Jagged(2, 0), Jagged(2, 2)]


def parts(balls):
    return balls.centers, balls.radii


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "fmt", [FORMATS[name] for name in ("binary16", "bfloat16", "float8_e4m3fn", "binary32")], ids=str
)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_hold_the_exact_states(fmt, window):
    for family in FAMILIES:
        a, u = draw(family, fmt, 9, channels=4, seed=0)
        centers, radii = parts(float_balls(a, u, window))
        x = exact.solve(a, u, window, axis=0)
        for center, radius, state in zip(centers.flat, radii.flat, x.flat, strict=True):
            if np.isfinite(center) and np.isfinite(radius):
                assert abs(exact.Dyadic.of(center) - state) <= radius
            else:
                assert family == "codes"


def test_narrow():
    a, u = draw("gates", FORMATS["binary16"], 24, channels=100, seed=0)
    centers, radii = parts(float_balls(a, u, Full()))
    assert np.all(radii[0] == 0)
    sizes, _ = parts(float_balls(np.abs(a), np.abs(u), Full()))
    assert np.all(radii <= 24 * 2.0**-52 * sizes)
    assert centers.shape == radii.shape == (24, 100)


def test_exact_where_nothing_is_rounded():
    centers, radii = parts(float_balls(np.array([2.0, 0.0, 3.0]), np.array([0.0, 0.0, 5.0]), Full()))
    assert centers.tolist() == [0, 0, 5]
    assert radii.tolist() == [0, 0, 0]


def test_underflow_is_in_the_radius():
    a, u = np.array([1.0, 2.0**-600, 2.0**-600]), np.array([1.0, 0.0, 0.0])
    centers, radii = parts(float_balls(a, u, Full()))
    assert centers[2] == 0 < radii[2] <= 2.0**-1071


def test_distance_is_above_the_exact_one():
    a, u = draw("uniform", FORMATS["bfloat16"], 6, channels=50, seed=1)
    states = float_balls(a, u, Full())
    values = FORMATS["bfloat16"].round(states.centers)
    upper = states.distance(values)
    x = exact.solve(a, u, axis=0)
    for value, state, bound in zip(values.flat, x.flat, upper.flat, strict=True):
        assert abs(exact.Dyadic.of(value) - state) <= bound


def test_no_steps():
    centers, radii = parts(float_balls(np.zeros((0, 3)), np.zeros((0, 3)), Full()))
    assert centers.shape == radii.shape == (0, 3)
