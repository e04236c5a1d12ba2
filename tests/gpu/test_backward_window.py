"""Gradients of windows by one launch, against those of the host in double precision, within their bound."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from gpu import torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import UNIT
from gpu.cases import H100, NUMPY, along_time, in_turn_at, random_numbers, strided
from gpu.stand_in import on_gpu
from samples import one_in

import recfact as rf
from recfact.gpu import gradients as gpu_gradients
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import Gradients
from recfact.windows import blocks_and_terms, check_window
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.machine_code import usage

NAMES = ("a", "u", "g", "du", "da")
WINDOWS = ("jagged:5:0", "jagged:1", "jagged:5", "jagged:16", "jagged:2:2", "jagged:5:2", "jagged:4:3", "jagged:3:4")
WINDOWS += ("uniform:2", "uniform:3", "uniform:8", "uniform:17")
SMALL = Device((9, 0), 1)  # few segments

# Shape with time first, that of coefficients, number type, window; threads that add.
CASES = {
    "own coefficients": ((70, 3, 8), (70, 3, 8), "float32", "jagged:16", 1),
    "own, lags": ((70, 3, 8), (70, 3, 8), "float32", "uniform:12", 1),
    "shared": ((75, 5, 16), (75, 5, 1), "float32", "jagged:9", 16),
    "shared, lags": ((75, 5, 16), (75, 5, 1), "float32", "uniform:7", 16),
    "shared by 32": ((40, 2, 64), (40, 2, 1), "float64", "jagged:6", 32),
    "odd channels": ((50, 3, 7), (50, 3, 7), "float32", "jagged:16", 1),
    "complex": ((50, 3, 4), (50, 3, 1), "complex64", "jagged:7", 4),
    "complex, lags": ((50, 3, 4), (50, 3, 1), "complex64", "uniform:9", 4),
    "complex, own": ((40, 3, 2), (40, 3, 2), "complex128", "uniform:5", 1),
    "alone": ((50, 3, 8), (50, 3, 1), "float32", "jagged:11:0", 8),
    "two terms": ((262, 3, 8), (262, 3, 8), "float32", "jagged:4:2", 1),
    "two terms, shared": ((75, 5, 16), (75, 5, 1), "float32", "jagged:16:2", 16),
    "three terms, complex": ((50, 3, 4), (50, 3, 1), "complex64", "jagged:3:3", 4),
    "four terms": ((60, 2, 8), (60, 2, 1), "float64", "jagged:5:4", 8),
    "three terms of their own": ((50, 3, 2), (50, 3, 2), "float64", "jagged:2:3", 1),
    "four terms of their own": ((50, 3, 2), (50, 3, 2), "complex128", "jagged:2:4", 1),
    "five terms": ((60, 2, 8), (60, 2, 1), "float32", "jagged:3:5", 8),
    "eight terms of their own": ((50, 3, 2), (50, 3, 2), "complex128", "jagged:2:8", 1),
}
# The same with time next to each other in memory; steps of an access.
ROWS = {
    "rows": ((72, 3, 8), (72, 3, 1), "float32", "jagged:16", 8, 4),
    "rows, own": ((76, 3, 8), (76, 3, 8), "float32", "jagged:8", 1, 4),
    "rows, lags": ((76, 5, 16), (76, 5, 1), "float32", "uniform:9", 16, 4),
    "rows, two at once": ((74, 2, 8), (74, 2, 1), "float32", "jagged:6", 8, 2),
    "rows of odd blocks": ((76, 2, 32), (76, 2, 1), "float32", "jagged:7", 32, 1),
    "rows, alone": ((76, 3, 8), (76, 3, 1), "float32", "jagged:12:0", 8, 4),
    "rows, two terms": ((264, 3, 8), (264, 3, 8), "float32", "jagged:4:2", 1, 4),
    "rows, four terms": ((62, 2, 8), (62, 2, 1), "float64", "jagged:4:4", 8, 2),
    "rows, complex": ((50, 3, 4), (50, 3, 1), "complex64", "jagged:6", 4, 2),
    "rows, complex, lags": ((50, 3, 4), (50, 3, 4), "complex64", "uniform:9", 1, 2),
    "rows, complex128, lags": ((40, 3, 2), (40, 3, 1), "complex128", "uniform:5", 2, 1),
    "rows, eight terms": ((80, 2, 8), (80, 2, 8), "float32", "jagged:4:8", 1, 4),
    "rows, complex128, four terms": ((50, 3, 2), (50, 3, 1), "complex128", "jagged:2:4", 2, 1),
}
EVERY = CASES | ROWS
# Of these the default run has each part in another case.
SELDOM = ("two terms, shared", "three terms of their own", "rows, alone", "rows, four terms", "rows, complex128, lags")
SELDOM += ("rows, complex128, four terms",)
SEGMENTS = ("own coefficients", "shared, lags", "alone", "two terms", "rows, own", "rows, lags", "rows, two terms")


def arrays(name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return arrays with time first: coefficients, inputs, cotangents, and places for the gradients."""
    shape, single, dtype, *_ = EVERY[name]
    return numbers(rng, shape, single, dtype, rows=name in ROWS)


def numbers(
    rng: np.random.Generator, shape: tuple, single: tuple, dtype: str = "float32", rows: bool = False
) -> dict[str, np.ndarray]:
    a = random_numbers(rng, single, dtype, 0.95)
    a.reshape(-1)[::11] = 0  # resets
    u, g = random_numbers(rng, shape, dtype), random_numbers(rng, shape, dtype)
    empty = [np.full(size, np.nan).astype(NUMPY[dtype]) for size in (shape, single)]
    made = (along_time(array) if rows else array for array in (a, u, g, *empty))
    return dict(zip(NAMES, made, strict=True))


def planned(given: dict[str, np.ndarray], window: str, device: Device = H100) -> Launch | None:
    names = [name if name != "u" else "x" if window == "full" else "u" for name in NAMES]  # states, or inputs
    return plan_gradients(Gradients(*(strided(given[name]) for name in names), check_window(window)), device)


def check(given: dict[str, np.ndarray], window: str) -> None:
    """Compare with the host. The bound is that of docs/gradients.md, over the longest pair that the window keeps."""
    kind = given["g"].dtype
    wide = np.complex128 if kind.kind == "c" else np.float64
    own = [given[name].astype(wide) for name in "aug"]
    exact = rf.gradients.vjp(*own, axis=0, window=window)
    sizes = rf.gradients.vjp(*map(abs, own), axis=0, window=window)
    block, terms = blocks_and_terms(check_window(window))
    lag = min(block * (terms + 1), len(given["u"])) - 1
    count = lag + (terms + 41 if block == 1 and terms > 1 else 9 * terms + 15)
    count = (count + given["u"].shape[-1] - 1) * (4 if kind.kind == "c" else 1)
    unit = count * UNIT[str(kind)]
    for name, value, size in zip(("da", "du"), exact[:2], sizes[:2], strict=True):
        error = abs(given[name].astype(wide) - value)
        assert (error <= size * unit / (1 - unit)).all(), name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SELDOM else name for name in EVERY]
)
def test_gradients_are_those_of_the_host(rng, name):
    need_compiler()
    given, window = arrays(name, rng), EVERY[name][3]
    launch = planned(given, window)
    assert launch is not None
    macros = dict(launch.macros)
    assert macros["LANES"] == str(EVERY[name][4])
    assert macros["TIME_ACCESS"] == macros["COEFFICIENT_STEPS"] == str(ROWS[name][5] if name in ROWS else 1)
    run_bare(launch, given)
    check(given, window)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("device", [SMALL, H100], ids=["few segments", "many"])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_length_of_the_last_block(rng, window, device):
    need_compiler()
    block, terms = blocks_and_terms(check_window(window))
    least = block * (terms + 1) + 1
    for n in (*range(least, least + 2 * block + 2), least + 16 * block + 3):
        given = numbers(rng, (n, 2, 8), (n, 2, 1))
        launch = planned(given, window, device)
        assert launch is not None
        run_bare(launch, given)
        check(given, window)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("device", [SMALL, H100], ids=["few segments", "many"])
@pytest.mark.parametrize("window", ["jagged:4", "jagged:8:0", "jagged:6:2", "uniform:5", "uniform:7"])
def test_rows_of_every_length(rng, window, device):
    need_compiler()
    block, terms = blocks_and_terms(check_window(window))
    slides = block == 1 and terms > 1
    least, span = (terms + 2, terms) if slides else (block * (terms + 1) + 1, block)
    for n in (*range(least, least + 2 * span + 2), least + 16 * span + 3, 4 * (least + 5 * span)):
        given = numbers(rng, (n, 2, 4), (n, 2, 1), rows=True)
        launch = planned(given, window, device)
        assert launch is not None
        assert dict(launch.macros)["TIME_ACCESS"] == str(np.gcd.reduce([4, n, span]))
        run_bare(launch, given)
        check(given, window)


def test_coefficients_of_rows_that_move_one_by_one(rng):
    need_compiler()
    for name in ("rows, own", "rows, lags"):
        given = arrays(name, rng)
        for one in ("a", "da"):
            given[one] = np.ascontiguousarray(given[one])  # with time first in memory
        launch = planned(given, EVERY[name][3])
        macros = dict(launch.macros)
        assert (macros["TIME_ACCESS"], macros["COEFFICIENT_STEPS"]) == ("4", "1")
        run_bare(launch, given)
        check(given, EVERY[name][3])


@pytest.mark.parametrize("name", ["u", "g"])
@pytest.mark.parametrize("window", ["jagged:5:0", "jagged:5", "jagged:4:2", "jagged:2:5", "uniform:7"])
def test_nan_stays_where_the_window_leads_it(rng, window, name):
    need_compiler()
    n = 33
    kept = rf.TransferOperator(np.ones(n)).truncate(check_window(window)).to_dense() != 0
    for step in range(n):
        given = numbers(rng, (n, 1, 8), (n, 1, 8))
        given[name][step, 0, 3] = np.nan
        run_bare(planned(given, window), given)
        pairs = np.zeros_like(kept)
        at = (slice(None), step) if name == "u" else (step, slice(None))
        pairs[at] = kept[at]
        reached = {"da": [pairs[k:, :k].any() for k in range(n)], "du": pairs.any(0) & (name == "g")}
        for gradient, steps in reached.items():
            expected = np.zeros((n, 1, 8), bool)
            expected[:, 0, 3] = steps
            np.testing.assert_array_equal(np.isnan(given[gradient]), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("window", "segments"), [("full", 1), ("jagged:5", 3), ("jagged:2:2", 4), ("uniform:6", 3)])
def test_batches_that_lie_apart_from_each_other(rng, window, segments, shared):
    need_compiler()
    whole = numbers(rng, (256, 2, 4, 12), (256, 2, 4, 1 if shared else 12))
    given = {name: array[:, :, :3, :8] for name, array in whole.items()}
    if window == "full":
        given["x"] = np.array(rf.solve(given["a"], given["u"], axis=0))
    launch = planned(given, window)
    assert launch is not None
    extents = {argument.name: argument.value for argument in launch.arguments}
    assert (extents["batch"], extents["heads"], extents["segments"]) == (2, 3, segments)
    run_bare(launch, given)
    check(given, window)
    for name in ("du", "da"):
        assert np.isnan(whole[name][:, :, 3]).all()
        assert np.isnan(whole[name][:, :, :, 8:]).all()


def test_many_segments_are_made():
    x = np.empty((4000, 4, 16), "f4")
    given = dict(zip(NAMES, (x[:, :, :1], x, x, x, x[:, :, :1]), strict=True))
    for window, halo in (("jagged:16", 16), ("uniform:16", 15), ("jagged:8:2", 16)):
        launch = planned(given, window)
        segments = {argument.name: argument.value for argument in launch.arguments}["segments"]
        assert segments > 4000 // halo // 20


@pytest.mark.machine_code
@pytest.mark.parametrize("name", EVERY)
def test_the_kernel_has_no_fault_and_the_same_bits_in_every_order(rng, name):
    given, window, results = arrays(name, rng), EVERY[name][3], []
    launch = planned(given, window, H100 if name in SEGMENTS else SMALL)
    assert launch is not None
    for schedule in (TOGETHER, *RANDOM[:2]):
        own = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("du", "da")).check()
        check(own, window)
        results.append((own["du"], own["da"]))
    for du, da in results[1:]:
        np.testing.assert_array_equal(du, results[0][0])
        np.testing.assert_array_equal(da, results[0][1])


TIGHT = ("own coefficients", "shared", "shared, lags", "complex, lags", "complex, own", "shared by 32", "two terms")
TIGHT += ("two terms, shared", "three terms of their own", "four terms of their own", "five terms")
TIGHT += ("eight terms of their own", *ROWS)


@pytest.mark.machine_code
@pytest.mark.parametrize(("capability", "name"), in_turn_at([(7, 5), (9, 0), (10, 0), (12, 0)], TIGHT))
def test_nothing_spills(rng, capability, name):
    launch = planned(arrays(name, rng), EVERY[name][3], Device(capability, 1))
    assert launch is not None
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("window", "n"), [("full", 256), ("jagged:16", 1024), ("jagged:16:2", 2048), ("uniform:17", 1024)]
)
def test_rows_are_read_and_written_once(rng, window, n):
    given = numbers(rng, (n, 2, 16), (n, 2, 1), rows=True)
    if window == "full":
        given["x"] = given.pop("u")
    launch = planned(given, window, SMALL)
    assert dict(launch.macros)["TIME_ACCESS"] == "4"
    report = execute(launch, given, H100.capability, outputs=("du", "da")).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    needed = sum(array.nbytes for array in given.values())
    assert needed <= moved <= 1.1 * needed


def rows_that_begin(array: np.ndarray, start: int, gap: int) -> np.ndarray:
    """Return the same rows along time, the first of which begins `start` numbers later, with gaps between them."""
    n, *others = array.shape
    memory = np.zeros(start + (n + gap) * prod(others), array.dtype)
    rows = memory[start:].reshape(*others, n + gap)[..., :n]
    rows[...] = np.moveaxis(array, 0, -1)
    return np.moveaxis(rows, -1, 0)


@pytest.mark.machine_code
@pytest.mark.parametrize("window", ["full", "jagged:8"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_begin_anywhere(rng, name, window):
    """Accesses are as wide as addresses allow, those of coefficients apart, and bits are those of aligned rows."""
    given, found = numbers(rng, (32, 2, 4), (32, 2, 1), rows=True), []
    given = {"x" if key == "u" and window == "full" else key: array for key, array in given.items()}
    moved = "x" if name == "u" and window == "full" else name
    for start, gap, width in ((0, 0, 4), (2, 0, 2), (1, 0, 1), (0, 4, 4), (0, 2, 2), (0, 1, 1)):
        own = {key: array.copy(order="K") for key, array in given.items()}
        own[moved] = rows_that_begin(own[moved], start, gap)
        launch = planned(own, window, SMALL)
        macros = dict(launch.macros)
        apart = name in ("a", "da")
        assert macros["TIME_ACCESS"] == str(4 if apart else width)
        assert macros["COEFFICIENT_STEPS"] == str(width if not apart or width == 4 else 1)
        execute(launch, own, H100.capability, outputs=("du", "da"), schedule=RANDOM[0]).check()
        found.append((own["du"], own["da"]))
    for one, other in found[1:]:
        np.testing.assert_array_equal(one, found[0][0])
        np.testing.assert_array_equal(other, found[0][1])


# What is looked for in the source, what is put in its place, and the window that sees it.
MUTATIONS = {
    "the carrier of the block before left out": ("TERMS > 0 && index > 0;", "false;", "jagged:5"),
    "the block after left out": ("static_cast<int>(top - index) : TERMS", "0 : 0", "jagged:5"),
    "states not kept apart": ("static_cast<int>(index % HELD) * ROW", "0", "jagged:5"),
    "coefficients not kept apart": ("static_cast<int>(index % HELD) * SIZE", "0", "jagged:5:2"),
    "a segment that starts with its own block": ("whole ? end + TERMS - 1", "whole ? end - 1", "jagged:5"),
    "a segment that starts one block too low": ("whole ? end + TERMS - 1", "whole ? end + TERMS - 2", "jagged:2:2"),
    "a block before the segment not seen": ("begin > TERMS ? begin - TERMS", "begin > 1 ? begin - 1", "jagged:2:2"),
    "a block not passed": ("if (!first) {", "if (false) {", "jagged:5:2"),
    "a block that adds nothing": (": add(last[c], reached[j][c])", ": reached[j][c]", "jagged:5:2"),
    "pairs of a block before and a block after left out": ("q > following)", "q > 0)", "jagged:5:2"),
    "as many terms for every block after": ("carried(TERMS - 1 - q)", "carried(TERMS - 1)", "jagged:5:2"),
    "the block after for all others": ("q == 0 ? state[c] : other[q - 1][c]);\n", "state[c]);\n", "jagged:5:2"),
    "a state one step late": ("own).get(place - 1)", "own).get(place)", "jagged:5"),
    "sums of the next block dropped at its end": ("if (k < length) sum[c]", "if (k < length - 1) sum[c]", "uniform:8"),
    "no sums where no step is": ("k < kept.block; ++k) {\n        V", "k < length; ++k) {\n        V", "uniform:8"),
    "a product one step late": ("power = kept.products.get(place - 1)", "power = kept.products.get(0)", "uniform:8"),
    "the own sums for those of the next block": ("kept.seen = kept.local, kept.local = other;", "", "uniform:8"),
    "a lane that isn't added": ("distance < LANES; distance *= 2", "distance < LANES / 2; distance *= 2", "uniform:8"),
}  # fmt: skip
ROW_MUTATIONS = {
    "an input for all steps of an access": ("[TIME_CONTIGUOUS ? s % TIMES : c]", "[0]", "jagged:8"),
    "cotangents of an access in another order": (
        "[TIME_CONTIGUOUS ? in_access(s, TIMES) : c]",
        "[s % TIMES]",
        "jagged:8",
    ),
    "results of an access in another order": (
        "found.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c",
        "found.set(s % TIMES",
        "jagged:8",
    ),
    "sums of an access in another order": (
        "? in_access(step, COEFFICIENT_STEPS) : k",
        "? step % COEFFICIENT_STEPS : k",
        "jagged:8",
    ),
    "a coefficient for all steps of an access": ("? s % COEFFICIENT_STEPS : c]", "? 0 : c]", "jagged:8"),
}


@pytest.mark.parametrize("fault", one_in(3, MUTATIONS | ROW_MUTATIONS))
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    old, new, window = (MUTATIONS | ROW_MUTATIONS)[fault]
    plant(monkeypatch, "backward_window", old, new)
    n = 208 if fault in ROW_MUTATIONS else 204
    given = numbers(rng, (n, 2, 8), (n, 2, 1), rows=fault in ROW_MUTATIONS)
    with np.errstate(all="ignore"):
        run_bare(planned(given, window), given)
    with pytest.raises(AssertionError, match=r"d[au]"):
        check(given, window)


def test_other_windows_sums_and_layouts_are_left_to_others():
    def plan(window, shape=(4000, 8, 96), single=None, device=H100, rows=False):
        x, a = np.empty(shape, "f4"), np.empty(shape[:1] + (single or shape[1:]), "f4")
        if rows:
            x = np.empty(shape[::-1], "f4").T
        return planned(dict(zip(NAMES, (a, x, x, x, a), strict=True)), window, device)

    assert plan("jagged:16") is not None
    assert plan("jagged:16", (4000, 1, 4)) is not None  # few lines, many segments
    assert plan("jagged:2000", (4000, 8, 8)) is None  # that is the full recurrence, with too few lines
    for last in (
        "jagged:192:0",
        "jagged:76",
        "jagged:48:2",
        "jagged:34:3",
        "jagged:27:4",
        "jagged:22:5",
        "jagged:14:8",
    ):  # in shared memory
        block, *terms = last.removeprefix("jagged:").split(":")
        above = ":".join(("jagged", str(int(block) + 1), *terms))
        assert [plan(window) is None for window in (last, above)] == [False, True]
    assert [plan(f"jagged:2:{terms}") is None for terms in (8, 9)] == [False, True]
    assert [plan(window) is None for window in ("uniform:49", "uniform:50")] == [False, True]
    assert plan("jagged:64", device=Device((7, 5), 40)) is None
    assert plan("jagged:16", rows=True) is not None
    assert plan("jagged:16", single=(8, 1)) is not None  # 24 threads
    assert plan("jagged:16", single=(1, 96)) is not None  # 8 threads, of heads
    assert plan("jagged:16", (0, 8, 96)) is None


OPTIONS = {"whole": None, "sequences": [0, 10, 10, 11, 40, 60]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("offsets", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("window", ["jagged:8", "jagged:8:0", "jagged:3:2", "uniform:8"])
@pytest.mark.parametrize("a_shape", [(60, 2, 8), (60, 2, 1)])
def test_vjp_launches_it_alone(machine, rng, a_shape, window, offsets, initial):
    a, u, g = (random_numbers(rng, shape, "float32", 0.9) for shape in (a_shape, (60, 2, 8), (60, 2, 8)))
    x0 = random_numbers(rng, (2, 8) if offsets is None else (5, 2, 8), "float32") if initial else None
    machine.launches.clear()
    options = {"axis": 0, "window": window, "offsets": offsets}
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), x0=on_gpu(x0) if initial else None, **options)
    assert [launch.launch.kernel for launch in machine.launches] == ["backward_window"]
    wide = x0.astype("f8") if initial else None
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), x0=wide, **options)
    for got, exact in zip(found[: 2 + initial], expected, strict=False):
        assert (got.shape, got.dtype) == (exact.shape, np.float32)
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


def test_inputs_and_cotangents_that_are_broadcast(machine, rng):
    a, u, g = (random_numbers(rng, shape, "float32", 0.9) for shape in ((60, 2, 8), (60, 1, 8), (1, 2, 8)))
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), axis=0, window="jagged:8")
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), axis=0, window="jagged:8")
    for got, exact in zip(found[:2], expected[:2], strict=True):
        assert got.shape == exact.shape
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


def test_a_window_that_keeps_everything_is_the_full_one(machine, rng):
    a, u, g = (random_numbers(rng, (30, 2, 8), "float32", 0.9) for _ in "aug")
    for offsets in (None, [0, 1, 30]):  # of lengths that plans round up
        machine.launches.clear()
        options = {"axis": 0, "window": "jagged:15", "offsets": offsets}
        found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), **options)
        assert [dict(launch.launch.macros)["CARRIED"] for launch in machine.launches] == ["1"]
        expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), **options)
        np.testing.assert_allclose(found[0].get(), expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", ["jagged:8", "jagged:2:3", "jagged:4:8"])
def test_products_of_coefficients_that_overflow_do_not_matter_in_blocks(machine, window):
    a, u, g = np.full((40, 4), 1e30, "f4"), np.zeros((40, 4), "f4"), np.zeros((40, 4), "f4")
    u[38], g[39], a[36], a[37:] = 1, 1, 0, 1
    da, du, _ = rf.gradients.vjp(*map(on_gpu, (a, u, g)), axis=0, window=window)
    steps = np.arange(40)[:, None]
    np.testing.assert_array_equal(da.get(), np.broadcast_to(steps == 39, (40, 4)))
    np.testing.assert_array_equal(du.get(), np.broadcast_to(steps >= 36, (40, 4)))


def test_tensors_give_tensors(machine, rng):
    given = [random_numbers(rng, (30, 4), "float32", 0.9) for _ in "aug"]
    da, du, _ = gpu_gradients.gradients(*map(torch_stand_in.tensor, given), rf.Jagged(4))
    assert isinstance(da, torch_stand_in.Tensor)
    same = gpu_gradients.gradients(*map(on_gpu, given), rf.Jagged(4))
    np.testing.assert_array_equal(da.numpy(), same[0].get())
    np.testing.assert_array_equal(du.numpy(), same[1].get())
