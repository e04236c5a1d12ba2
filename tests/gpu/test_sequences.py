"""Sequences that lie one behind the other on a GPU: by one launch or by many, and nothing passes between them."""

from itertools import pairwise

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.bounds import bound
from gpu.cases import COMPUTED, LAYOUTS, NUMPY, Case, channel_axis, random_numbers, strided
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, DeviceError, ShapeError
from recfact.gpu import host_arrays
from recfact.gpu.launch import plan
from recfact.gpu.multiprocessors import Device
from recfact.gpu.segments import LAUNCH_STEPS
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import ENDLESS, Sequences, Solve
from recfact.windows import Full, Jagged, Uniform
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.machine_code import usage

SHORT = [0, 0, 7, 8, 40, 40, 41, 73, 90, 90]
ALIGNED = [0, 16, 16, 48, 56, 96]
LONG = [0, 300, 301, 700]
HEADS, ROWS, STEPS = "head, time, channel", "head, channel, time", "time, head, channel"

# Offsets, layout, number type, window, kernel of the last launch, launches.
SOLVES = {
    "short": (SHORT, HEADS, "float32", Full(), "sweep", 1),
    "short, halves": (SHORT, STEPS, "bfloat16", Full(), "sweep", 1),
    "short rows": (SHORT, ROWS, "float32", Full(), "sweep", 1),
    "aligned rows": (ALIGNED, ROWS, "float32", Full(), "sweep", 1),
    "aligned rows in blocks": (ALIGNED, ROWS, "float16", Jagged(8), "sweep", 1),
    "blocks": (SHORT, HEADS, "float32", Jagged(8), "sweep", 1),
    "blocks alone": (SHORT, HEADS, "complex64", Jagged(5, 0), "sweep", 1),
    "blocks of rows": (SHORT, ROWS, "float64", Jagged(8), "sweep", 1),
    "longer than all": (SHORT, HEADS, "float32", Jagged(16, 3), "sweep", 1),
    "several blocks": (SHORT, HEADS, "float32", Jagged(4, 3), "sliding", 1),
    "band": (ALIGNED, ROWS, "float32", Uniform(5), "sliding", 1),
    "a band in halves": (SHORT, STEPS, "bfloat16", Uniform(16), "sliding", 1),
    "slots in global memory": ([*SHORT[:-1], 300], HEADS, "float32", Uniform(200), "sliding", 1),
    "long, several blocks": (LONG, HEADS, "float32", Jagged(16, 3), "sliding", 3),
    "long": (LONG, HEADS, "float32", Full(), "chain", 3),
    "long, halves": (LONG, HEADS, "bfloat16", Jagged(16), "b2p", 3),
}
SLIDING = ["several blocks", "a band in halves", "slots in global memory"]


def solved(name, rng, reverse):
    """Return the arrays of a solve: coefficients, inputs, initial states, time."""
    offsets, layout, dtype, *_ = SOLVES[name]
    make, axis = LAYOUTS[layout]
    shape = make(2, offsets[-1], 8)
    shared, entering = list(shape), list(shape)
    shared[channel_axis(layout)], entering[axis] = 1, len(offsets) - 1
    a, u = random_numbers(rng, shared, dtype, 0.95), random_numbers(rng, shape, dtype)
    return a, u, None if reverse else random_numbers(rng, entering, COMPUTED.get(dtype, dtype)), axis


def check(launches, a, u, x0, x, axis, window, reverse, offsets):
    """See that each sequence is within the bound of its launch."""
    kinds = iter(launches * (1 if len(launches) > 1 else len(offsets)))
    for k, (start, end) in enumerate(pairwise(offsets)):
        if start == end:
            continue
        steps = (slice(None),) * axis + (slice(start, end),)
        entering = None if x0 is None else x0[(slice(None),) * axis + (slice(k, k + 1),)]
        case = Case(a[steps], u[steps], x[steps], axis, entering)
        expected, most = bound(next(kinds), case, window, reverse)
        assert (np.abs(np.moveaxis(x[steps], axis, 0).astype(expected.dtype) - expected) <= most).all(), (start, end)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SOLVES)
def test_each_sequence_is_solved_by_itself(machine, rng, name, reverse):
    offsets, _, _, window, kernel, count = SOLVES[name]
    a, u, x0, axis = solved(name, rng, reverse)
    x = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0), axis=axis, reverse=reverse, window=window, offsets=offsets)
    launches = [recorded.launch for recorded in machine.launches]
    assert kernel in {launch.kernel for launch in launches}
    assert len(launches) == count
    check(launches, a, u, x0, x.get(), axis, window, reverse, offsets)


@pytest.mark.parametrize("offsets", [SHORT, LONG])
def test_not_even_nan_passes_from_one_to_another(machine, rng, offsets):
    a, u = random_numbers(rng, (offsets[-1], 4), "float32"), random_numbers(rng, (offsets[-1], 4), "float32")
    start, end = offsets[-4], offsets[-3]
    expected = rf.solve(on_gpu(a), on_gpu(u), axis=0, offsets=offsets).get()
    a[start:end], u[start:end], a[end] = np.nan, np.inf, np.nan  # the first coefficient of the next isn't read
    x = rf.solve(on_gpu(a), on_gpu(u), axis=0, offsets=offsets).get()
    assert not np.isfinite(x[start:end]).any()
    expected[start:end] = x[start:end]
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("offsets", [SHORT, LONG])
def test_results_go_where_the_caller_says(machine, rng, offsets):
    a, u = random_numbers(rng, (offsets[-1], 1), "float32"), random_numbers(rng, (offsets[-1], 4), "float32")
    for window in (Full(), Jagged(8)):
        expected = rf.solve(on_gpu(a), on_gpu(u), axis=0, window=window, offsets=offsets).get()
        given = on_gpu(u)
        assert rf.solve(on_gpu(a), given, axis=0, window=window, offsets=offsets, out=given) is given
        np.testing.assert_array_equal(given.get(), expected)


def test_a_state_that_all_sequences_share_and_coefficients_of_all_steps(machine):
    x = rf.solve(0.5, on_gpu(np.ones((9, 2))), x0=2.0, axis=0, offsets=[0, 4, 9])
    np.testing.assert_array_equal(x.get(), np.full((9, 2), 2.0))
    x0 = on_gpu(np.array([[1.0], [2.0]]))
    x = rf.solve(on_gpu(np.full((1, 1), 0.5)), on_gpu(np.zeros((9, 2))), x0=x0, axis=0, offsets=[0, 4, 9])
    np.testing.assert_array_equal(x.get()[:, 0], [0.5, 0.25, 0.125, 0.0625, 1, 0.5, 0.25, 0.125, 0.0625])


def test_tensors_and_arrays_of_many_dimensions(machine, rng):
    a, u = random_numbers(rng, (2, 1, 3, 20, 1), "float32"), random_numbers(rng, (2, 5, 3, 20, 4), "float32")
    x0 = random_numbers(rng, (2, 5, 1, 3, 4), "float32")
    given = map(torch_stand_in.tensor, (a, u, x0))
    x = rf.solve(*[next(given), next(given)], x0=next(given), axis=3, offsets=[0, 6, 7, 20])
    assert len(machine.launches) == 2  # by slices
    expected = rf.solve(a, u, x0=x0, axis=3, offsets=[0, 6, 7, 20])
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offsets", [[0, 0], [0, 0, 0]])
def test_nothing_is_launched_for_no_steps(machine, offsets):
    assert rf.solve(on_gpu(np.ones((0, 2))), on_gpu(np.ones((0, 2))), axis=0, offsets=offsets).shape == (0, 2)
    assert not machine.launches


def test_plans_are_found_again_for_other_lengths(machine):
    u = on_gpu(np.ones((50, 4), "f4"))
    for offsets in ([0, 10, 26, 50], [0, 9, 20, 50]):
        rf.solve(0.5, u, axis=0, offsets=offsets)
    assert machine.compiled == ["sweep"]


def test_what_a_plan_knows_of_sequences():
    assert sequences_of(np.array([0, 24, 40, 40])) == Sequences(3, 32, 8)
    assert sequences_of(np.array([0, 1])) == Sequences(1, 1, 1)
    assert ENDLESS % sequences_of(np.array([0, 1 << 40])).unit == 0


def test_few_long_sequences_are_launched_one_by_one():
    u = strided(np.empty((1 << 15, 4), "f4"))
    for count, together in ((1 << 15 >> 6, True), (4, False)):
        longest = (1 << 15) // count
        solve = Solve(u, u, u, None, 0, Full(), sequences=Sequences(count, longest, 64))
        launch = plan(solve, Device((9, 0), 132))
        assert together == (longest <= LAUNCH_STEPS * count)
        assert (launch is not None) == together


@pytest.mark.parametrize("size", [host_arrays.SEGMENT_BYTES, 5000])
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_of_the_host(machine, monkeypatch, rng, reverse, size):
    monkeypatch.setattr(host_arrays.solve_sequences, "__defaults__", (size,))
    for dtype in ("float32", "bfloat16"):
        offsets = [0, 5, 5, 300, 310, 320, 400]
        a, u = random_numbers(rng, (400, 1), dtype, 0.9), random_numbers(rng, (400, 8), dtype)
        x0 = None if reverse else random_numbers(rng, (6, 1), "float32")
        x = rf.solve(a, u, x0=x0, axis=0, reverse=reverse, offsets=offsets, device="gpu")
        assert x.dtype == NUMPY[dtype]
        expected = rf.solve(a, u, x0=x0, axis=0, reverse=reverse, offsets=offsets)
        np.testing.assert_allclose(x.astype("f8"), expected.astype("f8"), rtol=1e-5 if dtype == "float32" else 2**-7)
    rf.solve(a, u, axis=0, offsets=[0, 0, 400], device="gpu", out=u)
    assert rf.solve(a[:0], u[:0], axis=0, offsets=[0], device="gpu").shape == (0, 8)


def test_bad_offsets_launch_nothing(machine):
    u = on_gpu(np.ones((4, 2)))
    for offsets, words in (([0, 3], "end with 4"), ([0, 3, 2, 4], "must not fall")):
        with pytest.raises(ShapeError, match=words):
            rf.solve(0.5, u, axis=0, offsets=offsets)
    with pytest.raises(ArrayTypeError, match="offsets must be on the host"):
        rf.solve(0.5, u, axis=0, offsets=on_gpu(np.array([0, 4])))
    with pytest.raises(ShapeError, match="one step for each segment, of shape"):
        rf.solve(0.5, u, x0=on_gpu(np.ones((3, 2))), axis=0, offsets=[0, 2, 4])
    assert not machine.launches


def test_offsets_are_not_sent_while_a_stream_is_captured(machine):
    with stand_in.Stream() as stream:
        u = on_gpu(np.ones((4, 2)))
        rf.solve(u, u, axis=0, offsets=[0, 2, 4])
        machine.captured = {stream.ptr}
        with pytest.raises(DeviceError, match=r"sends offsets to the GPU can't be captured .* one by one"):
            rf.solve(u, u, axis=0, offsets=[0, 2, 4])
        machine.captured = set()


@pytest.mark.machine_code
@pytest.mark.parametrize("name", [name for name in SOLVES if SOLVES[name][-1] == 1])
def test_the_compiler_has_nothing_to_say(rng, name):
    offsets, _, _, window, *_ = SOLVES[name]
    for reverse in (False, True):
        a, u, x0, axis = solved(name, rng, reverse)
        for target in ((7, 5), (9, 0)):
            places = *map(strided, (a, u, u)), None if x0 is None else strided(x0)
            solve = Solve(*places, axis, window, reverse, sequences=sequences_of(np.array(offsets)))
            launch = plan(solve, Device(target, 132))
            used = usage(launch, target)
            assert (used.log, used.stack) == ("", 0)


@pytest.mark.machine_code
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["short, halves", "aligned rows in blocks", "blocks of rows", *SLIDING])
def test_the_kernel_of_sequences_has_no_fault(rng, name, reverse):
    offsets, _, _, window, *_ = SOLVES[name]
    a, u, x0, axis = solved(name, rng, reverse)
    results = []
    for schedule in (TOGETHER, RANDOM[0]):
        x = np.empty_like(u)
        starts = np.array(offsets) if not reverse else offsets[-1] - np.array(offsets)[::-1]
        arrays = {"a": a, "u": u, "x": x, "starts": np.ascontiguousarray(starts, np.int64)}
        places = *map(strided, (a, u, x)), None if x0 is None else strided(x0)
        solve = Solve(*places, axis, window, reverse, sequences=sequences_of(np.array(offsets)))
        launch = plan(solve, Device((9, 0), 132))
        assert launch is not None
        if x0 is not None:
            arrays["x0"] = x0
        assert bool(launch.scratch) == (name == "slots in global memory")
        execute(launch, arrays, (9, 0), schedule=schedule).check()
        check([launch], a, u, x0, x, axis, window, reverse, offsets)
        results.append(x)
    np.testing.assert_array_equal(*results)
