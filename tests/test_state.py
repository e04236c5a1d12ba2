"""`State`: exact in every window, wherever a sequence is cut, and the same after any journey."""

import copy
import io
import pickle
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market import coefficients, inputs
from noted import in_turn, noted
from walks import first_steps

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, RecfactError, ShapeError
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [
    Full(),
    *(Uniform(lags) for lags in range(1, 21)),
    *(Jagged(block, terms) for block in range(1, 8) for terms in range(4)),
    Jagged(3, 2**70),
    Jagged(2**70),
    Uniform(2**70),
]
# Each window begins in one of both ways in the default run, and its neighbours in the other.
BEGUN = [
    pytest.param(window, x0, marks=[pytest.mark.slow] * ((number + place) % 2))
    for number, window in enumerate(WINDOWS)
    for place, x0 in enumerate((None, Fraction(5, 3)))
]
# And each third in all ways to cut it.
CUT = [
    pytest.param(*begun.values, marks=[*begun.marks, *[pytest.mark.slow] * (place // 2 % 3 > 0)])
    for place, begun in enumerate(BEGUN)
]
SOME = [Full(), Uniform(1), Uniform(3), Jagged(1, 2), Jagged(2, 0), Jagged(3), Jagged(2, 3)]
N = 17


def rational(*shape, seed=0):
    """Return fractions of both signs, among them zeros."""
    rng = np.random.default_rng([seed, *shape])
    numbers = np.empty(shape, object)
    for place in np.ndindex(*shape):
        numbers[place] = Fraction(int(rng.integers(-4, 5)), int(rng.integers(1, 4)))
    return numbers


def after(a, u, window, x0=None, axis=-1):
    return rf.solve(a, u, window=window, x0=x0, axis=axis, return_state=True, states=False)


def assert_same(one, other):
    """Assert that two States are of the same numbers."""
    assert (one.window, one.dtype, one.shape) == (other.window, other.dtype, other.shape)
    for name in ("phase", "held", "parts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.parts.dtype == other.parts.dtype


def step_all(state, a, u):
    states = []
    for a_t, u_t in zip(a, u, strict=True):
        x, state = state.step(a_t, u_t)
        states.append(x)
    return states, state


@pytest.mark.parametrize(("window", "x0"), CUT)
def test_every_cut_in_two_and_three_gives_the_whole(window, x0):
    a, u = rational(2, N)
    whole = list(windowed(a, u, window, x0))
    last = after(a, u, window, x0)
    for i in range(N + 1):
        x, first = rf.solve(a[:i], u[:i], window=window, x0=x0, return_state=True)
        assert list(x) == whole[:i]
        for j in range(i, N + 1, 1 if i % 4 == 0 else 5):
            middle, second = rf.solve(a[i:j], u[i:j], window=window, state=first, return_state=True)
            end, third = rf.solve(a[j:], u[j:], window=window, state=second, return_state=True)
            assert [*middle, *end] == whole[i:]
            assert_same(third, last)


@pytest.mark.parametrize(("window", "x0"), BEGUN)
def test_steps_give_what_solve_gives(window, x0):
    a, u = rational(2, N, seed=1)
    whole = list(windowed(a, u, window, x0))
    for i in range(N + 1):
        states, state = step_all(after(a[:i], u[:i], window, x0), a[i:], u[i:])
        assert states == whole[i:]
        assert_same(state, after(a, u, window, x0))
        assert state.last == whole[-1]


@in_turn("window", WINDOWS)
def test_before_the_first_step_a_state_is_the_initial_one(window):
    a, u = rational(2, N, seed=2)
    for x0 in (None, Fraction(5, 3)):
        state = after(a[:0], u[:0], window, x0)
        assert (state.phase, state.held, state.last) == (0, int(x0 is not None), x0 or 0)
        for n in (1, 2, N):
            assert list(rf.solve(a[:n], u[:n], window=window, state=state)) == list(windowed(a[:n], u[:n], window, x0))


@in_turn("block", range(1, 8))
@in_turn("terms", range(4))
def test_the_parts_are_what_each_block_adds(block, terms):
    """q_0 is the last state of blocks from zero, and q_p that with p terms less that with p - 1."""
    a, u = rational(2, N, seed=3)
    for n in range(1, N + 1):
        lasts = [windowed(a[:n], u[:n], Jagged(block, p))[-1] for p in range(terms + 1)]
        wanted = [lasts[0], *np.diff(lasts)]
        state = after(a[:n], u[:n], Jagged(block, terms))
        assert state.phase == (n - 1) % block + 1
        if block > 1:
            begun = (n - 1) // block + 1
            assert len(state.parts) == min(begun, terms + 1)
            assert [*state.parts, *[0] * (terms + 1 - len(state.parts))] == wanted
        else:
            np.testing.assert_array_equal(state.parts, np.stack([a[:n], u[:n]], 1)[::-1][: terms + 1])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), window=st.sampled_from(SOME))
def test_rows_at_different_steps_are_solved_together(data, window):
    """Each goes on as if it were alone, in solves, in steps and as a row of what comes of them."""
    taken = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    started = [data.draw(st.booleans()) for _ in taken]
    coming, axis = data.draw(st.integers(0, 9)), data.draw(st.sampled_from([0, 1, -1]))
    shape = (len(taken), 2)
    a, u = rational(2, 20, *shape, seed=4)
    x0 = rational(*shape, seed=5)
    alone = [
        after(a[:n, i], u[:n, i], window, x0[i] if own else None, 0)
        for i, (n, own) in enumerate(zip(taken, started, strict=True))
    ]
    together = rf.State.stack(alone)
    assert together.shape == shape
    for i, state in enumerate(together):
        assert_same(state, alone[i])
    a, u = a[10 : 10 + coming], u[10 : 10 + coming]
    place = axis % 3
    x, end = rf.solve(
        np.moveaxis(a, 0, place), np.moveaxis(u, 0, place), window=window, state=together, axis=axis, return_state=True
    )
    x = np.moveaxis(x, place, 0)
    states, stepped = step_all(together, a, u)
    assert_same(stepped, end)
    if coming:
        np.testing.assert_array_equal(x, np.stack(states))
        np.testing.assert_array_equal(end.last, x[-1])
    for i, state in enumerate(alone):
        rows, single = rf.solve(a[:, i], u[:, i], window=window, state=state, axis=0, return_state=True)
        np.testing.assert_array_equal(x[:, i], rows)
        assert_same(end[i], single)


def mixed(window, dtype="float64"):
    """Return the State of rows of two channels after 0 to 6 steps."""
    a, u = coefficients("random", 14, dtype).reshape(7, 2), inputs((7, 2), dtype)
    return rf.State.stack([after(a[:n], u[:n], window, axis=0) for n in range(7)])


JOURNEYS = {
    "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "dict": lambda state: rf.State.from_dict(state.to_dict()),
    "rows": lambda state: rf.State.stack(state),
    "mask": lambda state: state[np.ones(state.shape, bool)][np.arange(14).reshape(7, 2)],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "float16", "bfloat16", "Fraction"])
@in_turn("window", SOME)
def test_a_state_comes_back_as_it_went(window, dtype):
    for journey in JOURNEYS:
        with noted(journey=journey):
            for state in (mixed(window, dtype), mixed(window, dtype)[3:4]):
                if journey == "mask" and len(list(state)) != 7:
                    continue
                back = JOURNEYS[journey](state)
                assert_same(back, state)
                assert repr(back) == repr(state)
                with pytest.raises(ValueError, match="read-only"):
                    back.parts[...] = 0


@pytest.mark.parametrize("window", SOME, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_state_goes_through_a_file(window, dtype):
    state, file = mixed(window, dtype), io.BytesIO()
    np.savez(file, **state.to_dict())
    file.seek(0)
    with np.load(file) as data:
        assert_same(rf.State.from_dict(data), state)


INDICES = [0, -1, slice(2, 5), [4, 0, 0], (slice(None), 1), (3, 1), (..., 0), ([1, 6], [0, 1]), slice(0, 0), (None, 2)]


@in_turn("index", INDICES)
@pytest.mark.parametrize("window", SOME, ids=str)
def test_indices_are_those_of_an_array_of_one_step(window, index):
    state = mixed(window)
    np.testing.assert_array_equal(state[index].last, state.last[index])
    a, u = np.full(state.shape, 0.5), inputs(state.shape)
    x, _ = state.step(a, u)
    np.testing.assert_array_equal(state[index].step(a[index], u[index])[0], x[index])


def test_a_state_keeps_its_numbers_when_arrays_change():
    a, u = np.full(5, 0.5), np.ones(5)
    for window in SOME:
        x, state = rf.solve(a, u.copy(), window=window, return_state=True)
        last = state.last
        x[:] = np.nan
        assert state.last == last
        parts = state.parts[:1].copy()
        own = rf.State(window, parts, state.phase)
        parts[:] = 7
        np.testing.assert_array_equal(own.parts, state.parts[:1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("window", [Full(), Uniform(700), Jagged(1000), Jagged(300, 4)], ids=str)
def test_halves_are_rounded_only_where_they_are_read(window, dtype):
    """A count of ones: accumulated in bfloat16 it stays at 256, and in float16 at 2048."""
    n = 3000 if window == Full() else 1000
    a, whole = np.ones(n, dtype), (np.arange(1, n + 1) - first_steps(n, window, False)).astype(float).astype(dtype)
    x, state = rf.solve(a[:333], a[:333], window=window, return_state=True)
    assert state.parts.dtype == np.float32
    assert state.dtype == dtype
    steps, state = step_all(state, a[333:400], a[333:400])
    rest, state = rf.solve(a[400:], a[400:], window=window, state=state, return_state=True)
    np.testing.assert_array_equal(np.concatenate([x, steps, rest]), whole)
    np.testing.assert_array_equal(state.last, whole[-1])
    assert after(a, a, window).last == whole[-1]
    assert steps[0].dtype == rest.dtype == np.asarray(state.last).dtype == dtype


NAN, INF = float("nan"), float("inf")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("which", ["a", "u"])
@pytest.mark.parametrize("window", [*SOME, Jagged(4, 2), Uniform(5)], ids=str)
def test_nan_and_infinities_go_where_the_loop_sends_them(window, which, value, rng):
    """A first coefficient, and one at which a block starts, multiply only what the window still sees."""
    for place in range(N):
        a, u = rng.uniform(0.5, 1, (2, N))
        (a if which == "a" else u)[place] = value
        whole = windowed(a, u, window)
        for i in range(0, N + 1, 3):
            x, state = rf.solve(a[:i], u[:i], window=window, return_state=True)
            steps, _ = step_all(state, a[i:], u[i:])
            rest = rf.solve(a[i:], u[i:], window=window, state=state)
            for found in (np.concatenate([x, steps]), np.concatenate([x, rest])):
                np.testing.assert_allclose(found, whole, rtol=1e-12)  # exact signs of NaN and infinity, rounded else


def test_scalars_that_do_not_mix():
    state = after(rational(3), rational(3), Jagged(2))
    with pytest.raises(DTypeError, match="multiply and add"):
        state.step(Decimal("0.5"), Decimal(1))


A, U = np.full((3, 2), 0.5), np.ones((3, 2))
STATE = rf.solve(A, U, axis=0, window=Jagged(2), return_state=True, states=False)
WRONG_STEPS = {
    "shape": ((np.ones(3), np.ones(3)), ShapeError, ("one step", "(2,)", "(3,)")),
    "more axes": ((np.ones((4, 2)), 1.0), ShapeError, ("(2,)", "(4, 2)")),
    "type": ((np.ones(2, np.float32), np.ones(2, np.float32)), DTypeError, ("float32", "float64")),
    "complex": ((0.5, 1j), DTypeError, ("complex128", "float64")),
    "text": ((0.5, "1"), DTypeError, ("numbers",)),
    "mask": ((0.5, np.ma.array([1.0, 2.0], mask=[1, 0])), ArrayTypeError, ("masked",)),
}
WRONG_STATES = {
    "no window": ((4, [1.0]), OptionTypeError, ("window", "Full()")),
    "axes": ((Uniform(3), np.ones((2, 3))), ShapeError, ("(k, 2, ...)", "at most 3", "(2, 3)")),
    "too many parts": ((Jagged(4), np.ones(3), 1), ShapeError, ("(k, ...)", "at most 2", "(3,)")),
    "number": ((Full(), 1.0), ShapeError, ("(k, ...)", "()")),
    "integers": ((Full(), [1]), DTypeError, ("parts", "int64")),
    "half parts": ((Full(), np.ones(1, np.float16)), DTypeError, ("float32", "float16")),
    "type": ((Full(), np.ones(1), 0, None, "float32"), DTypeError, ("float64", "float32")),
    "no type": ((Full(), np.ones(1), 0, None, "float33"), DTypeError, ("dtype", "float33")),
    "phase beyond": ((Jagged(4), np.ones(1), 5), OptionError, ("phase", "0 to 4", "5")),
    "phase of the whole": ((Full(), np.ones(1), 1), OptionError, ("phase", "0 to 0")),
    "negative phase": ((Jagged(4), np.ones(1), -1), OptionError, ("phase", "-1")),
    "half a step": ((Jagged(4), np.ones(1), 0.5), OptionTypeError, ("phase", "integer", "0.5")),
    "phases of other rows": ((Jagged(4), np.ones((1, 3)), [1, 2]), ShapeError, ("phase", "(3,)", "(2,)")),
    "two before the first step": ((Jagged(4), np.ones(2)), OptionError, ("held", "first step")),
    "none after it": ((Jagged(4), np.ones(0), 1), OptionError, ("held", "at least 1")),
    "held beyond": ((Jagged(4), np.ones((1, 2)), [1, 2], [1, 2]), OptionError, ("held", "0 to 1")),
}


@pytest.mark.parametrize("name", WRONG_STEPS)
def test_steps_that_do_not_fit(name):
    arguments, kind, words = WRONG_STEPS[name]
    with pytest.raises(kind) as caught:
        STATE.step(*arguments)
    assert isinstance(caught.value, RecfactError)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("name", WRONG_STATES)
def test_states_that_make_no_sense(name):
    arguments, kind, words = WRONG_STATES[name]
    with pytest.raises(kind) as caught:
        rf.State(*arguments)
    assert isinstance(caught.value, RecfactError)
    assert [word for word in words if word not in str(caught.value)] == []


def test_what_can_not_be_stacked_indexed_or_read():
    other = rf.State(Jagged(2, 2), STATE.parts, STATE.phase)
    for states, kind in [
        ([], ShapeError),
        (1, OptionTypeError),
        ([STATE, 1], OptionTypeError),
        ([1], OptionTypeError),
        ([STATE, other], OptionError),
        ([STATE, STATE[0]], ShapeError),
    ]:
        with pytest.raises(kind):
            rf.State.stack(states)
    for index in (2, -3, "x", (0, 0), 10**400, object()):
        with pytest.raises(ShapeError):
            STATE[index]
    with pytest.raises(ShapeError):
        iter(STATE[0])
    for data, kind in [
        (1, OptionTypeError),
        ({}, OptionError),
        (STATE.to_dict() | {"window": "all"}, OptionError),
        (STATE.to_dict() | {"dtype": "all"}, DTypeError),
    ]:
        with pytest.raises(kind):
            rf.State.from_dict(data)
    with pytest.raises(AttributeError):
        STATE.phase = 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_numbers_of_python_take_the_type_of_the_state(dtype):
    a, u = np.full(2, 0.5, dtype), np.ones(2, dtype)
    _, state = rf.solve(a, u, return_state=True)
    for a_t, u_t in ((0.5, 1.0), (0.5, 1), (1, 2)):
        x_t, after = state.step(a_t, u_t)
        assert (x_t.dtype, after.dtype) == (dtype, dtype)
        assert x_t == a_t * 1.5 + u_t
    if np.dtype(dtype).kind == "f":
        with pytest.raises(DTypeError):
            state.step(0.5, 1j)
