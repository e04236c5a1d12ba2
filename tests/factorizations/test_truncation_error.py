"""The norms of what a truncation leaves out, against dense matrices, closed forms and witnesses."""

from fractions import Fraction
from math import inf, sqrt

import mpmath
import numpy as np
import pytest
import sympy
from market import fractions, literal_matrix, random_fractions
from noted import in_turn
from truncations import WINDOWS, exact_half, literal_window

from recfact.errors import OptionError
from recfact.factorizations.carrier_norm import carrier_norm
from recfact.factorizations.transfer import TransferOperator, truncate
from recfact.factorizations.truncated import BandedOperator, JaggedOperator
from recfact.windows import Jagged, Uniform

ORDERS = (1, 2, inf, "fro")


def test_norms_of_halves():
    jagged = exact_half()
    assert jagged.error_norm(1) == jagged.error_norm(inf) == Fraction(255, 4096)
    squares = sum((jagged.error_operator().to_dense() ** 2).flat)
    assert squares == Fraction(3706425, 2**30)
    assert jagged.error_norm("fro") == pytest.approx(0.05875267886334354165, rel=2**-50)
    assert jagged.error_norm(2) == pytest.approx(0.042821163954299326962, rel=2**-50)
    assert jagged.error_norm(2) < 2**-5 * (1 + 2**-4) / (3 / 4)
    band = BandedOperator([0.5] * 16, 5)
    assert band.error_norm(inf) == 0.062469482421875 == 2**-4 * (1 - 2**-11)
    assert band.error_norm(2) == pytest.approx(0.05913048589025094, rel=2**-50)


def test_an_input_for_which_the_relative_bound_is_attained():
    u = np.array([Fraction(0)] * 16)
    u[3], u[4] = Fraction(1), Fraction(-1, 2)
    x = TransferOperator([Fraction(1, 2)] * 16) @ u
    assert x.tolist() == [0] * 3 + [1] + [0] * 12
    error = exact_half().error(u)
    assert error.tolist() == [0] * 8 + [Fraction(1, 32 << k) for k in range(4)] + [0] * 4
    assert exact_half().relative_error_norm(inf) == max(error) == Fraction(1, 32)
    ratio = 0.03601384553630034
    assert sqrt(sum(error**2)) == pytest.approx(ratio, rel=2**-50)
    assert exact_half().relative_error_norm(2) == pytest.approx(ratio, rel=2**-50)
    assert ratio == pytest.approx(2**-5 * sqrt((1 - 2**-8) / (3 / 4)), rel=2**-50)


TABLE = {
    # n = 256, blocks of 16: the inf-norm and the 2-norm of L - L~
    0.8: [".1126 .06427", ".1407 .1405", ".1126 .1124", ".004952 .004943", ".003961 .003954"],
    0.9: ["1.668 1.034", "1.853 1.840", "1.668 1.656", ".3815 .3785", ".3434 .3406"],
    0.95: ["8.362 6.011", "8.802 8.567", "8.362 8.137", "4.078 3.956", "3.874 3.757"],
}


@pytest.mark.parametrize("rho", TABLE)
def test_table_of_norms(rho):
    windows = [Jagged(16), Uniform(16), Uniform(17), Uniform(31), Uniform(32)]
    for window, printed in zip(windows, TABLE[rho], strict=True):
        operator = truncate(np.full(256, rho), window)
        for order, value in zip((inf, 2), printed.split(), strict=True):
            unit = 10.0 ** -len(value.split(".")[1])
            assert abs(operator.error_norm(order) - float(value)) <= unit / 2


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.99])
def test_jagged_lies_between_the_bands_of_lags_up_to_l_and_up_to_2l_minus_1(rho):
    # "k = l" and "k = 2l - 1" have to be read as the largest lag kept, not as the number of terms.
    n, block = 40, 4
    rng = np.random.default_rng(0)
    a = rho * rng.choice([-1, 1], n) * rng.uniform(0.5, 1, n)
    jagged = truncate(a, Jagged(block))
    for order in ORDERS:
        smaller = truncate(a, Uniform(2 * block)).error_norm(order)
        larger = truncate(a, Uniform(block + 1)).error_norm(order)
        assert smaller <= jagged.error_norm(order) <= larger


@pytest.mark.parametrize("window", WINDOWS)
@in_turn("n", [0, 1, 6, 17])
def test_norms_are_those_of_the_dense_matrices(window, n, rng):
    a = random_fractions(rng, n)
    operator = truncate(a, window)
    full = literal_matrix(a)
    E = abs(full - literal_window(full, window))
    N = abs(operator.relative_error_operator().to_dense())
    for matrix, norm in ((E, operator.error_norm), (N, operator.relative_error_norm)):
        assert norm(1) == max(matrix.sum(axis=0), default=0)
        assert norm(inf) == max(matrix.sum(axis=1), default=0)
        assert norm("fro") == pytest.approx(sqrt(sum((matrix * matrix).flat)), rel=2**-48)
        assert_spectral_norm(norm(2), matrix)
    floats = truncate(a.astype(float), window)
    for order in ORDERS:
        for norm, exact in (
            (floats.error_norm(order), operator.error_norm(order)),
            (floats.relative_error_norm(order), operator.relative_error_norm(order)),
        ):
            assert isinstance(norm, float)
            # Sums, products and square roots of non-negative numbers, and the rounding of the coefficients.
            assert abs(norm - exact) <= 20 * (n + 1) * 2.0**-53 * float(exact)


def assert_spectral_norm(norm, matrix):
    """Hold a 2-norm against exact arithmetic: sigma^2 I - M M^T is positive definite just above it, and not below."""
    if not matrix.any():
        assert norm == 0
        return
    margin = Fraction(8 * len(matrix), 2**53)
    assert is_definite(Fraction(norm) * (1 + margin), matrix)
    assert not is_definite(Fraction(norm) * (1 - margin), matrix)


def is_definite(sigma, matrix):
    """Return whether sigma^2 I - M M^T is positive definite, by elimination in fractions."""
    rest = sigma**2 * np.eye(len(matrix), dtype=int) - matrix @ matrix.T
    for k in range(len(rest)):
        if rest[k, k] <= 0:
            return False
        rest[k + 1 :, k + 1 :] -= np.multiply.outer(rest[k + 1 :, k], rest[k, k + 1 :] / rest[k, k])
    return True


def geometric(rho, terms):
    return terms if rho == 1 else (1 - rho**terms) / (1 - rho)


def tau(q, c):
    """Return ||(I_q - c Z)^-1||_2 by the closed form of the Kac-Murdock-Szego matrix, in 40 digits."""
    with mpmath.workdps(40):
        c = mpmath.mpf(c)
        angle = mpmath.findroot(
            lambda x: mpmath.sin((q + 1) * x) - c * mpmath.sin(q * x),
            (mpmath.pi / (2 * q + 1), mpmath.pi / (q + 1)),
            solver="anderson",
        )
        return float(1 / mpmath.sqrt(1 + c**2 - 2 * c * mpmath.cos(angle)))


@pytest.mark.parametrize("rho", [0.25, 0.5, 0.9, 0.99, 1 - 2**-11])
@pytest.mark.parametrize(("n", "block", "terms"), [(64, 4, 1), (64, 16, 0), (60, 5, 2), (256, 16, 1), (256, 1, 3)])
def test_closed_forms_for_a_constant_coefficient(rho, n, block, terms):
    q, c = n // block - terms - 1, rho**block
    # Some roundings a step; the closed forms divide by 1 - rho and lose as much there.
    slack = 8 * n * 2.0**-53
    jagged = JaggedOperator(np.full(n, rho), block, terms)
    worst = rho ** (terms * block + 1) * geometric(rho, q * block)
    assert jagged.error_norm(1) == pytest.approx(worst, rel=slack / (1 - rho))
    assert jagged.error_norm(inf) == pytest.approx(worst, rel=slack / (1 - rho))
    readout = sqrt(geometric(rho**2, block))
    expected = rho * readout * readout * c**terms * tau(q, c)
    assert jagged.error_norm(2) == pytest.approx(expected, rel=slack / (1 - rho))
    assert jagged.error_norm(2) < rho ** (terms * block + 1) * (1 + c) / (1 - rho**2)
    frobenius = rho * readout**2 * sqrt(sum((q - j) * c ** (2 * (terms + j)) for j in range(q)))
    assert jagged.error_norm("fro") == pytest.approx(frobenius, rel=slack / (1 - rho))
    assert jagged.relative_error_norm(inf) == pytest.approx(rho ** (terms * block + 1), rel=slack)
    assert jagged.relative_error_norm(2) == pytest.approx(rho ** (terms * block + 1) * readout, rel=slack / (1 - rho))
    lags = terms * block + 1
    band = BandedOperator(np.full(n, rho), lags)
    assert band.error_norm(2) == pytest.approx(rho**lags * tau(n - lags, rho), rel=slack / (1 - rho))
    assert band.relative_error_norm(2) == band.relative_error_norm(inf) == pytest.approx(rho**lags, rel=slack)


@pytest.mark.parametrize("window", [Uniform(5), Jagged(4), Jagged(3, 2)])
@pytest.mark.parametrize("order", ORDERS)
def test_signs_and_phases_do_not_matter_to_norms(window, order, rng):
    a = rng.uniform(0.1, 1.2, 25)
    expected = truncate(a, window).error_norm(order)
    assert truncate(a * rng.choice([-1, 1], 25), window).error_norm(order) == expected
    turned = truncate(a * np.exp(1j * rng.uniform(0, 7, 25)), window).error_norm(order)
    assert turned == pytest.approx(expected, rel=25 * 8 * 2**-53)
    larger = truncate(a * rng.uniform(1, 1.1, 25), window)
    assert larger.error_norm(order) > expected


@pytest.mark.parametrize("window", [Uniform(6), Jagged(4), Jagged(4, 2)])
def test_worst_inputs_attain_the_norms(window):
    rho, n = 0.75, 32
    operator = truncate(np.full(n, rho), window)
    a = np.full(n, rho)
    # inf: all inputs 1, in the first row of the last block.
    assert max(operator.error(np.ones(n))) == pytest.approx(operator.error_norm(inf), rel=2 * n * 2**-53)
    # relative: inputs that make a single lost state 1 and all others 0.
    source = operator.relative_error_operator().sources[0]
    u = np.zeros(n)
    u[source], u[source + 1] = 1, -a[source + 1]
    error = operator.error(u)
    assert np.linalg.norm(error, inf) == pytest.approx(operator.relative_error_norm(inf), rel=n * 2**-53)
    assert np.linalg.norm(error) == pytest.approx(operator.relative_error_norm(2), rel=n * 2**-53)


def test_spectral_norm_of_graded_and_growing_recurrences(rng):
    for _ in range(20):
        q = int(rng.integers(1, 9))
        p, c, r = (np.exp2(rng.integers(-30, 31, q)) * (rng.random(q) < 0.8) for _ in range(3))
        matrix = fractions(p)[:, None] * literal_matrix(fractions(c)) * fractions(r)
        assert_spectral_norm(carrier_norm(p.tolist(), c.tolist(), r.tolist()), matrix)


def test_spectral_norm_of_infinite_and_no_entries():
    assert carrier_norm([], [], []) == 0
    assert carrier_norm([0.0, 0.0], [0.5, 0.5], [1.0, 1.0]) == 0
    assert carrier_norm([1.0, inf], [0.5, 0.5], [1.0, 1.0]) == inf
    assert carrier_norm([1.0, 1.0, 1.0], [0.0, inf, 0.5], [1.0, 1.0, 1.0]) == inf


def test_norms_stay_finite_where_squares_overflow_or_underflow():
    huge = truncate(np.full(8, 1e30), Uniform(2))
    assert huge.error_norm("fro") == pytest.approx(1e210, rel=1e-15)
    assert huge.error_norm(2) == pytest.approx(1e210, rel=1e-15)
    tiny = truncate(np.full(8, 1e-30), Jagged(2, 2))
    # Block 3 loses the last state of block 0 through c[2] c[1] = 1e-120, times g[3] = (1e-30, 1e-60).
    for norm in (tiny.error_norm, tiny.relative_error_norm):
        assert norm(2) == pytest.approx(1e-150, rel=1e-15)
        assert norm("fro") == pytest.approx(1e-150, rel=1e-15)
    assert truncate(np.full(8, 1e-60), Jagged(2, 1)).error_norm("fro") == pytest.approx(1e-180, rel=1e-15)


def test_norms_of_symbols_and_intervals():
    a = sympy.symbols("a1:5", positive=True)
    assert BandedOperator(a, 3).error_norm(1) == a[3] * a[2] * a[1]
    interval = truncate([mpmath.iv.mpf(1) / 3] * 6, Jagged(2)).error_norm(inf)
    exact = truncate([Fraction(1, 3)] * 6, Jagged(2)).error_norm(inf)
    assert exact.numerator in interval * exact.denominator
    with pytest.raises(OptionError, match="2-norm"):
        BandedOperator(a, 3).error_norm(2)
