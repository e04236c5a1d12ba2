"""Gradients of windows of packed sequences by one launch: each has its own, whether it stays whole or is cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.cases import H100, in_turn_at, strided
from gpu.test_backward_window import EVERY, NAMES, SMALL, TIGHT, arrays, check, numbers, planned

from recfact.gpu.compiler import options_of, source_of
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import Gradients
from recfact.windows import check_window
from tools.gpu.emulator import RANDOM, execute
from tools.gpu.machine_code import usage
from tools.gpu.nvrtc import compile_ptx

# Offsets of sequences, also of none, one and several steps, which stay whole or are cut. Those of rows fit accesses.
WHOLE = {False: [0, 0, 7, 8, 24, 60], True: [0, 0, 8, 12, 24, 60]}
CUT = {False: [0, 0, 3, 5, 350, 350, 351, 367, 699, 700, 700], True: [0, 8, 8, 24, 360, 368, 704]}


def planned_sequences(
    given: dict[str, np.ndarray], window: str, offsets: list[int], device: Device = H100
) -> tuple[Launch, bool]:
    """Plan sequences, with starts of their own, and say whether time is cut into more segments than there are."""
    given["starts"] = np.array(offsets)
    sequences = sequences_of(given["starts"])
    places = (strided(given[name]) for name in NAMES)
    launch = plan_gradients(Gradients(*places, check_window(window), sequences), device)
    assert launch is not None
    numbers = {argument.name: argument.value for argument in launch.arguments}
    assert numbers["sequences"] == len(offsets) - 1
    return launch, numbers["segments"] > numbers["sequences"]


def check_sequences(given: dict[str, np.ndarray], window: str, offsets: list[int]) -> None:
    """Compare each sequence by itself."""
    for start, end in pairwise(offsets):
        if start < end:
            own = {name: given[name][start:end] for name in NAMES}
            own["a"] = np.nan_to_num(own["a"])
            check(own, window)


@pytest.mark.parametrize("emulated", [False, pytest.param(True, marks=pytest.mark.machine_code)])
@pytest.mark.parametrize("places", [WHOLE, CUT], ids=["whole", "cut"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("window", "at_once"),  # more than one step of rows along time
    [("jagged:4", 1), ("jagged:3:2", 1), ("uniform:6", 1), ("jagged:4", 4), ("jagged:2:2", 2), ("uniform:5", 4)],
)
def test_sequences_have_gradients_of_their_own(rng, window, at_once, shared, places, emulated):
    need_compiler()
    offsets = places[at_once > 1]
    given = numbers(rng, (offsets[-1], 3, 8), (offsets[-1], 3, 1 if shared else 8), rows=at_once > 1)
    for start in offsets[:-1]:  # what is at the ends of others doesn't matter
        given["a"][start : start + 1] = np.nan
    launch, cut = planned_sequences(given, window, offsets)
    assert dict(launch.macros)["TIME_ACCESS"] == str(at_once)
    assert cut == (places is CUT)
    if emulated:
        execute(launch, given, H100.capability, outputs=("du", "da"), schedule=RANDOM[0]).check()
    else:
        run_bare(launch, given)
    check_sequences(given, window, offsets)


@pytest.mark.parametrize("window", ["jagged:4", "jagged:3:2", "uniform:6"])
def test_sequences_are_cut_wherever_they_start_and_end(rng, window):
    need_compiler()
    for n in range(210, 240):
        offsets = [0, n % 7, n % 7 + n // 3, n]
        given = numbers(rng, (n, 1, 8), (n, 1, 1))
        launch, cut = planned_sequences(given, window, offsets)
        assert cut
        run_bare(launch, given)
        check_sequences(given, window, offsets)


def test_not_even_nan_passes_from_one_sequence_to_another(rng):
    need_compiler()
    offsets = CUT[False]
    for window in ("jagged:4", "jagged:3:2", "uniform:6"):
        given = numbers(rng, (700, 1, 8), (700, 1, 1))
        own = {name: array.copy() for name, array in given.items()}
        for name in "aug":
            own[name][5:350] = own[name][367:699] = np.nan
        for one in (given, own):
            launch, cut = planned_sequences(one, window, offsets)
            assert cut
            run_bare(launch, one)
        for name in ("du", "da"):
            for steps in (slice(0, 5), slice(350, 367), slice(699, 700)):
                np.testing.assert_array_equal(own[name][steps], given[name][steps])
            assert np.isnan(own[name][6:350]).all()


def test_few_long_sequences_are_cut_as_one_would_be():
    x = np.empty((8000, 1, 4), "f4")
    given = dict(zip(NAMES, (x, x, x, x, x), strict=True))
    whole = {one.name: one.value for one in planned(given, "jagged:16").arguments}
    for offsets in ([0, 4000, 8000], list(range(0, 8001, 100))):
        launch, cut = planned_sequences(given, "jagged:16", offsets)
        own = {one.name: one.value for one in launch.arguments}
        assert cut == (len(offsets) == 3)
        if cut:
            assert own["blocks"] == whole["blocks"]
            assert whole["segments"] <= own["segments"] <= whole["segments"] + 3
        else:
            assert own["blocks"] * own["block"] > 8000


@pytest.mark.machine_code
@pytest.mark.parametrize(("window", "least"), [("jagged:16", 1.02), ("jagged:8:2", 1.02), ("uniform:8", 1.01)])
def test_what_sequences_that_are_cut_move(rng, window, least):
    offsets = [0, 0, 800, 817, 2060]
    given = numbers(rng, (2060, 1, 16), (2060, 1, 1))
    launch, cut = planned_sequences(given, window, offsets, SMALL)
    report = execute(launch, given, H100.capability, outputs=("du", "da")).check()
    moved = sum(report.arrays[name].read + report.arrays[name].written for name in NAMES)
    assert cut
    assert least <= moved / sum(given[name].nbytes for name in NAMES) <= 1.1


@pytest.mark.machine_code
@pytest.mark.parametrize(("capability", "name"), in_turn_at([(7, 5), (9, 0), (10, 0), (12, 0)], TIGHT))
def test_nothing_spills(rng, capability, name):
    given = arrays(name, rng)
    offsets = [0, len(given["u"]) // 8 * 4, len(given["u"])]
    launch, _ = planned_sequences(given, EVERY[name][3], offsets, Device(capability, 1))
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)


MUTATIONS = {
    "a segment as long as it has blocks": ("starts, sequences, blocks * block)", "starts, sequences, blocks)"),
    "segments of all sequences counted on": ("begin = segment.index * blocks", "begin = part.segment * blocks"),
    "every segment from the start of its sequence": ("begin = segment.index * blocks", "begin = 0"),
    "every sequence from the start of time": ("origin = segment.origin;", "origin = 0;"),
    "every sequence to the end of time": ("steps = segment.steps;", "steps -= segment.origin;"),
}
NO_RETURN = ("if (SEQUENCES && begin >= end) return;", "")


@pytest.mark.parametrize("fault", MUTATIONS)
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    offsets = CUT[False]
    room = numbers(rng, (3 * 700, 1, 8), (3 * 700, 1, 1))  # beyond the end of time
    given = {name: array[:700] for name, array in room.items()}
    launch, cut = planned_sequences(given, "jagged:4", offsets)
    plant(monkeypatch, "backward_window", *MUTATIONS[fault])
    assert cut
    with np.errstate(all="ignore"):
        run_bare(launch, given)
    with pytest.raises(AssertionError, match=r"d[au]"):
        check_sequences(given, "jagged:4", offsets)


@pytest.mark.machine_code
def test_segments_in_which_no_step_lies_ask_for_nothing(rng, monkeypatch):
    given = numbers(rng, (700, 1, 8), (700, 1, 1))
    launch, _ = planned_sequences(given, "jagged:4", CUT[False])
    text = compile_ptx(source_of("backward_window").replace(*NO_RETURN), options_of(launch), H100.capability)
    report = execute(launch, given, H100.capability, outputs=("du", "da"), text=text)
    assert "out of bounds" in report.kinds
