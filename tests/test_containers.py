"""Arrays of other libraries: each comes back as it came, or is refused with what to call."""

import array
import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from labelled import (
    DAYS,
    ONE_AXIS,
    TABLE,
    A,
    U,
    dask_array,
    data_array,
    frame,
    jax,
    labels,
    one_axis,
    pandas,
    polars,
    series,
    xarray,
)
from noted import in_turn

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, RecfactError, ShapeError


@one_axis
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_one_axis_comes_back_as_it_came(make, dtype):
    u = make((U * 1).astype(dtype))
    expected = rf.solve(A.astype(np.float32), (U * 1).astype(dtype))
    found = rf.solve(A.astype(np.float32), u)
    assert labels(found) == labels(u)
    numbers = np.asarray(found)
    assert numbers.dtype == (np.float32 if labels(u)[0].__module__.startswith("jax") else expected.dtype)
    assert numbers.tolist() == expected.tolist()  # small dyadic numbers, which float32 holds too


@one_axis
def test_the_type_is_that_of_a_where_u_is_plain(make):
    for u in (U, U.tolist(), 2.0, memoryview(U)):
        found = rf.solve(make(A), u)
        assert labels(found) == labels(make(A))
        assert np.asarray(found).tolist() == rf.solve(A, u).tolist()


@one_axis
def test_options_pass_through(make):
    options = {"window": rf.Jagged(2), "algorithm": "hierarchical", "threads": 1}
    assert np.asarray(rf.solve(make(A), make(U), **options)).tolist() == rf.solve(A, U, window=rf.Jagged(2)).tolist()
    backwards = rf.solve(make(A), make(U), reverse=True, axis=0)
    assert np.asarray(backwards).tolist() == rf.solve(A, U, reverse=True).tolist()
    assert np.asarray(rf.solve(make(A), make(U), x0=2)).tolist() == rf.solve(A, U, x0=2).tolist()
    with pytest.raises(OptionError, match="x0 doesn't go with reverse"):
        rf.solve(make(A), make(U), x0=2, reverse=True)


@one_axis
def test_what_was_passed_stays_and_shares_no_memory_with_the_result(make):
    a, u = make(A), make(U)
    before = pickle.dumps((np.asarray(a), np.asarray(u)))
    found = rf.solve(a, u)
    assert not np.shares_memory(np.asarray(found), np.asarray(u))
    assert pickle.dumps((np.asarray(a), np.asarray(u))) == before


@one_axis
def test_out_is_refused(make):
    for given in ((make(A), make(U), np.empty(4)), (A, make(U), make(U))):
        with pytest.raises(ArrayTypeError, match="out must be left out if the result is an array of"):
            rf.solve(*given[:2], out=given[2])
    with pytest.raises(ArrayTypeError, match="out must be an array on the host, got"):
        rf.solve(A, U, out=make(U))


@one_axis
def test_an_initial_state_beside_plain_arrays_is_read(make):
    whole = rf.solve(np.repeat(A[:, None], 4, 1), TABLE[:, :1], x0=make(U), axis=0)
    assert whole.tolist() == rf.solve(np.repeat(A[:, None], 4, 1), TABLE[:, :1], x0=U, axis=0).tolist()
    assert type(whole) is np.ndarray


@one_axis
def test_precision_reads_their_numbers(make):
    assert rf.precision.verify(make(A), make(U), format="float64").holds


@one_axis
def test_pieces_come_back_each_with_its_own_labels(make):
    pieces = [(make(A[i:j]), make(U[i:j])) for i, j in ((0, 1), (1, 4))]
    found = list(rf.solve_chunks(pieces, x0=2.0))
    assert [labels(piece) for piece in found] == [labels(u) for _, u in pieces]
    assert np.concatenate([np.asarray(piece) for piece in found]).tolist() == rf.solve(A, U, x0=2.0).tolist()
    with pytest.raises(ShapeError, match=r"library .* of the first"):
        list(rf.solve_chunks([(make(A), make(U)), (A, U)]))


def test_numbers_of_pandas_own_types_are_read_if_none_is_missing():
    kinds = [("Float64", np.float64), ("Float32", np.float32), ("Int64", np.float64), ("boolean", np.float32)]
    for kind, dtype in kinds:
        found = rf.solve(A.astype(np.float32), series(pandas().array([1, 0, 1, 1], dtype=kind)))
        assert found.dtype == dtype
        assert found.to_list() == rf.solve(A, [1.0, 0, 1, 1]).tolist()
        for make in (
            series,
            lambda values: values,
            pandas().Index,
            lambda values: frame({"x": values, "y": 1.0}, columns=["x", "y"]),
        ):
            held = make(pandas().array([1, None, 1, 1], dtype=kind))
            for given in ((0.5, held), (held, 0.5)):
                with pytest.raises(DTypeError, match=r"must hold all its numbers, got missing ones; .*\.fillna"):
                    rf.solve(*given, axis=0)
        mixed = frame({"x": pandas().array([1, 0, 1, 1], dtype=kind), "y": np.float32(2)}, columns=["x", "y"])
        assert rf.solve(0.5, mixed, axis=0)["x"].to_list() == rf.solve(0.5, [1.0, 0, 1, 1]).tolist()
    assert np.isnan(rf.solve(A, series([1.0, np.nan, 1, 1])).to_numpy()).tolist() == [False, True, True, True]
    sparse = series(pandas().arrays.SparseArray([1.0, 0, 1, 1]))
    assert rf.solve(A, sparse).to_list() == rf.solve(A, [1.0, 0, 1, 1]).tolist()
    assert type(rf.solve(0.5, pandas().Index(U))) is np.ndarray


COLUMNS = ["bool", "int8", "int64", "float32", "float64", "complex64", "boolean", "Int64", "Float32", "Float64"]


@in_turn(("first", "second"), list(itertools.product(COLUMNS, repeat=2)))
def test_columns_of_two_number_types_are_read_as_numpy_promotes_them(first, second):
    values = [1, 0, 1, 1]
    table = pandas().concat([pandas().Series(values, dtype=kind) for kind in (first, second)], axis=1, keys=["x", "x"])
    promoted = np.result_type(*(getattr(kind, "numpy_dtype", kind) for kind in table.dtypes))
    found = rf.solve(0.5, table, axis=0)
    expected = rf.solve(0.5, np.array(values, promoted)).astype(complex).tolist()
    for place in range(2):
        assert found.iloc[:, place].dtype == rf.solve(0.5, np.array(values, promoted)).dtype
        assert found.iloc[:, place].astype(complex).to_list() == expected


def test_missing_numbers_among_objects_are_refused():
    for missing in (pandas().NA, pandas().NaT, np.ma.masked):
        values = np.array([1.0, 2.0, 3.0, 4.0], object)
        values[2] = missing
        for held in (values, series(values)):
            for given in ((0.5, held), (held, 0.5)):
                with pytest.raises(DTypeError, match="must hold all its numbers"):
                    rf.solve(*given)


def test_objects_that_do_not_add_to_others_are_refused():
    for stranger in (Decimal(1), np.timedelta64(3, "s"), pandas().Timedelta(3)):
        values = np.array([1.0, 2.0, stranger, 1.0], object)
        for held, algorithm in itertools.product((values, series(values)), ("auto", "kogge-stone", "hierarchical")):
            with pytest.raises(DTypeError, match="must be numbers that multiply and add"):
                rf.solve(0.5, held, algorithm=algorithm)


def test_what_pandas_and_xarray_know_of_an_array_comes_back_as_from_their_products():
    held = series()
    held.attrs["unit"] = "K"
    held.flags.allows_duplicate_labels = False
    found = rf.solve(0.5, held)
    assert found.attrs == (0.5 * held).attrs
    assert not found.flags.allows_duplicate_labels
    stored = data_array(attrs={"unit": "K"})
    stored.encoding = {"dtype": "int16", "scale_factor": 0.1}  # a file of the result would hold other numbers
    found = rf.solve(0.5, stored, axis="time")
    assert found.attrs == stored.attrs
    assert found.encoding == (0.5 * stored).encoding == {}


def test_numbers_that_are_gone_or_of_strange_types_are_refused():
    gone = jax().numpy.ones(4)
    gone.delete()
    with pytest.raises(ArrayTypeError, match="u must hold its numbers, got an array that JAX has deleted"):
        rf.solve(0.5, gone)
    for wide in (polars().Int128, polars().UInt128):
        with pytest.raises(DTypeError, match=r"u must be of a number type that NumPy has, got U?Int128"):
            rf.solve(0.5, polars().Series([1, 2], dtype=wide))
    for small in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        for given in (np.ones(4, small), jax().numpy.ones(4, small)):
            for pair in ((0.5, given), (given, np.float32(0.5)), (given, given)):
                with pytest.raises(DTypeError, match=r"must be numbers that recfact computes in, got .*(int4|float8)"):
                    rf.solve(*pair)


def test_texts_dates_and_categories_are_no_numbers():
    for values in (["p", "q", "r", "s"], DAYS, pandas().Categorical(["p", "q", "p", "q"])):
        with pytest.raises(DTypeError, match=r"must be .*numbers"):
            rf.solve(0.5, series(values))
    with pytest.raises(DTypeError, match=r"must be .*numbers"):
        rf.solve(0.5, frame({"x": U, "y": list("pqrs")}, columns=["x", "y"]), axis=0)


def test_exact_scalars_stay_exact():
    exact = [Fraction(1, 3), Fraction(2), Fraction(1, 7), Fraction(0)]
    for found in (
        rf.solve(Fraction(1, 2), series(exact)),
        rf.solve(Fraction(1, 2), polars().Series("load", exact, dtype=polars().Object)),
    ):
        assert list(found) == rf.solve(Fraction(1, 2), exact).tolist()


def test_derived_types_come_back_as_theirs():
    class Load(pandas().Series):
        @property
        def _constructor(self):
            return Load

    assert type(rf.solve(0.5, Load(U))) is Load


def test_what_a_library_has_no_numbers_for_is_refused():
    for made, values in ((polars().Series, 1j * U), (jax().numpy.asarray, U.astype(object) * Fraction(1))):
        u = made(U)
        with pytest.raises(DTypeError, match=r"(polars|jax) has no numbers of (complex128|object)"):
            rf.solve(values, u)
    with pytest.raises(DTypeError, match="polars has no numbers of bfloat16"):
        rf.solve(A.astype(ml_dtypes.bfloat16), polars().Series(np.array([True, False, True, True])))
    with pytest.raises(DTypeError, match=r"u must hold numbers, got a Series of List\(Float64\)"):
        rf.solve(0.5, polars().Series([[1.0, 2.0], [3.0]]))
    with pytest.raises(DTypeError, match=r"u must hold all its numbers, got missing ones; .*\.fill_null"):
        rf.solve(0.5, polars().Series([1.0, None]))


LAZY = {
    "dask": lambda: (dask_array().ones(4), r"got Array, which dask computes later; pass its \.compute\(\)"),
    "xarray over dask": lambda: (
        xarray().DataArray(dask_array().ones(4)),
        r"got DataArray, which dask computes .*\.compute\(\)",
    ),
    "dask.delayed": lambda: (__import__("dask").delayed(U), r"got Delayed.*, which dask computes .*\.compute\(\)"),
    "pandas' groups": lambda: (
        pandas().Series(U).groupby([0] * len(U)),
        r"got SeriesGroupBy, whose rows are in groups; .* with offsets=, where groups start, \[0, \*groups.size",
    ),
    "pandas' windows": lambda: (pandas().Series(U).rolling(2), "got Rolling, which is a window over a table; pass the"),
    "polars' groups": lambda: (polars().DataFrame({"u": U}).group_by("u"), "got GroupBy, .* with offsets="),
    "polars.LazyFrame": lambda: (polars().LazyFrame({"u": U}), r"got LazyFrame, .* \.collect\(\) it"),
    "polars.Expr": lambda: (polars().col("u"), "got Expr, which is an expression; evaluate it"),
    "polars.DataFrame": lambda: (polars().DataFrame({"u": U}), "got DataFrame, .*; pass its columns as Series"),
    "xarray.Dataset": lambda: (xarray().Dataset({"u": ("t", U)}), "got Dataset, .*; pass one of its DataArrays"),
}


@pytest.mark.parametrize("make", LAZY.values(), ids=LAZY)
def test_what_holds_no_numbers_yet_is_refused_everywhere(make):
    value, message = make()
    calls = [
        lambda: rf.solve(0.5, value),
        lambda: rf.solve(value, U),
        lambda: rf.solve(A, U, x0=value),
        lambda: list(rf.solve_chunks([(value, U)])),
        lambda: rf.TransferOperator(value),
        lambda: rf.TransferOperator(A) @ value,
        lambda: rf.precision.verify(A, value),
        lambda: rf.ewm(value, span=5),
    ]
    for call in calls:
        with pytest.raises(ArrayTypeError, match=message):
            call()
    with pytest.raises(ArrayTypeError):
        rf.solve(A, U, out=value)


def test_what_the_message_about_dask_says_works():
    blocks = dask_array().from_array(TABLE, chunks=(2, 1))
    solved = rf.dask.solve(0.5, blocks, axis=0)
    assert solved.compute().tolist() == rf.solve(0.5, TABLE, axis=0).tolist()
    lazy = xarray().DataArray(blocks, dims=("time", "channel"))
    assert rf.solve(0.5, lazy.compute(), axis="time").values.tolist() == solved.compute().tolist()
    averages = blocks.rechunk({0: -1}).map_blocks(rf.ewm, span=5, axis=0)
    assert averages.compute().tolist() == rf.ewm(TABLE, span=5, axis=0).tolist()


@pytest.mark.parametrize("transformation", ["jit", "vmap", "grad", "jvp"])
def test_what_jax_traces_is_refused(transformation):
    u = jax().numpy.ones((4, 4))
    calls = {
        "jit": lambda function: jax().jit(function)(u),
        "vmap": lambda function: jax().vmap(function)(u),
        "grad": lambda function: jax().grad(lambda u: function(u).sum())(u),
        "jvp": lambda function: jax().jvp(function, (u,), (u,)),
    }
    for function in (lambda u: rf.solve(0.5, u), lambda u: rf.solve(u, A), lambda u: next(rf.solve_chunks([(0.5, u)]))):
        with pytest.raises(
            ArrayTypeError, match=r"which JAX traces .* and which holds no numbers yet; .* jax\.pure_callback"
        ):
            calls[transformation](function)


def test_what_the_message_about_jax_says_works():
    def solve(u):
        shape = jax().ShapeDtypeStruct(u.shape, u.dtype)
        on_host = lambda u: rf.solve(np.float32(0.5), np.asarray(u))  # noqa: E731
        return jax().pure_callback(on_host, shape, u, vmap_method="expand_dims")

    u = U.astype(np.float32)
    assert jax().jit(solve)(u).tolist() == rf.solve(0.5, u).tolist()
    assert jax().vmap(solve)(np.stack([u, -u])).tolist() == rf.solve(0.5, np.stack([u, -u])).tolist()


def test_jax_keeps_its_number_types_and_devices():
    jnp = jax().numpy
    half = jnp.asarray(U, jnp.bfloat16)
    assert rf.solve(jnp.asarray(A, jnp.bfloat16), half).dtype == jnp.bfloat16
    assert rf.solve(A + 1 / 3, jnp.asarray(U)).dtype == jnp.float32  # computed in float64, which JAX has only if asked
    assert not rf.solve(0.5, jnp.asarray(U)).committed
    assert rf.solve(0.5, ONE_AXIS["jax, as device"]()).committed
    with pytest.raises(RecfactError):
        rf.solve(0.5, jax().random.key(0))
    table = rf.solve(jnp.asarray(A[:, None]), jnp.asarray(TABLE), axis=0)
    assert np.asarray(table).tolist() == rf.solve(A[:, None], TABLE, axis=0).tolist()
    assert rf.solve(jnp.asarray(A), TABLE.T).shape == (3, 4)


def test_two_libraries_at_once_are_refused():
    values = [make() for name, make in ONE_AXIS.items() if "device" not in name]
    for first in values:
        for second in values:
            if first is not second:
                with pytest.raises(
                    ArrayTypeError, match="a and u must be of one library, with which NumPy's arrays may"
                ):
                    rf.solve(first, second)
    with pytest.raises(ShapeError, match="a must have"):
        rf.solve(series(A, index=DAYS[::-1]), series())


class Foreign:
    """An array of a library that nobody has heard of."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


PLAIN = {
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(values.tolist()),
    "array.array": lambda values: array.array("d", values.tolist()),
    "memoryview": memoryview,
    "__array__": Foreign,
    "objects": lambda values: [np.float64(value) for value in values],
    "recarray": lambda values: values.view(np.recarray),
    "subclass": lambda values: values.view(type("Meters", (np.ndarray,), {})),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_what_else_numpy_reads_becomes_numpys_array(make):
    for given in ((make(A), make(U)), (A, make(U)), (make(A), U)):
        found = rf.solve(*given)
        assert type(found) is np.ndarray
        assert found.tolist() == [1, 2.25, -5.25, 1.375]


def test_matrices_maps_of_files_and_arrays_that_are_only_read(tmp_path):
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.asmatrix(TABLE)
    assert type(rf.solve(0.5, matrix)) is np.ndarray
    assert rf.solve(0.5, matrix, axis=0).tolist() == rf.solve(0.5, TABLE, axis=0).tolist()
    mapped = np.memmap(tmp_path / "u", np.float64, "w+", shape=(4,))
    mapped[:] = U
    assert type(rf.solve(A, mapped)) is np.ndarray
    assert rf.solve(A, mapped, out=mapped) is mapped
    assert np.fromfile(tmp_path / "u").tolist() == rf.solve(A, U).tolist()
    frozen = U.copy()
    frozen.flags.writeable = False
    assert rf.solve(A, frozen).flags.writeable
    with pytest.raises(OptionError, match="out must be writable"):
        rf.solve(A, frozen, out=frozen)


def test_an_array_that_can_not_be_read_is_refused_in_recfacts_words():
    class Broken(Foreign):
        def __array__(self, dtype=None, copy=None):
            raise NotImplementedError("symbolic")

    with pytest.raises(ArrayTypeError, match="u must be an array or nested lists"):
        rf.solve(0.5, Broken(U))
