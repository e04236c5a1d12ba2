"""Gradients from initial states, and of these, by the kernels that make the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gpu import test_gradient_types, torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import HALF_SPACING, UNIT
from gpu.cases import H100, strided
from gpu.stand_in import on_gpu
from gpu.test_gradient_types import LAYOUTS, SMALL, arrays, spills

import recfact as rf
from recfact.gpu.gradients import gradients
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import PART_STEPS, Gradients
from recfact.windows import check_window
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS

KINDS = ("bfloat16", "coefficients in float32")
# Window, and what is given: states, inputs, or inputs and the states that a solve kept.
WAYS = [("full", "x"), ("full", "u"), ("full", "kept"), ("jagged:16", "u"), ("jagged:5:2", "u"), ("uniform:9", "u")]
OFFSETS = [0, 0, 8, 24, 40]  # of all layouts, followed by their end


def made(rng: np.random.Generator, layout: str, kinds: str, given: str, packed: bool) -> dict[str, np.ndarray]:
    """Return arrays with time first, initial states in float32, and a place for their gradients."""
    named = arrays(rng, layout, kinds, "jagged:16")
    named["a"][...] = rng.choice([-1, 1], named["a"].shape) * rng.uniform(0.8, 1, named["a"].shape)
    named["a"][20] = 0  # initial states reach as far
    n, *step = named["u"].shape
    named["starts"] = np.array([*OFFSETS, n] if packed else [0, n])
    named["x0"] = rng.uniform(-1, 1, (len(named["starts"]) - 1, *step)).astype("f4")
    named["d0"] = np.full_like(named["x0"], np.nan)
    own = [named[name].astype("f4") for name in "au"]
    x = np.array(rf.solve(*own, x0=named["x0"], axis=0, offsets=named["starts"]))
    if given == "x":
        named["x"] = x if LAYOUTS[layout][2] is None else test_gradient_types.in_order(x, LAYOUTS[layout][2])
    if given == "kept":
        named["states"] = np.full((n // PART_STEPS, *step), np.nan, "f4")
        for start, end in pairwise(named["starts"]):
            rows = x[start:end][PART_STEPS - 1 :: PART_STEPS]
            named["states"][start // PART_STEPS :][: len(rows)] = rows
    return named


def planned(named: dict[str, np.ndarray], window: str, device: Device = SMALL) -> Launch:
    names = ("a", "x" if "x" in named else "u", "g", "du", "da")
    packed = len(named["starts"]) > 2
    x0, kept = strided(named["x0"]), named.get("states")
    asked = Gradients(
        *(strided(named[name]) for name in names),
        check_window(window),
        sequences_of(named["starts"]) if packed else None,
        states="x" in named,
        kept=None if kept is None else strided(kept),
        x0=x0 if packed else x0.taken(0, 0),
    )
    launch = plan_gradients(asked, device)
    assert launch is not None
    assert dict(launch.macros)["INITIAL"] == "1"
    return launch


def in_its_order(named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with starts in the order of the sweep: that of `backward` goes back in time."""
    return {**named, "starts": named["starts"][-1] - named["starts"][::-1]} if "x" in named else named


def check(named: dict[str, np.ndarray], window: str) -> None:
    """Compare with the host in double precision, within the bound and the last rounding."""
    own = [named[name].astype("f8") for name in ("a", "u", "g")]
    options = {"axis": 0, "window": window, "offsets": named["starts"]}
    exact = rf.gradients.vjp(*own, x0=named["x0"].astype("f8"), **options)
    sizes = rf.gradients.vjp(*map(abs, own), x0=abs(named["x0"].astype("f8")), **options)
    channels = own[1].size // own[0].size * own[1].shape[-1]
    unit = (len(own[1]) + 50 + channels) * UNIT["float32"]
    for name, value, size in zip(("da", "du", "d0"), exact, sizes, strict=True):
        kind = named[name].dtype.name
        most = size * unit / (1 - unit)
        if kind != "float32":
            most = most + UNIT[kind] * (abs(value) + most) + HALF_SPACING[kind]
        if name == "d0":  # nothing is written for sequences without steps
            lengths = np.diff(named["starts"])
            named, value, most = {name: named[name][lengths > 0]}, value[lengths > 0], most[lengths > 0]
        assert (abs(named[name].astype("f8") - value) <= most).all(), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("packed", [False, True], ids=["whole", "sequences"])
@pytest.mark.parametrize("way", WAYS, ids=":".join)
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_those_of_the_host_rounded_once(rng, layout, kinds, way, packed):
    need_compiler()
    named = made(rng, layout, kinds, way[1], packed)
    run_bare(planned(named, way[0]), in_its_order(named))
    check(named, way[0])


@pytest.mark.machine_code
@pytest.mark.parametrize("packed", [False, True], ids=["whole", "sequences"])
@pytest.mark.parametrize("way", WAYS, ids=":".join)
def test_the_kernels_have_no_fault_and_the_same_bits_in_every_order(rng, way, packed):
    for layout in ("shared", "rows"):
        named, results = made(rng, layout, "bfloat16", way[1], packed), set()
        if packed:
            named["starts"] = named["starts"][1:]  # each has steps, so that all of d0 is written
            named["x0"], named["d0"] = named["x0"][1:], named["d0"][1:]
        launch = planned(named, way[0])
        for schedule in (TOGETHER, RANDOM[0]):
            for name in ("du", "da", "d0"):
                named[name][...] = np.nan
            report = execute(
                launch, in_its_order(named), H100.capability, schedule=schedule, outputs=("du", "da", "d0")
            )
            report.check()
            assert report.arrays["d0"].written == named["d0"].nbytes
            check(named, way[0])
            results.add(b"".join(named[name].tobytes() for name in ("du", "da", "d0")))
        assert len(results) == 1


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("capability", "layout", "kinds"),
    [
        pytest.param(target, *what, marks=[pytest.mark.slow] * ((target, what[0]) != ((9, 0), "own")))
        for target in TARGETS
        for what in (("own", "coefficients in float32"), ("shared", "bfloat16"), ("rows, own", "bfloat16"))
    ],
)
def test_nothing_spills(rng, capability, layout, kinds):
    for way in WAYS:
        for packed in (False, True):
            named = made(rng, layout, kinds, way[1], packed)
            assert not spills(planned(named, way[0], Device(capability, 1)), capability), (way, packed)


# The way, what is in its kernel's source, and what is put there.
FAULTS = {
    "no product with the first coefficient": (("full", "x"), "multiply(state[c], entering[c]);", "number<Number>(0);"),
    "the gradient without its coefficient": (
        ("full", "x"),
        "multiply(factor[c % COEFFICIENTS], state[c])",
        "state[c]",
    ),
    "the states of the first sequence": (("full", "x"), "own.segment * x0_step", "0"),
    "an input as it was": (("full", "u"), "INITIAL && s == 0 && first ?", "false ?"),
    "the first way from zero": (("full", "u"), "input_of(s, c, step == 0)", "input(s, c)"),
    "added to the first of each part": (("full", "kept"), "index == 0 && k == 0)", "k == 0)"),
    "added where no chunk begins": (("jagged:16", "u"), "INITIAL && s == 0 && first", "INITIAL && first"),
    "nothing for the first coefficient": (
        ("jagged:16", "u"),
        "gradients[c] = multiply(total[c], initial(c));",
        "",
    ),
    "a first coefficient for each block": (("jagged:16", "u"), "if (INITIAL && index == 0) {", "if (INITIAL) {"),
    "no gradient of it": (("uniform:9", "u"), "multiply(first_coefficient(c), total[c])", "total[c]"),
    "those of the first sequence": (("jagged:5:2", "u"), "segment.sequence * x0_step", "0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    way, old, new = FAULTS[fault]
    named = made(rng, "shared", "coefficients in float32", way[1], packed="sequence" in fault)
    launch = planned(named, way[0])
    run_bare(launch, in_its_order(named))
    check(named, way[0])
    plant(monkeypatch, launch.kernel, old, new)
    run_bare(launch, in_its_order(named))
    with pytest.raises(AssertionError, match=r"d[au0]"):
        check(named, way[0])


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("x0", [2.0, [[0.5]], "last axis in front"])
@pytest.mark.parametrize("window", ["full", "jagged:8"])
def test_vjp_of_initial_states_that_are_broadcast(machine, rng, window, x0, known):
    a, u, g = (rng.uniform(-1, 1, shape).astype("f4") for shape in ((60, 2, 1), (60, 2, 8), (60, 2, 8)))
    x0 = np.asfortranarray(rng.uniform(-1, 1, (2, 8))) if isinstance(x0, str) else np.array(x0)
    there, options = [on_gpu(array) for array in (a, u, g)], {"axis": 0, "window": window}
    entering = on_gpu(x0.astype("f4"))
    x = rf.solve(*there[:2], x0=entering, **options) if known else None
    machine.launches.clear()
    found = rf.gradients.vjp(*there, x0=entering, x=x, **options)
    kernel = "backward" if known and window == "full" else "backward_window"
    assert [launch.launch.kernel for launch in machine.launches] == [kernel]
    exact = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), x0=x0.astype("f8"), **options)
    for got, value in zip(found, exact, strict=True):
        assert (got.shape, got.dtype) == (value.shape, np.float32)
        np.testing.assert_allclose(got.get(), value, rtol=1e-4, atol=1e-4)


def test_an_empty_sequence_has_a_gradient_of_0_even_of_nan(machine, rng):
    a, u, g = (on_gpu(rng.uniform(-1, 1, (40, 8)).astype("f4")) for _ in "aug")
    x0 = np.full((3, 8), np.nan, "f4")
    x0[1:] = 1
    *_, d0 = rf.gradients.vjp(a, u, g, x0=on_gpu(x0), axis=0, offsets=[0, 0, 15, 40])
    assert (d0.get()[0] == 0).all()
    assert np.isfinite(d0.get()).all()


def test_tensors_have_them_in_their_own_memory(machine, rng):
    given = [rng.uniform(-1, 1, (40, 8)).astype("f4") for _ in "aug"]
    x0 = rng.uniform(-1, 1, (1, 8)).astype("f4")
    found = gradients(*map(torch_stand_in.tensor, given), states=False, x0=torch_stand_in.tensor(x0))
    same = gradients(*map(on_gpu, given), states=False, x0=on_gpu(x0))
    for one, other in zip(found, same, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.get())


def test_complex_states_beside_real_arrays_are_left_to_solves(machine, rng):
    given = [on_gpu(rng.uniform(-1, 1, (40, 8)).astype("f4")) for _ in "aug"]
    assert gradients(*given, states=False, x0=on_gpu(np.ones((1, 8), "c8"))) is None
