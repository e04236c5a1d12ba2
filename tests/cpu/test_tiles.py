"""The tiles and the kernels of rows, proved on symbols: what enters a state, and how often each term of it is rounded.

The engine's own code runs on symbols (`interpreter`). A product of coefficients can only grow by its neighbour, and an
input only enter a state once, so a result is right if it holds the terms of the window: that is a proof for all
numbers, as far as nothing overflows or underflows. The roundings of each term are counted on the way, which proves the
bound that the documentation states and other tests rely on:

    |error of x_i| <= sum_j |L_ij| |u_j| gamma_N(i,j),  gamma_N = N u / (1 - N u),

* N <= i - j + 7 for the whole recurrence in float32, i - j + 6 in float64. A product of m coefficients takes m - 1
  roundings in any order, and the multiply-add that brings it to a state is the m-th. So all coefficients of a term
  together account for i - j, and what comes on top are the sums in which it is the addend: entering its chunk (1),
  the stages of Kogge and Stone that add nothing before it (4; 3 with 8 lanes), joining `local` (1), and forming the
  true state, or the entry of the next span (1). Afterwards only products reach it, however long the sequence is.
* N <= i - j + 1 for jagged windows of short blocks, the plain loop, and i - j + 7 for others, whose states are such
  states of a shorter sequence.
* N <= max(i - j + 2, lags - 1) for uniform windows of few lags. In its own block an input takes the roundings of the
  plain loop and joins what the block before brings (1). If it is e steps before the end of the block before, e - 1
  roundings make its factor, it is added (1) and added to once for each step before it that the state sees no more, and
  the factor of the state's own block and the sum of both take i - j - e: that is lags - 1 for all of them.
* N <= i - j + 8 + ceil(lags / 32) for other uniform windows and for segments. They have two scans: the state of a block
  is one more addend (1) of what the suffix sums of the block before bring, and these are added up sub-tile by sub-tile
  from the block's end, each sum one more addend.
"""

from itertools import pairwise

import numpy as np
import pytest
from interpreter import Floats, State, Symbols, interpreted
from noted import in_turn
from samples import one_in

import recfact as rf
from recfact.cpu.rows import tile_for
from recfact.cpu.runs import Runs
from recfact.recurrence import first_kept
from recfact.windows import Full, Jagged, Uniform

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

SHORT = [Uniform(4), Uniform(8), Uniform(16), Uniform(32), Uniform(64)]
LONG = [Uniform(10), Uniform(100), Uniform(257), Uniform(300)]
JAGGED = [Jagged(4), Jagged(16), Jagged(32), Jagged(64), Jagged(100), Jagged(256), Jagged(9, 3), Jagged(8, 0)]
WINDOWS = [Full(), *SHORT, *LONG, *JAGGED]


def solve_symbols(
    n,
    dtype=DOUBLE,
    window=Full(),
    reverse=False,
    initial=False,
    span=256,
    threads=1,
    in_place=False,
    offsets=None,
):
    """Return the states of n steps in the order of the steps, and of what they are terms."""
    symbols = Symbols()
    a, u = symbols.coefficients(n, dtype, reverse), symbols.inputs(n, dtype, reverse)
    x0 = symbols.initial() if initial else None
    with interpreted(symbols, span):
        options = {"reverse": reverse, "window": window, "offsets": offsets, "out": u if in_place else None}
        x = rf.solve(a, u, x0=x0, threads=threads, **options)
    return [symbols.load(number) for number in x[:: -1 if reverse else 1]]


def kept(i, n, window, reverse, initial):
    """Return the inputs that a window lets into a state, by their steps."""
    if not reverse:
        first = first_kept(i, window)
        return {*range(first, i + 1), *([-1] if initial and first == 0 else [])}
    place = n - 1 - i
    return {n - 1 - j for j in range(place, n) if first_kept(j, window) <= place}


def extra_roundings(states):
    """Return the most that the roundings of a term exceed the steps it passed."""
    return max(count - (state.stop - j) for state in states for j, count in state.terms.items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("window", one_in(2, WINDOWS), ids=str)
@in_turn("direction", ["forward", "initial", "reverse", "in place", "reverse in place"])
def test_states_hold_the_terms_of_the_window_and_no_more(dtype, window, direction):
    reverse, initial = "reverse" in direction, direction == "initial"
    for n in (1, 65, 321):
        states = solve_symbols(n, dtype, window, reverse, initial, in_place="place" in direction)
        assert [state.stop for state in states] == list(range(n))
        assert [set(state.terms) for state in states] == [kept(i, n, window, reverse, initial) for i in range(n)]


SEGMENTS = [[1] * 70, [97, 250, 60], [0, 0, 5, 0, 64, 1, 63, 0], [3, 200, 1, 1, 40, 90], [129, 31, 33], [2, 7] * 20]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(
    "window", [Full(), Jagged(3, 0), Jagged(7, 2), Jagged(16), Jagged(100), *SHORT, *LONG], ids=str
)
@pytest.mark.parametrize("lengths", SEGMENTS, ids=lambda lengths: f"{len(lengths)} of {sum(lengths)}")
@in_turn("direction", ["forward", "reverse", "in place"])
def test_states_hold_the_terms_of_their_span_and_no_more(dtype, window, lengths, direction):
    """And they are rounded no more often than in a sequence of their own."""
    reverse = direction == "reverse"
    extra = 8 + -(-window.lags // 32) if isinstance(window, Uniform) else 7
    n, edges = sum(lengths), np.cumsum([0, *lengths])
    states = solve_symbols(n, dtype, window, reverse, in_place=direction == "in place", offsets=edges)
    assert extra_roundings(states) <= extra
    if reverse:
        edges = n - edges[::-1]
    for start, end in pairwise(edges):
        found = [{step - start for step in state.terms} for state in states[start:end]]
        assert found == [kept(i, end - start, window, reverse, False) for i in range(end - start)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_threads_change_no_rounding_of_segments(window, reverse):
    edges = [0, 3, 300, 301, 500, 640, 1100, 1700]
    alone = solve_symbols(1700, SINGLE, window, reverse, offsets=edges)
    for threads in (2, 3):
        assert solve_symbols(1700, SINGLE, window, reverse, threads=threads, offsets=edges) == alone


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dtype", "extra"), [(SINGLE, 7), (DOUBLE, 6)], ids=str)
@pytest.mark.parametrize("span", [256, 512])
def test_terms_of_the_whole_recurrence_are_rounded_a_constant_more_than_their_steps(dtype, extra, span, reverse):
    assert extra_roundings(solve_symbols(2 * span + 100, dtype, reverse=reverse, span=span)) == extra


def test_an_initial_state_is_rounded_once_a_step():
    states = solve_symbols(700, SINGLE, initial=True)
    assert all(state.terms[-1] <= state.stop + 1 for state in states)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("window", [*SHORT, *LONG, *JAGGED], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_terms_of_windows_are_rounded_as_often_as_stated(dtype, window, reverse):
    runs = isinstance(tile_for(dtype, reverse, window), Runs)
    states = solve_symbols(650, dtype, window, reverse)
    if isinstance(window, Jagged):
        assert extra_roundings(states) <= (1 if runs else 7)
    elif runs:
        assert all(
            count <= max(state.stop - j + 2, window.lags - 1) for state in states for j, count in state.terms.items()
        )
    else:
        assert extra_roundings(states) <= 8 + -(-window.lags // 32)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "initial", "reverse"])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32)], ids=str)
def test_threads_change_no_rounding(window, direction):
    reverse, initial = direction == "reverse", direction == "initial"
    alone = solve_symbols(1700, SINGLE, window, reverse, initial)
    for threads in (2, 3):
        assert solve_symbols(1700, SINGLE, window, reverse, initial, threads=threads) == alone


def test_the_algebra_of_symbols_refuses_what_is_no_term():
    symbols = Symbols()
    a, u = map(symbols.load, symbols.coefficients(4)), [*map(symbols.load, symbols.inputs(4))]
    a = list(a)
    assert symbols.fma(a[1], u[0], u[1]) == State(1, {0: 1, 1: 1})
    for wrong in (
        symbols.fma(a[2], u[0], u[2]),
        symbols.fma(a[1], u[0], u[2]),
        symbols.multiply(a[0], a[2]),
        symbols.fma(symbols.one, u[1], u[1]),
    ):
        for result in (wrong, symbols.load(symbols.store(wrong)), symbols.fma(a[2], wrong, u[2])):
            with pytest.raises(AssertionError):
                result.stop  # noqa: B018


def make_numbers(kind, n, rng):
    match kind:
        case "decaying":
            return rng.uniform(-1, 1, n), rng.standard_normal(n)
        case "growing":  # products overflow where states don't, and some states do
            return rng.uniform(1, 8, n), rng.standard_normal(n) * 2.0 ** -rng.integers(0, 126, n)
        case "special":
            a, u = rng.uniform(-1.2, 1.2, n), rng.standard_normal(n)
            a[rng.integers(0, n, 4)] = [0, -0.0, np.inf, 1e30]
            u[rng.integers(0, n, 2)] = [np.nan, -np.inf]
            return a, u


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@in_turn("reverse", [False, True])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32), Jagged(100, 2), Uniform(300)], ids=str)
@in_turn("kind", ["decaying", "growing", "special"])
def test_compiled_kernels_round_where_their_source_does(kind, window, reverse, dtype, rng):
    """Bit for bit: so what is proved on symbols holds for the machine code, fused multiply-adds and all."""
    a, u = (values.astype(dtype) for values in make_numbers(kind, 333, rng))
    with interpreted(Floats(dtype)):
        expected = rf.solve(a, u, reverse=reverse, window=window)
    np.testing.assert_array_equal(rf.solve(a, u, reverse=reverse, window=window), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@in_turn("direction", ["forward", "from x0", "reverse"])
@pytest.mark.parametrize("window", [Full(), Jagged(7, 2), Uniform(32)], ids=str)
@in_turn("kind", ["decaying", "growing", "special"])
def test_compiled_kernels_of_segments_round_where_their_source_does(kind, window, direction, dtype, rng):
    a, u = (values.astype(dtype) for values in make_numbers(kind, 333, rng))
    options = {"reverse": direction == "reverse", "window": window, "offsets": [0, 5, 5, 80, 81, 200, 264, 333]}
    if direction == "from x0":
        options["x0"] = rng.standard_normal(7).astype(dtype)
    with interpreted(Floats(dtype)):
        expected = rf.solve(a, u, **options)
    np.testing.assert_array_equal(rf.solve(a, u, **options), expected)
