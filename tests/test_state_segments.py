"""A `State` of segments: what each of them would have of a call of its own, row by row."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import data_array
from test_continuation import WIDER, rounding_bound
from test_state import SOME, assert_same, rational

import recfact as rf
from recfact import continuation
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [*SOME, Jagged(4, 2), Uniform(2), Jagged(2**70), Jagged(1, 0)]
LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def offsets_of(lengths):
    return np.cumsum([0, *lengths])


def alone(a, u, offsets, window, axis, **starts):
    """Return the states and the States of calls for each segment, from rows of `starts` along an axis."""
    found = []
    for row, (start, end) in enumerate(pairwise(offsets)):
        at = (slice(None),) * axis
        own = {name: value[(*at, row)] for name, value in starts.items()}
        part = (*at, slice(start, end))
        found.append(rf.solve(np.array(a[part]), np.array(u[part]), axis=axis, window=window, return_state=True, **own))
    return found


def assert_rows(state, axis, singles):
    """Assert that rows along an axis of a State are other States."""
    assert state.shape[axis] == len(singles)
    for row, single in enumerate(singles):
        assert_same(state[(*(slice(None),) * axis, row)], single)


def test_an_empty_segment_from_nothing_takes_no_state_from_the_next():
    a, u = rational(2, 3, seed=3)
    states = [rf.solve(a[:n], u[:n], return_state=True)[1] for n in (0, 0, 1)]
    x = rf.solve(a, u, offsets=[0, 1, 1, 3], state=rf.State.stack(states))
    np.testing.assert_array_equal(x[1:], rf.solve(a[1:], u[1:], state=states[2]))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), window=st.sampled_from(WINDOWS))
def test_states_and_ends_are_those_of_calls_of_their_own(data, window):
    """In exact arithmetic, from nothing, from initial states, and from States that came from segments before."""
    lengths, way = data.draw(LENGTHS), data.draw(st.sampled_from(["zero", "x0", "state", "ragged"]))
    channels, axis = data.draw(st.sampled_from([(), (2,), (2, 2)])), 0
    axis = data.draw(st.integers(0, len(channels)))
    offsets = offsets_of(lengths)
    n, rows = int(offsets[-1]), len(lengths)
    shape = (*channels[:axis], n, *channels[axis:])
    a, u = rational(2, *shape, seed=data.draw(st.integers(0, 9)))
    starts = {}
    if way == "x0":
        starts["x0"] = rational(*channels[:axis], rows, *channels[axis:])
    if way == "state":
        before = data.draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows))
        older = rational(2, *channels[:axis], sum(before), *channels[axis:], seed=7)
        initial = rational(*channels[:axis], rows, *channels[axis:]) if data.draw(st.booleans()) else None
        _, starts["state"] = rf.solve(
            *older, x0=initial, axis=axis, window=window, offsets=offsets_of(before), return_state=True
        )
    if way == "ragged":  # each row of each channel has come as far as it likes
        places = [
            rf.solve(*rational(2, data.draw(st.integers(0, 5)), seed=3), window=window, return_state=True)[1]
            for _ in range(int(np.prod((rows, *channels))))
        ]
        starts["state"] = rf.State.stack(places)[
            np.arange(len(places)).reshape(*channels[:axis], rows, *channels[axis:])
        ]
    options = {"axis": axis, "window": window, "offsets": offsets, "return_state": True, **starts}
    singles = alone(a, u, offsets, window, axis, **starts)
    only = rf.solve(a, u, states=False, **options)
    x, state = rf.solve(a, u, **options)
    np.testing.assert_array_equal(x, np.concatenate([states for states, _ in singles], axis=axis))
    assert_rows(state, axis, [end for _, end in singles])
    assert_same(only, state)
    out = u.copy()
    again, end = rf.solve(a, out, out=out, **options)
    assert again is out
    np.testing.assert_array_equal(out, x)
    assert_same(end, state)
    np.testing.assert_array_equal(state.last, np.stack([np.asarray(end.last) for _, end in singles], axis))


@pytest.mark.parametrize("window", [Uniform(1), Uniform(3), Jagged(3), Full()], ids=str)
def test_what_lies_before_empty_segments_alone(window):
    """Nothing enters the steps that there are, and the State of the empty segment is handed on."""
    _, state = rf.solve([0.5, 0.5], [1.0, 2.0], window=window, offsets=[0, 2, 2], return_state=True)
    x, end = rf.solve([0.5], [4.0], state=state, window=window, offsets=[0, 0, 1], return_state=True)
    assert x.tolist() == [4.0]
    assert_same(end[0], state[0])


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_packed_pieces_are_within_the_bound_of_one_call(data):
    """Every sequence comes in three pieces, packed beside those of the others."""
    dtype = data.draw(st.sampled_from(list(WIDER)))
    window = data.draw(st.sampled_from([Full(), Uniform(4), Uniform(40), Jagged(16), Jagged(5, 2), Jagged(16, 0)]))
    channels = data.draw(st.sampled_from([(), (3,), (17,)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    counts = rng.integers(0, 90, (3, 5))
    sequences = [
        [rng.uniform(-1.05, 1.05, (n, *channels)).astype(dtype), rng.standard_normal((n, *channels)).astype(dtype)]
        for n in counts.sum(axis=0)
    ]
    pieces, states, given = [[] for _ in sequences], None, {}
    begun = np.zeros(5, int)
    for lengths in counts:
        cuts = [(start, start + length) for start, length in zip(begun, lengths, strict=True)]
        packed = [
            np.concatenate([sequence[which][start:end] for sequence, (start, end) in zip(sequences, cuts, strict=True)])
            for which in (0, 1)
        ]
        offsets = offsets_of(lengths)
        x, states = rf.solve(*packed, axis=0, window=window, offsets=offsets, return_state=True, **given)
        for row, (start, end) in enumerate(pairwise(offsets)):
            pieces[row].append(x[start:end])
        given, begun = {"state": states}, begun + lengths
    for row, (a, u) in enumerate(sequences):
        exact = windowed(a.astype(WIDER[dtype]), u.astype(WIDER[dtype]), window)
        found = np.concatenate(pieces[row])
        for part in ("real", "imag"):
            assert (abs(getattr(found - exact, part)) <= rounding_bound(a, u, None, window, 0)).all()
        if len(u):
            last = abs(states.last[row] - exact[-1])
            assert (last <= 2 * rounding_bound(a, u, None, window, True)[-1]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("window", [Full(), Uniform(3), Jagged(2), Jagged(4, 2)], ids=str)
def test_what_is_not_finite_stays_in_its_segment(window, value, rng):
    """Nor is the first coefficient read of a segment that nothing enters, beside those that something does."""
    counts = [3, 0, 7, 1, 12]
    offsets = offsets_of(counts)
    n = int(offsets[-1])
    started = rf.solve([0.5], [2.0], window=window, return_state=True)[1]
    nothing = rf.solve([], [], window=window, return_state=True)[1]
    starts = rf.State.stack([started, nothing, nothing, started, nothing])
    a, u = rng.uniform(0.5, 1, (2, n))
    a[[3, 11]] = value  # where the third and the last begin
    x, state = rf.solve(a, u, window=window, offsets=offsets, state=starts, return_state=True)
    assert np.isfinite(x).all()
    assert np.isfinite(state.last).all()
    for row, (start, end) in enumerate(pairwise(offsets)):
        expected, last = rf.solve(a[start:end], u[start:end], window=window, state=starts[row], return_state=True)
        np.testing.assert_allclose(x[start:end], expected, rtol=1e-12)
        np.testing.assert_allclose(state[row].last, last.last, rtol=1e-12)
    u[4] = value
    spoilt, end = rf.solve(a, u, window=window, offsets=offsets, state=starts, return_state=True)
    others = np.arange(5) != 2
    np.testing.assert_array_equal(end.last[others], state.last[others])
    kept = (np.arange(n) < 3) | (np.arange(n) >= 10)
    np.testing.assert_array_equal(spoilt[kept], x[kept])


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("window", [Full(), Uniform(3), Jagged(2, 2)], ids=str)
def test_pieces_of_any_size_end_alike(window, dtype, monkeypatch):
    """Where states aren't kept, on numbers whose sums are exact."""
    rng = np.random.default_rng(3)
    lengths = [0, 5, 1, 0, 0, 90, 3, 41, 0]
    offsets = offsets_of(lengths)
    a = rng.choice([-1, 0, 0.5, 1], (140, 3), p=[0.3, 0.1, 0.05, 0.55]).astype(dtype)
    u = rng.integers(-3, 4, (140, 3)).astype(dtype)
    a[offsets[:-1][np.diff(offsets) > 0]] = np.nan
    expected = rf.State.stack(
        [
            rf.solve(a[start:end], u[start:end], axis=0, window=window, return_state=True)[1]
            for start, end in pairwise(offsets)
        ]
    )
    options = {"axis": 0, "window": window, "offsets": offsets, "return_state": True}
    for steps in (1, 2, 7, 64, 1000):
        monkeypatch.setattr(continuation, "PIECE", 0)
        monkeypatch.setattr(continuation, "LEAST_STEPS", steps)
        assert_same(rf.solve(a, u, states=False, **options), expected)
        x, state = rf.solve(a, u, **options)
        assert_same(state, expected)
        np.testing.assert_array_equal(x, rf.solve(a, u, axis=0, window=window, offsets=offsets))


@pytest.mark.parametrize("window", [Full(), Uniform(32), Jagged(16)], ids=str)
def test_threads_change_no_bit(window, rng):
    a, u = rng.uniform(0, 1, (2, 300_000)).astype(np.float32)
    offsets = np.sort(rng.integers(0, 300_000, 41))
    offsets[[0, -1]] = 0, 300_000
    results = set()
    for threads in (1, 2, 3, None):
        _, state = rf.solve(a, u, window=window, offsets=offsets, return_state=True, threads=threads)
        x, end = rf.solve(a, u, window=window, offsets=offsets, state=state, return_state=True, threads=threads)
        results.add((x.tobytes(), end.parts.tobytes()))
    assert len(results) == 1


def test_no_segments():
    for window in (Full(), Uniform(3), Jagged(2)):
        x, state = rf.solve(np.ones((0, 2)), 1.0, axis=0, window=window, offsets=[0], return_state=True)
        assert (x.shape, state.shape) == ((0, 2), (0, 2))
        again, end = rf.solve(np.ones((0, 2)), 1.0, axis=0, window=window, offsets=[0], state=state, return_state=True)
        assert (again.shape, end.shape) == ((0, 2), (0, 2))


def test_labels_come_back():
    table = data_array()
    x, state = rf.solve(0.5, table, axis="time", offsets=[0, 1, 4], return_state=True)
    assert type(x) is type(table)
    assert state.shape == (2, 3)
    np.testing.assert_array_equal(state.last, x.values[[0, 3]])


STATE = rf.solve(
    np.full((5, 2), 0.5), np.ones((5, 2)), axis=0, window=Jagged(2), offsets=[0, 2, 2, 5], return_state=True
)[1]
WRONG = {
    "other segments": ({"offsets": [0, 1, 5]}, ShapeError, ("(2, 2)", "(3, 2)")),
    "no segments": ({"offsets": None}, ShapeError, ("(2,)", "(3, 2)")),
    "one row": ({"state": STATE[0]}, ShapeError, ("(3, 2)", "(2,)")),
    "x0 too": ({"x0": 1.0}, OptionError, ("state", "x0")),
    "type": ({"u": np.ones((5, 2), "f4"), "a": np.ones((5, 2), "f4")}, DTypeError, ("float32", "float64")),
    "window": ({"window": Full()}, OptionError, ("Full()", "Jagged")),
    "reverse": ({"reverse": True}, OptionError, ("state", "reverse")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_together(name):
    options, kind, words = WRONG[name]
    given = {"a": np.full((5, 2), 0.5), "u": np.ones((5, 2)), "axis": 0, "window": Jagged(2), "state": STATE}
    with pytest.raises(kind) as caught:
        rf.solve(**(given | {"offsets": [0, 2, 2, 5]} | options))
    assert [word for word in words if word not in str(caught.value)] == []


def test_exact_numbers_stay_exact():
    a, u = np.array([Fraction(1, 2)] * 5, object), np.array([Fraction(1)] * 5, object)
    _, state = rf.solve(a, u, window=Jagged(2), offsets=[0, 3, 5], return_state=True)
    assert list(state.last) == [Fraction(7, 4), Fraction(3, 2)]
