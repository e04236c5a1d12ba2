"""Arrays of other libraries in every public function that takes arrays: read, checked and refused as in `solve`."""

import numpy as np
import pytest
from labelled import DAYS, TABLE, dask_array, data_array, frame, one_axis, pandas, series
from noted import in_turn
from test_axis import ONE_SEQUENCE, PUBLIC, SEVERAL

import recfact as rf
from recfact import precision as pr
from recfact.errors import ArrayTypeError, ShapeError
from recfact.precision import exact

A, U = np.array([[0.5, -0.5, 0.25], [1, 0.5, -1], [0.5, 0.5, 0], [0.25, 0.5, 1]]), TABLE / 2
OTHERS = SEVERAL.keys() - {"solve", "solve_chunks", "ewm"}  # which return tables, and have tests of their own
ALIKE = ["affine.carriers", *(name for name in OTHERS if "u" in PUBLIC[name])]
"""What takes two arrays along one axis."""

PAIRS = ["data.exponential_average", *(name for name in ONE_SEQUENCE if {"u", "kept"} & set(PUBLIC[name]))]
"""What takes two sequences."""


def test_there_are_some():
    assert len(ALIKE) > 10
    assert {"exact.measure", "exact.enclose", "data.exponential_average"} < set(PAIRS)


def same(found, expected):
    for result, number in zip(found, expected, strict=True):
        assert type(result) is type(number)
        np.testing.assert_array_equal(result, number)


@in_turn("make", [frame, data_array])
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_tables_are_read_along_the_axis_that_must_be_named(name, make):
    call, expected = SEVERAL[name], SEVERAL[name](A, U, None, axis=0)
    same(call(make(A), make(U), None, axis=0), expected)
    if name != "pr.materialization_table":  # whose arguments are made with the number
        same(call(make(A), make(U), None, axis="index" if make is frame else "time"), expected)
    with pytest.raises(ShapeError, match=r"axis must say which .* is time.* got -1"):
        call(make(A), make(U), None)


@one_axis
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_single_sequences_are_read(name, make):
    a, u = A[:, 0].astype(np.float32), U[:, 1].astype(np.float32)
    same(SEVERAL[name](make(a), make(u), None), SEVERAL[name](a, u, None))


@pytest.mark.parametrize("name", sorted(ALIKE))
def test_labels_must_be_equal(name):
    other = DAYS[::-1]
    for a, u in ((frame(A, index=other), frame(U)), (frame(A), frame(U, columns=["x", "y", "w"]))):
        with pytest.raises(ShapeError, match=r"must have the labels of the DataFrame beside it"):
            SEVERAL[name](a, u, None, axis=0)
    with pytest.raises(ShapeError, match=r"must have the labels of the Series beside it"):
        SEVERAL[name](series(A[:, 0], index=other), series(U[:, 0]), None)


@pytest.mark.parametrize("name", PAIRS)
def test_labels_of_two_sequences_must_be_equal(name):
    a, u = A[:, 0], U[:, 0]
    ONE_SEQUENCE[name](series(a), series(u))
    with pytest.raises(ShapeError, match=r"must have the labels of the Series beside it"):
        ONE_SEQUENCE[name](series(a, index=DAYS[::-1]), series(u))


def test_labels_of_states_must_be_those_of_their_inputs():
    a, u = series(A[:, 0]), series(U[:, 0])
    x = rf.solve(a, u)
    other = series(x.to_numpy(), index=DAYS[::-1])
    for call in (pr.backward_error, lambda *given: pr.backward_error_bound(*given, "float16"), exact.measure):
        call(a, u, x)
        for given in ((a, u, other), (A[:, 0], u, other), (a, U[:, 0], other)):
            with pytest.raises(ShapeError, match=r"must have the labels of the Series beside it"):
                call(*given)


def test_initial_states_have_the_labels_of_a_step():
    step = pandas().Series([1.0, 2.0, 3.0], index=["x", "y", "z"])
    for name in sorted(OTHERS):
        same(SEVERAL[name](A, frame(U), step, axis=0), SEVERAL[name](A, U, step.to_numpy(), axis=0))
        if "x0" in PUBLIC[name]:
            with pytest.raises(ShapeError, match="x0 must have the labels of one step"):
                SEVERAL[name](A, frame(U), step.iloc[::-1], axis=0)


@pytest.mark.parametrize("name", sorted(OTHERS | ONE_SEQUENCE.keys()))
def test_what_is_computed_later_is_refused(name):
    call = SEVERAL[name] if name in SEVERAL else lambda a, u, _: ONE_SEQUENCE[name](a, u)
    lazy = dask_array().from_array(A[:, 0]), dask_array().from_array(U[:, 0])
    plain = A[:, 0], U[:, 0]
    for a, u in (lazy, (lazy[0], plain[1])) if name not in ALIKE and name not in PAIRS else (lazy, (plain[0], lazy[1])):
        with pytest.raises(ArrayTypeError, match="which dask computes later"):
            call(a, u, None)


@pytest.mark.parametrize("make", [rf.TransferOperator, rf.KoggeStone, rf.BrentKung, lambda a: rf.Hierarchical(a, 2)])
def test_operators_read_them_and_say_what_they_are_not(make):
    L, u, dask = make(A[:, 0]), U[:, 0], dask_array()
    expected = L @ u, u @ L, L @ U, U.T @ L
    for found in ((L @ series(u), series(u) * L, L @ frame(U), frame(U).T * L), (L * series(u), L.T @ series(u))):
        same(found, expected[: len(found)])
    for found, product in ((series(u) @ L, u @ L.to_dense()), (frame(U).T @ L, U.T @ L.to_dense())):  # theirs, dense
        np.testing.assert_allclose(found, product, rtol=1e-14)
    for call in (lambda: L @ dask.ones(4), lambda: dask.ones(4) * L, lambda: make(dask.ones(4))):
        with pytest.raises(ArrayTypeError, match="which dask computes later"):
            call()
    with pytest.raises(ShapeError, match="multiply this 4x4 operator from the left, got shape"):
        frame(U) * L
