"""Gradients of the full recurrence from its inputs by one launch: states are kept at few steps, and found again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from gpu import test_gradient_types, torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import UNIT
from gpu.cases import H100, NUMPY, random_numbers, strided
from gpu.stand_in import on_gpu
from gpu.test_gradient_sums import SHARED, added, with_parts
from gpu.test_gradient_types import SMALL, TYPES, arrays, check, spills

import recfact as rf
from recfact.gpu.gradients import gradients
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import Gradients
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS

# Shape with time first, that of coefficients, and the order of the axes in memory if time isn't the first.
LAYOUTS = {name: SHARED[name][:3] for name in ("heads", "67 heads", "rows of 37", "rows of batches")}
LAYOUTS |= test_gradient_types.LAYOUTS
LAYOUTS |= {
    "one step": ((1, 2, 8), (1, 2, 1), None),
    "less than is kept": ((7, 2, 8), (7, 2, 8), None),
    "as much": ((16, 2, 8), (16, 2, 1), None),
    "one more": ((17, 2, 8), (17, 2, 8), None),
    "rows of whole parts": ((64, 2, 8), (64, 2, 1), (1, 2, 0)),
}
KINDS = ("float32", "bfloat16", "coefficients in float32")


@pytest.fixture(autouse=True)
def layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPES, "float32", ("float32",) * 5)
    for name, layout in LAYOUTS.items():
        monkeypatch.setitem(test_gradient_types.LAYOUTS, name, layout)


def planned(given: dict[str, np.ndarray], device: Device = H100, offsets: list[int] | None = None) -> Launch:
    sequences = None if offsets is None else sequences_of(np.array(offsets))
    places = (strided(given[name]) for name in ("a", "u", "g", "du", "da"))
    launch = plan_gradients(Gradients(*places, rf.Full(), sequences, states=False), device)
    assert launch is not None
    assert dict(launch.macros)["CARRIED"] == "1"
    return launch


def sums_in_parts(given: dict[str, np.ndarray], launch: Launch) -> dict[str, np.ndarray]:
    """Return the arrays, with one for the parts of sums if the launch has any."""
    return with_parts(given, replace(launch, scratch=tuple(one for one in launch.scratch if one.name == "sums")))


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_those_of_the_host(rng, layout, kinds):
    need_compiler()
    given = arrays(rng, layout, kinds, "full")
    launch = planned(given)
    given = sums_in_parts(given, launch)
    run_bare(launch, given)
    check(added(given), "full")


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
@pytest.mark.parametrize("layout", ["own", "shared", "rows"])
def test_gradients_of_wide_numbers(rng, layout, dtype):
    need_compiler()
    shape, single, _ = LAYOUTS[layout]
    given = {name: random_numbers(rng, single if "a" in name else shape, dtype, 0.9) for name in ("a", "u", "g", "da")}
    given["du"] = np.empty_like(given["u"])
    run_bare(planned(given), given)
    wide = "c16" if dtype.startswith("complex") else "f8"
    exact = rf.gradients.vjp(*(given[name].astype(wide) for name in "aug"), axis=0)
    size = 1e-4 if dtype == "complex64" else 1e-12
    for name, value in zip(("da", "du"), exact[:2], strict=True):
        np.testing.assert_allclose(given[name], value, rtol=size, atol=size)


@pytest.mark.parametrize("emulated", [False, pytest.param(True, marks=pytest.mark.machine_code)])
@pytest.mark.parametrize("layout", ["own", "shared", "rows"])
def test_sequences_have_states_of_their_own(rng, layout, emulated):
    need_compiler()
    given = arrays(rng, layout, "bfloat16", "full")
    offsets = [0, 0, 16, 24, 56, len(given["u"])] if layout == "rows" else [0, 0, 17, 18, 50, len(given["u"])]
    for start in offsets[:-1]:  # what is at the ends of others doesn't matter
        given["a"][start : start + 1] = np.nan
    given["starts"] = np.array(offsets)
    launch = planned(given, SMALL, offsets)
    if emulated:
        used = {name: array for name, array in given.items() if name != "x"}
        execute(launch, used, H100.capability, outputs=("du", "da"), schedule=RANDOM[0]).check()
    else:
        run_bare(launch, given)
    for start, end in pairwise(offsets):
        own = {name: given[name][start:end] for name in ("a", "u", "g", "du", "da")}
        own["a"] = np.nan_to_num(own["a"].astype("f4")).astype(own["a"].dtype)
        if start < end:
            check(own, "full")


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("layout", "kinds"),
    [("shared", "bfloat16"), ("own", "float32"), pytest.param("rows", "float16", marks=pytest.mark.slow)],
)
def test_the_kernel_has_no_fault_and_the_same_bits_in_every_order(rng, layout, kinds):
    given, results = arrays(rng, layout, kinds, "full"), set()
    del given["x"]
    launch = planned(given, SMALL)
    for schedule in (TOGETHER, RANDOM[0]):
        own = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("du", "da")).check()
        check(own, "full")
        results.add(own["du"].tobytes() + own["da"].tobytes())
    assert len(results) == 1


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=[pytest.mark.slow] * (one != (7, 5))) for one in TARGETS]
)
def test_nothing_spills(rng, capability):
    for layout, kinds in (("shared", "bfloat16"), ("own", "float16"), ("rows", "bfloat16"), ("own", "float32")):
        assert not spills(planned(arrays(rng, layout, kinds, "full"), Device(capability, 1)), capability), layout


@pytest.mark.machine_code
def test_inputs_are_read_twice_and_states_are_few(rng, monkeypatch):
    monkeypatch.setitem(test_gradient_types.LAYOUTS, "long", ((512, 8, 16), (512, 8, 1), None))
    given = arrays(rng, "long", "bfloat16", "full")
    del given["x"]
    report = execute(planned(given, SMALL), given, H100.capability, outputs=("du", "da")).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    twice, states = given["u"].nbytes + given["a"].nbytes, 2 * given["u"].size * 4 / 16
    needed = sum(array.nbytes for array in given.values())
    assert 0.98 * (needed + twice + states) <= moved <= needed + twice + states


MUTATIONS = {
    "states of the block itself": ("(passed(index - 2))", "(passed(index - 1))"),
    "states of another line": ("line.in(states_batch, states_head, states_channel) + origin", "origin"),
    "z that starts anew": ("&& (!CARRIED || index == top)", ""),
    "no state before a block": ("if (CARRIED && index > 0) gradients", "if (false) gradients"),
    "the state before the last block lost": ("if (index < top) before = ahead;", "before = ahead;"),
}  # fmt: skip


@pytest.mark.parametrize("fault", MUTATIONS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    plant(monkeypatch, "backward_window", *MUTATIONS[fault])
    given = arrays(rng, "shared", "float32", "full")
    given["a"][...] = 0.9  # no resets
    with np.errstate(all="ignore"):
        run_bare(planned(given), given)
    with pytest.raises(AssertionError, match=r"d[au]"):
        check(given, "full")


@pytest.mark.parametrize("offsets", [None, [0, 10, 10, 11, 40, 60]])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_vjp_launches_it_alone_unless_states_are_known(machine, rng, kind, offsets):
    a, u, g = (random_numbers(rng, shape, kind, 0.9) for shape in ((60, 2, 1), (60, 2, 8), (60, 2, 8)))
    given = [on_gpu(array) for array in (a, u, g)]
    x = rf.solve(given[0], given[1], axis=0, offsets=offsets)
    for known, kernel in ((None, "backward_window"), (x, "backward_window" if kind == "bfloat16" else "backward")):
        machine.launches.clear()
        rf.gradients.vjp(*given, axis=0, x=known, offsets=offsets)
        assert [launch.launch.kernel for launch in machine.launches] == [kernel]


def test_tensors_keep_states_in_their_own_memory(machine, rng):
    given = [random_numbers(rng, (40, 8), "bfloat16", 0.9) for _ in "aug"]
    found = gradients(*map(torch_stand_in.tensor, given), states=False)
    same = gradients(*map(on_gpu, given), states=False)
    for one, other in zip(found[:2], same[:2], strict=True):
        np.testing.assert_array_equal(one.numpy(), other.get())
    assert NUMPY["float32"] == same[0].dtype


@pytest.mark.parametrize("offsets", [None, [0, 10, 10, 11, 40, 60]])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_vjp_from_initial_states(machine, rng, kind, offsets):
    a, u, g = (random_numbers(rng, shape, kind, 0.9) for shape in ((60, 2, 1), (60, 2, 8), (60, 2, 8)))
    x0 = random_numbers(rng, (2, 8) if offsets is None else (5, 2, 8), "float32")
    machine.launches.clear()
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), x0=on_gpu(x0), axis=0, offsets=offsets)
    assert [launch.launch.kernel for launch in machine.launches] == ["backward_window"]
    exact = rf.gradients.vjp(*(one.astype("f8") for one in (a, u, g)), x0=x0.astype("f8"), axis=0, offsets=offsets)
    for got, value in zip(found, exact, strict=True):
        numbers = got.view(np.uint16).get().view(got.dtype) if got.dtype.itemsize == 2 else got.get()
        np.testing.assert_allclose(numbers.astype("f8"), value, rtol=UNIT[kind] + 1e-4, atol=1e-4)
