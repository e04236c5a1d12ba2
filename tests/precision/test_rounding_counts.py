"""Counts of roundings, against closed forms and the engine's own code on symbols."""

from math import ceil, floor, log2

import numpy as np
import pytest
from interpreter import Symbols, interpreted

import recfact as rf
from recfact.errors import OptionError
from recfact.precision.counts import ABSENT, cast_counts, factor_counts
from recfact.windows import Full, Jagged, Uniform

LENGTHS = [1, 2, 3, 7, 16, 33, 64]


def tables(algorithm, n, **options):
    """Return the counts, the lags i - j, and rows and columns from 1; what isn't there counts -1000."""
    counts = factor_counts(algorithm, n, **options)
    i, j = np.indices((n, n)) + 1
    np.testing.assert_array_equal(counts == ABSENT, ~kept(n, options.get("window", Full())))
    return np.where(counts == ABSENT, -1000, counts), i - j, i, j


def kept(n, window):
    return np.array([[rf.recurrence.first_kept(i, window) <= j <= i for j in range(n)] for i in range(n)]).reshape(n, n)


@pytest.mark.parametrize("n", LENGTHS)
def test_sequential(n):
    counts, d, _, j = tables("sequential", n)
    np.testing.assert_array_equal(counts[d >= 0], (2 * d + (j > 1))[d >= 0])
    counts, d, _, j = tables("sequential", n, fma=True)
    np.testing.assert_array_equal(counts[d >= 0], (d + (j > 1))[d >= 0])


@pytest.mark.parametrize("n", LENGTHS)
def test_kogge_stone(n):
    counts, d, i, _ = tables("kogge-stone", n)
    stages = np.ceil(np.log2(i)).astype(int)
    assert np.all(counts <= d + stages)
    np.testing.assert_array_equal((counts - d).max(axis=1), stages.max(axis=1))
    counts, d, i, _ = tables("kogge-stone", n, fma=True)
    unset = np.vectorize(lambda d, i: sum(not d >> bit & 1 for bit in range(ceil(log2(i)))))
    low = d >= 0
    assert np.all(counts[low] <= d[low] + unset(d[low], i[low]))
    assert np.any(counts[low] == d[low] + unset(d[low], i[low]))


@pytest.mark.parametrize("n", LENGTHS)
def test_brent_kung(n):
    counts, d, i, _ = tables("brent-kung", n)
    assert np.all(counts <= d + 2 * np.floor(np.log2(i)))
    extra = (counts - d).max(axis=1)
    met = [row for row in range(1, n + 1) if extra[row - 1] == 2 * floor(log2(row))]
    assert met == [row for row in (1, 3, 7, 15, 31, 63) if row <= n]
    counts, d, i, _ = tables("brent-kung", n, fma=True)
    np.testing.assert_array_equal((counts - d).max(axis=1), np.floor(np.log2(i)).max(axis=1))


@pytest.mark.parametrize("block", [2, 3, 4, 16])
@pytest.mark.parametrize("fma", [False, True])
def test_b2p_by_products_and_by_loops(block, fma):
    """Whatever the length: i - j + l, which is one less than the theory's table says without FMA."""
    window, n = Jagged(block), 6 * block + 1
    counts, d, _, _ = tables("materialized", n, window=window, fma=fma)
    assert (counts - d).max() == block
    np.testing.assert_array_equal(*(factor_counts(name, n, window=window) for name in ("b2p", "hierarchical")))
    counts, d, _, _ = tables("b2p", n, window=window, fma=fma)
    assert (counts - d).max() == (2 if fma else block)


@pytest.mark.parametrize("fma", [False, True])
def test_hierarchical_by_products_and_by_loops(fma):
    counts, d, i, j = tables("materialized", 80, fma=fma)
    blocks = (i - 1) // 16 - (j - 1) // 16
    assert (counts - d - (0 if fma else blocks)).max() == 16
    counts, d, i, j = tables("hierarchical", 80, fma=fma)
    assert (counts - d - (0 if fma else blocks)).max() == (2 if fma else 16)


def test_windows_of_the_sequential_algorithm():
    counts, d, i, j = tables("sequential", 9, window=Uniform(3))
    first = np.maximum(i - 2, 1)
    held = kept(9, Uniform(3))
    np.testing.assert_array_equal(counts[held], (2 * d + (j > first))[held])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("window", "n"),
    [
        *((window, 321) for window in (Full(), Uniform(4), Uniform(64), Uniform(100))),
        *((window, 321) for window in (Jagged(16), Jagged(100), Jagged(9, 3))),
        *((window, 700) for window in (Uniform(300), Jagged(300))),
        (Uniform(1000), 1300),
        *((window, 90) for window in (Jagged(9, 12), Jagged(1, 8))),
        (Jagged(1, 999), 1300),
    ],
)
def test_the_engine_stays_within_its_counts(window, n, dtype):
    symbols = Symbols()
    a, u = symbols.coefficients(n, dtype), symbols.inputs(n, dtype)
    with interpreted(symbols, 256):
        states = [symbols.load(number) for number in rf.solve(a, u, window=window)]
    counts = factor_counts("engine", n, window=window, format=dtype)
    most = 0
    for i, state in enumerate(states):
        assert sorted(state.terms) == np.flatnonzero(counts[i] != ABSENT).tolist()
        assert all(count <= counts[i, j] for j, count in state.terms.items())
        most = max(most, *(count - counts[i, j] for j, count in state.terms.items()))
    if isinstance(window, Full):
        assert most == 0


@pytest.mark.parametrize(
    ("casts", "expected"),
    # Steps of the second block of three, for the inputs 0 .. 5.
    [
        ((), [[1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]),
        (("L",), [[2, 1, 1, 1], [2, 1, 1, 1, 1], [2, 1, 1, 2, 1, 1]]),
        (("g",), [[1, 1, 1, 1], [2, 2, 2, 1, 1], [2, 2, 2, 1, 1, 1]]),
        (("v",), [[2, 2, 2, 1], [2, 2, 2, 1, 1], [2, 2, 2, 1, 1, 1]]),
        (("L", "g", "v"), [[3, 2, 2, 1], [4, 3, 3, 1, 1], [4, 3, 3, 2, 1, 1]]),
    ],
    ids=repr,
)
def test_casts_count_where_something_is_stored(casts, expected):
    counts = cast_counts(6, window=Jagged(3), casts=casts)
    assert [row[row != ABSENT].tolist() for row in counts[3:]] == expected


@pytest.mark.parametrize(
    "algorithm", ["sequential", "kogge-stone", "brent-kung", "hierarchical", "materialized", "engine"]
)
def test_shortest(algorithm):
    assert factor_counts(algorithm, 0).shape == (0, 0)
    assert factor_counts(algorithm, 1).shape == (1, 1)


def test_what_it_refuses():
    with pytest.raises(OptionError, match="algorithm must be one of"):
        factor_counts("quicksort", 4)
    with pytest.raises(OptionError, match="window must be one that algorithm"):
        factor_counts("brent-kung", 4, window=Jagged(2))
    with pytest.raises(OptionError, match="window must be jagged"):
        factor_counts("b2p", 4)
    with pytest.raises(OptionError, match="engine computes in"):
        factor_counts("engine", 4, format="float8_e5m2")
    with pytest.raises(OptionError, match="casts must be"):
        cast_counts(4, window=Jagged(2), casts="L")
