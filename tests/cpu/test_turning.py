"""Channels that are copied to where they lie next to each other: the bits are those of channels that are left alone."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from fused import assert_same, defined, make_numbers, solve, to_storage
from guarded import Fenced, check_in_child
from noted import in_turn

from recfact.cpu import channels, limits
from recfact.windows import Full, Jagged, Uniform

DTYPES = [np.dtype(t) for t in ("float32", "float64", "complex64", ml_dtypes.bfloat16)]
WINDOWS = [Full(), Jagged(4), Jagged(3, 2), Uniform(3), Uniform(11), Jagged(2, 9)]

# Steps first, then channels; a letter of the order is an axis as it lies in memory, the farthest first.
ROWS = [((steps, rows), "ct") for steps in (1, 2, 3, 8, 21) for rows in (19, 70)] + [((5, 300), "ct")]
PIECES = [((steps, few), "tc") for steps in (150, 157) for few in (1, 2, 3)]
MIXED = [((9, 20, 3), "ctd"), ((9, 3, 20), "dct"), ((150, 2, 2), "tcd")]


def laid_out(array, order):
    """Return a copy of an array, time on axis 0, whose axes lie in memory in the order of the letters of t, c and d."""
    axes = ["tcd".index(letter) for letter in order]
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def problem(rng, shape, order, dtype):
    a = laid_out(make_numbers(rng, "decaying", shape, dtype), order)
    return a, laid_out(make_numbers(rng, "normal", shape, dtype), order)


def left_alone(monkeypatch, *arguments):
    """Solve without copies."""
    with monkeypatch.context() as patch:
        patch.setattr(limits, "FEW_LANES", 1 << 60)
        return solve(*arguments)


@pytest.fixture(autouse=True, params=[(8, 16, 1 << 14), (32, 8, 60)], ids=["short copies", "short pieces"])
def small(request, monkeypatch):
    for name, value in zip(("TURNED", "PIECE", "LONGEST_COPY"), request.param, strict=True):
        monkeypatch.setattr(limits, name, value)


def counted(monkeypatch):
    """Count the problems that are turned."""
    found = []
    plain = channels.turns_of
    monkeypatch.setattr(channels, "turns_of", lambda *arguments: found.append(1) or plain(*arguments))
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("way", ["forward", "reverse", "x0"])
def test_the_bits_of_channels_that_are_left_alone(rng, monkeypatch, dtype, window, way):
    found = counted(monkeypatch)
    for shape, order in ROWS + PIECES + MIXED:
        a, u = problem(rng, shape, order, dtype)
        x0 = make_numbers(rng, "normal", shape[1:], channels.accumulator(dtype)) if way == "x0" else None
        expected = left_alone(monkeypatch, a, u, x0, way == "reverse", window)
        for threads in (1, 3):
            x = laid_out(np.full(shape, np.nan).astype(dtype), order)
            channels.solve_into(a, u, x, x0, reverse=way == "reverse", window=window, threads=threads)
            assert_same(x, expected)
        channels.solve_into(a[:, :1], u, x, x0, reverse=way == "reverse", window=window, threads=1)
        assert_same(x, left_alone(monkeypatch, a[:, :1], u, x0, way == "reverse", window))
        channels.solve_into(a, u, u, x0, reverse=way == "reverse", window=window, threads=1)
        assert_same(u, expected)
    assert found


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_numbers_that_are_not_finite(rng, monkeypatch, window, reverse):
    for shape, order in [((21, 40), "ct"), ((157, 2), "tc")]:
        a, u = problem(rng, shape, order, np.dtype(np.float32))
        a[rng.random(shape) < 0.02], u[rng.random(shape) < 0.02] = np.inf, np.nan
        u[rng.random(shape) < 0.1] = 3e38
        with np.errstate(all="ignore"):
            x = laid_out(np.empty_like(u), order)
            channels.solve_into(a, u, x, None, reverse=reverse, window=window, threads=1)
            assert_same(x, left_alone(monkeypatch, a, u, None, reverse, window))


def test_plain_loops(rng):
    a, u = problem(rng, (13, 24), "ct", np.dtype(np.float32))
    for window in (Full(), Jagged(4)):
        x = laid_out(np.empty_like(u), "ct")
        channels.solve_into(a, u, x, None, reverse=False, window=window, threads=1)
        assert_same(x, to_storage(defined(a, u, None, False, window), u.dtype))


def test_segments_of_rows(rng, monkeypatch):
    a, u = problem(rng, (21, 40), "ct", np.dtype(np.float32))
    offsets, x0 = np.array([0, 5, 5, 16, 21]), make_numbers(rng, "normal", (4, 40), u.dtype)
    for window, reverse, entries in product((Full(), Jagged(4)), (False, True), (None, x0)):
        if reverse and entries is not None:
            continue
        x, expected = laid_out(np.empty_like(u), "ct"), laid_out(np.empty_like(u), "ct")
        options = {"reverse": reverse, "window": window, "threads": 1, "offsets": offsets}
        channels.solve_into(a, u, x, entries, **options)
        with monkeypatch.context() as patch:
            patch.setattr(limits, "FEW_LANES", 1 << 60)
            channels.solve_into(a, u, expected, entries, **options)
        assert_same(x, expected)


def test_nothing_else_is_touched(rng):
    """Arrays that start or end where memory does; nothing before or behind is read or written."""
    fences = [Fenced(1 << 13) for _ in "aux"]

    def check(case):
        (steps, others), at, window, gaps, reverse = case
        shape = (others, steps) if steps < 50 else (steps, others)
        a, u, x = (fence.empty(shape, np.float32, at, gaps) for fence in fences)
        a[...], u[...] = rng.random(shape), rng.random(shape)
        if steps < 50:
            arrays = [array.T for array in (a, u, x)]
        else:
            arrays = [a, u, x]
        channels.solve_into(*arrays, None, reverse=reverse, window=window, threads=1)
        expected = np.empty((steps, others), np.float32)
        channels.solve_into(
            arrays[0].copy(), arrays[1].copy(), expected, None, reverse=reverse, window=window, threads=1
        )
        assert_same(arrays[2], expected)
        assert fences[2].untouched(x)

    shapes = [(2, 19), (3, 70), (21, 40), (157, 2)]
    windows, gaps = (Full(), Jagged(4), Uniform(11)), ((1,), (-1,), (2,), (1, -1))
    check_in_child(check, product(shapes, ("start", "end"), windows, gaps, (False, True)))


def test_results_past_the_caches(rng, monkeypatch):
    monkeypatch.setattr(limits, "STREAMED", 1)
    for shape, order in [((8, 300), "ct"), ((157, 2), "tc")]:
        a, u = problem(rng, shape, order, np.dtype(np.float32))
        x = laid_out(np.empty_like(u), order)
        channels.solve_into(a, u, x, None, reverse=False, window=Jagged(4), threads=1)
        assert_same(x, left_alone(monkeypatch, a, u, None, False, Jagged(4)))


@pytest.mark.parametrize("window", [Jagged(4), Uniform(3)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@in_turn("flip", [1, -1])
@in_turn("gap", [0, 4])
def test_results_past_the_caches_at_every_address(rng, monkeypatch, window, reverse, flip, gap):
    """A write to an address that doesn't suit it would end the process."""
    monkeypatch.setattr(limits, "STREAMED", 1)
    a, u = (rng.uniform(-1, 1, (8, 3, 40)).astype(np.float32) for _ in "au")
    expected = left_alone(monkeypatch, a, u, None, reverse, window)
    for offset in range(0, 64, 4):
        memory = np.full(3 * (40 * 32 + gap) + 192, 7, np.uint8)
        start = -memory.ctypes.data % 64 + 64 + offset
        rows = np.ndarray((3, 40, 8), np.float32, memory, start, (40 * 32 + gap, 32, 4))
        x = np.moveaxis(rows[..., ::flip], -1, 0)
        channels.solve_into(a, u, x, None, reverse=reverse, window=window, threads=1)
        assert_same(x, expected)
        x[...] = np.full(4, 7, np.uint8).view(np.float32)[0]
        assert (memory == 7).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", [Jagged(3, 2), Uniform(11)], ids=str)
def test_pieces_of_a_long_channel_are_solved_side_by_side(rng, monkeypatch, reverse, window):
    found, plain = [], channels.turns_of
    monkeypatch.setattr(
        channels, "turns_of", lambda x, part, behind: found.append(part.lanes.length) or plain(x, part, behind)
    )
    a, u = problem(rng, (2000, 1), "tc", np.dtype(np.complex64))
    x = np.empty_like(u)
    channels.solve_into(a, u, x, None, reverse=reverse, window=window, threads=1)
    assert max(found) >= limits.FEW_LANES
    assert_same(x, left_alone(monkeypatch, a, u, None, reverse, window))


@pytest.mark.parametrize(
    ("steps", "width", "window", "turns"),
    [
        (10, 1, Full(), True),
        (11, 1, Full(), False),
        (5, 2, Full(), True),
        (6, 2, Full(), False),
        (11, 1, Jagged(5, 0), False),
        (11, 1, Jagged(4), True),
    ],
    ids=str,
)
def test_long_runs_of_one_state_are_left_alone(rng, monkeypatch, steps, width, window, turns):
    monkeypatch.setattr(limits, "LONGEST_RUN", 40)
    found = counted(monkeypatch)
    a, u = problem(rng, (steps, 20, width), "ctd", np.dtype(np.float32))
    x = laid_out(np.empty_like(u), "ctd")
    channels.solve_into(a, u, x, None, reverse=False, window=window, threads=1)
    assert bool(found) == turns
    assert_same(x, to_storage(defined(a, u, None, False, window), u.dtype))
