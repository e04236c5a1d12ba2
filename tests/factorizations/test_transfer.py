"""The transfer operator: its entries, inverse, powers, norms, growth and transpose."""

from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from market import (
    COMPLEX,
    DTYPES,
    FLOATS,
    LENGTHS,
    MARKET,
    OBJECTS,
    as_numbers,
    coefficients,
    dtype_of,
    exact_solution,
    fractions,
    inputs,
    literal_matrix,
    rounding_bound,
    symbols,
    unit_roundoff,
)
from noted import in_turn, noted

import recfact as rf
from recfact.errors import DTypeError, OptionError
from recfact.factorizations.transfer import Bidiagonal, TransferOperator

ORDERS = (1, 2, np.inf, "fro")


# --- Identities, proved: symbols and exact fractions


def spaced_fractions(n):
    """Fractions of both signs without a pattern, none zero."""
    return np.array([Fraction((-1) ** i * (i % 7 + 2), i % 5 + 3) for i in range(n)] + [None], dtype=object)[:-1]


@pytest.mark.parametrize("n", range(9))
def test_symbolic_entries_inverse_and_nilpotency(n):
    a, eye = symbols(n), np.eye(n, dtype=int)
    L = TransferOperator(a)
    matrix = literal_matrix(a)
    assert np.all(L.to_dense() == matrix)
    assert np.all(L.T.to_dense() == matrix.T)
    az = eye - L.inv().to_dense()
    assert np.all(az == np.diag(a[1:], -1)[:n, :n])
    expand = np.vectorize(sympy.expand, otypes=[object])
    if n:
        assert np.all(expand(matrix @ (eye - az)) == eye)
        assert np.all(expand((eye - az) @ matrix) == eye)
    power, total = eye, np.zeros((n, n), dtype=int)
    for k in range(n + 2):
        assert np.all(L.power(k).to_dense() == power)
        assert np.all(L.neumann(k).to_dense() == total)
        power, total = power @ az if n else power, total + power
    assert np.all(L.power(n).to_dense() == 0)
    assert np.all(L.neumann(n).to_dense() == matrix)


@pytest.mark.parametrize("n", [9, 16, 17, 33, pytest.param(64, marks=pytest.mark.slow)])
def test_exact_inverse_and_nilpotency(n):
    a, eye = spaced_fractions(n), np.eye(n, dtype=int)
    L = TransferOperator(a)
    matrix, az = literal_matrix(a), eye - L.inv().to_dense()
    assert np.all(L.to_dense() == matrix)
    assert np.all(matrix @ (eye - az) == eye)
    power = eye.astype(object)
    for k in range(n + 1):
        assert np.all(L.power(k).to_dense() == power)
        power = np.vstack([0 * power[:1], a[1:, None] * power[:-1]])  # AZ times it
    assert not np.any(power)
    assert np.all(L.neumann(n).to_dense() == matrix)
    assert L.nilpotency_index == n


def test_four_by_four_of_the_design():
    a1, a2, a3, a4 = variables = sympy.symbols("a1:5")
    expected = [[1, 0, 0, 0], [a2, 1, 0, 0], [a2 * a3, a3, 1, 0], [a2 * a3 * a4, a3 * a4, a4, 1]]
    assert rf.TransferOperator(variables).to_dense().tolist() == expected
    assert a1 not in sympy.Matrix(expected).free_symbols


# --- Entries and products against the definition


@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("name", MARKET, one_in=3)
def test_entries(name, dtype):
    for n in LENGTHS:
        with noted(n=n):
            a = coefficients(name, n, dtype)
            L, matrix = TransferOperator(a), literal_matrix(a)
            dense = L.to_dense()
            assert dense.shape == (n, n)
            assert dense.dtype == L.dtype == dtype_of(dtype)
            assert np.all(np.triu(dense, 1) == 0)
            assert np.all(np.diagonal(dense) == 1)
            if dtype == "sympy" and n:
                assert not np.any(np.vectorize(sympy.expand, otypes=[object])(dense - matrix))
            elif dtype in OBJECTS:
                assert np.all(dense == matrix)
            else:
                assert_entries_are_accurate(dense, a, dtype)
            for i, j in ((n - 1, 0), (n - 1, n - 1), (n // 2, 0), (0, n - 1)) if n else ():
                assert L[i, j] == matrix[i, j]
                assert L[i - n, j - n] == matrix[i, j]
                assert L.T[j, i] == matrix[i, j]
                assert type(L[i, j]) is type(dense[i, j])


def assert_entries_are_accurate(dense, a, dtype):
    """Hold a computed matrix against the exact one, entry by entry.

    The entry at lag d takes d multiplications in whatever order, each with a relative error u (sqrt(5) u for complex
    numbers: Brent, Percival and Zimmermann, 2007) or half the smallest number, and the small floats' last rounding.
    """
    computing = "float32" if dtype in FLOATS[:2] else dtype
    unit, last = (float(unit_roundoff(name)) for name in (computing, dtype))
    least, last_least = (float(ml_dtypes.finfo(dtype_of(name)).smallest_subnormal) for name in (computing, dtype))
    unit, last = (unit * 5**0.5, 0.0) if dtype in COMPLEX else (unit, last)
    with mpmath.workdps(60):
        exact = literal_matrix(as_numbers(a.astype(complex), "mpf"))
        for (i, j), entry in np.ndenumerate(as_numbers(dense.astype(complex), "mpf")):
            d = max(i - j, 0)
            relative = d * unit / (1 - d * unit) + last
            underflow = (d * least + last_least) * max(1, max(abs(a.astype(complex)))) ** d
            assert abs(entry - exact[i, j]) <= relative * abs(exact[i, j]) + underflow


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@in_turn("n", LENGTHS, one_in=3)
@in_turn("name", [name for name in MARKET if name not in ("complex", "denormal")])
def test_products_meet_the_rounding_bound(name, n, dtype):
    a, u = coefficients(name, n, dtype), inputs(n, dtype)
    L = TransferOperator(a)
    # Any order of the engine multiplies d = i - j coefficients and an input and adds at most i + 1 terms.
    bound = rounding_bound(fractions(a), fractions(u), lambda i, j: (i - j) + 1 + i, unit_roundoff(dtype))
    assert np.all(np.abs(fractions(L @ u) - exact_solution(a, u)) <= bound)
    reverse = np.append(a[:1], a[:0:-1])  # the transpose is the recurrence read from the end
    bound = rounding_bound(fractions(reverse), fractions(u[::-1]), lambda i, j: (i - j) + 1 + i, unit_roundoff(dtype))
    assert np.all(np.abs(fractions((L.T @ u)[::-1]) - exact_solution(reverse, u[::-1])) <= bound)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16", "float16"])
def test_products_are_those_of_solve(dtype):
    a = coefficients("complex" if dtype in COMPLEX else "random", 100, dtype)
    L = TransferOperator(a)
    wide = a if dtype in ("float32", "complex128") else a.astype(np.float32)
    for u in (inputs(100, dtype), inputs((100, 3), dtype)):
        shaped = wide.reshape(-1, *(1,) * (u.ndim - 1))
        forward = rf.solve(shaped, u.astype(wide.dtype), axis=0)
        np.testing.assert_array_equal(L @ u, forward.astype(a.dtype))
        backward = rf.solve(shaped, u.astype(wide.dtype), axis=0, reverse=True)
        np.testing.assert_array_equal(L.T @ u, backward.astype(a.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("n", LENGTHS)
def test_inverse_undoes_the_operator(n, dtype):
    a = coefficients("constant", n, dtype)  # halves: exact in every type
    L, u = TransferOperator(a), np.ones(n, dtype=int)
    if dtype in FLOATS[:2]:
        n = min(n, 8)  # more bits than float16 and bfloat16 have
        L, u = TransferOperator(a[:n]), u[:n]
    x = L @ u
    assert np.all(L.inv() @ x == u)
    assert np.all(L.T.inv() @ (L.T @ u) == u)
    assert isinstance(L.inv(), Bidiagonal)
    assert isinstance(L.inv().inv(), TransferOperator)
    assert L.inv().dtype == L.dtype


def test_object_operands_meet_float_coefficients():
    L = TransferOperator(np.array([0.5, 0.5]))
    assert (L @ np.array([Fraction(1), Fraction(1, 4)])).tolist() == [1, 0.75]
    assert (L @ np.array([sympy.Symbol("u"), 0])).tolist() == [sympy.Symbol("u"), 0.5 * sympy.Symbol("u")]


@pytest.mark.parametrize("key", [(), (0.0, 1), (0, 1, 2), ([0, 1], [1, 0]), (..., 0), "ab", None])
def test_entries_want_integers_and_slices(key):
    with pytest.raises(TypeError, match="integers and slices"):
        TransferOperator([1, 2])[key]


@pytest.mark.parametrize(("key", "name"), [((2, 0), "row 2"), ((0, -3), "column -3")])
def test_entries_out_of_range(key, name):
    with pytest.raises(IndexError, match=f"{name} is out of range for an operator of 2"):
        TransferOperator([1, 2])[key]
    with pytest.raises(IndexError, match="out of range"):
        TransferOperator([])[0, 0]


# --- Powers, partial sums, nilpotency


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "Fraction", "mpi"])
@in_turn("k", [0, 1, 2, 5, 9, 10])
def test_powers_and_partial_sums_as_sparse_arrays(k, dtype):
    L = TransferOperator(coefficients("random", 9, dtype))
    for operator, entries in (
        (L.power(k), max(9 - k, 0)),
        (L.neumann(k), sum(9 - lag for lag in range(min(k, 9)))),
        (L.inv(), 17),
    ):
        assert operator.nnz == entries
        if dtype in OBJECTS:
            with pytest.raises(DTypeError, match=r"use to_dense\(\)"):
                operator.to_sparse()
            continue
        stored = operator.to_sparse()
        assert stored.shape == (9, 9)
        assert stored.nnz == entries
        assert stored.dtype == (np.complex64 if dtype == "complex64" else np.float32)
        np.testing.assert_array_equal(stored.toarray(), operator.to_dense().astype(stored.dtype))
        np.testing.assert_array_equal(operator.T.to_sparse().toarray(), stored.toarray().T)
        np.testing.assert_array_equal(operator.conj().to_dense().astype(complex), stored.toarray().conj())


@pytest.mark.parametrize("n", [0, 1, 2])
def test_short_inverses_as_sparse_arrays(n):
    np.testing.assert_array_equal(Bidiagonal(np.full(n, 0.5)).to_sparse().toarray(), np.eye(n) - 0.5 * np.eye(n, k=-1))


@pytest.mark.parametrize("k", [-1, 1.5, "3", True, None])
def test_powers_and_partial_sums_want_a_count(k):
    for method in (TransferOperator([1, 2]).power, TransferOperator([1, 2]).neumann):
        with pytest.raises((TypeError, OptionError), match="k must be"):
            method(k)


@given(st.lists(st.sampled_from([0, Fraction(1, 2), -1]), max_size=12))
def test_nilpotency_index_is_the_first_power_that_vanishes(values):
    a = np.array([*values, None], dtype=object)[:-1]
    n = len(a)
    az = np.diag(a[1:], -1)[:n, :n].astype(object)
    power, index = np.eye(n, dtype=int).astype(object), 0
    while np.any(power != 0):
        power, index = power @ az, index + 1
    assert TransferOperator(a).nilpotency_index == index


def test_nilpotency_index_counts_what_may_not_be_zero():
    assert TransferOperator(symbols(5)).nilpotency_index == 5
    assert TransferOperator([mpmath.iv.mpf([-1, 1])] * 5).nilpotency_index == 5
    assert TransferOperator([mpmath.iv.mpf(0)] * 5).nilpotency_index == 1
    assert TransferOperator([1.0, np.nan, 0.0]).nilpotency_index == 2


# --- Norms


# --- Growth
