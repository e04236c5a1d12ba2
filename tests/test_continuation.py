"""`solve` from a `State` and to one: every library, layout and option, within the bound of one call."""

import tracemalloc
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import data_array, frame, jax, polars
from layouts import layouts
from oracle import definition, sizes

import recfact as rf
from recfact import continuation
from recfact.errors import DeviceError, DTypeError, OptionError, OptionTypeError, RecfactError, ShapeError
from recfact.recurrence import first_kept_rows
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [
    Full(),
    Uniform(1),
    Uniform(4),
    Uniform(300),
    Jagged(16),
    Jagged(16, 0),
    Jagged(5, 2),
    Jagged(1, 3),
    Jagged(30, 3),
    Jagged(20, 9),
]
WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


def rounding_bound(a, u, x0, window, steps):
    """Bound the error of states that came in pieces: sum_j |L_ij u_j| gamma(N), time on axis 0.

    A term passes d coefficients, and at most 7 roundings besides where it is an input; as a part of a State it is an
    initial state, which has no more roundings than coefficients. The parts are added up, and a window that slides adds
    up what it spans. A step of a State rounds its product and its sum. Complex numbers round once more a step, and
    twice for each rounding besides; an initial state is folded into the first input by two.
    """
    n = len(u)
    unit = float(np.finfo(u.dtype).eps) / 2
    again = u.dtype.kind == "c"
    extra = 7 + getattr(window, "terms", 0) + 2 * (x0 is not None)
    if isinstance(window, Uniform) or window in (Jagged(1, 3), Jagged(5, 2), Jagged(20, 9)):
        extra += 2 + n - int(first_kept_rows(n, window)[-1])
    a, u = np.broadcast_arrays(sizes(a), sizes(u))
    u = u.copy()
    if x0 is not None:
        u[0] += a[0] * sizes(x0)
    lags = np.arange(n) - first_kept_rows(n, window)
    total, term = np.zeros(u.shape), u.copy()
    for lag in range(n):
        count = (1 + steps + again) * lag + (1 + again) * extra
        seen = lags >= lag
        total[seen] += term[seen] * count * unit / (1 - count * unit)
        term[1:], term[0] = a[1:] * term[:-1], 0
    return total * (1 + 1e-6)


def solve_in_pieces(a, u, window, x0, places, axis, stepped):
    """Return states, time on axis 0, of pieces or of single steps of the last one."""
    pieces, state = [], None
    for i, (low, high) in enumerate(places):
        part = [np.moveaxis(array[low:high], 0, axis) for array in (a, u)]
        given = {"x0": x0} if i == 0 else {"state": state}
        if stepped and i == len(places) - 1:
            for a_t, u_t in zip(a[low:high], u[low:high], strict=True):
                x, state = state.step(a_t, u_t)
                pieces.append(np.asarray(x)[None])
        else:
            x, state = rf.solve(*part, window=window, axis=axis, return_state=True, **given)
            pieces.append(np.moveaxis(x, axis, 0))
    return np.concatenate(pieces), state


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_pieces_are_within_the_bound(data):
    dtype = data.draw(st.sampled_from(list(WIDER)))
    window = data.draw(st.sampled_from(WINDOWS))
    shape = data.draw(st.sampled_from([(), (3,), (2, 17)]))
    n = data.draw(st.sampled_from([1, 40, 65, 300]))
    axis = data.draw(st.integers(-1, len(shape)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shared = data.draw(st.booleans())
    a = rng.uniform(-1.05, 1.05, (n, *((1,) * len(shape) if shared else shape))).astype(dtype)
    u = rng.standard_normal((n, *shape)).astype(dtype)
    if dtype.kind == "c":
        a, u = a * np.exp(1j * rng.uniform(-3, 3, a.shape)).astype(dtype), (u * (1 + 1j)).astype(dtype)
    x0 = rng.standard_normal(shape).astype(dtype) if data.draw(st.booleans()) else None
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=4))), n]
    stepped = n <= 65 and data.draw(st.booleans())
    x, state = solve_in_pieces(a, u, window, x0, list(pairwise(cuts)), axis, stepped)
    assert x.dtype == dtype
    wide = [None if array is None else array.astype(WIDER[dtype]) for array in (a, u, x0)]
    exact = definition(*wide[:2], window, wide[2])
    for part in ("real", "imag"):
        assert (abs(getattr(x - exact, part)) <= rounding_bound(a, u, x0, window, stepped)).all()
        last = abs(getattr(state.last - exact[-1], part))
        assert (last <= rounding_bound(a, u, x0, window, True)[-1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_asking_for_the_state_changes_no_bit(window, dtype, rng):
    for shape, axis in [((700,), 0), ((40, 5), 0), ((3, 130), 1)]:
        a, u = rng.uniform(-1, 1, (2, *shape)).astype(dtype)
        x0 = rng.standard_normal(shape[:axis] + shape[axis + 1 :]).astype(dtype)
        for start in (None, x0):
            x, _ = rf.solve(a, u, x0=start, axis=axis, window=window, return_state=True)
            assert x.tobytes() == rf.solve(a, u, x0=start, axis=axis, window=window).tobytes()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_state_alone_is_that_of_a_solve(window, dtype, monkeypatch):
    """On numbers whose sums are exact, so that it doesn't matter in which pieces they are added."""
    rng = np.random.default_rng(1)
    a = rng.choice([-1, 0, 0.5, 1], (200, 3), p=[0.3, 0.1, 0.05, 0.55]).astype(dtype)
    u = rng.integers(-3, 4, (200, 3)).astype(dtype)
    for piece in (1 << 20, 40):
        monkeypatch.setattr(continuation, "PIECE", piece)
        for start in (
            {},
            {"x0": 2.0},
            {"state": rf.solve(a[:23], u[:23], axis=0, window=window, return_state=True)[1]},
        ):
            x, state = rf.solve(a[23:], u[23:], axis=0, window=window, return_state=True, **start)
            alone = rf.solve(a[23:], u[23:], axis=0, window=window, return_state=True, states=False, **start)
            assert alone.to_dict()["parts"].tobytes() == state.to_dict()["parts"].tobytes()
            assert (alone.phase, alone.held, alone.dtype) == (state.phase, state.held, state.dtype)
            np.testing.assert_array_equal(alone.last, x[-1])


@pytest.mark.parametrize("window", [Full(), Uniform(300), Jagged(16), Jagged(30, 3)], ids=str)
def test_a_state_alone_takes_no_memory_for_the_states(window, monkeypatch):
    monkeypatch.setattr(continuation, "PIECE", 1 << 12)
    a, u = np.full(1 << 20, np.float32(0.5)), np.ones(1 << 20, np.float32)

    def ask():
        rf.solve(a, u, window=window, return_state=True, states=False)

    ask()  # compiles
    tracemalloc.start()
    try:
        ask()
        assert tracemalloc.get_traced_memory()[1] < u.nbytes / 8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_in_place_and_into_any_array(window, rng):
    a, u = rng.uniform(-1, 1, (2, 150, 3))
    state = rf.solve(a[:23], u[:23], axis=0, window=window, return_state=True, states=False)
    rows = rf.State.stack([state[0], rf.solve(a[:7, 1], u[:7, 1], window=window, return_state=True)[1], state[2]])
    for start in (state, rows):
        expected, end = rf.solve(a, u, axis=0, window=window, state=start, return_state=True)
        for order in ("C", "F"):
            out = np.array(u, order=order)
            x, own = rf.solve(a, out, axis=0, window=window, state=start, return_state=True, out=out)
            assert x is out
            np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)  # where another layout is summed in turn
            np.testing.assert_allclose(own.last, end.last, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("window", [Full(), Uniform(32), Jagged(16), Jagged(100, 2)], ids=str)
def test_threads_change_no_bit(window, rng):
    a, u = rng.uniform(0, 1, (2, 300_000)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, None):
        _, state = rf.solve(a[:1000], u[:1000], window=window, return_state=True, threads=threads)
        x, end = rf.solve(a[1000:], u[1000:], window=window, state=state, return_state=True, threads=threads)
        results.append((x.tobytes(), end.parts.tobytes()))
    assert len(set(results)) == 1


@settings(max_examples=60, deadline=None)
@given(data=st.data(), window=st.sampled_from([Full(), Uniform(4), Jagged(3), Jagged(2, 2)]))
def test_any_layout_goes_on_as_any_other(data, window):
    """Integers of few digits, whose states are exact in any order of the sums."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    step = data.draw(st.lists(st.integers(0, 4), max_size=3))
    axis, cut = data.draw(st.integers(0, len(step))), data.draw(st.integers(0, 9))
    dtype = data.draw(st.sampled_from(["f4", "f8", "c8", "i4", ">f4"]))
    a, u = (rng.integers(-2, 3, (*step[:axis], 9, *step[axis:])) for _ in "au")
    expected = rf.solve(a.astype(complex), u.astype(complex), axis=axis, window=window)
    if step and data.draw(st.booleans()):
        a = a[(slice(None),) * axis + (slice(None), slice(0, 1))] if axis < len(step) else a[:1]
        expected = rf.solve(a.astype(complex), u.astype(complex), axis=axis, window=window)
    a, u = (data.draw(layouts(u.ndim)).array(array.astype(dtype)) for array in (a, u))
    pieces, state = [], {}
    for part in (slice(cut), slice(cut, None)):
        at = (slice(None),) * axis + (part,)
        x, end = rf.solve(a[at], u[at], axis=axis, window=window, return_state=True, **state)
        pieces.append(x)
        state = {"state": end}
    np.testing.assert_array_equal(np.concatenate(pieces, axis=axis), expected)
    if np.prod(step, dtype=int):
        np.testing.assert_array_equal(end.last, np.moveaxis(expected, axis, 0)[-1])


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("window", [Full(), Uniform(4), Jagged(4)], ids=str)
def test_tensors_go_on_as_arrays_do(window, dtype, rng):
    torch = pytest.importorskip("torch")
    a, u = (torch.tensor(rng.integers(-2, 3, (9, 3)) / 2).to(getattr(torch, dtype)) for _ in "au")
    whole = rf.solve(a, u, axis=0, window=window)
    x, state = rf.solve(a[:5], u[:5], axis=0, window=window, return_state=True)
    x_5, state = state.step(a[5], u[5])
    rest, end = rf.solve(a[6:], u[6:], axis=0, window=window, state=state, return_state=True)
    for tensor in (x, x_5, rest):
        assert isinstance(tensor, torch.Tensor)
        assert tensor.dtype == a.dtype
    assert torch.equal(torch.cat([x, x_5[None], rest]), whole)
    np.testing.assert_array_equal(np.asarray(end.last, complex), whole[-1].to(torch.complex64).numpy())
    out = torch.empty_like(u[6:])
    assert rf.solve(a[6:], u[6:], axis=0, window=window, state=state, out=out) is out
    assert torch.equal(out, rest)
    assert rf.solve(a[6:], u[6:], axis=0, window=window, state=state, return_state=True, states=False).shape == (3,)


def of_jax(values):
    return jax().numpy.asarray(values, dtype="float32")


LABELLED = {
    "pandas": lambda: (frame(), 0, lambda table, part: table.iloc[part], lambda table, i: table.iloc[i]),
    "xarray": lambda: (data_array(), "time", lambda table, part: table[part], lambda table, i: table[i]),
    "polars": lambda: (polars().Series("load", [1.0, 2.0, -3.0, 4.0]), 0, lambda row, part: row[part], None),
    "jax": lambda: (
        of_jax(np.arange(12.0).reshape(4, 3)),
        0,
        lambda array, part: array[part],
        lambda array, i: array[i],
    ),
}


@pytest.mark.parametrize("library", LABELLED)
@pytest.mark.parametrize("window", [Full(), Uniform(2), Jagged(2)], ids=str)
def test_containers_come_back_with_their_labels(library, window):
    u, axis, cut, row = LABELLED[library]()
    whole = rf.solve(0.5, u, axis=axis, window=window)
    x, state = rf.solve(0.5, cut(u, slice(2)), axis=axis, window=window, return_state=True)
    rest, end = rf.solve(0.5, cut(u, slice(2, 4)), axis=axis, window=window, state=state, return_state=True)
    alone = rf.solve(0.5, cut(u, slice(2)), axis=axis, window=window, return_state=True, states=False)
    np.testing.assert_array_equal(alone.parts, state.parts)
    for found, expected in ((x, cut(whole, slice(2))), (rest, cut(whole, slice(2, 4)))):
        assert type(found) is type(u)
        assert str(found) == str(expected)  # labels too
    np.testing.assert_array_equal(end.last, np.asarray(whole)[-1])
    if row:
        x_2, _ = state.step(0.5, row(u, 2))
        assert type(x_2) is type(row(u, 2))
        assert str(x_2) == str(row(whole, 2))


class GPUArray:
    """What CuPy's arrays look like from outside."""

    __cuda_array_interface__: ClassVar = {}


A, U = np.full((5, 2), 0.5), np.ones((5, 2))
STATE = rf.solve(A, U, axis=0, window=Jagged(2), return_state=True, states=False)
SINGLE = rf.solve(A.astype("f4"), U.astype("f4"), axis=0, window=Jagged(2), return_state=True, states=False)
WRONG = {
    "x0 too": ({"state": STATE, "x0": 1.0}, OptionError, ("state", "x0")),
    "reverse": ({"state": STATE, "reverse": True}, OptionError, ("state", "reverse", "flip")),
    "reverse back": ({"return_state": True, "reverse": True}, OptionError, ("return_state", "reverse")),
    "window": ({"state": STATE, "window": Jagged(3)}, OptionError, ("Jagged(3)", "Jagged(2)")),
    "terms": ({"state": STATE, "window": Jagged(2, 2)}, OptionError, ("Jagged(2, 2)", "Jagged(2)")),
    "no window": ({"state": STATE, "window": Full()}, OptionError, ("Full()", "Jagged(2)")),
    "shape": ({"state": STATE[0]}, ShapeError, ("state", "(2,)", "()")),
    "one step of another axis": ({"state": STATE, "axis": 1}, ShapeError, ("state", "(5,)", "(2,)")),
    "type": ({"state": SINGLE}, DTypeError, ("state", "float64", "float32")),
    "array": ({"state": np.ones(2)}, OptionTypeError, ("state must be a State", "x0")),
    "dict": ({"state": STATE.to_dict()}, OptionTypeError, ("state must be a State",)),
    "no boolean": ({"return_state": 1}, OptionTypeError, ("return_state", "True or False")),
    "nothing": ({"states": None}, OptionTypeError, ("states", "True or False")),
    "nothing to return": ({"states": False}, OptionError, ("states", "return_state=True")),
    "nothing to return but x": ({"states": False, "state": STATE}, OptionError, ("states", "return_state=True")),
    "out for nothing": ({"states": False, "return_state": True, "out": U.copy()}, OptionError, ("states", "out")),
    "algorithm": ({"return_state": True, "algorithm": "sequential"}, OptionError, ("return_state", "algorithm")),
    "device": ({"state": STATE, "device": "gpu"}, OptionError, ("state", "host")),
    "no GPU": ({"return_state": True, "u": GPUArray()}, DeviceError, ("GPU",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_together(name):
    options, kind, words = WRONG[name]
    out = np.full((5, 2), 7.0)
    given = {
        "a": A,
        "u": U,
        "axis": 0,
        "window": Jagged(2),
        **({} if {"states", "u"} & options.keys() else {"out": out}),
    }
    with pytest.raises(kind) as caught:
        rf.solve(**(given | options))
    assert isinstance(caught.value, RecfactError)
    assert [word for word in words if word not in str(caught.value)] == []
    assert (out == 7).all()


def test_the_initial_state_is_no_state():
    """Two calls through x0 aren't the whole in a window; through a State they are."""
    a, u, window = np.full(8, 0.5), np.ones(8), Jagged(4)
    whole = rf.solve(a, u, window=window)
    x, state = rf.solve(a[:6], u[:6], window=window, return_state=True)
    np.testing.assert_array_equal(rf.solve(a[6:], u[6:], window=window, state=state), whole[6:])
    assert (rf.solve(a[6:], u[6:], window=window, x0=x[-1]) == whole[6:]).all()  # to the end of the open block
    more = np.ones(12)
    whole = rf.solve(more / 2, more, window=window)
    assert not (rf.solve(more[6:] / 2, more[6:], window=window, x0=x[-1]) == whole[6:]).all()
