"""The mixer of a Phalanx layer by one launch, against that of the host in double precision, within its bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from gpu import torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import HALF_SPACING, RAISED, TENSOR_CORE, UNIT
from gpu.cases import COMPUTED, H100, random_numbers, strided
from gpu.stand_in import on_gpu
from gpu.test_planted_faults import PLANTED, edited, orders
from samples import one_in

import recfact as rf
from recfact.errors import DeviceError, ShapeError
from recfact.gpu import mixer
from recfact.gpu.launch import plan
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import Solve
from recfact.windows import blocks_and_terms, check_window
from tools.gpu.emulator import RANDOM, TOGETHER, Schedule, execute, text_of
from tools.gpu.machine_code import usage

SMALL = Device((9, 0), 1)  # few segments
TURING = Device((7, 5), 40)  # no gates on tensor cores


@dataclass(frozen=True)
class Case:
    """Shape of the values, number of groups, number types, window, and how the arrays lie."""

    shape: tuple[int, ...]
    groups: int
    dtype: str = "float32"
    window: str = "jagged:16"
    a_dtype: str | None = None
    a_shape: tuple[int, ...] | None = None
    later: bool = False  # time after the heads
    cut: bool = False  # gates that are parts of one projection
    kernel: str = "sweep"
    device: Device = H100


CASES = {
    "time first": Case((100, 6, 8), 2),
    "batch": Case((3, 70, 4, 8), 2),
    "batches": Case((2, 3, 40, 6, 4), 3, window="jagged:5"),
    "one group": Case((2, 50, 4, 8), 1, window="jagged:7:0"),
    "own gates": Case((2, 50, 4, 8), 4),
    "heads before time": Case((2, 60, 4, 8), 2, later=True),
    "projected together": Case((2, 60, 4, 8), 2, cut=True),
    "full": Case((2, 90, 4, 16), 2, window="full"),
    "many segments": Case((700, 2, 8), 1, window="jagged:4"),
    "odd features": Case((2, 50, 4, 7), 2),
    "one feature": Case((2, 50, 4, 1), 4),
    "coefficients of all heads": Case((2, 50, 4, 8), 2, a_shape=(50, 1)),
    "coefficients of all batches": Case((2, 50, 4, 8), 2, a_shape=(50, 4)),
    "bfloat16": Case((2, 60, 4, 16), 2, "bfloat16", a_dtype="float32", device=TURING),
    "float16": Case((2, 60, 4, 16), 2, "float16", device=TURING),
    "float16, time first": Case((60, 6, 16), 2, "float16", device=TURING),
    "tiles": Case((2, 60, 4, 16), 2, "bfloat16", kernel="b2p"),
    "tiles of float16": Case((60, 6, 16), 2, "float16", kernel="b2p"),
    "tiles in float32": Case((2, 150, 4, 16), 4, "bfloat16", a_dtype="float32", kernel="b2p"),
    "tiles of float16 in float32": Case((700, 6, 16), 3, "float16", a_dtype="float32", kernel="b2p"),
    "parts of tiles": Case((2, 150, 4, 24), 1, "float16", a_dtype="float32", kernel="b2p"),
    "long blocks": Case((2, 300, 4, 16), 2, "bfloat16", "jagged:48", "float32", kernel="b2p"),
    "blocks inside tiles": Case((2, 300, 4, 16), 2, "float16", "jagged:20", "float32", kernel="b2p"),
    "blocks alone": Case((2, 60, 4, 16), 2, "bfloat16", "jagged:16:0", "float32", kernel="b2p"),
    "full tiles": Case((300, 16, 16), 4, "float16", "full", "float32", kernel="b2p", device=SMALL),
    "tiles projected together": Case((2, 60, 4, 16), 2, "bfloat16", cut=True, kernel="b2p"),
    "tiles of heads before time": Case((2, 60, 4, 16), 2, "float16", later=True, kernel="b2p"),
    "float64": Case((2, 60, 4, 4), 2, "float64", window="jagged:9"),
    "complex": Case((2, 40, 4, 2), 2, "complex64", window="jagged:5"),
}


def arrays(case: Case, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return coefficients, gates, values, and a place for the result, with time on the third axis from the end."""
    *lead, n, _, d = case.shape
    gate = (*lead, n, case.groups, d)
    a = random_numbers(rng, case.a_shape or case.shape[:-1], case.a_dtype or case.dtype, 0.95)
    a.reshape(-1)[::11] = 0  # resets
    if case.cut:
        both = random_numbers(rng, (*lead, n, 2 * case.groups * d), case.dtype)
        q, k = (part.reshape(gate) for part in (both[..., : case.groups * d], both[..., case.groups * d :]))
        assert np.shares_memory(q, both)
    else:
        q, k = random_numbers(rng, gate, case.dtype), random_numbers(rng, gate, case.dtype)
    v = random_numbers(rng, case.shape, case.dtype)
    y = np.full(case.shape, np.nan).astype(a.dtype)
    if case.later:
        q, k, v, y = (np.ascontiguousarray(array.swapaxes(-2, -3)).swapaxes(-2, -3) for array in (q, k, v, y))
    return {"a": a, "q": q, "k": k, "u": v, "x": y}


def planned(given: dict[str, np.ndarray], window: str, device: Device = H100) -> Launch | None:
    axis = given["u"].ndim - 3
    a, k, q, v, y = (strided(array) for array in (given["a"][..., None], *(given[name] for name in "kqux")))
    return plan(Solve(a, v, y, None, axis, check_window(window), gates=(k, q)), device)


def check(given: dict[str, np.ndarray], window: str, kernel: str = "sweep") -> None:
    """Compare with the host. A term takes a rounding for each coefficient, and one for each gate and for the sum.

    On tensor cores k v is exact, three products are summed up with 18 roundings each, and there is one multiply-add for
    each tile. The product of both rests is left out, and an entry of L_t and k v are stored in two terms: each may cost
    the square of a half's unit, or half the spacing of the smallest numbers.
    """
    wide = np.complex128 if given["u"].dtype.kind == "c" else np.float64
    own = [given[name].astype(wide) for name in "aqku"]
    exact, sizes = (rf.phalanx(*values, window=window) for values in (own, map(abs, own)))
    block, terms = blocks_and_terms(check_window(window))
    count = min(block * (terms + 1), exact.shape[-3]) + 3
    kind, computed = (str(name) for name in (given["x"].dtype, COMPUTED.get(str(given["x"].dtype), given["x"].dtype)))
    unit = count * UNIT[computed] * (4 if exact.dtype.kind == "c" else 1)
    stored = UNIT[kind] if kind != computed else 0
    error = abs(given["x"].astype(wide) - exact)
    most = sizes * unit / (1 - unit)
    if kernel == "b2p":
        half, (a, q, k, v) = str(given["u"].dtype), map(abs, own)
        unit = (count + 54 + exact.shape[-3] // 16) * TENSOR_CORE
        spread = rf.phalanx(a, None, None, np.ones_like(v), window=window)
        least = RAISED if half == "float16" else HALF_SPACING[half]
        lost = least * 2 * 16 * (1 + k.max() * v.max()) * (1 + spread)
        q = np.repeat(q, v.shape[-2] // q.shape[-2], -2)
        most = (sizes - v) * (unit / (1 - unit) + 2 * UNIT[half] ** 2) + q * lost
        most = most + UNIT["float32"] * (sizes + most)
    assert (error <= most * (1 + stored) + stored * abs(exact) + HALF_SPACING.get(kind, 0)).all()


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_host(rng, name):
    need_compiler()
    case = CASES[name]
    given = arrays(case, rng)
    launch = planned(given, case.window, case.device)
    assert launch is not None
    assert (launch.kernel, dict(launch.macros)["GATED"]) == (case.kernel, "1")
    run_bare(launch, given)
    check(given, case.window, case.kernel)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("window", ["full", "jagged:3", "jagged:8", "jagged:8:0", "jagged:16", "jagged:25"])
def test_every_length_of_the_last_block(rng, window, dtype):
    need_compiler()
    kernels = set()
    for n in (1, 2, 3, *range(15, 35), *range(48, 52), 150):
        given = arrays(Case((2, n, 4, 8), 2, dtype, a_dtype="float32"), rng)
        for device in (SMALL, H100):
            given["x"][...] = np.nan
            launch = planned(given, window, device)
            run_bare(launch, given)
            check(given, window, launch.kernel)
            kernels.add(launch.kernel)
    # Lengths that a window doesn't cut are those of the full one.
    assert ("b2p" in kernels) == (dtype == "float16")


def gated_on_tensor_cores(rng: np.random.Generator, window: str = "jagged:20") -> dict[str, np.ndarray]:
    """Return arrays of halves whose result shows what a rounding to halves would cost."""
    return arrays(Case((2, 500, 4, 16), 2, "float16", window, "float32"), rng)


@pytest.mark.parametrize("window", ["jagged:16", "jagged:20", "jagged:16:0"])
def test_products_of_gates_beyond_halves(rng, window):
    need_compiler()
    given = gated_on_tensor_cores(rng, window)
    given["k"][:, 40:43] = given["u"][:, 40:43] = 300  # 90000 isn't a number of float16
    given["k"][:, 200:240] *= 2.0**-10
    given["u"][:, 200:240] *= 2.0**-10
    launch = planned(given, window)
    assert launch.kernel == "b2p"
    run_bare(launch, given)
    check(given, window, "b2p")


@pytest.mark.parametrize("window", ["jagged:16", "jagged:20", "jagged:48"])
def test_what_is_not_finite_spreads_as_in_the_loop(rng, window):
    need_compiler()
    given = gated_on_tensor_cores(rng, window)
    given["u"][0, 37, 1, 3], given["u"][1, 100, 2, 5], given["k"][0, 201, 0, 7] = np.inf, np.nan, np.inf
    given["q"][0, 301, 1, 2], given["q"][1, 150, 0, 1] = np.inf, np.nan
    launch = planned(given, window)
    assert launch.kernel == "b2p"
    run_bare(launch, given)
    with np.errstate(all="ignore"):
        exact = rf.phalanx(*(given[name].astype(np.float64) for name in "aqku"), window=window)
    np.testing.assert_array_equal(np.isnan(given["x"]), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(given["x"]), np.isinf(exact))


EMULATED = ("batch", "heads before time", "full", "many segments", "bfloat16", "odd features", "complex")
EMULATED += ("tiles", "tiles of float16", "blocks inside tiles", "long blocks", "parts of tiles")


@pytest.mark.machine_code
@pytest.mark.parametrize("name", EMULATED)
def test_the_kernel_has_no_fault_and_the_same_bits_in_every_order(rng, name):
    case, results = CASES[name], []
    given = arrays(case, rng)
    launch = planned(given, case.window, case.device)
    assert launch is not None
    for schedule in (TOGETHER, *RANDOM[:2]):
        own = {**given, "x": np.empty_like(given["x"])}
        execute(launch, own, case.device.capability, schedule=schedule, outputs=("x",)).check()
        check(own, case.window, case.kernel)
        results.append(own["x"])
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


@pytest.mark.machine_code
def test_it_moves_the_bytes_of_its_arrays_and_three_passes_move_more_than_twice_as_many(rng):
    given = arrays(Case((1024, 8, 16), 2), rng)
    launch = planned(given, "jagged:16", SMALL)
    report = execute(launch, given, H100.capability, outputs=("x",)).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    assert moved <= 1.1 * sum(array.nbytes for array in given.values())
    # k v, a solve, and q x + v, each array once in each.
    a, gate, one = (given[name].nbytes for name in "aku")
    three = (gate + 2 * one) + (a + 2 * one) + (gate + 3 * one)
    assert three > 2.5 * moved


TIGHT = ("batch", "full", "many segments", "bfloat16", "float64", "complex", "tiles in float32", "tiles of float16")
TIGHT += ("long blocks", "blocks inside tiles", "blocks alone", "full tiles", "float16, time first")


@pytest.mark.machine_code
@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
@pytest.mark.parametrize("name", TIGHT)
def test_nothing_spills(rng, name, capability):
    case = CASES[name]
    if case.kernel == "b2p" and capability < (8, 0):
        pytest.skip("gates on tensor cores need compute capability 8.0")
    launch = planned(arrays(case, rng), case.window, Device(capability, case.device.multiprocessors))
    assert launch is not None
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)


# What is looked for in the source, and what is put in its place.
MUTATIONS = {
    "a gate for each head": ("group.head /= gate_heads", "group.head %= gate_heads"),
    "the other gate of the inputs": ("multiply(keys[step][c], v)", "multiply(queries[step][c], v)"),
    "the residual left out": ("multiply_add(queries[step][c], x, v)", "multiply(queries[step][c], x)"),
    "gates that stay at the start": ("(segment.origin + position) * k_step", "segment.origin * k_step"),
    "gates of the first chunk for all": ("if (more) gates.load(STEPS + s);", ""),
    "gates that don't go on": ("gates.pass(STEPS);", ""),
    "gates that don't go on from a step alone": ("gates.pass(1);", ""),
    "a step alone without gates": ("gates.input(0, c, inputs[c])", "inputs[c]"),
}  # fmt: skip
TILE_MUTATIONS = {
    "a tile's gates for each head": ("group = h / gate_heads", "group = h % gate_heads"),
    "the other gate of a tile's inputs": ("read16(work.own(stage, 1))", "read16(work.own(stage, 2))"),
    "a tile's residual left out": ("fmaf(queries[k][c], x, values[k][c])", "queries[k][c] * x"),
    "a tile's gates that stay at the start": ("+ step * k_step", "+ lane_step * k_step"),
    "gates of the first tile for all": ("k += TILE * k_step;", ""),
    "gates of the next tile": ("gates.take(work, at, stage)", "gates.take(work, at, (stage + 1) % STAGES)"),
    "the rest of k v left out": ("wmma::mma_sync(product, factor, rests, product);", ""),
    "the rest of k v as large as it is stored": ("            lower(LIFTED);", ""),
    "a rest that isn't stored larger": ("terms[0][c]) * LIFTED", "terms[0][c]) * 1.0f"),
    "the rest of L_t as large as k v's": ("RAISED / LIFTED", "RAISED"),
    "a block inside a tile without the rest": ("if (GATED) u = fmaf(", "if (false) u = fmaf("),
    "results in another order": ("four_of(query, at.second", "four_of(query, !at.second"),
    "a repeated tile without k": ("gates.write_products(work, at, stage);", ""),
    "a repeated tile without q": (
        "quads[k].set(c, gates.output(k, c, states.items[c]));\n                }",
        "quads[k].set(c, states.items[c]);\n                }",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", one_in(2, [*MUTATIONS, *TILE_MUTATIONS]))
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    kernel, window = ("sweep", "jagged:5") if fault in MUTATIONS else ("b2p", "jagged:20")
    plant(monkeypatch, kernel, *(MUTATIONS | TILE_MUTATIONS)[fault])
    if kernel == "b2p":
        given = gated_on_tensor_cores(rng)
        if "repeated" in fault:
            given["k"][:, 40:43] = given["u"][:, 40:43] = 300
        if "inside" in fault:  # one input of each block lives on in the next
            given["a"][...] = 0.99
            given["u"][:, np.arange(500) % 20 != 3] = 0
    else:
        given = arrays(Case((2, 500, 4, 8), 2), rng)
    launch = planned(given, window)
    assert launch.kernel == kernel
    run_bare(launch, given)
    with pytest.raises(AssertionError):
        check(given, window, kernel)


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no barrier of the warp", "a copy not awaited"])
def test_faults_planted_in_the_ptx_of_tiles_are_seen(rng, fault):
    given = arrays(Case((300, 2, 16), 1, "float16", a_dtype="float32"), rng)
    given["k"][5::16, 0, 3] = given["u"][5::16, 1, 3] = 300  # in one head, tiles are repeated
    launch = planned(given, "jagged:32")
    assert (launch.kernel, dict(launch.macros)["GATED"]) == ("b2p", "1")

    def run(text: str, schedule: Schedule) -> tuple[bool, bytes]:
        own = {**given, "x": np.empty_like(given["x"])}
        report = execute(launch, own, H100.capability, text=text, schedule=schedule, outputs=("x",))
        return bool(report.faults), own["x"].tobytes()

    text = text_of(launch, H100.capability)
    right = run(text, TOGETHER)
    assert not right[0]
    texts = edited(text, *PLANTED[fault])
    assert texts
    for number, one in enumerate(texts):
        assert any(run(one, schedule) != right for schedule in orders()), f"number {number}"


def test_what_takes_three_passes(rng):
    def plan_of(shape, groups, window="jagged:16", spread=None):
        given = arrays(Case(shape, groups), rng)
        if spread is not None:
            given["u"], given["x"] = (np.empty([shape[k] for k in spread], "f4") for _ in "ux")
            given["u"], given["x"] = (array.transpose(np.argsort(spread)) for array in (given["u"], given["x"]))
        return planned(given, window)

    assert plan_of((2, 64, 4, 8), 2) is not None
    assert plan_of((2, 64, 4, 8), 2, "jagged:16:2") is None
    assert plan_of((2, 64, 4, 8), 2, "uniform:9") is None
    with pytest.raises(ShapeError, match="next to their features"):
        plan_of((2, 64, 4, 1), 2)  # heads would be counted as channels
    with pytest.raises(ShapeError, match="next to their features"):
        plan_of((2, 64, 4, 8), 2, spread=(2, 0, 1, 3))  # batches between heads and features
    assert plan_of((2, 64, 4, 8), 4, spread=(2, 0, 1, 3)) is not None  # which doesn't matter here
    assert plan_of((2, 64, 4, 8), 2, spread=(0, 2, 3, 1)) is None  # time is contiguous
    assert plan_of((2, 2000, 4, 8), 2, "full") is None  # too few lines
    assert plan_of((0, 64, 4, 8), 2) is None
    given = arrays(Case((2, 64, 4, 8), 2, a_shape=(64, 1)), rng)
    given["q"], given["k"] = (np.repeat(gate, 2, -2)[..., ::2, :] for gate in (given["q"], given["k"]))
    with pytest.raises(ShapeError, match="as an axis of their own"):
        planned(given, "jagged:16")  # heads and their features would be one axis


LAUNCHED = ("batch", "heads before time", "projected together", "coefficients of all heads")
LAUNCHED += ("tiles", "tiles of float16", "tiles projected together", "tiles of heads before time")


@pytest.mark.parametrize("name", LAUNCHED)
def test_phalanx_launches_it_alone(machine, rng, name):
    given = arrays(CASES[name], rng)
    machine.launches.clear()
    y = rf.phalanx(*(on_gpu(given[part]) for part in "aqku"), window=CASES[name].window)
    launched = [(one.launch.kernel, dict(one.launch.macros).get("GATED")) for one in machine.launches]
    assert launched == [(CASES[name].kernel, "1")]
    given["x"] = y.get()
    check(given, CASES[name].window, CASES[name].kernel)


def test_phalanx_takes_what_it_does_not(machine, rng):
    given = arrays(CASES["batch"], rng)
    own = [on_gpu(given[part]) for part in "aqku"]
    for window in ("jagged:4:2", "uniform:5"):
        given["x"] = rf.phalanx(*own, window=window).get()
        check(given, window)
    without = rf.phalanx(own[0], None, own[2], own[3])
    expected = rf.phalanx(given["a"], None, given["k"], given["u"])
    np.testing.assert_allclose(without.get(), expected, rtol=1e-5, atol=1e-5)


def test_tensors_are_mixed_while_they_are_captured(machine, rng):
    given = arrays(CASES["batch"], rng)
    own = [torch_stand_in.tensor(given[part]) for part in "aqku"]
    machine.captured = {torch_stand_in.STREAM}
    with pytest.raises(DeviceError, match="compiles its kernel"):
        mixer.mixed(*own, rf.Jagged(16))
    machine.captured = set()
    before = mixer.mixed(*own, rf.Jagged(16))
    machine.captured, taken = {torch_stand_in.STREAM}, len(machine.pools)
    found = mixer.mixed(*own, rf.Jagged(16))
    assert len(machine.pools) == taken
    machine.captured = set()
    assert isinstance(found, torch_stand_in.Tensor)
    np.testing.assert_array_equal(found.numpy(), before.numpy())
    given["x"] = found.numpy()
    check(given, "jagged:16")
