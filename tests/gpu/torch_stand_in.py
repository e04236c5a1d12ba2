"""A stand-in for what recfact uses of torch on a GPU: tensors in the memory of CuPy's stand-in, and torch's stream."""

from __future__ import annotations

from math import prod
from types import ModuleType, SimpleNamespace

import numpy as np
from gpu import stand_in
from gpu.late_machine import machine, numbers_at

from recfact.number_types import BFLOAT16

STREAM = 0x7C00  # the handle of torch's current stream


class dtype:  # noqa: N801  # torch's name
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


KINDS = {
    name: dtype(name)
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint8", "int16", "int64")
}


class Tensor:
    __module__ = "torch"
    is_sparse = False
    layout = "torch.strided"
    requires_grad = False
    conjugate = False
    is_nested = False
    __torch_dispatch__ = None
    written = 0

    def __init__(self, memory, address, shape, strides, kind, device):
        self.memory, self.address, self.shape, self.strides, self.dtype = memory, address, shape, strides, kind
        self.device = SimpleNamespace(type="cuda", index=device)

    @property
    def number_type(self):
        return np.dtype(self.dtype.name)

    def stride(self):
        return self.strides

    def data_ptr(self):
        return self.address

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return False

    def resolve_conj(self):
        if not self.conjugate:
            return self
        resolved = empty(self.shape, dtype=self.dtype, device=f"cuda:{self.device.index}")
        source, target = self.place, resolved.place
        put(lambda: np.copyto(numbers_at(*target), numbers_at(*source).conj()))
        return resolved

    def resolve_neg(self):
        return self

    def conj(self):
        view = Tensor(self.memory, self.address, self.shape, self.strides, self.dtype, self.device.index)
        view.conjugate = True
        return view

    def view(self, kind):
        assert self.dtype is KINDS["int16"]
        return Tensor(self.memory, self.address, self.shape, self.strides, kind, self.device.index)

    def permute(self, order):
        shape, strides = (tuple(values[k] for k in order) for values in (self.shape, self.strides))
        return Tensor(self.memory, self.address, shape, strides, self.dtype, self.device.index)

    def __setitem__(self, places, values):
        assert places is Ellipsis
        target, source = self.place, values.place if isinstance(values, Tensor) else None
        put(lambda: np.copyto(numbers_at(*target), values if source is None else numbers_at(*source)))

    def sum(self, axis):
        return self._computed(self.shape[:axis] + self.shape[axis + 1 :], self.dtype, lambda own: own.sum(axis))

    def to(self, kind):
        return self._computed(self.shape, kind, lambda own: own.astype(kind.name))

    def _computed(self, shape, kind, function):
        result = empty(shape, dtype=kind, device=f"cuda:{self.device.index}")
        put(lambda: np.copyto(numbers_at(*result.place), function(numbers_at(*self.place))))
        return result

    @property
    def place(self):
        kind = self.number_type
        return self.address, self.shape, tuple(step * kind.itemsize for step in self.strides), kind

    def numpy(self):
        """What ``.cpu().numpy()`` would give, of bfloat16 as well: waits for torch's stream."""
        machine.wait_for(STREAM)
        return numbers_at(*self.place).copy()


def put(action):
    machine.queue(STREAM).work.append(action)


def empty(shape, *, dtype, device):
    kind = np.dtype(dtype.name)
    with stand_in.Device(int(device.removeprefix("cuda:"))):
        memory = stand_in.Memory(prod(shape) * kind.itemsize)
    strides = tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
    return Tensor(memory, memory.ptr, tuple(shape), strides, dtype, memory.device_id)


def tensor(numbers, device=0):
    """Return a tensor with these numbers, which come on torch's stream."""
    name = "bfloat16" if numbers.dtype == BFLOAT16 else numbers.dtype.name
    made = empty(numbers.shape, dtype=KINDS[name], device=f"cuda:{device}")
    kept = numbers.copy()
    put(lambda place=made.place: np.copyto(numbers_at(*place), kept))
    return made


def from_dlpack(array):
    """Share the memory of a CuPy array; a stream other than torch's would be waited for."""
    assert machine.stream == STREAM
    assert array.dtype != BFLOAT16
    strides = tuple(step // array.dtype.itemsize for step in array.strides)
    return Tensor(array, array.data.ptr, array.shape, strides, KINDS[array.dtype.name], array.data.device_id)


def count_write(tensor):
    tensor.written += 1


def module():
    torch = ModuleType("torch")
    vars(torch).update(KINDS, Tensor=Tensor, empty=empty, from_dlpack=from_dlpack, strided="torch.strided")
    torch.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=STREAM))
    torch.is_grad_enabled = lambda: True
    torch.compiler = SimpleNamespace(is_compiling=lambda: False)
    torch.jit = SimpleNamespace(is_tracing=lambda: False)
    torch.autograd = SimpleNamespace(
        forward_ad=SimpleNamespace(unpack_dual=lambda tensor: SimpleNamespace(tangent=None)),
        graph=SimpleNamespace(increment_version=count_write),
    )
    return torch
