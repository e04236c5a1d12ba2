"""Gradients of the full recurrence by one launch, against the plain loop, within their bound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gpu import torch_stand_in
from gpu.bare_run import need_compiler, plant, run_bare
from gpu.bounds import UNIT
from gpu.cases import H100, LAYOUTS, NUMPY, channel_axis, in_turn_at, random_numbers, strided
from gpu.stand_in import on_gpu
from samples import one_in

import recfact as rf
from recfact.gpu import gradients as gpu_gradients
from recfact.gpu import run
from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import Gradients
from recfact.recurrence import forward
from tools.gpu.emulator import RANDOM, TOGETHER, execute
from tools.gpu.machine_code import usage

# Layout with time first, heads, steps, channels, number type, whether channels share coefficients; threads that add.
CASES = {
    "own coefficients": ("time, head, channel", 3, 40, 8, "float32", False, 1),
    "shared by one thread": ("head, time, channel", 3, 41, 4, "float32", True, 1),
    "shared by four": ("head, time, channel", 5, 39, 16, "float32", True, 4),
    "shared by 32": ("time, head, channel", 2, 20, 64, "float64", True, 32),
    "odd channels": ("head, time, channel", 3, 30, 7, "float32", False, 1),
    "complex": ("head, time, channel", 3, 30, 4, "complex64", True, 2),
    "complex, own": ("time, head, channel", 3, 30, 2, "complex128", False, 1),
    "a single step": ("head, time, channel", 3, 1, 8, "float32", True, 2),
    "two steps": ("head, time, channel", 3, 2, 8, "float32", True, 2),
    "three": ("head, time, channel", 3, 3, 8, "float32", False, 1),
    "rows": ("head, channel, time", 3, 40, 4, "float32", True, 4),
    "rows, own": ("head, channel, time", 3, 44, 2, "float32", False, 1),
    "rows, two at once": ("head, channel, time", 2, 42, 16, "float32", True, 16),
    "rows of an odd length": ("head, channel, time", 2, 41, 16, "float32", True, 16),
    "rows shared by 32": ("head, channel, time", 2, 22, 32, "float64", True, 32),
    "rows, complex": ("head, channel, time", 3, 30, 4, "complex64", True, 4),
    "rows, complex, own": ("head, channel, time", 3, 15, 2, "complex128", False, 1),
}
AT_ONCE = {"rows": 4, "rows, own": 4, "rows, two at once": 2, "rows shared by 32": 2, "rows, complex": 2}
RUN = ["own coefficients", "shared by four", "shared by 32", "complex", "complex, own"]
RUN += [name for name in CASES if name.startswith("rows")]


def arrays(name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return arrays with time first: coefficients, cotangents, states, and places for the gradients."""
    layout, heads, n, d, dtype, shared, _ = CASES[name]
    make, axis = LAYOUTS[layout]
    shape = make(heads, n, d)
    single = tuple(1 if shared and k == channel_axis(layout) else length for k, length in enumerate(shape))
    a = random_numbers(rng, single, dtype, 0.95)
    g, u = random_numbers(rng, shape, dtype), random_numbers(rng, shape, dtype)
    x = rf.solve(a, u, axis=axis)
    empty = [np.full(size, np.nan).astype(NUMPY[dtype]) for size in (shape, single)]
    return {k: np.moveaxis(v, axis, 0) for k, v in zip(("a", "x", "g", "du", "da"), (a, x, g, *empty), strict=True)}


def within(given: dict[str, np.ndarray], start: int, end: int) -> dict[str, np.ndarray]:
    return {name: array[start:end] for name, array in given.items() if name != "starts"}


def planned_sequences(given: dict[str, np.ndarray], offsets: list[int], device: Device = H100) -> Launch:
    """Plan sequences, with states and starts of their own."""
    numbers = np.array(offsets)
    given["starts"] = np.ascontiguousarray(numbers[-1] - numbers[::-1])
    places = (strided(given[name]) for name in ("a", "x", "g", "du", "da"))
    launch = plan_gradients(Gradients(*places, rf.Full(), sequences_of(numbers)), device)
    assert launch is not None
    return launch


def planned(given: dict[str, np.ndarray], device: Device = H100) -> Launch | None:
    places = (strided(given[name]) for name in ("a", "x", "g", "du", "da"))
    return plan_gradients(Gradients(*places, rf.Full()), device)


def check(given: dict[str, np.ndarray], dtype: str) -> None:
    """Compare with the plain loop in double precision, from the same states."""
    wide = np.complex128 if given["g"].dtype.kind == "c" else np.float64
    a, g, x = (given[name].astype(wide) for name in ("a", "g", "x"))
    n, unit = len(x), UNIT[dtype]

    def gradients(a: np.ndarray, g: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ahead = np.concatenate([np.zeros_like(a[:1]), a[:0:-1]])
        du = forward(np.broadcast_to(ahead, g.shape), g[::-1])[::-1]
        products = np.concatenate([np.zeros_like(x[:1]), du[1:] * x[:-1]])
        axes = tuple(k for k in range(1, x.ndim) if a.shape[k] == 1 != x.shape[k])
        return products.sum(axes, keepdims=True), du

    exact, sizes = gradients(a, g, x), gradients(abs(a), abs(g), abs(x))
    for name, value, size, more in (("da", exact[0], sizes[0], x.shape[-1] + 1), ("du", exact[1], sizes[1], 1)):
        count = (n + more) * (4 if wide is np.complex128 else 1)  # a multiply-add a step, a product, and the sum
        most = size * count * unit / (1 - count * unit)
        error = abs(given[name].astype(wide) - value)
        assert (error <= most).all(), name


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_plain_loop(rng, name):
    need_compiler()
    given = arrays(name, rng)
    launch = planned(given)
    assert launch is not None
    macros = dict(launch.macros)
    assert macros["LANES"] == str(CASES[name][-1])
    assert macros["TIME_ACCESS"] == macros["COEFFICIENT_STEPS"] == str(AT_ONCE.get(name, 1))
    run_bare(launch, given)
    check(given, CASES[name][4])


@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_every_length(rng, shared):
    need_compiler()
    for n in range(2, 39):
        CASES["of a length"] = ("head, channel, time", 2, n, 4, "float32", shared, None)
        given = arrays("of a length", rng)
        launch = planned(given)
        assert dict(launch.macros)["TIME_ACCESS"] == str(4 if n % 4 == 0 else 2 if n % 2 == 0 else 1)
        run_bare(launch, given)
        check(given, "float32")


def test_coefficients_of_rows_that_move_one_by_one(rng):
    need_compiler()
    given = arrays("rows", rng)
    for name in ("a", "da"):
        given[name] = np.ascontiguousarray(given[name])  # with time first in memory
    launch = planned(given)
    macros = dict(launch.macros)
    assert (macros["TIME_ACCESS"], macros["COEFFICIENT_STEPS"]) == ("4", "1")
    run_bare(launch, given)
    check(given, "float32")


def test_rows_whose_states_lie_otherwise_move_one_by_one(rng):
    need_compiler()
    given = arrays("rows", rng)
    given["x"] = np.ascontiguousarray(given["x"])
    launch = planned(given)
    assert dict(launch.macros)["TIME_ACCESS"] == "1"
    run_bare(launch, given)
    check(given, "float32")


@pytest.mark.parametrize("start", [1, 2])
def test_rows_whose_states_begin_elsewhere_move_in_narrower_accesses(rng, start):
    need_compiler()
    given = arrays("rows", rng)
    memory = np.empty(given["x"].size + 8, "f4")
    begin = start + -memory.ctypes.data // 4 % 4  # numbers behind a multiple of 16 bytes
    rows = memory[begin : begin + given["x"].size].reshape(*given["x"].shape[1:], -1)
    rows[...] = np.moveaxis(given["x"], 0, -1)
    given["x"] = np.moveaxis(rows, -1, 0)
    launch = planned(given)
    assert dict(launch.macros)["TIME_ACCESS"] == str(start)
    run_bare(launch, given)
    check(given, "float32")


@pytest.mark.parametrize("emulated", [False, pytest.param(True, marks=pytest.mark.machine_code)])
@pytest.mark.parametrize("name", ["shared by one thread", "own coefficients", "rows", "rows, own"])
def test_sequences_have_gradients_of_their_own(rng, name, emulated):
    need_compiler()
    given = arrays(name, rng)
    offsets = [0, 0, 8, 12, 24, len(given["x"])] if name in AT_ONCE else [0, 0, 7, 8, 24, len(given["x"])]
    for start in offsets[:-1]:  # what is at the ends of others doesn't matter
        given["a"][start : start + 1] = np.nan
    launch = planned_sequences(given, offsets)
    assert dict(launch.macros)["TIME_ACCESS"] == str(AT_ONCE.get(name, 1))
    if emulated:
        execute(launch, given, H100.capability, outputs=("du", "da"), schedule=RANDOM[0]).check()
    else:
        run_bare(launch, given)
    for start, end in pairwise(offsets):
        if start < end:
            own = within(given, start, end)
            own["a"] = np.where(np.isnan(own["a"]), 0, own["a"]).astype("f4")
            check(own, "float32")


@pytest.mark.machine_code
@pytest.mark.parametrize("name", RUN)
def test_the_kernel_has_no_fault_and_the_same_bits_in_every_order(rng, name):
    given, results = arrays(name, rng), []
    launch = planned(given)
    assert launch is not None
    for schedule in (TOGETHER, *RANDOM[:2]):
        own = {**given, "du": np.empty_like(given["du"]), "da": np.empty_like(given["da"])}
        execute(launch, own, H100.capability, schedule=schedule, outputs=("du", "da")).check()
        check(own, CASES[name][4])
        results.append((own["du"], own["da"]))
    for du, da in results[1:]:
        np.testing.assert_array_equal(du, results[0][0])
        np.testing.assert_array_equal(da, results[0][1])


@pytest.mark.machine_code
@pytest.mark.parametrize(("capability", "name"), in_turn_at([(7, 5), (9, 0), (12, 0)], RUN))
def test_nothing_spills(rng, capability, name):
    launch = planned(arrays(name, rng), Device(capability, 1))
    assert launch is not None
    used = usage(launch, capability)
    assert (used.log, used.stack) == ("", 0)


MUTATIONS = {
    "the coefficient of the step itself": (
        "factor[COEFFICIENTS == 1 ? 0 : c], state[c]",
        "chunk.coefficient(s, c), state[c]",
    ),
    "a first gradient that isn't zero": ("products[c] = number<Number>(0)", "products[c] = number<Number>(1)"),
    "sums put one access late": ("sums.store(at<SUM>(da, s - COEFFICIENT_STEPS", "sums.store(at<SUM>(da, s"),
    "sums of an access in another order": (
        "? in_access(step, COEFFICIENT_STEPS) : k",
        "? step % COEFFICIENT_STEPS : k",
    ),
    "results of an access in another order": (
        "found.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c",
        "found.set(s % TIMES",
    ),
    "states of an access in another order": (
        "states[access][TIME_CONTIGUOUS ? in_access(s, TIMES) : c]",
        "states[access][s % TIMES]",
    ),
    "a lane that isn't added": ("distance < LANES; distance *= 2", "distance < LANES / 2; distance *= 2"),
}


@pytest.mark.parametrize("fault", one_in(2, MUTATIONS))
def test_planted_faults_are_seen(rng, monkeypatch, fault):
    need_compiler()
    plant(monkeypatch, "backward", *MUTATIONS[fault])
    given = arrays("rows", rng)
    run_bare(planned(given), given)
    with pytest.raises(AssertionError, match=r"d[au]"):
        check(given, "float32")


def test_few_lines_are_left_to_others():
    f4 = np.dtype("f4")
    x = np.empty((300, 8, 96), f4)
    device = Device((9, 0), 1)

    def plan(a_shape, x=x, device=device):
        a = np.empty(a_shape, f4)
        places = map(strided, (np.broadcast_to(a, (len(x), *a.shape[1:])), x, x, x, a))
        return plan_gradients(Gradients(*places, rf.Full()), device)

    assert plan((300, 8, 96)) is not None
    assert plan((300, 8, 1)) is not None  # 24 threads
    assert plan((300, 1, 1)) is not None  # 6 times 32 threads, of heads next to each other
    assert plan((300, 1, 96)) is not None  # 8 threads, of heads
    assert plan((300, 8, 96), device=Device((9, 0), 132)) is None  # too few lines
    assert plan((200, 8, 96), np.empty((200, 8, 96), f4), Device((9, 0), 132)) is not None  # but short
    rows = np.empty((8, 96, 300), f4).transpose(2, 0, 1)
    assert plan((300, 8, 96), rows) is not None
    assert plan((300, 8, 1), rows) is not None  # 3 times 32 threads
    assert plan((0, 8, 96), x[:0]) is None


def given_to_vjp(rng, shape, a_shape, dtype):
    return (
        random_numbers(rng, a_shape, dtype, 0.9),
        random_numbers(rng, shape, dtype),
        random_numbers(rng, shape, dtype),
    )


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("shape", "a_shape", "axis"),
    [
        ((2, 30, 8), (2, 30, 1), 1),
        ((30, 2, 8), (30, 2, 8), 0),
        ((40, 8), (40, 1), 0),
        ((2, 8, 40), (2, 1, 40), 2),
        ((9, 29), (9, 29), 1),
    ],
)
def test_vjp_launches_it(machine, rng, shape, a_shape, axis, known):
    a, u, g = given_to_vjp(rng, shape, a_shape, "float32")
    x = rf.solve(on_gpu(a), on_gpu(u), axis=axis)
    machine.launches.clear()
    da, du, d0 = rf.gradients.vjp(on_gpu(a), on_gpu(u), on_gpu(g), axis=axis, x=x if known else None)
    assert [launch.launch.kernel for launch in machine.launches] == ["backward" if known else "backward_window"]
    assert d0 is None
    expected = rf.gradients.vjp(a.astype("f8"), u.astype("f8"), g.astype("f8"), axis=axis)
    for got, exact in zip((da, du), expected[:2], strict=True):
        assert (got.shape, got.dtype) == (exact.shape, np.float32)
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("offsets", [None, [0, 10, 10, 11, 40, 60]])
@pytest.mark.parametrize(("window", "solve"), [("full", "sweep"), ("jagged:8", "sweep"), ("uniform:8", "sliding")])
@pytest.mark.parametrize("a_shape", [(60, 2, 8), (60, 2, 1)])
def test_vjp_of_the_transpose_takes_one_solve_more(machine, rng, a_shape, window, solve, offsets):
    a, u, g = given_to_vjp(rng, (60, 2, 8), a_shape, "float32")
    options = {"axis": 0, "window": window, "reverse": True, "offsets": offsets}
    machine.launches.clear()
    da, du, _ = rf.gradients.vjp(on_gpu(a), on_gpu(u), on_gpu(g), **options)
    launches = [solve, "backward"] if window == "full" else ["backward_window", solve]
    assert [launch.launch.kernel for launch in machine.launches] == launches
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), **options)
    for got, exact in zip((da, du), expected[:2], strict=True):
        assert (got.shape, got.dtype) == (exact.shape, np.float32)
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", ["full", "jagged:8", "jagged:8:2", "uniform:8"])
@pytest.mark.parametrize("reverse", [False, True])
def test_vjp_without_a_kernel_solves_no_more_than_its_formula_needs(machine, monkeypatch, rng, window, reverse):
    monkeypatch.setattr(run, "plan_gradients", lambda *_: None)
    a, u, g = given_to_vjp(rng, (60, 2, 8), (60, 2, 8), "float32")
    machine.launches.clear()
    found = rf.gradients.vjp(*map(on_gpu, (a, u, g)), axis=0, window=window, reverse=reverse)
    solves = {"full": 2, "jagged:8": 4, "jagged:8:2": 6, "uniform:8": 8}  # as docs/gradients.md says
    assert len(machine.launches) == solves[window]
    expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), axis=0, window=window, reverse=reverse)
    for got, exact in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("a_shape", [(60, 2, 8), (60, 2, 1)])
def test_vjp_of_sequences_launches_it_once(machine, rng, a_shape):
    a, u, g = given_to_vjp(rng, (60, 2, 8), a_shape, "float32")
    offsets = [0, 10, 10, 11, 40, 60]
    da, du, _ = rf.gradients.vjp(on_gpu(a), on_gpu(u), on_gpu(g), axis=0, offsets=offsets)
    assert [launch.launch.kernel for launch in machine.launches] == ["backward_window"]
    expected = rf.gradients.vjp(a.astype("f8"), u.astype("f8"), g.astype("f8"), axis=0, offsets=offsets)
    for got, exact in zip((da, du), expected[:2], strict=True):
        np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)
    assert rf.gradients.vjp(on_gpu(a[:0]), on_gpu(u[:0]), on_gpu(g[:0]), axis=0, offsets=[0])[1].shape == (0, 2, 8)


@pytest.mark.parametrize("offsets", [None, [0, 10, 10, 11, 40, 60]])
@pytest.mark.parametrize("a_shape", [(60, 2, 8), (60, 2, 1)])
def test_initial_states_add_to_it(machine, rng, a_shape, offsets):
    a, u, g = given_to_vjp(rng, (60, 2, 8), a_shape, "float32")
    for shape in ((2, 8), (8,), ()) if offsets is None else ((5, 2, 8), (1, 1, 8)):
        x0 = random_numbers(rng, shape, "float32")
        machine.launches.clear()
        options = {"axis": 0, "offsets": offsets}
        found = rf.gradients.vjp(on_gpu(a), on_gpu(u), on_gpu(g), x0=on_gpu(x0), **options)
        assert [launch.launch.kernel for launch in machine.launches] == ["backward_window"]
        expected = rf.gradients.vjp(*(array.astype("f8") for array in (a, u, g)), x0=x0.astype("f8"), **options)
        for got, exact in zip(found, expected, strict=True):
            assert got.shape == exact.shape
            np.testing.assert_allclose(got.get(), exact, rtol=1e-4, atol=1e-4)


def test_an_infinite_gradient_does_not_reach_the_first_coefficient(machine):
    a, u, g = np.ones((30, 4), "f4"), np.ones((30, 4), "f4"), np.ones((30, 4), "f4")
    g[3] = np.inf
    da, du, _ = rf.gradients.vjp(on_gpu(a), on_gpu(u), on_gpu(g), axis=0)
    assert np.isinf(du.get()[:4]).all()
    np.testing.assert_array_equal(da.get()[0], 0)


def test_arrays_of_several_types_and_tensors(machine, rng):
    a, g, x = (random_numbers(rng, (30, 4), "float32") for _ in "agx")
    assert gpu_gradients.gradients(on_gpu(a), on_gpu(x.astype("f8")), on_gpu(g)) is None
    da, du, _ = gpu_gradients.gradients(*map(torch_stand_in.tensor, (a, x, g)))
    assert isinstance(da, torch_stand_in.Tensor)
    same = gpu_gradients.gradients(*map(on_gpu, (a, x, g)))
    np.testing.assert_array_equal(da.numpy(), same[0].get())
    np.testing.assert_array_equal(du.numpy(), same[1].get())
