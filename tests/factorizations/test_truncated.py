"""truncate: what the windows keep, what they lose, and the norms of that, against the definition and closed forms."""

from fractions import Fraction
from math import ceil, inf, log2

import market
import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from market import fractions, literal_matrix, random_fractions, symbols
from noted import in_turn
from truncations import WINDOWS, exact_half, literal_window

from recfact import solve
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.transfer import TransferOperator, truncate
from recfact.factorizations.truncated import BandedOperator, JaggedOperator
from recfact.recurrence import forward
from recfact.windows import Full, Jagged, Uniform

ORDERS = (1, 2, inf, "fro")


def expand(matrix):
    return np.frompyfunc(sympy.expand, 1, 1)(matrix)


# --- the identities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
@in_turn("n", [1, 4, 7, 8])
def test_symbols_prove_the_identities(window, n):
    a = symbols(n)
    check_identities(a, symbols(n, "u"), window, expand)


@pytest.mark.parametrize("window", WINDOWS)
@in_turn("n", [2, 5, 16, 33], one_in=2)
def test_fractions_prove_the_identities(window, n, rng):
    check_identities(random_fractions(rng, n), random_fractions(rng, n), window, lambda matrix: matrix)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Uniform(17), Jagged(7, 2), Jagged(16), Jagged(8, 3)])
@pytest.mark.parametrize("n", [39, 40, *(pytest.param(n, marks=pytest.mark.slow) for n in (63, 64))])
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
@in_turn("block", [1, 2, 3])
@in_turn("terms", range(4))
def test_jagged_is_the_decomposition_with_a_cut_carrier_series(n, block, terms):
    a = symbols(n)
    h = Hierarchical(a, block)
    D, G, Z, _, R = (part.to_dense() for part in h.parts)
    step = np.diag(h.c) @ Z
    series = sum((np.linalg.matrix_power(step, m) for m in range(terms)), np.zeros_like(step))
    assert np.array_equal(expand(D + G @ Z @ series @ R), JaggedOperator(a, block, terms).to_dense())


@pytest.mark.sampled(1)
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


# --- claims of the paper, corrected -----------------------------------------------------------------------------------


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


# --- accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@in_turn("name", ["decaying", "random", "reset", "near one", "above one"], one_in=2)
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
@in_turn("window", WINDOWS)
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
    assert repr(operator) == f"<11x11 {kind} ({window!r}) with dtype={a.dtype}>"


@pytest.mark.sampled(1)
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


@in_turn("window", WINDOWS)
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


@pytest.mark.parametrize("window", [Jagged(1), Jagged(2), Uniform(2), Uniform(3)], ids=str)
def test_norms_of_intervals_hold_those_of_their_ends(window):
    """All coefficients are non-negative, so norms grow with each of them."""
    ends = [[k, k + 1] for k in range(7)]
    operator = truncate([mpmath.iv.mpf(pair) / 8 for pair in ends], window)
    for order in (1, inf, "fro"):
        for norm in ("error_norm", "relative_error_norm"):
            found = getattr(operator, norm)(order)
            low, high = (getattr(truncate(np.array(end) / 8, window), norm)(order) for end in zip(*ends, strict=True))
            assert found.a <= low * (1 + 1e-15)
            assert high * (1 - 1e-15) <= found.b


@pytest.mark.parametrize("a", [[], [0.5], [0.5, -2.0, 3.0, 0.25], [Fraction(1, 2)] * 3, [0.5j, 2.0]])
def test_full_window_is_the_transfer_operator_without_an_error(a):
    operator = TransferOperator(a)
    whole, u = operator.truncate(Full()), np.arange(1, len(a) + 1)
    assert np.array_equal(whole.to_dense(), operator.to_dense())
    assert np.array_equal(whole @ u, operator @ u)
    assert np.array_equal(whole.T @ u, operator.T @ u)
    assert whole.nnz == len(a) * (len(a) + 1) // 2
    assert not np.any(whole.error(u, x0=3))
    assert not np.any(whole.error_operator().to_dense())
    for order in (1, 2, inf, "fro"):
        assert whole.error_norm(order) == whole.relative_error_norm(order) == 0


def test_each_window_has_its_operator():
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
    with pytest.raises(ShapeError, match=r"must be one sequence, got shape \(1, 1\)"):
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
