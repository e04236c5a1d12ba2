"""Gradients of halves and of mixed number types by one launch: computed in float32, and rounded once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from gpu import torch_stand_in
from gpu.bare_run import need_compiler, run_bare
from gpu.bounds import HALF_SPACING, UNIT
from gpu.cases import H100, NUMPY, in_order, random_numbers, strided
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.gpu import gradients as gpu_gradients
from recfact.gpu import run
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import Gradients
from recfact.gradients.arguments import Given
from recfact.gradients.products import pulled_back
from recfact.windows import blocks_and_terms, check_window
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS
from tools.gpu.machine_code import usage

SMALL = Device((9, 0), 1)
# Number types of coefficients, inputs, cotangents and both gradients.
TYPES = {
    "bfloat16": ("bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16"),
    "float16": ("float16", "float16", "float16", "float16", "float16"),
    "coefficients in float32": ("float32", "bfloat16", "bfloat16", "bfloat16", "float32"),
    "coefficients and cotangents in float32": ("float32", "float16", "float32", "float16", "float32"),
    "gradients in float32": ("bfloat16", "bfloat16", "bfloat16", "float32", "float32"),
}
WINDOWS = ("full", "jagged:16", "jagged:6:0", "jagged:5:2", "uniform:9")
# Shape with time first, that of coefficients, and the order of the axes in memory if time isn't the first.
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = {
    "own": ((72, 3, 8), (72, 3, 8), None),
    "shared": ((75, 2, 16), (75, 2, 1), None),
    "odd channels": ((41, 2, 7), (41, 2, 7), None),
    "rows": ((80, 2, 8), (80, 2, 1), (1, 2, 0)),
    "rows, own": ((76, 2, 4), (76, 2, 4), (1, 2, 0)),
}


def arrays(rng: np.random.Generator, layout: str, kinds: str, window: str) -> dict[str, np.ndarray]:
    """Return arrays with time first. The states of the full recurrence are in float32."""
    shape, single, order = LAYOUTS[layout]
    sizes, types = (single, shape, shape, shape, single), TYPES[kinds]
    given = {
        name: random_numbers(rng, size, kind, 0.95)
        for name, size, kind in zip(("a", "u", "g", "du", "da"), sizes, types, strict=True)
    }
    given["a"].reshape(-1)[::11] = 0  # resets
    for name in ("du", "da"):
        given[name][...] = np.nan
    if window == "full":
        given["x"] = np.array(rf.solve(*(given[name].astype(np.float32) for name in "au"), axis=0))
    return {name: array if order is None else in_order(array, order) for name, array in given.items()}


def planned(given: dict[str, np.ndarray], window: str, device: Device = H100) -> Launch:
    names = ("a", "x" if window == "full" else "u", "g", "du", "da")
    launch = plan_gradients(Gradients(*(strided(given[name]) for name in names), check_window(window)), device)
    assert launch is not None
    return launch


def check(given: dict[str, np.ndarray], window: str) -> None:
    """Compare with the host in double precision: the bound of docs/gradients.md, and the last rounding."""
    own = [given[name].astype(np.float64) for name in "aug"]
    exact = rf.gradients.vjp(*own, axis=0, window=window)
    sizes = rf.gradients.vjp(*map(abs, own), axis=0, window=window)
    n, channels = len(own[1]), own[1].size // own[0].size * own[1].shape[-1]
    if window == "full":
        count = n - 1 + 15
    else:
        block, terms = blocks_and_terms(check_window(window))
        count = min(block * (terms + 1), n) - 1 + (terms + 41 if block == 1 and terms > 1 else 9 * terms + 15)
    unit = (count + channels - 1) * UNIT["float32"]
    for name, value, size in zip(("da", "du"), exact[:2], sizes[:2], strict=True):
        kind = given[name].dtype.name
        most = size * unit / (1 - unit)
        if kind != "float32":
            most = most + UNIT[kind] * (abs(value) + most) + HALF_SPACING[kind]
        assert (abs(given[name].astype(np.float64) - value) <= most).all(), name


PAIRS = [(layout, kinds) for layout in LAYOUTS for kinds in TYPES]
EVERY = [
    pytest.param(*pair, window, marks=[pytest.mark.slow] * (window != WINDOWS[(k + k // 5) % 5]))
    for k, pair in enumerate(PAIRS)
    for window in WINDOWS
]


@pytest.mark.parametrize(("layout", "kinds", "window"), EVERY)
def test_gradients_are_those_of_the_host_rounded_once(rng, layout, kinds, window):
    need_compiler()
    given = arrays(rng, layout, kinds, window)
    run_bare(planned(given, window), given)
    check(given, window)


EMULATED = [("shared", "bfloat16", "jagged:16"), ("rows", "float16", "full")]
MORE = [
    (layout, kinds, window)
    for k, (layout, kinds) in enumerate(PAIRS)
    for window in (WINDOWS[k % 5], WINDOWS[(k + 2) % 5])
    if (layout, kinds, window) not in EMULATED
]
SAMPLES = EMULATED + [pytest.param(*one, marks=pytest.mark.slow) for one in MORE]


@pytest.mark.machine_code
@pytest.mark.parametrize(("layout", "kinds", "window"), SAMPLES)
def test_the_kernels_have_no_fault_and_the_same_bits_in_every_order(rng, layout, kinds, window):
    given, results = arrays(rng, layout, kinds, window), []
    launch = planned(given, window, SMALL)
    for schedule in (TOGETHER, RANDOM[0]):
        own = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("du", "da")).check()
        check(own, window)
        results.append(own["du"].tobytes() + own["da"].tobytes())
    assert len(set(results)) == 1


def spills(launch: Launch, capability: tuple[int, int]) -> bool:
    used = usage(launch, capability)
    return (used.log, used.stack) != ("", 0)


@pytest.mark.machine_code
@pytest.mark.parametrize(("layout", "kinds", "window"), EMULATED)
def test_nothing_spills(rng, layout, kinds, window):
    assert not spills(planned(arrays(rng, layout, kinds, window), window, Device((7, 5), 132)), (7, 5))


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.exhaustive), pytest.param(len(TARGETS), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("capability", TARGETS, ids=lambda target: f"sm_{target[0]}{target[1]}")
def test_nothing_spills_on_any_target(rng, capability, every):
    # Targets have different ones, so that together they have all.
    cases = list(product(LAYOUTS, TYPES, WINDOWS))[TARGETS.index(capability) % every :: every]
    found = {
        (layout, kinds, window): planned(arrays(rng, layout, kinds, window), window, Device(capability, 132))
        for layout, kinds, window in cases
    }
    assert [name for name, launch in found.items() if spills(launch, capability)] == []


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=[pytest.mark.slow] * (one != (9, 0))) for one in TARGETS]
)
def test_nothing_spills_with_many_terms(capability):
    """Two channels of a thread have few numbers under way, in each type: 8 steps of halves spilled."""
    x = np.empty((64, 512, 8), NUMPY["bfloat16"])
    launch = planned(dict.fromkeys(("a", "u", "g", "du", "da"), x), "jagged:2:7", Device(capability, 1))
    macros = dict(launch.macros)
    assert (macros["CHANNELS"], macros["STEPS"]) == ("2", "4")
    assert not spills(launch, capability)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("window", "n"), [("full", 256), ("jagged:16", 2048), ("jagged:16:2", 4096), ("uniform:17", 2048)]
)
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param("bfloat16", marks=pytest.mark.slow),
        "coefficients in float32",
        pytest.param("coefficients and cotangents in float32", marks=pytest.mark.slow),
    ],
)
def test_every_number_is_read_and_written_once(rng, monkeypatch, kinds, window, n):
    monkeypatch.setitem(LAYOUTS, "long", ((n, 2, 16), (n, 2, 1), None))
    given = arrays(rng, "long", kinds, window)
    if window == "full":
        del given["u"]
    report = execute(planned(given, window, SMALL), given, H100.capability, outputs=("du", "da")).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    needed = sum(array.nbytes for array in given.values())
    assert 0.99 * needed <= moved <= 1.1 * needed  # the first coefficient isn't read


OFFSETS = {"whole": None, "sequences": [0, 10, 10, 11, 40, 60]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("window", ["full", "jagged:8", "uniform:8"])
@pytest.mark.parametrize("kinds", [("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "bfloat16")])
@pytest.mark.parametrize("reverse", [False, True])
def test_vjp_converts_nothing(machine, rng, kinds, window, offsets, reverse):
    a, u, g = (
        random_numbers(rng, shape, kind, 0.9)
        for shape, kind in zip(((60, 2, 1), (60, 2, 8), (60, 2, 8)), (*kinds, kinds[1]), strict=True)
    )
    options = {"axis": 0, "window": window, "offsets": offsets, "reverse": reverse}
    machine.launches.clear()
    da, du, _ = rf.gradients.vjp(*map(on_gpu, (a, u, g)), **options)
    solves, apart = ["sliding" if window == "uniform:8" else "sweep"], kinds[0] == "float32" and window == "full"
    expected = ["sweep", "backward"] if reverse and apart else ["backward_window", *solves * reverse]
    assert [launch.launch.kernel for launch in machine.launches] == expected
    kernel = next(launch.launch for launch in machine.launches if launch.launch.kernel.startswith("backward"))
    stored = {"float32": "float", "float16": "half", "bfloat16": "__nv_bfloat16"}
    assert dict(kernel.macros)["INPUT"] == stored[kinds[1]]
    assert (da.dtype, du.dtype) == (NUMPY[kinds[0]],) * 2  # that of the states
    exact = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), **options)
    for got, value in zip((da, du), exact[:2], strict=True):
        bits = got.view(np.uint16).get().view(got.dtype) if got.dtype.itemsize == 2 else got.get()
        np.testing.assert_allclose(bits.astype("f8"), value, rtol=UNIT[kinds[0]] + 1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rounded_states_are_not_read(machine, rng, kind, known):
    a, u, g = (random_numbers(rng, shape, kind, 0.9) for shape in ((60, 2, 1), (60, 2, 8), (60, 2, 8)))
    given = [on_gpu(array) for array in (a, u, g)]
    x = rf.solve(given[0], given[1], axis=0) if known else None
    found = rf.gradients.vjp(*given, axis=0, x=x)
    names = zip(("da", "du"), found[:2], strict=True)
    check({"a": a, "u": u, "g": g, **{name: got.view(np.uint16).get().view(got.dtype) for name, got in names}}, "full")


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("shapes", [((3, 1), (99, 3, 40)), ((99, 3, 40), (99, 1, 40))], ids=["constant", "inputs"])
def test_what_is_summed_further_is_rounded_after_that(machine, rng, shapes, initial):
    a, u, g = (random_numbers(rng, shape, "float16", 0.9) for shape in (*shapes, (99, 3, 40)))
    x0 = random_numbers(rng, (3, 40), "float32") if initial else None
    options = {"axis": 0, "window": "jagged:8"}
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), x0=on_gpu(x0), **options)
    own, wide = [array.astype("f8") for array in (a, u, g)], x0.astype("f8") if initial else None
    exact = rf.gradients.vjp(*own, x0=wide, **options)
    sizes = rf.gradients.vjp(*map(abs, own), x0=abs(wide) if initial else None, **options)
    found, exact, sizes = (three[: 2 + initial] for three in (found, exact, sizes))
    for got, value, size in zip(found, exact, sizes, strict=True):
        assert (got.shape, got.dtype) == (value.shape, np.float16)
        added = 1 if value.shape == (3, 40) else g.size // value.size
        count = 15 + 9 + 15 + added + 2  # of the bound, and a product and a sum of the initial state
        most = size * count * UNIT["float32"] / (1 - count * UNIT["float32"])
        most = most + UNIT["float16"] * (abs(value) + most) + HALF_SPACING["float16"]
        assert (abs(got.get().astype("f8") - value) <= most).all()


@pytest.mark.parametrize("window", ["full", "jagged:8", "uniform:8"])
@pytest.mark.parametrize(
    ("kinds", "shape"),
    [(("bfloat16", "float32", "bfloat16"), (60, 2, 8)), (("float16",) * 3, (60, 1, 8)), (("float16",) * 3, (60, 2, 8))],
    ids=["float32 inputs", "inputs", "halves"],
)
def test_inputs_of_the_transpose_have_gradients_that_are_rounded_once(machine, rng, kinds, shape, window):
    shapes = ((60, 2, 1), shape, (60, 2, 8))
    a, u, g = (random_numbers(rng, own, kind, 0.9) for own, kind in zip(shapes, kinds, strict=True))
    options = {"axis": 0, "window": window, "reverse": True}
    _, du, _ = rf.gradients.vjp(*map(on_gpu, (a, u, g)), **options)
    own = [array.astype("f8") for array in (a, u, g)]
    value, size = rf.gradients.vjp(*own, **options)[1], rf.gradients.vjp(*map(abs, own), **options)[1]
    most = size * (60 + 9 + 2) * UNIT["float32"] / (1 - (60 + 9 + 2) * UNIT["float32"])  # of a solve and a sum of two
    if kinds[1] != "float32":
        most = most + UNIT[kinds[1]] * (abs(value) + most) + HALF_SPACING[kinds[1]]
    assert du.dtype == NUMPY[kinds[1]]
    assert (abs(du.get().astype("f8") - value) <= most).all()


@pytest.mark.parametrize("window", ["full", "jagged:8", "jagged:8:2", "uniform:8"])
def test_halves_without_a_kernel_are_computed_in_float32(machine, monkeypatch, rng, window):
    monkeypatch.setattr(run, "plan_gradients", lambda *_: None)
    a, u, g = (random_numbers(rng, (60, 2, 8), "bfloat16", 0.9) for _ in "aug")
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), axis=0, window=window)
    exact = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), axis=0, window=window)
    for got, value in zip(found[:2], exact[:2], strict=True):
        numbers = got.view(np.uint16).get().view(got.dtype).astype("f8")
        np.testing.assert_allclose(numbers, value, rtol=UNIT["bfloat16"] * 1.01, atol=1e-4)


@pytest.mark.parametrize("cotangents", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", ["full", "jagged:8"])
def test_gradients_in_types_of_their_own(machine, rng, window, cotangents):
    """As recfact.torch asks for them."""
    a, u, g = (
        random_numbers(rng, shape, kind, 0.9)
        for shape, kind in (((60, 2, 1), "float32"), ((60, 2, 8), "bfloat16"), ((60, 2, 8), cotangents))
    )
    given = [on_gpu(array) for array in (a, u, g)]
    asked = Given(given[0], given[1], None, 0, None, False, own_types=True)
    machine.launches.clear()
    da, du, _ = pulled_back(asked, *given, None, None, check_window(window), None, None)
    assert (da.dtype, du.dtype) == (np.float32, NUMPY["bfloat16"])
    macros = dict(machine.launches[-1].launch.macros)
    assert (macros["SUM"], macros["OUTPUT"]) == ("float", "__nv_bfloat16")
    found = {"da": da.get(), "du": du.view(np.uint16).get().view(du.dtype)}
    check({"a": a, "u": u, "g": g, **found}, window)


@pytest.mark.parametrize("window", ["full", "jagged:4"])
def test_tensors_have_gradients_in_types_of_their_own(machine, rng, window):
    a, u, g = (random_numbers(rng, (30, 8), kind, 0.9) for kind in ("float32", "bfloat16", "float32"))
    if window == "full":
        u = np.array(rf.solve(a, u.astype("f4"), axis=0))
    kinds = (torch_stand_in.KINDS["float32"], torch_stand_in.KINDS["bfloat16"])
    found = gpu_gradients.gradients(*map(torch_stand_in.tensor, (a, u, g)), check_window(window), types=kinds)
    same = gpu_gradients.gradients(
        *map(on_gpu, (a, u, g)), check_window(window), types=(NUMPY["float32"], NUMPY["bfloat16"])
    )
    assert [one.dtype for one in found[:2]] == list(kinds)
    np.testing.assert_array_equal(found[0].numpy(), same[0].get())
    np.testing.assert_array_equal(found[1].numpy().view(np.uint16), same[1].view(np.uint16).get())
