"""Descriptions of where numbers lie against NumPy's own views, and what a launch may depend on of them."""

import numpy as np
import pytest
from gpu.cases import H100, strided
from hypothesis import given
from hypothesis import strategies as st

from recfact.gpu.launch import plan
from recfact.gpu.solves import Solve, by_key
from recfact.number_types import NUMBER_TYPES
from recfact.strides import Strided, contiguous
from recfact.windows import Full, Jagged, Uniform


def described(view: np.ndarray) -> Strided:
    """Describe a view, with no step along axes of one index, where it doesn't count and NumPy's isn't defined."""
    place = strided(view)
    steps = tuple(step if n > 1 else 0 for n, step in zip(view.shape, view.strides, strict=True))
    return Strided(place.dtype, place.shape, steps, place.address)


@st.composite
def views(draw):
    """Draw a view of memory, perhaps transposed, flipped and with gaps."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    order = draw(st.permutations(range(len(shape))))
    steps = [slice(None, None, draw(st.sampled_from([-2, -1, 1, 2]))) for _ in shape]
    return np.zeros(shape, draw(st.sampled_from(list(NUMBER_TYPES)))).transpose(order)[tuple(steps)]


@given(views(), st.data())
def test_views_are_numpys(array, data):
    axis = data.draw(st.integers(0, array.ndim - 1))
    index = data.draw(st.integers(0, array.shape[axis] - 1))
    taken = strided(array).taken(axis, index)
    assert taken == strided(array[(slice(None),) * axis + (index, ...)])
    single = array[tuple(slice(0, data.draw(st.sampled_from([1, n]))) for n in array.shape)]
    shape = (*data.draw(st.lists(st.integers(1, 3), max_size=2)), *array.shape)
    broadcast = strided(single).broadcast_to(shape)
    steps = tuple(step if n > 1 else 0 for n, step in zip(shape, broadcast.strides, strict=True))
    assert Strided(broadcast.dtype, shape, steps, broadcast.address) == described(np.broadcast_to(single, shape))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 5, 1)])
def test_arrays_in_c_order(shape):
    for dtype in NUMBER_TYPES:
        array = np.zeros(shape, dtype)
        assert contiguous(dtype, shape) == Strided(dtype, shape, array.strides)


@given(
    st.sampled_from(list(NUMBER_TYPES)),
    st.sampled_from([Full(), Jagged(16), Uniform(9)]),
    st.tuples(*[st.integers(0, 40)] * 3),
    st.sampled_from([0, 1]),
)
def test_a_launch_depends_on_nothing_but_the_keys(dtype, window, addresses, axis):
    arrays = [
        Strided(dtype, (512, 64), (64 * dtype.itemsize, dtype.itemsize), (1 << 40) + place * dtype.itemsize)
        for place in addresses
    ]
    solve = Solve(*arrays, None, axis, window)
    assert plan(solve, H100) == plan(by_key(solve.key), H100)
