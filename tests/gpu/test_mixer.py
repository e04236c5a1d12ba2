"""The mixer of a Phalanx layer by one launch, against that of the host in double precision, within its bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from gpu import bare_run, torch_stand_in
from gpu.bare_run import need_compiler, run_bare
from gpu.bounds import UNIT
from gpu.cases import COMPUTED, H100, need_emulator, random_numbers, strided
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import DeviceError
from recfact.gpu import mixer
from recfact.gpu.compiler import source_of
from recfact.gpu.launch import plan_mixer
from recfact.gpu.plans import Device, Launch
from recfact.windows import blocks_and_terms, check_window
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.machine_code import machine_code, missing_tools

SMALL = Device((9, 0), 1)  # few segments


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
    "bfloat16": Case((2, 60, 4, 16), 2, "bfloat16", a_dtype="float32"),
    "float16": Case((2, 60, 4, 16), 2, "float16"),
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
    places = [strided(given[name]) for name in ("q", "k", "u", "x")]
    return plan_mixer(strided(given["a"][..., None]), *places, axis=axis, window=check_window(window), device=device)


def check(given: dict[str, np.ndarray], window: str) -> None:
    """Compare with the host. A term takes a rounding for each coefficient, and one for each gate and for the sum."""
    wide = np.complex128 if given["u"].dtype.kind == "c" else np.float64
    own = [given[name].astype(wide) for name in "aqku"]
    exact, sizes = (rf.phalanx(*values, window=window) for values in (own, map(abs, own)))
    block, terms = blocks_and_terms(check_window(window))
    count = min(block * (terms + 1), exact.shape[-3]) + 3
    kind, computed = (str(name) for name in (given["x"].dtype, COMPUTED.get(str(given["x"].dtype), given["x"].dtype)))
    unit = count * UNIT[computed] * (4 if exact.dtype.kind == "c" else 1)
    stored = UNIT[kind] if kind != computed else 0
    error = abs(given["x"].astype(wide) - exact)
    assert (error <= sizes * unit / (1 - unit) * (1 + stored) + stored * abs(exact)).all()


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_host(rng, name):
    need_compiler()
    given, window = arrays(CASES[name], rng), CASES[name].window
    launch = planned(given, window)
    assert launch is not None
    assert (launch.kernel, dict(launch.macros)["GATED"]) == ("sweep", "1")
    run_bare(launch, given)
    check(given, window)


@pytest.mark.parametrize("window", ["full", "jagged:3", "jagged:8", "jagged:8:0"])
def test_every_length_of_the_last_block(rng, window):
    need_compiler()
    for n in (1, 2, 3, *range(15, 35), 150):
        given = arrays(Case((2, n, 4, 8), 2), rng)
        for device in (SMALL, H100):
            given["x"][...] = np.nan
            run_bare(planned(given, window, device), given)
            check(given, window)


EMULATED = ("batch", "heads before time", "full", "many segments", "bfloat16", "odd features", "complex")


@pytest.mark.parametrize("name", EMULATED)
def test_the_kernel_has_no_fault_and_the_same_bits_in_every_order(rng, name):
    need_emulator()
    given, window, results = arrays(CASES[name], rng), CASES[name].window, []
    launch = planned(given, window)
    assert launch is not None
    for schedule in (TOGETHER, *RANDOM[:2]):
        own = {**given, "x": np.empty_like(given["x"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("x",)).check()
        check(own, window)
        results.append(own["x"])
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


def test_it_moves_the_bytes_of_its_arrays_and_three_passes_move_more_than_twice_as_many(rng):
    need_emulator()
    given = arrays(Case((1024, 8, 16), 2), rng)
    launch = planned(given, "jagged:16", SMALL)
    report = execute(launch, given, H100.capability, outputs=("x",)).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    assert moved <= 1.1 * sum(array.nbytes for array in given.values())
    # k v, a solve, and q x + v, each array once in each.
    a, gate, one = (given[name].nbytes for name in "aku")
    three = (gate + 2 * one) + (a + 2 * one) + (gate + 3 * one)
    assert three > 2.5 * moved


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
@pytest.mark.parametrize("name", ["batch", "full", "many segments", "bfloat16", "float64", "complex"])
def test_nothing_spills(rng, name, capability):
    if missing := missing_tools():
        pytest.skip(missing)
    launch = planned(arrays(CASES[name], rng), CASES[name].window, Device(capability, 1))
    assert launch is not None
    code = machine_code(launch, capability)
    assert (code.log, code.stack) == ("", 0)


# What is looked for in the source, and what is put in its place.
MUTATIONS = {
    "a gate for each head": ("group.head /= gate_heads", "group.head %= gate_heads"),
    "the other gate of the inputs": ("multiply(keys[step][c], v)", "multiply(queries[step][c], v)"),
    "the residual left out": ("multiply_add(queries[step][c], x, v)", "multiply(queries[step][c], x)"),
    "gates that stay at the start": ("(origin + position) * k_step", "origin * k_step"),
    "gates of the first chunk for all": ("if (more) gates.load(STEPS + s);", ""),
    "gates that don't go on": ("gates.pass(STEPS);", ""),
    "gates that don't go on from a step alone": ("gates.pass(1);", ""),
    "a step alone without gates": ("gates.input(0, c, inputs[c])", "inputs[c]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", MUTATIONS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    old, new = MUTATIONS[fault]
    text = source_of("sweep")
    assert text.count(old) == 1
    monkeypatch.setattr(bare_run, "source_of", lambda kernel: text.replace(old, new))
    monkeypatch.setattr(bare_run, "_built", bare_run._built.__wrapped__)
    given = arrays(Case((2, 500, 4, 8), 2), rng)
    run_bare(planned(given, "jagged:5"), given)
    with pytest.raises(AssertionError):
        check(given, "jagged:5")


def test_what_takes_three_passes(rng):
    def plan(shape, groups, window="jagged:16", spread=None):
        given = arrays(Case(shape, groups), rng)
        if spread is not None:
            given["u"], given["x"] = (np.empty([shape[k] for k in spread], "f4") for _ in "ux")
            given["u"], given["x"] = (array.transpose(np.argsort(spread)) for array in (given["u"], given["x"]))
        return planned(given, window)

    assert plan((2, 64, 4, 8), 2) is not None
    assert plan((2, 64, 4, 8), 2, "jagged:16:2") is None
    assert plan((2, 64, 4, 8), 2, "uniform:9") is None
    assert plan((2, 64, 4, 1), 2) is None  # heads would be counted as channels
    assert plan((2, 64, 4, 8), 2, spread=(2, 0, 1, 3)) is None  # batches between heads and features
    assert plan((2, 64, 4, 8), 4, spread=(2, 0, 1, 3)) is not None  # which doesn't matter here
    assert plan((2, 64, 4, 8), 2, spread=(0, 2, 3, 1)) is None  # time is contiguous
    assert plan((2, 2000, 4, 8), 2, "full") is None  # too few lines
    assert plan((0, 64, 4, 8), 2) is None
    given = arrays(Case((2, 64, 4, 8), 2, a_shape=(64, 1)), rng)
    given["q"], given["k"] = (np.repeat(gate, 2, -2)[..., ::2, :] for gate in (given["q"], given["k"]))
    assert planned(given, "jagged:16") is None  # heads and their features would be one axis


@pytest.mark.parametrize("name", ["batch", "heads before time", "projected together", "coefficients of all heads"])
def test_phalanx_launches_it_alone(machine, rng, name):
    given = arrays(CASES[name], rng)
    machine.launches.clear()
    y = rf.phalanx(*(on_gpu(given[part]) for part in "aqku"), window=CASES[name].window)
    assert [dict(launch.launch.macros).get("GATED") for launch in machine.launches] == ["1"]
    given["x"] = y.get()
    check(given, CASES[name].window)


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
