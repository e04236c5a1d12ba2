"""Operators times, over and plus each other, in every scalar and shape, against dense matrices of the same scalars."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy

from recfact.factorizations.brent_kung import BrentKung
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.kogge_stone import KoggeStone
from recfact.factorizations.materialize import materialize
from recfact.factorizations.transfer import TransferOperator
from recfact.windows import Jagged, Uniform
from tests.market import literal_matrix

S = sympy.Symbol("s")
COEFFICIENTS = {
    "Fraction": [Fraction(1, 2), Fraction(-2, 3), Fraction(5, 7), Fraction(0)],
    "sympy": [S, sympy.Rational(1, 3), S + 1, sympy.sqrt(2)],
    "mpf": [mpmath.mpf("0.1"), mpmath.mpf(3), mpmath.mpf("-0.7"), mpmath.mpf("0.3")],
    "mpi": [mpmath.iv.mpf(["0.1", "0.2"]), mpmath.iv.mpf(3), mpmath.iv.mpf("0.7"), mpmath.iv.mpf(-1)],
    "mpc": [mpmath.mpc(1, 2), mpmath.mpc(0.1, -1), mpmath.mpc(3), mpmath.mpc(0, 0.3)],
    "huge": [10**30, Fraction(10**400), -(10**400), 7],
    "mixed": [2, Fraction(1, 3), 5, Fraction(1, 7)],
}
ONE = {name: sympy.Integer(1) if name == "sympy" else values[0] ** 0 for name, values in COEFFICIENTS.items()}
ONE |= {"huge": Fraction(1), "mixed": Fraction(1)}
FACTORS = {name: [3, -7, np.int64(3), 2**70, values[0], values[1]] for name, values in COEFFICIENTS.items()}
MAKE = {
    "transfer": TransferOperator,
    "inverse": lambda a: TransferOperator(a).inv(),
    "Kogge-Stone": KoggeStone,
    "Brent-Kung": BrentKung,
    "blocks": lambda a: Hierarchical(a, 2),
    "band": lambda a: TransferOperator(a).truncate(Uniform(2)),
    "jagged": lambda a: TransferOperator(a).truncate(Jagged(1)),
}


def array(values):
    return np.array([*values, None], dtype=object)[:-1]


def typed(matrix, one):
    """Return a matrix of objects with every entry in the type of the scalars."""
    return np.array([*(entry * one for entry in matrix.flat), None], dtype=object)[:-1].reshape(matrix.shape)


def same(got, expected):
    """Say whether two scalars are equal, and neither is a float that the other isn't."""
    if isinstance(got, float) or hasattr(got, "dtype"):
        return False
    if isinstance(expected, sympy.Basic):
        return sympy.simplify(got - expected) == 0
    if hasattr(expected, "_mpi_"):
        if isinstance(got, Fraction):  # of a transposed chain without factors, which shows no interval
            return mpmath.iv.mpf(got.numerator) / got.denominator in expected
        return mpmath.iv.mpf(got)._mpi_ == expected._mpi_
    return got == expected


def assert_same(got, expected):
    assert got.shape == expected.shape
    for place, entry in np.ndenumerate(expected):
        assert same(got[place], entry), (place, got[place], entry)


def cases(kind, n):
    a = array(COEFFICIENTS[kind][:n][::-1])
    for name, make in MAKE.items():
        if n == 0 and name == "blocks":
            continue
        operator = make(a)
        eye = typed(np.eye(n, dtype=int).astype(object), ONE[kind])
        # Transposes add and multiply in an order of their own, which floats show.
        yield operator, *(typed(made @ eye, ONE[kind]) for made in (operator, operator.T))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("kind", COEFFICIENTS)
def test_multiples_and_quotients(kind, n):
    one, x = ONE[kind], np.arange(1, n + 1)
    for operator, dense, transposed in cases(kind, n):
        for scalar in FACTORS[kind]:
            exact = int(scalar) if isinstance(scalar, np.integer) else scalar
            for do, expected in (
                (lambda L, s: L * s, lambda m, s: m * s),
                (lambda L, s: L / s, lambda m, s: m / (s * one)),
                (lambda L, s: -L, lambda m, s: -m),
                (lambda L, s: L / s / s, lambda m, s: m / (s * one) / (s * one)),
                (lambda L, s: -(L / s) * 2, lambda m, s: -(m / (s * one)) * 2),
            ):
                assert_same(do(operator, scalar).to_dense(), expected(dense, exact))
                assert_same(do(operator, scalar).T.to_dense(), expected(transposed, exact))
            if not hasattr(scalar, "_mpi_"):  # an interval of mpmath's leaves no product to what it doesn't know
                assert_same((scalar * operator).to_dense(), exact * dense)
            if kind not in ("mpf", "mpi", "mpc"):  # whose sums in another order are other numbers
                assert_same((operator / scalar) @ x, typed(dense / (exact * one) @ x, one))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", range(5))
@pytest.mark.parametrize("kind", ["Fraction", "sympy", "huge", "mixed"])
def test_sums_products_and_powers(kind, n):
    one, third = ONE[kind], ONE[kind] / 3
    for operator, dense, _ in cases(kind, n):
        L = TransferOperator(array(COEFFICIENTS[kind][:n]))
        other, eye = typed(literal_matrix(L.a), one), typed(np.eye(n, dtype=int).astype(object), one)
        for got, expected in (
            (operator + L / 3, dense + other * third),
            (operator / 3 - L, dense * third - other),
            ((operator + L) / 3, (dense + other) * third),
            (operator @ L / 3, dense @ other * third),
            ((operator / 3) @ L, dense @ other * third),
            ((operator / 3) ** 2, dense @ dense * third * third),
            ((operator**2) / 3, dense @ dense * third),
            ((operator**0) / 3, eye * third),
            (operator.T / 3, dense.T * third),
            ((operator / 3).T @ L.T, dense.T @ other.T * third),
            (sum([operator / 3, L / 3]), (dense + other) * third),
        ):
            assert_same(got.to_dense(), typed(expected, one))


def test_entries_of_one_step_are_of_the_type_of_its_coefficient():
    for kind, values in COEFFICIENTS.items():
        for make in (MAKE["transfer"], MAKE["inverse"], MAKE["Kogge-Stone"], MAKE["Brent-Kung"]):
            operator = make(array(values[1:2]))
            for made in (operator, operator / 3, -operator, operator + operator, operator @ operator):
                assert isinstance(made.to_dense()[0, 0], type(ONE[kind]) if kind != "sympy" else sympy.Basic)


@pytest.mark.parametrize("method", ["ratio", "reciprocal"])
@pytest.mark.parametrize("a", [[3, 10**400, -7], [2, Fraction(1, 3), 5], [7], [Fraction(1, 7)]], ids=repr)
def test_quotients_of_prefix_products_stay_exact(a, method):
    assert_same(materialize(array(a), method=method), literal_matrix(array(a)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the overflow that must not be
def test_integers_of_numpy_do_not_overflow_among_fractions():
    L, far = TransferOperator(array([Fraction(1, 2)] * 3)), np.int64(2**40)
    for got, factor in (((L / far) ** 3, Fraction(1, 2**120)), ((L * far) ** 3, 2**120), (L * far * far, 2**80)):
        assert_same(got.to_dense(), factor * (L**3 if factor != 2**80 else L).to_dense())
