"""Chains of factors: what Kogge-Stone and Brent-Kung share."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import sympy
from counting import Tally, counted, rounded_problem
from market import (
    DTYPES,
    LENGTHS,
    MARKET,
    OBJECTS,
    coefficients,
    dtype_of,
    dyadic,
    exact_solution,
    fractions,
    inputs,
    literal_matrix,
    symbols,
    unit_roundoff,
)
from noted import in_turn, noted

from recfact.errors import DTypeError
from recfact.factorizations import BrentKung, KoggeStone, TransferOperator
from recfact.factorizations.factor_chain import Factor, FactorChain, Work

CHAINS = (KoggeStone, BrentKung)


@pytest.mark.parametrize("make", CHAINS)
@pytest.mark.parametrize("n", range(9))
def test_product_of_symbolic_factors_is_the_operator(make, n):
    a = symbols(n)
    chain, matrix = make(a), literal_matrix(a)
    product = np.eye(n, dtype=int).astype(object)
    for factor in chain.factors:
        product = factor.to_dense() @ product
    if n:
        product = np.vectorize(sympy.expand, otypes=[object])(product)
    assert np.all(product == matrix)
    assert np.all(chain.to_dense() == matrix)
    assert np.all(chain.T.to_dense() == matrix.T)
    assert np.all(chain.H.to_dense() == np.conj(matrix.T))


# All up to two steps beyond a power of two, and those around the next one. The slow tests have all.
FEW_LENGTHS = (*range(9, 35), 62, 63, 64)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", CHAINS)
@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FEW_LENGTHS)) for n in range(9, 65)]
)
def test_product_of_exact_factors_is_the_operator(make, n):
    a = np.array([Fraction((-1) ** i * (i % 7 + 2), i % 5 + 3) for i in range(n)], dtype=object)
    chain, matrix = make(a), literal_matrix(a)
    assert np.all(chain.to_dense() == matrix)
    if n in (9, 16, 21, 32):  # matrix products of Fractions are slow
        product = np.eye(n, dtype=int).astype(object)
        for factor in chain.factors:
            product = factor.to_dense() @ product
        assert np.all(product == matrix)


@pytest.mark.parametrize("make", CHAINS)
@pytest.mark.parametrize("dtype", DTYPES)
@in_turn("name", MARKET, one_in=3)
def test_chain_in_every_number_type(make, name, dtype):
    for n in (0, 1, 2, 3, 9):
        with noted(n=n):
            a = dyadic(name, n, dtype)
            chain, L = make(a), TransferOperator(a)
            assert chain.dtype == dtype_of(dtype)
            difference = chain.to_dense() - L.to_dense()
            if dtype == "sympy" and n:
                difference = np.vectorize(sympy.expand, otypes=[object])(difference)
            assert np.all(difference == 0)
            for factor in chain.factors:
                dense = factor.to_dense()
                assert np.all(np.diagonal(dense) == 1)
                assert np.all(dense[list(factor.rows), list(factor.columns)] == factor.values)
                assert np.all(factor.T.to_dense() == dense.T)
                assert np.all(factor.T.T.to_dense() == dense)
                lags = np.arange(n)[:, None] - np.arange(n)
                assert np.count_nonzero(lags == factor.lag) >= factor.nnz == len(factor.values)
                if dtype in OBJECTS:
                    with pytest.raises(DTypeError, match=r"use to_dense\(\)"):
                        factor.to_sparse()
                    continue
                stored = factor.to_sparse()
                assert stored.nnz == n + factor.nnz
                np.testing.assert_array_equal(stored.toarray(), dense)
                np.testing.assert_array_equal(factor.H.to_dense(), dense.conj().T)


@pytest.mark.parametrize("make", CHAINS)
def test_stages_run_from_the_input_to_the_product(make):
    chain, u = make(coefficients("random", 21)), inputs((21, 2))
    stages = chain.stages(u)
    assert len(stages) == chain.depth + 1
    np.testing.assert_array_equal(stages[0], u)
    assert not np.shares_memory(stages[0], u)
    for factor, before, after in zip(chain.factors, stages[:-1], stages[1:], strict=True):
        np.testing.assert_array_equal(factor @ before, after)
        changed = np.flatnonzero(np.any(before != after, axis=1))
        assert set(changed) <= set(factor.rows)
    np.testing.assert_array_equal(stages[-1], chain @ u)
    assert chain.stages([Fraction(1)] * 21)[0].dtype == object


@pytest.mark.parametrize("make", CHAINS)
def test_transposed_chain_is_the_reverse_of_transposed_factors(make):
    chain = make(coefficients("complex", 13, "complex128"))
    assert isinstance(chain.T, FactorChain)
    assert [factor.lag for factor in chain.T.factors] == [-factor.lag for factor in reversed(chain.factors)]
    assert (chain.T.depth, chain.T.nnz, chain.T.work) == (chain.depth, chain.nnz, chain.work)
    np.testing.assert_array_equal(chain.H.to_dense(), np.conj(chain.T.to_dense()))


@pytest.mark.parametrize("make", CHAINS)
@in_turn("n", range(66))
def test_work_and_depth_are_what_counting_scalars_see(make, n):
    tally = Tally()
    a, u = counted(n, tally), counted(n, tally)
    chain = make(a)
    assert tally == Tally(chain.forming, 0)
    x = chain @ u
    assert chain.work == Work(tally.multiplications, tally.additions)
    assert chain.nnz == tally.additions
    assert chain.depth == len(chain.factors)
    # The last row of the up-sweep may be independent of the factor after it, which Brent-Kung does not make use of.
    depth = max((state.depth for state in x), default=0)
    assert depth == chain.depth or (make is BrentKung and depth == chain.depth - 1)


@cache
def roundings(make, n):
    """How many roundings the term with u[j] of state i goes through: a list of {j: count}, from the chain itself."""
    a, u = rounded_problem(n)
    return [state.counts for state in make(a) @ u]


@in_turn("n", [*range(1, 40), 64, 100])
def test_roundings_counted_against_their_formulas(n):
    # numerics, 3.1: with d = i - j, Kogge-Stone d + ceil(log2 i), attained; Brent-Kung at most d + 2 floor(log2 i).
    for i, row in enumerate(roundings(KoggeStone, n)):
        assert row.keys() == set(range(i + 1))
        assert all(count <= i - j + i.bit_length() for j, count in row.items())
        assert row[i] == i.bit_length()
    for i, row in enumerate(roundings(BrentKung, n)):
        assert row.keys() == set(range(i + 1))
        assert all(count <= i - j + 2 * ((i + 1).bit_length() - 1) for j, count in row.items())


@pytest.mark.parametrize("make", CHAINS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@in_turn("name", [name for name in MARKET if name not in ("complex", "denormal")], one_in=3)
@in_turn("n", [n for n in LENGTHS if n > 3])
def test_products_meet_the_rounding_bound(make, n, name, dtype):
    a, u = coefficients(name, n, dtype), inputs(n, dtype)
    error = np.abs(fractions(make(a) @ u) - exact_solution(a, u))
    matrix, unit = np.abs(literal_matrix(fractions(a))), unit_roundoff(dtype)
    bound = [
        sum(matrix[i, j] * abs(Fraction(float(u[j]))) * count * unit / (1 - count * unit) for j, count in row.items())
        for i, row in enumerate(roundings(make, n))
    ]
    assert np.all(error <= bound)


@pytest.mark.parametrize("make", CHAINS)
def test_a0_is_not_read(make):
    a = coefficients("random", 20)
    spoiled = np.append(np.nan, a[1:])
    np.testing.assert_array_equal(make(spoiled).to_dense(), make(a).to_dense())


@pytest.mark.parametrize("make", CHAINS)
def test_coefficients_are_left_alone(make):
    a = coefficients("random", 20)
    before = a.copy()
    chain = make(a)
    dense = chain.to_dense()
    np.testing.assert_array_equal(a, before)
    a[:] = 0  # nor does the chain look at them again
    np.testing.assert_array_equal(chain.to_dense(), dense)


def test_empty_chain_is_the_identity():
    chain = FactorChain(3, [], np.float64)
    u = np.arange(3.0)
    np.testing.assert_array_equal(chain @ u, u)
    assert not np.shares_memory(chain @ u, u)
    assert (chain.depth, chain.nnz, chain.work) == (0, 0, Work(0, 0))


def test_factor_reads_the_vector_as_it_was():
    factor = Factor(4, range(1, 4), 1, np.ones(3))
    np.testing.assert_array_equal(factor @ np.array([1.0, 10, 100, 1000]), [1, 11, 110, 1100])


def test_long_chains_take_memory_by_their_entries():
    n = 100_000
    a = np.full(n, 0.5, np.float32)
    chain = BrentKung(a)
    assert sum(factor.values.size for factor in chain.factors) == chain.nnz < 2 * n
    # Exact: 2 - 2^-i. The term at lag d weighs 2^-d and has at most d + 2 log2(n) roundings, so their sum is 72 u.
    exact = 2 - 0.5 ** np.arange(n)
    for operator in (KoggeStone(a), chain):
        assert np.max(np.abs(operator @ np.ones(n, np.float32) - exact)) <= 72 * float(unit_roundoff("float32"))
