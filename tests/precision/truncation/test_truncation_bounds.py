"""truncation_bound against the exact errors of constant coefficients, and the numbers that it was derived with."""

from fractions import Fraction
from math import inf

import mpmath
import numpy as np
import pytest
from truncations import FEW_WINDOWS, error_matrix, next_above_root, norms, spectral_slack

from recfact import Full, Jagged, Uniform
from recfact.errors import DTypeError, OptionError
from recfact.factorizations import truncate
from recfact.precision import exact, horizon, pointwise_truncation_bound, truncation_bound
from recfact.precision.truncation.constant_coefficient import carrier_gain

HALF = Fraction(1, 2)
RHOS = (Fraction(1, 3), HALF, Fraction(9, 10), Fraction(1), Fraction(5, 4))
ORDERS = (1, inf, "fro")


def next_above(bound, value):
    """Check that a bound is the next float above an exact value."""
    assert Fraction(bound) >= value
    assert value == 0 or Fraction(float(np.nextafter(bound, 0))) < value


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
@pytest.mark.parametrize("rho", RHOS, ids=str)
@pytest.mark.parametrize("relative_to", ["input", "state"])
def test_bounds_are_the_norms_of_constant_coefficients(window, rho, relative_to):
    for n in (0, 1, 4, 12, 17):
        operator = truncate(np.array([rho] * n, dtype=object), window) if n else None
        norm = norms(operator, relative_to) if n else lambda order: 0
        for order in (1, inf):
            next_above(truncation_bound(rho, window, order, n=n, relative_to=relative_to), norm(order))
        matrix = error_matrix(operator, relative_to) if n else np.zeros((1, 1), dtype=object)
        next_above_root(truncation_bound(rho, window, "fro", n=n, relative_to=relative_to), sum((matrix**2).flat))
        bound, slack = truncation_bound(rho, window, 2, n=n, relative_to=relative_to), spectral_slack(n)
        value = np.linalg.norm(matrix.astype(float), 2)
        assert bound >= value * (1 - slack)
        whole = isinstance(window, Uniform) or n % window.block == 0
        if relative_to == "state" or (whole and rho <= 1):
            assert bound <= value * (1 + slack)


def distance_of_the_limit(window, rho, n):
    """Return how far the 2-norm may be from its limit, relatively.

    With c = rho^l and q blocks that lose something, their quotient is sqrt(1 + 2c (1 - cos t) / (1 - c)^2) for some
    t <= pi / (q + 1), hence at most 1 + c t^2 / (2 (1 - c)^2). Both are rounded up.
    """
    block, lost = (1, n - window.lags) if isinstance(window, Uniform) else (window.block, n // window.block)
    q = lost if isinstance(window, Uniform) else lost - window.terms - 1
    with mpmath.workdps(40):
        c = mpmath.mpf(rho) ** block
        return float(c * (mpmath.pi / (q + 1)) ** 2 / (2 * (1 - c) ** 2)) + 2.0**-52


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", FEW_WINDOWS, ids=str)
@pytest.mark.parametrize("order", [1, 2, inf, "fro"])
@pytest.mark.parametrize("relative_to", ["input", "state"])
def test_bounds_for_any_number_of_steps_are_limits(window, order, relative_to):
    for rho in ("0.5", "0.9"):
        limit = truncation_bound(rho, window, order, relative_to=relative_to)
        bounds = [truncation_bound(rho, window, order, n=n, relative_to=relative_to) for n in (10, 100, 10**4, 10**6)]
        assert bounds == sorted(bounds)
        assert bounds[-1] <= limit
        if order == 2 and relative_to == "input":
            assert limit <= bounds[-1] * (1 + distance_of_the_limit(window, rho, 10**6))
        elif order != "fro":  # its limit is infinite; the others are reached but for rho^(10^6 - ...)
            assert limit <= np.nextafter(bounds[-1], inf)
    assert limit == inf or order != "fro"


def test_signs_and_smaller_coefficients_stay_within(rng):
    for _ in range(20):
        n, rho = int(rng.integers(1, 40)), 0.9
        window = FEW_WINDOWS[rng.integers(len(FEW_WINDOWS))]
        operator = truncate(rng.uniform(-rho, rho, n), window)
        for order in (1, 2, inf, "fro"):
            for relative_to in ("input", "state"):
                value = norms(operator, relative_to)(order)
                assert value <= truncation_bound(rho, window, order, n=n, relative_to=relative_to)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [*FEW_WINDOWS, Uniform(40), Full()], ids=str)
@pytest.mark.parametrize("rho", [0.5, 0.9, 1.0, 1.25])
def test_pointwise_bounds_are_the_errors_of_constant_sequences(window, rho):
    for n in (0, 1, 17, 23):
        for nu, x0 in ((1.0, 0.0), (0.5, 0.0), (0.0, 3.0), (1.0, 3.0), (1.0, 100.0)):
            error = exact.truncation_error([rho] * n, [nu] * n, window, x0 if n else None)
            bound = pointwise_truncation_bound(rho, window, n, nu=nu, x0=x0)
            assert bound.tolist() == error.upper.tolist()
            assert truncation_bound(rho, window, n=n, nu=nu, x0=x0) == max(bound, default=0.0)
            if rho < 1:
                assert truncation_bound(rho, window, nu=nu, x0=x0) >= max(bound, default=0.0)


def test_an_initial_state_counts_as_part_of_the_first_input():
    for order in (1, 2):
        unit = truncation_bound(HALF, Jagged(4), order, n=16)
        assert truncation_bound(HALF, Jagged(4), order, n=16, nu=2, x0=4) == 4 * unit
        assert truncation_bound(HALF, Jagged(4), order, n=16, nu=0) == 0.0


# --- known values -----------------------------------------------------------------------------------------------------


def test_ones_through_halves():
    """a = 1/2, u = 1, n = 16, l = 4: x_i = 2 (1 - 2^-i)."""
    a, u = [HALF] * 16, [1] * 16
    x = exact.solve(a, u)
    assert (x[8], x[15]) == (Fraction(511, 256), Fraction(65535, 32768))
    error = x - exact.solve(a, u, Jagged(4))
    expected = [0] * 8 + [Fraction(15, 256 * 2**k) for k in range(4)] + [Fraction(255, 4096 * 2**k) for k in range(4)]
    assert list(error) == expected
    assert pointwise_truncation_bound(HALF, Jagged(4), 16).tolist() == [float(e) for e in expected]
    band = x - exact.solve(a, u, Uniform(4))
    assert list(band[:4]) == [0] * 4
    assert band[8] == Fraction(31, 256)
    assert pointwise_truncation_bound(HALF, Uniform(4), 16)[8] == 31 / 256


def test_norms_of_halves():
    jagged, band = Jagged(4), Uniform(5)
    assert truncation_bound(HALF, jagged, 1, n=16) == truncation_bound(HALF, jagged, n=16) == 0.062255859375
    assert truncation_bound(HALF, jagged, "fro", n=16) == pytest.approx(0.05875267886334354165, rel=2**-52)
    assert truncation_bound(HALF, jagged, 2, n=16) == pytest.approx(0.042821163954299326962, rel=2**-52)
    assert truncation_bound(HALF, jagged, 2) == pytest.approx(2**-5 * (1 + 2**-4) / (3 / 4), rel=2**-52)
    assert truncation_bound(HALF, band, n=16) == 2**-4 * (1 - 2**-11) == 0.062469482421875
    assert truncation_bound(HALF, band, 2, n=16) == pytest.approx(0.05913048589025094, rel=2**-51)
    squares = truncate(np.array([HALF] * 16, dtype=object), jagged).error_operator().to_dense() ** 2
    assert sum(squares.flat) == Fraction(3706425, 2**30)


def test_an_initial_state_through_halves():
    """x_0 = 1, u = 0: folded into the first input, its error starts after two blocks; as a carrier, after one."""
    a, u = [HALF] * 16, [0] * 16
    error = exact.solve(a, u, x0=1) - exact.solve(a, u, Jagged(4), x0=1)
    assert list(error) == [0] * 8 + [Fraction(1, 2**i) for i in range(9, 17)]
    assert pointwise_truncation_bound(HALF, Jagged(4), 16, nu=0, x0=1).tolist() == [float(e) for e in error]
    # The block of x_0 alone, put before the others, has the state 1 in its last step.
    carried = exact.solve([HALF] * 20, [0, 0, 0, 1, *u])[4:] - exact.solve([HALF] * 20, [0, 0, 0, 1, *u], Jagged(4))[4:]
    assert list(carried) == [0] * 4 + [Fraction(1, 2**i) for i in range(5, 17)]


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        ("0.8", ".1126 .06427 .1407 .1405 .1126 .1124 .004952 .004943 .003961 .003954"),
        ("0.9", "1.668 1.034 1.853 1.840 1.668 1.656 .3815 .3785 .3434 .3406"),
        ("0.95", "8.362 6.011 8.802 8.567 8.362 8.137 4.078 3.956 3.874 3.757"),
    ],
)
def test_the_table_of_norms(rho, expected):
    windows = (Jagged(16), Uniform(16), Uniform(17), Uniform(31), Uniform(32))
    values = [truncation_bound(rho, window, order, n=256) for window in windows for order in (inf, 2)]
    assert [float(f"{value:.4g}") for value in values] == [float(number) for number in expected.split()]


def test_the_largest_relative_errors_of_blocks_of_16():
    expected = {"0.5": 7.6294e-6, "0.8": 0.022518, "0.9": 0.16677, "0.95": 0.41812, "0.99": 0.84294}
    for rho, value in expected.items():
        bound = truncation_bound(rho, Jagged(16), relative_to="state")
        assert float(f"{bound:.5g}") == value
        assert bound == pytest.approx(float(rho) ** 17, rel=(17 + 1) * 2.0**-53)


@pytest.mark.parametrize(
    ("unit", "rho"), [(2**-11, 0.63858), (2**-8, 0.72167), (2**-24, 0.37585), (2**-4, 0.84951), (2**-3, 0.88487)]
)
def test_coefficients_below_which_truncation_is_below_rounding(unit, rho):
    assert truncation_bound(rho - 1e-5, Jagged(16), relative_to="state") < unit
    assert truncation_bound(rho + 1e-5, Jagged(16), relative_to="state") > unit


@pytest.mark.parametrize("q", [1, 2, 3, 10])
@pytest.mark.parametrize("c", [0.01, 0.5, 0.99, 1.0])
def test_the_gain_of_the_carriers(c, q):
    context = mpmath.ctx_iv.MPIntervalContext()
    context.prec = 100
    gain = carrier_gain(context, context.mpf(c), q)
    lags = np.subtract.outer(np.arange(q), np.arange(q))
    inverse = np.where(lags >= 0, c ** np.maximum(lags, 0), 0)
    assert float(gain.mid) == pytest.approx(np.linalg.norm(inverse, 2), rel=spectral_slack(q))


# --- edges ------------------------------------------------------------------------------------------------------------


def test_rho_at_its_edges():
    assert truncation_bound(0, Jagged(4)) == 0.0
    assert truncation_bound(2, Full()) == 0.0
    assert truncation_bound(1, Jagged(4)) == inf
    assert truncation_bound(1, Jagged(4), nu=0) == 0.0
    assert truncation_bound(1, Jagged(4), nu=0, x0=3) == 3.0
    assert truncation_bound(1, Jagged(4), nu=0, x0=3, n=100) == 3.0
    assert truncation_bound(1, Jagged(4), relative_to="state") == 1.0
    assert truncation_bound(2, Jagged(4), relative_to="state") == 2.0**8
    assert truncation_bound(1, Jagged(4), n=100) == 92.0
    with mpmath.workdps(40):
        exact_norm = 1 / (2 * mpmath.sin(mpmath.pi / (4 * 97 + 2)))
    bound = truncation_bound(1, Uniform(3), 2, n=100)
    assert np.nextafter(bound, 0) < exact_norm <= bound
    assert truncation_bound(2.0**-40, Uniform(3), n=1) == 0.0


def test_long_sequences_and_windows_take_no_time():
    n = 10**18
    assert truncation_bound(1, Uniform(10**12), n=n) == n - 10**12
    for window, rho in ((Jagged(10**9), 1 - 2.0**-24), (Jagged(16), 1 - 2.0**-53)):
        bound, limit = truncation_bound(rho, window, 2, n=n), truncation_bound(rho, window, 2)
        assert bound <= limit <= bound * (1 + distance_of_the_limit(window, rho, n))
    kept = n - 10**12
    next_above_root(truncation_bound(1, Uniform(10**12), "fro", n=n), kept * (kept + 1) // 2)


@pytest.mark.parametrize("rho", [-0.5, inf, float("nan"), "x", mpmath.inf])
def test_rho_bounds_magnitudes(rho):
    with pytest.raises(OptionError, match="rho bounds magnitudes"):
        truncation_bound(rho, Jagged(4))
    with pytest.raises(OptionError, match="rho bounds magnitudes"):
        pointwise_truncation_bound(rho, Jagged(4), 8)


@pytest.mark.parametrize("rho", [np.array([0.5, 0.25]), [0.5], (Fraction(1, 2),)])
def test_coefficients_are_no_rho(rho):
    for call in (truncation_bound, pointwise_truncation_bound):
        with pytest.raises(DTypeError, match=r"rho must be one number.*; recfact.precision.truncation_norm takes"):
            call(rho, Jagged(4), n=8)
    with pytest.raises(DTypeError, match=r"rho must be one number.*; recfact.precision.effective_horizon takes"):
        horizon(rho, "bfloat16")


@pytest.mark.parametrize("call", [truncation_bound, pointwise_truncation_bound])
@pytest.mark.parametrize(("window", "rho"), [(Jagged(4), 0.5), ("jagged:4", "0.5"), (Full(), HALF)])
def test_the_window_comes_second(call, window, rho):
    assert np.array_equal(call(rho, window, n=8), call(rho=rho, window=window, n=8))
    with pytest.raises(TypeError, match=r"rho must be a number.*; pass the number first, and then the window"):
        call(window, rho, n=8)


def test_options_must_be_ones():
    with pytest.raises(OptionError, match="order"):
        truncation_bound(0.5, Jagged(4), 3)
    with pytest.raises(OptionError, match="relative_to"):
        truncation_bound(0.5, Jagged(4), relative_to="output")
    with pytest.raises(OptionError, match="n must be"):
        truncation_bound(0.5, Jagged(4), n=-1)
    with pytest.raises(TypeError, match="window"):
        truncation_bound(0.5, 4)


def test_rho_nearer_to_one_than_any_float():
    window, rho = Jagged(16), 1 - Fraction(1, 2**300)
    for order in (1, 2, np.inf, "fro"):
        one, bound = (truncation_bound(value, window, order, n=100) for value in (1, rho))
        assert one * (1 - 2.0**-50) <= bound <= one
