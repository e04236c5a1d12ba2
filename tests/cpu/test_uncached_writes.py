"""Results written past the caches: the same bits, wherever they lie in memory, and only where it pays."""

import numpy as np
import pytest
from fused import DTYPES, assert_same
from llvmlite import ir
from noted import in_turn
from samples import one_in

import recfact as rf
from recfact.cpu import channels, limits, rows, uncached_writes
from recfact.cpu.band_rows import band_rows
from recfact.cpu.band_runs import band_runs
from recfact.cpu.block_rows import block_rows
from recfact.cpu.block_runs import block_runs
from recfact.cpu.channel_kernels import follow
from recfact.cpu.channel_windows import slide
from recfact.cpu.numbers import Lanes, put_bits
from recfact.cpu.operations import drain
from recfact.cpu.scan_rows import scan_rows
from recfact.number_types import NUMBER_TYPES, REALS
from recfact.windows import Full, Jagged, Uniform

WINDOWS = [Full(), Jagged(600), Uniform(600)]
STAGED = [Jagged(3), Jagged(16, 0), Jagged(16), Jagged(5, 2), Uniform(1), Uniform(9), Uniform(40)]  # runs


@pytest.fixture
def small(monkeypatch):
    """Let small results be streamed."""
    for name in ("STREAMED", "STREAMED_ROWS", "LONG", "PROBLEM"):
        monkeypatch.setattr(limits, name, 0)


def draw(shape, dtype):
    rng = np.random.default_rng(11)
    a, u = rng.uniform(-1, 1, shape), rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a, u = a + 0.1j, u - 0.5j * u
    return a.astype(dtype), u.astype(dtype)


def place(shape, dtype, offset=0, fill=7):
    """Return an array that starts `offset` bytes behind a multiple of 64, and all the memory around it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(size + 256, fill, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape), memory, start


def plain(monkeypatch, *args, **options):
    with monkeypatch.context() as context:
        context.setattr(limits, "STREAMED", 1 << 60)
        context.setattr(limits, "STREAMED_ROWS", 1 << 60)
        return rf.solve(*args, **options)


def lanes_of(a, u, x, reverse=False, window=Full()):
    """Return the lanes of the kernels that solve channels."""
    found = [task.kernel for task in channels.tasks(a, u, x, None, reverse, window, 1)]
    compiled = [*follow.compiled.items(), *slide.compiled.items()]
    names = {name for name, kernel in compiled if kernel in found}
    known = [Lanes(np.dtype(x.dtype).name, 1 << k, streams) for k in range(5) for streams in (False, True)]
    return {lanes for lanes in known if lanes.name in names}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@in_turn("shape", [(2000,), (3, 1024)])
@in_turn("flip", [1, -1])
@in_turn("whole", [False, True])
def test_rows_have_the_same_bits_at_every_address(small, monkeypatch, window, reverse, shape, flip, dtype, whole):
    """A write to an address that doesn't suit it would end the process."""
    monkeypatch.setattr(uncached_writes, "writes_whole_lines", lambda: whole)
    a, u = draw(shape, dtype)
    expected = plain(monkeypatch, a, u, reverse=reverse, window=window)
    for offset in range(0, 64, u.itemsize):
        x, memory, start = place(shape, dtype, offset)
        x = x[..., ::flip]
        arrays = (np.moveaxis(array, -1, 0) for array in (a, u, x))
        tile = rows.tile_of(*arrays, reverse, window)
        if flip < 0 and window != Full():
            assert tile is None or not tile.streams
            continue
        gains = dtype == np.float32 or reverse == (flip < 0) or whole
        assert tile.streams == (offset % 16 == 0 and gains)
        rf.solve(a, u, out=x, reverse=reverse, window=window)
        assert_same(x, expected)
        assert (memory[:start] == 7).all()
        assert (memory[start + x.nbytes :] == 7).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [kind.dtype for kind in REALS.values()], ids=str)
@in_turn("window", STAGED)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_runs_have_the_same_bits_from_a_stage(small, monkeypatch, dtype, window, reverse):
    """Whatever parts of a line a row begins and ends with; what shares its lines stays as it is."""
    for steps in (1, 70, 333, 1500, 1501):
        a, u = draw((steps,), dtype)
        u[steps // 2 : steps // 2 + 2] *= 1e4  # some groups of halves aren't finite
        with np.errstate(over="ignore"):
            a[: steps // 3] *= a.dtype.type(4)
        expected = plain(monkeypatch, a, u, reverse=reverse, window=window)
        for offset in (*range(0, 64, 2 * u.itemsize), u.itemsize // 2, 64 - u.itemsize // 2):
            x, memory, start = place((steps,), dtype, offset)
            assert rows.tile_of(a, u, x, reverse, window).streams == (offset % u.itemsize == 0)
            rf.solve(a, u, out=x, reverse=reverse, window=window, threads=1)
            assert_same(x, expected)
            assert (memory[:start] == 7).all()
            assert (memory[start + x.nbytes :] == 7).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", one_in(2, DTYPES), ids=str)
@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(12)], ids=str)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_channels_have_the_same_bits_at_every_address(small, monkeypatch, dtype, window, reverse):
    narrow = [(30, 5), (30, 4), (30, 1)] if dtype == np.float32 else []  # other kernels, which take long to compile
    for shape in [(30, 16), (30, 64), (30, 80), (2, 30, 32), (30, 2, 32), (30, 24), *narrow]:
        a, u = draw(shape, dtype)
        axis = 1 if shape[0] == 2 else 0
        for coefficients in (a, a[..., :1].copy()):
            expected = plain(monkeypatch, coefficients, u, axis=axis, reverse=reverse, window=window)
            for offset in {0, np.dtype(dtype).itemsize, 16, 32 - np.dtype(dtype).itemsize}:
                x, memory, start = place(shape, dtype, offset)
                rf.solve(coefficients, u, axis=axis, out=x, reverse=reverse, window=window)
                assert_same(x, expected)
                assert (memory[:start] == 7).all()
                assert (memory[start + x.nbytes :] == 7).all()


def test_channels_are_streamed_where_lines_are_filled(small):
    a, u = draw((40, 64), np.float32)
    x = place(u.shape, u.dtype)[0]
    assert lanes_of(a, u, x) == {Lanes("float32", 16, True)}
    assert lanes_of(a, u, u) == {Lanes("float32", 16)}, "in place"
    assert lanes_of(a[:, :24], u[:, :24], place((40, 24), u.dtype)[0]) == {Lanes("float32", 16)}, "two vectors overlap"
    assert lanes_of(a[:, :32], u[:, :32], x[:, :32]) == {Lanes("float32", 16)}, "gaps between steps"
    assert lanes_of(a, u, place(u.shape, u.dtype, 4)[0]) == {Lanes("float32", 16)}, "an address that doesn't suit"
    assert lanes_of(a, u, np.broadcast_to(x[0], x.shape)) == {Lanes("float32", 16)}, "all steps write to one place"
    assert lanes_of(a, u, x, reverse=True) == {Lanes("float32", 16, True)}
    for width in (4, 128):
        a, u = draw((40, width), np.float32)
        x = place(u.shape, u.dtype)[0]
        assert {lanes.streams for lanes in lanes_of(a, u, x)} == {True}
        assert {lanes.streams for lanes in lanes_of(a, u, x, reverse=True)} == {False}, "backwards"
    a, u = draw((40, 1024), np.float32)
    assert lanes_of(a, u, place((40, 1028), u.dtype)[0][:, :1024]) == {Lanes("float32", 16, True)}
    assert lanes_of(a, u, place((40, 1025), u.dtype)[0][:, :1024]) == {Lanes("float32", 16)}, "steps that don't suit"
    a, u = draw((40, 2, 64), np.float32)
    for gap in (0, 1):
        tables = place((2, 40 * 64 + gap), u.dtype)[0][:, : 40 * 64].reshape(2, 40, 64)
        assert lanes_of(a, u, np.moveaxis(tables, 1, 0)) == {Lanes("float32", 16, not gap)}, "tables that don't suit"


def test_channels_of_windows_that_slide_are_streamed_where_steps_of_a_few_vectors_fill_lines(small):
    """Some steps of a vector, or of four, are written before those beside it."""
    for width, offset, streams in [(16, 16, True), (64, 16, True), (32, 16, False), (128, 16, False), (128, 0, True)]:
        a, u = draw((40, width), np.float32)
        x = place(u.shape, u.dtype, offset)[0]
        assert lanes_of(a, u, x, window=Uniform(12)) == {Lanes("float32", 16, streams)}
        assert lanes_of(a, u, x) == {Lanes("float32", 16, True)}
    a, u = draw((40, 32), np.float16)
    assert lanes_of(a, u, place(u.shape, u.dtype)[0], window=Uniform(12)) == {Lanes("float16", 16)}, "half a line"


def test_rows_are_streamed_where_memory_is_what_they_wait_for(small, monkeypatch):
    monkeypatch.setattr(limits, "SHORT_ROW", 64)
    a, u = draw((1000,), np.float32)
    x = place(u.shape, u.dtype)[0]
    assert rows.tile_of(a, u, x, False, Full()).streams
    assert not rows.tile_of(a, u, u, False, Full()).streams, "in place"
    assert rows.tile_of(a, u, x, False, Uniform(600)).streams
    assert rows.tile_of(a, u, x, False, Jagged(300, 2)).streams
    for kind in NUMBER_TYPES:
        others = a.astype(kind), u.astype(kind), place(u.shape, kind)[0]
        for whole in (False, True):
            monkeypatch.setattr(uncached_writes, "writes_whole_lines", lambda whole=whole: whole)
            gains = kind.itemsize != 2
            assert rows.tile_of(*others, False, Full()).streams == gains
            assert rows.tile_of(*others, True, Full()).streams == (gains and (whole or kind == np.float32))
    a, u = (array.reshape(2, 500).T for array in (a, u))
    for gap in (0, 1):
        rows_apart = place((2, 500 + gap), u.dtype)[0][:, :500].T
        assert rows.tile_of(a, u, rows_apart, False, Full()).streams == (not gap), "strides that don't suit"
    a, u = draw((1000,), np.float32)
    rows_of_two = place((500, 2), u.dtype)[0]
    assert not rows.tile_of(a[:500], u[:500], rows_of_two[:, 0], False, Full()).streams, "gaps between steps"


def test_small_results_stay_in_the_caches():
    def three(n):
        return np.zeros(n, np.float32), np.zeros(n, np.float32), place((n,), np.float32)[0]

    arrays = three(limits.STREAMED_ROWS // 4)
    assert rows.tile_of(*arrays, False, Full()).streams
    assert not rows.tile_of(*[array[4:] for array in arrays], False, Full()).streams
    assert not rows.tile_of(*[array.reshape(-1, 1024).T for array in arrays], False, Full()).streams, "short rows"
    tables = [array.reshape(-1, 64) for array in three(limits.STREAMED // 4)]
    assert lanes_of(*tables) == {Lanes("float32", 16, True)}
    assert lanes_of(*[table[1:] for table in tables]) == {Lanes("float32", 16)}
    short = [np.moveaxis(table.reshape(-1, 8, 64), 1, 0) for table in tables]
    assert lanes_of(*short) == {Lanes("float32", 16)}, "short problems"


@pytest.mark.parametrize("window", [*WINDOWS, Jagged(16), Uniform(9)], ids=str)
def test_threads_and_initial_states(small, monkeypatch, window):
    a, u = draw((1 << 19,), np.float32)
    for options in ({"x0": 3.0}, {"threads": 2}, {"threads": 3, "reverse": True}):
        expected = plain(monkeypatch, a, u, window=window, **options)
        x = place(u.shape, u.dtype)[0]
        assert_same(rf.solve(a, u, out=x, window=window, **options), expected)


def test_numbers_that_are_not_finite(small, monkeypatch):
    a, u = draw((2000,), np.float32)
    u[[3, 700, 1500]] = np.inf, np.nan, -np.inf
    for window in [*WINDOWS, *STAGED]:
        expected = plain(monkeypatch, a, u, window=window)
        assert_same(rf.solve(a, u, out=place(u.shape, u.dtype)[0], window=window), expected)


def test_kernels_wait_for_what_they_streamed():
    """On x86 nothing shows it, because the locks that hand a result over wait as well."""
    for kernel in (follow, scan_rows, block_rows, band_rows, block_runs, band_runs):
        assert kernel.function.__globals__["drain"] is drain
        assert "drain" in kernel.function.__code__.co_names
    codes = []
    for streams in (False, True):
        lanes = Lanes("float32", 16, streams)
        module = ir.Module()
        builder = ir.IRBuilder(ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f").append_basic_block())
        drain.define(lanes)[1](None, builder, ())
        codes.append(str(module))
    assert ["fence seq_cst" in code for code in codes] == [False, True]


@pytest.mark.parametrize("streams", [False, True])
def test_only_streamed_lanes_ask_for_it(streams):
    """LLVM is told, and knows what the address is a multiple of; without that it would write number by number."""
    module = ir.Module()
    lanes = Lanes("float32", 16, streams)
    address = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [lanes.vector, address]), "put")
    builder = ir.IRBuilder(function.append_basic_block())
    put_bits(builder, lanes, function.args[1], ir.Constant(address, 0), function.args[0])
    assert ("!nontemporal" in str(module)) == streams
    assert ("align 16" in str(module)) == streams
