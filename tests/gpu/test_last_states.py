"""Last states, alone or beside all others: each kernel writes those of every sequence, and nothing unasked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import bound
from gpu.cases import H100, Case, random_numbers
from gpu.stand_in import on_gpu
from gpu.test_gradient_types import spills
from gpu.test_kept_states import CASES, EMULATED, OFFSETS, made, planned
from gpu.test_states import EXACTLY, same_states

import recfact as rf
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import LAST
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.examples import TARGETS

GUARD = 40  # places on either side of last states: more than any case has tiles, so faults write nothing else


def prepared(
    rng: np.random.Generator, name: str, offsets: list[int] | None = None, initial: bool = False
) -> dict[str, np.ndarray]:
    """Return the arrays of a case, with a place for the last state of each sequence and guards on either side."""
    given = made(rng, name)
    step, kind = given["u"].shape[1:], given["kept"].dtype
    count = 1 if offsets is None else len(offsets) - 1
    given["guarded"] = np.full((count + 2 * GUARD, *step), np.nan, kind)
    given["kept"] = given["guarded"][GUARD:-GUARD]
    if initial:
        given["x0"] = random_numbers(rng, step if offsets is None else (count, *step), kind.name)
    return given


def planned_last(
    given: dict[str, np.ndarray], name: str, offsets: Any = None, *, written: bool, **others: Any
) -> Launch:
    return planned(given, name, offsets, every=LAST, written=written, **others)


def check_last(launch: Launch, given: dict[str, np.ndarray], offsets: list[int] | None) -> None:
    """See that the last states are there, within the bound of their sequence, and that nothing is elsewhere."""
    expected = np.full_like(given["guarded"], np.nan)
    wide = np.empty(given["x"].shape, given["kept"].dtype)  # with which the bound has no last rounding
    for k, (start, end) in enumerate(pairwise(offsets or [0, len(given["x"])])):
        if start < end:
            x0 = None if "x0" not in given else given["x0"][None] if offsets is None else given["x0"][k : k + 1]
            case = Case(given["a"][start:end], given["u"][start:end], wide[start:end], 0, x0)
            exact, most = bound(launch, case, rf.Full(), False)
            expected[k + GUARD] = given["kept"][k]
            assert (abs(given["kept"][k].astype(exact.dtype) - exact[-1]) <= most[-1]).all()
    np.testing.assert_array_equal(given["guarded"], expected)


def both_ways(given: dict[str, np.ndarray], name: str, offsets: list[int] | None = None) -> None:
    """Solve for all states and the last ones, and for these alone, and see that they are the same."""
    launch = planned_last(given, name, offsets, written=True)
    run_bare(launch, given)
    check_last(launch, given, offsets)
    for k, (start, end) in enumerate(pairwise(offsets or [0, len(given["x"])])):
        if start < end:
            np.testing.assert_array_equal(given["kept"][k].astype(given["x"].dtype), given["x"][end - 1])
    found = given["guarded"].copy()
    given["guarded"][...] = given["x"][...] = np.nan
    alone = planned_last(given, name, offsets, written=False)
    assert alone.kernel == launch.kernel
    run_bare(alone, given)
    np.testing.assert_array_equal(given["guarded"], found)
    assert np.isnan(given["x"].astype(found.dtype)).all()


@pytest.mark.parametrize("initial", [False, True], ids=["from zero", "from a state"])
@pytest.mark.parametrize("name", CASES)
def test_they_are_the_same_with_and_without_the_others(rng, name, initial):
    need_compiler()
    both_ways(prepared(rng, name, initial=initial), name)


@pytest.mark.parametrize("initial", [False, True], ids=["from zero", "from states"])
@pytest.mark.parametrize("name", OFFSETS)
def test_each_sequence_that_has_steps_has_its_own(rng, name, initial):
    need_compiler()
    both_ways(prepared(rng, name, OFFSETS[name], initial), name, OFFSETS[name])


@pytest.mark.parametrize("kernel", ["sweep", "chain", "b2p"])
def test_solves_of_every_length_have_them(rng, monkeypatch, kernel):
    need_compiler()
    name = {"sweep": "sweep of halves", "chain": "chain", "b2p": "b2p"}[kernel]
    *types, shape, shared, order = CASES[name]
    first = 1 if kernel == "sweep" else 257
    for n in range(first, first + 36):
        monkeypatch.setitem(CASES, name, (*types, (n, *shape[1:]), shared, order))
        both_ways(prepared(rng, name), name)


@pytest.mark.parametrize("offsets", [None, OFFSETS["chain of float32"]])
def test_tiles_whose_warps_step_one_after_another_have_them(rng, offsets):
    need_compiler()
    given = prepared(rng, "chain of float32", offsets)
    given["a"][330:] = 1
    given["u"][333] = 1e30  # it stays to the end, or to that of its sequence
    both_ways(given, "chain of float32", offsets)


@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize("at", [-1, -4, -40])
def test_what_is_not_finite_stays_to_the_end_of_a_ragged_tile(rng, at, number):
    need_compiler()
    given = prepared(rng, "b2p")
    given["a"][at:] = 1
    given["u"][at, 2, 5] = number
    run_bare(planned_last(given, "b2p", written=False), given)
    odd = ~np.isfinite(given["kept"][0])
    assert list(zip(*np.nonzero(odd), strict=True)) == [(2, 5)]


@pytest.mark.machine_code
@pytest.mark.parametrize("together", [False, True], ids=["whole", "sequences"])
@pytest.mark.parametrize("name", EMULATED)
def test_they_are_all_that_is_written(rng, name, together):
    offsets = OFFSETS[name] if together else None
    given, results = prepared(rng, name, offsets), set()
    full = sum(start < end for start, end in pairwise(offsets)) if offsets else 1
    launch = planned_last(given, name, offsets, written=False)
    own = {key: array for key, array in given.items() if key not in ("x", "guarded")}
    for schedule in (TOGETHER, *RANDOM[:2]):
        given["kept"][...] = np.nan
        report = execute(launch, own, H100.capability, schedule=schedule, outputs=("kept",))
        if full == len(given["kept"]):
            report.check()
        else:  # sequences without steps have no last state, and the emulator says so
            (fault,) = report.faults
            assert fault.kind == "never written"
        moved = report.arrays
        assert (moved["kept"].written, moved["kept"].read) == (full * given["kept"][0].nbytes, 0)
        if "b2p" in name and not together:  # others read the first and last steps singly
            assert moved["u"].read == given["u"].nbytes
        check_last(launch, given, offsets)
        results.add(given["kept"].tobytes())
    assert len(results) == 1


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "capability", [pytest.param(one, marks=[pytest.mark.slow] * (one != (9, 0))) for one in TARGETS]
)
def test_nothing_spills_where_they_are(rng, capability):
    device = Device(capability, 1)
    for name in CASES:
        if capability < (8, 0) and "b2p" in name:
            continue
        for offsets in (None, *([OFFSETS[name]] if name in OFFSETS else [])):
            for written, initial in ((False, False), (True, False), (True, True)):
                given = prepared(rng, name, offsets, initial)
                launch = planned_last(given, name, offsets, written=written, device=device)
                assert not spills(launch, capability), (name, offsets, written, initial)


# The kernel, what is in its source, and what is put there.
FAULTS = {
    "sweep writes them to the first row of sequences": ("sweep", "KEPT < 0 ? segment.sequence", "KEPT < 0 ? 0"),
    "sweep writes them nowhere": ("sweep", "if (KEPT < 0) keep_in(0)", "if (false) keep_in(0)"),
    "sweep writes single steps unasked": ("sweep", "if (WRITES && position >= begin)", "if (position >= begin)"),
    "sweep writes chunks unasked": ("sweep", "if (WRITES && writes)", "if (writes)"),
    "chain writes them one step early": ("chain", "s + 1 != left", "s + 2 != left"),
    "chain writes those of sequences one step late": (
        "chain",
        "- origin == passed_steps",
        "- origin + 1 == passed_steps",
    ),
    "chain writes them to the first row of sequences": ("chain", "KEPT < 0 ? sequence", "KEPT < 0 ? 0"),
    "chain leaves out the last warp": ("chain", "here > 0 && here == left", "here > 0 && here > left"),
    "chain leaves out warps of sequences": ("chain", "keeps_any = keeps != 0", "keeps_any = false"),
    "chain writes whole chunks unasked": ("chain", "if (WRITES && s %", "if (s %"),
    "chain writes single steps unasked": ("chain", "if (WRITES && owns)", "if (owns)"),
    "b2p lets nothing through the end": ("b2p", "tile == tiles - 1) return 1.0f", "tile == tiles - 1) return 0.0f"),
    "b2p lets all through one tile early": ("b2p", "tile == tiles - 1) return", "tile == tiles - 2) return"),
    "b2p takes the tile before for the last": ("b2p", "KEPT < 0 ? tile == end", "KEPT < 0 ? tile == end - 1"),
    "b2p writes them to the first row of sequences": ("b2p", "KEPT < 0 ? segment.sequence", "KEPT < 0 ? 0"),
    "b2p goes on to the next row": ("b2p", "if (KEPT > 0) kept += kept_step", "kept += kept_step"),
    "b2p writes states unasked": ("b2p", "k < (WRITES ? results.ACCESSES : 0)", "k < results.ACCESSES"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    kernel, old, new = FAULTS[fault]
    name = {"sweep": "sweep of halves"}.get(kernel, kernel)
    offsets = OFFSETS[name] if "sequences" in fault else None
    if "whole" in fault:  # what the last warp has
        *types, shape, shared, order = CASES[name]
        monkeypatch.setitem(CASES, name, (*types, (368, *shape[1:]), shared, order))

    def solved() -> None:
        given = prepared(rng, name, offsets)
        launch = planned_last(given, name, offsets, written=False)
        own = {**given, "x": None}
        if "unasked" in fault:  # with x where a fault would write
            launch = with_states(launch, planned_last(given, name, offsets, written=True))
            own = given
        run_bare(launch, own)
        check_last(launch, given, offsets)
        assert np.isnan(given["x"].astype(np.float32)).all()

    solved()
    plant(monkeypatch, kernel, old, new)
    with pytest.raises(AssertionError):
        solved()


def with_states(launch: Launch, other: Launch) -> Launch:
    """Return a launch that writes no states, with the arguments of one that does."""
    return replace(launch, arguments=other.arguments)


TYPES = [("float32", "float32"), ("bfloat16", "bfloat16"), ("float32", "float16"), ("complex64", "complex64")]


@pytest.mark.parametrize("states", [False, True], ids=["alone", "with the others"])
@pytest.mark.parametrize("offsets", [None, [0, 0, 60, 61, 61, 400]], ids=["whole", "sequences"])
@pytest.mark.parametrize("types", TYPES)
def test_a_state_of_the_full_recurrence_takes_one_launch(machine, rng, types, offsets, states):
    a, u = (random_numbers(rng, (2, 400, 8), kind, 0.9) for kind in types)
    _, state = rf.solve(on_gpu(a), on_gpu(u), axis=1, offsets=offsets, return_state=True)
    kept = state.parts.get()
    machine.launches.clear()
    found = rf.solve(on_gpu(a), on_gpu(u), axis=1, offsets=offsets, return_state=True, states=states)
    end = found[1] if states else found
    (recorded,) = machine.launches
    assert dict(recorded.launch.macros)["WRITES"] == str(int(states))
    np.testing.assert_array_equal(end.parts.get(), kept)
    np.testing.assert_array_equal(end.held, state.held)


def test_arrays_of_too_many_axes_have_them_slice_by_slice(machine, rng):
    whole = (random_numbers(rng, (40, 3, 3, 3, 9), "float16", 0.9) for _ in "au")
    a, u = (on_gpu(array)[:, :2, :2, :2, :8] for array in whole)
    machine.launches.clear()
    state = rf.solve(a, u, axis=0, return_state=True, states=False)
    assert len(machine.launches) == 2
    np.testing.assert_array_equal(state.parts.get()[0].astype("f2"), rf.solve(a, u, axis=0).get()[-1])


def test_inputs_may_be_fewer_than_states(machine, rng):
    a = random_numbers(rng, (40, 3, 8), "float32", 0.9)
    for u in (np.ones(8, "f4"), np.ones((40, 1, 1), "f4")):
        state = rf.solve(on_gpu(a), on_gpu(u), axis=0, return_state=True, states=False)
        np.testing.assert_array_equal(state.last.get(), rf.solve(on_gpu(a), on_gpu(u), axis=0).get()[-1])


WINDOWS = ["jagged:16", "jagged:16:2", "jagged:5:0", "jagged:24:3", "jagged:200"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("offsets", [None, [0, 0, 7, 24, 150, 150, 400], [0, 400]], ids=["whole", "sequences", "one"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("types", TYPES)
def test_sums_of_blocks_are_last_states(machine, rng, types, window, offsets, shared):
    a = random_numbers(rng, (2, 400, 1 if shared else 4), types[0], 0.05)
    given = [(a + np.array(0.95, a.dtype)).astype(a.dtype)]  # nothing fades so far that it underflows
    given.append(random_numbers(rng, (2, 400, 4), types[1]))
    for start in (offsets or [0])[:-1]:
        given[0][:, start : start + 1] = np.nan  # the first coefficient of a sequence multiplies nothing
    options = {"axis": 1, "window": window, "offsets": offsets, "return_state": True, "states": False}
    state = rf.solve(*map(on_gpu, given), **options)
    assert {dict(recorded.launch.macros)["WRITES"] for recorded in machine.launches} == {"0"}
    assert len(machine.launches) == len(state.parts)  # one for all blocks, and one more for each that is behind
    exact = [rf.solve(*map(how, given), **options) for how in EXACTLY]
    same_states(state, *exact, types[0], 400)


@pytest.mark.parametrize("window", ["jagged:8", "jagged:8:3"])
def test_steps_behind_a_state_stay_in_halves_where_nothing_of_it_is_left(machine, rng, window):
    a, u = (random_numbers(rng, (300, 4), "bfloat16", 0.9) for _ in "au")
    options = {"axis": 0, "window": window, "return_state": True, "states": False}
    first = rf.solve(on_gpu(a[:103]), on_gpu(u[:103]), **options)
    machine.launches.clear()
    end = rf.solve(on_gpu(a[103:]), on_gpu(u[103:]), state=first, **options)
    assert {dict(recorded.launch.macros)["INPUT"] for recorded in machine.launches} == {"__nv_bfloat16"}
    same_states(end, *(rf.solve(f(a), f(u), **options) for f in EXACTLY), "bfloat16", 300, 2)


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("window", ["jagged:4", "jagged:4:2", "jagged:5:0"])
def test_a_past_that_is_still_seen_is_part_of_the_sums(machine, rng, window, types):
    a, u = (random_numbers(rng, (24, 3), kind, 0.9) for kind in types)
    x0 = random_numbers(rng, (3,), "complex64" if types[0] == "complex64" else "float32")
    options = {"axis": 0, "window": window, "return_state": True, "states": False}
    for first in (1, 3, 4, 9):
        state = rf.solve(on_gpu(a[:first]), on_gpu(u[:first]), x0=on_gpu(x0), **options)
        exact = [rf.solve(f(a[:first]), f(u[:first]), x0=f(x0), **options) for f in EXACTLY]
        same_states(state, *exact, types[0], first)
        for end in (first + 1, first + 6, 24):
            after = rf.solve(on_gpu(a[first:end]), on_gpu(u[first:end]), state=state, **options)
            whole = [rf.solve(f(a[:end]), f(u[:end]), x0=f(x0), **options) for f in EXACTLY]
            same_states(after, *whole, types[0], end, 2)
