"""The whole recurrence of two or three channels next to each other, whose steps are narrower than plain loops like.

Tiles solve them (`recfact.cpu.scan_channels`). Every length is compared with the plain loop. The engine's own code runs
on symbols (`interpreter`), which shows what is in a state and how often it was rounded: at most i - j + 6 times. Its
numbers enter four stages, join `local`, and the true state or the next span.
"""

import numpy as np
import pytest
from interpreter import Floats, Product, State, Symbols, interpreted
from oracle import assert_near_definition
from walks import DTYPES

import recfact as rf
from recfact.cpu import limits, rows
from recfact.windows import Full

TYPES = [DTYPES[name] for name in ("float32", "float16", "bfloat16")]
SINGLE = DTYPES["float32"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles from the first step on, and spans of two tiles."""
    for name, value in {"SHORT": 1, "SHORT_ROW": 1, "SPAN": 64, "WORTH_THREADS": 1, "WORTH_TWO_PASSES": 2}.items():
        monkeypatch.setattr(limits, name, value)


def numbers(n, channels, dtype, rng):
    """Return coefficients and inputs. A decay takes some tiles, or a fraction of one."""
    a = rng.uniform(0.8, 1, (n, channels)) * rng.choice([-1, 1], (n, channels))
    a[rng.random((n, channels)) < 0.05] = 0
    return a.astype(dtype), rng.standard_normal((n, channels)).astype(dtype)


def placed(values, offset, filled=True):
    """Return an array at an offset from a line, and the memory around it, full of NaN."""
    memory = np.full(values.nbytes + 256, 255, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    view = np.ndarray(values.shape, values.dtype, buffer=memory, offset=start)
    if filled:
        view[...] = values
    return view, memory


def is_untouched(view, memory):
    """Return whether nothing but the view was written."""
    start = view.ctypes.data - memory.ctypes.data
    return bool((memory[:start] == 255).all() and (memory[start + view.nbytes :] == 255).all())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("way", ["forward", "from x0", "reverse"])
def test_every_length(way, channels, dtype, rng):
    for n in (*range(1, 71), 95, 96, 97, 127, 128, 129, 200):
        a, u = numbers(n, channels, dtype, rng)
        x0 = rng.standard_normal(channels).astype(np.float32) if way == "from x0" else None
        assert rows.tile_of(a, u, u.copy(), way == "reverse", Full()).channels == channels
        options = {"axis": 0, "x0": x0, "reverse": way == "reverse"}
        (x, memory), offset = placed(u, n % 16 * a.itemsize, filled=False), n // 3 % 16 * a.itemsize
        rf.solve(placed(a, offset)[0], placed(u, 7 * a.itemsize)[0], out=x, **options)
        assert is_untouched(x, memory)
        assert_near_definition(x, a, u, x0=x0, reverse=way == "reverse")
        state = u.copy()
        rf.solve(a, state, out=state, **options)
        assert state.tobytes() == x.tobytes(), "in place"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "growing"])
def test_a_channel_has_the_same_bits_whatever_is_beside_it(bad, reverse, rng):
    for n in (5, 64, 70, 333):
        a, u = numbers(n, 3, SINGLE, rng)
        x = rf.solve(a, u, axis=0, reverse=reverse)
        for channel in range(3):
            other_a, other_u = a.copy(), u.copy()
            for step in range(0, n, 50):
                if bad == "growing":
                    other_a[step : step + 20, channel] = 1e30
                else:
                    other_u[step, channel] = bad
            found = rf.solve(other_a, other_u, axis=0, reverse=reverse)
            assert_near_definition(found, other_a, other_u, reverse=reverse)
            rest = [k for k in range(3) if k != channel]
            assert found[:, rest].tobytes() == x[:, rest].tobytes()
            pair = rf.solve(a[:, rest].copy(), u[:, rest].copy(), axis=0, reverse=reverse)
            assert pair.tobytes() == x[:, rest].tobytes()
            rf.solve(other_a, other_u, axis=0, reverse=reverse, out=other_u)
            np.testing.assert_array_equal(other_u, found, "in place")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("first", "second"), [(3, 100), (100, 3), (40, 41), (0, 332), (200, 200)])
def test_channels_that_go_wild_one_after_the_other_leave_the_third_alone(first, second, reverse, rng):
    a, u = numbers(333, 3, SINGLE, rng)
    x = rf.solve(a, u, axis=0, reverse=reverse)
    u[first, 0], u[second, 2] = np.nan, np.inf
    found = rf.solve(a, u, axis=0, reverse=reverse)
    assert_near_definition(found, a, u, reverse=reverse)
    assert found[:, 1].tobytes() == x[:, 1].tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(3, 150, 2), (2, 2, 97, 3, 1), (1, 40, 3)])
def test_groups_of_a_few_channels_have_the_bits_of_one(shape, reverse, dtype, rng):
    axis = len(shape) - 2 - (shape[-1] == 1)
    a, u = (values.reshape(shape) for values in numbers(int(np.prod(shape[:-1])), shape[-1], dtype, rng))
    x = rf.solve(a, u, axis=axis, reverse=reverse, threads=3)
    for there in np.ndindex(*shape[:axis]):
        one = rf.solve(a[there].copy(), u[there].copy(), axis=0, reverse=reverse)
        assert one.tobytes() == x[there].tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("channels", [2, 3])
def test_groups_have_the_same_bits_wherever_they_lie(channels, dtype, rng):
    a, u = (values.reshape(4, 90, channels) for values in numbers(360, channels, dtype, rng))
    x = rf.solve(a[:, :70].copy(), u[:, :70].copy(), axis=1)
    for groups in (slice(None), slice(None, None, -1), slice(1, 2)):
        found = rf.solve(a[groups, :70], u[groups, :70], axis=1)
        assert found.tobytes() == x[groups].tobytes(), "parts of longer groups"
    shared = rf.solve(a[:1, :70], u[:, :70], axis=1)
    assert shared.tobytes() == rf.solve(np.repeat(a[:1, :70], 4, 0), u[:, :70], axis=1).tobytes()
    for index in ((slice(None), None), (slice(None), slice(None), None), (..., None)):
        one = (a[:, :70][index], u[:, :70][index])  # NumPy gives the new axis a stride of 0
        found = rf.solve(*one, axis=2 if one[0].shape[1] == 1 else 1)
        assert found.tobytes() == x.tobytes(), "an axis of one number"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("initial", [False, True])
def test_pieces_have_the_bits_of_the_whole(initial, dtype, rng):
    a, u = (values.reshape(2, 300, 3) for values in numbers(600, 3, dtype, rng))
    x0 = rng.standard_normal((2, 3)).astype(np.float32) if initial else None
    x = rf.solve(a, u, axis=1, x0=x0)
    for step in (1, 31, 32, 33, 77, 150):
        cuts = range(step, 300, step)
        pieces = zip(np.split(a, cuts, 1), np.split(u, cuts, 1), strict=True)
        assert np.concatenate(list(rf.solve_chunks(pieces, x0=x0, axis=1)), 1).tobytes() == x.tobytes()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 300, 1), (1, 1, 3), (2, 1, 1), (2, 1, 3), (1, 300, 3)])
def test_pieces_that_share_numbers_have_the_bits_of_the_whole(shape, dtype, rng):
    a, u = (values.reshape(2, 300, 3) for values in numbers(600, 3, dtype, rng))
    part = tuple(map(slice, shape))
    for given in ((a[part], u), (a, u[part])):
        x = rf.solve(*given, axis=1)
        for step in (31, 150):
            cuts = range(step, 300, step)
            pieces = [np.split(v, cuts, 1) if v.shape[1] > 1 else [v] * (len(cuts) + 1) for v in given]
            found = np.concatenate(list(rf.solve_chunks(zip(*pieces, strict=True), axis=1)), 1)
            assert found.tobytes() == x.tobytes()


@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("way", ["forward", "from x0", "reverse"])
def test_states_hold_their_terms_rounded_as_often_as_stated(way, channels):
    n, apart = 230, 1000  # steps of different channels don't follow each other
    symbols, reverse = Symbols(), way == "reverse"
    a, u = np.zeros((2, n, channels), np.float32)
    for place, channel in np.ndindex(n, channels):
        step = (n - 1 - place if reverse else place) + apart * channel
        a[place, channel] = symbols.store(Product(step - 1 + reverse, step + reverse))
        u[place, channel] = symbols.store(State(step, {step: 0}))
    x0 = None
    if way == "from x0":
        x0 = np.array([symbols.store(State(apart * k - 1, {apart * k - 1: 0})) for k in range(channels)], np.float32)
    with interpreted(symbols, 64):
        x = rf.solve(a, u, axis=0, x0=x0, reverse=reverse)
    most = 0
    for place, channel in np.ndindex(n, channels):
        state, step = symbols.load(x[place, channel]), (n - 1 - place if reverse else place) + apart * channel
        assert state.stop == step
        assert set(state.terms) == set(range(apart * channel - (x0 is not None), step + 1))
        most = max(most, *(count - (step - j) for j, count in state.terms.items()))
    assert most == 6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_compiled_kernels_round_where_their_source_does(special, reverse, channels, rng):
    a, u = numbers(333, channels, SINGLE, rng)
    if special:
        u[40, 1], u[140, 0], a[200:210, 1] = np.inf, np.nan, 1e30
    with interpreted(Floats(SINGLE), 64):
        expected = rf.solve(a, u, axis=0, reverse=reverse)
    np.testing.assert_array_equal(rf.solve(a, u, axis=0, reverse=reverse), expected)


def test_who_is_solved_so(rng):
    """Whatever isn't has the bits of many channels."""
    a, u = numbers(600, 4, SINGLE, rng)
    assert rows.tile_of(a[:, :3].copy(), u[:, :3].copy(), u[:, :3].copy(), False, Full()).channels == 3
    assert rows.tile_of(a, u, u.copy(), False, Full()) is None, "wide steps"
    assert rows.tile_of(a[:, :2], u[:, :2], u[:, :2], False, Full()) is None, "gaps"
    shared, two = np.broadcast_to(a[:, :1], (600, 2)), u[:, :2].copy()
    assert rows.tile_of(shared, two, two, False, Full()) is None, "shared coefficients"
    double = two.astype(np.float64)
    assert rows.tile_of(double, double, double, False, Full()) is None, "wide numbers"
