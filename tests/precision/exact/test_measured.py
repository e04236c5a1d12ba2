"""Measured errors against Fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from market import fractions
from samples import one_in

from recfact import Full, Jagged, Uniform, solve
from recfact.errors import RecfactError, ShapeError
from recfact.precision import exact
from recfact.precision.exact import enclosures, measured
from recfact.recurrence import forward, windowed

WINDOWS = (Full(), Uniform(1), Uniform(4), Uniform(9), Jagged(3, 0), Jagged(4), Jagged(2, 3), Jagged(50))


def problem(n, dtype, rng, scale=1.0):
    a = (rng.normal(size=n) * scale).astype(dtype)
    u = rng.normal(size=n).astype(dtype)
    if n > 8:
        a[n // 2] = 0
        u[:2] = u[n // 2 : n // 2 + 2] = 0
    return a, u


def check(error, true):
    """Check that the bounds enclose the true errors, as narrowly as they say."""
    for low, high, value in zip(error.lower, error.upper, true, strict=True):
        if value == 0:
            assert low == high == 0
        else:
            assert Fraction(float(low)) <= value
            assert np.isinf(high) or value <= Fraction(float(high))
            assert high - low <= 2.0**-50 * high or high == 5e-324 or np.isinf(high)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_errors_of_computed_states(window, dtype, rng):
    for n in (0, 1, 2, 9, 40):
        for x0 in (None, 0.5):
            a, u = problem(n, dtype, rng)
            computed = solve(a, u, window=window, x0=x0)
            x = windowed(fractions(a), fractions(u), window, None if x0 is None else Fraction(x0))
            check(exact.measure(a, u, computed, window, x0), abs(fractions(computed) - x))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 0.5, 2.0])
def test_errors_of_truncation(window, scale, rng):
    for n in (0, 1, 2, 9, 40):
        for x0 in (None, 0.5):
            a, u = problem(n, np.float32, rng, scale)
            x, kept = (
                windowed(fractions(a), fractions(u), w, None if x0 is None else Fraction(x0)) for w in (Full(), window)
            )
            check(exact.truncation_error(a, u, window, x0), abs(x - kept))


def test_errors_far_below_the_states(rng):
    a, u = np.full(400, 2.0**-7), rng.uniform(1, 2, 400)
    error = exact.truncation_error(a, u, Uniform(140))
    x = exact.solve(a, u)
    for i in (139, 140, 200, 399):
        true = x[i - 140] * exact.Dyadic(1, -7 * 140) if i >= 140 else 0
        assert exact.Dyadic.of(error.lower[i]) <= true <= exact.Dyadic.of(error.upper[i])
        assert error.upper[i] <= error.lower[i] * (1 + 2.0**-50)
    vanishing = exact.truncation_error(a, u, Uniform(300))  # 2^-2100 is no float
    assert set(vanishing.lower) == {0.0}
    assert set(vanishing.upper) == {0.0, 5e-324}
    assert not vanishing.within(0.0)[300:].any()
    assert vanishing.within(5e-324).all()


def test_states_that_are_exact_have_no_error():
    a, u = [0.5] * 100, [1.0] * 100
    x = exact.solve(a, u)
    error = exact.measure(a[:53], u[:53], [float(v) for v in x[:53]])
    assert error.upper.tolist() == [0.0] * 53
    assert error.within(0).all()
    assert exact.measure(a, u, [float(v) for v in x]).upper[-1] == 2.0**-99


def test_infinite_and_missing_states():
    error = exact.measure([0.5] * 4, [1.0] * 4, [1.0, np.inf, np.nan, -np.inf])
    assert error.upper.tolist()[:2] == [0.0, np.inf]
    assert np.isnan(error.upper[2])
    assert error.upper[3] == np.inf
    assert error.within(np.inf).tolist() == [True, True, False, True]
    assert error.within(1e300).tolist() == [True, False, False, False]
    assert error.within(np.nan).tolist() == [False] * 4


def test_a_comparison_that_is_close_takes_more_bits():
    # |x| = 1 + 2^-1000: neither float bounds it closely, but it is above 1.
    u = [exact.Dyadic(1, -1000), 1.0]
    error = exact.measure([0.0, 1.0], u, [0.0, 0.0])
    assert (error.lower[1], error.upper[1]) == (1.0, 1 + 2.0**-52)
    assert not error.within(1.0)[1]
    assert error.within(1 + 2.0**-52)[1]
    # 0.1^100 needs 5500 bits, and its neighbours as floats are told apart from it
    a, u = np.full(101, 0.1), np.zeros(101)
    u[0] = 1
    error = exact.measure(a, u, np.zeros(101))
    assert error.within(error.upper).all()
    assert not error.within(np.nextafter(error.lower, 0))[2:].any()


def test_a_comparison_may_stay_undecided(monkeypatch):
    # A state falls below the scale and comes back.
    a, u, computed = [0.0, 2.0**-200, 2.0**200], [1.0, 0.0, 0.0], [1.0, 2.0**-200, 1.0]
    assert exact.measure(a, u, computed).upper.tolist() == [0.0, 0.0, 0.0]
    monkeypatch.setattr(measured, "MAX_BITS", 128)
    with pytest.raises(exact.UndecidedError, match=r"bits don't tell .* from 0"):
        exact.measure(a, u, [1.0, 0.0, 1.0])


def test_states_that_outgrow_their_inputs(rng):
    n = 3000
    a, u = np.full(n, 2.0), np.ones(n)
    error = exact.truncation_error(a, u, Uniform(10))
    x = forward(np.full(n, 2, dtype=object), np.ones(n, dtype=object))
    for i in (9, 10, 500, 1000):
        assert error.lower[i] <= (x[i - 10] * 1024 if i >= 10 else 0) <= error.upper[i]
    assert error.upper[-1] == np.inf
    assert error.lower[-1] == np.finfo(float).max


def test_shapes_must_fit():
    with pytest.raises(ShapeError, match="one shape"):
        exact.measure([0.5] * 3, [1.0] * 3, [1.0] * 2)


def test_a_measurement_says_what_it_is():
    error = exact.measure([0.5, 0.1], [1.0, 1.0], computed=[1.0, 1.25])
    assert repr(error) == "<2 measured errors, the largest 0.15>"
    above = exact.measure([0.5, 0.1], [1.0, 1.0], computed=[1.0, 1.1 + 2.418703441])
    assert repr(above) == "<2 measured errors, the largest 2.41871>"


@pytest.mark.parametrize("bad", [0.5, [[0.5, 0.5]], [[0.5], [0.5, 0.5]], None, ["x"], [0.5, 0.5, 0.5]])
def test_what_is_no_sequence_of_numbers_is_refused(bad):
    good = [1.0, 1.0]
    for call in (
        lambda: exact.measure(bad, good, good),
        lambda: exact.measure(good, bad, good),
        lambda: exact.measure(good, good, bad),
        lambda: exact.truncation_error(bad, good, Jagged(1)),
        lambda: exact.truncation_error(good, bad, Jagged(1)),
    ):
        with pytest.raises(RecfactError):
            call()


def contains(pieces, true):
    """Check that enclosures hold the true errors, center - radius to center + radius, and count the inexact ones."""
    inexact = 0
    for piece in pieces:
        for row, (center, radius) in enumerate(zip(piece.centers, piece.radii, strict=True), piece.start):
            assert abs(true[row] * Fraction(2) ** piece.scale - center) <= radius
            inexact += radius > 0
    return inexact


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Uniform(4), Jagged(3, 2)], ids=str)
@pytest.mark.parametrize("scale", [0.5, 2.0, 40.0])
def test_enclosures_of_few_bits_hold_the_errors(window, scale, rng):
    for _ in range(20):
        a, u = problem(60, np.float32, rng, scale)
        x, kept = (windowed(fractions(a), fractions(u), w) for w in (Full(), window))
        computed = kept.astype(np.float64) * (1 + rng.uniform(-1, 1, 60) * 2.0**-20)
        errors = exact.measure(a, u, computed, window)
        assert contains(errors._enclosures(8), fractions(computed) - kept)
        if not isinstance(window, Full):
            assert contains(exact.truncation_error(a, u, window)._enclosures(8), x - kept)


@pytest.mark.parametrize("window", one_in(2, [Jagged(3, 2), Uniform(4)]), ids=str)
def test_enclosures_of_states_that_drop_bits_hold_the_errors(window, monkeypatch, rng):
    monkeypatch.setattr(enclosures, "PIECE", 8)
    for _ in range(40):
        n = 64
        a = rng.choice([-1, 1], n) * rng.uniform(0.5, 1, n)
        a[4:24] *= 2.0**250  # 5000 bits, more than are held
        u = np.ldexp(rng.uniform(-1, 1, n), rng.integers(0, 900, n))
        x, kept = (windowed(fractions(a), fractions(u), w) for w in (Full(), window))
        computed = x + fractions(rng.uniform(-1, 1, n))
        errors = exact.measure(a, u, computed)._enclosures(8)
        assert contains(errors, computed - x)
        assert contains(exact.truncation_error(a, u, window)._enclosures(8), x - kept)
