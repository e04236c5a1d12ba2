"""Labels of pandas and xarray: they come back, they must be equal, and they say which axis is which."""

import numpy as np
import pytest
from labelled import DAYS, TABLE, A, U, data_array, frame, labels, pandas, polars, series, xarray

import recfact as rf
from recfact.errors import OptionTypeError, ShapeError


def test_pieces_that_are_held_back_keep_their_labels():
    pieces = [(0.5, frame().T.iloc[:, i:j]) for i, j in ((0, 1), (1, 4))]  # rows of many steps, too few at first
    found = list(rf.solve_chunks(pieces, axis=1, x0=pandas().Series([1.0, 2, 3], index=["x", "y", "z"])))
    assert [piece.columns.to_list() for piece in found] == [u.columns.to_list() for _, u in pieces]
    whole = rf.solve(0.5, TABLE.T.copy(), x0=[1.0, 2, 3])
    assert np.concatenate([piece.to_numpy() for piece in found], axis=1).tolist() == whole.tolist()


SEVERAL_AXES = {"pandas": frame, "xarray": data_array}
several_axes = pytest.mark.parametrize("make", SEVERAL_AXES.values(), ids=SEVERAL_AXES)


@several_axes
@pytest.mark.parametrize("axis", [0, 1])
def test_tables_come_back_with_all_their_labels(make, axis):
    a = 1 / (1 + TABLE)
    for given in ((a, make()), (make(a), make()), (make(a), TABLE), (0.5, make()), (a[:1], make())):
        found = rf.solve(*given, axis=axis)
        led = next(value for value in given[::-1] if type(value) not in (np.ndarray, float))
        assert labels(found) == labels(led)
        plain = [value.to_numpy() if hasattr(value, "to_numpy") else value for value in given]
        assert found.to_numpy().tolist() == rf.solve(*plain, axis=axis).tolist()
        assert found.to_numpy().strides == np.multiply(*plain).strides


@several_axes
def test_tables_need_the_axis_of_time(make):
    for axis in (-1, -2, 2, "depth", 1.0, None, True):
        with pytest.raises((ShapeError, OptionTypeError), match=r"axis must (say which|be an)"):
            rf.solve(0.5, make(), axis=axis)
    with pytest.raises(ShapeError, match=r"axis must say which .* is time.* got -1"):
        rf.solve(0.5, make())


def test_axes_are_named_as_their_libraries_name_them():
    for number, name in enumerate(("index", "columns")):
        assert rf.solve(0.5, frame(), axis=name).equals(rf.solve(0.5, frame(), axis=number))
    assert rf.solve(0.5, series(), axis="index").equals(rf.solve(0.5, series(), axis=0))
    for number, name in enumerate(("time", "channel")):
        assert rf.solve(0.5, data_array(), axis=name).identical(rf.solve(0.5, data_array(), axis=number))
    with pytest.raises(ShapeError, match="0 or 'index' or -1, got 'columns'"):
        rf.solve(0.5, series(), axis="columns")
    with pytest.raises(OptionTypeError, match="axis must be an integer, got 'time'"):
        rf.solve(0.5, U, axis="time")


def test_equal_labels_may_be_of_another_kind_but_no_others():
    counted = series(index=range(4))
    assert rf.solve(series(A, index=np.arange(4.0)), counted).index is counted.index
    assert rf.solve(series(A, name="other"), series()).name == "load"
    several = pandas().MultiIndex.from_product([["p", "q"], [0, 1]])
    assert rf.solve(series(A, index=several), series(index=several)).index.equals(several)
    for a in (series(A, index=DAYS[::-1]), series(A, index=range(4)), series(A[:3]), series(A[:1])):
        with pytest.raises(ShapeError, match="a must have the labels of the Series beside it"):
            rf.solve(a, series())
    for a in (frame(columns=["x", "y", "w"]), frame(index=range(4)), frame().T, frame().iloc[:1]):
        with pytest.raises(ShapeError, match="a must have the labels of the DataFrame beside it"):
            rf.solve(a, frame(), axis=0)


def test_a_series_goes_along_the_axis_whose_labels_it_has():
    along, across = series(A), series([0.5, 0.25, 1.0], index=["x", "y", "z"])
    for axis in (0, 1):
        plain = rf.solve(A[:, None], TABLE, axis=axis)
        for found in (rf.solve(along, frame(), axis=axis), rf.solve(frame(A[:, None] + 0 * TABLE), frame(), axis=axis)):
            assert found.to_numpy().tolist() == plain.tolist()
        found = rf.solve(across, frame(), axis=axis)
        assert found.to_numpy().tolist() == rf.solve(across.to_numpy(), TABLE, axis=axis).tolist()
    lead = rf.solve(frame(), along, axis=0)
    assert labels(lead) == labels(frame())
    assert lead.to_numpy().tolist() == rf.solve(TABLE, A[:, None], axis=0).tolist()
    square = pandas().DataFrame(np.ones((4, 4)), index=DAYS, columns=DAYS)
    for other, table in ((along, square), (series(A, index=range(4)), frame())):
        with pytest.raises(ShapeError, match=r"beside it \(those of exactly one of its axes\), got"):
            rf.solve(other, table, axis=0)


def test_dimensions_are_matched_by_their_names():
    a = data_array(1 / (1 + TABLE))
    expected = rf.solve(a, data_array(), axis="time")
    assert rf.solve(a.transpose(), data_array(), axis="time").identical(expected)
    turned = rf.solve(a, data_array().transpose(), axis="time")
    assert turned.dims == ("channel", "time")
    assert turned.transpose().equals(expected)
    for dim, plain in (("time", A[:, None]), ("channel", A[:3])):
        shared = data_array(A[: len(DAYS) if dim == "time" else 3], dims=(dim,))
        found = rf.solve(shared, data_array(), axis="time")
        assert labels(found) == labels(data_array())
        assert found.values.tolist() == rf.solve(plain, TABLE, axis=0).tolist()
        found = rf.solve(data_array(), shared, axis="time")
        assert found.values.tolist() == rf.solve(TABLE, plain, axis=0).tolist()
    for strange in (data_array(A, dims=("depth",), coords={}), data_array(dims=("time", "depth"), coords={})):
        with pytest.raises(ShapeError, match=r"a must have dimensions among 'time', 'channel', got .*'depth'"):
            rf.solve(strange, data_array(), axis="time")
    for other in (a.assign_coords(time=DAYS[::-1]), a.isel(time=slice(1, None)), a.assign_coords(channel=[1, 2, 3])):
        with pytest.raises(ShapeError, match="a must have the coordinates of the DataArray beside it"):
            rf.solve(other, data_array(), axis="time")
    bare = data_array(coords={})
    assert labels(rf.solve(a, bare, axis="time")) == labels(bare)


def test_initial_states_have_the_labels_of_one_step():
    states = [1.0, 2.0, 3.0]
    expected = rf.solve(0.5, TABLE, axis=0, x0=states)
    fitting = [
        (frame(), pandas().Series(states, index=["x", "y", "z"])),
        (frame(), states),
        (data_array(), data_array(TABLE, coords={}).isel(time=0).copy(data=states)),
        (data_array(), data_array().isel(time=2).copy(data=states)),
        (data_array(), np.array(states)),
    ]
    for u, x0 in fitting:
        assert rf.solve(0.5, u, axis=0, x0=x0).to_numpy().tolist() == expected.tolist()
    assert rf.solve(0.5, data_array(), axis=0, x0=xarray().DataArray(2.0)).equals(
        rf.solve(0.5, data_array(), axis=0, x0=2.0)
    )
    for u in (U, series(), data_array(U, dims=("time",))):  # one axis, which may be left out
        for x0 in (2.0, xarray().DataArray(2.0)):
            assert np.asarray(rf.solve(0.5, u, x0=x0)).tolist() == rf.solve(0.5, U, x0=2.0).tolist()
    refused = [
        (frame(), pandas().Series(states, index=["x", "y", "w"])),
        (frame(), series(A)),
        (frame(), frame()),
        (series(), series([1.0], index=DAYS[:1])),
        (data_array(), data_array(A, dims=("time",))),
        (data_array(), data_array().isel(time=0).assign_coords(channel=[1, 2, 3])),
    ]
    for u, x0 in refused:
        with pytest.raises(ShapeError, match="x0 must have"):
            rf.solve(0.5, u, axis=0, x0=x0)


def test_a_result_with_axes_that_have_no_labels_is_refused():
    cases = [(series(), TABLE.T), (data_array(U, dims=("time",)), TABLE.T), (polars().Series(U), TABLE.T)]
    for labelled, plain in [*cases, (frame(), np.ones((2, 4, 3))), (series(U[:1]), A)]:
        for given in ((labelled, plain), (plain, labelled)):
            with pytest.raises(ShapeError, match=r"must broadcast to the shape of the \w+, .* whose labels the result"):
                rf.solve(*given, axis=0)
    with pytest.raises(ShapeError, match="must broadcast against each other"):
        rf.solve(series(), A[:3])
