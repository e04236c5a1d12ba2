"""truncate: what the windows keep, what they lose, and the norms of that, against the definition and closed forms."""

from fractions import Fraction
from math import ceil, inf, log2, sqrt

import market
import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from market import fractions, literal_matrix, symbols

from recfact import solve
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.factorizations.carrier_norm import carrier_norm
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.transfer import TransferOperator
from recfact.factorizations.truncated import BandedOperator, JaggedOperator, truncate
from recfact.recurrence import forward
from recfact.windows import Full, Jagged, Uniform

ORDERS = (1, 2, inf, "fro")
WINDOWS = (
    Uniform(1),
    Uniform(2),
    Uniform(5),
    Uniform(100),
    Jagged(1, 0),
    Jagged(1),
    Jagged(1, 3),
    Jagged(2),
    Jagged(3, 0),
    Jagged(3),
    Jagged(4, 2),
    Jagged(5, 3),
    Jagged(100),
    Jagged(3, 100),
)


def random_fractions(rng, n):
    """Return small fractions, zeros and negative ones among them."""
    return np.array([Fraction(int(rng.integers(-4, 5)), int(rng.integers(1, 6))) for _ in range(n)], dtype=object)


def literal_window(matrix, window):
    """Return `matrix` with zeros outside the window."""
    kept = matrix.copy()
    for i, j in np.ndindex(matrix.shape):
        match window:
            case Uniform(lags):
                inside = i - j < lags
            case Jagged(block, terms):
                inside = i // block - j // block <= terms
        if not inside:
            kept[i, j] = 0
    return kept


def expand(matrix):
    return np.frompyfunc(sympy.expand, 1, 1)(matrix)


def exact_half(n=16, block=4, terms=1):
    return JaggedOperator([Fraction(1, 2)] * n, block, terms)


# --- the identities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("n", [1, 4, 7, 8])
def test_symbols_prove_the_identities(window, n):
    a = symbols(n)
    check_identities(a, symbols(n, "u"), window, expand)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("n", [2, 5, 16, 33])
def test_fractions_prove_the_identities(window, n, rng):
    check_identities(random_fractions(rng, n), random_fractions(rng, n), window, lambda matrix: matrix)


@pytest.mark.parametrize("window", [Uniform(17), Jagged(7, 2), Jagged(16), Jagged(8, 3)])
@pytest.mark.parametrize("n", [63, 64])
def test_fractions_prove_the_identities_for_longer_windows(window, n, rng):
    check_identities(random_fractions(rng, n), random_fractions(rng, n), window, lambda matrix: matrix)


def check_identities(a, u, window, simplify):
    n = len(a)
    full = literal_matrix(a)
    kept = literal_window(full, window)
    operator = truncate(a, window)
    assert np.array_equal(operator.to_dense(), kept)
    assert operator.nnz == sum((literal_window(np.tri(n, dtype=int), window)).flat)
    x, x_kept = simplify(full @ u), simplify(kept @ u)
    assert np.array_equal(simplify(operator @ u), x_kept)
    assert np.array_equal(simplify(operator.T @ u), simplify(kept.T @ u))

    # L - L~ = E, x - x~ = E u and E = N L, L~ = (I - N) L, x - x~ = N x
    E, N = operator.error_operator(), operator.relative_error_operator()
    assert np.array_equal(simplify(E.to_dense()), full - kept)
    assert np.array_equal(simplify(operator.error(u)), simplify(x - x_kept))
    assert np.array_equal(simplify(full - N.to_dense() @ full), kept)
    assert np.array_equal(simplify(N @ x), simplify(x - x_kept))
    for part in (E, N):
        assert np.array_equal(part.T.to_dense(), part.to_dense().T)
        assert np.array_equal(simplify(part.T @ u), simplify(part.to_dense().T @ u))

    # The state that a row loses, times the coefficients since.
    match window:
        case Uniform(lags):
            for i in range(n):
                lost = np.prod(a[i - lags + 1 : i + 1]) * x[i - lags] if i >= lags else 0
                assert simplify(np.array([operator.error(u)[i] - lost], dtype=object))[0] == 0
        case Jagged(block, terms):
            h = Hierarchical(a, block)
            s = h.carriers(u)
            for t in range(h.blocks):
                steps = slice(t * block, (t + 1) * block)
                lost = h.g[t] * np.prod(h.c[t - terms : t]) * s[t - terms - 1] if t > terms else h.g[t] * 0
                assert np.array_equal(simplify(operator.error(u)[steps]), simplify(lost))


@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("terms", range(4))
def test_jagged_is_the_decomposition_with_a_cut_carrier_series(n, block, terms):
    a = symbols(n)
    h = Hierarchical(a, block)
    D, G, Z, _, R = (part.to_dense() for part in h.parts)
    step = np.diag(h.c) @ Z
    series = sum((np.linalg.matrix_power(step, m) for m in range(terms)), np.zeros_like(step))
    assert np.array_equal(expand(D + G @ Z @ series @ R), JaggedOperator(a, block, terms).to_dense())


@pytest.mark.parametrize("block", [1, 3, 4])
@pytest.mark.parametrize("terms", range(4))
def test_a_jagged_row_is_a_uniform_row(block, terms, rng):
    a = random_fractions(rng, 18)
    jagged = JaggedOperator(a, block, terms)
    for i in range(18):
        band = BandedOperator(a, terms * block + i % block + 1)
        assert np.array_equal(jagged.to_dense()[i], band.to_dense()[i])
        assert np.array_equal(jagged.error_operator().to_dense()[i], band.error_operator().to_dense()[i])


def test_band_is_the_partial_neumann_series(rng):
    a = random_fractions(rng, 12)
    for lags in range(1, 14):
        assert np.array_equal(BandedOperator(a, lags).to_dense(), TransferOperator(a).neumann(lags).to_dense())


# --- values worked out by hand ----------------------------------------------------------------------------------------


def test_error_of_halves():
    u = [Fraction(1)] * 16
    x = TransferOperator([Fraction(1, 2)] * 16) @ np.array(u)
    assert x[8] == Fraction(511, 256)
    assert x[15] == Fraction(65535, 32768)
    assert exact_half().error(u).tolist() == [0] * 8 + [Fraction(15, 256 << k) for k in range(4)] + [
        Fraction(255, 4096 << k) for k in range(4)
    ]
    uniform = BandedOperator([Fraction(1, 2)] * 16, 4).error(u)
    assert not uniform[:4].any()
    assert uniform[8] == x[4] / 16 == Fraction(31, 256)


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


def test_initial_state_is_part_of_the_first_input():
    zero = [Fraction(0)] * 16
    folded = [Fraction(0)] * 8 + [Fraction(1, 2**k) for k in range(9, 17)]
    assert exact_half().error(zero, x0=Fraction(1)).tolist() == folded
    assert exact_half().error([Fraction(1, 2), *zero[1:]]).tolist() == folded
    # Passed as a carrier v_0 = x_0, the state after a block before the first, it is lost one block earlier.
    block_before = [*zero[:3], Fraction(1)]
    carried = exact_half(20).error(block_before + zero)[4:]
    assert carried.tolist() == [0] * 4 + [Fraction(1, 2**k) for k in range(5, 17)]


@pytest.mark.parametrize("window", [Uniform(3), Jagged(4), Jagged(3, 2)])
@pytest.mark.parametrize("shape", [(13,), (13, 2)])
def test_error_with_an_initial_state_is_that_of_solve(window, shape, rng):
    # Small powers of two: exact in any order.
    a, u = rng.choice([0.5, -1.0, 1.0], 13), rng.integers(-3, 4, shape).astype(float)
    x0, aligned = (2.0, a) if len(shape) == 1 else (np.array([2.0, -4.0]), a[:, None])
    difference = solve(aligned, u, x0=x0, axis=0) - solve(aligned, u, x0=x0, axis=0, window=window)
    assert np.array_equal(truncate(a, window).error(u, x0=x0), difference)
    complex_error = truncate(a, window).error(u, x0=1j * np.asarray(x0))
    assert complex_error.dtype == np.complex128
    assert np.array_equal(complex_error.real, truncate(a, window).error(u))


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


# --- claims of the paper, corrected -----------------------------------------------------------------------------------


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


def test_jagged_can_be_better_than_the_band_of_2l_minus_1_terms():
    a = np.full(12, 0.9)
    first = np.eye(12)[0]
    assert JaggedOperator(a, 4).error(first)[7] == 0
    assert BandedOperator(a, 7).error(first)[7] == pytest.approx(0.4782969, rel=2**-50)
    ones_then_zeros = np.array([1.0] * 8 + [0.0] * 4)
    assert JaggedOperator(ones_then_zeros, 4).error_norm("fro") == 0
    assert BandedOperator(ones_then_zeros, 7).error_norm("fro") > 0


@pytest.mark.parametrize("terms", range(4))
def test_the_first_blocks_have_no_error(terms, rng):
    a, u = rng.uniform(0.5, 1, 60), rng.standard_normal(60)
    error = JaggedOperator(a, 8, terms).error(u, x0=1.0)
    assert not error[: 8 * (terms + 1)].any()
    assert error[8 * (terms + 1) :].all()


# --- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("n", [0, 1, 6, 17])
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


# --- accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["decaying", "random", "reset", "near one", "above one"])
@pytest.mark.parametrize("window", [Uniform(7), Jagged(8), Jagged(4, 3)])
def test_error_is_accurate_relative_to_itself(dtype, name, window):
    n = 48
    a, u = market.coefficients(name, n, dtype), market.inputs(n, dtype)
    operator = truncate(a, window)
    exact_a, exact_u = fractions(a), fractions(u)
    exact = truncate(exact_a, window).error(exact_u)
    # At most d products of coefficients, and an addition in each of d steps or in log2(n) stages and a carry.
    law = market.unit_roundoff(dtype) * (2 * n + ceil(log2(n)) + 4)
    bound = abs(truncate(exact_a, window).error_operator().to_dense()) @ abs(exact_u) * law / (1 - law)
    assert operator.error(u).dtype == a.dtype
    assert (abs(fractions(operator.error(u)) - exact) <= bound).all()


def test_subtraction_would_lose_what_error_keeps():
    a, u = np.full(256, 0.5), np.ones(256)
    operator = JaggedOperator(a, 64)
    assert not (solve(a, u) - operator @ u).any()
    exact = JaggedOperator([Fraction(1, 2)] * 256, 64).error([Fraction(1)] * 256)
    assert (abs(fractions(operator.error(u)) - exact) <= Fraction(2 * 256 + 12, 2**53) * exact).all()
    assert exact[128] > 0


@pytest.mark.parametrize("dtype", [*market.FLOATS, *market.COMPLEX])
@pytest.mark.parametrize("window", WINDOWS)
def test_all_number_types(dtype, window, rng):
    # Small powers of two and integers: exact in any order, and in any of these types.
    a = rng.choice([0.5, -1.0, 1.0, 0.0], 11).astype(market.dtype_of(dtype))
    u = rng.integers(-1, 2, (11, 2)).astype(a.dtype)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    dense = literal_window(literal_matrix(a.astype(wide)), window)
    operator = truncate(a, window)
    E = literal_matrix(a.astype(wide)) - dense
    for computed, expected in (
        (operator.to_dense(), dense),
        (operator @ u, dense @ u.astype(wide)),
        (operator.T @ u, dense.T @ u.astype(wide)),
        (operator.T.to_dense(), dense.T),
        (operator.error(u), E @ u.astype(wide)),
        (operator.error_operator().to_dense(), E),
    ):
        assert computed.dtype == a.dtype
        assert np.array_equal(computed.astype(wide), expected)
    kind = "BandedOperator" if isinstance(window, Uniform) else "JaggedOperator"
    assert repr(operator) == f"<11x11 {kind} with dtype={a.dtype}>"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("window", [Uniform(5), Jagged(4), Jagged(3, 2)])
@pytest.mark.parametrize("name", ["decaying", "random", "near one"])
def test_small_floats_round_once(dtype, window, name):
    n = 40
    a, u = market.coefficients(name, n, dtype), market.inputs(n, dtype)
    operator, exact = truncate(a, window), truncate(fractions(a), window)
    law = Fraction(2 * n + ceil(log2(n)) + 4, 2**24)
    unit, lost = market.unit_roundoff(dtype), Fraction(float(ml_dtypes.finfo(a.dtype).smallest_subnormal))
    for computed, matrix in (
        (operator @ u, exact.to_dense()),
        (operator.T @ u, exact.to_dense().T),
        (operator.error(u), exact.error_operator().to_dense()),
        (operator.error_operator().T @ u, exact.error_operator().to_dense().T),
    ):
        value, size = matrix @ fractions(u), abs(matrix) @ abs(fractions(u))
        assert (abs(fractions(computed) - value) <= unit * abs(value) + 2 * law * size + lost).all()


@pytest.mark.parametrize("window", WINDOWS)
def test_complex_adjoints(window, rng):
    # Gaussian integers and halves of them: exact in any order.
    a = rng.choice([0.5j, 1.0, -1j, 0.5 + 0.5j, 0], 13)
    u = rng.integers(-2, 3, (13, 2)) + 1j * rng.integers(-2, 3, (13, 2))
    operator = truncate(a, window)
    operator.error_norm(1)
    for part in (operator, operator.error_operator(), operator.relative_error_operator()):
        dense = part.to_dense()
        assert np.array_equal(part @ u, dense @ u)
        assert np.array_equal(part.H @ u, dense.conj().T @ u)
        assert np.array_equal(part.T.H @ u, dense.conj() @ u)
        assert np.array_equal(part.H.to_dense(), dense.conj().T)
    assert np.array_equal(operator.conj().error(u), operator.error(u.conj()).conj())
    assert np.array_equal(operator.H.to_sparse().toarray(), operator.to_dense().conj().T)


def test_intervals_enclose_the_exact_states(rng):
    a, u = random_fractions(rng, 15), random_fractions(rng, 15)
    thin = [
        np.array([mpmath.iv.mpf(value.numerator) / value.denominator for value in values], dtype=object)
        for values in (a, u)
    ]
    for window in (Uniform(4), Jagged(4)):
        for computed, exact in (
            (truncate(thin[0], window) @ thin[1], truncate(a, window) @ u),
            (truncate(thin[0], window).error(thin[1]), truncate(a, window).error(u)),
        ):
            for interval, value in zip(computed, exact, strict=True):
                value = Fraction(value)
                assert value.numerator in mpmath.iv.mpf(interval) * value.denominator


# --- sparse forms, sizes and bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", [*market.FLOATS, *market.COMPLEX])
def test_sparse_form_has_the_entries_of_the_window(window, dtype):
    a = market.coefficients("decaying", 10, dtype)
    operator = truncate(a, window)
    sparse = operator.to_sparse()
    assert sparse.shape == (10, 10)
    assert sparse.nnz == operator.nnz
    assert sparse.dtype == (np.float32 if a.dtype.itemsize == 2 else a.dtype)
    assert np.array_equal(sparse.toarray().astype(a.dtype), operator.to_dense())
    assert np.array_equal(operator.T.to_sparse().toarray(), sparse.toarray().T)


def test_sparse_form_keeps_zero_coefficients_in_the_window():
    assert BandedOperator(np.zeros(6), 3).to_sparse().nnz == 15


def test_objects_have_no_sparse_form():
    with pytest.raises(DTypeError, match="to_dense"):
        exact_half().to_sparse()


@pytest.mark.parametrize("window", WINDOWS)
def test_empty_recurrences(window):
    operator = truncate([], window)
    assert operator.shape == (0, 0)
    assert operator.to_dense().shape == operator.to_sparse().shape == (0, 0)
    assert operator.error(np.zeros((0, 3)), x0=1.0).shape == (0, 3)
    assert operator.nnz == 0
    assert [operator.error_norm(order) for order in ORDERS] == [0, 0, 0, 0]
    assert [operator.relative_error_norm(order) for order in ORDERS] == [0, 0, 0, 0]


@pytest.mark.parametrize("window", [Uniform(10**15), Jagged(10**15), Jagged(3, 10**15)])
def test_windows_longer_than_the_sequence_keep_everything(window):
    a = np.full(7, 0.5)
    operator = truncate(a, window)
    assert np.array_equal(operator.to_dense(), literal_matrix(a))
    assert not operator.error(np.ones(7)).any()
    assert operator.error_norm(2) == operator.relative_error_norm(inf) == 0


def test_full_window_is_the_transfer_operator():
    assert isinstance(truncate([0.5, 0.5], Full()), TransferOperator)
    assert isinstance(TransferOperator([0.5, 0.5]).truncate(Uniform(1)), BandedOperator)
    jagged = TransferOperator([0.5, 0.5]).truncate(Jagged(2, 3))
    assert isinstance(jagged, JaggedOperator)
    assert (jagged.block, jagged.terms, jagged.window) == (2, 3, Jagged(2, 3))


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="window must be Full"):
        truncate([0.5], 4)
    with pytest.raises(OptionError, match="lags must be at least 1, got 0"):
        BandedOperator([0.5], 0)
    with pytest.raises(OptionError, match="block must be at least 1, got -1"):
        JaggedOperator([0.5], -1)
    with pytest.raises(OptionError, match="terms must be at least 0, got -1"):
        JaggedOperator([0.5], 1, -1)
    with pytest.raises(TypeError, match="block must be an integer, got nan"):
        JaggedOperator([0.5], float("nan"))
    with pytest.raises(ShapeError, match=r"shape \(n,\)"):
        BandedOperator([[0.5]], 1)
    with pytest.raises(DTypeError):
        BandedOperator(["a"], 1)
    operator = JaggedOperator(np.ones(6), 2)
    for order in (0, 3, "nuc", None, "2"):
        with pytest.raises(OptionError, match="order of a norm"):
            operator.error_norm(order)
        with pytest.raises(OptionError, match="order of a norm"):
            operator.relative_error_norm(order)
    for shape in ((5,), (2, 6), (6, 1, 1)):
        with pytest.raises(ShapeError, match=r"\(6,\) or \(6, m\)"):
            operator.error(np.ones(shape))
        with pytest.raises(ShapeError, match=r"\(6,\) or \(6, m\)"):
            operator.error(np.ones(shape), x0=1.0)
    with pytest.raises(ShapeError, match=r"x0 must broadcast against a row of u, of shape \(2,\), got shape \(3,\)"):
        operator.error(np.ones((6, 2)), x0=np.ones(3))
    with pytest.raises(ShapeError, match="x0 must broadcast"):
        operator.error(np.ones(6), x0=np.ones(1))


def test_inputs_are_left_alone(rng):
    a, u = rng.uniform(0.5, 1, 12), rng.standard_normal(12)
    kept_a, kept_u = a.copy(), u.copy()
    operator = JaggedOperator(a, 4)
    operator.error(u, x0=3.0)
    operator.error_norm(2)
    forward(a, u)
    assert np.array_equal(a, kept_a)
    assert np.array_equal(u, kept_u)


@pytest.mark.parametrize("window", [Uniform(2**70), Jagged(2**70), Jagged(3, 2**70), Jagged(2**70, 2**70)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_windows_longer_than_any_integer_of_numpy_keep_everything(window, n):
    a = np.arange(1.0, n + 1)
    operator = truncate(a, window)
    assert operator.nnz == n * (n + 1) // 2
    assert np.array_equal(operator.to_dense(), literal_matrix(a))
    assert np.array_equal(operator.error(np.ones(n)), np.zeros(n))
