"""Norms and condition numbers of the transfer operator and its inverse, against dense matrices and closed forms."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from market import (
    DTYPES,
    LENGTHS,
    MARKET,
    OBJECTS,
    coefficients,
    fractions,
    literal_matrix,
    symbols,
)
from noted import in_turn, noted

from recfact.errors import GrowthWarning, OptionError
from recfact.factorizations.norms import STURM_SAFE
from recfact.factorizations.transfer import Bidiagonal, TransferOperator

ORDERS = (1, 2, np.inf, "fro")


@in_turn("n", LENGTHS)
@pytest.mark.parametrize("name", [name for name in MARKET if name not in ("complex", "denormal")])
def test_exact_norms(name, n):
    a = coefficients(name, n, "Fraction")
    L, matrix = TransferOperator(a), np.abs(literal_matrix(a))
    inverse = np.abs(L.inv().to_dense())
    for order, axis in ((1, 0), (np.inf, 1)):
        norm = max(matrix.sum(axis=axis), default=0)
        inverse_norm = max(inverse.sum(axis=axis), default=0)
        assert L.norm(order) == norm
        assert L.inv().norm(order) == inverse_norm
        assert L.cond(order) == norm * inverse_norm
        assert L.T.norm(np.inf if order == 1 else 1) == norm
        assert L.T.cond(np.inf if order == 1 else 1) == norm * inverse_norm
    assert L.norm("fro") == math.sqrt((matrix**2).sum())
    assert L.inv().norm("fro") == math.sqrt((inverse**2).sum())


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in OBJECTS])
@in_turn("name", MARKET)
def test_norms_of_floats(name, dtype):
    for n in LENGTHS:
        with noted(n=n):
            a = coefficients(name, n, dtype)
            L = TransferOperator(a)
            matrix = literal_matrix(a.astype(complex))
            inverse = np.eye(n) - np.diag(a.astype(complex)[1:], -1)[:n, :n]
            # NumPy's own norms err by a small multiple of n eps of the largest singular value.
            tolerance = 10 * (n + 1) * np.finfo(float).eps
            for order in ORDERS:
                norm = np.linalg.norm(matrix, order) if n else 0.0
                inverse_norm = np.linalg.norm(inverse, order) if n else 0.0
                for got, expected in (
                    (L.norm(order), norm),
                    (L.inv().norm(order), inverse_norm),
                    (L.cond(order), norm * inverse_norm),
                    (L.T.norm(order), np.linalg.norm(matrix.T, order) if n else 0.0),
                ):
                    assert type(got) is float
                    assert abs(got - expected) <= 4 * tolerance * expected


def test_default_order_is_inf():
    L = TransferOperator([0, 2.0, 3.0])
    assert L.norm() == L.norm(np.inf)
    assert L.cond() == L.cond(np.inf) == L.T.cond(1)


def spectral_tolerance(n):
    """The relative error that `TransferOperator.norm` states for the 2-norm."""
    return (1.5 * n + 6) * np.finfo(float).eps


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 100_000])
def test_spectral_norm_of_ones_in_closed_form(n):
    # L L^T of all ones has eigenvalues 1 / (4 sin^2((2k - 1) pi / (4n + 2))).
    exact = 1 / (2 * mpmath.sin(mpmath.pi / (4 * n + 2)))
    assert abs(TransferOperator(np.ones(n)).norm(2) / exact - 1) <= spectral_tolerance(n)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("growth", [1e3, 1e20, STURM_SAFE / 2, STURM_SAFE * 2, 1e90, 1e150, 1e250, 1e307])
@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.filterwarnings("ignore::recfact.errors.GrowthWarning")
def test_norms_of_growing_operators(growth, steps):
    a = np.concatenate([[0.5, 0.25], np.full(steps, growth ** (1 / steps)), [1e-200, 0.5, 0.0, 2.0]])
    L, exact = TransferOperator(a), literal_matrix(fractions(a))
    with mpmath.workdps(60):
        # In sixty digits, by the power method on L L^T from a positive start.
        matrix = mpmath.matrix([[mpmath.mpf(e.numerator) / e.denominator for e in row] for row in exact])
        vector = mpmath.matrix([1] * len(a))
        for _ in range(200):
            image = matrix * (matrix.T * vector)
            norm = mpmath.norm(image)
            vector = image / norm
        spectral = mpmath.sqrt(mpmath.norm(matrix * (matrix.T * vector)))
        frobenius = mpmath.sqrt(sum(e * e for e in matrix))
        assert abs(L.norm(2) / spectral - 1) <= spectral_tolerance(len(a))
        assert abs(L.norm("fro") / frobenius - 1) <= 20 * len(a) * np.finfo(float).eps
        top = max(a)
        assert top <= L.inv().norm(2) * (1 + 1e-15)
        assert L.inv().norm(2) <= (1 + top) * (1 + 1e-15)
        assert abs(L.inv().norm("fro") / mpmath.sqrt(len(a) + sum(mpmath.mpf(e) ** 2 for e in a[1:])) - 1) <= 1e-14


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e300])
@pytest.mark.filterwarnings("ignore::recfact.errors.GrowthWarning")
def test_norms_that_overflow(value):
    L = TransferOperator([1.0, value, 1e300, 1.0])
    for order in ORDERS:
        assert np.isnan(L.norm(order)) == np.isnan(value)
        assert not np.isfinite(L.norm(order))
    for order in ORDERS:
        assert np.array_equal(np.isfinite(L.inv().norm(order)), np.isfinite(value))


def test_norms_that_overflow_before_a_reset_are_infinite():
    with pytest.warns(GrowthWarning, match="more than float64 holds"):
        L = TransferOperator([1.0, 1e300, 1e300, 0.0, 0.5])
    for order in ORDERS:
        assert L.norm(order) == L.T.norm(order) == np.inf


def test_norms_of_symbols():
    L = TransferOperator(symbols(3))
    _, a2, a3 = (sympy.Abs(symbol) for symbol in symbols(3))
    assert sympy.simplify(L.norm("fro") ** 2 - (3 + a2**2 + a3**2 + a2**2 * a3**2)) == 0
    for values in ((2, 3), (Fraction(1, 2), 5), (-7, 0)):
        numbers = dict(zip(symbols(3)[1:], values, strict=True))
        numeric = TransferOperator(np.array([0, *values], dtype=object))
        for order in (1, np.inf):
            assert L.norm(order).subs(numbers) == numeric.norm(order)
            assert L.cond(order).subs(numbers) == numeric.cond(order)
    with pytest.raises(OptionError, match="convert to float"):
        L.norm(2)


def test_norms_of_intervals_enclose_those_of_their_members(rng):
    low = rng.uniform(-1, 1, 9)
    high = low + rng.uniform(0, 0.5, 9)
    L = TransferOperator([mpmath.iv.mpf([b, c]) for b, c in zip(low, high, strict=True)])
    for part in (0.0, 0.3, 1.0):
        member = TransferOperator(fractions(low + part * (high - low)))
        for order in (1, np.inf, "fro"):
            enclosure = L.norm(order)
            bottom, top = (Fraction(float(mpmath.mpf(end))) for end in (enclosure.a, enclosure.b))
            if order == "fro":
                assert bottom**2 <= np.sum(member.to_dense() ** 2) <= top**2
            else:
                assert bottom <= member.norm(order) <= top


def test_norms_of_mpf_keep_their_precision():
    with mpmath.workdps(50):
        L = TransferOperator([mpmath.mpf(1) / 3] * 40)
        exact = TransferOperator([Fraction(1, 3)] * 40)
        error = abs(L.norm(1) - mpmath.mpf(exact.norm(1).numerator) / exact.norm(1).denominator)
        assert error <= 120 * mpmath.mpf(2) ** -168


@pytest.mark.parametrize("order", [0, 3, -1, -np.inf, "nuc", "1", None, [1], np.nan])
def test_unknown_norms(order):
    for ask in (TransferOperator([1, 2]).norm, TransferOperator([1, 2]).T.norm, Bidiagonal([1, 2]).norm):
        with pytest.raises(OptionError, match=r'must be 1, 2, numpy.inf or "fro"'):
            ask(order)
