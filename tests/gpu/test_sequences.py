"""Sequences that lie one behind the other on a GPU: one launch solves them, and nothing passes between them."""

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
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import ENDLESS, Sequences, Solve
from recfact.strides import Strided
from recfact.windows import Full, Jagged, Uniform
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.machine_code import usage

SHORT = [0, 0, 7, 8, 40, 40, 41, 73, 90, 90]
ALIGNED = [0, 16, 16, 48, 56, 96]
LONG = [0, 300, 301, 700]
MIXED = [0, 0, 3, 5, 350, 350, 351, 367, 699, 700, 700]
MIXED_ROWS = [0, 8, 8, 24, 360, 368, 704]
HEADS, ROWS, STEPS = "head, time, channel", "head, channel, time", "time, head, channel"

# Offsets, layout, number type, window, the kernel, and whether time is cut into more segments than sequences.
SOLVES = {
    "short": (SHORT, HEADS, "float32", Full(), "sweep", False),
    "short, halves": (SHORT, STEPS, "bfloat16", Full(), "sweep", False),
    "short rows": (SHORT, ROWS, "float32", Full(), "sweep", False),
    "aligned rows": (ALIGNED, ROWS, "float32", Full(), "sweep", False),
    "aligned rows in blocks": (ALIGNED, ROWS, "float16", Jagged(8), "sweep", False),
    "blocks": (SHORT, HEADS, "float32", Jagged(8), "sweep", False),
    "blocks alone": (SHORT, HEADS, "complex64", Jagged(5, 0), "sweep", True),
    "blocks of rows": (SHORT, ROWS, "float64", Jagged(8), "sweep", False),
    "longer than all": (SHORT, HEADS, "float32", Jagged(16, 3), "sweep", False),
    "cut": (MIXED, HEADS, "float32", Jagged(4), "sweep", True),
    "cut alone": (MIXED, STEPS, "float64", Jagged(7, 0), "sweep", True),
    "cut rows": (MIXED_ROWS, ROWS, "float32", Jagged(8), "sweep", True),
    "several blocks": (SHORT, HEADS, "float32", Jagged(4, 3), "sliding", False),
    "band": (ALIGNED, ROWS, "float32", Uniform(5), "sliding", False),
    "a band in halves": (SHORT, STEPS, "bfloat16", Uniform(16), "sliding", False),
    "slots in global memory": ([*SHORT[:-1], 300], HEADS, "float32", Uniform(200), "sliding", False),
    "cut, several blocks": (MIXED, HEADS, "float32", Jagged(3, 2), "sliding", True),
    "cut, slots in global memory": ([0, 2500, 2500, 2600], HEADS, "complex128", Uniform(100), "sliding", True),
    "long": (LONG, HEADS, "float32", Full(), "chain", False),
    "long and short": (MIXED, HEADS, "float32", Full(), "chain", False),
    "long and short, own coefficients": (MIXED, STEPS, "complex64", Full(), "chain", False),
    "long and short rows": (MIXED, ROWS, "bfloat16", Full(), "chain", False),
    "long, halves": (LONG, HEADS, "bfloat16", Jagged(16), "b2p", True),
    "tiles": (MIXED, STEPS, "float16", Jagged(16), "b2p", True),
    "tiles alone": (MIXED, HEADS, "bfloat16", Jagged(32, 0), "b2p", True),
    "tiles of rows": (MIXED_ROWS, ROWS, "float16", Jagged(16), "b2p", True),
    "rows that start anywhere": ([0, 3, 5, 350, 704], ROWS, "float16", Jagged(16), "sweep", True),
    "blocks inside tiles": (MIXED, HEADS, "bfloat16", Jagged(20), "b2p", True),
    "tiles to the end": (MIXED, HEADS, "bfloat16", Full(), "b2p", False),
}
IN_PTX = ["short, halves", "aligned rows in blocks", "blocks of rows", "cut", "several blocks", "a band in halves"]
IN_PTX += ["slots in global memory", "long and short", "long and short rows", "long, halves", "blocks inside tiles"]
SMALL = {"tiles to the end"}  # on a GPU with one multiprocessor, which these lines fill


def solved(name, rng, reverse):
    """Return the arrays of a solve: coefficients, inputs, initial states, time."""
    offsets, layout, dtype, *_ = SOLVES[name]
    make, axis = LAYOUTS[layout]
    shape = make(4 if name in SMALL else 2, offsets[-1], 8)
    shared, entering = list(shape), list(shape)
    shared[channel_axis(layout)], entering[axis] = 1, len(offsets) - 1
    a = random_numbers(rng, shape if "own" in name else shared, dtype, 0.95)
    u = random_numbers(rng, shape, dtype)
    return a, u, None if reverse else random_numbers(rng, entering, COMPUTED.get(dtype, dtype)), axis


def planned(name, a, u, x, x0, axis, reverse, target=(9, 0)):
    """Return the launch of a solve."""
    offsets, _, _, window, *_ = SOLVES[name]
    places = *map(strided, (a, u, x)), None if x0 is None else strided(x0)
    solve = Solve(*places, axis, window, reverse, sequences=sequences_of(np.array(offsets)))
    launch = plan(solve, Device(target, 1 if name in SMALL else 132))
    assert launch is not None
    return launch


def check(launch, a, u, x0, x, axis, window, reverse, offsets, flushed=False):
    """See that each sequence is within the bound of the launch."""
    for k, (start, end) in enumerate(pairwise(offsets)):
        if start == end:
            continue
        steps = (slice(None),) * axis + (slice(start, end),)
        entering = None if x0 is None else x0[(slice(None),) * axis + (slice(k, k + 1),)]
        case = Case(a[steps], u[steps], x[steps], axis, entering)
        expected, most = bound(launch, case, window, reverse, flushed=flushed)
        assert (np.abs(np.moveaxis(x[steps], axis, 0).astype(expected.dtype) - expected) <= most).all(), (start, end)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SOLVES)
def test_each_sequence_is_solved_by_itself(machine, rng, name, reverse):
    offsets, _, _, window, kernel, cut = SOLVES[name]
    machine.multiprocessors = 1 if name in SMALL else machine.multiprocessors
    a, u, x0, axis = solved(name, rng, reverse)
    x = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0), axis=axis, reverse=reverse, window=window, offsets=offsets)
    (launch,) = (recorded.launch for recorded in machine.launches)
    assert launch.kernel == kernel
    numbers = {argument.name: argument.value for argument in launch.arguments}
    assert (numbers.get("segments", 0) > numbers["sequences"] == len(offsets) - 1) == cut
    check(launch, a, u, x0, x.get(), axis, window, reverse, offsets)


@pytest.mark.parametrize("name", ["short", "cut", "cut, several blocks", "long and short", "long, halves"])
def test_not_even_nan_passes_from_one_to_another(machine, rng, name):
    offsets, _, _, window, kernel, _ = SOLVES[name]
    a, u, _, axis = solved(name, rng, False)
    options = {"axis": axis, "window": window, "offsets": offsets}
    expected = rf.solve(on_gpu(a), on_gpu(u), **options).get()
    wrong = max(range(len(offsets) - 2), key=lambda k: offsets[k + 1] - offsets[k])
    start, end = offsets[wrong], offsets[wrong + 1]
    lines = (slice(None),) * axis
    firsts = [cut for cut in offsets if cut < offsets[-1]]
    a[(*lines, slice(start, end))] = a[(*lines, firsts)] = np.nan  # no first coefficient is read
    u[(*lines, slice(start, end))] = np.inf
    x = rf.solve(on_gpu(a), on_gpu(u), **options).get()
    assert {recorded.launch.kernel for recorded in machine.launches} == {kernel}
    assert not np.isfinite(x[(*lines, slice(start, end))]).any()
    expected[(*lines, slice(start, end))] = x[(*lines, slice(start, end))]
    np.testing.assert_array_equal(x.astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize("offsets", [[0, 200, 203, 600, 700], [0, 130, 131, 160, 240, 244, 700], [0, 90, 500, 700]])
def test_large_states_change_no_bit_of_other_sequences(machine, rng, offsets):
    """Tiles of `chain` are solved by plain steps there, one warp after another."""
    count = len(offsets) - 1
    a, u = (random_numbers(rng, (700, shape), "float32", 0.9) for shape in (1, 4))
    x0 = random_numbers(rng, (count, 4), "float32")
    expected = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0), axis=0, offsets=offsets).get()
    launch = machine.launches[0].launch
    assert launch.kernel == "chain"
    for large, (start, end) in enumerate(pairwise(offsets)):
        for value, of_state in ((1e30, False), (1e25, True), (np.inf, True), (np.nan, False)):
            own_a, own_u, own_x0 = a.copy(), u.copy(), x0.copy()
            own_a[start:end] = 1  # it stays large to the end
            if of_state:
                own_x0[large] = value
            else:
                own_u[(start + end) // 2] = value
            x = rf.solve(on_gpu(own_a), on_gpu(own_u), x0=on_gpu(own_x0), axis=0, offsets=offsets).get()
            if np.isfinite(value):
                check(launch, own_a, own_u, own_x0, x, 0, Full(), False, offsets)
            else:
                alone = rf.solve(own_a[start:end], own_u[start:end], x0=own_x0[large], axis=0)
                np.testing.assert_array_equal(np.isnan(x[start:end]), np.isnan(alone))
                np.testing.assert_array_equal(np.isinf(x[start:end]), np.isinf(alone))
            x[start:end] = expected[start:end]
            np.testing.assert_array_equal(x, expected)


def test_a_state_that_overflows_behind_a_start_does_so(machine):
    """Products of coefficients don't show it: 1e10 times 1e-10 is 1."""
    a, u = np.ones((700, 1), "f4"), np.zeros((700, 4), "f4")
    a[[329, 332]] = [[1e10], [1e-10]]  # of one warp, behind that of the start
    x0 = np.float32([[0], [1e30], [0]])
    x = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0), axis=0, offsets=[0, 309, 690, 700]).get()
    assert machine.launches[0].launch.kernel == "chain"
    np.testing.assert_array_equal(x[:, 0], np.repeat(np.float32([0, 1e30, np.inf, 0]), [309, 20, 361, 10]))


@pytest.mark.parametrize("offsets", [SHORT, LONG])
def test_results_go_where_the_caller_says(machine, rng, offsets):
    a, u = random_numbers(rng, (offsets[-1], 1), "float32"), random_numbers(rng, (offsets[-1], 4), "float32")
    for window in (Full(), Jagged(8), Jagged(4, 2)):
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


@pytest.mark.parametrize("offsets", [[0, 0], [0, 0, 0], [0, 5], [0, 2, 5]])
def test_nothing_is_launched_for_no_steps(machine, offsets):
    for shape in ((offsets[-1], 0), *([(0, 2)] if offsets[-1] == 0 else [])):
        a, x0 = on_gpu(np.ones(shape)), on_gpu(np.ones((len(offsets) - 1, shape[1])))
        assert rf.solve(a, a, axis=0, offsets=offsets).shape == shape
        assert rf.solve(a, a, x0=x0, axis=0, offsets=offsets).shape == shape
        assert rf.gpu.tune(a, a, x0=x0, axis=0, offsets=offsets) == {}
        assert rf.gpu.warm_up(a, a, x0=x0, axis=0, offsets=offsets, gradients=True) == ()
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


def test_one_sequence_is_all_of_time(machine, rng):
    a, u, x0 = (random_numbers(rng, shape, "float32") for shape in ((700, 1), (700, 4), (1, 4)))
    x = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0), axis=0, offsets=[0, 700])
    y = rf.solve(on_gpu(a), on_gpu(u), x0=on_gpu(x0[0]), axis=0)
    first, second = (recorded.launch for recorded in machine.launches)
    assert first.macros == second.macros
    np.testing.assert_array_equal(x.get(), y.get())


# Lengths of a thousand sequences of 4 channels in float32; the kernel of the full recurrence; and the most steps of a
# segment of Jagged(16), of which an H100 wants 2112 warps: all there are, a warp's 32nd part, or 8 blocks.
THOUSAND = {
    "short": (np.full(1000, 64), "sweep", 64),
    "long": (np.full(1000, 40_000), "chain", 592),
    "one of them long": (np.where(np.arange(1000) == 500, 60_000, 50), "chain", 128),
}


@pytest.mark.parametrize("name", THOUSAND)
def test_a_thousand_sequences_keep_the_gpu_busy(name):
    lengths, kernel, most = THOUSAND[name]
    u = Strided(np.dtype("f4"), (int(lengths.sum()), 4), (16, 4))
    sequences = sequences_of(np.cumsum([0, *lengths]))
    solve = Solve(u, u, u, None, 0, Full(), sequences=sequences)
    whole, cut = (plan(one, Device((9, 0), 132)) for one in (solve, solve._replace(window=Jagged(16))))
    assert (whole.kernel, cut.kernel) == (kernel, "sweep")
    numbers = {argument.name: argument.value for argument in cut.arguments}
    assert min(lengths.max(), numbers["blocks"] * numbers["block"]) == most


def test_segments_of_sequences_are_counted_without_a_table():
    """Every block has one segment, whatever the lengths: the arithmetic of sequences.cuh."""
    rng = np.random.default_rng(0)
    for length in (1, 3, 16, 50):
        offsets = np.cumsum([0, *rng.integers(0, 90, 40)])
        firsts = offsets // length + np.arange(len(offsets))
        needed = -(-np.diff(offsets) // length)
        assert (np.diff(firsts) >= needed).all()
        assert (np.diff(firsts) <= needed + 1).all()
        assert firsts[-1] == len(offsets) - 1 + offsets[-1] // length


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
@pytest.mark.parametrize("name", SOLVES)
def test_the_compiler_has_nothing_to_say(rng, name):
    for reverse in (False, True):
        a, u, x0, axis = solved(name, rng, reverse)
        for target in ((7, 5), (9, 0)):
            used = usage(planned(name, a, u, u, x0, axis, reverse, target), target)
            assert (used.log, used.stack) == ("", 0)


@pytest.mark.machine_code
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", IN_PTX)
def test_the_kernel_of_sequences_has_no_fault(rng, name, reverse):
    offsets, _, _, window, *_ = SOLVES[name]
    a, u, x0, axis = solved(name, rng, reverse)
    results = []
    for schedule in (TOGETHER, RANDOM[0]):
        x = np.empty_like(u)
        starts = np.array(offsets) if not reverse else offsets[-1] - np.array(offsets)[::-1]
        arrays = {"a": a, "u": u, "x": x, "starts": np.ascontiguousarray(starts, np.int64)}
        launch = planned(name, a, u, x, x0, axis, reverse)
        if x0 is not None:
            arrays["x0"] = x0
        execute(launch, arrays, (9, 0), schedule=schedule).check()
        check(launch, a, u, x0, x, axis, window, reverse, offsets)
        results.append(x)
    np.testing.assert_array_equal(*results)
