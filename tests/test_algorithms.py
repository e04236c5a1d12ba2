"""The named algorithms against the matrix, in exact arithmetic, and the roundings that numerics tables give them."""

from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from counting import Rounded, rounded_problem
from market import DTYPES, MARKET, as_numbers, coefficients, fractions, inputs, symbols
from noted import in_turn
from oracle import definition

import recfact as rf
from recfact import algorithms
from recfact.errors import OptionError
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

LENGTHS = [0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33]

# Every algorithm with every window that it makes.
MADE = [
    ("sequential", Full()),
    ("sequential", Uniform(3)),
    ("sequential", Jagged(4)),
    ("kogge-stone", Full()),
    ("kogge-stone", Uniform(1)),
    ("kogge-stone", Uniform(4)),
    ("kogge-stone", Uniform(64)),
    ("brent-kung", Full()),
    ("hierarchical", Full()),
    ("hierarchical", Jagged(4, 0)),
    ("hierarchical", Jagged(4)),
    ("hierarchical", Jagged(5, 3)),
    ("hierarchical", Jagged(1, 2)),
    ("hierarchical", Jagged(100)),
    ("hierarchical", Jagged(10**15)),
    ("hierarchical", Jagged(3, 100)),
]


def run(name, a, u, x0=None, window=Full(), reverse=False):
    return rf.solve(a, u, x0=x0, axis=0, window=window, reverse=reverse, algorithm=name)


@pytest.mark.parametrize(("name", "window"), MADE, ids=str)
@in_turn("operator", [name for name in MARKET if name != "complex"], one_in=3)
def test_every_algorithm_is_the_operator_exactly(name, window, operator):
    for n in LENGTHS:
        a, u = fractions(coefficients(operator, n)), fractions(inputs((n, 2)))
        for options in ({}, {"reverse": True}, {"x0": np.array([Fraction(1, 3), Fraction(-2)])}):
            expected = definition(a[:, None], u, window, **options)
            found = run(name, a[:, None], u, window=window, **options)
            assert found.dtype == object
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("name", "window"), MADE, ids=str)
@in_turn("dtype", DTYPES)
def test_every_scalar_keeps_its_type(name, window, dtype):
    a, u = coefficients("constant", 8, dtype), as_numbers(np.ones(8), dtype)
    x = run(name, a, u, window=window)
    assert x.dtype == u.dtype
    assert type(x[4]).__module__ == type(u[4]).__module__
    exact = definition(np.full(8, Fraction(1, 2)), fractions(np.ones(8)), window)
    np.testing.assert_array_equal(x.astype(complex if dtype.startswith("c") else float), exact.astype(float))


@pytest.mark.parametrize("name", ["kogge-stone", "brent-kung", "hierarchical"])
def test_symbols(name):
    a, u = symbols(5), symbols(5, "u")
    found, expected = run(name, a, u), definition(a, u)
    assert [(x - y).expand() for x, y in zip(found, expected, strict=True)] == [0] * 5


@pytest.mark.parametrize(("name", "window"), MADE, ids=str)
def test_inputs_stay_as_they_are(name, window):
    a, u = coefficients("random", 20), inputs(20)
    a_before, u_before = a.copy(), u.copy()
    for options in ({}, {"reverse": True}, {"x0": 2.0}):
        run(name, a, u, window=window, **options)
        np.testing.assert_array_equal(a, a_before)
        np.testing.assert_array_equal(u, u_before)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("kogge-stone", Uniform(3)),
        ("kogge-stone", Jagged(4)),
        ("brent-kung", Uniform(2)),
        ("brent-kung", Jagged(4)),
        ("hierarchical", Uniform(4)),
    ],
)
def test_windows_that_an_algorithm_does_not_make_are_named(name, window):
    for reverse in (False, True):
        with pytest.raises(OptionError) as caught:
            run(name, np.ones(8), np.ones(8), window=window, reverse=reverse)
        assert f"window must be one that algorithm '{name}' makes, got {window};" in str(caught.value)


def bounds(name, d, i):
    """Roundings of the term that passed d steps to row i, counted from 1: products and sums are rounded apart."""
    match name:
        case "sequential":
            return 2 * d + (1 if d < i - 1 else 0)
        case "kogge-stone":
            return d + ceil(log2(i))
        case "brent-kung":
            return d + 2 * int(log2(i))


@pytest.mark.parametrize("name", ["sequential", "kogge-stone", "brent-kung"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 33])
def test_terms_are_rounded_as_often_as_the_theory_says(name, n):
    """The most over the terms of a row meets the bound, but for Brent and Kung's, which stays below it."""
    with np.errstate(all="ignore"):
        x = algorithms.run(name, *rounded_problem(n), window=Full())
    for i, state in enumerate(x, start=1):
        assert isinstance(state, Rounded)
        allowed = {j: bounds(name, i - 1 - j, i) for j in range(i)}
        assert all(state.counts[j] <= allowed[j] for j in range(i))
        if name != "brent-kung":
            assert max(state.counts[j] - allowed[j] for j in range(i)) == 0


@pytest.mark.parametrize(
    "window", [Uniform(1), Uniform(5), Uniform(99), Jagged(4), Jagged(3, 0), Jagged(2, 3)], ids=str
)
@in_turn("dtype", DTYPES)
def test_rows_of_a_window_together_are_the_definition_bit_for_bit(window, dtype):
    for n in (0, 1, 2, 17):
        a, u = coefficients("random", n, dtype), inputs((n,), dtype)
        x = algorithms.sequential(a, u, window)
        np.testing.assert_array_equal(x, windowed(a, u, window))
        assert x.dtype == u.dtype


def test_sixteen_steps_are_the_block_where_no_window_says_another():
    a, u = coefficients("random", 100, "float32"), inputs(100, "float32")
    expected = algorithms.hierarchical(a, u, 16)
    assert run("hierarchical", a, u).tobytes() == expected.tobytes()


@in_turn("n", range(40))
def test_schedules_join_neighbours_until_each_row_has_taken_in_all_before(n):
    for schedule in ([*algorithms.doubling(n)], [*algorithms.up_sweep(n), *algorithms.down_sweep(n)]):
        reach = np.ones(n, int)  # rows that each row has taken in, itself the last of them
        for rows, lag in schedule:
            assert len(rows) > 0
            assert rows[0] >= lag
            assert (reach[rows] == lag).all()
            reach[rows] += reach[np.array(rows) - lag]
        assert list(reach) == list(range(1, n + 1))
