"""Arrays of the host on GPUs that aren't there: in segments, which are late whenever nothing makes them wait."""

from __future__ import annotations

import numpy as np
import pytest
from gpu import late_machine, stand_in
from gpu.bounds import bound
from gpu.cases import COMPUTED, NUMPY, Case, random_numbers
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, DeviceError, DTypeError, OptionError, ShapeError
from recfact.gpu import compiler, host_arrays
from recfact.gpu.host_arrays import solve_segments
from recfact.windows import Full, Jagged, Uniform

# Window, number type, bytes of a slot, launches expected for 600 steps of 2 x 16 channels.
SEGMENTED = {
    "full": (Full(), "float32", 70_000, 3),
    "full, halves": (Full(), "bfloat16", 70_000, 3),
    "jagged": (Jagged(16), "bfloat16", 20_000, 5),
    "a longer block": (Jagged(48), "float32", 70_000, 4),
    "a window longer than a segment": (Jagged(16, 6), "float32", 30_000, 38),
    "band": (Uniform(33), "float32", 70_000, 3),
    "all that there is": (Uniform(600), "float32", 70_000, 3),
    "in one piece": (Jagged(16), "float32", 1 << 20, 1),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SEGMENTED)
@pytest.mark.parametrize("reverse", [False, True])
def test_segments_give_the_whole_within_the_bound_of_their_kernel(machine, rng, name, reverse):
    window, dtype, size, launches = SEGMENTED[name]
    a = (1 - abs(random_numbers(rng, (2, 600, 1), dtype, 0.05))).astype(NUMPY[dtype])
    u, x = random_numbers(rng, (2, 600, 16), dtype), np.empty((2, 600, 16), a.dtype)
    x0 = None if reverse else random_numbers(rng, (2, 16), COMPUTED.get(dtype, dtype))
    solve_segments(a, u, x, x0, 1, reverse, window, "full", size)
    assert len(machine.launches) == launches
    assert len({launch.stream for launch in machine.launches}) == min(launches, host_arrays.SLOTS)
    # A segment sets out while the one before it is still under way.
    assert [launch.done for launch in machine.launches] == [max(0, k - 1) for k in range(launches)]
    case = Case(a, u, x, 1, None if x0 is None else x0[:, None])
    exact, most = bound(machine.launches[-1].launch, case, window, reverse)
    assert (abs(np.moveaxis(x, 1, 0).astype(exact.dtype) - exact) <= most).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(16, 6)])
def test_the_result_may_replace_the_inputs(machine, rng, window, reverse):
    a, u = (random_numbers(rng, (600, 32), "float64", 0.95) for _ in "au")
    expected = np.empty_like(u)
    solve_segments(a, u, expected, None, 0, reverse, window, "full", 100_000)
    solve_segments(a, u, u, None, 0, reverse, window, "full", 100_000)
    np.testing.assert_array_equal(u, expected)


# Shape of coefficients and of inputs, and time in the result.
BROADCAST = [
    ((), (600, 2), 0),
    ((600, 1), (600, 2), 0),
    ((2, 1), (2, 600), 1),
    ((600,), (2, 1), 1),
    ((3, 1, 2), (600, 1), 1),
]


@pytest.mark.parametrize(("a_shape", "u_shape", "axis"), BROADCAST)
@pytest.mark.parametrize("reverse", [False, True])
def test_arrays_that_are_broadcast_are_sent_as_they_are(machine, rng, a_shape, u_shape, axis, reverse):
    a, u = (random_numbers(rng, shape, "float64", 0.95) for shape in (a_shape, u_shape))
    shape = np.broadcast_shapes(a_shape, u_shape)
    x = np.empty(shape)
    size = 256 * sum(v.nbytes for v in (a, u, x) if 600 in v.shape) // 600
    solve_segments(a, u, x, None, axis, reverse, Full(), "full", size)
    assert len(machine.launches) == 3
    case = Case(*(v.reshape((1,) * (x.ndim - v.ndim) + v.shape) for v in (a, u)), x, axis)
    exact, most = bound(machine.launches[-1].launch, case, Full(), reverse)
    assert (abs(np.moveaxis(x, axis, 0) - exact) <= most).all()


@pytest.mark.parametrize("view", [np.s_[::2, ::-1], np.s_[:, :, 3:9]])
def test_any_strides_will_do(machine, rng, view):
    a, u, x = (random_numbers(rng, (4, 40, 16), "float32", 0.95)[view] for _ in range(3))
    rf.solve(a, u, axis=1, window=Jagged(8), out=x, device="gpu")
    np.testing.assert_array_equal(x, rf.solve(a, u, axis=1, window=Jagged(8)))


def test_a_state_is_carried_without_being_rounded(machine):
    # Each segment adds less than half the spacing of bfloat16 at 256: rounded states would never grow.
    a, u = np.ones((600, 1)), np.full((600, 1), 1 / 512)
    a, u = (array.astype(stand_in.BFLOAT16) for array in (a, u))
    x = np.empty_like(u)
    solve_segments(a, u, x, np.full(1, 256, np.float32), 0, False, Full(), "full", 256 * 8)
    assert x[-1, 0] == np.float32(256 + 600 / 512).astype(x.dtype)
    solve_segments(a, u, x, np.full(1, 255, np.float32), 0, False, Full(), "full", 256 * 8)
    assert x[-1, 0] == 256


def test_overflow_of_the_output_is_infinite_without_a_warning(machine):
    a, u = np.full((300, 1), 2, "f2"), np.ones((300, 1), "f2")
    x = rf.solve(a, u, axis=0, device="gpu")
    assert (np.isinf(x[:, 0]) == (np.arange(300) >= 15)).all()


# Window, number type, and the kernel that solves it.
KERNELS = [
    (Full(), "bfloat16", "chain"),
    (Full(), "float32", "chain"),
    (Full(), "float64", "chain"),
    (Full(), "complex64", "chain"),
    (Jagged(8), "float16", "sweep"),
    (Jagged(16), "float16", "b2p"),
    (Jagged(48), "bfloat16", "b2p"),
    (Jagged(16, 3), "float32", "sliding"),
    (Uniform(33), "complex128", "sliding"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("window", "dtype", "kernel"), KERNELS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_bits_are_the_same_whatever_memory_is_free(machine, rng, monkeypatch, window, dtype, kernel, reverse):
    a, u = (random_numbers(rng, (3000, channels), dtype) for channels in (1, 16))
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", 1400 * (a[0].nbytes + 2 * u[0].nbytes))
    options = {"axis": 0, "window": window, "reverse": reverse, "device": "gpu"}
    expected = rf.solve(a, u, **options)
    taken = machine.most_taken
    for free, streams in ((taken, 2), (3 * taken // 4, 1)):
        machine.launches.clear()
        machine.free_memory = free
        x = rf.solve(a, u, **options)
        assert machine.launches[0].launch.kernel == kernel
        assert len(machine.launches) > 2
        assert len({launch.stream for launch in machine.launches}) == streams
        np.testing.assert_array_equal(x.view(np.uint8), expected.view(np.uint8))
    machine.free_memory = taken // 4
    with pytest.raises(DeviceError, match=r"takes \d+ bytes of the GPU's memory.*got: Out of memory.*; free other"):
        rf.solve(a, u, out=x, **options)
    np.testing.assert_array_equal(x, expected)


def test_a_window_that_reaches_far_gets_shorter_segments_on_a_small_gpu(machine, monkeypatch):
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", 1 << 12)
    a, u = np.full(4096, 0.5), np.ones(4096)
    expected = rf.solve(a, u, window=Jagged(256))
    for total, launches in ((1 << 20, 2), (1 << 16, 6)):
        machine.launches.clear()
        machine.total_memory = total
        np.testing.assert_array_equal(rf.solve(a, u, window=Jagged(256), device="gpu"), expected)
        assert len(machine.launches) == launches


@pytest.mark.parametrize("window", [Jagged(16), Jagged(16, 3)])
def test_the_result_may_replace_the_inputs_in_a_single_slot(machine, rng, monkeypatch, window):
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", 200_000)
    a, u = (random_numbers(rng, (1000, 32), "float64", 0.95) for _ in "au")
    expected = rf.solve(a, u, axis=0, window=window, device="gpu")
    machine.launches.clear()
    machine.free_memory = 3 * machine.most_taken // 4
    rf.solve(a, u, axis=0, window=window, out=u, device="gpu")
    assert len({launch.stream for launch in machine.launches}) == 1
    assert len(machine.launches) > 2
    np.testing.assert_array_equal(u, expected)


@pytest.mark.parametrize(("window", "launches"), [(Full(), 16), (Jagged(16), 3)])
def test_segments_are_short_where_steps_are_large(machine, window, launches):
    a, u, x = np.full((48, 1000), 0.5), np.ones((48, 1000)), np.empty((48, 1000))
    solve_segments(a, u, x, None, 0, False, window, "full", 3 * 24_000)
    np.testing.assert_array_equal(x, rf.solve(a, u, axis=0, window=window))
    assert len(machine.launches) == launches


def test_streams_are_used_again_and_memory_is_given_back(machine):
    a, u = np.full((600, 32), 0.5), np.ones((600, 32))
    for _ in range(3):
        solve_segments(a, u, np.empty_like(u), None, 0, False, Full(), "full", 200_000)
    assert machine.streams_made == host_arrays.SLOTS
    count = len(machine.blocks)
    solve_segments(a, u, np.empty_like(u), None, 0, False, Full(), "full", 200_000)
    assert len(machine.blocks) == count


def test_memory_that_others_still_use_is_waited_for(machine):
    stand_in.asarray(np.full(600 * 32, 7.0))  # is on its way, and given back at once
    a, u = np.full((600, 32), 0.5), np.ones((600, 32))
    x = rf.solve(a, u, axis=0, device="gpu")
    np.testing.assert_array_equal(x, rf.solve(a, u, axis=0))


def test_the_result_is_the_callers_type(machine):
    a, u = np.full(5, 0.5, "f4"), np.ones(5, "f4")
    x = rf.solve(a, u, device="gpu")
    assert (type(x), x.dtype) == (np.ndarray, np.float32)
    out = np.empty(5, "f4")
    assert rf.solve(a, u, out=out, device="gpu") is out
    assert rf.gpu.solve(a.tolist(), u.tolist()).dtype == np.float64
    np.testing.assert_array_equal(out, x)
    assert rf.solve(np.ones((3, 0)), 0.5, device="gpu").shape == (3, 0)


def test_arrays_on_the_gpu_stay_there_when_it_is_named(machine):
    x = rf.solve(*(stand_in.asarray(np.ones(5)) for _ in "au"), device="gpu")
    assert isinstance(x, stand_in.ndarray)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(16, 3)])
@pytest.mark.parametrize("a_type", ["float32", "bfloat16"])
@pytest.mark.parametrize("out", [None, "float32", "bfloat16"])
def test_halves_are_sent_as_they_are_whatever_is_beside_them(machine, rng, monkeypatch, window, a_type, out):
    a, u = random_numbers(rng, (2, 600, 1), a_type, 0.95), random_numbers(rng, (2, 600, 16), "bfloat16")
    sent, send = [], host_arrays.Buffer.send
    monkeypatch.setattr(host_arrays.Buffer, "send", lambda self, array: sent.append(array.nbytes) or send(self, array))
    given = None if out is None else np.full(u.shape, 3, NUMPY[out])
    x = rf.solve(a, u, axis=1, window=window, out=given, device="gpu")
    assert x.dtype == NUMPY[out or a_type]
    assert given is None or x is given
    assert sent == [a.nbytes, u.nbytes]
    launch = machine.launches[-1].launch
    exact, most = bound(launch, Case(a, u, x, 1), window, False)
    assert (abs(np.moveaxis(x, 1, 0).astype(exact.dtype) - exact) <= most).all()
    macros = dict(launch.macros)
    assert (macros["INPUT"], macros["COEFFICIENT"] == "float") == ("__nv_bfloat16", a_type == "float32")


@pytest.mark.parametrize("window", [Full(), Jagged(16)])
def test_halves_may_be_replaced_beside_coefficients_in_float32(machine, rng, monkeypatch, window):
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", 40_000)
    a, u = random_numbers(rng, (600, 1), "float32", 0.95), random_numbers(rng, (600, 16), "float16")
    case = Case(a, u.copy(), u, 0)
    assert rf.solve(a, u, axis=0, window=window, out=u, device="gpu") is u
    assert len(machine.launches) > 1
    exact, most = bound(machine.launches[-1].launch, case, window, False)
    assert (abs(u - exact) <= most).all()


# Number types of coefficients and inputs.
BESIDE = [("f4", "f2"), ("f2", "f4"), ("f2", "f2"), ("f2", "V"), ("f4", "V"), ("V", "V"), ("f8", "V"), ("c8", "f2")]
BESIDE += [("i4", "f2"), ("f4", "f4"), ("f8", "f4"), ("i8", "i8")]


@pytest.mark.parametrize(("a_type", "u_type"), BESIDE)
def test_number_types_are_those_of_arrays_on_the_gpu(machine, a_type, u_type):
    a, u = (np.ones(3).astype(stand_in.BFLOAT16 if kind == "V" else kind) for kind in (a_type, u_type))
    assert rf.solve(a, u, device="gpu").dtype == rf.solve(on_gpu(a), on_gpu(u)).dtype == rf.solve(a, u).dtype
    for dtype in NUMPY.values():
        said = []
        for place in (on_gpu, np.copy):
            out = place(np.ones(3, dtype))
            try:
                rf.solve(place(a), place(u), out=out, device="gpu")
            except ShapeError as error:
                said.append(str(error))
            else:
                said.append(out.get().tolist() if place is on_gpu else out.tolist())
        assert said[0] == said[1]


def test_halves_of_a_foreign_byte_order_stay_halves(machine):
    a, u = np.full(5, 0.5, "f4"), np.ones(5, ">f2")
    assert rf.solve(a, u, device="gpu").tolist() == rf.solve(a, u).tolist()
    assert dict(machine.launches[-1].launch.macros)["INPUT"] == "half"


ONES = np.ones(5)
WRONG = {
    "object": (lambda: {"a": np.ones(5, object)}, DTypeError, r"the GPU engine computes in float32.*got object; conv"),
    "strings": (lambda: {"a": ["x"] * 5}, DTypeError, "numbers that recfact computes in"),
    "a too large": (lambda: {"a": 10**400}, DTypeError, "a must hold numbers that fit into float64, got 1000"),
    "lengths": (lambda: {"a": np.ones(4)}, ShapeError, r"broadcast .* \(4,\) and \(5,\)"),
    "axis": (lambda: {"axis": 1}, ShapeError, "axis must be"),
    "x0 complex": (lambda: {"x0": 1j}, DTypeError, "x0 must fit into float64, got complex128"),
    "x0 too long": (lambda: {"x0": ONES}, ShapeError, "x0 must broadcast"),
    "x0 on the GPU": (lambda: {"x0": on_gpu(ONES)}, ArrayTypeError, "x0 must be on the host here"),
    "x0 from behind": (lambda: {"x0": 1.0, "reverse": True}, OptionError, "x0 doesn't go with reverse"),
    "out on the GPU": (lambda: {"out": on_gpu(ONES)}, ArrayTypeError, "out must be an array on the host"),
    "out no array": (lambda: {"out": [0.0] * 5}, ArrayTypeError, "out must be an array on the host"),
    "out of another shape": (lambda: {"out": np.ones((5, 3))}, ShapeError, r"out must have shape \(5,\)"),
    "out narrower": (lambda: {"out": ONES.astype("f4")}, ShapeError, "and dtype float64, got"),
    "out wider": (
        lambda: {"a": 0.5, "u": ONES.astype("f2"), "out": np.ones(5)},
        ShapeError,
        "dtype float16 or float32, got",
    ),
    "out read-only": (lambda: {"out": np.broadcast_to(1.0, 5)}, OptionError, "out must be writable"),
    "out in a": (lambda: (lambda a: {"a": a, "out": a})(np.ones(5)), OptionError, "overlaps with a"),
    "out in u": (lambda: (lambda v: {"u": v[:5], "out": v[1:]})(np.ones(6)), OptionError, "overlaps with u"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_of_the_host_is_refused_and_nothing_written(machine, name):
    make, kind, words = WRONG[name]
    arguments = {"a": ONES, "u": ONES, "out": np.full(5, 3.0), **make()}
    out = arguments["out"]
    before = np.array(out) if isinstance(out, np.ndarray) else None
    with pytest.raises(kind, match=words):
        rf.solve(arguments.pop("a"), arguments.pop("u"), device="gpu", **arguments)
    assert before is None or (out == before).all()
    assert machine.launches == []


def test_an_error_in_between_leaves_the_result_and_the_gpu_alone(machine):
    out = np.full((600, 32), 3.0)
    machine.compiler_log = "error"
    with pytest.raises(DeviceError):
        rf.solve(np.full((600, 32), 0.5), np.ones((600, 32)), axis=0, out=out, device="gpu")
    assert (out == 3).all()
    assert all(queue.done == len(queue.work) for handle, queue in machine.queues.items() if handle)


def test_an_error_in_a_later_segment_leaves_the_result_alone(machine, monkeypatch):
    # The last segment is so short that another kernel takes it.
    compiled = compiler._compiled

    def refuse(launch):
        if launch.kernel == "sweep":
            raise DeviceError("no sweep")
        return compiled(launch)

    monkeypatch.setattr(compiler, "_compiled", refuse)
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", 100_000)
    out = np.full((2048 + 16, 8), 3.0)
    with pytest.raises(DeviceError, match="no sweep"):
        rf.solve(np.full((2048 + 16, 1), 0.5), np.ones((2048 + 16, 8)), axis=0, out=out, device="gpu")
    assert (out == 3).all()
    assert machine.compiled == ["chain", "chain"]


@pytest.mark.parametrize("window", [Full(), Uniform(300)])
def test_scratch_is_part_of_a_slot_and_had_before_anything_is_written(machine, monkeypatch, window):
    size = 400_000
    monkeypatch.setattr(host_arrays, "SEGMENT_BYTES", size)
    a, u = np.full((9000, 1), 0.5), np.ones((9000, 8))
    expected = rf.solve(a, u, axis=0, window=window, device="gpu")
    kernel = machine.launches[0].launch.kernel
    assert kernel == ("chain" if window == Full() else "sliding")
    assert len(machine.launches) > 2
    taken = machine.most_taken
    assert taken <= host_arrays.SLOTS * size + 16 * late_machine.ALIGNMENT
    for free in range(taken // 8, taken, taken // 8):
        out = np.full_like(u, 3)
        machine.free_memory = free
        try:
            rf.solve(a, u, axis=0, window=window, out=out, device="gpu")
        except DeviceError:
            assert (out == 3).all()
        else:
            np.testing.assert_array_equal(out, expected)
