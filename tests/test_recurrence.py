"""The plain loops, which everything else is held to, against the matrix that products of coefficients make."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from market import MARKET, as_numbers, coefficients, fractions, inputs, literal_matrix, symbols
from noted import in_turn
from oracle import definition

from recfact.recurrence import backward, first_kept, first_kept_rows, forward, windowed
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [
    Full(),
    Uniform(1),
    Uniform(2),
    Uniform(5),
    Uniform(40),
    Jagged(1),
    Jagged(4),
    Jagged(5, 0),
    Jagged(3, 2),
    Jagged(2, 7),
    Jagged(40),
]


def matrix(a, window=Full()):
    """The kept part of the transfer operator, one product an entry, by the words of the windows' docstrings."""
    whole = literal_matrix(a)
    for i, j in np.ndindex(whole.shape):
        match window:
            case Uniform(lags):
                kept = i - j < lags
            case Jagged(block, terms):
                kept = i // block - j // block <= terms
            case Full():
                kept = True
        if not kept:
            whole[i, j] = 0 * whole[i, j]
    return whole


def exact_problem(name, n):
    return fractions(coefficients(name, n)), fractions(inputs(n))


@pytest.mark.parametrize("name", [name for name in MARKET if name != "complex"])
@in_turn("n", [0, 1, 2, 7, 13])
def test_loops_are_the_matrix_of_products(name, n):
    a, u = exact_problem(name, n)
    np.testing.assert_array_equal(forward(a, u), matrix(a) @ u)
    np.testing.assert_array_equal(backward(a, u), matrix(a).T @ u)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("n", [0, 1, 6, 13])
def test_windowed_loops_are_the_kept_entries(window, n):
    a, u = exact_problem("random", n)
    np.testing.assert_array_equal(windowed(a, u, window), matrix(a, window) @ u)
    np.testing.assert_array_equal(windowed(a, u, window, reverse=True), matrix(a, window).T @ u)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_an_initial_state_is_part_of_the_first_input(window):
    a, u = exact_problem("random", 9)
    folded = u.copy()
    folded[0] += a[0] * Fraction(3, 7)
    for x0 in (Fraction(3, 7), np.array(Fraction(3, 7))):
        np.testing.assert_array_equal(windowed(a, u, window, x0), matrix(a, window) @ folded)
        np.testing.assert_array_equal(forward(a, u, x0), matrix(a) @ folded)
    np.testing.assert_array_equal(windowed(a, u, window, Fraction(0)), windowed(a, u, window))


def test_an_empty_sequence_ignores_the_initial_state():
    assert forward(np.zeros(0), np.zeros(0), 1.0).shape == windowed(np.zeros(0), np.zeros(0), Uniform(2), 1.0).shape


@pytest.mark.parametrize("run", [forward, backward, *[lambda a, u, w=w: windowed(a, u, w) for w in WINDOWS]])
def test_the_first_coefficient_is_not_read(run):
    class Forbidden:
        def __mul__(self, other):
            raise AssertionError("read")

    a, u = exact_problem("random", 9)
    a[0] = Forbidden()
    run(a, u)


def test_symbols():
    a, u = symbols(4), symbols(4, "u")
    assert [(left - right).expand() for left, right in zip(forward(a, u), matrix(a) @ u, strict=True)] == [0] * 4


@pytest.mark.parametrize("dtype", ["float32", "complex128", "bfloat16", "mpf"])
def test_every_scalar_keeps_its_type(dtype):
    a, u = coefficients("random", 5, dtype), inputs(5, dtype)
    for x in (forward(a, u), backward(a, u), windowed(a, u, Uniform(2))):
        assert x.dtype == u.dtype
        assert type(x[3]) is type(u[3])


def test_channels_are_solved_apart_and_coefficients_shared():
    a, u = coefficients("random", 6)[:, None], inputs((6, 3))
    for run in (forward, backward, lambda a, u: windowed(a, u, Jagged(2))):
        apart = [run(a[:, 0], u[:, channel]) for channel in range(3)]
        np.testing.assert_array_equal(run(a, u), np.stack(apart, axis=1))


@given(st.integers(0, 60), st.sampled_from(WINDOWS))
def test_windows_grow_with_the_rows(i, window):
    """What enters once may leave later, but nothing that left comes back: reversed windows rely on it."""
    assert first_kept(i, window) <= first_kept(i + 1, window)
    assert 0 <= first_kept(i, window) <= i


def is_kept(i, j, window):
    """Return whether x[i] has a term of u[j], by the definition of each window."""
    match window:
        case Full():
            return j <= i
        case Uniform(lags):
            return 0 <= i - j < lags
        case Jagged(block, terms):
            return j <= i and i // block - j // block <= terms


@given(st.integers(0, 60), st.sampled_from([*WINDOWS, Uniform(1 << 80), Jagged(1 << 80), Jagged(4, 1 << 80)]))
def test_the_first_row_kept_is_that_of_the_definition(i, window):
    assert first_kept(i, window) == min(j for j in range(i + 1) if is_kept(i, j, window))


@given(st.integers(0, 60), st.sampled_from([*WINDOWS, Uniform(1 << 80), Jagged(1 << 80), Jagged(4, 1 << 80)]))
def test_the_first_rows_kept_are_the_same_one_by_one_and_together(n, window):
    assert first_kept_rows(n, window).tolist() == [first_kept(i, window) for i in range(n)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_the_oracle_of_other_tests_is_this_loop_bit_for_bit(window, dtype):
    for n in (0, 1, 2, 33):
        a, u = coefficients("random", n, dtype)[:, None], inputs((n, 3), dtype)
        x0 = as_numbers(np.array(0.7), dtype)
        for arguments in ((None, False), (x0, False), (None, True)):
            np.testing.assert_array_equal(definition(a, u, window, *arguments), windowed(a, u, window, *arguments))
