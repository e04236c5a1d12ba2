"""What a caller may pass: libraries, number types, shapes and axes, each check by itself."""

from fractions import Fraction
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recfact.arrays import (
    as_numpy,
    as_operands,
    broadcast_shape,
    check_axis,
    initial_state,
    library_of,
    native,
    result_dtype,
)
from recfact.errors import ArrayTypeError, DTypeError, ShapeError
from recfact.number_types import NUMBER_TYPES, accumulator

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = sorted(NUMBER_TYPES, key=str)  # a set has another order in every process
REAL = [np.dtype(kind) for kind in ("f2", "f4", "f8")]


class Tensor:
    """What a torch tensor on a GPU looks like from outside, whether torch is there or not."""

    __module__ = "torch"
    is_sparse = False

    class device:  # noqa: N801
        type = "cuda"


class CupyArray:
    __module__ = "cupy._core"


@pytest.mark.parametrize("value", [1.0, [1, 2], np.ones(2), range(3), memoryview(b"ab"), "text", None, Fraction(1)])
def test_what_numpy_reads_is_numpy(value):
    assert library_of(value) == "numpy"


@pytest.mark.parametrize("value", [Tensor(), CupyArray()])
def test_arrays_on_a_gpu_are_known_without_their_library(value):
    assert library_of(value) == "gpu"
    with pytest.raises(ArrayTypeError, match=r"a must be on the host here, got a \w+ on a GPU; copy it"):
        as_numpy(value, "a")


def test_tensors_elsewhere_are_refused():
    elsewhere = Tensor()
    elsewhere.device = SimpleNamespace(type="mps")
    with pytest.raises(ArrayTypeError, match=r"NVIDIA GPUs, got .* move it with \.cpu"):
        library_of(elsewhere)


def test_arrays_are_taken_as_they_are():
    array = np.ones(3)
    assert as_numpy(array, "a") is array
    lines = np.lib.stride_tricks.sliding_window_view(array, 2)
    assert np.shares_memory(as_numpy(lines, "a"), array)
    recorded = np.ones(3).view(np.recarray)
    assert np.shares_memory(as_numpy(recorded, "a"), recorded)


@pytest.mark.parametrize(
    ("a", "u", "expected"),
    [
        *[(kind, kind, kind) for kind in DTYPES],
        *[(kind, narrower, kind) for kind in REAL for narrower in REAL if narrower <= kind],
        ("f2", BFLOAT16, "f4"),
        (BFLOAT16, "f4", "f4"),
        ("i8", "f4", "f8"),
        ("i2", "f4", "f4"),
        ("i2", "f2", "f4"),
        ("?", "f2", "f2"),
        ("?", "?", "f8"),
        ("u8", "i8", "f8"),
        ("i1", BFLOAT16, BFLOAT16),
        ("c8", "f4", "c8"),
        ("c8", "f8", "c16"),
        ("f4", "O", "O"),
        (">f4", "<f4", "f4"),
        (">c16", "i4", "c16"),
    ],
    ids=str,
)
def test_number_types_are_promoted(a, u, expected):
    for left, right in ((a, u), (u, a)):
        found = result_dtype(np.ones(2, left), np.ones(2, right))
        assert found == np.dtype(expected)
        assert found.isnative


def test_python_scalars_leave_the_other_type_alone():
    for dtype in DTYPES:
        array = np.ones(2, dtype)
        assert result_dtype(2, array) == result_dtype(array, 0.5) == dtype
        assert result_dtype(np.array(True), array) == dtype
    assert result_dtype(2, 3.0) == np.float64
    assert result_dtype(1j, np.ones(2, np.float32)) == np.complex64


@pytest.mark.parametrize(
    "dtype", ["U3", "S3", "M8[s]", "m8[s]", "f4,f4", np.longdouble, ml_dtypes.float8_e4m3fn, "V4"], ids=str
)
def test_other_number_types_are_named(dtype):
    for other in (dtype, "f4"):
        if other == "f4" and dtype == ml_dtypes.float8_e4m3fn:
            continue  # numbers that float32 holds
        with pytest.raises(DTypeError, match=r"numbers that recfact computes in, got .* and .*float16 or bfloat16"):
            result_dtype(np.zeros(2, dtype), np.zeros(2, other))


@pytest.mark.parametrize("dtype", ["U3", "S3", "M8[s]", "m8[s]", "f4,f4", np.longdouble, "V4"], ids=str)
def test_other_number_types_are_named_beside_scalars(dtype):
    for scalar in (0.5, 1j):
        with pytest.raises(DTypeError, match=rf"got {type(scalar).__name__} and .*; convert them to float32"):
            result_dtype(scalar, np.zeros(2, dtype))


def test_accumulators_and_byte_orders():
    assert {str(kind): str(accumulator(kind)) for kind in DTYPES} == {
        "float16": "float32",
        "bfloat16": "float32",
        **{name: name for name in ("float32", "float64", "complex64", "complex128")},
    }
    assert native(np.dtype(">f4")) == np.dtype("<f4") == native(np.dtype("<f4"))


def test_operands_are_converted_but_not_copied_without_need():
    a, u = np.ones(2, np.float32), np.ones(2, np.float32)
    taken_a, taken_u, dtype = as_operands(a, u)
    assert (taken_a is a, taken_u is u, dtype) == (True, True, np.float32)
    assert [array.dtype.str for array in as_operands(a.astype(">f4"), u.astype(np.float64))[:2]] == ["<f8", "<f8"]


@given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
def test_shapes_broadcast_as_numpy_says(first, second):
    a, u = np.zeros(first), np.zeros(second)
    try:
        expected = (a + u).shape
    except ValueError:
        with pytest.raises(ShapeError, match="must broadcast"):
            broadcast_shape(a, u)
    else:
        if expected:
            assert broadcast_shape(a, u) == expected
        else:
            with pytest.raises(ShapeError, match="at least one axis"):
                broadcast_shape(a, u)


def test_axes_count_from_either_end():
    assert [check_axis(axis, 3) for axis in (0, 2, -1, -3, np.int64(1))] == [0, 2, 2, 0, 1]
    for axis in (3, -4, 2**70):
        with pytest.raises(ShapeError, match=f"-3 to 2, got {axis}"):
            check_axis(axis, 3)


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(object)], ids=str)
def test_initial_states_are_copies_in_the_type_of_the_computation(dtype):
    given_state = np.ones((1, 2), np.float16)
    state = initial_state(given_state, (3, 2), dtype)
    assert state.dtype == accumulator(dtype)
    assert not np.shares_memory(state, given_state)
    same = np.ones(2, accumulator(dtype))
    assert not np.shares_memory(initial_state(same, (3, 2), dtype), same)


@pytest.mark.parametrize(
    ("x0", "fits"), [(1, True), (True, True), (np.float64(1), True), (1j, False), (Fraction(1), False)]
)
def test_initial_states_are_not_cut(x0, fits):
    if fits:
        assert initial_state(x0, (), np.dtype(np.float32)) == 1
    else:
        with pytest.raises(DTypeError, match="x0 must fit into float32"):
            initial_state(x0, (), np.dtype(np.float32))
