"""Solves while a stream is captured into a CUDA graph: they take only memory that the graph owns, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import DeviceError
from recfact.gpu import run
from recfact.gpu.gradients import gradients

STEPS = 600
WINDOWS = {"chain": rf.Full(), "sliding": rf.Uniform(500), "sweep": rf.Jagged(16)}


def arrays(dtype="f4"):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (STEPS, 2)).astype(dtype), rng.uniform(-1, 1, (STEPS, 2)).astype(dtype)


@pytest.mark.parametrize("kernel", WINDOWS)
def test_a_solve_of_tensors_takes_scratch_from_torch(machine, monkeypatch, kernel):
    import torch

    tensors = [torch_stand_in.tensor(array) for array in arrays()]
    before = rf.solve(*tensors, axis=0, window=WINDOWS[kernel])
    made, empty = [], torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda shape, **options: made.append(options["dtype"]) or empty(shape, **options)
    )
    machine.captured = {torch_stand_in.STREAM}
    taken = len(machine.pools)
    x = rf.solve(*tensors, axis=0, window=WINDOWS[kernel])
    assert machine.launches[-1].launch.kernel == kernel
    assert made == [torch.float32] + [torch.uint8] * (kernel != "sweep")
    assert len(machine.pools) == taken
    machine.captured = set()
    np.testing.assert_array_equal(x.numpy(), before.numpy())


def test_a_solve_of_cupy_arrays_is_captured_if_it_needs_no_scratch(machine):
    with stand_in.Stream() as stream:
        given = [on_gpu(array) for array in arrays()]
        before = rf.solve(*given, axis=0, window=WINDOWS["sweep"])
        machine.captured = {stream.ptr}
        x = rf.solve(*given, axis=0, window=WINDOWS["sweep"])
        machine.captured = set()
        np.testing.assert_array_equal(x.get(), before.get())


def test_a_solve_may_be_planned_anew_while_it_is_captured(machine):
    with stand_in.Stream() as stream:
        given = [on_gpu(array) for array in arrays()]
        before = rf.solve(*given, axis=0, window=WINDOWS["sweep"])
        run.forget_plans()  # as tuning does for solves of any kind
        machine.captured = {stream.ptr}
        x = rf.solve(*given, axis=0, window=WINDOWS["sweep"])
        machine.captured = set()
        np.testing.assert_array_equal(x.get(), before.get())


@pytest.mark.parametrize("kernel", ["chain", "sliding"])
def test_a_solve_of_cupy_arrays_is_refused_if_it_needs_scratch(machine, kernel):
    with stand_in.Stream() as stream:
        given = [on_gpu(array) for array in arrays()]
        rf.solve(*given, axis=0, window=WINDOWS[kernel])
        machine.captured, launched = {stream.ptr}, len(machine.launches)
        with pytest.raises(DeviceError, match=r"scratch memory from CuPy can't be captured .* torch tensors"):
            rf.solve(*given, axis=0, window=WINDOWS[kernel])
        assert len(machine.launches) == launched


# What else isn't repeated with a graph: arguments beside arrays a and u of float32, and what the error says.
REFUSED = {
    "compiling": (lambda a, u: {"a": a, "u": u, "window": rf.Jagged(4)}, "do the same once before"),
    "converting": (lambda a, u: {"a": a, "u": on_gpu(np.ones((STEPS, 2), "f8"))}, "converts arrays .* float64"),
    "a scalar": (lambda a, u: {"a": 0.5, "u": u}, "scalars of the host .* arrays that are there"),
    "in place": (lambda a, u: {"a": a, "u": u, "out": u}, "shares their memory, can't .* another out"),
    "another stream": (lambda a, u: {"a": a, "u": u, "x0": torch_stand_in.tensor(np.ones(2, "f4"))}, "several streams"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_would_not_repeat_is_refused(machine, what):
    make, says = REFUSED[what]
    with stand_in.Stream() as stream:
        options = {"axis": 0, "window": rf.Jagged(16), **make(*(on_gpu(array) for array in arrays()))}
        if what != "compiling":
            rf.gpu.solve(**options)
        machine.captured, launched = {stream.ptr}, len(machine.launches)
        with pytest.raises(DeviceError, match=says):
            rf.gpu.solve(**options)
        assert len(machine.launches) == launched
        machine.captured = set()
        rf.gpu.solve(**options)
        assert len(machine.launches) == launched + 1


def test_the_null_stream_is_not_asked(machine):
    machine.captured = {0x5001}
    rf.solve(*(on_gpu(array) for array in arrays()), axis=0)
    assert machine.launches


SHORT = 200  # steps up to which few lines are enough for the kernels of gradients
KERNELS = {
    "backward": rf.Full(),
    "backward_window": rf.Jagged(16),
    "backward_window of terms": rf.Jagged(8, 2),
    "backward_window of lags": rf.Uniform(8),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_tensors_are_captured_in_memory_of_torch(machine, kernel):
    given = [torch_stand_in.tensor(array[:SHORT]) for array in (*arrays(), arrays()[0])]
    before = gradients(*given, KERNELS[kernel])
    machine.captured, taken = {torch_stand_in.STREAM}, len(machine.pools)
    found = gradients(*given, KERNELS[kernel])
    assert machine.launches[-1].launch.kernel == kernel.split()[0]
    assert len(machine.pools) == taken
    machine.captured = set()
    for one, other in zip(found[:2], before[:2], strict=True):
        assert isinstance(one, torch_stand_in.Tensor)
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_that_a_graph_would_not_repeat_are_refused(machine, kernel):
    with stand_in.Stream() as stream:
        given = [on_gpu(array[:SHORT]) for array in (*arrays(), arrays()[0])]
        machine.captured = {stream.ptr}
        with pytest.raises(DeviceError, match=r"compiles its kernel .* do the same once before"):
            gradients(*given, KERNELS[kernel])
        machine.captured = set()
        offsets = np.arange(0, SHORT + 1, 20)
        gradients(*given, KERNELS[kernel], offsets)
        machine.captured, launched = {stream.ptr}, len(machine.launches)
        with pytest.raises(DeviceError, match="sends offsets to the GPU"):
            gradients(*given, KERNELS[kernel], offsets)
        assert len(machine.launches) == launched


# What needs memory beside its arguments and gradients: number type, shape of inputs, window, options.
SEVERAL_STEPS = {
    "states": ("f4", (SHORT, 2), rf.Full(), {}),
    "solves": ("f4", (SHORT, 2), rf.Jagged(2, 9), {}),
    "the transpose": ("f4", (SHORT, 2), rf.Jagged(8), {"reverse": True}),
    "sums of inputs": ("f2", (SHORT, 1), rf.Jagged(8), {}),
}


@pytest.mark.parametrize("what", SEVERAL_STEPS)
def test_gradients_of_cupy_arrays_in_several_steps_are_refused(machine, what):
    dtype, shape, window, options = SEVERAL_STEPS[what]
    options = {"axis": 0, "window": window, **options}
    with stand_in.Stream() as stream:
        a, u, g = (on_gpu(array[:SHORT]) for array in (*arrays(dtype), arrays(dtype)[0]))
        u = u[:, : shape[1]]
        rf.gradients.vjp(a, u, g, **options)
        machine.captured, launched = {stream.ptr}, len(machine.launches)
        with pytest.raises(DeviceError, match=r"memory (of|from) CuPy,? can't be captured .* torch tensors"):
            rf.gradients.vjp(a, u, g, **options)
        assert len(machine.launches) == launched


@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(16)])
def test_gradients_of_cupy_arrays_in_one_step_are_captured(machine, window):
    with stand_in.Stream() as stream:
        a, u, g = (on_gpu(array[:SHORT]) for array in (*arrays(), arrays()[0]))
        x = rf.solve(a, u, axis=0, window=window)
        options = {"axis": 0, "window": window, "x": x}
        before = rf.gradients.vjp(a, u, g, **options)
        machine.captured = {stream.ptr}
        found = rf.gradients.vjp(a, u, g, **options)
        machine.captured = set()
        for one, other in zip(found[:2], before[:2], strict=True):
            np.testing.assert_array_equal(one.get(), other.get())
