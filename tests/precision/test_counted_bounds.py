"""Bounds from counts of roundings: the sum that they are, underflow, and the engine, whose own code keeps to them."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from interpreter import State, Symbols, interpreted

import recfact as rf
from recfact.errors import DTypeError, OptionError
from recfact.precision import exact
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import forward_bound
from recfact.precision.counts import ABSENT, counted_bounds, engine_bound, factor_counts
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.run import rounded_solve
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.windows import Full, Jagged, Uniform

DTYPES = {"binary16": np.float16, "bfloat16": ml_dtypes.bfloat16, "binary32": np.float32, "binary64": np.float64}
CUTS = [
    (Full(), None),
    (Full(), 0.75),
    (Uniform(4), None),
    (Uniform(40), 0.75),
    (Jagged(4), 0.75),
    (Jagged(3, 2), None),
]


def counted_bound(a, u, counts, fmt):
    return counted_bounds(np.asarray(a), np.asarray(u), counts, format_of(fmt))[1]


@pytest.mark.parametrize("algorithm", ["sequential", "kogge-stone", "brent-kung", "hierarchical", "materialized"])
@pytest.mark.parametrize("fma", [False, True])
def test_the_counts_give_the_forward_bound(algorithm, fma, rng):
    a, u = FORMATS["binary32"].round(rng.uniform(0.5, 1, (2, 40)))
    counted = counted_bound(a, u, factor_counts(algorithm, 40, fma=fma), "float32")
    # Both are rounded up, by 2^-49 and roundings of float64, no more than three times a step.
    slack = (1 + 2.0**-48) ** (3 * 40) - 1
    np.testing.assert_allclose(counted, forward_bound(a, u, Arithmetic("float32", fma=fma), algorithm), rtol=slack)


def test_the_bound_is_the_sum_with_factors():
    """Where a number has exponents enough, so that what underflow adds is nothing."""
    a, u, unit = [2.0, 0.5, 3.0], [1.0, -1.0, 0.0], Fraction(1, 2**8)
    counts = np.array([[1, -1, -1], [3, 0, -1], [7, 2, 5]])
    factors = [(1 + unit) ** count - 1 for count in (1, 3, 7, 2)]
    expected = [factors[0], factors[1] / 2, 3 * factors[2] / 2 + 3 * factors[3]]
    found = counted_bound(a, u, counts, "bfloat16")
    assert all(e <= Fraction(f) <= e * (1 + Fraction(1, 2**45)) for e, f in zip(expected, found, strict=True))


def test_what_underflow_adds():
    """By hand, for coefficients whose product of two underflows: lost is what it does to the first input, and a sum."""
    tiny, eta = 2.0**-20, Fraction(1, 2**25)
    a, u = [0.0, tiny, tiny, 1.0], [1.0, 0.0, 0.0, 0.0]
    counts = np.where(np.tri(4, dtype=bool), np.arange(4)[:, None] - np.arange(4) + 1, ABSENT)
    growth = (1 + Fraction(1, 2**11)) ** 4
    # Two products of coefficients, one of which underflows; and one sum at each step, times what follows.
    least = 2 * eta + eta * (1 + 1 + Fraction(tiny))
    found = Fraction(float(counted_bound(a, u, counts, "float16")[3]))
    assert least < found < 2 * growth * least


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fmt", ["float16", "e4m3fn", "e5m2", "e2m3", "k8p1"])
@pytest.mark.parametrize("algorithm", ["sequential", "kogge-stone", "brent-kung", "hierarchical", "materialized"])
@pytest.mark.parametrize("fma", [False, True])
def test_errors_are_within_the_bound_where_numbers_underflow(fmt, algorithm, fma):
    fmt, n, channels = format_of(fmt), 12, 12
    counts = factor_counts(algorithm, n, fma=fma)
    for family in ("underflowing", "denormal", "uniform"):
        a, u = draw(family, fmt, n, channels, seed=n)
        u = np.where(np.abs(u) > 1, 1.0, u)  # so that nothing overflows
        x = rounded_solve(a, u, Arithmetic(fmt, fma=fma), algorithm, axis=0)
        bound = counted_bound(a, u, counts, fmt)
        for channel in range(channels):
            at = (slice(None), channel)
            assert exact.measure(a[at], u[at], x[at]).within(bound[at]).all()


class Sums(Symbols):
    """Symbols that know the sums that went into a state, by their steps."""

    def __init__(self):
        super().__init__()
        self.sums = {}

    def fma(self, x, y, z):
        state = super().fma(x, y, z)
        if isinstance(state, State) and state is not y and state is not z:
            parts = [self.sums.get(id(part), ((), part))[0] for part in (y, z)]
            # Kept with the state itself, so that no other gets its id.
            self.sums[id(state)] = frozenset().union(*parts, [(len(self.sums), state.stop)]), state
        return state


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [Full(), Uniform(16), Uniform(70), Jagged(16), Jagged(9, 3)], ids=str)
def test_the_engine_adds_no_more_often_at_a_step_than_counts_say(window, dtype):
    n, symbols = 140, Sums()
    a, u = symbols.coefficients(n, dtype), symbols.inputs(n, dtype)
    with interpreted(symbols, 256):
        states = [symbols.load(number) for number in rf.solve(a, u, window=window)]
    counts = factor_counts("engine", n, window=window, format=dtype)
    for i, state in enumerate(states):
        found = np.bincount([step for _, step in symbols.sums.get(id(state), ((),))[0]], minlength=n)
        extra = np.where(counts[i] == ABSENT, 0, counts[i] - (i - np.arange(n)))
        assert np.all(found <= np.maximum.accumulate(extra))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("third", [0, *(pytest.param(third, marks=pytest.mark.slow) for third in (1, 2))])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_of_the_engine_are_within_the_bound(name, family, third):
    """The default run has a third of the windows with each family and type, and another third with the next family."""
    fmt, n = FORMATS[name], 80
    a, u = draw(family, fmt, n, 1, seed=3)
    for window, x0 in CUTS[([*FAMILIES].index(family) + third) % 3 :: 3]:
        x = rf.solve(*(v[:, 0].astype(DTYPES[name]) for v in (a, u)), window=window, x0=x0).astype(np.float64)
        finite = np.flatnonzero(~np.isfinite(x)).min(initial=n)
        kept = slice(finite), 0
        error = exact.measure(a[kept], u[kept], x[:finite], window, x0)
        assert error.within(engine_bound(a, u, fmt, window=window, x0=x0, axis=0)[kept]).all()


def test_what_a_product_that_vanished_would_have_become():
    """The engine returns 0 where the plain loop has 1e16: an error, and within the bound."""
    a, u = np.float32([0, 0, 0, 0, 1e-25, 1e-25, 1e18, 1e18]), np.float32([0, 0, 0, 1e30, 0, 0, 0, 0])
    x, bound = rf.solve(a, u).astype(np.float64), engine_bound(a, u, "float32")
    error = exact.measure(a, u, x)
    assert error.upper[-1] > 0.9e16
    assert error.within(bound).all()
    assert np.all(np.isfinite(bound))


@pytest.mark.parametrize(
    ("window", "channels"),
    [(Uniform(300), 3), (Jagged(9, 40), 3), (Jagged(3, 99), 3), (Jagged(1, 299), 3)],
    ids=repr,
)
def test_long_windows_of_channels_round_at_every_lag(window, channels):
    """Inputs just above half an ulp of the sum are added to a 1 one by one, from the last to the first of a window."""
    kept = window.lags if isinstance(window, Uniform) else window.block * (window.terms + 1)
    u = np.full((2 * kept, channels), 1.01 * 2.0**-24, np.float32)
    u[kept - 1] = 1
    a = np.ones_like(u)
    x, bound = rf.solve(a, u, window=window, axis=0), engine_bound(a, u, "float32", window=window, axis=0)
    errors = exact.measure(a[:, 0], u[:, 0], x[:, 0], window)
    assert errors.within(bound[:, 0]).all()
    step = int(np.argmax(errors.upper))
    assert errors.upper[step] > 10 * (step - (kept - 1) + 7) * 2.0**-24  # far beyond d + 7 roundings


def test_shortest():
    assert engine_bound([], [], "float32").shape == (0,)
    assert engine_bound([2.0], [1.0], "float32").tolist() <= [7 * 2.0**-23]
    assert engine_bound(np.zeros((0, 3)), np.zeros((0, 3)), "float16", x0=1.0, axis=0).shape == (0, 3)


def test_no_bound_where_products_of_coefficients_pass_the_range():
    a, u = [1.0, 1e30, 1e30, 1e-30, 1e-30], [0.0, 1e-30, 0.0, 1.0, 0.0]
    for fmt in ("binary32", "bfloat16"):
        bound = engine_bound(*(format_of(fmt).round(values) for values in (a, u)), fmt)
        assert np.isfinite(bound[:2]).all()
        assert np.isinf(bound[2:]).all()


def test_channels_are_bounded_as_they_are_alone(rng):
    a, u = FORMATS["binary16"].round(rng.uniform(-1, 1, (2, 30, 3)))
    together = engine_bound(a, u, "float16", window=Uniform(5), x0=[1.0, 0.5, 0.0], axis=0)
    alone = [engine_bound(a[:, c], u[:, c], "float16", window=Uniform(5), x0=x0) for c, x0 in enumerate((1.0, 0.5, 0))]
    np.testing.assert_array_equal(together, np.stack(alone, axis=1))


def test_what_it_refuses():
    with pytest.raises(DTypeError, match="exact scalars"):
        engine_bound([None], [1.0], "float16")
    with pytest.raises(OptionError, match="engine computes in"):
        engine_bound([1.0], [1.0], "float8_e5m2")
