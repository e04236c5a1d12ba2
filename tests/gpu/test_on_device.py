"""Every kernel on a real GPU against the plain loop: run by ``pytest -m gpu``, and skipped where there is no GPU.

The plans are those for a GPU of a given size, so that each kernel has its turn on any card.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from gpu import test_mixer, test_sequences
from gpu.bounds import HALF_SPACING, UNIT, bound
from gpu.cases import H100, LAYOUTS, NUMPY, Case, strided
from gpu.test_kernels import FEW, NO_TENSOR_CORES, make_case

import recfact as rf
from recfact.gpu import run, tuned, tuning
from recfact.gpu.launch import alternatives
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import Solve
from recfact.number_types import BFLOAT16
from recfact.windows import Full, Jagged, Uniform, Window

HEADS, TURNED, ROWS = LAYOUTS

# Kernel, layout, number type, window, the GPU planned for, options of the solve, options of the arrays.
SOLVES: dict[str, tuple[str, str, Window, Device, dict[str, Any], dict[str, Any]]] = {
    "b2p": (HEADS, "bfloat16", Jagged(16), H100, {}, {"initial": True}),
    "b2p float16 backwards": (HEADS, "float16", Jagged(16), H100, {"reverse": True}, {}),
    "b2p heads in a row": (TURNED, "bfloat16", Jagged(48), H100, {}, {"a_dtype": "float32", "out": "float32"}),
    "b2p along time": (ROWS, "bfloat16", Jagged(16), H100, {}, {"initial": True}),
    "b2p along time backwards": (ROWS, "float16", Jagged(32), H100, {"reverse": True}, {}),
    "b2p blocks alone": (HEADS, "bfloat16", Jagged(16, 0), H100, {}, {}),
    "b2p full": (HEADS, "bfloat16", Full(), FEW, {}, {"heads": 8}),
    "b2p in one term": (HEADS, "bfloat16", Jagged(16), H100, {"precision": "paper"}, {}),
    "sweep": (HEADS, "bfloat16", Jagged(16), NO_TENSOR_CORES, {}, {"initial": True}),
    "sweep float32": (HEADS, "float32", Jagged(16), H100, {}, {"shared": False}),
    "sweep backwards": (TURNED, "float64", Jagged(16), H100, {"reverse": True}, {}),
    "sweep along time": (ROWS, "float32", Jagged(16), H100, {}, {"initial": True}),
    "sweep complex": (HEADS, "complex64", Jagged(16), H100, {}, {"shared": False}),
    "sliding": (HEADS, "float32", Uniform(17), H100, {}, {"initial": True}),
    "sliding in global memory": (HEADS, "complex128", Uniform(200), H100, {"reverse": True}, {}),
    "sliding bfloat16": (TURNED, "bfloat16", Jagged(5, 3), H100, {}, {}),
    "chain": (HEADS, "float32", Full(), H100, {}, {"initial": True}),
    "chain per channel": (HEADS, "float16", Full(), NO_TENSOR_CORES, {"reverse": True}, {"shared": False}),
    "chain along time": (ROWS, "bfloat16", Full(), NO_TENSOR_CORES, {}, {}),
    "chain complex": (TURNED, "complex128", Full(), H100, {"reverse": True}, {}),
}


@pytest.fixture(autouse=True)
def nothing_was_tuned(monkeypatch, tmp_path):
    """Plan by the estimates, whatever was the fastest on this card before."""
    monkeypatch.setattr(tuned, "folder", lambda: tmp_path / "none")
    tuned.winners.cache_clear()
    run.forget_plans()
    yield
    tuned.winners.cache_clear()
    run.forget_plans()


@contextmanager
def planned_for(device: Device) -> Iterator[None]:
    """Plan for another GPU than the one that runs the plans."""
    run.forget_plans()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "device_of", lambda number: device)
        yield
    run.forget_plans()


def to_gpu(array: np.ndarray | None):
    """Copy an array to the GPU; CuPy takes bfloat16 from the host as integers."""
    import cupy

    if array is None or array.dtype != BFLOAT16:
        return array if array is None else cupy.asarray(array)
    return cupy.asarray(array.view(np.uint16)).view(BFLOAT16)


def from_gpu(array) -> np.ndarray:
    return array.view(np.uint16).get().view(BFLOAT16) if array.dtype == BFLOAT16 else array.get()


def solve(name: str, n: int = 600) -> tuple[Launch, Case, np.ndarray]:
    """Solve on the GPU, into an array full of NaN."""
    layout, dtype, window, device, options, arrays = SOLVES[name]
    arrays = dict(arrays)
    case = make_case(layout, arrays.pop("heads", 2), n, 16, dtype, **arrays)
    x0 = None if case.x0 is None else to_gpu(case.x0.squeeze(case.axis))
    out = to_gpu(case.x)
    with planned_for(device):
        result = rf.gpu.solve(to_gpu(case.a), to_gpu(case.u), x0=x0, axis=case.axis, window=window, out=out, **options)
    assert result is out
    launch = case.plan(window, device=device, **options)
    assert launch.kernel == name.split()[0]
    return launch, case, from_gpu(out)


def close(x: np.ndarray, launch: Launch, case: Case, window: Window, reverse: bool = False) -> None:
    """Hold a result to the plain loop within the bound of the kernel's own order of operations."""
    right, most = bound(launch, case, window, reverse, flushed=True)
    assert (np.abs(np.moveaxis(x, case.axis, 0).astype(right.dtype) - right) <= most).all()


def agree(name: str) -> None:
    _, _, window, _, options, _ = SOLVES[name]
    launch, case, x = solve(name)
    close(x, launch, case, window, options.get("reverse", False))


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOLVES)
def test_every_kernel(name):
    agree(name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["chain", "b2p", "sliding"])
def test_the_same_bits_twice(name):
    (*_, first), (*_, second) = solve(name, 4096), solve(name, 4096)
    assert first.tobytes() == second.tobytes()


def agree_here(window: Window, heads: int, n: int, dtype: str = "float32") -> None:
    """Hold solves of arrays on the GPU and on the host to the plain loop, as they are planned for the GPU at hand."""
    case = make_case(HEADS, heads, n, 16, dtype, a_dtype="float32", out="float32")
    launch = case.plan(window, device=run.device_of(0))
    close(from_gpu(rf.solve(to_gpu(case.a), to_gpu(case.u), axis=1, window=window)), launch, case, window)
    close(rf.solve(case.a, case.u, axis=1, window=window, device="gpu"), launch, case, window)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(33)])
def test_long_sequences_of_many_heads(window, dtype):
    agree_here(window, 64, 4096, dtype)


@pytest.mark.gpu
def test_a_long_sequence_of_few_heads():
    agree_here(Full(), 2, 5000)


def sequences_agree(name: str, reverse: bool) -> None:
    """Hold sequences that lie one behind the other to the plain loop."""
    offsets, _, _, window, kernel, _ = test_sequences.SOLVES[name]
    a, u, x0, axis = test_sequences.solved(name, np.random.default_rng(0), reverse)
    options = {"axis": axis, "reverse": reverse, "window": window, "offsets": offsets}
    with planned_for(Device((9, 0), 1) if name in test_sequences.SMALL else H100):
        x = from_gpu(rf.solve(to_gpu(a), to_gpu(u), x0=None if x0 is None else to_gpu(x0), **options))
    launch = test_sequences.planned(name, a, u, x, x0, axis, reverse)
    assert launch.kernel == kernel
    test_sequences.check(launch, a, u, x0, x, axis, window, reverse, offsets, flushed=True)


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", test_sequences.SOLVES)
def test_sequences_of_many_lengths(name, reverse):
    sequences_agree(name, reverse)


GRADIENTS = (Full(), Jagged(16), Jagged(12, 0), Jagged(8, 5), Uniform(16))


def gradients_agree(
    window: Window, n: int, channels: int = 16, dtype: str = "float32", heads: int = 2, shared: str = "channels"
) -> None:
    """Hold gradients on the GPU to those of the host in float64, within the bound of docs/gradients.md.

    Those of the full recurrence in float32 are made from its states as well.
    """
    rng = np.random.default_rng(0)
    single = {"channels": (n, heads, 1), "heads": (n, 1, channels), "both": (n, 1, 1)}[shared]
    shapes = single, (n, heads, channels), (n, heads, channels)
    given = [rng.uniform(-0.99, 0.99, shape).astype(NUMPY[dtype]) for shape in shapes]
    there = [to_gpu(array) for array in given]
    states = [None, rf.solve(there[0], there[1], axis=0)] if (window, dtype) == (Full(), "float32") else [None]
    exact, sizes = (
        rf.gradients.vjp(*(change(one.astype(float)) for one in given), axis=0, window=window)
        for change in (np.asarray, np.abs)
    )
    count = (n if window == Full() else 48) + 16 + heads * channels + 60
    for x in states:
        found = rf.gradients.vjp(*there, axis=0, window=window, x=x)
        for got, value, size in zip(found[:2], exact, sizes, strict=False):
            most = size * count * 2**-24 / (1 - count * 2**-24)
            if dtype in ("float16", "bfloat16"):
                most = most + UNIT[dtype] * (abs(value) + most) + HALF_SPACING[dtype]
            assert (abs(from_gpu(got).astype(float) - value) <= most).all()


@pytest.mark.gpu
@pytest.mark.parametrize("window", GRADIENTS)
def test_gradients(window):
    gradients_agree(window, 200)
    gradients_agree(window, 4000)
    gradients_agree(window, 200, channels=96)
    for shared in ("heads", "both"):
        gradients_agree(window, 4000, heads=37, shared=shared)
    for dtype in ("float16", "bfloat16"):
        gradients_agree(window, 4000, dtype=dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("dtype", "channels"), [("float32", 16), ("float32", 264), ("bfloat16", 16)])
@pytest.mark.parametrize("window", GRADIENTS)
def test_the_check_of_gradients_without_a_gpu(machine, window, dtype, channels):
    gradients_agree(window, 200, channels, dtype)


@pytest.mark.parametrize("shared", ["heads", "both"])
def test_the_check_of_gradients_that_heads_share_without_a_gpu(machine, shared):
    gradients_agree(Full(), 100, heads=37, channels=4, shared=shared)


def mixed_here(name: str) -> None:
    """Hold the mixer of a Phalanx layer on the GPU to that of the host, by the kernel planned for the GPU at hand."""
    case = test_mixer.CASES[name]
    given = test_mixer.arrays(case, np.random.default_rng(0))
    launch = test_mixer.planned(given, case.window, run.device_of(0))
    assert launch is not None
    given["x"] = from_gpu(rf.phalanx(*(to_gpu(given[part]) for part in "aqku"), window=case.window))
    test_mixer.check(given, case.window, launch.kernel)


def tuned_here(window: Window, heads: int, n: int, dtype: str) -> None:
    """Time the plans for the GPU at hand, and hold each to the plain loop as if it were the fastest."""
    case = make_case(HEADS, heads, n, 16, dtype)
    solve = Solve(*map(strided, (case.a, case.u, case.x)), None, case.axis, window)
    launches, given = alternatives(solve, run.device_of(0)), (to_gpu(case.a), to_gpu(case.u))
    found = rf.gpu.tune(*given, axis=1, window=window)
    assert found.keys() == launches.keys()
    assert list(found.values()) == sorted(found.values())
    for name, launch in launches.items():
        tuned.keep(0, tuned.kind_of(solve), name)
        run.forget_plans()
        close(from_gpu(rf.solve(*given, axis=1, window=window)), launch, case, window)


@pytest.mark.gpu
@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(52)])
def test_every_plan_that_is_timed(window):
    tuned_here(window, 64, 4096, "float16")
    tuned_here(window, 512, 4096, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("window", [Full(), Jagged(16)])
def test_the_check_of_timed_plans_without_a_gpu(machine, monkeypatch, window, dtype):
    monkeypatch.setattr(tuning, "time_calls", lambda calls, effort: {name: float(len(name)) for name in calls})
    tuned_here(window, 2, 700, dtype)
    assert len({one.launch.kernel for one in machine.launches}) > 1 or dtype == "float32"


@pytest.mark.gpu
@pytest.mark.parametrize("name", test_mixer.LAUNCHED)
def test_mixers(name):
    mixed_here(name)


@pytest.mark.parametrize("name", ["batch", "tiles"])
def test_the_check_of_mixers_without_a_gpu(machine, name):
    mixed_here(name)


@pytest.mark.parametrize("name", ["long and short", "tiles", "tiles to the end"])
def test_the_check_of_sequences_without_a_gpu(machine, name):
    sequences_agree(name, False)
    assert len(machine.launches) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(33)])
def test_the_checks_of_the_plans_at_hand_without_a_gpu(machine, window, dtype):
    agree_here(window, 2, 400, dtype)


@pytest.mark.parametrize("name", ["b2p", "sweep along time", "sliding bfloat16", "chain per channel"])
def test_the_checks_themselves_without_a_gpu(machine, name):
    agree(name)


def test_a_wrong_result_is_seen(machine, monkeypatch):
    monkeypatch.setattr(rf.gpu, "solve", lambda a, u, *, out, **options: out)
    with pytest.raises(AssertionError):
        agree("b2p")
