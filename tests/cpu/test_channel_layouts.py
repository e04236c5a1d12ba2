"""The channels path on any layout, cut in any way, on any number of threads: the bits depend on the numbers alone."""

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fused import DTYPES, assert_same, make_numbers, problems, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_in_child

from recfact.cpu import channels, limits
from recfact.windows import Full, Jagged, Uniform


def make_layout(rng, shape):
    """Return the shape of a memory, and a view of it in another order of axes, with gaps and negative strides."""
    order = rng.permutation(len(shape))
    steps = rng.choice([-2, -1, 1, 1, 1, 3], len(shape))
    pieces = [slice(0 if step > 0 else -2, None, step) for step in steps]

    def view(memory):
        return memory.transpose(np.argsort(order))[(*pieces, ...)][(*map(slice, shape), ...)]

    return [shape[axis] * abs(steps[axis]) + 1 for axis in order], view


def lay_out(rng, array):
    """Return a copy of `array` in a layout of its own."""
    size, view = make_layout(rng, array.shape)
    copy = view(np.zeros(size, dtype=array.dtype))
    copy[...] = array
    return copy


@settings(max_examples=100)
@given(
    problem=problems(),
    window=st.sampled_from([Full(), Jagged(4), Uniform(3), Uniform(9)]),
    seed=st.integers(0, 2**32),
    in_place=st.booleans(),
)
def test_any_layout_gives_the_same_bits_and_touches_nothing_else(problem, window, seed, in_place):
    a, u, x0, reverse = problem
    rng = np.random.default_rng(seed)
    a, u = np.broadcast_arrays(a, u)
    expected = solve(a.copy(), u.copy(), x0, reverse, window)
    size, view = make_layout(rng, u.shape)
    memory, outside = np.full(size, 7, dtype=u.dtype), np.ones(size, dtype=bool)
    x = view(memory)
    view(outside)[...] = False
    if in_place:
        x[...] = u
        u = x
    a, u = lay_out(rng, a), u if in_place else lay_out(rng, u)
    x0 = None if x0 is None else lay_out(rng, x0)
    channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=1)
    assert_same(x, expected)
    assert (memory[outside] == 7).all()


@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(12)], ids=str)
@pytest.mark.parametrize("shape", [(30, 17), (30, 37), (30, 2, 37), (30, 32)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_states_may_overwrite_the_inputs(rng, window, shape, reverse):
    """The last vector of a row overlaps the one before it, which has been written by then."""
    a = make_numbers(rng, "decaying", shape, np.dtype(np.float32))
    u = make_numbers(rng, "normal", shape, np.dtype(np.float32))
    expected = solve(a, u, None, reverse, window)
    channels.solve_into(a, u, u, None, reverse=reverse, window=window, threads=1)
    assert_same(u, expected)


def test_threads_that_call_at_once(rng):
    """Calls don't share anything that they change."""
    a = make_numbers(rng, "decaying", (50, 40), np.dtype(np.float32))
    inputs = [make_numbers(rng, "normal", (50, 40), np.dtype(np.float32)) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda u: solve(a, u, window=Uniform(12)), inputs * 4))
    for u, x in zip(inputs * 4, results, strict=True):
        assert_same(x, solve(a, u, window=Uniform(12)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unaligned_memory(rng, dtype):
    """Arrays that start between two numbers, as fields of packed records do."""
    shape = (6, 17)
    a, u = make_numbers(rng, "decaying", shape, dtype), make_numbers(rng, "normal", shape, dtype)
    unaligned = []
    for array in (a, u, np.zeros_like(u)):
        memory = np.zeros(array.nbytes + 1, dtype=np.uint8)
        view = memory[1:].view(dtype).reshape(shape)
        view[...] = array
        unaligned.append(view)
    channels.solve_into(*unaligned, None, reverse=False, window=Full(), threads=1)
    assert_same(unaligned[2], solve(a, u))


@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(12)], ids=str)
@pytest.mark.parametrize("shape", [(20, 100), (20, 7, 33), (1, 900), (2, 30, 3, 17), (20, 100, 17)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_threads_and_cuts_give_the_same_bits(rng, monkeypatch, window, shape, reverse):
    """Rows cut for the cache and for threads, groups of channels, and tables of addresses in several pieces."""
    a = make_numbers(rng, "decaying", (*shape[:-1], 1), np.dtype(np.float32))
    u = make_numbers(rng, "normal", shape, np.dtype(np.float32))
    expected = solve(a, u, None, reverse, window)
    monkeypatch.setattr(limits, "LEAST", 16)
    for room, batch, threads in ((32, 3, 1), (1 << 15, 1 << 16, 2), (64, 1 << 16, 3), (16, 2, 2)):
        monkeypatch.setattr(limits, "ROOM", room)
        monkeypatch.setattr(limits, "SLIDING_ROOM", 12 * room)
        monkeypatch.setattr(limits, "BATCH", batch)
        assert_same(solve(a, u, None, reverse, window, threads), expected)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    def fail(*arguments):
        raise MemoryError("no room")

    monkeypatch.setattr(channels.Task, "run", fail)
    u = np.ones((4, 3, 1 << 13), dtype=np.float32)
    with pytest.raises(MemoryError, match="no room"):
        solve(u, u, threads=2)


@pytest.mark.parametrize("shape", [(1 << 10, 1 << 12), (1, 1 << 22), (1 << 22, 1), (1 << 20, 2, 2)], ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(16)], ids=str)
def test_little_extra_memory(shape, window):
    a, u = np.full((shape[0], *[1] * (len(shape) - 1)), np.float32(0.5)), np.ones(shape, dtype=np.float32)
    x = np.empty_like(u)
    channels.solve_into(a, u, x, None, reverse=False, window=window, threads=1)  # compiles
    tracemalloc.start()
    channels.solve_into(a, u, x, None, reverse=False, window=window, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_many_small_problems_take_few_calls():
    """Four million problems of one or two steps, in an order of axes that can't be joined."""
    u = np.zeros((2, 1 << 11, 2, 1 << 10), dtype=np.float32)[:, :, 0]
    calls = sum(1 for _ in channels.tasks(u[:1], u, u.copy(), None, False, Full(), 1))
    assert calls <= u[0].size / limits.BATCH + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_after_use():
    """A child made by fork solves, after its parent did with several threads."""
    code = """
        import os
        import numpy as np
        from recfact.cpu import channels, limits
        from recfact.windows import Full

        a = np.full((4, 3, 1 << 14), 0.5); u = np.ones_like(a)
        def solve():
            x = np.empty_like(u)
            channels.solve_into(a, u, x, None, reverse=False, window=Full(), threads=2)
            return x
        expected = solve()
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(solve(), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    run_in_child(code)
