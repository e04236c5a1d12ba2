"""`recfact.dask.vjp` against that of arrays in memory, wherever chunks are cut."""

import tracemalloc
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import recfact as rf
from recfact.errors import OptionError, ShapeError
from recfact.windows import Full, Jagged, Uniform

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

N = 23
WINDOWS = [Full(), Uniform(6), Jagged(4), Jagged(2, 3)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunks", [5, (0, 4, 1, 18)], ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("offsets", [None, [0, 5, 5, 6, 17, 23]])
@pytest.mark.parametrize("begin", ["nothing", "state", "reverse"])
@pytest.mark.parametrize("run", ["default", pytest.param("slow", marks=pytest.mark.slow)])
def test_gradients_are_those_of_arrays_in_memory(run, begin, offsets, window, chunks, rng):
    """The default run has two thirds of the shapes with each window, the others with the next."""
    shapes = [(1, (2, N), (1, N)), (0, (N,), (1,)), (0, (N, 3), (N, 3))]
    left = shapes.pop(WINDOWS.index(window) % 3)
    for axis, shape, of_a in shapes if run == "default" else [left]:
        a, u, g = rng.uniform(-1.1, 1.1, of_a), rng.standard_normal(shape), rng.standard_normal(shape)
        a[rng.random(of_a) < 0.1] = 0
        beside = shape[:axis] + (() if offsets is None else (5,)) + shape[axis + 1 :]
        x0 = rng.standard_normal(beside) if begin == "state" else None
        cut = [
            da.from_array(v, chunks=tuple(1 if v.shape[d] == 1 else chunks if d == axis else 2 for d in range(v.ndim)))
            for v in (a, u)
        ]
        options = {"axis": axis, "offsets": offsets, "window": window, "x0": x0, "reverse": begin == "reverse"}
        found = rf.dask.vjp(*cut, da.from_array(g), **options)
        for lazy, expected in zip(found, rf.gradients.vjp(a, u, g, **options), strict=True):
            if expected is None:
                assert lazy is None
                continue
            assert isinstance(lazy, da.Array)
            assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(lazy.compute(scheduler="sync"), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("window", [Full(), Jagged(2)], ids=str)
def test_halves_are_added_up_before_they_are_rounded(window, dtype):
    """Of 3000 quarters added one by one in bfloat16, all after the first 64 are lost."""
    a, u, g, x0 = np.full((1, 3), 0.5), np.ones((3000, 3)), np.full((3000, 3), 0.25), np.ones(1)
    halves = [own.astype(dtype) for own in (a, u, g)]
    lazy = [da.from_array(own, chunks=(-1, 2)) for own in halves]
    for of_u in (lazy[1], da.ones((3000, 1), dtype=dtype, chunks=-1)):
        found = rf.dask.vjp(lazy[0], of_u, lazy[2], x0=x0.astype(dtype), window=window)
        exact = rf.gradients.vjp(a, np.ones(of_u.shape), g, x0=x0, window=window)
        for own, expected in zip(found, exact, strict=True):
            assert own.dtype == dtype
            np.testing.assert_array_equal(own.compute(scheduler="sync"), expected.astype(dtype))


@pytest.mark.parametrize("offsets", [None, [0, 1, 1, 3, 3]])
def test_most_chunks_may_be_empty(offsets, rng):
    a, u, g, x0 = rng.uniform(-1, 1, 3), rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(4)
    lazy = [da.from_array(own, chunks=((0, 0, 2, 0, 1, 0),)) for own in (a, u, g)]
    entering, options = (x0[0], x0[0]), {"offsets": offsets}
    if offsets is not None:
        entering = x0, da.from_array(x0, chunks=((0, 1, 0, 3, 0, 0),))
    found = rf.dask.vjp(*lazy, x0=entering[1], **options)
    for own, expected in zip(found, rf.gradients.vjp(a, u, g, x0=entering[0], **options), strict=True):
        np.testing.assert_allclose(own.compute(scheduler="sync"), expected, rtol=1e-14, atol=1e-14)
    x = rf.dask.solve(*lazy[:2], x0=entering[1], **options).compute(scheduler="sync")
    np.testing.assert_allclose(x, rf.solve(a, u, x0=entering[0], **options), rtol=1e-14, atol=1e-14)


def test_what_stands_out_of_sight_may_be_nan():
    a, u, g = np.full(12, 0.5), np.ones(12), np.ones(12)
    a[4] = np.nan  # leads into a block that the one before the last doesn't see
    lazy = [da.from_array(array, 3) for array in (a, u, g)]
    for found, expected in zip(
        rf.dask.vjp(*lazy, window=Jagged(4)), rf.gradients.vjp(a, u, g, window=Jagged(4)), strict=True
    ):
        if expected is not None:
            np.testing.assert_array_equal(np.isnan(found.compute(scheduler="sync")), np.isnan(expected))


@pytest.mark.parametrize("empty", [(0, 1), (1, 0), (0, 1, 0)])
def test_axes_that_broadcast_may_have_empty_chunks(empty, rng):
    a, u, g, x0 = rng.uniform(-1, 1, (1, 1)), rng.standard_normal((5, 3)), rng.standard_normal((5, 1)), np.ones(1)
    lazy = da.from_array(a, (empty, empty)), da.from_array(u, (2, 2)), da.from_array(g, (5, empty))
    initial = da.from_array(x0, (empty,))
    expected = [rf.solve(a, u, x0=x0, axis=0), *rf.gradients.vjp(a, u, g, x0=x0, axis=0)]
    found = [rf.dask.solve(*lazy[:2], x0=initial, axis=0), *rf.dask.vjp(*lazy, x0=initial, axis=0)]
    for own, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.compute(scheduler="sync"), right, rtol=1e-13)


@pytest.mark.parametrize("cut", [(1,), (0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("entering", [(1,), (0, 1), (1, 0)], ids=str)
def test_axes_of_length_one_may_have_empty_chunks(entering, cut):
    a, u = np.full((4, 1), 0.5), np.ones((4, 1))
    lazy, x0 = [da.from_array(one, (2, cut)) for one in (a, u, u)], da.from_array(np.ones(1), (entering,))
    expected = [rf.solve(a, u, x0=1.0, axis=0), *rf.gradients.vjp(a, u, u, x0=np.ones(1), axis=0)]
    found = [rf.dask.solve(*lazy[:2], x0=x0, axis=0), *rf.dask.vjp(*lazy, x0=x0, axis=0)]
    for own, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own.compute(scheduler="sync"), right)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("window", "most"), [(Full(), 6), (Jagged(16), 4), (Uniform(300), 4)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_chunk_takes_six_tasks_at_most(reverse, window, most):
    a, u = da.full((1000, 4), 0.5, chunks=(10, 2)), da.ones((1000, 4), chunks=(10, 2))
    _, du, _ = rf.dask.vjp(a, u, u, axis=0, window=window, reverse=reverse)
    ours = [key for key in dict(du.__dask_graph__()) if dask.utils.key_split(key).startswith("recurrence-")]
    assert len(ours) <= most * u.npartitions + 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("room", [1, 12, 60])
@pytest.mark.parametrize("window", [Uniform(3), Jagged(2), Jagged(1, 3), Jagged(3, 0)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_chunk_in_a_window_may_be_cut_into_any_parts(reverse, window, room, rng, monkeypatch):
    monkeypatch.setattr("recfact.dask.chunk_gradients.ROOM", room)
    a, u, g = rng.uniform(-1.1, 1.1, (61, 1)), rng.standard_normal((61, 2)), rng.standard_normal((61, 2))
    lazy = [da.from_array(one, ((23, 31, 7), -1)) for one in (a, u, g)]
    for offsets in (None, [0, 4, 5, 40, 61]):
        x0 = None if reverse else 2.0 if offsets is None else rng.standard_normal((4, 1))
        options = {"axis": 0, "reverse": reverse, "window": window, "offsets": offsets, "x0": x0}
        expected = rf.gradients.vjp(a, u, g, **options)
        for own, right in zip(rf.dask.vjp(*lazy, **options), expected, strict=True):
            if right is not None:
                np.testing.assert_allclose(own.compute(scheduler="sync"), right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
def test_many_chunks_are_scanned_in_a_tree(reverse, rng, monkeypatch):
    monkeypatch.setattr("recfact.dask.plans.AT_ONCE", 3)
    a, u, g = rng.uniform(-1.1, 1.1, 40), rng.standard_normal(40), rng.standard_normal(40)
    found = rf.dask.vjp(*(da.from_array(one, 1) for one in (a, u, g)), reverse=reverse)
    expected = rf.gradients.vjp(a, u, g, reverse=reverse)
    for own, right in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(own.compute(scheduler="sync"), right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("window", [Full(), Jagged(4)], ids=str)
def test_each_chunk_is_loaded_twice(window):
    loads = Counter()

    def load(block_info=None):
        loads[block_info[None]["chunk-location"]] += 1
        return np.ones(block_info[None]["chunk-shape"])

    u = da.map_blocks(load, chunks=((5,) * 6,), dtype=float, meta=np.empty(0))
    rf.dask.vjp(0.5, u, np.ones(30), window=window)[0].compute(scheduler="sync")
    assert max(loads.values()) == 2


def test_a_reversed_recurrence_takes_no_initial_state():
    with pytest.raises(OptionError, match="x0 doesn't go with reverse"):
        rf.dask.vjp(0.5, da.ones(6, chunks=2), np.ones(6), x0=1.0, reverse=True)


def test_cotangents_must_fit():
    u = da.ones(6, chunks=2)
    with pytest.raises(ShapeError, match="g must have chunks of known sizes"):
        rf.dask.vjp(0.5, u, u[u > 0])


def test_channels_keep_long_windows_small(rng, monkeypatch):
    monkeypatch.setattr("recfact.dask.chunk_gradients.ROOM", 1 << 10)
    lazy = [da.from_array(rng.uniform(-0.9, 0.9, (1280, 64)), chunks=(256, 64)) for _ in range(3)]
    tasks = rf.dask.vjp(*lazy, axis=0, window=Jagged(256))[1]
    tasks.compute(scheduler="sync")  # compiles
    tracemalloc.start()
    tasks.compute(scheduler="sync")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * 256 * 64 * 8  # all channels at once take 60 chunks
