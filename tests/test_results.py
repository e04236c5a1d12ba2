"""Where a result goes: memory laid out as NumPy's product of the operands, or the caller's `out`."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import layouts, operands
from numpy.lib.stride_tricks import as_strided

import recfact as rf
from recfact.errors import OptionError
from recfact.results import check_out, check_overlap

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def steps_between(array):
    """Return the numbers in memory from one to the next, axis by axis, where there is a next one."""
    return [step // array.itemsize for step, length in zip(array.strides, array.shape, strict=True) if length > 1]


@settings(max_examples=200)
@given(operands(), st.data())
def test_results_lie_in_memory_as_numpys_products(pair, data):
    a, u = pair
    axes = np.broadcast(a, u).ndim
    x = rf.solve(a, u, axis=data.draw(st.integers(-axes, axes - 1)))
    # NumPy has no product of bfloat16 and float16. int16 lies as they do.
    product = np.multiply(
        *(value.view(np.int16) if getattr(value, "dtype", None) == BFLOAT16 else value for value in pair)
    )
    assert x.shape == product.shape
    assert steps_between(x) == steps_between(product)


@pytest.mark.parametrize("dtype", ["f8", "O"])
def test_exact_scalars_lie_so_too(dtype):
    u = np.array([[Fraction(1, 3), 2, 3], [4, 5, 6]], dtype=object)
    for view in (u, u.T, u[::-1], u[:, ::-2].T, np.broadcast_to(u[:1], (4, 3)), np.broadcast_to(u.T[:, :1], (3, 4))):
        a = np.ones(view.shape, dtype)
        assert rf.solve(a, view).strides == np.multiply(a, view).strides
        assert rf.solve(a.T, view.T, algorithm="kogge-stone").strides == np.multiply(a.T, view.T).strides


def test_views_of_time_last_are_as_quick_as_what_they_view():
    """(B, D, T) views of (B, T, D): the result has its channels next to each other, as the inputs have."""
    a, u = (np.ones((2, 30, 4), np.float32).transpose(0, 2, 1) for _ in "au")
    for result in (rf.solve(a, u), rf.solve(a.astype(np.float64), u), rf.solve(np.float32(0.5), u), rf.solve(a[:1], u)):
        assert result.transpose(0, 2, 1).flags.c_contiguous


@given(st.data(), st.lists(st.integers(0, 4), max_size=3))
def test_every_view_with_places_of_its_own_may_be_out(data, shape):
    out, _ = data.draw(layouts(len(shape))).empty(tuple(shape), np.float64)
    assert check_out(out, tuple(shape), (out.dtype,), False) is out


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_out_with_two_numbers_in_one_place_is_refused(shape, data):
    strides = [8 * data.draw(st.integers(0, 4)) for _ in shape]
    out = as_strided(np.zeros(40), shape, strides)
    places = {int(np.dot(index, strides)) for index in np.ndindex(*shape)}
    if len(places) < out.size:
        with pytest.raises(OptionError, match="a place of its own"):
            check_out(out, tuple(shape), (out.dtype,), False)


@given(st.integers(0, 6), st.integers(-3, 3), st.integers(1, 4))
def test_overlap_is_sharing_memory_but_for_u_itself(start, step, length):
    memory = np.zeros(40)
    u = memory[12:16]
    step = step or 1
    out = memory[6 + start + 6 :][:: abs(step)][:length][:: 1 if step > 0 else -1]
    apart = np.zeros(4)
    same = out.shape == u.shape and out.strides == u.strides and out.ctypes.data == u.ctypes.data
    if np.shares_memory(out, u) and not same:
        with pytest.raises(OptionError, match="out overlaps with u"):
            check_overlap(out, apart, u)
    else:
        check_overlap(out, apart, u)
    if np.shares_memory(out, u):
        with pytest.raises(OptionError, match="out overlaps with a"):
            check_overlap(out, u, apart)
