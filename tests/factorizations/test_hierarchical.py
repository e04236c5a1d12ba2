"""Hierarchical: L = D + G Z T R at every level, part by part, in symbols, fractions and floats."""

import copy
import pickle
from itertools import product

import market
import mpmath
import numpy as np
import pytest
import sympy
from market import literal_matrix, random_fractions, symbols
from noted import in_turn, noted

from recfact.errors import OptionError, ShapeError
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.transfer import TransferOperator
from recfact.recurrence import forward

SOLVERS = ("gemm", "scan", "sequential")
STRATEGIES = [(local, carrier) for local in SOLVERS for carrier in SOLVERS]
NESTINGS = (1, 2, 3, 5, 16, 100, (2, 2), (4, 3), (1, 1), (3, 2, 2), (2, 2, 2, 2), (100, 2))


def product_of_parts(h):
    D, G, Z, T, R = (part.to_dense() for part in h.parts)
    return D + G @ Z @ T @ R


def expand(matrix):
    return np.frompyfunc(sympy.expand, 1, 1)(matrix)


# --- the identity -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 9))
def test_symbols_prove_the_decomposition(n):
    a = symbols(n)
    for block in range(1, n + 2):
        h = Hierarchical(a, block)
        assert np.array_equal(expand(product_of_parts(h)), literal_matrix(a))
        assert np.array_equal(expand(h.to_dense()), literal_matrix(a))


@pytest.mark.parametrize("block", [(1, 2), (2, 2), (2, 3), (3, 2), (2, 2, 2), (1, 2, 2)])
def test_symbols_prove_nested_decompositions(block):
    a = symbols(8)
    h = Hierarchical(a, block)
    assert np.array_equal(expand(product_of_parts(h)), literal_matrix(a))
    assert np.array_equal(expand(h.to_dense()), literal_matrix(a))


@in_turn("block", NESTINGS, one_in=2)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 15, 16, 17, pytest.param(31, marks=pytest.mark.slow)])
def test_fractions_prove_every_level(n, block, rng):
    check_every_level(random_fractions(rng, n), block)


@pytest.mark.parametrize("block", [5, 16, (8, 3), (4, 2, 2)])
@pytest.mark.parametrize("n", [63, 64])
@pytest.mark.slow
def test_fractions_prove_every_level_of_longer_sequences(n, block, rng):
    check_every_level(random_fractions(rng, n), block)


def check_every_level(a, block):
    h = Hierarchical(a, block)
    while isinstance(h, Hierarchical):
        expected = literal_matrix(h.a)
        assert np.array_equal(product_of_parts(h), expected)
        assert np.array_equal(h.to_dense(), expected)
        assert np.array_equal(h.parts.T.to_dense(), literal_matrix(h.c))
        h = h.parts.T


@pytest.mark.parametrize(("local", "carrier"), STRATEGIES)
@in_turn("block", [1, 4, 7, (4, 2), (2, 3, 2)], one_in=2)
def test_every_strategy_is_the_same_operator(local, carrier, block, rng):
    a = random_fractions(rng, 21)
    h = Hierarchical(a, block, local_solve=local, carrier_solve=carrier)
    assert np.array_equal(h.to_dense(), literal_matrix(a))
    assert np.array_equal(h.T.to_dense(), literal_matrix(a).T)
    assert np.array_equal(h.T @ np.eye(21, dtype=int), literal_matrix(a).T)


def test_levels_are_nested_decompositions():
    h = Hierarchical(np.full(40, 0.5), (3, 4, 2), local_solve="scan", carrier_solve="gemm")
    middle = h.parts.T
    inner = middle.parts.T
    assert [type(level) for level in (h, middle, inner)] == [Hierarchical] * 3
    assert [level.block for level in (h, middle, inner)] == [(3, 4, 2), (4, 2), (2,)]
    assert [level.blocks for level in (h, middle, inner)] == [14, 4, 2]
    assert [level.parts.D.solver for level in (h, middle, inner)] == ["scan"] * 3
    last = inner.parts.T
    assert last.shape == (2, 2)
    assert last.solver == "gemm"
    assert np.array_equal(inner.a, middle.c)


# --- the parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 3, 4, 12, 13, 20])
def test_parts_are_what_the_paper_defines(block, rng):
    a = random_fractions(rng, 13)
    h = Hierarchical(a, block)
    pieces = [a[i : i + block] for i in range(0, 13, block)]
    b = h.blocks
    assert b == len(pieces) == len(h.local) == len(h.g) == len(h.r) == len(h.c)
    D, G, R = np.zeros((13, 13), object), np.zeros((13, b), object), np.zeros((b, 13), object)
    for t, piece in enumerate(pieces):
        steps = slice(t * block, t * block + len(piece))
        local = literal_matrix(piece)
        assert isinstance(h.local[t], TransferOperator)
        assert repr(h.local) == f"<LocalOperators of {h.blocks} blocks>"
        assert np.array_equal(h.local[t].to_dense(), local)
        assert np.array_equal(h.g[t], np.multiply.accumulate(piece))
        assert h.g[t].shape == piece.shape
        assert np.array_equal(h.r[t], local[-1])
        assert h.c[t] == h.g[t][-1]
        # The paper's g_t = a_{t,1} L_t e_1: no division, so a_{t,1} = 0 is no exception.
        assert np.array_equal(h.g[t], piece[0] * local[:, 0])
        D[steps, steps], G[steps, t], R[t, steps] = local, h.g[t], h.r[t]
    Z = np.eye(b, k=-1, dtype=int)
    T = literal_matrix(h.c)
    for part, expected in zip(h.parts, (D, G, Z, T, R), strict=True):
        assert np.array_equal(part.to_dense(), expected)
        assert np.array_equal(part.T.to_dense(), expected.T)
        assert np.array_equal(part.T.T.to_dense(), expected)
        columns = random_fractions(rng, 3 * part.shape[1]).reshape(-1, 3)
        assert np.array_equal(part @ columns, expected @ columns)
    assert h.parts == (h.parts.D, h.parts.G, h.parts.Z, h.parts.T, h.parts.R)


def test_first_coefficients_of_blocks_may_be_zero():
    a = np.array([0, 0.5, 0.5, 0.5] * 3)
    h = Hierarchical(a, 4)
    assert np.array_equal(h.to_dense(), literal_matrix(a))
    g = h.g[1]
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.tril(np.outer(g, 1 / np.where(g == 0, np.nan, g)))).any()  # tril(g g^-T), the figure's L_t


def test_local_operators_are_a_sequence():
    h = Hierarchical(np.arange(1.0, 8.0), 3)
    assert [local.shape for local in h.local] == [(3, 3), (3, 3), (1, 1)]
    assert np.array_equal(h.local[-1].a, [7.0])
    assert [local.a[0] for local in h.local[1:]] == [4.0, 7.0]
    with pytest.raises(IndexError):
        h.local[3]


@pytest.mark.parametrize("n", [6, 7, 8])
def test_off_diagonal_blocks_are_outer_products(n):
    a = symbols(n)
    for block in range(1, n):
        h = Hierarchical(a, block)
        for t in range(h.blocks):
            for s in range(t):
                tile = literal_matrix(a)[t * block : (t + 1) * block, s * block : (s + 1) * block]
                rank_one = h.off_diagonal(t, s)
                assert np.array_equal(expand(rank_one.to_dense()), tile)
                assert np.array_equal(expand(np.multiply.outer(rank_one.g, rank_one.beta * rank_one.r)), tile)
                assert np.array_equal(expand(rank_one.T.to_dense()), tile.T)
                assert sympy.Matrix(tile).rank(simplify=True) == 1


def test_off_diagonal_blocks_of_fractions(rng):
    a = random_fractions(rng, 23)
    h = Hierarchical(a, 5)
    for t, s in product(range(h.blocks), repeat=2):
        if s < t:
            tile = literal_matrix(a)[5 * t : 5 * t + 5, 5 * s : 5 * s + 5]
            assert np.array_equal(h.off_diagonal(t, s).to_dense(), tile)
            assert sympy.Matrix(tile).rank() <= 1
            assert h.off_diagonal(t, s).beta == np.prod(h.c[s + 1 : t])


@pytest.mark.parametrize("block", [1, 2, 3])
def test_off_diagonal_blocks_of_intervals(block):
    """An interval that multiplies two numbers from the left takes them for the ends of one."""
    a = np.array([mpmath.iv.mpf([k, k + 1]) / 8 for k in range(9)])
    h = Hierarchical(a, block)
    for t, s in product(range(h.blocks), repeat=2):
        if s < t:
            tile = literal_matrix(a)[block * t : block * (t + 1), block * s : block * (s + 1)]
            for matrix, expected in ((h.off_diagonal(t, s), tile), (h.off_diagonal(t, s).T, tile.T)):
                assert np.array_equal(matrix.to_dense(), expected)


@pytest.mark.parametrize("block", NESTINGS)
def test_carriers_are_the_states_at_the_ends_of_blocks(block, rng):
    a, u = random_fractions(rng, 14), random_fractions(rng, 28).reshape(14, 2)
    h = Hierarchical(a, block)
    x = forward(a[:, None], u)
    first = h.block[0]
    ends = [*range(first - 1, 13, first), 13]
    assert np.array_equal(h.carriers(u), x[ends])
    assert np.array_equal(h.carriers(u[:, 0]), x[ends, 0])
    assert np.array_equal(h.parts.T @ (h.parts.R @ u), x[ends])


def test_boundary_condition_of_the_blocks():
    # In 1-based terms x_{t,0} = s_{t-1} with s_0 = 0. The paper prints x_{t,1} = s_{t-1} and s_1 = 0.
    a, u = np.full(16, 0.5), np.ones(16)
    h = Hierarchical(a, 4)
    s, x = h.carriers(u), h @ u
    assert s[0] == 15 / 8
    for t in range(1, 4):
        assert np.array_equal(x[4 * t : 4 * t + 4], h.local[t] @ np.ones(4) + h.g[t] * s[t - 1])
        assert x[4 * t] != s[t - 1]


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("local", "carrier"), STRATEGIES)
@in_turn("block", [1, 4, 16, 1000, (4, 2)])
def test_all_lengths_in_exact_floats(local, carrier, block, rng):
    for n in market.LENGTHS:
        with noted(n=n):
            # Small powers of two: every operation is exact, in any order.
            a, u = rng.choice([0.0, 0.5, 1.0, -1.0, 2.0], n), rng.integers(-3, 4, (n, 2)).astype(float)
            h = Hierarchical(a, block, local_solve=local, carrier_solve=carrier)
            dense = literal_matrix(a)
            assert h.shape == (n, n)
            assert np.array_equal(h @ u, dense @ u)
            assert np.array_equal(h.T @ u, dense.T @ u)
            assert np.array_equal(h.to_dense(), dense)
            assert h.carriers(u).shape == (h.blocks, 2)


@pytest.mark.parametrize("dtype", [*market.FLOATS, *market.COMPLEX])
@pytest.mark.parametrize("block", [4, (3, 2)])
def test_dtypes_of_results(dtype, block, rng):
    a = rng.choice([0.5, -1.0, 1.0], 10).astype(market.dtype_of(dtype))
    u = rng.integers(-3, 4, 10).astype(a.dtype)
    h = Hierarchical(a, block)
    x = forward(a.astype(np.complex128), u.astype(np.complex128))
    for result in (h @ u, h.to_dense(), h.T @ u, h.carriers(u)):
        assert result.dtype == a.dtype
    assert np.array_equal((h @ u).astype(np.complex128), x)
    assert (h @ np.ones(10)).dtype == np.result_type(a.dtype, np.float64)
    assert repr(h) == f"<10x10 Hierarchical (block {'4' if block == 4 else '3, 2'}) with dtype={a.dtype}>"


@pytest.mark.parametrize(("local", "carrier"), STRATEGIES)
def test_complex_adjoint(local, carrier, rng):
    # Gaussian integers and halves of them: exact in any order.
    a = rng.choice([0.5j, 1.0, -1j, 0.5 + 0.5j, 0], 13)
    u = rng.integers(-2, 3, (13, 2)) + 1j * rng.integers(-2, 3, (13, 2))
    h = Hierarchical(a, 4, local_solve=local, carrier_solve=carrier)
    dense = literal_matrix(a)
    assert np.array_equal(h @ u, dense @ u)
    assert np.array_equal(h.H @ u, dense.conj().T @ u)
    assert np.array_equal(h.T @ u, dense.T @ u)
    assert np.array_equal(h.conj().to_dense(), dense.conj())
    assert np.array_equal(h.T.conj().to_dense(), dense.conj().T)
    assert np.array_equal(h.H.H.to_dense(), dense)


def test_intervals_enclose_the_exact_states(rng):
    a, u = random_fractions(rng, 20), random_fractions(rng, 20)
    thin = [[mpmath.iv.mpf(value.numerator) / value.denominator for value in values] for values in (a, u)]
    states = Hierarchical(thin[0], (4, 2)) @ np.array(thin[1], dtype=object)
    for interval, value in zip(states, forward(a, u), strict=True):
        assert value.numerator in mpmath.iv.mpf(interval) * value.denominator


def test_arbitrary_precision(rng):
    with mpmath.workdps(50):
        a, u = market.coefficients("decaying", 20, "mpf"), market.inputs(20, "mpf")
        error = abs((Hierarchical(a, 4) @ u) - forward(a, u))
        # Both pass at most 2 d + 4 + 5 roundings, of states below sum |L| |u| < 10.
        assert (error <= 10 * 2 * 60 * mpmath.mpf(2) ** -mpmath.mp.prec).all()


# --- what it does with everything else --------------------------------------------------------------------------------


def test_transpose_is_the_transpose_and_not_the_carrier_operator():
    a = np.full(6, 0.5)
    h = Hierarchical(a, 1)  # b = n: both have the same shape
    assert np.array_equal(h.T.to_dense(), literal_matrix(a).T)
    assert np.array_equal(h.parts.T.to_dense(), literal_matrix(a))


def test_parts_have_their_names_on_parts_alone():
    h = Hierarchical(np.full(6, 0.5), 2)
    for name in "DGZR":
        assert not hasattr(h, name)
        with pytest.raises(
            AttributeError, match=rf"{name} of L = D \+ G Z T R is h\.parts\.{name}; h\.T is the transpose"
        ):
            getattr(h, name)
    with pytest.raises(AttributeError, match="'Hierarchical' object has no attribute 'E'"):
        _ = h.E
    assert np.array_equal(copy.copy(h).to_dense(), h.to_dense())
    assert np.array_equal(pickle.loads(pickle.dumps(h)).to_dense(), h.to_dense())


def test_works_with_other_operators(rng):
    a = rng.choice([0.5, -1.0, 2.0], 9)
    h, L = Hierarchical(a, 2), TransferOperator(a)
    columns = rng.integers(-3, 4, (9, 2)).astype(float)
    assert np.array_equal((h - L) @ columns, np.zeros((9, 2)))
    assert np.array_equal((L.inv() @ h) @ columns, columns)
    D, G, Z, T, R = h.parts
    assert np.array_equal((D + G @ Z @ T @ R) @ columns, L @ columns)


def test_blocks_longer_than_the_sequence_cost_nothing():
    h = Hierarchical(np.full(5, 0.5), (10**15, 10**15))
    assert h.blocks == 1
    assert h.c.shape == (1,)
    assert np.array_equal(h @ np.ones(5), [1, 1.5, 1.75, 1.875, 1.9375])


def test_factors_are_read_only():
    h = Hierarchical(np.full(8, 0.5), 3)
    for factor in (*h.g, *h.r, h.c):
        with pytest.raises(ValueError, match="read-only"):
            factor[0] = 1


@pytest.mark.parametrize("carrier", SOLVERS)
def test_a_nan_stays_behind_in_all_but_the_product(carrier):
    a, u = np.full(12, 0.5), np.ones(12)
    u[6] = np.nan
    before = forward(a, u)[:6]
    for local in ("scan", "sequential"):
        x = Hierarchical(a, 4, local_solve=local, carrier_solve="sequential") @ u
        assert np.array_equal(x[:6], before)
        assert np.isnan(x[6:]).all()
    x = Hierarchical(a, 4, local_solve="gemm", carrier_solve=carrier if carrier != "gemm" else "scan") @ u
    assert np.array_equal(x[:4], before[:4])


@pytest.mark.parametrize(
    ("block", "error", "match"),
    [
        (0, OptionError, "block must be at least 1, got 0"),
        (-3, OptionError, "block must be at least 1, got -3"),
        ((4, 0), OptionError, "block must be at least 1, got 0"),
        ((), OptionError, "got an empty sequence"),
        (2.0, TypeError, "block must be an integer, got 2.0"),
        (float("nan"), TypeError, "block must be an integer, got nan"),
        (True, TypeError, "got the boolean True"),
        ("4", TypeError, "block must be an integer, got '4'"),
        ((4, "2"), TypeError, "block must be an integer, got '2'"),
        (None, TypeError, "block must be an integer, got None"),
    ],
)
def test_bad_blocks_are_named(block, error, match):
    with pytest.raises(error, match=match):
        Hierarchical([0.5, 0.5], block)


def test_other_bad_arguments_are_named():
    with pytest.raises(OptionError, match="local_solve must be one of 'gemm', 'scan', 'sequential', got 'matmul'"):
        Hierarchical([0.5], 1, local_solve="matmul")
    with pytest.raises(OptionError, match=r"carrier_solve must be one of .*, got None"):
        Hierarchical([0.5], 1, carrier_solve=None)
    with pytest.raises(ShapeError, match=r"must be one sequence, got shape \(1, 1\)"):
        Hierarchical([[0.5]], 1)
    h = Hierarchical(np.ones(6), 2)
    for shape in ((5,), (2, 6), (6, 1, 1), ()):
        with pytest.raises(ShapeError, match=r"shape \(6,\) or \(6, m\)"):
            h.carriers(np.ones(shape))
        with pytest.raises((ShapeError, ValueError), match=r"shape|scalar"):
            h @ np.ones(shape)
    for t, s in ((0, 0), (1, 1), (0, 1), (3, 0)):
        with pytest.raises(OptionError, match="0 <= s < t < 3 blocks"):
            h.off_diagonal(t, s)
    with pytest.raises(OptionError, match="s must be at least 0"):
        h.off_diagonal(1, -1)
    with pytest.raises(TypeError, match="t must be an integer"):
        h.off_diagonal(1.0, 0)
