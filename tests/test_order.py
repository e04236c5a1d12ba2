"""Scalars that don't commute: every algorithm and every operator multiplies in the order of the definition.

L[i, j] = a[i] a[i-1] ... a[j+1], applied to inputs from the left. A transpose has the same products at [j, i] and
applies them from the right.
"""

from functools import reduce
from itertools import combinations_with_replacement, pairwise, product
from operator import mul

import numpy as np
import pytest
import sympy
from market import literal_matrix
from matrices import Matrix, matrices
from noted import in_turn
from samples import one_in

import recfact as rf
from recfact.algorithms import NAMES
from recfact.factorizations import truncate
from recfact.factorizations.operator import Operator
from recfact.factorizations.operator_algebra import Conjugate, Wrapped
from recfact.recurrence import backward, first_kept, forward, windowed
from recfact.windows import Full, Jagged, Uniform

SOLVERS = ("gemm", "scan", "sequential")
WINDOWS = [
    Full(), Uniform(1), Uniform(2), Uniform(3), Uniform(4), Uniform(8), Uniform(99),
    *(Jagged(block, terms) for block in (1, 2, 3, 4, 5, 99) for terms in (0, 1, 2, 3, 99)),
]  # fmt: skip
BLOCKS = [1, 2, 3, 4, 5, 99, (2, 2), (1, 3), (3, 2, 2), (1, 2, 2)]
PAIRS = [*product(SOLVERS, SOLVERS)]

# The default run has operators of each kind, the slow tests those of all windows and blocks.
SOME = ([Full(), Uniform(3), Jagged(2, 0), Jagged(3)], [1, 3, (2, 2)], PAIRS[::4])
ALL = (WINDOWS, BLOCKS, PAIRS)
RUNS = [pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]


def symbols(n, letter="a"):
    return np.array(sympy.symbols(f"{letter}:{n}", commutative=False, seq=True), dtype=object)


def kept(a, window):
    """Return the matrix of what a window keeps, by its definition."""
    matrix = literal_matrix(a)
    for i, j in np.ndindex(matrix.shape):
        if j < first_kept(i, window):
            matrix[i, j] = 0
    return matrix


def times(matrix, columns):
    """Return matrix @ columns for columns of shape (n,) or (n, m), entries on the left."""
    rows = [sum((row[j] * columns[j] for j in range(len(row))), 0 * columns[0]) for row in matrix]
    return np.array(rows, dtype=object)


def transposed_times(matrix, columns):
    """Return the product of the transpose with columns: entries on the right, (x^T M)^T."""
    sums = [
        sum((columns[i] * matrix[i, j] for i in range(len(matrix))), 0 * columns[0]) for j in range(matrix.shape[1])
    ]
    return np.array(sums, dtype=object)


def same(found, expected):
    """Say whether arrays of matrices, or of symbols once expanded, are equal."""
    found, expected = np.asarray(found, dtype=object), np.asarray(expected, dtype=object)
    assert found.shape == expected.shape
    return all(
        x == y or (isinstance(x, sympy.Basic) and sympy.expand(x - y) == 0)
        for x, y in zip(found.flat, expected.flat, strict=True)
    )


def test_the_scalars_do_not_commute():
    a = matrices(40)
    assert sum(x * y != y * x for x, y in pairwise(a)) > 30
    assert Matrix(1, 2, 3, 4) * Matrix(0, 1, 1, 0) == Matrix(2, 1, 4, 3)


# --- solving ----------------------------------------------------------------------------------------------------------


def makes(algorithm, window):
    match algorithm, window:
        case ("auto" | "sequential", _) | (_, Full()):
            return True
        case "kogge-stone", Uniform(lags):
            return lags & (lags - 1) == 0
    return algorithm == "hierarchical" and isinstance(window, Jagged)


MADE = [(name, window) for name, window in product(("auto", *NAMES), WINDOWS) if makes(name, window)]


@pytest.mark.parametrize(
    "lengths", [(1, 2, 3, 5, 9, 17), pytest.param((4, 6, 7, 12, 33, 34), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize(("algorithm", "window"), MADE, ids=str)
def test_every_algorithm_and_window(algorithm, window, lengths):
    for n in lengths:
        a, u, x0 = matrices(n, 1), matrices((n, 2), 2), matrices(2, 3)
        matrix, started = kept(a, window), u.copy()
        started[0] = a[0] * x0 + u[0]
        options = {"axis": 0, "window": window, "algorithm": algorithm}
        assert same(rf.solve(a[:, None], u, **options), times(matrix, u))
        assert same(rf.solve(a[:, None], u, x0=x0, **options), times(matrix, started))
        assert same(rf.solve(a[:, None], u, reverse=True, **options), transposed_times(matrix, u))
        # One sequence is not an array of channels: its scalars meet without NumPy.
        assert same(rf.solve(a, u[:, 0], **options), times(matrix, u[:, 0]))
        assert same(rf.solve(a, u[:, 0], reverse=True, **options), transposed_times(matrix, u[:, 0]))


@pytest.mark.parametrize("algorithm", ["auto", "kogge-stone", "brent-kung", "hierarchical"])
def test_every_algorithm_in_symbols(algorithm):
    n = 20 if algorithm == "hierarchical" else 7
    a, u = symbols(n), symbols(n, "u")
    matrix = literal_matrix(a)
    assert same(rf.solve(a, u, algorithm=algorithm), times(matrix, u))
    assert same(rf.solve(a, u, algorithm=algorithm, reverse=True), transposed_times(matrix, u))


@in_turn("window", WINDOWS)
def test_the_loops_are_the_definition(window):
    a, u, x0 = matrices(9, 1), matrices(9, 2), matrices(1, 3)[0]
    matrix, started = kept(a, window), u.copy()
    started[0] = a[0] * x0 + u[0]
    assert same(windowed(a, u, window), times(matrix, u))
    assert same(windowed(a, u, window, x0), times(matrix, started))
    assert same(windowed(a, u, window, reverse=True), transposed_times(matrix, u))
    if window == Full():
        assert same(forward(a, u, x0), times(matrix, started))
        assert same(backward(a, u), transposed_times(matrix, u))


@in_turn("window", WINDOWS)
def test_pieces_of_a_sequence(window):
    n = 9
    a, u, x0 = matrices(n, 1), matrices(n, 2), matrices(1, 3)[0]
    expected = rf.solve(a, u, x0=x0, window=window)
    for cuts in combinations_with_replacement(range(n + 1), 2):
        pieces = zip(np.split(a, cuts), np.split(u, cuts), strict=True)
        assert same(np.concatenate(list(rf.solve_chunks(pieces, x0=x0, window=window))), expected)


# --- operators --------------------------------------------------------------------------------------------------------


def operators(a, windows, blocks, pairs):
    """Yield every operator over the scalars of `a`, with the matrix that it stands for by definition."""
    n, L = len(a), literal_matrix(a)
    eye = np.eye(n, dtype=int).astype(object)
    step = np.diag(a[1:], -1) if n > 1 else 0 * eye  # AZ
    powers = [eye]
    for _ in range(n):
        powers.append(times(step, powers[-1]))
    transfer = rf.TransferOperator(a)
    yield transfer, L
    yield transfer.inv(), eye - step
    yield transfer.inv().inv(), L
    for k in range(n + 2):
        yield transfer.power(k), powers[min(k, n)]
        yield transfer.neumann(k), sum(powers[:k], 0 * eye)
    for chain in (rf.KoggeStone(a), rf.BrentKung(a)):
        yield chain, L
        for factor in chain.factors:
            matrix = eye.copy()
            for row, column, value in zip(factor.rows, factor.columns, factor.values, strict=True):
                matrix[row, column] = value
                assert same([value], [L[row, column]]) or column == row - factor.lag
            yield factor, matrix
    for window in windows:
        truncated = truncate(a, window)
        matrix, relative = kept(a, window), 0 * eye
        for i in range(n):
            if (first := first_kept(i, window)) > 0:
                relative[i, first - 1] = reduce(mul, a[first : i + 1][::-1])
        yield truncated, matrix
        yield truncated.error_operator(), L - matrix
        yield truncated.relative_error_operator(), relative
    for block, (local, carrier) in product(blocks, pairs):
        h = rf.Hierarchical(a, block, local_solve=local, carrier_solve=carrier)
        yield h, L
        yield from parts_of(h, L)
    yield (transfer @ transfer.inv() @ transfer), L
    yield transfer.inv() + transfer, eye - step + L
    yield transfer.inv() ** 2, times(eye - step, eye - step)
    yield 3 * transfer, 3 * L
    yield Conjugate(Conjugate(transfer)), L


def parts_of(h, L):
    """Yield the parts of a hierarchical decomposition, from the blocks of L itself."""
    n, length = len(h.a), min(h.block[0], max(len(h.a), 1))
    starts, b = range(0, n, length), h.blocks
    D, G, R = 0 * L, np.zeros((n, b), dtype=object), np.zeros((b, n), dtype=object)
    c = np.array([reduce(mul, h.a[start : start + length][::-1]) for start in starts], dtype=object)
    for t, start in enumerate(starts):
        block = slice(start, min(start + length, n))
        D[block, block] = L[block, block]
        R[t, block] = L[block, block][-1]
        G[block, t] = [reduce(mul, h.a[start : row + 1][::-1]) for row in range(block.start, block.stop)]
    yield from zip(h.parts, (D, G, np.eye(b, k=-1, dtype=int), literal_matrix(c), R), strict=True)
    for t in range(b):
        for s in range(t):
            rows, columns = (slice(length * k, min(length * (k + 1), n)) for k in (t, s))
            yield h.off_diagonal(t, s), L[rows, columns]


def check(operator, matrix, x):
    """Hold an operator to its matrix: entries, products from both sides, and the same of its transpose."""
    rows, columns = x[: matrix.shape[0]], x[: matrix.shape[1]]
    assert same(operator.to_dense(), matrix)
    assert same(operator.T.to_dense(), matrix.T)
    assert same(operator.T.T.to_dense(), matrix)
    assert same(operator @ columns, times(matrix, columns))
    assert same(operator @ columns[:, 0], times(matrix, columns[:, 0]))
    assert same(operator.T @ rows, transposed_times(matrix, rows))
    assert same(operator.T @ rows[:, 0], transposed_times(matrix, rows[:, 0]))
    assert same(operator.T.T @ columns, times(matrix, columns))
    assert same(rows.T @ operator, transposed_times(matrix, rows).T)


@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize("n", one_in(2, [1, 2, 3, 4, 5, 7, 8, 11]))
def test_every_operator(n, which):
    x = matrices((n, 2), 5)
    for operator, matrix in operators(matrices(n), *which):
        check(operator, matrix, x)


@pytest.mark.parametrize("which", RUNS)
def test_every_operator_in_symbols(which):
    x = symbols(10, "x").reshape(5, 2)
    for operator, matrix in operators(symbols(5), *which):
        if not isinstance(operator, Conjugate):  # conjugates of symbols are left as they are written
            check(operator, matrix, x)


@pytest.mark.parametrize("which", RUNS)
def test_multiples_stand_where_they_are_written(which):
    n, q = 4 if which is SOME else 5, sympy.Symbol("q", commutative=False)
    x = symbols(2 * n, "x").reshape(n, 2)
    for operator, matrix in operators(symbols(n), *which):
        if isinstance(operator, Conjugate):
            continue
        left = np.array([[q * entry for entry in row] for row in matrix], dtype=object).reshape(matrix.shape)
        for multiple, expected in (
            (q * operator, left),
            (operator * q, matrix * q),
            (operator / q, matrix * q**-1),
            (3 * (q * operator) / q, 3 * left * q**-1),
            (-(operator * q) / 2, -matrix * q / 2),
        ):
            check(multiple, expected, x)


def test_multiples_of_products_and_transposes():
    a, q = symbols(3), sympy.Symbol("q", commutative=False)
    L, matrix = rf.TransferOperator(a), literal_matrix(a)
    x = symbols(3, "x")
    assert same(L @ (q * L) @ x, times(matrix, times(q * matrix, x)))
    assert same((L * q) @ L @ x, times(matrix * q, times(matrix, x)))
    assert same((q * L + L * q) @ x, times(q * matrix, x) + times(matrix * q, x))
    assert same((q * L) ** 2 @ x, times(q * matrix, times(q * matrix, x)))


def test_no_class_of_operators_is_left_out():
    def below(kind):
        return {kind, *(other for direct in kind.__subclasses__() for other in below(direct))}

    held = {kind for operator, _ in operators(matrices(6), *SOME) for kind in (type(operator), type(operator.T))}
    here = {kind for kind in below(Operator) if kind.__module__.startswith("recfact.")}
    abstract = {
        kind for kind in here if any(getattr(method, "__isabstractmethod__", False) for method in vars(kind).values())
    }
    assert here - abstract - held == {Wrapped}  # another library's operator, in floats


# --- what else multiplies coefficients --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cumprod", "ratio", "reciprocal"])
def test_dense_blocks(method):
    a = np.array([symbols(4, "a"), symbols(4, "b")])
    for found, coefficients in zip(rf.materialize(a, method), a, strict=True):
        assert same(found, literal_matrix(coefficients))
    if method == "cumprod":  # the others divide
        assert same(rf.materialize(matrices(7)), literal_matrix(matrices(7)))


def test_single_entries():
    a = matrices(6)
    transfer, matrix = rf.TransferOperator(a), literal_matrix(a)
    for i, j in np.ndindex(6, 6):
        assert same([transfer[i, j], transfer.T[j, i]], [matrix[i, j]] * 2)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 99, (2, 2)])
def test_vectors_and_carriers_of_blocks(block):
    a, u, n = matrices(7, 1), matrices((7, 2), 2), 7
    h, L, x = rf.Hierarchical(a, block), literal_matrix(a), forward(a[:, None], u)
    first = h.block[0]
    ends = [min(start + first, n) - 1 for start in range(0, n, first)]
    assert same(h.carriers(u), x[ends])
    for t, end in enumerate(ends):
        start = first * t
        assert same(h.g[t], [reduce(mul, a[start : row + 1][::-1]) for row in range(start, end + 1)])
        assert same(h.r[t], L[end, start : end + 1])
        assert same([h.c[t]], [reduce(mul, a[start : end + 1][::-1])])


@in_turn("window", WINDOWS)
def test_errors_with_an_initial_state(window):
    a, u, x0 = matrices(7, 1), matrices(7, 2), matrices(1, 3)[0]
    if window != Full():
        lost = rf.solve(a, u, x0=x0) - rf.solve(a, u, x0=x0, window=window)
        assert same(truncate(a, window).error(u, x0=x0), lost)


def test_norms_of_scalars_whose_absolute_values_multiply():
    a = matrices(7)
    transfer, moduli = rf.TransferOperator(a), np.abs(literal_matrix(a))
    assert transfer.norm(np.inf) == transfer.T.norm(1) == moduli.sum(axis=1).max()
    assert transfer.norm(1) == transfer.T.norm(np.inf) == moduli.sum(axis=0).max()
    assert transfer.norm("fro") ** 2 == pytest.approx((moduli**2).sum())
    for window in WINDOWS[1:]:
        lost = np.abs(literal_matrix(a) - kept(a, window))
        assert truncate(a, window).error_norm(np.inf) == lost.sum(axis=1).max()
        assert truncate(a, window).error_norm(1) == lost.sum(axis=0).max()
