"""Arrays on a GPU, from any library: where their numbers lie, and new ones of the caller's kind.

CuPy arrays, torch tensors and objects with ``__cuda_array_interface__`` are used where they are. The kernels need
addresses and strides. All three kinds tell these without a copy and without waiting for a stream. CuPy isn't asked to
compute with bfloat16, because only recent versions can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from operator import index
from types import SimpleNamespace
from typing import Any

import numpy as np

from recfact.array_functions import in_type
from recfact.arrays import Array, check_tensor, is_tensor, native
from recfact.errors import ArrayTypeError, DTypeError
from recfact.gpu.cuda_streams import check_uncaptured
from recfact.number_types import BFLOAT16, NUMBER_TYPES, DType, listed
from recfact.strides import Strided, contiguous

# Types that kernels take, or that CuPy converts to such types.
TAKEN = NUMBER_TYPES.keys() | {np.dtype(kind) for kind in "?bBhHiIlLqQ"}
LEGACY_STREAM = 1  # the null stream's other name


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray(Strided):
    """An array on a GPU.

    Parameters
    ----------
    owner : object
        The object that keeps the memory: the caller's array, or one of CuPy's.
    library : {"cupy", "torch", "interface"}
        The library it came from.
    device : int
        Number of the GPU.
    stream : int or None
        Handle of the stream on which its numbers come, if the array names one.
    writeable : bool
        Whether results may be put into it.
    """

    owner: Any = field(kw_only=True)
    library: str = field(kw_only=True)
    device: int = field(kw_only=True)
    stream: int | None = field(default=None, kw_only=True)
    writeable: bool = field(default=True, kw_only=True)

    def addresses(self) -> Array:
        """Return a NumPy array at the same addresses, only to compare them: the host can't read its numbers."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        interface = {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{self.dtype.itemsize}",
            "data": (self.address, not self.writeable),
        }
        return np.asarray(SimpleNamespace(__array_interface__=interface))

    def as_cupy(self) -> Any:
        """Return it as one of CuPy's arrays."""
        import cupy

        if 0 in self.shape:
            return cupy.empty(self.shape, self.dtype)
        reach = sum((length - 1) * abs(step) for length, step in zip(self.shape, self.strides, strict=True))
        memory = cupy.cuda.UnownedMemory(self.address, reach + self.dtype.itemsize, self.owner, self.device)
        return cupy.ndarray(self.shape, self.dtype, cupy.cuda.MemoryPointer(memory, 0), self.strides)

    def bits(self) -> Any:
        """Return it as one of CuPy's arrays: of integers for bfloat16, because CuPy can do little with bfloat16."""
        array = self.as_cupy()
        return array.view(np.uint16) if self.dtype == BFLOAT16 else array

    def converted(self, dtype: DType) -> DeviceArray:
        """Return it in another number type."""
        if self.dtype == dtype:
            return self
        check_uncaptured("converts arrays", f"pass them in {dtype}")
        return of_cupy(in_type(self.as_cupy(), dtype))

    def copied(self) -> DeviceArray:
        """Return a copy with the strides in the same order."""
        check_uncaptured("copies arrays, because out shares their memory,", "pass another out")
        return of_cupy(self.bits().copy(order="K").view(self.dtype))


def as_device_array(value: Any, name: str) -> DeviceArray:
    """Describe an array on a GPU.

    Parameters
    ----------
    value : array
        An array that is on a GPU, as `recfact.arrays.library_of` tells.
    name : str
        Of the argument, for errors.

    Raises
    ------
    ArrayTypeError
        If it holds more than its numbers, as a tensor that requires gradients does, or if it doesn't describe itself.
    DTypeError
        If recfact doesn't take its number type on a GPU.
    """
    if is_tensor(type(value)):
        return _aligned(_of_torch(value, name), name)
    import cupy

    array = of_cupy(value) if isinstance(value, cupy.ndarray) else _of_interface(value, name)
    _taken(array.dtype, array.dtype, name)
    return _aligned(array, name)


def _taken(dtype: DType | None, given: Any, name: str) -> DType:
    """Return a number type that GPUs compute in. `given` is the array's name for it."""
    if dtype not in TAKEN:
        raise DTypeError(
            f"{name} must hold {listed('or')}, or integers or booleans, got {given}; convert it to one of these first"
        )
    return dtype


def _aligned(array: DeviceArray, name: str) -> DeviceArray:
    """Return an array whose numbers lie at multiples of their size. A GPU fails at the first that doesn't."""
    size = array.dtype.itemsize
    steps = [step for length, step in zip(array.shape, array.strides, strict=True) if length > 1]
    if 0 not in array.shape and any(place % size for place in (array.address, *steps)):
        raise ArrayTypeError(
            f"{name} must have its numbers of {array.dtype} at multiples of {size} bytes in memory, got address "
            f"{array.address:#x} and strides {array.strides}; pass a copy"
        )
    return array


def of_cupy(array: Any) -> DeviceArray:
    """Describe one of CuPy's arrays."""
    place = array.dtype, array.shape, array.strides, array.data.ptr
    return DeviceArray(*place, owner=array, library="cupy", device=array.data.device_id)


def _of_torch(tensor: Any, name: str) -> DeviceArray:
    check_tensor(tensor, name)
    dtype = _taken(_number_type(tensor.dtype), tensor.dtype, name)
    tensor = tensor.resolve_conj().resolve_neg()
    strides = tuple(step * dtype.itemsize for step in tensor.stride())
    place = dtype, tuple(tensor.shape), strides, tensor.data_ptr()
    return DeviceArray(*place, owner=tensor, library="torch", device=tensor.device.index)


@cache
def _number_type(kind: Any) -> DType | None:
    """Return NumPy's dtype for one of torch's, or None if there is none."""
    try:
        return np.dtype(str(kind).removeprefix("torch."))
    except TypeError:
        return None


def _of_interface(value: Any, name: str) -> DeviceArray:
    import cupy

    try:
        interface = value.__cuda_array_interface__
        shape, dtype = tuple(map(index, interface["shape"])), np.dtype(interface["typestr"])
        address, read_only = interface["data"]
        strides = tuple(map(index, interface.get("strides") or contiguous(dtype, shape).strides))
        if min(shape, default=0) < 0 or len(strides) != len(shape):
            raise ValueError(f"shape {shape} and strides {strides} are no array's")
        address = index(address)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArrayTypeError(
            f"{name} must have a __cuda_array_interface__ with shape, typestr and data, got {type(value).__name__}; "
            "convert it with cupy.asarray"
        ) from error
    if interface.get("mask") is not None:
        raise ArrayTypeError(f"{name} must hold all its numbers, got a masked array; fill it")
    if native(dtype) != dtype:
        raise DTypeError(f"{name} must be in the byte order of the GPU, got {dtype}; convert it")
    stream = interface.get("stream")
    device = cupy.cuda.UnownedMemory(address, 0, value).device_id if address else cupy.cuda.runtime.getDevice()
    return DeviceArray(
        dtype,
        shape,
        strides,
        address,
        owner=value,
        library="interface",
        device=device,
        stream=0 if stream == LEGACY_STREAM else stream,
        writeable=not read_only,
    )


def laid_out(shape: tuple[int, ...], dtype: DType) -> DeviceArray:
    """Describe an array of the current GPU in C order that has no memory yet."""
    import cupy

    return DeviceArray(*contiguous(dtype, shape).key, owner=None, library="cupy", device=cupy.cuda.Device().id)


def uploaded(host: Array) -> DeviceArray:
    """Return a copy of a NumPy array on the current device, brought there on the current stream."""
    import cupy

    check_uncaptured("brings arrays or scalars of the host to the GPU", "pass arrays that are there")
    bits = host.view(np.uint16) if host.dtype == BFLOAT16 else host
    return of_cupy(cupy.asarray(bits).view(host.dtype))


def layout_like(shape: tuple[int, ...], dtype: DType, like: Strided) -> Strided:
    """Describe the array that `empty_like` returns."""
    order = _order(shape, like)
    stored = contiguous(dtype, tuple(shape[k] for k in order)).strides
    return Strided(dtype, shape, tuple(stored[order.index(k)] for k in range(len(shape))))


def empty_like(shape: tuple[int, ...], dtype: DType, tensors: bool, device: int, like: Strided) -> DeviceArray:
    """Return a new array. Its axes lie in memory in the same order as those of `like`.

    Parameters
    ----------
    shape, dtype
        As NumPy's.
    tensors : bool
        Make a torch tensor, in torch's memory, instead of a CuPy array.
    device : int
        Number of the GPU, the current one.
    like : Strided
        The array whose order of axes is taken, if it has the same shape.
    """
    order = _order(shape, like)
    stored, back = [shape[k] for k in order], [order.index(k) for k in range(len(shape))]
    if tensors:
        import torch

        tensor = torch.empty(stored, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
        return _of_torch(tensor.permute(back), "the result")
    import cupy

    return of_cupy(cupy.empty(stored, dtype).transpose(back))


def _order(shape: tuple[int, ...], like: Strided) -> list[int]:
    """Return the axes of a new array, the outermost in memory first."""
    axes = list(range(len(shape)))
    return sorted(axes, key=lambda k: -abs(like.strides[k])) if like.shape == shape else axes


def scratch_for(x: DeviceArray, size: int) -> Any:
    """Return bytes that a kernel may use, as a CuPy array in memory from the library of the result.

    If torch captures the solve into a graph, the graph owns them, like all memory that torch hands out meanwhile.
    """
    if x.library == "torch":
        return empty_like((size,), np.dtype(np.uint8), True, x.device, x).as_cupy()
    import cupy

    check_uncaptured("takes scratch memory from CuPy", "capture one of torch tensors, whose graphs own such memory")
    return cupy.empty(size, np.uint8)
