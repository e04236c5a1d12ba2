"""A stand-in for what recfact uses of CuPy, without a GPU: arrays, streams and memory of a machine that is late."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
from gpu.late_machine import NULL, machine, numbers_at
from gpu.stand_in_kernels import CompileException, RawModule

from recfact.gpu import compiler, host_arrays, run, tuned
from recfact.gpu.availability import HEADERS, require
from recfact.number_types import BFLOAT16

VERSION = 13000


class CUDARuntimeError(RuntimeError):
    pass


class Stream:
    null: Stream

    def __init__(self, null=False, non_blocking=False):
        machine.streams_made += not null
        self.ptr = NULL if null else 0x5000 + machine.streams_made
        self.device_id = -1 if null else machine.device

    @classmethod
    def from_external(cls, obj):
        version, handle = obj.__cuda_stream__()
        assert version == 0
        stream = cls.__new__(cls)
        stream.ptr, stream.device_id, stream.foreign = handle, -1, obj
        return stream

    def __enter__(self):
        assert self.device_id in (-1, machine.device)
        machine.streams.append(self)
        return self

    def __exit__(self, *_):
        machine.streams.pop()

    def record(self, event=None):
        event = event or Event()
        queue = machine.queue(self.ptr)
        event.stream, event.queue, event.count = self.ptr, queue, len(queue.work)
        return event

    def wait_event(self, event):
        machine.waits.append((self.ptr, event.stream))
        queue, count = event.queue, event.count
        machine.put(lambda: queue.run_until(count), self.ptr)

    def synchronize(self):
        machine.wait_for(self.ptr)

    def is_capturing(self):
        assert self.ptr != NULL  # CUDA refuses to tell while another stream is captured
        return self.ptr in machine.captured


Stream.null = Stream(null=True)


class Event:
    def __init__(self, block=False, disable_timing=False):
        self.queue, self.count = None, 0


class Device:
    def __init__(self, device=None):
        self.id = machine.device if device is None else device

    def __enter__(self):
        self.before = machine.device
        machine.current.device = self.id
        return self

    def __exit__(self, *_):
        machine.current.device = self.before

    @property
    def compute_capability(self):
        return machine.capabilities[self.id]

    @property
    def attributes(self):
        return {"MultiProcessorCount": machine.multiprocessors}

    @property
    def mem_info(self):
        return machine.free_memory - machine.memory_taken, machine.total_memory


class Memory:
    """Memory of a pool, which goes back there when nothing refers to it any more."""

    def __init__(self, size):
        self.ptr, pool = machine.allocate(size)
        self.size, self.device_id = size, machine.device
        weakref.finalize(self, machine.pools[pool].append, self.ptr)


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.owner = ptr, size, owner
        self.device_id = machine.device_of(ptr) if device_id == -1 else device_id


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def memset_async(self, value, size, stream=None):
        machine.put(lambda to=self.ptr: raw(to, size).fill(value), stream and stream.ptr)

    def copy_from_host_async(self, mem, size, stream=None):
        machine.put(lambda to=self.ptr: np.copyto(raw(to, size), raw(mem, size)), stream and stream.ptr)

    def copy_to_host_async(self, mem, size, stream=None):
        machine.put(lambda start=self.ptr: np.copyto(raw(mem, size), raw(start, size)), stream and stream.ptr)


def raw(address, size):
    return numbers_at(address, (size,), (1,), np.dtype(np.uint8))


class PinnedMemoryPointer(np.ndarray):
    @property
    def ptr(self):
        return self.ctypes.data


def alloc_pinned_memory(size):
    return np.full(size, 255, np.uint8).view(PinnedMemoryPointer)


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):  # noqa: N801  # CuPy's name
    __module__ = "cupy"

    def __init__(self, shape, dtype=float, memptr=None, strides=None):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.strides = tuple(strides) if strides is not None else np.empty(self.shape, self.dtype).strides
        self.data = memptr or MemoryPointer(Memory(prod(self.shape) * self.dtype.itemsize), 0)

    @property
    def ndim(self):
        return len(self.shape)

    def __len__(self):
        return self.shape[0]

    @property
    def place(self):
        """Where it is: all that work on a stream knows of it, so that memory may go back to its pool before."""
        return self.data.ptr, self.shape, self.strides, self.dtype

    @property
    def now(self):
        """The numbers as they are now."""
        return numbers_at(*self.place)

    @property
    def __cuda_array_interface__(self):
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "stream": machine.stream or 1,
        }

    def _like(self, view):
        """Return a view of the memory at the place of a NumPy view of it."""
        offset = view.ctypes.data - self.data.mem.ptr
        return ndarray(view.shape, view.dtype, MemoryPointer(self.data.mem, offset), view.strides)

    def __getitem__(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            assert not isinstance(part, list | np.ndarray), "indices of the host aren't sent unasked"
            if isinstance(part, slice):
                np.array([end for end in (part.start, part.stop, part.step) if end is not None], np.intp)  # overflows
        if not any(isinstance(part, ndarray) for part in parts):
            return self._like(self.now[key if any(part is ... for part in parts) else (*parts, ...)])
        rows = [part for part in parts if isinstance(part, ndarray)]
        samples = tuple(np.zeros(part.shape, int) if isinstance(part, ndarray) else part for part in parts)
        return computed(lambda numbers, *rows: numbers[filled(parts, rows)], self.now[samples].shape, self, *rows)

    def transpose(self, axes):
        return self._like(self.now.transpose(axes))

    def view(self, dtype):
        return self._like(self.now.view(dtype))

    def copy(self, order="C"):
        return self._computed(self.dtype, order, lambda numbers: numbers)

    def astype(self, dtype, copy=True):
        assert self.dtype != BFLOAT16 or dtype == BFLOAT16, "CuPy isn't asked to convert from bfloat16"
        if not copy and self.dtype == dtype:
            return self
        return self._computed(np.dtype(dtype), "K", lambda numbers: numbers.astype(dtype))

    def conj(self):
        return np.conjugate(self)

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        view = self.now.reshape(shape)
        if np.may_share_memory(view, self.now):
            return self._like(view)
        result = ndarray(shape, self.dtype)
        result._write(lambda numbers: numbers.reshape(shape), self)
        return result

    def swapaxes(self, one, other):
        return self._like(self.now.swapaxes(one, other))

    def sum(self, axis, keepdims=False):
        result = ndarray(self.now.sum(axis=axis, keepdims=keepdims).shape, self.dtype)
        result._write(lambda numbers: numbers.sum(axis=axis, keepdims=keepdims), self)
        return result

    def repeat(self, repeats, axis):
        result = ndarray(self.now.repeat(repeats, axis).shape, self.dtype)
        result._write(lambda numbers: numbers.repeat(repeats, axis), self)
        return result

    def __setitem__(self, key, value):
        parts = key if isinstance(key, tuple) else (key,)
        rows = [part for part in parts if isinstance(part, ndarray)]
        if rows:

            def scatter(numbers, value, *rows):
                numbers = numbers.copy()
                numbers[filled(parts, rows)] = value
                return numbers

            self._write(scatter, self, value, *rows)
            return
        if not (isinstance(value, ndarray) and value.place == self[key].place):  # what += has done already
            self[key]._write(lambda numbers: numbers, value)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None):
        if method != "__call__" or any(isinstance(value, np.ndarray) for value in inputs):
            return NotImplemented
        samples = [np.empty(value.shape, value.dtype) if isinstance(value, ndarray) else value for value in inputs]
        with np.errstate(all="ignore"):
            sample = ufunc(*samples)
        assert BFLOAT16 not in (sample.dtype, self.dtype), "CuPy isn't asked to compute in bfloat16"
        result = out[0] if out else ndarray(sample.shape, sample.dtype)
        result._write(ufunc, *inputs)
        return result

    def __array_function__(self, function, types, args, kwargs):
        if not all(issubclass(kind, ndarray) for kind in types):
            return NotImplemented
        if function in VIEWS:
            return args[0]._like(function(args[0].now, *args[1:], **kwargs))
        return ALIKE[function](*args, **kwargs) if function in ALIKE else NotImplemented

    def _write(self, function, *inputs):
        """Put on the current stream what a function of arrays and scalars gives."""
        places = [value.place if isinstance(value, ndarray) else None for value in inputs]

        def write(target=self.place):
            known = (
                value if place is None else numbers_at(*place) for value, place in zip(inputs, places, strict=True)
            )
            with np.errstate(all="ignore"):
                numbers_at(*target)[...] = function(*known)

        inputs = [None if place else value for value, place in zip(inputs, places, strict=True)]
        machine.put(write)

    def _computed(self, dtype, order, function):
        assert self.data.device_id == machine.device
        result = ndarray(self.shape, dtype, None, np.empty_like(self.now, dtype, order=order).strides)
        result._write(function, self)
        return result

    def get(self):
        machine.wait_for(machine.stream)
        return self.now.copy()


def empty(shape, dtype=float):
    return ndarray((shape,) if isinstance(shape, int) else shape, dtype)


def zeros(shape, dtype=float):
    array = empty(shape, dtype)
    machine.put(lambda place=array.place: numbers_at(*place).fill(0))
    return array


def zeros_like(array, shape=None):
    return zeros(array.shape if shape is None else shape, array.dtype)


def full_like(array, value, shape, order):
    assert order == "C"
    result = empty(shape, array.dtype)
    machine.put(lambda place=result.place: numbers_at(*place).fill(value))
    return result


def ones_like(array):
    return full_like(array, 1, array.shape, "C")


def empty_like(array, dtype=None):
    return ndarray(array.shape, dtype or array.dtype, None, np.empty_like(array.now, dtype).strides)


def computed(function, shape, like, *rest, dtype=None):
    """Return a new array of what a function of arrays and numbers gives, when its stream comes to it."""
    result = empty(shape, dtype or like.dtype)
    result._write(function, like, *rest)
    return result


def filled(parts, rows):
    """Return an index with the numbers of its arrays in their place."""
    known = iter(rows)
    return tuple(next(known) if isinstance(part, ndarray) else part for part in parts)


def joined(function):
    def join(arrays, axis=0):
        arrays = list(arrays)
        shape = function([array.now for array in arrays], axis).shape
        return computed(lambda *numbers: function(numbers, axis), shape, *arrays)

    return join


def where(condition, this, other):
    values = [value if isinstance(value, ndarray) else asarray(np.array(value)) for value in (condition, this, other)]
    like = next(value for value in (this, other) if isinstance(value, ndarray))
    shape = np.broadcast_shapes(*(value.shape for value in values))
    return computed(np.where, shape, *values, dtype=like.dtype)


def view_by(function):
    return lambda array, *rest: array._like(function(array.now, *rest))


VIEWS = {np.broadcast_to, np.moveaxis, np.expand_dims, np.flip}
ALIKE = {np.zeros_like: zeros_like, np.full_like: full_like, np.empty_like: empty_like}
ALIKE |= {np.concatenate: joined(np.concatenate), np.stack: joined(np.stack), np.shape: lambda array: array.shape}


def result_type(*values):
    return np.result_type(*(value.dtype if isinstance(value, ndarray) else value for value in values))


def asarray(host, dtype=None):
    if isinstance(host, ndarray):
        return host if dtype is None else host.astype(dtype, copy=False)
    if dtype is not None:
        host = np.asarray(host, dtype)
    assert isinstance(host, np.ndarray)
    assert host.dtype != BFLOAT16, "CuPy isn't asked to hold bfloat16 of the host"
    array, staged = empty(host.shape, host.dtype), host.copy()
    machine.put(lambda place=array.place: np.copyto(numbers_at(*place), staged))
    return array


def on_gpu(host):
    """Return a CuPy array with these numbers, of bfloat16 as well."""
    if host is None or host.dtype != BFLOAT16:
        return host if host is None else asarray(host)
    return asarray(host.view(np.uint16)).view(BFLOAT16)


class Interface:
    """An array of a library that recfact doesn't know."""

    def __init__(self, array, **changes):
        interface = array.__cuda_array_interface__
        self.array, self.__cuda_array_interface__ = array, {**interface, **changes}


def modules(folder: Path) -> dict[str, ModuleType]:
    """Return the stand-in's modules by name, with a toolkit in `folder` that has empty headers."""
    for header in HEADERS:
        path = folder / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    cupy.__file__ = str(folder / "cupy" / "__init__.py")
    cupy.__spec__ = SimpleNamespace(name="cupy")
    vars(cupy).update(cuda=cuda, ndarray=ndarray, empty=empty, zeros=zeros, asarray=asarray, RawModule=RawModule)
    vars(cupy).update(where=where, empty_like=empty_like, zeros_like=zeros_like, ones_like=ones_like)
    cupy.result_type = result_type
    for function in VIEWS:
        setattr(cupy, function.__name__, view_by(function))
    for function in (np.concatenate, np.stack):
        setattr(cupy, function.__name__, ALIKE[function])
    for made in (Stream, Event, Device, UnownedMemory, MemoryPointer, alloc_pinned_memory):
        setattr(cuda, made.__name__, made)
    cuda.get_current_stream = lambda: (machine.streams or [Stream.null])[-1]
    cuda.get_cuda_path = lambda: str(folder)
    cuda.compiler = SimpleNamespace(CompileException=CompileException)
    cuda.nvrtc = SimpleNamespace(getVersion=lambda: (VERSION // 1000, 0))
    cuda.runtime = SimpleNamespace(
        is_hip=False,
        driverGetVersion=lambda: VERSION,
        runtimeGetVersion=lambda: VERSION,
        getDeviceCount=lambda: machine.devices,
        getDevice=lambda: machine.device,
        getDeviceProperties=lambda number: {
            "name": b"stand-in",
            "major": int(machine.capabilities[number][:-1]),
            "minor": int(machine.capabilities[number][-1]),
        },
        CUDARuntimeError=CUDARuntimeError,
    )
    return {"cupy": cupy, "cupy.cuda": cuda}


@contextmanager
def fresh_machine():
    """Start with a machine on which nothing has run, and leave nothing behind."""
    machine.__init__()
    forget()
    yield machine
    forget()


def forget():
    """Empty what recfact keeps for the life of a process."""
    for kept in (require, run.prepare, tuned.card, tuned.winners, run.device_of, host_arrays._streams):
        kept.cache_clear()
    compiler._functions.clear()
