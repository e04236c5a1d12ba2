"""Segments: each is solved as a sequence of its own, whatever lies beside it.

States are known in advance (`walks`) or are those of calls of their own. What decides how a solve is split is made so
small that a few hundred steps meet all of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest
from guarded import Fenced, check_in_child
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import layouts
from noted import in_turn
from oracle import assert_near_definition
from walks import DTYPES, FEW_DTYPES, Walk

import recfact as rf
from recfact.cpu import limits, row_job
from recfact.errors import ArrayTypeError, OptionError, OptionTypeError, ShapeError
from recfact.number_types import accumulator
from recfact.windows import Full, Jagged, Uniform, Window

Array = np.ndarray[Any, Any]

SMALL = {"WORTH_THREADS": 1, "WORTH_HALO": 0, "BAND_TILES": 2, "SPAN": 256, "WORTH_TWO_PASSES": 2, "BATCH": 3}
WINDOWS = (
    Full(),
    Jagged(1, 0),
    Jagged(3, 0),
    Jagged(5, 2),
    Jagged(16),
    Jagged(64, 3),
    Jagged(100),
    Uniform(3),
    Uniform(9),
    Uniform(32),
    Uniform(64),
    Uniform(100),
)
LENGTHS = (0, 0, 1, 1, 2, 3, 5, 8, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 250)
WAYS = ("forward", "from x0", "backward")


def offsets_of(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]


@st.composite
def runs(draw: st.DrawFn, most: int = 12) -> list[int]:
    """Draw the lengths of segments: some of any kind, and some many times over."""
    lengths: list[int] = []
    for length in draw(st.lists(st.sampled_from(LENGTHS), max_size=most)):
        lengths += [length] * (draw(st.sampled_from([1, 1, 1, 3, 70])) if length < 9 else 1)
    return lengths


def walks(
    lengths: Sequence[int], channels: tuple[int, ...], dtype: np.dtype[Any], window: Window, way: str
) -> tuple[Array, Array, Array, Array]:
    """Return coefficients, inputs, initial states and states of segments, time on axis 0, known without arithmetic."""
    pieces = []
    for index, length in enumerate(lengths):
        walk = Walk(length + index % 7, channels, dtype, 0.05)
        reverse, initial = way == "backward", way == "from x0"
        if length == 0:
            empty = np.zeros((0, *channels), dtype)
            pieces.append((empty, empty, np.full(channels, np.nan, accumulator(dtype)), empty))
        else:
            pieces.append((*walk.problem(length, reverse), walk.x0, walk.states(length, window, reverse, initial)))
    if not pieces:
        empty = np.zeros((0, *channels), dtype)
        return empty, empty, np.zeros((0, *channels), accumulator(dtype)), empty
    a, u, x0, x = zip(*pieces, strict=True)
    return np.concatenate(a), np.concatenate(u), np.stack(x0), np.concatenate(x)


@pytest.mark.parametrize("dtype", FEW_DTYPES)
@settings(max_examples=40)
@given(
    lengths=runs(),
    window=st.sampled_from(WINDOWS),
    way=st.sampled_from(WAYS),
    channels=st.sampled_from([(), (), (), (1,), (3,), (17,), (2, 3)]),
    threads=st.integers(1, 9),
    long_segment=st.sampled_from([1, 40, 1 << 40]),
    in_place=st.booleans(),
    data=st.data(),
)
def test_states_are_those_of_sequences_of_their_own(
    lengths, dtype, window, way, channels, threads, long_segment, in_place, data
):
    """To the last bit: nothing is rounded here. Coefficients that nothing multiplies are NaN."""
    a, u, x0, expected = walks(lengths, channels, DTYPES[dtype], window, way)
    offsets = np.array(offsets_of(lengths))
    if way != "from x0" and len(a):
        a[offsets[:-1][np.diff(offsets) > 0]] = np.nan
    axis = data.draw(st.integers(0, len(channels)))
    a, u, x0, expected = (np.moveaxis(array, 0, axis) for array in (a, u, x0, expected))
    a, u = (data.draw(layouts(a.ndim)).array(array) for array in (a, u))
    options = {"x0": x0} if way == "from x0" else {"reverse": way == "backward"}
    if in_place:
        options["out"] = u
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (SMALL | {"LONG_SEGMENT": long_segment}).items():
            patch.setattr(limits, name, value)
        found = rf.solve(a, u, axis=axis, window=window, offsets=offsets, threads=threads, **options)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(1)
@in_turn("window", WINDOWS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_states_are_within_the_bound(window, way, dtype, rng):
    lengths = rng.permutation([*range(12), 40, 64, 65, 130, 300])
    n, kind = sum(lengths), DTYPES[dtype]
    a, u = rng.uniform(-1.1, 1.1, n).astype(kind), rng.standard_normal(n).astype(kind)
    x0 = rng.standard_normal(len(lengths)).astype(accumulator(kind))
    reverse = way == "backward"
    x = rf.solve(a, u, x0=x0 if way == "from x0" else None, reverse=reverse, window=window, offsets=offsets_of(lengths))
    for index, (start, end) in enumerate(pairwise(offsets_of(lengths))):
        entering = x0[index] if way == "from x0" else None
        assert_near_definition(x[start:end], a[start:end], u[start:end], window, entering, reverse)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("way", WAYS)
@pytest.mark.parametrize("shape", [(), (3,), (17,)], ids=str)
def test_what_spoils_a_segment_changes_no_bit_of_another_on_any_number_of_threads(window, way, shape, rng, monkeypatch):
    """Neither NaN, nor infinities, nor products that overflow where no state does."""
    for name, value in SMALL.items():
        monkeypatch.setattr(limits, name, value)
    lengths = rng.permutation([0, 1, 1, 2, 3, 4, 7, 9, 20, 33, 64, 90, 200])
    offsets = offsets_of(lengths)
    n = offsets[-1]
    a, u = (rng.uniform(-1, 1, (*shape, n)).astype(np.float32) for _ in "au")
    options = {"window": window, "offsets": offsets, "reverse": way == "backward"}
    if way == "from x0":
        options["x0"] = rng.standard_normal((*shape, len(lengths)))
    clean = rf.solve(a, u, **options)
    for index, value in product(np.flatnonzero(lengths), (np.nan, np.inf, -np.inf, 1e30)):
        piece = (..., slice(offsets[index], offsets[index + 1]))
        spoilt_a, spoilt_u = a.copy(), u.copy()
        (spoilt_a if value == 1e30 else spoilt_u)[piece] = value
        others = np.ones(n, bool)
        others[piece[1]] = False
        x = rf.solve(spoilt_a, spoilt_u, threads=1, **options)
        np.testing.assert_array_equal(x[..., others], clean[..., others])
        assert x.tobytes() == rf.solve(spoilt_a, spoilt_u, threads=int(index) % 8 + 2, **options).tobytes()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@in_turn("way", WAYS)
@in_turn("worth", [0, 1 << 40])
def test_threads_change_no_bit(window, way, worth, rng, monkeypatch):
    for name, value in (SMALL | {"WORTH_HALO": worth}).items():
        monkeypatch.setattr(limits, name, value)
    for spread in (3, 50, 900):
        lengths = rng.integers(0, spread, 4000 // spread)
        n = int(lengths.sum())
        a, u = rng.uniform(-1, 1, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
        options = {"window": window, "offsets": offsets_of(lengths), "reverse": way == "backward"}
        if way == "from x0":
            options["x0"] = rng.standard_normal(len(lengths))
        assert len({rf.solve(a, u, threads=threads, **options).tobytes() for threads in range(1, 10)}) == 1


@pytest.mark.parametrize(("worth", "most"), [(4, 100_000 // 20 // 32 + 1), (1 << 40, 1)])
def test_little_is_solved_twice_for_threads(worth, most, rng, monkeypatch):
    """A piece of the whole recurrence has its entry from a segment's start that is near, or begins behind one."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    monkeypatch.setattr(limits, "WORTH_HALO", worth)
    skipped = []
    run = row_job.Job.run

    def watched(job: Any, *args: Any, skip: int = 0, **options: Any) -> int:
        skipped.append(skip)
        return run(job, *args, skip=skip, **options)

    monkeypatch.setattr(row_job.Job, "run", watched)
    n = 100_000
    a, u = rng.uniform(-1, 1, n), rng.standard_normal(n)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, n, 40)), [n]])
    for reverse in (False, True):
        expected = rf.solve(a, u, offsets=offsets, threads=1, reverse=reverse)
        skipped.clear()
        assert rf.solve(a, u, offsets=offsets, threads=5, reverse=reverse).tobytes() == expected.tobytes()
        assert len(skipped) == 5
        assert max(skipped) <= most


def test_a_segment_that_fills_a_row_is_left_to_one_thread(rng, monkeypatch):
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    n = 30_000
    a, u = rng.uniform(-1, 1, n), rng.standard_normal(n)
    for offsets in ([0, 5, n], [0, n - 5, n]):
        for reverse in (False, True):
            results = {rf.solve(a, u, offsets=offsets, threads=t, reverse=reverse).tobytes() for t in (1, 2, 9)}
            assert len(results) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("steps", [2, 4, 70, 900])
def test_starts_in_thousands_of_steps(steps, reverse, dtype, rng, monkeypatch):
    """Those of some tiles are found at once, and anew behind a tile that isn't finite; states are exact."""
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)
    for n in (1023, 1024, 1025, 5000):
        a, u = rng.integers(-1, 2, n).astype(dtype), rng.integers(-3, 4, n).astype(dtype)
        u[rng.integers(0, n, 3)] = np.nan
        cuts = rng.integers(0, n + 1, n // steps)
        offsets = np.sort(np.concatenate([[0, 0], cuts, cuts[:5], [n]]))
        places = [slice(start, end) for start, end in pairwise(offsets)]
        expected = np.concatenate([rf.solve(a[at], u[at], reverse=reverse) for at in places])
        for threads in (1, 3):
            memory = np.full(n + 2, np.nan, dtype)
            x = memory[1:-1]
            rf.solve(a, u, offsets=offsets, out=x, reverse=reverse, threads=threads)
            np.testing.assert_array_equal(x, expected)
            assert np.isnan(memory[[0, -1]]).all()


@pytest.mark.sampled(1)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("cases", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_nothing_is_touched_outside_of_the_arrays(way, dtype, cases):
    memory = {name: Fenced(1 << 20) for name in ("a", "u", "x", "x0", "offsets")}
    kind = DTYPES[dtype]

    def check(case: tuple[Any, ...]) -> None:
        lengths, window, channels, threads, at = case
        a, u, x0, expected = walks(lengths, channels, kind, window, way)
        a, u, x0 = (memory[name].copy(array, at) for name, array in (("a", a), ("u", u), ("x0", x0)))
        offsets = memory["offsets"].copy(np.array(offsets_of(lengths)), at)
        out = memory["x"].empty(u.shape, kind, at)
        options = {"x0": x0} if way == "from x0" else {"reverse": way == "backward"}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SMALL.items():
                patch.setattr(limits, name, value)
            rf.solve(a, u, axis=0, window=window, offsets=offsets, out=out, threads=threads, **options)
        np.testing.assert_array_equal(out, expected)
        assert memory["x"].untouched(out)

    draw = Random(way + dtype)
    check_in_child(
        check,
        (
            (
                draw.choices(LENGTHS, k=draw.randint(1, 8)) + [draw.choice(LENGTHS[2:])] * draw.choice([1, 2, 9]),
                draw.choice(WINDOWS),
                draw.choice([(), (), (3,), (16,)]),
                draw.randint(1, 5),
                draw.choice(["start", "end"]),
            )
            for _ in range(cases)
        ),
    )


@pytest.mark.parametrize("window", [Full(), Jagged(3), Uniform(2)], ids=str)
@pytest.mark.parametrize("algorithm", ["auto", "sequential"])
def test_exact_scalars_are_solved_segment_by_segment(window, algorithm, rng):
    offsets = [0, 0, 4, 5, 5, 11, 11]
    a, u, x0 = (
        np.vectorize(Fraction, otypes=[object])(rng.integers(-9, 10, (2, n)), rng.integers(1, 9, (2, n)))
        for n in (11, 11, 6)
    )
    for options in ({}, {"reverse": True}, {"x0": x0}):
        found = rf.solve(a, u, window=window, offsets=offsets, algorithm=algorithm, **options)
        for index, (start, end) in enumerate(pairwise(offsets)):
            own = options | ({"x0": x0[:, index]} if "x0" in options else {})
            assert (found[:, start:end] == rf.solve(a[:, start:end], u[:, start:end], window=window, **own)).all()
    floats = rf.solve(a.astype(float), u.astype(float), window=window, offsets=offsets, algorithm="sequential")
    np.testing.assert_allclose(floats, rf.solve(a, u, window=window, offsets=offsets).astype(float), rtol=1e-12)


def test_initial_states_broadcast_to_a_step_for_each_segment():
    a, u, offsets = np.ones((2, 5)), np.zeros((2, 5)), [0, 2, 2, 5]
    for x0 in (3.0, [[3.0]], [3.0, 4.0, 5.0], [[1.0], [2.0]], np.arange(6.0).reshape(2, 3)):
        states = np.broadcast_to(x0, (2, 3))
        expected = np.repeat(states, np.diff(offsets), axis=1)
        np.testing.assert_array_equal(rf.solve(a, u, offsets=offsets, x0=x0), expected)
        np.testing.assert_array_equal(rf.solve(a.T, u.T, axis=0, offsets=offsets, x0=np.transpose(states)), expected.T)
    for wrong in ([1.0, 2.0], np.ones((3, 2)), np.ones((1, 2, 3))):
        with pytest.raises(ShapeError, match=r"one step for each segment, of shape \(2, 3\)"):
            rf.solve(a, u, offsets=offsets, x0=wrong)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64", ">i4", "list", "strided"])
def test_integers_of_any_kind_are_offsets(kind):
    offsets: Any = [0, 1, 3]
    if kind == "strided":
        offsets = np.array([0, 9, 1, 9, 3])[::2]
    elif kind != "list":
        offsets = np.array(offsets, kind)
    np.testing.assert_array_equal(rf.solve([1.0] * 3, [1.0, 1.0, 1.0], offsets=offsets), [1, 1, 2])


def test_nothing_is_solved_of_nothing():
    for offsets in ([0], [0, 0], [0, 0, 0, 0]):
        for x0 in (None, 1.0, np.ones(len(offsets) - 1)):
            assert rf.solve([], [], offsets=offsets, x0=x0).shape == (0,)
    assert rf.solve(np.ones((0, 3)), np.ones((0, 3)), offsets=[0, 2, 3]).shape == (0, 3)


@pytest.mark.parametrize(
    ("offsets", "error", "words"),
    [
        ([0, 2], ShapeError, "must begin with 0 and end with 3, the number of steps, got 0 and 2"),
        ([1, 3], ShapeError, "must begin with 0 and end with 3, the number of steps, got 1 and 3"),
        ([0, 4], ShapeError, "got 0 and 4"),
        ([-1, 3], ShapeError, "got -1 and 3"),
        ([0], ShapeError, "got 0 and 0"),
        ([0, 2, 1, 3], ShapeError, r"must not fall, got 1 after 2 at index 2; pass numpy\.cumsum of the lengths"),
        ([0, 5, 3], ShapeError, "must not fall, got 3 after 5 at index 2"),
        (np.array([0, 2**64 - 1, 3], np.uint64), ShapeError, "must not fall"),
        ([0, 2**62, -(2**62), 3], ShapeError, "must not fall"),
        ([], ShapeError, r"must be one list .* got shape \(0,\)"),
        (3, ShapeError, r"got shape \(\)"),
        ([[0, 3]], ShapeError, r"got shape \(1, 2\)"),
        ([[0], [0, 3]], ArrayTypeError, "offsets must be an array"),
        ([0.0, 3.0], OptionTypeError, "offsets must be integers, where segments start, got an array of float64"),
        (["a", "a", "b"], OptionTypeError, r"got an array of <U1; pass positions such as \[0, 3, 6\], not labels"),
        ([False, True], OptionTypeError, "got an array of bool"),
        (["0", "3"], OptionTypeError, "must be integers"),
    ],
    ids=str,
)
def test_what_is_no_list_of_starts_is_refused(offsets, error, words):
    out = np.full(3, 7.0)
    for dtype in (float, object):
        a = np.ones(3, dtype)
        with pytest.raises(error, match=words):
            rf.solve(a, a, offsets=offsets)
    with pytest.raises(error, match=words):
        rf.solve(np.ones(3), np.ones(3), offsets=offsets, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("algorithm", ["kogge-stone", "brent-kung", "hierarchical"])
def test_named_algorithms_take_no_segments(algorithm):
    with pytest.raises(OptionError, match=f"algorithm='{algorithm}' takes no offsets"):
        rf.solve([1.0], [1.0], offsets=[0, 1], algorithm=algorithm)


def test_what_solves_a_single_sequence_takes_no_segments():
    with pytest.raises(OptionError, match="x0 doesn't go with reverse"):
        rf.solve([1.0], [1.0], offsets=[0, 1], x0=1.0, reverse=True)
    with pytest.raises(TypeError, match="offsets"):
        rf.solve_chunks([([1.0], [1.0])], offsets=[0, 1])


def test_results_keep_their_labels():
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2026-01-01", periods=4)
    frame = pd.DataFrame({"a": [1.0] * 4, "b": [2.0] * 4}, index=index)
    offsets = pd.Series([0, 1, 4])
    found = rf.solve(0.5, frame, axis=0, offsets=offsets)
    assert found.index.equals(index)
    expected = rf.solve(np.full((4, 2), 0.5), frame.to_numpy(), axis=0, offsets=[0, 1, 4])
    np.testing.assert_array_equal(found, expected)
    with_states = rf.solve(0.5, frame, axis=0, offsets=offsets, x0=[[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(with_states.iloc[[0, 1]], [[1.5, 3.0], [2.5, 4.0]])
    with pytest.raises(ArrayTypeError, match="x0 must be an array without labels here, got a Series"):
        rf.solve(0.5, frame, axis=0, offsets=offsets, x0=frame.iloc[0])


@pytest.mark.torch
def test_tensors_may_say_where_segments_start():
    import torch

    a = torch.ones(4)
    found = rf.solve(a, a, offsets=torch.tensor([0, 3, 4], dtype=torch.int32))
    assert found.tolist() == [1, 2, 3, 1]
