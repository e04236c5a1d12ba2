"""What is known of an array on a GPU, against NumPy's view of the same memory."""

import re
from importlib.util import find_spec
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from gpu import stand_in, torch_stand_in
from gpu.late_machine import numbers_at
from gpu.stand_in import Interface, asarray

from recfact.errors import ArrayTypeError, DTypeError
from recfact.gpu.cuda_streams import foreign
from recfact.gpu.device_arrays import as_device_array, empty_like, uploaded
from recfact.number_types import BFLOAT16

KEYS = {
    "whole": (),
    "reversed": (slice(None), slice(None, None, -1)),
    "every other": (slice(None, None, 2), Ellipsis, slice(1, None, 2)),
    "one row": (1,),
    "nothing": (slice(0, 0),),
}


def seen(array):
    """Return the numbers that a description leads to."""
    return numbers_at(array.address, array.shape, array.strides, array.dtype)


def numbers(dtype="f4"):
    return np.arange(60, dtype="f4").reshape(3, 4, 5).astype(dtype)


@pytest.fixture(autouse=True)
def _(machine):
    """Run all tests on the stand-in."""


@pytest.mark.parametrize("key", KEYS)
def test_cupy_arrays_and_interfaces_are_seen_in_place(key):
    host, array = numbers(), asarray(numbers())
    stand_in.machine.wait_for(0)
    for owner in (array[KEYS[key]], Interface(array[KEYS[key]])):
        described = as_device_array(owner, "u")
        assert described.owner is owner
        assert described.device == 0
        np.testing.assert_array_equal(seen(described), host[KEYS[key]])
        np.testing.assert_array_equal(described.as_cupy().get(), host[KEYS[key]])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "f2", BFLOAT16])
def test_tensors_are_seen_in_place(dtype):
    tensor = torch_stand_in.tensor(numbers(dtype))
    stand_in.machine.wait_for(torch_stand_in.STREAM)
    described = as_device_array(tensor.permute((2, 0, 1)), "u")
    assert described.dtype == dtype
    np.testing.assert_array_equal(seen(described), numbers(dtype).transpose(2, 0, 1))


def test_an_interface_without_strides_is_contiguous():
    array = asarray(numbers())
    stand_in.machine.wait_for(0)
    np.testing.assert_array_equal(seen(as_device_array(Interface(array, strides=None), "u")), numbers())


@pytest.mark.parametrize(("given", "meant"), [(None, None), (1, 0), (2, 2), (0x1234, 0x1234)])
def test_an_interface_names_the_stream_on_which_numbers_come(given, meant):
    assert as_device_array(Interface(asarray(numbers()), stream=given), "u").stream == meant


def test_the_gpu_of_an_interface_is_that_of_its_memory(machine):
    machine.devices = 2
    with stand_in.Device(1):
        array = asarray(numbers())
    assert as_device_array(Interface(array), "u").device == 1
    nothing = Interface(array, shape=(0,), strides=None, data=(0, False))
    assert as_device_array(nothing, "u").device == 0


def _gradients():
    tensor = torch_stand_in.tensor(numbers())
    tensor.requires_grad = True
    return tensor


def _sparse():
    tensor = torch_stand_in.tensor(numbers())
    tensor.layout = "torch.sparse_csr"
    return tensor


def _of_type(name):
    tensor = torch_stand_in.tensor(numbers())
    tensor.dtype = torch_stand_in.dtype(name)
    return tensor


TAKEN = "u must hold float32, .* or bfloat16, or integers or booleans, got {}; convert it to one of these first"


REFUSED = {
    "gradients": (_gradients, ArrayTypeError, r"u is a torch tensor that requires gradients.*u\.detach\(\)"),
    "sparse": (_sparse, ArrayTypeError, r"u must be a dense tensor, got layout torch.sparse_csr; use .to_dense\(\)"),
    **{
        name: (lambda name=name: _of_type(name), DTypeError, TAKEN.format(rf"torch\.{name}"))
        for name in ("quint8", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2", "complex32", "uint1", "bits8")
    },
    **{
        str(kind): (lambda kind=kind: stand_in.empty((2,), kind), DTypeError, TAKEN.format(re.escape(str(kind))))
        for kind in map(np.dtype, ("V2", "f4,f4", "M8[s]", "S4", "U2", "g", ml_dtypes.float8_e4m3fn, ml_dtypes.int4))
    },
    "nameless": (lambda: Interface(asarray(numbers()), typestr="|V4"), DTypeError, TAKEN.format(r"\|V4")),
    "masked": (
        lambda: Interface(asarray(numbers()), mask=1),
        ArrayTypeError,
        "u must hold all its numbers, got a mask",
    ),
    "byte order": (lambda: Interface(asarray(numbers()), typestr=">f4"), DTypeError, "byte order of the GPU, got >f4"),
    "not at multiples": (
        lambda: asarray(np.arange(9, dtype="u1"))[1:].view(np.dtype("f4")),
        ArrayTypeError,
        "u must have its numbers of float32 at multiples of 4 bytes in memory, got address 0x.*1 and strides",
    ),
    "complex numbers at half of theirs": (
        lambda: asarray(np.arange(3.0))[1:].view(np.dtype("c16")),
        ArrayTypeError,
        "complex128 at multiples of 16 bytes",
    ),
    "steps of half a number": (
        lambda: Interface(asarray(numbers("f4")), strides=(80, 20, 2)),
        ArrayTypeError,
        r"multiples of 4 bytes in memory, got address 0x.* and strides \(80, 20, 2\); pass a copy",
    ),
    **{
        f"{key} {value!r}": (
            lambda key=key, value=value: Interface(asarray(numbers()), **{key: value}),
            ArrayTypeError,
            "u must have a __cuda_array_interface__ with shape, typestr and data, got Interface; convert",
        )
        for key, value in (
            ("shape", "345"),
            ("shape", (3, 4, -5)),
            ("shape", (3.0,)),
            ("strides", (4, 4)),
            ("strides", "abc"),
            ("data", (1, False, 0)),
            ("data", ("1", False)),
        )
    },
    "nothing said": (
        lambda: SimpleNamespace(__cuda_array_interface__={}),
        ArrayTypeError,
        "u must have a __cuda_array_interface__ with shape, typestr and data, got SimpleNamespace; convert",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_hold_more_than_numbers_are_refused(name):
    make, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        as_device_array(make(), "u")


def test_conjugate_tensors_are_resolved():
    complex_numbers = (numbers() + 1j).astype("c8")
    tensor = torch_stand_in.tensor(complex_numbers).conj()
    described = as_device_array(tensor, "u")
    stand_in.machine.wait_for(torch_stand_in.STREAM)
    np.testing.assert_array_equal(seen(described), complex_numbers.conj())


@pytest.mark.parametrize("source", ["f2", BFLOAT16, "i4", "f4"])
def test_numbers_are_converted_as_by_numpy(source):
    host = np.array([0, 1, -2.5, 1e-40, 3e38, np.inf, -np.inf, np.nan, -0.0]) if source != "i4" else np.arange(9)
    with np.errstate(over="ignore"):
        host = host.astype(source).reshape(3, 3).T
    for target in ("f4", "f8", "c8"):
        converted = uploaded(host).converted(np.dtype(target)).as_cupy().get()
        np.testing.assert_array_equal(converted, host.astype("f4" if source != "i4" else "i4").astype(target))
        assert converted.dtype == target


def test_all_values_of_bfloat16_are_converted_exactly():
    host = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(uploaded(host).converted(np.dtype("f4")).as_cupy().get(), host.astype("f4"))


def test_a_type_of_its_own_is_left_alone():
    described = as_device_array(asarray(numbers()), "u")
    assert described.converted(np.dtype("f4")) is described


def test_copies_keep_the_order_of_axes():
    described = as_device_array(asarray(numbers()).transpose((2, 0, 1)), "u")
    copy = described.copied()
    assert copy.address != described.address
    assert copy.strides == described.strides
    np.testing.assert_array_equal(copy.as_cupy().get(), numbers().transpose(2, 0, 1))


@pytest.mark.parametrize(("given", "shape"), [((5,), (3, 4, 5)), ((4, 1), (3, 4, 5)), ((3, 1, 5), (3, 4, 5))])
def test_views_are_broadcast_and_taken_as_numpy_does(given, shape):
    host = np.arange(np.prod(given), dtype="f4").reshape(given)
    described, expected = uploaded(host).broadcast_to(shape), np.broadcast_to(host, shape)
    stand_in.machine.wait_for(0)
    np.testing.assert_array_equal(seen(described), expected)
    for axis in range(3):
        np.testing.assert_array_equal(seen(described.taken(axis, 2)), expected.take(2, axis))


def test_addresses_overlap_where_memory_does():
    array = asarray(numbers())
    whole, front, back = (as_device_array(view, "u").addresses() for view in (array, array[:2], array[2:, ::-1]))
    assert np.shares_memory(whole, front)
    assert np.shares_memory(whole, back)
    assert not np.shares_memory(front, back)


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("dtype", ["f4", BFLOAT16])
def test_new_arrays_have_the_order_of_axes_of_the_inputs(tensors, dtype):
    like = as_device_array(asarray(numbers()).transpose((1, 2, 0)), "u")
    made = empty_like(like.shape, np.dtype(dtype), tensors, 0, like)
    assert (made.library, made.dtype, made.shape) == ("torch" if tensors else "cupy", dtype, like.shape)
    assert [step * 4 // made.dtype.itemsize for step in made.strides] == list(like.strides)
    other = empty_like((2, 3), np.dtype(dtype), tensors, 0, like)
    assert other.strides == (3 * other.dtype.itemsize, other.dtype.itemsize)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "complex64"])
def test_torch_itself_tells_what_the_stand_in_tells(name, monkeypatch):
    monkeypatch.undo()
    import torch

    tensor = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5).to(getattr(torch, name)).permute(2, 0, 1)[1:, ::2]
    described = as_device_array(tensor, "u")
    np.testing.assert_array_equal(seen(described), numbers(np.dtype(name)).transpose(2, 0, 1)[1:, ::2])
    conjugate = as_device_array((tensor.to(torch.complex64) * 1j).conj(), "u")
    np.testing.assert_array_equal(seen(conjugate), -1j * tensor.to(torch.complex64).numpy())


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy isn't installed")
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_cupy_itself_tells_what_the_stand_in_tells(name, monkeypatch):
    monkeypatch.undo()
    import cupy

    def over_host(array):  # what needs no GPU until its numbers are asked for
        memory = cupy.cuda.UnownedMemory(array.ctypes.data, array.nbytes, array, 0)
        return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0), array.strides)

    host = numbers(np.dtype(name))
    for key in KEYS.values():
        described = as_device_array(over_host(host)[key].transpose(), "u")
        np.testing.assert_array_equal(seen(described), host[key].transpose())
        again = described.bits()
        assert (again.shape, again.strides, again.data.ptr) == (described.shape, described.strides, described.address)
        assert again.dtype == (np.uint16 if name == "bfloat16" else name)
        assert described.as_cupy().dtype == name
    stream = foreign(0x1234)
    assert isinstance(stream, cupy.cuda.Stream)
    assert stream.ptr == 0x1234
    del stream  # is left to its owner: pytest would tell of an attempt to end it, which fails without a driver
    error = cupy.cuda.compiler.CompileException("log", "source", "name", ("-DX",))
    assert (error.get_message(), error.options) == ("log", ("-DX",))
    assert cupy.RawModule(code="", options=("-DX",), backend="nvrtc").get_function.__doc__
