"""The channels path against the definition: bit for bit where it is a plain loop, within the proved bound elsewhere."""

import os
import platform
import subprocess
import sys
import textwrap
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import isfinite

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recfact.cpu import channels
from recfact.recurrence import windowed
from recfact.windows import Full, Jagged, Uniform

DTYPES = [np.dtype(t) for t in ("float32", "float64", "complex64", "complex128", "float16", ml_dtypes.bfloat16)]

# Windows that are followed by plain loops, and those that slide because their loops would be too many.
PLAIN = [Full(), Uniform(1), Uniform(3), Uniform(8), Jagged(4), Jagged(3, 0), Jagged(2, 3), Jagged(1, 7), Jagged(50)]
LONG = [Uniform(9), Uniform(12), Jagged(2, 8), Jagged(3, 9)]


def solve(a, u, x0=None, reverse=False, window=Full(), threads=1):
    x = np.empty(np.broadcast_shapes(a.shape, u.shape), dtype=u.dtype)
    channels.solve_into(a, u, x, x0, reverse=reverse, window=window, threads=threads)
    return x


# The definition in the engine's arithmetic: the loops of recfact.recurrence over numbers whose a * x + u is fused.


def real_type(dtype):
    return np.zeros((), dtype).real.dtype


def nearest(exact, kind):
    """The float32 or float64 nearest to a Fraction that isn't zero, ties to even."""
    try:
        near = kind(float(exact))
    except OverflowError:
        return kind(np.inf if exact > 0 else -np.inf)
    if kind is np.float64 or not isfinite(near):
        return near
    # Rounded twice so far; a neighbour may be nearer.
    near_by = [np.nextafter(near, kind(-np.inf)), near, np.nextafter(near, kind(np.inf))]
    return min(filter(isfinite, near_by), key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))


def fused(a, x, u):
    """a x + u of reals, rounded once."""
    if not (isfinite(a) and isfinite(x)):
        return a * x + u
    if not isfinite(u):
        return u
    exact = Fraction(float(a)) * Fraction(float(x)) + Fraction(float(u))
    return nearest(exact, type(u)) if exact else a * x + u


class Number:
    """A real or complex number of NumPy with ``*`` and ``+`` as the definition uses them, fused."""

    def __init__(self, value, factor=None):
        self.value = value
        self.factor = factor

    def __mul__(self, other):
        return Number(other.value, factor=self.value)

    def __add__(self, other):
        a, x, u = self.factor, self.value, other.value
        if not np.iscomplexobj(u):
            return Number(fused(a, x, u))
        real = fused(a.real, x.real, fused(-a.imag, x.imag, u.real))
        imag = fused(a.real, x.imag, fused(a.imag, x.real, u.imag))
        value = np.empty((), dtype=u.dtype)
        value.real, value.imag = real, imag
        return Number(value[()])


def defined(a, u, x0=None, reverse=False, window=Full()):
    """What the channels path must find, before the result is rounded to its storage."""
    dtype = np.dtype(np.float32) if u.dtype.itemsize == 2 else u.dtype

    def numbers(array):
        return np.array([Number(value) for value in array.astype(dtype).ravel()], dtype=object).reshape(array.shape)

    with np.errstate(all="ignore"):
        x = windowed(numbers(a), numbers(u), window, None if x0 is None else numbers(x0)[()], reverse)
    return np.array([number.value for number in x.ravel()], dtype=dtype).reshape(x.shape)


def to_storage(x, dtype):
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def parts(x):
    """Real and imaginary parts as a last axis; halves as float32."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=-1)
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def assert_same(x, y):
    """Assert the same numbers: the same bits, but for those of NaN."""
    x, y = parts(x), parts(y)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    x, y = np.where(np.isnan(x), 0, x), np.where(np.isnan(y), 0, y)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def make_numbers(rng, kind, shape, dtype):
    """Return coefficients or inputs of a named kind."""
    real = real_type(dtype)
    huge = float(ml_dtypes.finfo(dtype).max) if dtype.itemsize == 2 else float(np.finfo(real).max)
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, huge, -huge, np.inf, -np.inf, np.nan])

    def draw():
        match kind:
            case "normal":
                return rng.standard_normal(shape)
            case "decaying":
                return rng.uniform(-1, 1, shape)
            case "growing":
                return rng.uniform(1, 1e4, shape)
            case "resets":
                return rng.standard_normal(shape) * rng.integers(0, 2, shape)
            case "spoilt":
                return np.where(rng.random(shape) < 0.05, rng.choice(special, shape), rng.standard_normal(shape))
            case "special":
                return rng.choice(special, shape)

    values = draw()
    if dtype.kind == "c":
        values = values.astype(dtype)
        values.imag = draw()
    return to_storage(values, dtype)


KINDS = ["normal", "decaying", "growing", "resets", "spoilt", "special"]


@st.composite
def problems(draw, most=14):
    """Draw (a, u, x0, reverse): broadcast, scalar and vector channels, over all number types."""
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(0, most))
    # 17 channels take one vector and an overlapping one, or several; fewer that aren't next to each other go singly.
    shape = draw(st.sampled_from([(), (1,), (17,), (2, 17), (3, 1), (0,), (2, 0)]))
    a_shape = draw(st.sampled_from([(n, *shape), (n, *[1] * len(shape)), (n, *shape[:-1], 1)[: len(shape) + 1]]))
    u_shape = draw(st.sampled_from([(n, *shape), (n, *shape), (n, *[1] * len(shape))]))
    a = make_numbers(rng, draw(st.sampled_from(KINDS)), a_shape, dtype)
    u = make_numbers(rng, draw(st.sampled_from(KINDS)), u_shape, dtype)
    reverse = draw(st.booleans())
    x0 = None
    if not reverse and draw(st.booleans()):
        x0 = make_numbers(rng, "spoilt", np.broadcast_shapes(a_shape, u_shape)[1:], dtype)
        x0 = x0.astype(np.float32) if dtype.itemsize == 2 else x0
    return a, u, x0, reverse


@settings(max_examples=80)
@given(problem=problems(), window=st.sampled_from(PLAIN))
def test_plain_loops_bit_for_bit(problem, window):
    """Every dtype, shape, window of few blocks and direction; NaN, infinities and signed zeros included."""
    a, u, x0, reverse = problem
    assert_same(solve(a, u, x0, reverse, window), to_storage(defined(a, u, x0, reverse, window), u.dtype))


def error_bound(a, u, x0, reverse, window):
    """Bound |x - x~| of a sliding window and of the plain loop together, by the number of roundings.

    A term passes d steps. In the plain loop it is rounded d + 1 times. Sliding, it is rounded once for each step of
    its product, once for each later term of its suffix and once more: fewer than d + span times. A complex step rounds
    twice where a real one rounds once, and |re| + |im| bounds its parts. Products below the smallest number lose at
    most eta a step, which the factors before and after, at most `growth` in all, magnify.
    """
    kind = np.finfo(real_type(u.dtype))
    unit, eta = float(kind.eps) / 2, float(kind.smallest_subnormal)
    rounds = 2 if u.dtype.kind == "c" else 1
    span = window.lags if isinstance(window, Uniform) else window.block * (window.terms + 1)

    def sizes(array):
        wide = array.astype(np.complex128)
        return abs(wide.real) + abs(wide.imag)

    with np.errstate(all="ignore"):
        a, u = np.broadcast_arrays(sizes(a), sizes(u))
        x0 = None if x0 is None else sizes(x0)
        gamma = [rounds * count * unit / (1 - rounds * count * unit) for count in (span + 1, 2 * span)]
        reach = windowed(a, u, window, x0, reverse)
        ones = np.ones_like(a)
        # A product that takes in NaN or infinity isn't used.
        factors = np.where(np.isfinite(a), np.maximum(a, 1), 1)
        growth = 2 ** windowed(ones, np.log2(factors), Uniform(2 * span), None, reverse)
        entries = windowed(ones, u, window, x0, reverse)
        return sum(gamma) * reach + 2 * span * eta * growth**2 * (1 + entries)


@settings(max_examples=80)
@given(problem=problems(most=45), window=st.sampled_from(LONG))
def test_long_windows_within_the_bound_and_with_exact_special_values(problem, window):
    a, u, x0, reverse = problem
    if u.dtype.itemsize == 2:
        u, a = u.astype(np.float32), a.astype(np.float32)
    x, exact = solve(a, u, x0, reverse, window), defined(a, u, x0, reverse, window)
    special = ~np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(x), ~special)
    assert_same(np.where(special, x, 0), np.where(special, exact, 0))
    error = abs(parts(np.where(special, 0, x)).astype(np.float64) - parts(np.where(special, 0, exact)))
    error = error.max(axis=-1) if u.dtype.kind == "c" else error
    # The bound is NaN, and says nothing, where the sizes of finite numbers overflow.
    assert not (error > error_bound(a, u, x0, reverse, window)).any()


# Layouts: the bits of the result depend on the numbers alone.


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


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_states_that_overflow_on_the_way_stay_infinite(dtype, reverse):
    """Also where the product of all coefficients brings the input back, wherever the way crosses an edge.

    In each channel one input is large and two coefficients take it beyond the largest number and back.
    """
    n, window = 40, Uniform(12)
    pairs = [(j, i) for j in range(1, 28) for i in range(j + 1, j + 10)]
    a, u = np.ones((n, len(pairs)), dtype=dtype), np.zeros((n, len(pairs)), dtype=dtype)
    for channel, (j, i) in enumerate(pairs):
        u[j, channel] = 2.0 ** (np.finfo(dtype).maxexp - 3)
        a[i, channel], a[i + 1, channel] = 16, 1 / 16
    if reverse:
        a[1:], u = a[:0:-1].copy(), u[::-1].copy()
    if dtype.kind == "c":
        expected = defined(a[:, ::5], u[:, ::5], None, reverse, window)
        assert_same(solve(a, u, None, reverse, window)[:, ::5], expected)
        return
    with np.errstate(all="ignore"):
        expected = windowed(a, u, window, None, reverse)  # powers of two: nothing is rounded
    assert np.isinf(expected).any()
    assert_same(solve(a, u, None, reverse, window), expected)


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
    monkeypatch.setattr(channels, "WORTH_THREADS", 1)
    monkeypatch.setattr(channels, "LEAST", 16)
    for room, batch, threads in ((32, 3, 1), (1 << 15, 1 << 16, 2), (64, 1 << 16, 3), (16, 2, 2)):
        monkeypatch.setattr(channels, "ROOM", room)
        monkeypatch.setattr(channels, "SLIDING_ROOM", 12 * room)
        monkeypatch.setattr(channels, "BATCH", batch)
        assert_same(solve(a, u, None, reverse, window, threads), expected)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    def fail(*arguments):
        raise MemoryError("no room")

    monkeypatch.setattr(channels, "WORTH_THREADS", 1)
    monkeypatch.setattr(channels.Task, "run", fail)
    u = np.ones((4, 3, 1 << 13), dtype=np.float32)
    with pytest.raises(MemoryError, match="no room"):
        solve(u, u, threads=2)


@pytest.mark.parametrize("shape", [(1 << 10, 1 << 12), (1, 1 << 22), (1 << 22, 1), (1 << 20, 2, 2)], ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(16)], ids=str)
def test_little_extra_memory(shape, window):
    a, u = np.full((shape[0], *[1] * (len(shape) - 1)), np.float32(0.5)), np.ones(shape, dtype=np.float32)
    x = np.empty_like(u)
    channels.solve_into(a[:2], u[:2], x[:2], None, reverse=False, window=window, threads=1)  # compiles
    tracemalloc.start()
    channels.solve_into(a, u, x, None, reverse=False, window=window, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_many_small_problems_take_few_calls():
    """Four million problems of one or two steps, in an order of axes that can't be joined."""
    u = np.zeros((2, 1 << 11, 2, 1 << 10), dtype=np.float32)[:, :, 0]
    calls = sum(1 for _ in channels.tasks(u[:1], u, u.copy(), None, False, Full(), 1))
    assert calls <= u[0].size / channels.BATCH + 1


# The halves, through x[0] = a[0] x0 + u[0].


def round_trip(values, dtype):
    """Round float32 to a half by the kernels: x0 enters as float32."""
    one, none = np.ones((1, 1), dtype=dtype), np.full((1, 1), -0.0).astype(dtype)
    x = np.empty((1, len(values)), dtype=dtype)
    channels.solve_into(one, none, x, values, reverse=False, window=Full(), threads=1)
    return x[0]


@pytest.mark.parametrize("dtype", DTYPES[4:], ids=str)
def test_halves_are_rounded_once_to_nearest_even(rng, dtype):
    """All ties between neighbours, their neighbours in float32, and random bits, against NumPy and ml_dtypes."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    wide = every.astype(np.float64)
    ties = np.concatenate([(wide[1:] + wide[:-1]) / 2, [1.5 * wide[-1] - 0.5 * wide[-2]]])  # the last one is infinity's
    middle = ties.astype(np.float32)
    random = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    values = [every, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    values = np.concatenate([*values, random, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype=np.float32)])
    assert_same(round_trip(values, dtype), to_storage(values, dtype))


@pytest.mark.parametrize("dtype", DTYPES[4:], ids=str)
def test_halves_are_read_exactly(dtype):
    """Every number, times a power of two that lifts the smallest ones: an exact product, rounded as NumPy does."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    factor = np.float32(2.0**12)
    x = np.empty((1, len(every)), dtype=dtype)
    zero = np.full((1, 1), -0.0).astype(dtype)
    channels.solve_into(every[None], zero, x, np.full(1, factor), reverse=False, window=Full(), threads=1)
    with np.errstate(all="ignore"):
        assert_same(x[0], to_storage(every.astype(np.float32) * factor, dtype))


def run_in_child(code, **environment):
    """Run Python code in a new process; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_processor_without_fused_multiply_add_and_float16_gives_the_same_bits(rng, tmp_path):
    """The same numbers on a plain x86-64: the code for other machines must not differ in a bit."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("names a processor of x86-64")
    for dtype in (np.float16, np.float32):
        np.save(tmp_path / f"a-{np.dtype(dtype)}.npy", rng.uniform(-1, 1, (40, 17)).astype(dtype))
        np.save(tmp_path / f"u-{np.dtype(dtype)}.npy", (rng.standard_normal((40, 17)) * 0.001).astype(dtype))
    code = f"""
        import pathlib, sys
        import numpy as np
        from recfact.cpu import channels
        from recfact.windows import Full

        folder = pathlib.Path({str(tmp_path)!r})
        for dtype in ("float16", "float32"):
            a, u = (np.load(folder / f"{{name}}-{{dtype}}.npy") for name in "au")
            x = np.empty_like(u)
            channels.solve_into(a, u, x, None, reverse=False, window=Full(), threads=1)
            print(x.tobytes().hex())
    """
    plain = run_in_child(code, NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="", NUMBA_CACHE_DIR=str(tmp_path))
    assert plain == run_in_child(code)


def test_fork_after_use(rng):
    """A child made by fork solves, after its parent did with several threads."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    code = """
        import os, warnings
        import numpy as np
        from recfact.cpu import channels
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
