"""What every operator owes to scipy and to NumPy: products, transposes, sums, number types, errors, pictures."""

from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.sparse
import sympy
from market import (
    COMPLEX,
    DTYPES,
    FLOATS,
    LENGTHS,
    MARKET,
    OBJECTS,
    coefficients,
    dtype_of,
    dyadic,
    inputs,
    literal_matrix,
)
from noted import in_turn
from samples import one_in
from scipy.sparse.linalg import aslinearoperator, gmres, svds

from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.factorizations import BrentKung, Hierarchical, KoggeStone, TransferOperator
from recfact.factorizations.operator import Operator
from recfact.factorizations.operator_algebra import Conjugate
from recfact.factorizations.scalars import as_coefficients, common_type
from recfact.number_types import accumulator
from recfact.windows import Uniform

OPERATORS = (TransferOperator, KoggeStone, BrentKung, lambda a: TransferOperator(a).inv())


class Dense(Operator):
    """A plain matrix, to test what the base class adds to its two hooks."""

    def __init__(self, matrix):
        super().__init__(matrix.dtype, matrix.shape)
        self.matrix = matrix

    def _apply(self, x):
        return self.matrix.astype(x.dtype) @ x

    def _transpose(self):
        return Dense(self.matrix.T)


def integer_matrix(rows, columns, dtype, rng):
    """Small integers: their products and sums are exact in every number type."""
    real = rng.integers(-3, 4, (rows, columns))
    return real.astype(dtype_of(dtype)) if dtype not in COMPLEX else (real + 1j * real[::-1]).astype(dtype)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in OBJECTS] + ["object"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2)])
def test_products_transposes_and_adjoints(shape, dtype, rng):
    matrix = integer_matrix(*shape, dtype, rng)
    operator = Dense(matrix)
    x, y = rng.integers(-3, 4, shape[1]), rng.integers(-3, 4, shape[0])
    columns = rng.integers(-3, 4, (shape[1], 4))
    wide = matrix.astype(complex)
    for got, expected in (
        (operator @ x, wide @ x),
        (operator.matvec(x), wide @ x),
        (operator.matmat(x[:, None]), wide @ x[:, None]),
        (operator @ columns, wide @ columns),
        (operator.T @ y, wide.T @ y),
        (operator.H @ y, wide.conj().T @ y),
        (operator.conj() @ x, wide.conj() @ x),
        (operator.conj().conj() @ x, wide @ x),
        (operator.rmatvec(y), wide.conj().T @ y),
        (operator.rmatmat(y[:, None]), wide.conj().T @ y[:, None]),
        (y @ operator, y @ wide),
        (operator.T.T.to_dense(), wide),
        (operator.H.to_dense(), wide.conj().T),
        (Conjugate(operator).T.to_dense(), wide.conj().T),
    ):
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got.astype(complex), expected)
    assert operator.to_dense().dtype == operator.dtype == matrix.dtype


@in_turn("make", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("name", MARKET)
def test_adjoint_identity(make, name, dtype):
    # <e_i, A e_j> = <A^H e_i, e_j>
    a = dyadic(name, 9, dtype)
    operator, units = make(a), np.eye(9, dtype=int).astype(dtype_of(dtype))
    matrix = operator.to_dense()
    for i, j in ((0, 0), (4, 1), (8, 3), (8, 0), (2, 5)):
        entry = (operator @ units[j])[i]
        assert entry == matrix[i, j] == (operator.T @ units[i])[j]
        assert entry == np.conj((operator.H @ units[i])[j])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_numbers_of_python_take_the_type_of_an_operator(dtype):
    L = TransferOperator(np.array([0.5, 0.25], dtype_of(dtype)))
    assert {(L * 2).dtype, (L * 2.0).dtype, (L / 2.0).T.dtype} == {dtype_of(dtype)}
    assert (L * 2j).dtype == np.complex64


@pytest.mark.parametrize("dtype", one_in(2, DTYPES))
@in_turn("name", MARKET)
def test_sums_products_and_powers_of_operators(name, dtype):
    n = 4 if dtype in OBJECTS else 7  # objects are slow
    a = dyadic(name, n, dtype)
    L, inverse = TransferOperator(a), TransferOperator(a).inv()
    dense, eye = literal_matrix(a), np.eye(n, dtype=int)
    if dtype in FLOATS:
        dense = dense.astype(float)
    foreign = aslinearoperator(inverse.to_dense())
    for composed, expected in (
        (L + inverse, dense + inverse.to_dense()),
        (L - L.T, dense - dense.T),
        (sum([L, L, inverse]), 2 * dense + inverse.to_dense()),
        (L @ inverse, eye),
        (inverse @ L, eye),
        (inverse.T @ L.T, eye),
        (L @ foreign, eye),
        (L - foreign, dense - inverse.to_dense()),
        (-L, -dense),
        (L / 2, L.to_dense() / 2),
        (L**2, dense @ dense),
        (L**3 @ inverse, dense @ dense),
        (L**0, eye),
        (L**-1, inverse.to_dense()),
        (inverse**-2, dense @ dense),
    ):
        assert isinstance(composed, Operator)
        assert composed._repr_html_().startswith("<figure>")
        for operator, matrix in ((composed, expected), (composed.T, expected.T), (composed.H, expected.conj().T)):
            assert operator.dtype == L.dtype
            difference = operator.to_dense() - matrix.astype(L.dtype)
            if dtype == "sympy":
                difference = np.vectorize(sympy.expand, otypes=[object])(difference)
            assert np.all(difference == 0)


def test_sums_and_products_of_any_length():
    L = TransferOperator(np.full(3, 0.5))
    long = sum(L.power(1) for _ in range(4000))
    np.testing.assert_array_equal(long.to_dense(), 4000 * L.power(1).to_dense())
    product = L
    for _ in range(2000):
        product = product @ L.inv() @ L
    np.testing.assert_array_equal(product.to_dense(), L.to_dense())


def test_products_of_small_floats_round_once():
    a = coefficients("near one", 40, "float16")
    L = TransferOperator(a)
    wide = TransferOperator(a.astype(np.float32))
    np.testing.assert_array_equal((L @ L.T).to_dense(), (wide @ wide.T).to_dense().astype(np.float16))


@pytest.mark.parametrize(
    "make", [*OPERATORS, lambda a: TransferOperator(a).truncate(Uniform(2)), lambda a: Hierarchical(a, 2)]
)
@pytest.mark.parametrize(("scalar", "kind"), [(Fraction(1, 2), Fraction), (mpmath.mpf(0.5), mpmath.mpf)])
def test_exact_entries_are_of_one_type(make, scalar, kind):
    operator = make([scalar] * 5)
    for matrix in (
        operator.to_dense(),
        operator.T.to_dense(),
        (operator / 2).to_dense(),
        (operator @ operator).to_dense(),
    ):
        assert {type(entry) for entry in matrix.flat} == {kind}


def test_entries_that_cannot_be_told_a_one_stay():
    assert TransferOperator([Decimal(0), Decimal(0)]).to_dense().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("coefficient", "scalar", "dtype"),
    [
        (np.float32(0.5), 2, "float32"),
        (np.float32(0.5), 0.25, "float32"),
        (np.float32(0.5), np.float64(0.25), "float64"),
        (np.float16(0.5), 2.0, "float16"),
        (ml_dtypes.bfloat16(0.5), -2, ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16(0.5), np.int64(2), "float64"),
        (0.5, 1j, "complex128"),
        (0.5, Fraction(1, 2), "object"),
        (Fraction(1, 3), Fraction(3, 4), "object"),
        (sympy.Symbol("a"), sympy.Symbol("s"), "object"),
    ],
)
def test_scaling(coefficient, scalar, dtype):
    L = TransferOperator(np.array([coefficient] * 3))
    for scaled in (scalar * L, L * scalar):
        assert scaled.dtype == np.dtype(dtype)
        assert np.all(scaled.to_dense() == np.asarray(scalar * L.to_dense()))
        assert np.all(scaled.T.to_dense() == scaled.to_dense().T)
        if scaled.dtype.kind != "V":  # NumPy has no conjugate of bfloat16
            assert np.all(scaled.H.to_dense() == np.conj(scaled.to_dense().T))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_svds_and_gmres_take_the_operators(dtype, rng):
    a = coefficients("complex" if dtype in COMPLEX else "random", 40, dtype)
    L = TransferOperator(a)
    eps = np.finfo(dtype).eps
    exact = np.linalg.svd(literal_matrix(a.astype(complex)), compute_uv=False)
    found = svds(L, k=3, return_singular_vectors=False, rng=rng)
    assert np.max(np.abs(np.sort(found)[::-1] - exact[:3])) <= 100 * 40 * eps * exact[0]
    b = inputs(40, dtype)
    x, info = gmres(L, b, rtol=100 * eps, restart=40)
    assert info == 0
    assert np.linalg.norm(L @ x - b) <= 100 * eps * np.linalg.norm(b)


@pytest.mark.parametrize("make", OPERATORS)
@in_turn("n", LENGTHS)
def test_repr(make, n):
    operator = make(np.full(n, 0.5))
    assert repr(operator) == f"<{n}x{n} {type(operator).__name__} with dtype=float64>"


@pytest.mark.parametrize(
    ("dtypes", "common", "computed"),
    [
        (("float16",), "float16", "float32"),
        ((ml_dtypes.bfloat16,), ml_dtypes.bfloat16, "float32"),
        (("float16", ml_dtypes.bfloat16), "float32", "float32"),
        (("float16", "float32"), "float32", "float32"),
        ((ml_dtypes.bfloat16, "complex64"), "complex64", "complex64"),
        (("float32", "int8"), "float64", "float64"),
        ((ml_dtypes.bfloat16, "int64"), "float64", "float64"),
        (("bool",), "float64", "float64"),
        (("object", "int64"), "object", "object"),
        (("complex64", "float64"), "complex128", "complex128"),
        ((">f4",), "float32", "float32"),
    ],
)
def test_number_types(dtypes, common, computed):
    assert common_type(*dtypes) == np.dtype(common)
    assert accumulator(common_type(*dtypes)) == np.dtype(computed)


@pytest.mark.parametrize("dtype", ["U3", "S3", "M8[s]", [("float", "f4")], ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_number_types_refuse_what_holds_no_numbers(dtype):
    with pytest.raises(DTypeError, match="expected real or complex numbers that recfact computes in"):
        common_type(dtype)


@pytest.mark.parametrize("small", ["float16", "bfloat16"])
@pytest.mark.parametrize("make", OPERATORS)
def test_small_floats_compute_in_float32_and_round_once(make, small):
    a, u = coefficients("near one", 40, small), inputs(40, small)
    narrow, wide = make(a), make(a.astype(np.float32))
    assert narrow.dtype == a.dtype
    for x in (u, np.stack([u, u[::-1]], axis=1)):
        got = narrow @ x
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got, (wide @ x.astype(np.float32)).astype(a.dtype))
    assert (narrow @ u.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(narrow.to_dense(), wide.to_dense().astype(a.dtype))


def test_integers_become_float64_and_objects_stay():
    assert as_coefficients([1, 2]).dtype == np.float64
    assert as_coefficients([True]).dtype == np.float64
    a = [Fraction(1, 3), 2]
    assert as_coefficients(a).tolist() == a
    huge = TransferOperator([Fraction(2**62), Fraction(2**62)])
    assert (huge @ np.array([2**62, 1]))[1] == 2**124 + 1


def test_coefficients_are_not_copied():
    a = np.full(4, 0.5)
    assert np.shares_memory(TransferOperator(a).a, a)


@pytest.mark.parametrize(
    ("a", "error", "message"),
    [
        (3.0, ShapeError, r"must be one sequence, got shape \(\); write a single number out"),
        (np.ones((2, 3)), ShapeError, r"got shape \(2, 3\)"),
        ([[1], [2, 3]], ShapeError, "ragged"),
        (None, ShapeError, r"got shape \(\)"),
        (["a", "b"], DTypeError, "got dtype <U1"),
        (np.zeros(2, "M8[s]"), DTypeError, "got dtype datetime64"),
    ],
)
@pytest.mark.parametrize("make", OPERATORS)
def test_bad_coefficients(make, a, error, message):
    with pytest.raises(error, match=message):
        make(a)


@pytest.mark.parametrize("make", OPERATORS)
def test_bad_operands(make):
    operator = make(np.full(4, 0.5))
    with pytest.raises(
        ShapeError, match=r"4x4 operator multiplies arrays of shape \(4,\) or \(4, m\), got shape \(5,\)"
    ):
        operator @ np.ones(5)
    with pytest.raises(ShapeError, match=r"got shape \(4, 2, 2\)"):
        operator @ np.ones((4, 2, 2))
    with pytest.raises(DTypeError, match="got dtype <U1"):
        operator @ np.array(["a"] * 4)
    with pytest.raises(TypeError, match="sparse"):
        operator @ scipy.sparse.eye_array(4)
    with pytest.raises(ValueError, match=r"got the scalar 2\.0; write \* to scale"):
        operator @ 2.0


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (lambda L, x: x @ L, ShapeError, r"got the scalar x; write \* to scale"),
        (lambda L, x: L @ x, ShapeError, r"got the scalar x; write \* to scale"),
        (lambda L, x: np.ones(5) @ L, ShapeError, r"arrays of shape \(4,\) or \(m, 4\) multiply .* got shape \(5,\)"),
        (lambda L, x: L + np.eye(4), TypeError, "adds operators, got ndarray; add to to_dense"),
        (lambda L, x: 1 + L, TypeError, "adds operators, got int"),
        (lambda L, x: L - x, TypeError, "adds operators, got Symbol"),
        (lambda L, x: L / L, TypeError, r"divided by scalars, got TransferOperator; L.inv\(\)"),
        (lambda L, x: L + TransferOperator(np.ones(3)), ShapeError, "must have one shape, got <4x4 .* and <3x3"),
        (lambda L, x: L @ TransferOperator(np.ones(3)), ShapeError, "must fit, columns to rows, got <4x4 .* and <3x3"),
        (lambda L, x: KoggeStone(L.a) ** -1, OptionError, "exponent must be at least 0, got -1"),
        (lambda L, x: L**0.5, TypeError, "exponent must be an integer"),
        (lambda L, x: L**x, TypeError, "exponent must be an integer, got x"),
        (lambda L, x: Dense(np.ones((2, 3))) ** 2, ShapeError, "only a square operator has powers"),
    ],
)
def test_bad_arithmetic_of_operators(expression, error, message):
    with pytest.raises(error, match=message):
        expression(TransferOperator(np.full(4, 0.5)), sympy.Symbol("x"))


def test_matrices_of_sympy_and_mpmath_are_multiplied():
    L = TransferOperator(sympy.symbols("a1:4"))
    u = sympy.Matrix(sympy.symbols("u1:4"))
    matrix = sympy.Matrix(L.to_dense())
    assert sympy.Matrix(L @ u).expand() == (matrix * u).expand()
    assert sympy.Matrix(u.T @ L).expand() == (u.T * matrix).expand()
    assert (L @ u).shape == (3, 1)


def test_products_leave_their_operands_alone():
    u = np.ones(8)
    for make in OPERATORS:
        operator = make(np.full(8, 0.5))
        x = operator @ u
        assert not np.shares_memory(x, u)
        np.testing.assert_array_equal(u, 1.0)
