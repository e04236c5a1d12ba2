"""materialize: the four constructions against the definition, their error laws and where they fail."""

from fractions import Fraction

import market
import ml_dtypes
import mpmath
import numpy as np
import pytest
from market import fractions, literal_matrix

from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError
from recfact.factorizations.materialize import materialize

METHODS = ("cumprod", "segsum", "log-outer", "ratio", "reciprocal")
SMALL_FLOATS = ("float16", "bfloat16")


def unit(dtype):
    return float(market.unit_roundoff(dtype))


def gamma(roundings, unit):
    return roundings * unit / (1 - roundings * unit)


def below(matrix):
    """Return the strictly lower entries."""
    return matrix[..., np.tri(matrix.shape[-1], k=-1, dtype=bool)]


def random_fractions(rng, n, low=-4):
    return np.array([Fraction(int(rng.integers(low, 5)), int(rng.integers(1, 6))) for _ in range(n)], dtype=object)


@pytest.mark.parametrize("steps", range(9))
def test_symbols_give_the_matrix_of_products(steps):
    a = market.symbols(steps)
    assert np.array_equal(materialize(a), literal_matrix(a))
    assert np.array_equal(materialize(a, "ratio"), literal_matrix(a))
    assert np.array_equal(materialize(a, "reciprocal"), literal_matrix(a))


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 16, 33, 64])
def test_fractions_give_the_exact_matrix_with_zeros_and_signs(steps, rng):
    a = random_fractions(rng, steps)
    assert np.array_equal(materialize(a), literal_matrix(a))


@pytest.mark.parametrize("method", ["ratio", "reciprocal"])
def test_quotients_are_exact_for_non_zero_fractions(method, rng):
    a = random_fractions(rng, 16, low=1)
    assert np.array_equal(materialize(a, method), literal_matrix(a))


@pytest.mark.parametrize("method", ["cumprod", "ratio", "reciprocal"])
def test_exact_entries_are_of_one_type(method):
    matrices = materialize(np.array([[Fraction(1, 2)] * 4] * 2), method)
    assert {type(entry) for entry in matrices.flat} == {Fraction}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", market.FLOATS)
def test_batches_are_their_blocks(method, dtype, rng):
    a = rng.uniform(0.1, 1, (3, 2, 5)).astype(market.dtype_of(dtype))
    batch = materialize(a, method)
    assert batch.shape == (3, 2, 5, 5)
    assert batch.dtype == a.dtype
    for index in np.ndindex(3, 2):
        assert np.array_equal(batch[index], materialize(a[index], method))


@pytest.mark.parametrize("method", METHODS)
def test_empty_and_single_steps(method):
    assert materialize(np.zeros((2, 0)), method).shape == (2, 0, 0)
    assert np.array_equal(materialize(np.zeros((2, 3, 0), dtype=object), method), np.zeros((2, 3, 0, 0)))
    assert np.array_equal(materialize([0.25], method), [[1.0]])
    assert np.array_equal(materialize(np.zeros(1)), [[1.0]])


def test_integers_become_float64():
    matrix = materialize([3, 2, 3])
    assert matrix.dtype == np.float64
    assert np.array_equal(matrix, [[1, 0, 0], [2, 1, 0], [6, 3, 1]])
    assert materialize(np.array([True, False])).dtype == np.float64


def test_input_is_left_alone(rng):
    a = rng.uniform(0.5, 1, 8)
    a.flags.writeable = False
    matrix = materialize(a)
    matrix[:] = 0
    assert np.array_equal(materialize(a), materialize(a.copy()))


@pytest.mark.parametrize("dtype", market.FLOATS)
def test_leading_zero_is_no_obstacle_without_division(dtype):
    # L doesn't depend on the first coefficient; tril(g g^-T) of the paper's figure needs it to be non-zero.
    a = np.array([0, 0.5, 0.5, 0.5]).astype(market.dtype_of(dtype))
    expected = np.array([[1, 0, 0, 0], [0.5, 1, 0, 0], [0.25, 0.5, 1, 0], [0.125, 0.25, 0.5, 1]])
    assert np.array_equal(materialize(a, "cumprod"), expected)
    assert np.isfinite(materialize(a, "segsum")).all()
    assert np.isnan(below(materialize(a, "ratio"))).all()
    assert np.isnan(below(materialize(a, "log-outer"))).all()


def test_underflowing_prefix_products_in_float16():
    a = np.full(4, 2.0**-10, dtype=np.float16)
    products = materialize(a)
    assert products[1, 0] == 2.0**-10
    assert products[2, 0] == 2.0**-20  # subnormal and exact
    assert products[3, 0] == 0
    quotients = materialize(a, "ratio")
    assert np.isnan(quotients[3, 2])
    assert quotients[2, 0] == 0


def test_zeros_reset_exactly(rng):
    a = rng.uniform(0.1, 1, (200, 16))
    a[rng.random(a.shape) < 0.1] = 0
    true_zero = np.array([literal_matrix(row) == 0 for row in a])
    for method in ("cumprod", "segsum"):
        matrix = materialize(a, method)
        assert np.array_equal(matrix == 0, true_zero)
        assert np.isfinite(matrix).all()
    for method in ("ratio", "reciprocal", "log-outer"):
        assert np.isnan(materialize(a, method)).any()


def test_negative_coefficients(rng):
    a = rng.uniform(-1, 1, (50, 8))
    negative_seen = np.array([[[(row[j + 1 : i + 1] < 0).any() for j in range(8)] for i in range(8)] for row in a])
    assert np.array_equal(np.isnan(materialize(a, "segsum")), negative_seen)
    for row in a:
        exact = literal_matrix(fractions(row))
        assert (abs(fractions(materialize(row)) - exact) <= product_law(8, "float64") * abs(exact)).all()


def product_law(steps, dtype):
    """Return gamma_(d-1) for the lags d: an entry at lag d is d factors, d - 1 rounded products."""
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    return fractions(gamma(np.maximum(lag - 1, 0), unit(dtype)))


@pytest.mark.parametrize("dtype", market.FLOATS)
@pytest.mark.parametrize("low", [0.25, 31 / 32])
def test_cumprod_errs_by_its_multiplications(dtype, low, rng):
    for row in rng.uniform(low, 1, (20, 12)).astype(market.dtype_of(dtype)):
        exact = literal_matrix(fractions(row))
        normal = exact >= Fraction(float(ml_dtypes.finfo(row.dtype).smallest_normal))
        assert (abs(fractions(materialize(row)) - exact) <= product_law(12, dtype) * exact)[normal].all()


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@pytest.mark.parametrize("low", [0.25, 31 / 32])
def test_logarithms_err_by_their_sums(dtype, low, rng):
    # The small floats take log and exp through float32: a rounding of theirs errs by hardly more than one unit.
    u = unit(dtype) * (1 + 2**-10)
    a = rng.uniform(low, 1, (50, 12)).astype(market.dtype_of(dtype))
    steps = np.arange(1, 13)
    for row in a:
        prefix = np.cumsum(np.log(row.astype(np.float64)))
        exponent = np.subtract.outer(prefix, prefix)
        exact = np.tril(np.exp(np.minimum(exponent, 0)))
        lag = np.maximum(np.subtract.outer(steps, steps), 0)
        normal = exact >= ml_dtypes.finfo(a.dtype).smallest_normal
        law = np.expm1(gamma(lag, u) * abs(exponent)) + u
        error = abs(materialize(row, "segsum").astype(np.float64) - exact)
        assert (error <= law * exact)[normal].all()
        prefix_error = gamma(steps, u) * abs(prefix)
        law = np.expm1(np.add.outer(prefix_error, prefix_error) + 1.5 * u * abs(exponent)) + u
        error = abs(materialize(row, "log-outer").astype(np.float64) - exact)
        assert (error <= law * exact)[normal].all()


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_no_method_is_the_best_everywhere(dtype, rng):
    # Near 1 the logarithms are small and their sum keeps more bits; elsewhere products do.
    def median_error(method, a):
        exact = np.tril(materialize(a.astype(np.float64)))
        error = below(abs(materialize(a, method).astype(np.float64) - exact))
        normal = below(exact) >= ml_dtypes.finfo(a.dtype).smallest_normal
        return np.median(error[normal] / below(exact)[normal])

    near_one = (1 - rng.uniform(0, 1 / 32, (200, 16))).astype(market.dtype_of(dtype))
    gates = (1 / (1 + np.exp(-rng.standard_normal((200, 16))))).astype(near_one.dtype)
    assert median_error("segsum", near_one) < median_error("cumprod", near_one)
    assert median_error("cumprod", gates) < median_error("segsum", gates)


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_wide_accumulation_and_one_cast_err_by_one_unit(dtype, rng):
    a = rng.uniform(0.25, 1, (50, 8)).astype(market.dtype_of(dtype))
    computed = materialize(a.astype(np.float32)).astype(a.dtype).astype(np.float64)
    exact = materialize(a.astype(np.float64))
    normal = exact >= ml_dtypes.finfo(a.dtype).smallest_normal
    assert (abs(computed - exact) <= (unit(dtype) + gamma(8, 2**-24)) * exact)[normal].all()


def test_complex_products(rng):
    a = rng.standard_normal(10) + 1j * rng.standard_normal(10)
    with mpmath.workdps(60):
        exact = literal_matrix(market.as_numbers(a, "mpf"))
        # A complex product errs by sqrt(2) gamma_2, less than gamma_3 (Higham, 2002, lemma 3.5).
        law = gamma(3 * 10, 2.0**-53)
        assert (abs(market.as_numbers(materialize(a), "mpf") - exact) <= law * abs(exact)).all()
    assert materialize(a, "segsum").dtype == np.complex128
    assert np.array_equal(materialize(np.array([1, 0, 1j]), "segsum")[1:, 0], [0, 0])


@pytest.mark.parametrize("method", METHODS)
def test_intervals_enclose_the_exact_matrix(method, rng):
    a = random_fractions(rng, 8, low=1)
    intervals = np.array([mpmath.iv.mpf(value.numerator) / value.denominator for value in a], dtype=object)
    for interval, value in zip(materialize(intervals, method).flat, literal_matrix(a).flat, strict=True):
        assert value.numerator in mpmath.iv.mpf(interval) * value.denominator


@pytest.mark.parametrize("method", ["segsum", "log-outer"])
def test_logarithms_of_mpf(method, rng):
    a = market.as_numbers(rng.uniform(0.5, 1, 6), "mpf")
    with mpmath.workprec(200):
        # Each exponent is a sum of at most 12 logs below 1, rounded at most 12 times in each of two prefixes.
        law = mpmath.expm1(2 * 12 * 12 * mpmath.mpf(2) ** -200) + mpmath.mpf(2) ** -199
        exact = below(literal_matrix(a))
        assert (abs(below(materialize(a, method)) - exact) <= law * exact).all()


def test_growth_overflows_quietly():
    assert materialize(np.full(4, 1e200))[3, 0] == np.inf


@pytest.mark.parametrize("method", ["exp", None, 3, "CUMPROD", ["cumprod"]])
def test_unknown_methods_are_named(method):
    with pytest.raises(
        OptionError, match="method must be one of 'cumprod', 'segsum', 'log-outer', 'ratio', 'reciprocal', got"
    ):
        materialize([0.5], method)


def test_bad_coefficients_are_named():
    with pytest.raises(ShapeError, match="at least one axis"):
        materialize(0.5)
    with pytest.raises(DTypeError, match="expected real or complex numbers"):
        materialize(["a", "b"])
    with pytest.raises(DTypeError, match="expected real or complex numbers"):
        materialize(np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(DTypeError, match="scalars of type Fraction don't have"):
        materialize([Fraction(1, 2)], "segsum")
    with pytest.raises(OptionError, match="divides by the products"):
        materialize([Fraction(1, 2), Fraction(0)], "ratio")
    with pytest.raises(OptionError, match="divides by the products"):
        materialize([Fraction(1, 2), Fraction(0)], "reciprocal")
    with pytest.raises(ArrayTypeError, match="nested lists of equal lengths"):
        materialize([[1.0], [2.0, 3.0]])
