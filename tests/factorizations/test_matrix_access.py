"""Operators read as matrices: as arrays, by entry, row, part and diagonal, and compared."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import sympy
from market import DTYPES, OBJECTS, coefficients, dyadic, literal_matrix
from noted import in_turn

import recfact as rf
from recfact.errors import ArrayTypeError, OptionError, PositionError, ShapeError

MAKERS = {
    "transfer": rf.TransferOperator,
    "transpose": lambda a: rf.TransferOperator(a).T,
    "inverse": lambda a: rf.TransferOperator(a).inv(),
    "transposed inverse": lambda a: rf.TransferOperator(a).T.inv(),
    "Kogge-Stone": rf.KoggeStone,
    "Brent-Kung": rf.BrentKung,
    "blocks": lambda a: rf.Hierarchical(a, 4),
    "band": lambda a: rf.TransferOperator(a).truncate(rf.Uniform(3)),
    "jagged": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(3)),
    "transposed jagged": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(3)).T,
    "sum": lambda a: rf.TransferOperator(a) + rf.TransferOperator(a).T,
    "wide": lambda a: rf.Hierarchical(a, 4).parts.R,
}
KEYS = [
    (0, 0), (-1, 0), (2, -1), 1, -2, (slice(None), 0), (1, slice(None)), (slice(1, 5), slice(1, 3)), slice(0, 2),
    (slice(None, None, -2), slice(None, None, 3)), (slice(2, 2), slice(None)), (slice(0, 2), slice(5, 1)),
    (slice(0, 99), slice(-3, None)), (np.int64(1), np.uint8(2)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("make", MAKERS)
def test_parts_are_those_of_the_dense_matrix(make, dtype):
    operator = MAKERS[make](dyadic("decaying", 11, dtype))
    dense = operator.to_dense()
    for key in KEYS:
        part, expected = operator[key], dense[key]
        assert np.shape(part) == np.shape(expected)
        if isinstance(expected, np.ndarray):
            assert part.dtype == expected.dtype
        difference = np.asarray(part - expected)
        if dtype == "sympy":
            difference = np.array([sympy.expand(entry) for entry in difference.flat], dtype=object)
        assert np.all(difference == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("make", MAKERS)
def test_diagonals_are_those_of_the_dense_matrix(make, dtype):
    operator = MAKERS[make](dyadic("decaying", 11, dtype))
    dense = operator.to_dense()
    for k in range(-13, 14):
        found, expected = operator.diagonal(k), dense.diagonal(k)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        difference = found - expected
        if dtype == "sympy":
            difference = np.array([sympy.expand(entry) for entry in difference], dtype=object)
        assert np.all(difference == 0)


def test_a_diagonal_is_a_copy():
    for make in MAKERS.values():
        operator = make(np.full(8, 0.5))
        before = operator.to_dense()
        for k in (0, -1, 1):
            operator.diagonal(k)[...] = 7.0
        np.testing.assert_array_equal(operator.to_dense(), before)


def test_a_small_part_of_a_long_operator_is_cheap():
    a = np.full(1 << 20, 0.5)  # whose matrix has 2^40 entries
    L, middle, before = rf.TransferOperator(a), slice(1 << 19, (1 << 19) + 3), slice((1 << 19) - 2, (1 << 19) + 1)
    np.testing.assert_array_equal(L[middle, before], literal_matrix(np.full(5, 0.5))[2:, :3])
    for key in ((-1, slice(None)), (slice(None), 0), -1):
        weights = L[key] if key == (slice(None), 0) else L[key][::-1]
        np.testing.assert_array_equal(weights[:40], 0.5 ** np.arange(40))
    assert rf.KoggeStone(a)[-1, -3:].tolist() == [0.25, 0.5, 1.0]
    assert L.diagonal(-3)[5] == 0.125


@pytest.mark.parametrize("make", MAKERS)
def test_arrays_are_made_of_operators(make):
    operator = MAKERS[make](np.full(9, 0.5))
    dense = operator.to_dense()
    for array in (np.asarray(operator), np.array(operator), operator.toarray(), operator.todense()):
        assert type(array) is np.ndarray
        np.testing.assert_array_equal(array, dense)
    assert np.asarray(operator, dtype=np.float32).dtype == np.float32
    assert np.array_equal(operator, dense)
    assert np.allclose(operator, dense)
    assert np.linalg.norm(operator) == np.linalg.norm(dense)
    with pytest.raises(OptionError, match="copy=False"):
        np.array(operator, copy=False)
    assert len(list(operator)) == operator.shape[0]


def test_operators_are_no_arrays_of_coefficients():
    L = rf.TransferOperator(np.full(4, 0.5))
    for call in (lambda: rf.solve(L, np.ones(4)), lambda: rf.solve(np.ones(4), L), lambda: rf.materialize(L)):
        with pytest.raises(ArrayTypeError, match="got the operator <4x4 TransferOperator"):
            call()


def test_comparisons_are_those_of_arrays():
    a = np.array([0.5, 0.25, 0.5, 0.75])
    L, dense = rf.TransferOperator(a), rf.TransferOperator(a).to_dense()
    other = rf.TransferOperator(np.full(4, 0.5))
    for left, right, plain in (
        (L, rf.KoggeStone(a), dense),
        (L, other, other.to_dense()),
        (L, scipy.sparse.linalg.aslinearoperator(dense), dense),
        (L, dense, dense),
        (dense, L, dense),
        (L, 0.5, 0.5),
    ):
        np.testing.assert_array_equal(left == right, dense == plain)
        np.testing.assert_array_equal(left != right, dense != plain)
    assert (L == "text") is False
    assert (L != None) is True  # noqa: E711
    assert L in [None, L]
    assert {L: 1}[L] == 1  # a key, for what it is
    with pytest.raises(ValueError, match="ambiguous"):
        bool(other == L)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solve_is_the_inverse(dtype):
    a = dyadic("decaying", 7, dtype)
    L = rf.TransferOperator(a)
    given = np.array([0, 1, 0, 0, 2, 0, 1])
    if dtype not in OBJECTS:
        given = given.astype(L.dtype)
    for operator in (L, L.T, L.inv()):
        difference = operator @ operator.solve(given) - given
        if dtype == "sympy":
            difference = np.array([sympy.expand(entry) for entry in difference], dtype=object)
        assert np.all(difference == 0)
    for operator in (L, L.inv()):
        with pytest.raises(ShapeError):
            operator.solve(np.ones(6))


@pytest.mark.parametrize(
    "make", [rf.TransferOperator, rf.KoggeStone, rf.BrentKung, lambda a: rf.Hierarchical(a, 2)]
)  # fmt: skip
def test_a_transfer_operator_stands_for_its_coefficients(make):
    a = coefficients("random", 9, "float32")
    for given in (rf.TransferOperator(a), rf.KoggeStone(a), rf.BrentKung(a), rf.Hierarchical(a, 4)):
        np.testing.assert_array_equal(make(given).a, a)
    L = rf.TransferOperator(a)
    for other in (L.T, L.inv(), L.truncate(rf.Jagged(2)), L + L, rf.KoggeStone(a).T):
        with pytest.raises(ArrayTypeError, match="got the operator"):
            make(other)


def test_coefficients_in_a_matrix_of_sympy():
    a = sympy.symbols("a1:5")
    expected = rf.TransferOperator(a).to_dense()
    for matrix in (sympy.Matrix(a), sympy.Matrix([a]), sympy.ImmutableMatrix(a)):
        np.testing.assert_array_equal(rf.TransferOperator(matrix).to_dense(), expected)
        assert np.all(rf.Hierarchical(matrix, 2).a == np.array(a))
    with pytest.raises(ShapeError, match=r"one sequence, got shape \(2, 2\)"):
        rf.TransferOperator(sympy.eye(2))


def test_rows_and_columns_that_there_are_not():
    L = rf.Hierarchical([Fraction(1, 2)] * 6, 2).parts.R
    for key, words in (
        ((3, 0), "row 3 is out of range for an operator of 3 rows"),
        ((0, -7), "column -7 .* 6 col"),
    ):
        with pytest.raises(PositionError, match=words):
            L[key]
