"""`solve_chunks`: bit for bit what one call finds, wherever the pieces are cut, in constant memory."""

import tracemalloc
from fractions import Fraction
from itertools import islice, pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market import coefficients, inputs
from oracle import assert_near_definition

import recfact as rf
from recfact.cpu import limits
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError
from recfact.windows import Full, Jagged, Uniform

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(kind) for kind in (np.float32, np.float64, np.complex64, np.float16, BFLOAT16)]

# For every kernel of rows and of channels that a window can take.
WINDOWS = [
    Full(),
    Jagged(16),
    Jagged(16, 0),
    Jagged(100, 2),
    Jagged(2, 8),
    Jagged(7, 9),
    Jagged(1, 3),
    Jagged(3, 2**70),
    Uniform(1),
    Uniform(3),
    Uniform(32),
    Uniform(300),
    Uniform(2**70),
]


def cut(array, axis, places):
    return [array[(slice(None),) * axis + (slice(i, j),)] for i, j in pairwise(places)]


def in_pieces(a, u, places, axis=-1, **options):
    axis = axis % u.ndim
    pieces = zip(cut(a, axis, places), cut(u, axis, places), strict=True)
    return list(rf.solve_chunks(pieces, axis=axis, **options))


@st.composite
def streams(draw):
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = list(draw(st.sampled_from([(), (), (1,), (17,), (2, 17), (1, 17)])))
    axis = draw(st.integers(0, len(shape)))
    n = draw(st.sampled_from([1, 15, 63, 64, 65, 300, 513, 700]))
    places = [0, *sorted(draw(st.lists(st.integers(0, n), max_size=6))), n]
    if draw(st.booleans()):
        places = [min(place * 16, n) for place in places]
        places[-1] = n
    shape.insert(axis, n)
    a, u = (rng.uniform(-1, 1, shape).astype(dtype) for _ in "au")
    if dtype.kind == "c":
        a.imag, u.imag = rng.uniform(-0.2, 0.2, (2, *shape))
    x0 = rng.standard_normal(shape[:axis] + shape[axis + 1 :]).astype(np.float32) if draw(st.booleans()) else None
    window = draw(st.sampled_from(WINDOWS if dtype.itemsize > 2 else [Full(), Jagged(16), Jagged(2, 8), Uniform(300)]))
    return a, u, places, axis, x0, window


@settings(max_examples=150)
@given(streams())
def test_pieces_are_bit_for_bit_what_one_call_finds(stream):
    a, u, places, axis, x0, window = stream
    expected = rf.solve(a, u, axis=axis, x0=x0, window=window)
    pieces = in_pieces(a, u, places, axis, x0=x0, window=window)
    assert [piece.shape for piece in pieces] == [piece.shape for piece in cut(u, axis, places)]
    x = np.concatenate(pieces, axis=axis)
    assert x.dtype == u.dtype
    assert x.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_halves_change_kernels_at_the_windows_of_their_accumulators(dtype, rng):
    lags = [limits.LONG_LAGS, *(limits.LONG_BLOCK // itemsize for itemsize in (2, 4, 8))]
    if dtype.kind == "c":
        lags.append(limits.LONG_RUN // dtype.itemsize)
    jagged = [Jagged(limits.ONE_START, most // limits.ONE_START + more) for most in lags[1:] for more in (0, 1)]
    a = rng.uniform(-1, 1, (17, 2100)).astype(dtype)
    u = rng.uniform(-1, 1, (17, 2100)).astype(dtype)
    for window in (*jagged, Jagged(65), Jagged(lags[-1]), *(Uniform(most + more) for most in lags for more in (0, 1))):
        x = np.concatenate(in_pieces(a, u, [0, 700, 2100], window=window), axis=-1)
        assert x.tobytes() == rf.solve(a, u, window=window).tobytes(), window


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(100, 2), Uniform(32), Uniform(300), Uniform(3)], ids=str)
@pytest.mark.parametrize("place", [0, 299, 300, 510])
def test_nan_and_infinities_stay_in_their_place(window, place, rng):
    a, u = rng.uniform(-1, 1, 900).astype(np.float32), rng.standard_normal(900).astype(np.float32)
    for value in (np.nan, np.inf):
        u[place] = value
        x = np.concatenate(in_pieces(a, u, [0, 7, 300, 301, 512, 900], window=window))
        assert_near_definition(x, a, u, window)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(threads, rng):
    a, u = rng.uniform(0, 1, (2, 600_000)).astype(np.float32)
    for window in (Full(), Jagged(16)):
        x = in_pieces(a, u, [0, 300_001, 600_000], window=window, threads=threads)
        assert np.concatenate(x).tobytes() == rf.solve(a, u, window=window, threads=1).tobytes()


def test_single_steps_across_a_segment(rng):
    n = 65536 + 300
    a, u = rng.uniform(0.9, 1, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    places = [*range(0, 65500, 4096), *range(65500, 65600), n]
    assert np.concatenate(in_pieces(a, u, places, x0=1.0)).tobytes() == rf.solve(a, u, x0=1.0).tobytes()


@pytest.mark.parametrize("scalar", ["Fraction", "mpf"])
@pytest.mark.parametrize("window", [Full(), Uniform(3), Jagged(2), Jagged(2, 3)], ids=str)
def test_exact_scalars(scalar, window):
    a, u, x0 = coefficients("random", 11, scalar), inputs(11, scalar), Fraction(3)
    x = np.concatenate(in_pieces(a, u, [0, 1, 1, 5, 6, 11], x0=x0, window=window))
    assert list(x) == list(rf.solve(a, u, x0=x0, window=window))


def test_shared_coefficients_and_scalars_broadcast():
    u = inputs((4, 6))
    expected = rf.solve(0.5, u, axis=0)
    np.testing.assert_array_equal(np.concatenate(list(rf.solve_chunks([(0.5, u[:3]), (0.5, u[3:])], axis=0))), expected)
    shared = [(np.full((2, 1), 0.5), u[:2]), (np.full((2, 1), 0.5), u[2:])]
    np.testing.assert_array_equal(np.concatenate(list(rf.solve_chunks(shared, axis=0))), expected)


def test_results_come_as_pieces_do():
    """Nothing is read ahead, so a stream may be endless; and an input that changes later does no harm."""
    a, u = np.full(3, 0.5), np.ones(3)

    def endless():
        while True:
            yield a, u
            u[:] = -100
            u[:] = 1

    x = rf.solve_chunks(endless())
    assert next(x).tolist() == [1, 1.5, 1.75]
    assert next(x).tolist() == [1.875, 1.9375, 1.96875]


def test_short_pieces_of_many_rows_are_held_back_and_released():
    a, u = np.full((3, 10), 0.5), np.ones((3, 10))
    for window, held in (("full", 52), ("jagged:16", 7)):
        x = rf.solve_chunks(((a, u) for _ in range(60)), window=window)
        pulled = []
        stream = rf.solve_chunks((pulled.append(i) or (a, u) for i in range(60)), window=window)
        assert next(stream).shape == (3, 10)
        assert len(pulled) == held
        assert [piece.shape for piece in x] == [(3, 10)] * 60
    assert [piece.shape for piece in rf.solve_chunks([(a, u)])] == [(3, 10)]


def test_no_pieces_and_empty_ones():
    assert list(rf.solve_chunks([])) == []
    empty = np.zeros(0), np.zeros(0)
    assert [len(x) for x in rf.solve_chunks([empty, empty])] == [0, 0]
    x = list(rf.solve_chunks([empty, ([0.5], [1.0]), empty, ([0.5], [1.0])], x0=2.0))
    assert np.concatenate(x).tolist() == [2.0, 2.0]
    assert [x.shape for x in rf.solve_chunks([(np.zeros((0, 4)), np.zeros((0, 4)))] * 2, axis=1)] == [(0, 4)] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16], ids=str)
def test_long_sequences_that_are_not_finite_have_the_same_bits_in_pieces(dtype):
    """What isn't finite is repeated step by step by tiles, so their length is part of the arithmetic."""
    n, piece = 1 << 14, 3000
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, u = rng.uniform(0.9, 1, n).astype(dtype), rng.standard_normal(n).astype(dtype)
        u[[200, 5000]] = np.nan
        a[[300, 6000]] = 0
        whole = np.concatenate(list(rf.solve_chunks([(a, u)])))
        pieces = list(rf.solve_chunks((a[i : i + piece], u[i : i + piece]) for i in range(0, n, piece)))
        for x in (whole, np.concatenate(pieces)):
            np.testing.assert_array_equal(x.view(np.uint8), rf.solve(a, u).view(np.uint8))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(32), Uniform(300), Jagged(2, 8)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_memory_does_not_grow_with_the_stream(window, dtype):
    piece = np.full(1000, 0.5, dtype), np.ones(1000, dtype)
    stream = rf.solve_chunks((piece for _ in range(300)), window=window)
    for _ in islice(stream, 5):  # compiles, and fills what is remembered
        pass
    tracemalloc.start()
    for _ in stream:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 18  # all pieces take more than a megabyte


def pair(*shape, dtype=np.float64):
    return np.ones(shape, dtype), np.ones(shape, dtype)


@pytest.mark.parametrize(
    ("chunks", "options", "kind", "words"),
    [
        ([pair(5)[0]], {}, ShapeError, ("pairs (a, u)", "ndarray", "number 0")),
        ([pair(5), 7], {}, ShapeError, ("pairs (a, u)", "int", "number 1")),
        ([(*pair(5), None)], {}, ShapeError, ("pairs (a, u)", "tuple")),
        ([pair(2, 5), pair(3, 5)], {}, ShapeError, ("first", "(2,)", "chunk 1", "(3,)")),
        ([pair(2, 5), pair(5)], {}, ShapeError, ("first", "(2,)", "chunk 1", "()")),
        ([pair(5), pair(5), pair(5, dtype=np.float32)], {}, ShapeError, ("first", "float64", "chunk 2", "float32")),
        ([pair(5), (np.ones(4), np.ones(3))], {}, ShapeError, ("broadcast", "(4,)", "(3,)")),
        ([(1.0, 2.0)], {}, ShapeError, ("at least one axis",)),
        ([("x", "y")], {}, DTypeError, ("numbers",)),
        ([pair(5), ([[1.0], 2.0], 1.0)], {}, ArrayTypeError, ("equal lengths",)),
        ([pair(5)], {"axis": 1}, ShapeError, ("axis", "got 1")),
        ([pair(5)], {"axis": "0"}, TypeError, ("axis must be an integer",)),
        ([pair(5)], {"x0": np.ones(2)}, ShapeError, ("x0 must",)),
        ([pair(5)], {"x0": 1j}, DTypeError, ("x0 must",)),
        ([pair(5)], {"window": 4}, TypeError, ("window must be",)),
        ([pair(5)], {"threads": 0}, OptionError, ("threads must be at least 1",)),
    ],
)
def test_bad_pieces_and_options_are_refused(chunks, options, kind, words):
    with pytest.raises(kind) as caught:
        list(rf.solve_chunks(chunks, **options))
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_states_out_of_range_are_infinite_without_a_warning(dtype):
    a, u = np.full(100, 16, dtype), np.ones(100, dtype)
    x = rf.solve(a, u)
    assert np.isinf(x[-1])
    np.testing.assert_array_equal(np.concatenate(list(rf.solve_chunks([(a[:31], u[:31]), (a[31:], u[31:])]))), x)


@pytest.mark.parametrize("options", [{"window": 4}, {"threads": 0}])
def test_options_are_checked_at_the_call(options):
    with pytest.raises((TypeError, OptionError)):
        rf.solve_chunks([], **options)


def test_chunks_must_be_iterable():
    with pytest.raises(TypeError, match="iterable"):
        rf.solve_chunks(5)


def test_an_error_of_the_source_passes_and_what_came_before_stays():
    def source():
        yield pair(5)
        raise OSError("the disk is gone")

    stream = rf.solve_chunks(source())
    assert len(next(stream)) == 5
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
