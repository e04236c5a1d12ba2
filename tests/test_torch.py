"""PyTorch's CPU tensors go in and come out without a copy, and are solved as NumPy's arrays are."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given as drawn_from
from hypothesis import settings
from hypothesis import strategies as st
from layouts import operands

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int64")


def bits(array):
    """Return the bytes of a tensor or an array, which no float comparison can blur."""
    if isinstance(array, torch.Tensor):
        array = array.contiguous().view(torch.uint8).numpy()
    return np.ascontiguousarray(array).tobytes()


def pair(shape, dtype, rng):
    """Return the same small dyadic numbers as an array and as a tensor."""
    numbers = rng.integers(-3, 4, shape) / (1 if dtype == "int64" else 4)
    array = numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return array, torch.tensor(numbers).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [rf.Full(), rf.Uniform(5), rf.Jagged(4)], ids=repr)
def test_every_number_type_gives_a_tensor_with_the_bits_of_the_array(dtype, window, rng):
    (a, ta), (u, tu) = pair(37, dtype, rng), pair(37, dtype, rng)
    x = rf.solve(ta, tu, window=window)
    assert isinstance(x, torch.Tensor)
    assert x.dtype == (torch.float64 if dtype == "int64" else tu.dtype)
    assert bits(x) == bits(rf.solve(a, u, window=window))


def test_layouts_axes_and_the_initial_state(rng):
    (a, ta), (u, tu), (x0, tx0) = (pair(shape, "float32", rng) for shape in ((1, 12), (6, 24), 3))
    wide, twide = u[::-2, ::2][:, None], tu.flip(0)[::2, ::2][:, None]
    x = rf.solve(ta[:, None], twide, x0=tx0[:, None], axis=-1)
    assert bits(x) == bits(rf.solve(a[:, None], wide, x0=x0[:, None], axis=-1))
    assert bits(rf.solve(ta.T, tu.T[:12], axis=0, reverse=True)) == bits(rf.solve(a.T, u.T[:12], axis=0, reverse=True))


def test_a_conjugate_view_is_read_as_what_it_stands_for(rng):
    (a, ta), (u, tu) = pair(9, "complex64", rng), pair(9, "complex64", rng)
    assert bits(rf.solve(ta.conj() * 1j, (tu * 1j).conj())) == bits(rf.solve(a.conj() * 1j, (u * 1j).conj()))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_out_is_written_and_returned(dtype, rng):
    (a, ta), (u, tu) = pair(40, dtype, rng), pair(40, dtype, rng)
    out = torch.full((80,), float("nan"), dtype=tu.dtype)[::2]
    assert rf.solve(ta, tu, out=out) is out
    assert bits(out) == bits(rf.solve(a, u))
    assert rf.solve(ta, tu, out=tu) is tu
    assert bits(tu) == bits(out)


def test_one_tensor_among_arrays_makes_the_result_a_tensor(rng):
    (a, ta), (u, tu) = pair(8, "float64", rng), pair(8, "float64", rng)
    for given in ((ta, u), (a, tu), (0.5, tu)):
        assert isinstance(rf.solve(*given), torch.Tensor)


def test_pieces_of_tensors_give_pieces_of_tensors(rng):
    (a, ta), (u, tu) = pair(48, "float32", rng), pair(48, "float32", rng)
    pieces = list(rf.solve_chunks(zip(ta.split(16), tu.split(16), strict=True)))
    assert all(isinstance(piece, torch.Tensor) for piece in pieces)
    assert bits(torch.cat(pieces)) == bits(rf.solve(a, u))


@pytest.mark.parametrize(
    ("u", "message"),
    [
        (
            torch.ones(4, requires_grad=True),
            r"u is a torch tensor that requires gradients.*pass u\.detach\(\).*with dim for axis",
        ),
        (
            torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
            r"u must be a dense tensor, got a nested one; use \.to_padded",
        ),
        (torch.nn.Parameter(torch.ones(4)), r"u is a torch tensor that requires gradients.*torch\.no_grad\(\)"),
        (torch.ones(4, device="meta"), "runs on the CPU and on NVIDIA GPUs, got a torch tensor on meta"),
        (torch.eye(4).to_sparse(), r"u must be a dense tensor.*use \.to_dense\(\)"),
    ],
    ids=["gradients", "nested", "parameter", "device", "sparse"],
)
def test_tensors_that_can_not_be_taken(u, message):
    with pytest.raises(ArrayTypeError, match=message):
        rf.solve(torch.full((4,), 0.5), u)


def test_a_tensor_without_its_memory_is_refused():
    u = torch.ones(4)
    u.untyped_storage().resize_(0)
    with pytest.raises(ArrayTypeError, match="u must hold its numbers, got a tensor whose storage was resized to 0"):
        rf.solve(0.5, u)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int32])
def test_results_lie_where_their_operands_do_whatever_the_default_device(dtype):
    u = torch.ones(3).to(dtype)
    with torch.device("meta"):
        found = [rf.solve(0.5, u), rf.solve(np.float32([0.5]), u), *rf.solve_chunks([(0.5, u)])]
    assert all(x.device == u.device and x.tolist() == [1, 1.5, 1.75] for x in found)


def test_out_must_be_of_the_same_library(rng):
    (a, ta), (u, tu) = pair(4, "float64", rng), pair(4, "float64", rng)
    for given, out in (((ta, tu), np.empty(4)), ((a, u), torch.empty(4, dtype=torch.float64))):
        with pytest.raises(ArrayTypeError, match="out must be of the library of a and u"):
            rf.solve(*given, out=out)


def test_a_view_that_only_stands_for_its_numbers_is_not_written_to():
    a, u = torch.full((5,), 0.5), torch.ones(5)
    conjugate = torch.zeros(5, dtype=torch.complex64).conj()
    for given, out in ((torch.complex(u, u), conjugate), (u, conjugate.imag)):
        with pytest.raises(OptionError, match="conjugate or negative view"):
            rf.solve(a, given, out=out)
        assert not out.any()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (torch.zeros(5, requires_grad=True), r"pass out\.detach\(\)"),
        (torch.zeros(5, device="meta"), "runs on the CPU"),
        (torch.zeros(5).to_sparse(), "out must be a dense tensor"),
        (torch.zeros(1).expand(5), "a place of its own"),
        (torch.zeros(5, dtype=torch.float64), "dtype float32, got shape .* float64"),
        (torch.zeros(4), r"shape \(5,\)"),
    ],
)
def test_tensors_that_can_not_be_written_to(out, message):
    with pytest.raises((ArrayTypeError, OptionError, ShapeError), match=message):
        rf.solve(torch.full((5,), 0.5), torch.ones(5), out=out)


def test_number_types_that_numpy_lacks_are_named():
    with pytest.raises(DTypeError, match=r"u must be of a number type that NumPy has, got torch\.float8_e5m2"):
        rf.solve(0.5, torch.ones(5, dtype=torch.float8_e5m2))


def test_the_initial_state_may_be_a_tensor_but_without_gradients():
    a, u = np.full(3, 0.5), np.ones(3)
    assert rf.solve(a, u, x0=torch.tensor(2.0)).tolist() == [2, 2, 2]
    with pytest.raises(ArrayTypeError, match="x0 is a torch tensor that requires gradients"):
        rf.solve(a, u, x0=torch.tensor(2.0, requires_grad=True))


def test_parameters_without_gradients_empty_tensors_and_algorithms():
    parameter = torch.nn.Parameter(torch.full((3,), 0.5), requires_grad=False)
    assert rf.solve(parameter, torch.ones(3)).tolist() == [1, 1.5, 1.75]
    assert rf.solve(parameter, torch.ones(3), algorithm="kogge-stone").tolist() == [1, 1.5, 1.75]
    assert rf.solve(torch.zeros(2, 0), torch.zeros(2, 0)).shape == (2, 0)


def test_the_result_of_a_call_owns_its_memory():
    u = torch.ones(4)
    x, y = rf.solve(0.5, u), rf.solve(0.5, u)
    x.zero_()
    assert y.tolist() == [1, 1.5, 1.75, 1.875]
    assert u.tolist() == [1, 1, 1, 1]


def as_tensor(array):
    """Return a tensor with the numbers and the strides of an array."""
    if np.isscalar(array):
        return array
    kind = getattr(torch, array.dtype.newbyteorder("=").name.replace("bool", "bool"))
    steps = [step // array.itemsize for step in array.strides]
    span = 1 + sum(step * (length - 1) for step, length in zip(steps, array.shape, strict=True))
    return torch.ones(max(span, 1), dtype=kind).as_strided(array.shape, steps)


@settings(max_examples=300)
@drawn_from(operands(backwards=False), st.data())
def test_results_lie_in_memory_as_torchs_products(drawn, data):
    a, u = map(as_tensor, drawn)
    product = torch.mul(a, u)
    x = rf.solve(a, u, axis=data.draw(st.integers(0, product.ndim - 1)))
    assert x.shape == product.shape
    longer = [axis for axis, length in enumerate(x.shape) if length > 1]  # a single number has no next one
    assert [x.stride(axis) for axis in longer] == [product.stride(axis) for axis in longer] or not x.numel()


def test_products_with_broadcast_tensors_lie_in_c_order_as_torchs_do():
    for shape in itertools.product((1, 2, 3), repeat=3):
        for own in itertools.product(*((1, length) for length in shape)):
            a, u = torch.ones(own), torch.ones(shape)
            for pair in ((a, u), (u, a)):
                assert torch.mul(*pair).is_contiguous()
                assert rf.solve(*pair).is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_products_of_halves_lie_as_others_do(dtype):
    memory = torch.ones(64, dtype=dtype)
    a, u = memory.as_strided((3, 2, 2), (2, 1, 0)), memory.as_strided((3, 2, 2), (1, 6, 12))
    assert rf.solve(a, u).stride() == torch.mul(a, u).stride() == (2, 1, 6)


def test_a_tensor_beside_an_array_lies_as_numpys_product():
    u = torch.ones(2, 30, 4).transpose(1, 2)
    assert rf.solve(np.full(1, 0.5, np.float32), u).stride() == u.stride()
    assert rf.solve(np.ones((2, 30, 4), np.float32).transpose(0, 2, 1)[::-1], 1 * u).stride() == u.stride()
