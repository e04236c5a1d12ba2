"""States that a solve keeps for its gradients: which they are, what the gradients make of them, and what that moves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gpu import stand_in, test_gradient_types, torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import bound
from gpu.cases import H100, NUMPY, Case, in_order, random_numbers, strided
from gpu.stand_in import on_gpu
from gpu.test_gradient_types import arrays, check, spills

import recfact as rf
from recfact.gpu import gradients as gpu_gradients
from recfact.gpu.b2p import B2P, obstacle
from recfact.gpu.backward_window import reads_kept
from recfact.gpu.chain import chain
from recfact.gpu.launch import alternatives, plan, plan_gradients
from recfact.gpu.lines import lines_of
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solver import solve_and_keep
from recfact.gpu.solves import PART_STEPS, Gradients, Solve
from recfact.gpu.sweep import Sweep
from recfact.gradients.arguments import Given
from recfact.gradients.products import pulled_back
from recfact.number_types import accumulator
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS

SMALL = Device((9, 0), 1)
CHANNELS, TIME = None, (1, 2, 0)  # which axis comes last in memory
# Number types of coefficients and inputs, shape with time first, whether channels share coefficients, order of axes.
CASES: dict[str, tuple[str, str, tuple[int, ...], bool, tuple[int, ...] | None]] = {
    "sweep of halves": ("bfloat16", "bfloat16", (83, 3, 16), True, CHANNELS),
    "sweep of their own": ("float16", "float16", (96, 3, 8), False, CHANNELS),
    "sweep of float32 gates": ("float32", "bfloat16", (83, 3, 16), True, CHANNELS),
    "sweep of odd channels": ("float32", "float32", (47, 2, 7), False, CHANNELS),
    "sweep of float64": ("float64", "float64", (64, 2, 4), True, CHANNELS),
    "sweep along time": ("bfloat16", "bfloat16", (88, 3, 8), True, TIME),
    "sweep along time one by one": ("float32", "float32", (51, 3, 8), False, TIME),
    "sweep of few steps": ("bfloat16", "bfloat16", (17, 3, 16), True, CHANNELS),
    "chain": ("bfloat16", "bfloat16", (370, 3, 8), False, CHANNELS),
    "chain of float32": ("float32", "float32", (368, 3, 7), True, CHANNELS),
    "chain of complex numbers": ("complex128", "complex128", (300, 2, 2), False, CHANNELS),
    "chain along time": ("float32", "float32", (371, 3, 8), False, TIME),
    "chain of float32 gates": ("float32", "bfloat16", (370, 3, 8), True, CHANNELS),
    "b2p": ("bfloat16", "bfloat16", (291, 5, 16), True, CHANNELS),
    "b2p of ragged tiles": ("float16", "float16", (304, 5, 24), True, CHANNELS),
    "b2p along time": ("bfloat16", "bfloat16", (296, 5, 19), True, TIME),
}
# Offsets of sequences, also of none, one and several steps, and of many in the steps of one warp.
OFFSETS = {
    "sweep of halves": [0, 0, 16, 24, 25, 58, 75, 83],
    "sweep of odd channels": [0, 7, 7, 40, 47],
    "sweep along time": [0, 0, 16, 24, 25, 58, 75, 88],
    "chain": [0, 0, 16, 18, 19, 21, 53, 58, 75, 75, 200, 370],
    "chain of float32": [0, 17, 18, 336, 368],
    "chain of complex numbers": [0, 1, 2, 18, 299, 300],
    "chain along time": [0, 3, 35, 36, 37, 38, 54, 71, 371],
    "chain of float32 gates": [0, 16, 48, 53, 53, 370],
    "b2p": [0, 0, 16, 24, 25, 58, 75, 291],
    "b2p of ragged tiles": [0, 15, 31, 48, 304],
    "b2p along time": [0, 8, 8, 56, 176, 296],
}
EMULATED = ("sweep of halves", "sweep along time", "chain", "b2p of ragged tiles", "b2p along time")


def made(rng: np.random.Generator, name: str) -> dict[str, np.ndarray]:
    """Return coefficients, inputs, a place for states, and one for those that are kept."""
    a, u, shape, shared, order = CASES[name]
    single = (*shape[:-1], 1) if shared else shape
    out = a if a == u else "float32"
    given = {"a": random_numbers(rng, single, a, 0.95), "u": random_numbers(rng, shape, u)}
    given["a"].reshape(-1)[::11] = 0  # resets
    given["x"] = np.full(shape, np.nan).astype(NUMPY[out])
    given["kept"] = np.full((shape[0] // PART_STEPS, *shape[1:]), np.nan, accumulator(NUMPY[u]))
    return {key: array if order is None or key == "kept" else in_order(array, order) for key, array in given.items()}


def described(given: dict[str, np.ndarray], offsets: list[int] | None = None, **options: Any) -> Solve:
    """Describe the solve of a case, with other `options` than it has to keep states for gradients."""
    x0 = strided(given["x0"]) if "x0" in given else None
    places = (strided(given[name]) for name in "aux")
    solve = Solve(*places, x0, 0, rf.Full(), kept=strided(given["kept"]))._replace(**options)
    if offsets is None:
        return solve
    given["starts"] = np.array(offsets)
    return solve._replace(sequences=sequences_of(given["starts"]))


def planned(
    given: dict[str, np.ndarray], name: str, offsets: list[int] | None = None, device: Device = SMALL, **options: Any
) -> Launch:
    """Return the launch of a case. With sequences it is that of the kernel that the case names, whatever is planned."""
    solve, kernel = described(given, offsets, **options), name.split(maxsplit=1)[0]
    geometry, blocks, sequences = solve.geometry, solve.blocks, solve.sequences
    if sequences is None:
        launch = plan(solve, device)
    elif kernel == "chain":
        launch = chain(lines_of(geometry, blocks.length), "", sequences)
    elif kernel == "b2p":
        assert obstacle(geometry, blocks, device, sequences) is None
        launch = B2P(geometry, blocks, device, sequences=sequences).launch("")
    else:
        launch = Sweep(geometry, blocks, device, sequences).launch("")
    assert launch is not None
    assert launch.kernel == kernel
    return launch


def check_kept(launch: Launch, given: dict[str, np.ndarray]) -> None:
    """See that what is kept are the states, as they are before they are rounded."""
    last = given["x"][PART_STEPS - 1 :: PART_STEPS]
    np.testing.assert_array_equal(given["kept"].astype(last.dtype), last)
    wide = np.empty(given["x"].shape, given["kept"].dtype)  # with which the bound has no last rounding
    exact, most = bound(launch, Case(given["a"], given["u"], wide, 0), rf.Full(), False)
    here = slice(PART_STEPS - 1, None, PART_STEPS)
    assert (abs(given["kept"].astype(exact.dtype) - exact[here]) <= most[here]).all()


@pytest.mark.parametrize("name", CASES)
def test_they_are_those_before_the_last_rounding(rng, name):
    need_compiler()
    given = made(rng, name)
    launch = planned(given, name)
    run_bare(launch, given)
    check_kept(launch, given)


@pytest.mark.parametrize("kernel", ["sweep", "chain", "b2p"])
def test_solves_of_every_length_keep_them(rng, monkeypatch, kernel):
    need_compiler()
    name = {"sweep": "sweep of halves", "chain": "chain", "b2p": "b2p"}[kernel]
    *types, shape, shared, order = CASES[name]
    first = 1 if kernel == "sweep" else 257
    for n in range(first, first + 36):
        monkeypatch.setitem(CASES, name, (*types, (n, *shape[1:]), shared, order))
        given = made(rng, name)
        launch = planned(given, name)
        run_bare(launch, given)
        check_kept(launch, given)


def test_each_plan_that_is_timed_keeps_them(rng):
    need_compiler()
    kernels = set()
    for name in ("chain", "b2p"):
        given = made(rng, name)
        for launch in alternatives(described(given), SMALL).values():
            for array in (given["x"], given["kept"]):
                array[...] = np.nan
            run_bare(launch, given)
            check_kept(launch, given)
            kernels.add(launch.kernel)
    assert kernels == {"sweep", "chain", "b2p"}


def check_rows(given: dict[str, np.ndarray], offsets: list[int] | None) -> None:
    """See that what is kept of each sequence begins at the place of its first step, and that nothing is elsewhere."""
    expected = np.full_like(given["kept"], np.nan)
    for start, end in pairwise(offsets or [0, len(given["x"])]):
        for k in range((end - start) // PART_STEPS):
            expected[start // PART_STEPS + k] = given["x"][start + PART_STEPS * k + PART_STEPS - 1]
    np.testing.assert_array_equal(given["kept"].astype(given["x"].dtype).astype(expected.dtype), expected)


def before_each(rng: np.random.Generator, given: dict[str, np.ndarray], offsets: list[int]) -> np.ndarray:
    """Return initial states of sequences."""
    return random_numbers(rng, (len(offsets) - 1, *given["u"].shape[1:]), given["kept"].dtype.name)


@pytest.mark.parametrize("initial", [False, True], ids=["from zero", "from states"])
@pytest.mark.parametrize("name", OFFSETS)
def test_those_of_sequences_begin_where_their_first_step_is(rng, name, initial):
    need_compiler()
    given, offsets = made(rng, name), OFFSETS[name]
    if initial:
        given["x0"] = before_each(rng, given, offsets)
    run_bare(planned(given, name, offsets), given)
    check_rows(given, offsets)
    for k, (start, end) in enumerate(pairwise(offsets)):
        wide, x0 = np.result_type(given["kept"].dtype, "f8"), given["x0"][k] if initial else None
        x = rf.solve(*(given[one][start:end].astype(wide) for one in "au"), x0=x0, axis=0)[15::16]
        kept = given["kept"][start // PART_STEPS :][: len(x)]
        np.testing.assert_allclose(kept, x, rtol=2e-3, atol=2e-3)  # b2p with halves; others are far within


@pytest.mark.parametrize("offsets", [None, OFFSETS["chain of float32"]])
def test_tiles_whose_warps_step_one_after_another_keep_them(rng, offsets):
    need_compiler()
    given = made(rng, "chain of float32")
    given["a"][330:] = 1
    given["u"][333] = 1e30  # it stays to the end, or to that of its sequence
    run_bare(planned(given, "chain of float32", offsets), given)
    check_rows(given, offsets)


@pytest.mark.machine_code
@pytest.mark.parametrize("together", [False, True], ids=["whole", "sequences"])
@pytest.mark.parametrize("name", EMULATED)
def test_to_keep_them_has_no_fault_and_moves_no_more_than_they_are(rng, name, together):
    given, results = made(rng, name), set()
    offsets = OFFSETS[name] if together else [0, len(given["x"])]
    launch = planned(given, name, offsets if together else None)
    needed = sum((end - start) // PART_STEPS for start, end in pairwise(offsets)) * given["kept"][0].nbytes
    for schedule in (TOGETHER, *RANDOM[:2]):
        for array in (given["x"], given["kept"]):
            array[...] = np.nan
        report = execute(launch, given, H100.capability, schedule=schedule, outputs=("x", "kept"))
        if together:  # nothing is between the states of sequences, and the emulator says so
            (fault,) = report.faults
            free = given["kept"].nbytes - needed
            assert fault.kind == "never written"
            assert fault.message.startswith(f"{free} bytes of kept,")
        else:
            report.check()
        assert (report.arrays["kept"].written, report.arrays["kept"].read) == (needed, 0)
        check_rows(given, offsets)
        results.add(given["x"].tobytes() + given["kept"].tobytes())
    assert len(results) == 1


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=[pytest.mark.slow] * (one != (9, 0))) for one in TARGETS]
)
def test_nothing_spills_where_they_are_kept(rng, capability):
    for name in CASES:
        given = made(rng, name)
        device = Device(capability, 1)
        x0 = strided(np.zeros(given["x"].shape[1:], given["kept"].dtype))
        launches = [plan(solve, device) for solve in (described(given), described(given)._replace(x0=x0))]
        if name in OFFSETS and (capability >= (8, 0) or "b2p" not in name):
            launches.append(planned(given, name, OFFSETS[name], device))
            given["x0"] = before_each(rng, given, OFFSETS[name])
            launches.append(planned(given, name, OFFSETS[name], device))
        for launch in launches:
            assert not spills(launch, capability), name


LAYOUTS = ("own", "shared", "odd channels", "rows", "rows, own")  # of test_gradient_types
KINDS = ("bfloat16", "float16", "coefficients in float32")


def kept_of(given: dict[str, np.ndarray]) -> np.ndarray:
    """Return what a solve keeps."""
    out = np.result_type(given["a"].dtype, given["u"].dtype) if given["a"].dtype == given["u"].dtype else np.float32
    own = {"a": given["a"], "u": given["u"], "x": np.empty_like(given["u"], dtype=out)}
    own["kept"] = np.full((len(given["u"]) // PART_STEPS, *given["u"].shape[1:]), np.nan, np.float32)
    launch = plan(described(own), SMALL)
    assert launch.kernel == "sweep"
    run_bare(launch, own)
    return own["kept"]


def planned_back(
    given: dict[str, np.ndarray], kept: np.ndarray | None, device: Device = SMALL, offsets: np.ndarray | None = None
) -> Launch:
    places = (strided(given[name]) for name in ("a", "u", "g", "du", "da"))
    sequences, parts = None if offsets is None else sequences_of(offsets), None if kept is None else strided(kept)
    launch = plan_gradients(Gradients(*places, rf.Full(), sequences, states=False, kept=parts), device)
    assert launch is not None
    macros = dict(launch.macros)
    assert (macros["CARRIED"], macros["KEPT"], len(launch.scratch)) == ("1", str(int(kept is not None)), kept is None)
    return launch


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_have_the_bits_that_they_have_without(rng, layout, kinds):
    need_compiler()
    given = arrays(rng, layout, kinds, "jagged:16")
    given["states"] = kept_of(given)
    run_bare(planned_back(given, given["states"]), given)
    check(given, "full")
    again = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
    run_bare(planned_back(again, None), {key: array for key, array in again.items() if key != "states"})
    for name in ("du", "da"):
        np.testing.assert_array_equal(given[name], again[name])


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("layout", "kinds"), [("shared", "bfloat16"), ("rows", "bfloat16"), ("own", "coefficients in float32")]
)
def test_gradients_have_no_fault_and_the_same_bits_in_every_order(rng, layout, kinds):
    given, results = arrays(rng, layout, kinds, "jagged:16"), set()
    given["states"] = kept_of(given)
    launch = planned_back(given, given["states"])
    for schedule in (TOGETHER, *RANDOM[:2]):
        own = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("du", "da")).check()
        check(own, "full")
        results.add(own["du"].tobytes() + own["da"].tobytes())
    assert len(results) == 1


@pytest.mark.machine_code
@pytest.mark.parametrize("kinds", ["bfloat16", pytest.param("coefficients in float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("single", "order"), [(1, CHANNELS), (16, CHANNELS), (1, TIME)])
def test_gradients_move_little_more_than_their_arrays(rng, monkeypatch, kinds, single, order):
    monkeypatch.setitem(test_gradient_types.LAYOUTS, "long", ((256, 2, 16), (256, 2, single), order))
    given = arrays(rng, "long", kinds, "jagged:16")
    needed = sum(array.nbytes for array in given.values())
    moved = {}
    for kept in (True, False):
        own = {**given, "states": kept_of(given)} if kept else given
        launch = planned_back(given, own.get("states"))
        report = execute(launch, own, H100.capability, outputs=("du", "da")).check()
        moved[kept] = sum(array.read + array.written for array in report.arrays.values()) / needed
    assert moved[True] <= 1.05
    assert moved[False] > 1.3


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=[pytest.mark.slow] * (one != (9, 0))) for one in TARGETS]
)
def test_nothing_spills_where_they_are_read(rng, capability):
    for layout in LAYOUTS:
        for kinds in KINDS:
            given = arrays(rng, layout, kinds, "jagged:16")
            launch = planned_back(given, kept_of(given), Device(capability, 1))
            assert not spills(launch, capability), (layout, kinds)


SEQUENCES = [0, 7, 40, 75]
# The kernel, what is in its source, and what is put there.
FAULTS = {
    "kept one chunk late": ("sweep", "keep(position - (chunks - 1) * STEPS)", "keep(position - chunks * STEPS)"),
    "kept half as often": ("sweep", "if (passed % KEPT == 0)", "if (passed % (2 * KEPT) == 0)"),
    "rows of sequences from the start of time": ("sweep", "segment.origin / KEPT", "0"),
    "all states in one row": ("sweep", "keep_in(passed / KEPT - 1)", "keep_in(0)"),
    "kept by a warp one step late": ("chain", "(position + s + 1) % KEPT", "(position + s) % KEPT"),
    "kept in the next row": ("chain", "(position + s) / KEPT", "(position + s + 1) / KEPT"),
    "steps of sequences from the start of time": (
        "chain",
        "ends : passed_steps",
        "ends : (position + lane + 1)",
    ),
    "rows of sequences that a tile cuts": ("chain", ": origin / KEPT + passed_steps", ": passed_steps"),
    "tiles of sequences in the first rows": ("b2p", "segment.origin / KEPT", "0"),
    "what a tile began with": ("b2p", "(work.carrier(version) + lane));\n", "(work.carrier(1 - version) + lane));\n"),
    "one tile too many": ("b2p", "tile * static_cast<long long>(TILE) <= steps", "true"),
    "the part before read": ("backward_window", "passed(index - 2));\n#pragma", "passed(index - 1));\n#pragma"),
    "the last part from zero": ("backward_window", "if (KEPT && whole > 1)", "if (false)"),
    "parts of sequences from the start of time": ("backward_window", "+ origin / block * states_step", ""),
}


def solved(rng: np.random.Generator, kernel: str, offsets: list[int] | None) -> None:
    """Solve, and see that each state that is kept is where it should be, and none elsewhere."""
    name = {"sweep": "sweep of halves"}.get(kernel, kernel)
    given = made(rng, name)
    rows = np.full((len(given["kept"]) + 2, *given["kept"].shape[1:]), np.nan, np.float32)  # with room for a fault
    given["kept"] = rows[:-2]
    run_bare(planned(given, name, offsets), given)
    check_rows({**given, "kept": rows}, offsets)


def differentiated(rng: np.random.Generator, kernel: str, offsets: list[int] | None) -> None:
    """Take gradients from states that are kept, and compare those of each sequence."""
    given, pairs = arrays(rng, "shared", "bfloat16", "jagged:16"), list(pairwise(offsets or [0, 75]))
    given["states"] = np.full((75 // PART_STEPS, *given["u"].shape[1:]), np.nan, np.float32)
    for start, end in pairs:
        part = rf.solve(*(given[name][start:end].astype(np.float32) for name in "au"), axis=0)[15::16]
        given["states"][start // PART_STEPS : start // PART_STEPS + len(part)] = part
    given["starts"] = np.array(offsets or [0])
    run_bare(planned_back(given, given["states"], offsets=given["starts"] if offsets else None), given)
    for start, end in pairs:
        check({name: given[name][start:end] for name in ("a", "u", "g", "du", "da")}, "full")


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    kernel, old, new = FAULTS[fault]
    run = differentiated if kernel == "backward_window" else solved
    offsets = None
    if "sequences" in fault:
        offsets = SEQUENCES if kernel == "backward_window" else OFFSETS.get(kernel, OFFSETS["sweep of halves"])
    run(rng, kernel, offsets)
    plant(monkeypatch, kernel, old, new)
    with pytest.raises(AssertionError):
        run(rng, kernel, offsets)


def bits(array: stand_in.ndarray) -> np.ndarray:
    return array.view({2: np.uint16, 4: np.uint32}[array.dtype.itemsize]).get()


CUTS = {"whole": None, "short": [0, 10, 10, 27, 60], "long": [0, 20, 600], "one": [0, 60]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("offsets", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(("shape", "axis"), [((60, 2, 8), 0), ((2, 60, 8), 1), ((2, 3, 60), -1), ((60, 7), 0)])
@pytest.mark.parametrize("kinds", [("bfloat16", "bfloat16"), ("float32", "float16"), ("float32", "float32")])
def test_a_solve_returns_them_and_gradients_start_from_them(machine, rng, shape, axis, kinds, offsets):
    long = offsets is not None and offsets[-1] > 60
    shape = tuple(600 if size == 60 and long else size for size in shape)
    a, u, g = (random_numbers(rng, shape, kind, 0.9) for kind in (*kinds, kinds[1]))
    there = [on_gpu(array) for array in (a, u, g)]
    x, kept = solve_and_keep(*there[:2], axis=axis, offsets=offsets)
    assert (kept.dtype, kept.shape[axis]) == (np.float32, shape[axis] // PART_STEPS)
    assert kept.strides[axis] == max(kept.strides)
    plain = rf.solve(*there[:2], axis=axis, offsets=offsets)
    assert x.dtype == plain.dtype
    np.testing.assert_array_equal(bits(x), bits(plain))
    machine.launches.clear()
    asked = [Given(*there[:2], None, axis, offsets, False, own_types=True) for _ in range(2)]
    found = pulled_back(asked[0], *there, None, None, rf.Full(), None, None, kept)
    launches = [launch.launch for launch in machine.launches]
    if not long:
        assert [(one.kernel, dict(one.macros)["KEPT"]) for one in launches] == [("backward_window", "1")]
    without = pulled_back(asked[1], *there, None, None, rf.Full(), None, None)
    for one, other in zip(found[:2], without[:2], strict=True):
        np.testing.assert_array_equal(bits(one), bits(other))


@pytest.mark.parametrize("offsets", [None, [0, 16, 16, 60]], ids=["whole", "sequences"])
@pytest.mark.parametrize("shape", [(60, 2, 8), (600, 2, 8)])
def test_they_follow_from_an_initial_state_and_so_do_gradients(machine, rng, shape, offsets):
    a, u, g = (random_numbers(rng, shape, "bfloat16", 0.9) for _ in "aug")
    a[...] = 1 - abs(a.astype("f4")) / 64  # it lasts
    offsets = offsets and [*offsets[:-1], len(a)]
    x0 = random_numbers(rng, shape[1:] if offsets is None else (3, *shape[1:]), "float32", 9)
    there, entering = [on_gpu(array) for array in (a, u, g)], on_gpu(x0)
    options = {"axis": 0, "offsets": offsets}
    x, kept = solve_and_keep(*there[:2], x0=entering, **options)
    np.testing.assert_array_equal(bits(x), bits(rf.solve(*there[:2], x0=entering, **options)))
    wide = rf.solve(a.astype("f8"), u.astype("f8"), x0=x0.astype("f8"), **options)
    np.testing.assert_allclose(kept.get(), wide[15::16], rtol=1e-4, atol=1e-4)  # sequences start at parts
    given = Given(*there[:2], entering, 0, None if offsets is None else np.array(offsets), False, own_types=True)
    machine.launches.clear()
    found = pulled_back(given, *there, None, None, rf.Full(), None, None, kept)
    if len(a) == 60:
        (launch,) = (recorded.launch for recorded in machine.launches)
        assert [dict(launch.macros)[name] for name in ("KEPT", "INITIAL")] == ["1", "1"]
    exact = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), x0=x0.astype("f8"), **options)
    for got, value in zip(found, exact, strict=True):
        numbers = (bits(got).astype(np.uint32) << 16).view("f4")
        np.testing.assert_allclose(numbers, value, rtol=2**-8, atol=1e-2)


def test_arrays_of_too_many_axes_keep_them_slice_by_slice(machine, rng):
    whole = (random_numbers(rng, (40, 3, 3, 3, 9), "float16", 0.9) for _ in "au")
    a, u = (on_gpu(array)[:, :2, :2, :2, :8] for array in whole)
    machine.launches.clear()
    x, kept = solve_and_keep(a, u, axis=0)
    assert len(machine.launches) == 2
    np.testing.assert_array_equal(kept.get().astype("f2"), x.get()[15::16])


def test_a_solve_of_tensors_that_is_captured_keeps_them(machine, rng):
    numbers = [random_numbers(rng, (60, 2, 8), "float16", 0.9) for _ in "aug"]
    tensors = [torch_stand_in.tensor(array) for array in numbers]
    x, kept = solve_and_keep(*tensors[:2], axis=0)
    assert (isinstance(kept, torch_stand_in.Tensor), kept.shape) == (True, (3, 2, 8))
    first = gpu_gradients.gradients(*tensors, states=False, kept=kept)
    machine.captured, taken = {torch_stand_in.STREAM}, len(machine.pools)
    x, kept = solve_and_keep(*tensors[:2], axis=0)
    again = gpu_gradients.gradients(*tensors, states=False, kept=kept)
    machine.captured = set()
    assert len(machine.pools) == taken
    np.testing.assert_array_equal(kept.numpy().astype("f2"), x.numpy()[15::16])
    for one, other in zip(first[:2], again[:2], strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_gradients_of_cupy_arrays_can_be_captured_with_them(machine, rng):
    with stand_in.Stream() as stream:
        given = [on_gpu(random_numbers(rng, (60, 2, 8), "float16", 0.9)) for _ in "aug"]
        _, kept = solve_and_keep(*given[:2], axis=0)
        before = gpu_gradients.gradients(*given, states=False, kept=kept)
        machine.captured = {stream.ptr}
        after = gpu_gradients.gradients(*given, states=False, kept=kept)  # which needs no memory for states
        machine.captured = set()
    for one, other in zip(before[:2], after[:2], strict=True):
        np.testing.assert_array_equal(one.get(), other.get())


def test_where_they_are_kept_gradients_read_them():
    """What is known of shapes says it of most plans, and of all that it says no of there are none or wide sums."""
    kind, wrong, said = NUMPY["bfloat16"], 0, 0
    for device in (H100, Device((8, 0), 108), SMALL):
        for heads in (1, 4, 16, 64, 256, 1024):
            for d in (1, 8, 16, 48, 64, 128, 512, 2048):
                for single in (1, d):
                    for n in (200, 4096):
                        x = np.broadcast_to(np.zeros((), kind), (n, heads, d))
                        full = strided(x)
                        layout = full.__class__(kind, x.shape, (2 * heads * d, 2 * d, 2))
                        shared = full.__class__(kind, (n, heads, single), (2 * heads * single, 2 * single, 2))
                        launch = plan_gradients(
                            Gradients(shared, layout, layout, layout, shared, rf.Full(), states=False), device
                        )
                        reads = reads_kept(heads * d, d // single, n, device.multiprocessors)
                        wrong += reads and launch is None
                        said += reads
    assert (wrong, said > 100) == (0, True)
