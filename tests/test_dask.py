"""`recfact.dask.solve`: every cut of every sequence, within the bound of one call with a rounding for each piece."""

import sys
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import data_array, xarray
from oracle import definition, extra_roundings, sizes
from processes import run_in_child

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError
from recfact.windows import Full, Jagged, Uniform

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

WINDOWS = [Full(), Uniform(1), Uniform(6), Uniform(90), Jagged(4), Jagged(5, 0), Jagged(3, 3), Jagged(40)]
CHUNKS = [1, 2, 3, 7, 13, 41, (0, 5, 0, 1, 30, 5, 0)]
OFFSETS = [None, [0, 41], [0, 4, 4, 5, 26, 26, 41], [0, 0, 13, 26, 39, 41, 41]]
N = 41
WIDER = {"float32": "float64", "complex64": "complex128"}
DTYPES = [*WIDER, "float64"]


@pytest.fixture(autouse=True)
def _():
    with dask.config.set(scheduler="synchronous"):
        yield


def exact_and_bound(a, u, x0, window, reverse, offsets, pieces, unit):
    """Return the states of one sequence, and sum_j |L_ij u_j| gamma(N) with N = |i - j| + 7 + pieces or more.

    Windows that slide add up what they span, an initial state is folded into the first input by two roundings, and
    complex numbers round once more a step and twice besides.
    """
    again = np.iscomplexobj(u)
    exact, bound = np.empty_like(u), np.empty(len(u))
    for number, (start, end) in enumerate(pairwise([0, len(u)] if offsets is None else offsets)):
        if start == end:
            continue
        own_a, own_u, own = a[start:end], u[start:end], slice(start, end)
        first = None if x0 is None else x0 if offsets is None else x0[number]
        exact[own] = definition(own_a, own_u, window, first, reverse)
        matrix = definition(sizes(own_a)[:, None], np.eye(end - start), window, None, reverse)
        given = sizes(own_u)
        given[0] += 0 if first is None else sizes(own_a[0]) * sizes(first)
        steps = np.arange(end - start)
        extra = extra_roundings(window) + pieces + 2 * (x0 is not None)
        count = (1 + again) * abs(steps[:, None] - steps) + (1 + again) * extra
        bound[own] = (matrix * count * unit / (1 - count * unit)) @ given
    return exact, bound


def lazy(array, chunks, axis, channels=2):
    """Return a lazy array, cut along time as given and along all other axes in twos."""
    return da.from_array(array, chunks=tuple(chunks if d == axis else channels for d in range(array.ndim)))


def sequences(rng, shape, dtype, shared=False, axis=0):
    """Return coefficients, some of them 0 or above 1, and inputs."""
    a = rng.uniform(-1.1, 1.1, [n if d == axis or not shared else 1 for d, n in enumerate(shape)])
    a[rng.random(a.shape) < 0.05] = 0
    u = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a, u = a * np.exp(1j * rng.uniform(-3, 3, a.shape)), u + 1j * rng.standard_normal(shape)
    return a.astype(dtype), u.astype(dtype)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_states_are_within_the_bound_wherever_chunks_are_cut(data):
    window, chunks = data.draw(st.sampled_from(WINDOWS)), data.draw(st.sampled_from(CHUNKS))
    reverse, offsets = data.draw(st.booleans()), data.draw(st.sampled_from(OFFSETS))
    dtype, shared = data.draw(st.sampled_from(list(WIDER))), data.draw(st.booleans())
    method = data.draw(st.sampled_from(["auto", "carriers"] + ["chain"] * (window == Full() or not reverse)))
    axis = data.draw(st.integers(0, 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a, u = sequences(rng, (N, 3) if axis == 0 else (3, N), dtype, shared, axis)
    x0 = None
    if not reverse and data.draw(st.booleans()):
        x0 = rng.standard_normal((3,) if offsets is None else (len(offsets) - 1, 3)).astype(dtype)
        x0 = x0 if axis == 0 or offsets is None else x0.T
    options = {"x0": x0, "axis": axis - 2, "reverse": reverse, "window": window, "offsets": offsets}
    lazy_u = lazy(u, chunks, axis)
    x = rf.dask.solve(lazy(a, chunks, axis), lazy_u, method=method, **options)
    assert (x.chunks, x.dtype) == (lazy_u.chunks, np.dtype(dtype))
    found, wide = np.moveaxis(x.compute(), axis, 0), WIDER[dtype]
    a, u = (np.moveaxis(array, axis, 0).astype(wide) for array in (np.broadcast_to(a, u.shape), u))
    rows = None if x0 is None else (x0 if axis == 0 or offsets is None else x0.T).astype(wide)
    for column in range(3):
        entering = None if rows is None else rows[..., column]
        pieces, unit = len(lazy_u.chunks[axis]), np.finfo(dtype).eps / 2
        own = a[:, column], u[:, column], entering
        exact, bound = exact_and_bound(*own, window, reverse, offsets, pieces, unit)
        for part in ("real", "imag"):
            assert (abs(getattr(found[:, column] - exact, part)) <= bound * (1 + 1e-6)).all()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(30)], ids=str)
def test_dyadic_numbers_give_the_bits_of_one_call(window, method, scheduler, rng):
    a, u = rng.choice([0.0, 0.5, -0.5, 1.0], (300, 4)), rng.integers(-3, 4, (300, 4)).astype(float)
    a[::9] = 0  # so that all states are exact
    x = rf.dask.solve(lazy(a, 37, 0), lazy(u, 37, 0), axis=0, window=window, method=method)
    found = x.compute(scheduler=scheduler, num_workers=4)
    np.testing.assert_array_equal(found, rf.solve(a, u, axis=0, window=window))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("method", ["chain", "carriers"])
def test_halves_pass_from_chunk_to_chunk_in_float32(method, dtype, rng):
    from market import dtype_of

    a = rng.uniform(0.9, 1, 500).astype(dtype_of(dtype))
    u = rng.standard_normal(500).astype(dtype_of(dtype))
    for reverse in (False, True):
        x = rf.dask.solve(da.from_array(a, 7), da.from_array(u, 7), method=method, reverse=reverse)
        whole = rf.solve(a.astype(np.float32), u.astype(np.float32), reverse=reverse).astype(u.dtype)
        assert x.dtype == u.dtype
        apart = x.compute() != whole  # float32 may round to either side of a tie
        assert apart.mean() < 0.02


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(5)], ids=str)
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("offsets", [None, [0, 9, 20]])
def test_nan_and_infinity_go_where_the_loop_sends_them(offsets, method, window, rng):
    """Row i of a table has one at step i, of a table for each kind and each array."""
    a, u = rng.uniform(0.5, 1, (4, 20, 20)), rng.standard_normal((4, 20, 20))
    steps = np.arange(20)
    for table, (array, kind) in enumerate(product((a, u), (np.nan, np.inf))):
        array[table, steps, steps] = kind
    expected = rf.solve(a, u, window=window, offsets=offsets)
    for chunks in (3, 20, 1):
        cut = (da.from_array(array, (4, 20, chunks)) for array in (a, u))
        x = rf.dask.solve(*cut, window=window, offsets=offsets, method=method)
        np.testing.assert_array_equal(np.isfinite(x.compute()), np.isfinite(expected))
    for table in range(4):  # a sequence without axes beside time
        cut = (da.from_array(array[table, 7], 3) for array in (a, u))
        x = rf.dask.solve(*cut, window=window, offsets=offsets, method=method)
        np.testing.assert_array_equal(np.isfinite(x.compute()), np.isfinite(expected[table, 7]))


@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_beyond_the_number_type_meet_nothing(reverse, method):
    """The product of a chunk is beyond float64; what enters it is 0, or a coefficient of 0 makes it 0."""
    a, u = np.full(6000, 1.5), np.zeros(6000)
    u[-1 if not reverse else 0] = 1.0
    x = rf.dask.solve(da.from_array(a, 2000), da.from_array(u, 2000), method=method, reverse=reverse).compute()
    np.testing.assert_array_equal(x, u)
    a[::300] = 0.0
    u = np.ones(6000)
    x = rf.dask.solve(da.from_array(a, 2000), da.from_array(u, 2000), method=method, reverse=reverse).compute()
    np.testing.assert_allclose(x, rf.solve(a, u, reverse=reverse), rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 31])
def test_many_chunks_are_scanned_in_a_tree(count, monkeypatch, rng):
    monkeypatch.setattr("recfact.dask.plans.AT_ONCE", 3)
    a, u = rng.uniform(-1, 1, (count * 4, 3)), rng.standard_normal((count * 4, 3))
    for offsets in (None, [0, 1, count * 4], sorted({0, count * 2 + 1, count * 3, count * 4})):
        for reverse in (False, True):
            options = {"axis": 0, "offsets": offsets, "reverse": reverse}
            x = rf.dask.solve(lazy(a, 4, 0), lazy(u, 4, 0), method="carriers", **options)
            np.testing.assert_allclose(x.compute(), rf.solve(a, u, **options), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_more_than_ten_thousand_chunks_are_scanned_in_a_tree(rng):
    a, u = rng.uniform(-1, 1, 10_005), rng.standard_normal(10_005)
    x = rf.dask.solve(da.from_array(a, 1), da.from_array(u, 1), method="carriers")
    counted = names(x)
    assert counted["recurrence-map-of-maps"] == 2
    assert sum(count for name, count in counted.items() if name.startswith("recurrence-")) <= 6 * len(u)
    np.testing.assert_allclose(x.compute(), rf.solve(a, u), rtol=1e-12, atol=1e-12)


def names(x):
    """Return how many tasks of each kind a lazy array has, by the names that dashboards show."""
    return Counter(dask.utils.key_split(key) for key in dict(x.__dask_graph__()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(16), Uniform(300)], ids=str)
@pytest.mark.parametrize("method", ["chain", "carriers"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("offsets", [None, [0, 123, 456, 1000]])
def test_a_chunk_takes_six_tasks_at_most(offsets, reverse, method, window):
    if reverse and method == "chain" and window != Full():
        pytest.skip("windows have no chain backwards")
    a, u = da.full((1000, 4), 0.5, chunks=(10, 2)), da.ones((1000, 4), chunks=(10, 2))
    given = {} if reverse else {"x0": 1.0}
    x = rf.dask.solve(a, u, axis=0, window=window, method=method, reverse=reverse, offsets=offsets, **given)
    counted = names(x)
    ours = {name: count for name, count in counted.items() if name.startswith("recurrence-")}
    assert sum(ours.values()) <= 6 * u.npartitions
    kinds = {"map", "scan", "entry"} if window == Full() else {"border"}
    kinds = {"chain", "state", "turn"} if method == "chain" else kinds
    assert set(ours) == {f"recurrence-{kind}" for kind in (*kinds, "states")}


@pytest.mark.parametrize(("method", "times"), [("chain", 1), ("carriers", 2)])
def test_a_chain_loads_each_chunk_once_and_carriers_twice(method, times):
    loads = Counter()

    def load(block_info=None):
        place = block_info[None]["chunk-location"]
        loads[place] += 1
        return np.ones(block_info[None]["chunk-shape"])

    u = da.map_blocks(load, chunks=((5,) * 6, (2, 2)), dtype=float, meta=np.empty((0, 0)))
    rf.dask.solve(0.5, u, axis=0, method=method).compute()
    last = 5 if method == "carriers" else None  # nothing follows the last chunk, so nobody asks what it does
    assert loads == {(t, c): times - (t == last) for t in range(6) for c in range(2)}


def test_carriers_load_twice_whatever_made_the_inputs():
    """Tasks that are held apart by slices, rechunks and lists, and shared by coefficients and inputs."""
    loads = Counter()

    def load(block_info=None):
        loads[block_info[None]["chunk-location"]] += 1
        return np.linspace(0.0, 1.0, 12).reshape(6, 2)

    made = da.map_blocks(load, chunks=((6,) * 4, (2,)), dtype=float, meta=np.empty((0, 0)))
    a = da.concatenate([made[1:], made[:1]])[::-1].rechunk((5, 2))
    x = rf.dask.solve(a / 2, (made.rechunk((5, 2)) * 3).persist(), axis=0, method="carriers")
    loads.clear()
    found = x.compute()
    assert set(loads.values()) == {2}
    whole = np.tile(np.linspace(0.0, 1.0, 12).reshape(6, 2), (4, 1))
    a = np.concatenate([whole[1:], whole[:1]])[::-1]
    np.testing.assert_allclose(found, rf.solve(a / 2, whole * 3, axis=0), rtol=1e-13)


def test_what_is_chosen_depends_on_workers_and_on_what_windows_see():
    a, u = da.full((60, 4), 0.5, chunks=(5, 2)), da.ones((60, 4), chunks=(5, 2))
    for workers, kind in ((2, "recurrence-chain"), (3, "recurrence-map")):
        with dask.config.set(scheduler="threads", num_workers=workers):
            assert kind in names(rf.dask.solve(a, u, axis=0))
    assert "recurrence-chain" in names(rf.dask.solve(a[:, :1], u[:, :1], axis=0))  # one task at a time
    with dask.config.set(scheduler="threads", num_workers=3):
        for lags, kind in ((6, "recurrence-border"), (40, "recurrence-chain")):
            assert kind in names(rf.dask.solve(a, u, axis=0, window=Uniform(lags)))
    assert "recurrence-border" in names(rf.dask.solve(a, u, axis=0, window=Uniform(40), reverse=True))


def test_equal_calls_have_equal_names():
    a, u = da.full(8, 0.5, chunks=3), da.ones(8, chunks=3)
    calls = [{}, {"window": "jagged:4"}, {"reverse": True}, {"x0": 1.0}, {"method": "carriers"}, {"offsets": [0, 3, 8]}]
    first, second = ([rf.dask.solve(a, u, **call).name for call in calls] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(calls)


def test_plain_numbers_and_arrays_may_stand_beside_lazy_ones(rng):
    a, u = rng.uniform(-1, 1, (12, 3)), rng.standard_normal((2, 12, 3)).astype(np.float32)
    lazy_u = lazy(u, 5, 1)
    for coefficient in (0.5, a, a[:, :1], a.astype(np.float32), 1, [[0.5]]):
        x = rf.dask.solve(coefficient, lazy_u, axis=1)
        expected = rf.solve(coefficient, u, axis=1)
        assert (x.dtype, x.chunks) == (expected.dtype, lazy_u.chunks)
        np.testing.assert_allclose(x.compute(), expected, rtol=1e-5, atol=1e-5)
    x = rf.dask.solve(lazy(a, 4, 0), [1, 2, 3], axis=0, x0=da.ones(3, chunks=1))
    np.testing.assert_allclose(x.compute(), rf.solve(a, [1, 2, 3], axis=0, x0=1.0))
    assert x.chunks == ((4, 4, 4), (2, 1))
    x = rf.dask.solve(lazy(a, 4, 0), da.ones(1, chunks=1), axis=0)
    np.testing.assert_allclose(x.compute(), rf.solve(a, [1], axis=0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0), (1,)])
def test_no_steps_and_no_channels(shape):
    for method in ("chain", "carriers"):
        for window in (Full(), Jagged(2)):
            x = rf.dask.solve(0.5, da.ones(shape, chunks=2), axis=0, method=method, window=window).compute()
            np.testing.assert_array_equal(x, np.ones(shape))


def test_exact_scalars_pass_through():
    from market import random_fractions

    rng = np.random.default_rng(0)
    a, u = random_fractions(rng, 17), random_fractions(rng, 17)
    for method in ("chain", "carriers"):
        for window in (Full(), Jagged(3)):
            x = rf.dask.solve(da.from_array(a, 4), da.from_array(u, 4), method=method, window=window).compute()
            assert x.tolist() == rf.solve(a, u, window=window).tolist()


def test_xarray_keeps_its_labels_and_stays_lazy():
    array = data_array()
    chunked = array.chunk({"time": 2, "channel": 2})
    for a in (0.5, xarray().full_like(chunked, 0.5), chunked.isel(channel=0, drop=True) * 0 + 0.5):
        x = rf.dask.solve(a, chunked, axis="time", method="carriers")
        assert x.chunks == chunked.chunks
        expected = rf.solve(a if isinstance(a, float) else a.compute(), array, axis="time")
        xarray().testing.assert_identical(x.compute(), expected)
    with pytest.raises(ShapeError, match="axis must say which dimension of the DataArray is time"):
        rf.dask.solve(0.5, chunked)
    with pytest.raises(ShapeError, match="must have the coordinates of the DataArray"):
        rf.dask.solve(chunked.assign_coords(channel=[1, 2, 3]), chunked, axis="time")


REFUSED = {
    "unknown sizes": (
        lambda u: {"a": 0.5, "u": u[u > 0]},
        ShapeError,
        r"u must have chunks of known sizes, got .*; call its compute_chunk_sizes\(\)",
    ),
    "other chunks": (
        lambda u: {"a": u.rechunk(4), "u": u},
        ShapeError,
        r"cut into the same chunks, got \(4, 4\) and \(3, 3, 2\) along axis 0; pass a.rechunk\({0: u.chunks\[0\]}\)",
    ),
    "other shape": (lambda u: {"a": u[:5], "u": u}, ShapeError, "must broadcast against each other"),
    "nothing lazy": (lambda u: {"a": 0.5, "u": np.ones(3)}, ArrayTypeError, "pass these to recfact.solve"),
    "method": (lambda u: {"a": 0.5, "u": u, "method": "scan"}, OptionError, "method must be one of 'auto'"),
    "chain backwards": (
        lambda u: {"a": 0.5, "u": u, "method": "chain", "window": "jagged:2", "reverse": True},
        OptionError,
        'method must be "carriers" or "auto" for windows that run backwards',
    ),
    "axis": (lambda u: {"a": 0.5, "u": u, "axis": 1}, ShapeError, "axis must be an axis of the result"),
    "offsets": (lambda u: {"a": 0.5, "u": u, "offsets": [0, 9]}, ShapeError, "must begin with 0 and end with 8"),
    "x0 backwards": (lambda u: {"a": 0.5, "u": u, "x0": 1.0, "reverse": True}, OptionError, "x0 doesn't go with"),
    "x0 of a shape": (lambda u: {"a": 0.5, "u": u, "x0": np.ones(2)}, ShapeError, "x0 must broadcast against one"),
    "x0 of a type": (lambda u: {"a": 0.5, "u": u, "x0": 1j}, DTypeError, "x0 must fit into float64"),
    "number type": (lambda u: {"a": 0.5, "u": u.astype("M8[s]")}, DTypeError, "must be numbers that recfact computes"),
    "masked": (lambda u: {"a": 0.5, "u": da.ma.masked_equal(u, 2)}, ArrayTypeError, "got a masked array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_computed(name):
    make, kind, message = REFUSED[name]
    options = make(da.ones(8, chunks=3))
    with pytest.raises(kind, match=message):
        rf.dask.solve(options.pop("a"), options.pop("u"), **options)


class Elsewhere(np.ndarray):
    """An array that recfact takes for CuPy's."""

    __module__ = "cupy"

    def get(self):
        return np.array(self.view(np.ndarray))


class Functions:
    """Those of NumPy, whose arrays are taken for CuPy's."""

    def __getattr__(self, name):
        def function(*arguments, **options):
            found = getattr(np, name)(*arguments, **options)
            return found.view(Elsewhere) if isinstance(found, np.ndarray) else found

        return function


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [Full(), Jagged(4), Uniform(6)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_chunks_on_gpus_stay_there(window, dtype, monkeypatch, rng):
    def engine(a, u, *, x0, axis, reverse, window, offsets, out):
        assert isinstance(u, Elsewhere)
        assert x0 is None or isinstance(x0, Elsewhere)
        plain = [value if value is None else np.asarray(value) for value in (a, u, x0)]
        options = {"axis": axis, "reverse": reverse, "window": window, "offsets": offsets}
        x = rf.solve(*plain[:2], x0=plain[2], **options).view(Elsewhere)
        if out is None:
            return x
        assert isinstance(out, Elsewhere)
        out[...] = x
        return out

    monkeypatch.setitem(sys.modules, "cupy", Functions())
    monkeypatch.setattr(sys.modules["recfact.solve"], "_gpu_engine", lambda: engine)
    a, u = rng.uniform(0, 1, (40, 3)).astype(dtype), rng.standard_normal((40, 3)).astype(dtype)
    lazy_a, lazy_u = (
        da.from_array(array.view(Elsewhere), chunks=(7, 2), asarray=False, meta=np.empty((0, 0), dtype).view(Elsewhere))
        for array in (a, u)
    )
    for reverse in (False, True):
        for method in ["carriers"] + ["chain"] * (window == Full()):
            cuts = {"offsets": [0, 0, 3, 9, 38, 40]}
            initial = {"x0": 2.0}, {"x0": np.arange(5.0)[:, None], **cuts}
            for first in ({}, cuts, *(initial if not reverse else ())):
                options = {"axis": 0, "window": window, "reverse": reverse, **first}
                x = rf.dask.solve(lazy_a, lazy_u, method=method, **options)
                assert type(x._meta) is Elsewhere
                blocks = dask.compute(x.to_delayed().tolist())[0]
                assert {type(block) for row in blocks for block in row} == {Elsewhere}
                found = np.block([[block.get() for block in row] for row in blocks])
                assert found.dtype == dtype
                expected = rf.solve(a, u, **options).astype(float)
                np.testing.assert_allclose(
                    found.astype(float), expected, rtol=5e-3 if dtype == "float16" else 1e-5, atol=1e-3
                )
    if window != Full():
        with pytest.raises(OptionError, match='method must be "carriers" or "auto"'):
            rf.dask.solve(lazy_a, lazy_u, axis=0, window=window, method="chain")


def test_without_dask_the_room_says_what_to_install():
    printed = run_in_child(
        """
        import sys
        sys.modules["dask"] = sys.modules["dask.array"] = None
        import recfact
        try:
            recfact.dask.solve
        except recfact.errors.MissingExtraError as error:
            print(error)
        """
    )
    assert printed.strip() == 'recfact.dask needs dask; install it with: pip install "dask[array]"'


@pytest.mark.parametrize("window", [Full(), Jagged(3)], ids=str)
@pytest.mark.parametrize("method", ["chain", "carriers"])
def test_chunks_of_other_lengths_than_they_say_are_refused(method, window):
    u = da.map_blocks(lambda block: block[:-1], da.ones(9, chunks=3), dtype=float)
    lazy = rf.dask.solve(0.5, u, window=window, method=method)
    with pytest.raises(ShapeError, match="must have 3 steps, as its lazy array says, got 2"):
        lazy.compute(scheduler="sync")
