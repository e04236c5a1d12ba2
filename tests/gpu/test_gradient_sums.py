"""Gradients of coefficients that any number of threads share: groups of threads in a warp, and groups that add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from gpu import bare_run, stand_in, test_gradient_types, torch_stand_in
from gpu.bare_run import need_compiler, run_bare
from gpu.cases import H100, in_turn_at, random_numbers
from gpu.stand_in import on_gpu
from gpu.test_gradient_types import SMALL, arrays, check, planned

import recfact as rf
from recfact.errors import DeviceError
from recfact.gpu import device_arrays
from recfact.gpu import gradients as gpu_gradients
from recfact.gpu.compiler import source_of
from recfact.gpu.gradients import gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.windows import check_window
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS
from tools.gpu.machine_code import usage

# Shape with time first, that of coefficients, the order of axes in memory; threads that add up, and groups.
ROWS = (1, 2, 0)
SHARED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, int, int]] = {
    "channels of 5 threads": ((41, 7, 20), (41, 7, 1), None, 5, 1),
    "channels of 24": ((41, 3, 96), (41, 3, 1), None, 24, 1),
    "channels of 36": ((41, 2, 144), (41, 2, 1), None, 18, 2),
    "channels of heads": ((41, 8, 96), (41, 1, 1), None, 32, 6),
    "rows of 3": ((44, 7, 3), (44, 7, 1), ROWS, 3, 1),
    "rows of 24": ((44, 2, 24), (44, 2, 1), ROWS, 24, 1),
    "rows of 64": ((44, 2, 64), (44, 2, 1), ROWS, 32, 2),
    "rows of 75": ((42, 2, 75), (42, 2, 1), ROWS, 25, 3),
    "rows of 37": ((44, 2, 37), (44, 2, 1), ROWS, 19, 2),
    "heads": ((41, 3, 8), (41, 1, 8), None, 3, 1),
    "67 heads": ((41, 67, 8), (41, 1, 8), None, 23, 3),
    "heads of odd channels": ((41, 6, 7), (41, 1, 7), None, 6, 1),
    "batches": ((41, 9, 3, 8), (41, 1, 3, 8), (1, 0, 2, 3), 9, 1),
    "heads of batches": ((41, 2, 5, 8), (41, 2, 1, 8), (1, 0, 2, 3), 5, 1),
    "batches and channels": ((41, 9, 3, 20), (41, 1, 3, 1), (1, 0, 2, 3), 23, 2),
    "rows of heads": ((44, 9, 3), (44, 1, 3), ROWS, 9, 1),
    "rows of batches": ((44, 33, 2, 3), (44, 1, 2, 1), (1, 2, 3, 0), 25, 4),
}
HALVES = ("channels of 36", "rows of 64", "67 heads")


@pytest.fixture(autouse=True)
def layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (shape, single, order, *_) in SHARED.items():
        monkeypatch.setitem(test_gradient_types.LAYOUTS, name, (shape, single, order))


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(test_gradient_types.TYPES, "float32", ("float32",) * 5)


def with_parts(given: dict[str, np.ndarray], launch: Launch) -> dict[str, np.ndarray]:
    """Return the arrays, with one for the parts of sums that lie as `da` does."""
    if not launch.scratch:
        return given
    da, (sums,) = given["da"], launch.scratch
    wide = np.dtype(np.float32)
    assert sums.bytes % (da.size * wide.itemsize) == 0
    order = sorted(range(da.ndim), key=lambda k: -da.strides[k])
    parts = np.full(sums.bytes // wide.itemsize, np.nan, wide).reshape(-1, *(da.shape[k] for k in order))
    back = [order.index(k) + 1 for k in range(da.ndim)]
    return {**given, "sums": parts.transpose(0, *back)}


def added(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with the sums of the parts in their place."""
    return {**given, "da": given["sums"].sum(0).astype(given["da"].dtype)} if "sums" in given else given


CASES = [(name, kinds) for name in SHARED for kinds in ("float32", *["bfloat16"] * (name in HALVES))]


@pytest.mark.parametrize(
    "window",
    ["full", pytest.param("jagged:5", marks=pytest.mark.slow), pytest.param("uniform:5", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(("name", "kinds"), CASES)
def test_gradients_are_those_of_the_host(rng, name, kinds, window):
    need_compiler()
    given = arrays(rng, name, kinds, window)
    launch = planned(given, window)
    if kinds == "float32" and window == "full":  # others may have fewer channels in a thread
        *_, lanes, parts = SHARED[name]
        assert dict(launch.macros)["LANES"] == str(lanes)
        assert sum(sums.bytes for sums in launch.scratch) == (parts * given["da"].nbytes if parts > 1 else 0)
    given = with_parts(given, launch)
    run_bare(launch, given)
    check(added(given), window)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("channels of 5 threads", "jagged:5"),
        ("rows of 37", "full"),  # whose groups are uneven
        pytest.param("channels of heads", "full", marks=pytest.mark.slow),
        pytest.param("rows of 75", "full", marks=pytest.mark.slow),
        pytest.param("rows of 24", "uniform:5", marks=pytest.mark.slow),
    ],
)
def test_the_kernels_have_no_fault_and_the_same_bits_in_every_order(rng, name, window):
    given, results = arrays(rng, name, "float32", window), set()
    launch = planned(given, window, SMALL)
    for schedule in (TOGETHER, RANDOM[0]):
        own = with_parts({**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}, launch)
        outputs = ("du", "sums" if launch.scratch else "da")
        used = {key: array for key, array in own.items() if key != "da" or not launch.scratch}
        execute(replace(launch, scratch=()), used, H100.capability, schedule=schedule, outputs=outputs).check()
        own = added(own)
        check(own, window)
        results.add(own["du"].tobytes() + own["da"].tobytes())
    assert len(results) == 1


NOT_PAIRED = [("channels of 24", "bfloat16"), ("channels of 24", "float32"), ("rows of 75", "bfloat16")]
NOT_PAIRED += [("rows of 37", "bfloat16"), ("67 heads", "bfloat16")]  # in uneven groups


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("capability", "case"),
    in_turn_at(TARGETS, list(product(NOT_PAIRED, ("full", "jagged:5", "jagged:5:2", "uniform:5")))),
)
def test_nothing_spills_where_lanes_are_not_in_pairs(rng, capability, case):
    (name, kinds), window = case
    used = usage(planned(arrays(rng, name, kinds, window), window, Device(capability, 132)), capability)
    assert (used.log, used.stack) == ("", 0), case


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", ["full", "jagged:16"])
def test_parts_of_sums_move_little(rng, monkeypatch, window, kinds):
    n = 256 if window == "full" else 1024
    monkeypatch.setitem(test_gradient_types.LAYOUTS, "long", ((n, 1, 64), (n, 1, 1), (1, 2, 0)))
    given = arrays(rng, "long", kinds, window)
    launch = planned(given, window, SMALL)
    (sums,) = launch.scratch
    needed = sum(array.nbytes for name, array in given.items() if name != ("u" if window == "full" else "x"))
    used = {key: array for key, array in with_parts(given, launch).items() if key != "da"}
    if window == "full":
        del used["u"]
    report = execute(replace(launch, scratch=()), used, H100.capability, outputs=("du", "sums")).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    assert moved + sums.bytes + given["da"].nbytes <= 1.1 * needed  # and what adds them up


FAULTS = {
    "a lane without a neighbour added": (
        "bool there = PAIRED || lane % LANES + distance < (UNEVEN ? lanes : LANES)",
        "bool there = true",
    ),
    "a part of a group left out": ("distance < LANES; distance *= 2", "distance < LANES / 2; distance *= 2"),
    "lanes beside those that add up": ("threadIdx.x % 32 < owners;", "threadIdx.x % 32 < 32;"),
    "owners counted by warps of 32": ("threadIdx.x / 32 * owners + threadIdx.x % 32;", "threadIdx.x;"),
    "all sums in the first part": ("own.group * da_part", "0 * da_part"),
    "a part smaller than it is": ("static_cast<int>(sharing - group * LANES)", "LANES / 2"),
    "a part larger than it is": ("(sharing - group * LANES)", "(sharing - group * LANES + 1)"),
    "a part without its first thread": ("exists && place < sharing", "exists && place < sharing && place % LANES"),
    "lines of the group before": ("line = before * sharing + place;", "line = before * sharing + place % LANES;"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    old, new = FAULTS[fault]
    text = source_of("backward")
    assert text.count(old) == 1
    monkeypatch.setattr(bare_run, "source_of", lambda kernel: text.replace(old, new))
    monkeypatch.setattr(bare_run, "_built", bare_run._built.__wrapped__)
    uneven = any(word in fault for word in ("smaller", "larger", "without its", "before"))
    groups = "rows of 37" if uneven else "rows of 75"
    given = arrays(rng, groups if "part" in fault or "group" in fault else "channels of 5 threads", "float32", "full")
    launch = planned(given, "full")
    given = with_parts(given, launch)
    run_bare(launch, given)
    with pytest.raises(AssertionError, match=r"d[au]"):
        check(added(given), "full")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", ["full", "jagged:8", "uniform:8"])
@pytest.mark.parametrize(
    ("shape", "single", "axis"),
    [
        ((50, 3, 24), (50, 3, 1), 0),
        ((3, 64, 48), (3, 1, 48), 2),
        ((2, 3, 66, 48), (2, 1, 1, 48), 3),
        ((50, 6, 8), (50, 1, 8), 0),
        ((6, 50, 8), (50, 8), 1),
        ((2, 50, 5, 8), (2, 50, 1, 8), 1),
        ((5, 50, 2, 8), (1, 50, 2, 1), 1),
        ((5, 3, 8, 48), (3, 1, 48), 3),
        ((50, 67, 8), (50, 1, 8), 0),
    ],
)
def test_vjp_adds_up_what_groups_have(machine, rng, shape, single, axis, window):
    a, u, g = (random_numbers(rng, size, "float32", 0.9) for size in (single, shape, shape))
    machine.launches.clear()
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), axis=axis, window=window)
    assert [launch.launch.kernel for launch in machine.launches] == ["backward_window"]
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), axis=axis, window=window)
    for got, exact in zip(found[:2], expected[:2], strict=True):
        assert (got.shape, got.dtype) == (exact.shape, np.float32)
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", ["full", "jagged:5"])
@pytest.mark.parametrize("d", [12, 148], ids=["3 threads", "37 threads"])
def test_groups_of_sequences(machine, rng, d, window):
    """Of sequences that don't begin with a thread block: the last threads of a warp have none."""
    a = rng.integers(-1, 2, (44, 7, 1)).astype("f4")
    u, g = (rng.integers(-9, 10, (44, 7, d)).astype("f4") for _ in "ug")  # all sums are exact
    options = {"axis": 0, "window": window, "offsets": [0, 0, 7, 8, 24, 30, 37, 44]}
    there = [on_gpu(array) for array in (a, u, g)]
    x = rf.solve(*there[:2], axis=0, offsets=options["offsets"]) if window == "full" else None
    found = rf.gradients.vjp(*there, x=x, **options)
    launch = machine.launches[-1].launch
    lanes, apart = int(dict(launch.macros)["LANES"]), {one.name: one.value for one in launch.arguments}["da_part"]
    assert (launch.kernel, launch.grid[0] > 1) == ("backward" if window == "full" else "backward_window", True)
    assert (32 % lanes > 0, apart > 0) == (True, d != 12)
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), **options)
    for got, exact in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(got.get(), exact)


@pytest.mark.parametrize("window", ["full", "jagged:8"])
@pytest.mark.parametrize(("single", "shape"), [((50, 6, 1), (50, 6, 8)), ((50, 1, 8), (50, 6, 8)), ((50,), (8, 50))])
def test_coefficients_that_memory_repeats_have_gradients_of_their_own(machine, rng, single, shape, window):
    """As tensors have after ``expand``, whose gradients torch adds up."""
    a, x, g = (random_numbers(rng, size, "float32", 0.9) for size in (single, shape, shape))
    time, axes = (1, (1, 0)) if len(single) == 1 else (0, (0, 1, 2))
    repeated = np.broadcast_to(on_gpu(a), shape).transpose(axes)
    found = gradients(repeated, *(on_gpu(own).transpose(axes) for own in (x, g)), check_window(window))
    assert [launch.launch.kernel for launch in machine.launches] == [
        "backward" if window == "full" else "backward_window"
    ]
    own = [np.moveaxis(np.broadcast_to(array, shape).astype("f8"), time, 0) for array in (a, x, g)]
    states = own[1] if window == "full" else None
    inputs = own[1] - own[0] * np.concatenate([0 * own[1][:1], own[1][:-1]]) if window == "full" else own[1]
    expected = rf.gradients.vjp(own[0], inputs, own[2], axis=0, window=window, x=states)
    for got, exact in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)
    assert found[0].strides == found[1].strides  # not as the coefficients lie, whose axes have no order


@pytest.mark.parametrize("window", ["full", "jagged:5"])
@pytest.mark.parametrize("order", [None, (1, 2, 0)], ids=["time first", "along time"])
def test_parts_of_sums_lie_as_gradients_with_gaps_do(rng, monkeypatch, window, order):
    need_compiler()
    monkeypatch.setitem(test_gradient_types.LAYOUTS, "gaps", ((40, 3, 160), (40, 3, 1), order))
    given = arrays(rng, "gaps", "float32", window)
    whole = np.full((48, 5, 1), np.nan, np.float32)
    whole = whole if order is None else np.moveaxis(np.full((5, 1, 48), np.nan, np.float32), -1, 0)
    given["da"] = whole[:40, 1:4]
    launch = planned(given, window)
    (sums,) = launch.scratch
    apart = {one.name: one.value for one in launch.arguments}["da_part"]
    reach = sum((n - 1) * step for n, step in zip((40, 3), given["da"].strides, strict=False)) + 4
    parts = 2 if order is None else 5
    assert (apart, sums.bytes) == (reach, parts * reach)
    memory = np.full(sums.bytes // 4 + 8, np.nan, np.float32)  # with room for a fault
    run_bare(replace(launch, scratch=()), {**given, "sums": memory[4:-4]})
    assert np.isnan(memory[[*range(4), *range(-4, 0)]]).all()
    for k in range(parts):
        part = np.lib.stride_tricks.as_strided(memory[4 + k * reach // 4 :], given["da"].shape, given["da"].strides)
        given["da"][...] = part if k == 0 else given["da"] + part
    check(given, window)


def test_sums_in_parts_take_the_only_memory(machine, monkeypatch, rng):
    taken = []

    def empty_like(shape, *others):
        taken.append(shape)
        return device_arrays.empty_like(shape, *others)

    monkeypatch.setattr(gpu_gradients, "empty_like", empty_like)
    given = [on_gpu(random_numbers(rng, (size, 48), "float32", 0.9)).transpose((1, 0)) for size in (1, 64, 64)]
    gradients(*given, rf.Jagged(8))
    assert taken == [(48, 64), (2, 48, 1)]


def test_a_graph_of_cupy_would_not_own_the_parts(machine, rng):
    given = [on_gpu(random_numbers(rng, (size, 48), "float32", 0.9)).transpose((1, 0)) for size in (1, 64, 64)]
    with stand_in.Stream() as stream:
        gradients(*given, rf.Jagged(8))
        machine.captured, launched = {stream.ptr}, len(machine.launches)
        with pytest.raises(DeviceError, match="adds up sums in memory of CuPy"):
            gradients(*given, rf.Jagged(8))
        assert len(machine.launches) == launched


def test_tensors_add_up_in_their_own_memory(machine, rng):
    rows = [random_numbers(rng, (size, 48), "float16", 0.9) for size in (1, 1056, 1056)]
    half = np.dtype(np.float16)
    given = [torch_stand_in.tensor(array).permute((1, 0)) for array in rows]
    found = gradients(*given, rf.Jagged(8), types=(half, half))
    same = gradients(*(on_gpu(array).transpose((1, 0)) for array in rows), rf.Jagged(8), types=(half, half))
    macros = dict(machine.launches[0].launch.macros)
    assert (macros["LANES"], macros["SUM"]) == ("32", "float")  # 33 times
    assert prod(found[0].shape) == 48
    for one, other in zip(found[:2], same[:2], strict=True):
        np.testing.assert_array_equal(one.numpy(), other.get())
