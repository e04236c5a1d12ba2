"""Calls from several threads at once, from forked processes, and calls that are interrupted."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import recfact as rf

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
# Python 3.12 warns of any fork beside threads; that it is safe here is what is tested.
fork_warns = pytest.mark.filterwarnings("ignore:This process .*fork:DeprecationWarning")

N = 700_000  # several threads are worth it

CALLS = [
    {},
    {"threads": 1},
    {"threads": 3},
    {"reverse": True},
    {"x0": 2.0},
    {"window": rf.Jagged(16)},
    {"window": rf.Uniform(32)},
    {"window": rf.Uniform(300)},
]


@pytest.fixture(scope="module")
def shared():
    rng = np.random.default_rng(5)
    a, u = rng.uniform(0, 1, N).astype(np.float32), rng.standard_normal(N).astype(np.float32)
    a.flags.writeable = u.flags.writeable = False
    return a, u, [rf.solve(a, u, **options).tobytes() for options in CALLS]


def test_threads_share_inputs_and_solve_at_once(shared):
    a, u, expected = shared
    barrier = threading.Barrier(len(CALLS))

    def call(options):
        barrier.wait()
        found = [rf.solve(a, u, **options) for _ in range(3)]
        tables = rf.solve(a.reshape(7, -1), u.reshape(7, -1), **{**options, "threads": 2})
        return [*(x.tobytes() for x in found), tables[0].tobytes()]

    with ThreadPoolExecutor(len(CALLS)) as pool:
        for options, found, wanted in zip(CALLS, pool.map(call, CALLS), expected, strict=True):
            assert found[:3] == [wanted] * 3
            if not options.get("reverse"):  # the first row of a table is the beginning of the whole
                assert found[3] == wanted[: 4 * (N // 7)]


def test_streams_run_beside_each_other(shared):
    a, u, expected = shared
    streams = [rf.solve_chunks(zip(np.split(a, 7), np.split(u, 7), strict=True)) for _ in range(3)]
    pieces = [[next(stream) for stream in streams] for _ in range(7)]
    for found in zip(*pieces, strict=True):
        assert np.concatenate(found).tobytes() == expected[0]


def solve_for_pool(number):
    return float(rf.solve(np.full(N, 0.5, np.float32), np.full(N, number, np.float32), threads=2)[-1])


@forking
@fork_warns
def test_short_calls_share_no_memory():
    rng = np.random.default_rng(6)
    pairs = [(rng.uniform(0, 1, n), rng.standard_normal(n)) for n in range(1, 60)]
    expected = [rf.solve(a, u).tobytes() for a, u in pairs]

    def call(start):
        for turn in range(2000):
            k = (start + turn) % len(pairs)
            if rf.solve(*pairs[k]).tobytes() != expected[k]:
                return k
        return None

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads meet in the midst of a call
    try:
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(call, range(0, 40, 10))] == [None] * 4
    finally:
        sys.setswitchinterval(interval)


def test_a_short_call_within_a_short_call():
    a, u = np.full(50, 0.5), np.arange(50.0)
    expected, inside = rf.solve(a, u), []

    def again(frame, event, arg):
        """Solve at every line of the engine's last function, as a signal or a finalizer may."""
        if frame.f_code.co_name != "run_short":
            return None
        sys.settrace(None)
        inside.append(rf.solve(a[:7], -u[:7]))
        sys.settrace(again)
        return again

    sys.settrace(again)
    try:
        outside = rf.solve(a, u)
    finally:
        sys.settrace(None)
    assert len(inside) > 5
    np.testing.assert_array_equal(outside, expected)
    for found in inside:
        np.testing.assert_array_equal(found, -expected[:7])


def test_a_forked_child_solves_on_threads_of_its_own(shared):
    a, u, expected = shared
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        right = [rf.solve(a, u, **options).tobytes() for options in CALLS] == expected
        os.write(writing, b"1" if right else b"0")
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0
    assert rf.solve(a, u).tobytes() == expected[0]


@forking
@fork_warns
def test_a_pool_of_forked_processes(shared):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(solve_for_pool, range(4)) == [2.0 * number for number in range(4)]


@forking
@fork_warns
def test_a_fork_while_other_threads_solve(shared):
    a, u, expected = shared
    stop = threading.Event()

    def work():
        while not stop.is_set():
            rf.solve(a, u, threads=2)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:  # pragma: no cover
                os._exit(0 if rf.solve(a, u, threads=2).tobytes() == expected[0] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for worker in workers:
            worker.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_an_interrupt_leaves_no_thread_that_writes_and_the_next_call_is_right(shared):
    a, u, expected = shared
    out = np.empty_like(u)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for attempt in range(20):
            signal.setitimer(signal.ITIMER_REAL, 1e-4 * (attempt + 1))
            try:
                for _ in range(100):
                    rf.solve(a, u, out=out, threads=3)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            out[:] = 7
            time.sleep(0.005)
            assert (out == 7).all()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert rf.solve(a, u, threads=3).tobytes() == expected[0]


def test_inputs_are_only_read_while_others_read_them(shared):
    """The inputs are read-only here, so a write would be seen as an error of the system."""
    a, u, expected = shared
    assert not a.flags.writeable
    assert not u.flags.writeable
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: rf.solve(a, u).tobytes(), range(8))
        sums = pool.map(lambda _: float(u.sum()), range(8))
        assert set(found) == {expected[0]}
        assert len(set(sums)) == 1


def test_tracing_debuggers_see_no_kernel(shared):
    """A tracer slows Python down, not the kernels; it must not change a result either."""
    a, u, expected = shared
    seen = []
    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: seen.append(frame.f_code.co_name))
    try:
        x = rf.solve(a, u, threads=1)
    finally:
        sys.settrace(before)
    assert x.tobytes() == expected[0]
    assert "solve" in seen
    assert "scan_rows" not in seen
