"""Where solves are put: on whose stream of which GPU, behind what, and compiled how often."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.late_machine import NULL
from gpu.stand_in import Interface, on_gpu

import recfact as rf
from recfact.errors import DeviceError

STREAM = torch_stand_in.STREAM


def small():
    return np.full((4, 2), 0.5, "f4"), np.ones((4, 2), "f4")


def expected():
    return rf.solve(*small(), axis=0)


def test_a_solve_runs_on_the_current_stream_of_cupy(machine):
    with stand_in.Stream() as stream:
        x = rf.solve(*map(on_gpu, small()), axis=0)
        np.testing.assert_array_equal(x.get(), expected())
    assert machine.launches[-1].stream == stream.ptr
    assert machine.waits == []


def test_a_solve_of_tensors_runs_on_the_current_stream_of_torch(machine):
    x = rf.solve(*map(torch_stand_in.tensor, small()), axis=0)
    assert machine.launches[-1].stream == STREAM
    assert machine.waits == []
    assert machine.stream == NULL
    np.testing.assert_array_equal(x.numpy(), expected())


def test_tensors_and_cupy_arrays_wait_for_each_other(machine):
    a, u = small()
    with stand_in.Stream() as stream:
        out = torch_stand_in.tensor(u)
        assert rf.solve(on_gpu(a), torch_stand_in.tensor(u), axis=0, out=out) is out
    assert machine.launches[-1].stream == STREAM
    assert machine.waits == [(STREAM, stream.ptr), (stream.ptr, STREAM)]
    np.testing.assert_array_equal(out.numpy(), expected())


def test_a_result_of_cupy_runs_on_the_stream_of_cupy_whatever_the_state_is(machine):
    a, u = small()
    x = rf.solve(on_gpu(a), on_gpu(u), axis=0, x0=torch_stand_in.tensor(np.full(2, 4.0, "f4")))
    assert type(x) is stand_in.ndarray
    assert machine.launches[-1].stream == NULL
    assert machine.waits == [(NULL, STREAM), (STREAM, NULL)]
    np.testing.assert_array_equal(x.get(), rf.solve(a, u, axis=0, x0=4.0))


def test_a_solve_waits_for_the_stream_that_an_interface_names_and_is_waited_for(machine):
    a, u = small()
    with stand_in.Stream() as other:
        given = on_gpu(u)
    x = rf.solve(on_gpu(a), Interface(given, stream=other.ptr), axis=0)
    assert machine.waits == [(0, other.ptr), (other.ptr, 0)]
    np.testing.assert_array_equal(x.get(), expected())


@pytest.mark.parametrize("stream", [None, 1])
def test_an_interface_on_the_current_stream_costs_no_waiting(machine, stream):
    a, u = small()
    rf.solve(on_gpu(a), Interface(on_gpu(u), stream=stream), axis=0)
    assert machine.waits == []


def test_a_solve_runs_on_the_gpu_of_its_arrays(machine):
    machine.devices = 2
    given = {}
    for device in (0, 1, 1):
        with stand_in.Device(device):
            given = [on_gpu(array) for array in small()]
        x = rf.solve(*given, axis=0)
        assert x.data.device_id == machine.launches[-1].device == device
        assert machine.device == 0
        with stand_in.Device(device):
            np.testing.assert_array_equal(x.get(), expected())
    assert machine.compiled == ["sweep"] * 2  # once for each


def test_a_gpu_that_is_too_old_is_refused(machine):
    machine.devices, machine.capabilities[1] = 2, "70"
    np.testing.assert_array_equal(rf.solve(*map(on_gpu, small()), axis=0).get(), expected())
    with stand_in.Device(1):
        given = [on_gpu(array) for array in small()]
    with pytest.raises(DeviceError, match=r"GPU 1 .* has compute capability 7\.0"):
        rf.solve(*given, axis=0)
    assert machine.compiled == ["sweep"]


def test_threads_compile_a_kernel_once(machine):
    given, results, start = [on_gpu(array) for array in small()], [], threading.Barrier(8)

    def solve():
        start.wait()
        results.append(rf.solve(*given, axis=0))

    threads = [threading.Thread(target=solve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert machine.compiled == ["sweep"]
    for x in results:
        np.testing.assert_array_equal(x.get(), expected())
