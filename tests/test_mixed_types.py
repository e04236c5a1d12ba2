"""Coefficients and inputs of which some are halves and the others float32: read as they are, piece by piece."""

import tracemalloc
from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import recfact as rf
from recfact.recurrence import first_kept
from recfact.windows import Full, Jagged, Uniform

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
WINDOWS = [Full(), Jagged(16), Jagged(5, 2), Jagged(3, 0), Uniform(9), Uniform(70)]
UNIT = Fraction(1, 1 << 24)  # the unit roundoff of float32
PIECE = 40


@pytest.fixture
def short(monkeypatch):
    """Let pieces be short."""
    monkeypatch.setattr("recfact.mixed_types.PIECE", PIECE)


def draw(rng, shape, kind_a, kind_u):
    return rng.uniform(-1, 1, shape).astype(kind_a), rng.standard_normal(shape).astype(kind_u)


def exact(a, u, window, x0=0):
    """Return the states of one sequence as Fractions, and what they are with absolute values for all numbers."""
    a, u = ([Fraction(float(value)) for value in values] for values in (a, u))
    states, sizes = [], []
    for i in range(len(u)):
        first = first_kept(i, window)
        state = size = Fraction(0)
        if first == 0:
            state, size = Fraction(x0), abs(Fraction(x0))
        for j in range(first, i + 1):
            enters = j > first or first == 0
            state = (a[j] * state if enters else 0) + u[j]
            size = (abs(a[j]) * size if enters else 0) + abs(u[j])
        states.append(state)
        sizes.append(size)
    return states, sizes


def assert_within(found, a, u, window, x0=0):
    """Compare a sequence with exact arithmetic: what is entered from a piece before is rounded seven times more."""
    states, sizes = exact(a, u, window, x0)
    lags = len(u) if isinstance(window, Full) else max((i - first_kept(i, window) for i in range(len(u))), default=0)
    count = 2 * lags + 7 * (2 + len(u) // PIECE)
    for value, state, size in zip(found, states, sizes, strict=True):
        assert abs(Fraction(float(value)) - state) <= size * count * UNIT / (1 - count * UNIT) + Fraction(2) ** -140


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_sequences_within_the_bound(short, rng, half, window):
    for kinds in ((np.float32, half), (half, np.float32)):
        a, u = draw(rng, (150,), *kinds)
        x = rf.solve(a, u, window=window, x0=0.75)
        assert x.dtype == np.float32
        assert_within(x, a, u, window, 0.75)


def test_the_two_halves_meet_in_float32(short, rng):
    a, u = draw(rng, (150,), *HALVES)
    assert_within(rf.solve(a, u), a, u, Full())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_batches_and_channels(short, rng, axis, window):
    """Coefficients shared over channels, with gaps; each sequence is what it is alone, within the bound."""
    a, u = draw(rng, (90, 90), np.float32, HALVES[1])
    a = a[:, :1] if axis == 0 else a[:1]
    u = u[:, :7] if axis == 0 else u[:7]
    x0 = rng.standard_normal(7).astype(np.float32)
    x = rf.solve(a, u, axis=axis, window=window, x0=x0)
    for k in range(7):
        at = (slice(None), k) if axis == 0 else k
        assert_within(x[at], a.ravel(), u[at], window, float(x0[k]))


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_out_of_either_type(short, rng, half):
    a, u = draw(rng, (4, 150), np.float32, half)
    expected = rf.solve(a, u)
    for kind in (np.float32, half):
        out = np.full(u.shape, np.nan, kind)
        assert rf.solve(a, u, out=out) is out
        np.testing.assert_array_equal(out.astype(np.float32), expected.astype(kind).astype(np.float32))
    in_place = u.copy()
    rf.solve(a, in_place, out=in_place)
    assert in_place.tobytes() == expected.astype(half).tobytes()
    with pytest.raises(rf.errors.ShapeError, match="float32"):
        rf.solve(u, a, out=np.empty(u.shape, half))


def test_segments(short, rng):
    a, u = draw(rng, (150,), np.float32, HALVES[1])
    offsets, x0 = [0, 3, 3, 7, 70, 110, 111, 150], [0.5, 1.5, -1, 2, 0, 3, -4]
    x = rf.solve(a, u, offsets=offsets, x0=x0, window=Jagged(16))
    for index, (start, end) in enumerate(pairwise(offsets)):
        assert_within(x[start:end], a[start:end], u[start:end], Jagged(16), x0[index])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_states_continue(short, rng, window):
    a, u = draw(rng, (3, 150), HALVES[0], np.float32)
    x, state = rf.solve(a[:, :101], u[:, :101], window=window, return_state=True)
    alone = rf.solve(a[:, :101], u[:, :101], window=window, return_state=True, states=False)
    assert alone.parts.tobytes() == state.parts.tobytes()
    rest = rf.solve(a[:, 101:], u[:, 101:], window=window, state=state)
    for row, found in enumerate(np.concatenate([x, rest], axis=1)):
        assert_within(found, a[row], u[row], window)


def test_what_stands_for_nothing(rng):
    a, u = draw(rng, (0,), np.float32, HALVES[0])
    assert rf.solve(a, u).shape == (0,)
    _, state = rf.solve(a, u, return_state=True)
    assert rf.solve(np.float32([0.5]), np.float16([2]), state=state).tolist() == [2.0]


def test_reverse_and_algorithms_convert_first(rng):
    a, u = draw(rng, (150,), np.float32, HALVES[1])
    for options in ({"reverse": True}, {"algorithm": "sequential"}):
        expected = rf.solve(a, u.astype(np.float32), **options)
        np.testing.assert_array_equal(rf.solve(a, u, **options), expected)


def test_tensors(short, rng):
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(rng.uniform(-1, 1, (3, 150)).astype(np.float32))
    u = torch.from_numpy(rng.standard_normal((3, 150))).to(torch.bfloat16)
    x = rf.solve(a, u)
    assert x.dtype == torch.float32
    out = torch.empty_like(u)
    rf.solve(a, u, out=out)
    assert torch.equal(out, x.to(torch.bfloat16))
    for row in range(3):
        assert_within(x[row].numpy(), a[row].numpy(), u[row].float().numpy(), Full())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(1 << 20,), (1 << 14, 64)], ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(9)], ids=str)
def test_memory_is_bounded(monkeypatch, rng, shape, window):
    """No array of the size of the inputs is made, only pieces."""
    monkeypatch.setattr("recfact.mixed_types.PIECE", 1 << 13)
    a, u = draw(rng, shape, np.float32, HALVES[1])
    for kind in (np.float32, HALVES[1]):
        out = np.empty(shape, kind)
        rf.solve(a, u, axis=0, window=window, out=out)
        tracemalloc.start()
        try:
            rf.solve(a, u, axis=0, window=window, out=out)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < u.size, "a byte for each number"
