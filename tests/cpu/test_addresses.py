"""Axes and addresses against NumPy's own indexing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recfact.cpu.addresses import address, addresses
from recfact.strides import Axis, merged


@st.composite
def views(draw, most_axes=4):
    """Draw a view of memory (any order of axes, gaps, negative strides) and a broadcast one of the same shape."""
    shape = draw(st.lists(st.integers(1, 4), max_size=most_axes).map(tuple))
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.tuples(*[st.sampled_from([-2, -1, 1, 2]) for _ in shape]))
    memory = np.zeros([shape[axis] * abs(steps[axis]) for axis in order], dtype=np.float32)
    pieces = tuple(slice(None, None, step) for step in steps)
    first = memory.transpose(np.argsort(order))[(*pieces, ...)] if shape else memory
    kept = [draw(st.sampled_from([1, length])) for length in shape]
    second = np.broadcast_to(np.zeros(kept, dtype=np.float64), shape)
    return first, second


def addresses_by_indexing(array):
    start = address(array)
    return [start + int(np.dot(index, array.strides)) for index in np.ndindex(array.shape)]


@given(views(), st.integers(1, 7))
def test_every_position_once_with_its_addresses_in_all_arrays(arrays, most):
    first, second = arrays
    axes, offsets = merged(first.shape, first.strides, second.strides)
    starts = [address(array) + offset for array, offset in zip(arrays, offsets, strict=True)]
    pieces = list(addresses(axes, starts, most))
    assert all(piece.dtype == np.int64 and piece.shape[1] <= most for piece in pieces)
    found = np.concatenate(pieces, axis=1)
    expected = zip(addresses_by_indexing(first), addresses_by_indexing(second), strict=True)
    assert sorted(map(tuple, found.T.tolist())) == sorted(expected)


@given(views())
def test_axes_are_sorted_and_as_few_as_possible(arrays):
    first, second = arrays
    axes, _ = merged(first.shape, first.strides, second.strides)
    assert all(axis.length > 1 and axis.strides[0] > 0 for axis in axes)
    for inner, outer in pairwise(axes):
        assert inner.strides[0] <= outer.strides[0]
        assert outer.strides != tuple(step * inner.length for step in inner.strides)


@pytest.mark.parametrize("order", ["C", "F"])
def test_contiguous_arrays_have_one_axis(order):
    array = np.zeros((3, 4, 5), order=order)
    assert merged(array.shape, array.strides) == ([Axis(60, (8,))], (0,))


def test_no_axes_are_one_position():
    assert merged((), (), ()) == ([], (0, 0))
    assert [piece.tolist() for piece in addresses([], (16, 32), 9)] == [[[16], [32]]]


def test_addresses_beyond_32_bits():
    far = 1 << 40
    (piece,) = addresses([Axis(3, (far,))], (far,), 9)
    assert piece.tolist() == [[far, 2 * far, 3 * far]]
