"""Brent-Kung: the up-sweep and the down-sweep, against the invariants that prove them."""

import numpy as np
import pytest
from market import coefficients, fractions, inputs, literal_matrix
from noted import in_turn, noted

from recfact.algorithms import down_sweep, up_sweep
from recfact.factorizations import BrentKung
from recfact.factorizations.factor_chain import Work


def low(p):
    """The largest power of two that divides p."""
    return p & -p


@in_turn("n", range(70))
def test_rows_of_the_sweeps(n):
    # Rows counted from 1: p with 2s | p on the way up, p > s with low(p) = s on the way down.
    up = [(rows, lag) for rows, lag in up_sweep(n)]
    assert [lag for _, lag in up] == [2**t for t in range(n.bit_length() - 1)]
    for rows, s in up:
        assert [i + 1 for i in rows] == [p for p in range(1, n + 1) if p % (2 * s) == 0]
    down = {lag: rows for rows, lag in down_sweep(n)}
    assert list(down) == sorted(down, reverse=True)
    for t in range(n.bit_length()):
        s = 2**t
        assert [i + 1 for i in down.get(s, ())] == [p for p in range(1, n + 1) if low(p) == s and p > s]


@pytest.mark.parametrize(
    "n",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n >= 35 and n not in (63, 64, 65))) for n in range(1, 70)
    ],  # around powers of two
)
def test_invariants_of_the_proof(n):
    a, u = coefficients("random", n, "Fraction"), fractions(inputs(n))
    chain, matrix = BrentKung(a), literal_matrix(a)
    x, stages = matrix @ u, chain.stages(u)
    ups = n.bit_length() - 1
    after_up = stages[ups]
    for p in range(1, n + 1):
        block = slice(p - low(p), p)  # rows p - low(p) + 1 .. p
        assert after_up[p - 1] == matrix[p - 1, block] @ u[block]
    for vector, factor in zip(stages[ups + 1 :], chain.factors[ups:], strict=True):
        final = [p for p in range(1, n + 1) if low(p) >= factor.lag]
        assert all(vector[p - 1] == x[p - 1] for p in final)
    assert np.all(stages[-1] == x)


def test_counts_in_closed_form():
    for n in range(1, 300):
        with noted(n=n):
            chain = BrentKung(np.full(n, 0.5))
            m = n.bit_length() - 1
            ones = n.bit_count()
            assert chain.depth == 2 * m - (m > 0 and 2 * n < 3 * 2**m)
            assert chain.nnz == 2 * n - ones - m - 1
            # Forming: one product for each row that the up-sweep changes and that isn't the first of its stage.
            assert chain.work == Work(chain.nnz + n - ones - m, chain.nnz)
            assert chain.nnz < 2 * n


def test_work_is_linear_where_that_of_kogge_stone_is_not():
    assert BrentKung(np.full(2**16, 0.5)).work.multiplications < 3 * 2**16
