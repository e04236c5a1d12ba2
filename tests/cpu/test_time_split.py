"""A long row on several threads: the same bits as on one, whatever the coefficients do to the state that passes."""

import numpy as np
import pytest

import recfact as rf
from recfact.cpu import limits, time_split
from recfact.cpu.engine import thread_count
from recfact.cpu.limits import SPAN
from recfact.windows import Full, Jagged, Uniform

N = 10 * SPAN + 1000  # 11 spans, enough for 5 threads


def make_coefficients(kind, n, rng):
    match kind:
        case "decaying":  # a product underflows within a tile or two
            return rng.uniform(0, 1, n)
        case "slow":  # after about a span: with some threads before the piece ends, with some not
            return 1 - 3.2e-3 * rng.uniform(0, 1, n)
        case "not decaying":
            return rng.choice([1.0, -1.0], n)
        case "growing":  # products overflow; states don't, if they are zero meanwhile
            return np.where(np.arange(n) % 3000 == 0, 0, 1.3)
        case "reset":
            return np.where(rng.random(n) < 1e-5, 0, 0.99999)
        case "a reset in one span":
            a = np.full(n, 0.999999)
            a[5 * SPAN + 77] = 0
            return a
        case "mixed":  # decays in the second half only
            return np.where(np.arange(n) < n // 2, 1.0, 0.5)
        case "mixed back":
            return np.where(np.arange(n) < n // 2, 0.5, 1.0)


KINDS = ["decaying", "slow", "not decaying", "growing", "reset", "a reset in one span", "mixed", "mixed back"]
DIRECTIONS = [{}, {"x0": 3.0}, {"reverse": True}]


@pytest.fixture
def split_rows(monkeypatch):
    """Whether each row that could be split was, in order."""
    results = []
    solve = time_split.RowOfSpans.solve
    monkeypatch.setattr(
        time_split.RowOfSpans, "solve", lambda row, threads: results.append(solve(row, threads)) or results[-1]
    )
    return results


def solve_on(threads, a, u, **options):
    return [rf.solve(a, u, threads=count, **options).tobytes() for count in threads]


def test_the_tests_cut_rows_where_they_say():
    assert -(-N // SPAN) >= 2 * 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_threads_change_no_bit(kind, direction, dtype, rng, split_rows):
    a = make_coefficients(kind, N, rng).astype(dtype)
    u = rng.standard_normal(N).astype(dtype)
    if kind == "growing":
        u = np.where(np.arange(N) % 3000 == 2999, u, 0)
    assert len(set(solve_on((1, 2, 3, 4, 5), a, u, **direction))) == 1
    assert split_rows[1:] == [kind != "growing"] * 3


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_two_threads_read_no_piece_twice(direction, rng, split_rows):
    u = rng.standard_normal(N)
    for kind in ("decaying", "not decaying"):
        assert len(set(solve_on((1, 2, 3), make_coefficients(kind, N, rng), u, **direction))) == 1
    assert split_rows == [True, True, False, True]
    for coefficient in (0.99, -0.99):  # products of sub-tiles, rounded to nearest, would never become zero
        solve_on((2,), np.full(N, coefficient, np.float32), u.astype(np.float32), **direction)
    assert split_rows[4:] == [True, True]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("place", [0, 1, 3 * SPAN - 1, 3 * SPAN, N // 2, N - 2, N - 1])
def test_nan_and_infinities_change_no_bit_either(place, direction, rng):
    a, u = rng.uniform(0, 1, N).astype(np.float32), rng.standard_normal(N).astype(np.float32)
    for array, value in ((u, np.nan), (u, np.inf), (a, np.inf), (a, 0.0)):
        spoiled = array.copy()
        spoiled[place] = value
        arguments = (a, spoiled) if array is u else (spoiled, u)
        assert len(set(solve_on((1, 2, 3), *arguments, **direction))) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_a_state_that_overflows_where_the_totals_of_spans_do_not(reverse, split_rows):
    a, u = np.ones(N, np.float32), np.zeros(N, np.float32)
    a[8 * SPAN + 100 :][:400] = np.repeat([2, 0.5, 0.5, 2], 100)
    u[[0, -1]] = 2.0**60
    for turn in (1, -1):  # early or late in the order of the steps
        single, *others = solve_on((1, 2, 3, 5), a[::turn].copy(), u, reverse=reverse)
        assert set(others) == {single}
        assert np.isinf(np.frombuffer(single, np.float32)).any()
    assert split_rows == [False] * 6


def test_an_infinite_initial_state_changes_no_bit(rng, split_rows):
    a, u = rng.uniform(0, 1, N).astype(np.float32), rng.standard_normal(N).astype(np.float32)
    for x0 in (np.inf, np.nan):
        assert len(set(solve_on((1, 2, 3), a, u, x0=x0))) == 1
    assert split_rows == [False] * 4


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("rest", [64, 128, 1024, SPAN - 128])
def test_a_last_span_of_whole_tiles_is_written(rest, dtype, direction):
    """Products that don't underflow make every piece but the first wait for its entry, the last span included."""
    n = 6 * SPAN + rest
    a, u = np.full(n, 0.9999, dtype), np.ones(n, dtype)
    expected = rf.solve(a, u, threads=1, **direction)
    out = np.full(n, np.nan, dtype)
    assert rf.solve(a, u, out=out, threads=3, **direction).tobytes() == expected.tobytes()


@pytest.mark.parametrize("window", [Jagged(16), Uniform(32), Jagged(100), Uniform(300)], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_threads_change_no_bit_of_a_window(window, direction, rng):
    for n in (N, (1 << 18) + 3):
        a, u = rng.uniform(-1, 1, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        a[n // 3] = np.inf
        u[n // 2 : n // 2 + 2] = np.nan, np.inf
        assert len(set(solve_on((1, 2, 3, 5), a, u, window=window, **direction))) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_not_finite_before_a_piece_changes_no_bit_of_a_window(reverse, rng, monkeypatch):
    """It may lie before all that a piece depends on, in the tile in which that begins."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    for _ in range(300):
        n, window = int(rng.integers(2000, 4000)), Jagged(int(rng.integers(20, 130)), int(rng.integers(1, 3)))
        a, u = rng.uniform(0.9, 1, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        u[rng.integers(0, n, 3)] = rng.choice([np.nan, np.inf], 3)
        assert len(set(solve_on((1, 2, 3, 4), a, u, window=window, reverse=reverse))) == 1


def test_steps_far_apart_in_memory(rng):
    memory = rng.uniform(-1, 1, (2, 12 * SPAN, 3)).astype(np.float32)
    a, u = memory[0, ::-1, 1], memory[1, :, 2]
    assert len({*solve_on((1, 2, 5), a, u), *solve_on((1, 2), a.copy(), u.copy())}) == 1


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16"])
def test_halves(dtype, rng):
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a, u = rng.uniform(0, 1, N).astype(dtype), rng.standard_normal(N).astype(dtype)
    assert len(set(solve_on((1, 2, 5), a, u))) == 1


def test_in_place_one_thread_works_and_finds_the_same(rng, split_rows):
    a, u = rng.uniform(0, 1, N).astype(np.float32), rng.standard_normal(N).astype(np.float32)
    expected = rf.solve(a, u, threads=2)
    for window in (Full(), Jagged(16), Uniform(32)):
        apart = rf.solve(a, u, threads=2, window=window)
        assert rf.solve(a, u.copy(), threads=2, window=window).tobytes() == apart.tobytes()
        out = u.copy()
        assert rf.solve(a, out, threads=2, window=window, out=out) is out
        assert out.tobytes() == apart.tobytes()
    assert expected.tobytes() == rf.solve(a, u).tobytes()


def test_a_row_too_short_for_the_threads_is_solved_by_one(rng, split_rows):
    a, u = rng.uniform(0, 1, 5 * SPAN), rng.standard_normal(5 * SPAN)
    assert len(set(solve_on((1, 2, 3, 7), a, u))) == 1
    assert split_rows == [True, False, False]


@pytest.mark.parametrize("processors", [1, 2, 3, 64])
@pytest.mark.parametrize("numbers", [0, 1, (1 << 21) - 1, 1 << 21, (1 << 25) - 1, 1 << 25, 1 << 27])
def test_a_second_thread_is_taken_where_it_pays(processors, numbers, monkeypatch):
    """Each has 2^20 numbers at least. Two processors are used from 2^25 numbers on unless the caller asks for both."""
    monkeypatch.setattr(limits, "processors", lambda: processors)
    monkeypatch.setattr(limits, "MOST_THREADS", processors)
    monkeypatch.setattr(limits, "WORTH_THREADS", 1 << 20)
    worth = max(1, min(processors, numbers >> 20))
    assert thread_count(None, numbers) == (1 if processors == 2 and numbers < 1 << 25 else worth)
    for threads in (1, 2, 5, 100):
        assert thread_count(threads, numbers) == min(threads, worth)
