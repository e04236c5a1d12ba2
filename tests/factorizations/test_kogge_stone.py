"""Kogge-Stone: the factors I + (AZ)^(2^t) and the binary factorization that they come from."""

import numpy as np
import pytest
import sympy
from market import coefficients, inputs, symbols

from recfact.factorizations import KoggeStone, TransferOperator
from recfact.factorizations.factor_chain import Work


@pytest.mark.parametrize("n", range(9))
def test_factors_are_those_of_the_paper(n):
    # Equation 2.4: I + (AZ)^(2^t), the power by plain matrix products of symbols.
    a, eye = symbols(n), np.eye(n, dtype=int)
    az = np.diag(a[1:], -1)[:n, :n]
    factors = KoggeStone(a).factors
    assert len(factors) == (n - 1).bit_length() if n else not factors
    for t, factor in enumerate(factors):
        power = az
        for _ in range(2**t - 1):
            power = power @ az
        assert factor.lag == 2**t
        assert factor.nnz == n - 2**t
        assert np.all(factor.to_dense() == eye + power)


@pytest.mark.parametrize("stages", range(5))
def test_binary_factorization_holds_for_any_matrix(stages):
    # sum_{k < 2^m} M^k = (I + M^(2^(m-1))) ... (I + M) is an identity of polynomials in one M.
    M = sympy.Symbol("M")
    product = sympy.prod(1 + M ** (2**t) for t in range(stages))
    assert sympy.expand(product - sum(M**k for k in range(2**stages))) == 0


@pytest.mark.parametrize("stages", range(1, 5))
def test_first_factors_are_a_partial_neumann_sum(stages):
    a = coefficients("random", 16, "Fraction")
    partial = np.eye(16, dtype=int)
    for factor in KoggeStone(a).factors[:stages]:
        partial = factor @ partial
    assert np.all(partial == TransferOperator(a).neumann(2**stages).to_dense())


def test_factors_commute():
    a = symbols(7)
    first, second, third = (factor.to_dense() for factor in KoggeStone(a).factors)
    expand = np.vectorize(sympy.expand, otypes=[object])
    for left, right in ((first, second), (second, third), (first, third)):
        assert np.all(expand(left @ right) == expand(right @ left))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 16, 1000, 1024, 1025])
def test_counts_in_closed_form(n):
    chain = KoggeStone(np.full(n, 0.5))
    m = (n - 1).bit_length()
    assert chain.depth == m
    assert chain.nnz == m * n - 2**m + 1
    # The last stage squares nothing.
    assert chain.work == Work(chain.nnz + (m - 1) * n - 2**m + 2, chain.nnz)


def test_resets_cut_the_chain_short():
    a = coefficients("random", 64)
    a[::8] = 0
    x = KoggeStone(a).stages(inputs(64))
    np.testing.assert_array_equal(x[3], x[-1])  # lags 1, 2, 4 reach all 8 steps between resets


def test_overflowing_products_meet_zeros_as_documented():
    a = np.full(4096, 2.0)
    with np.errstate(over="ignore", invalid="ignore"):
        x = KoggeStone(a) @ np.eye(4096)[-1]
    assert np.isnan(x[-1])  # the recurrence gives 1
