"""Solves of the host's arrays on a GPU: segments of time are copied there and back while others are computed.

Two segments are in work at any time, each in a slot of its own: a stream, memory of the GPU, and pinned memory of the
host, which the GPU copies by itself. A segment needs something of the steps before it. For the full recurrence this is
the last state, which stays on the GPU. For a window these are the steps that it reaches back to, which are sent again.

The cuts of time decide which kernel runs and how it rounds. So they follow from shapes, number types and the GPU, not
from the memory that happens to be free. If that is too little for two slots, one slot gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle
from math import prod
from typing import Any, NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.errors import DeviceError
from recfact.gpu.cuda_streams import follow
from recfact.gpu.device_arrays import DeviceArray, empty_like, laid_out, of_cupy, uploaded
from recfact.gpu.run import run, scratch_bytes
from recfact.gpu.sequences import of_sequences
from recfact.gpu.solves import Solve, blocks_of
from recfact.number_types import DType, accumulator
from recfact.windows import Window

SLOTS = 2
SEGMENT_BYTES = 64 << 20  # of a slot: copies of this size run at full speed, and a few of them fill the pipeline
MEMORY_SHARE = 0.8  # share of the GPU's memory, for all slots
FULL_PERIOD = 256  # steps; segments of the full recurrence are multiples of it, so copies stay aligned
HALO_SHARE = 8  # if there is memory for it, a segment has at least so many times the steps that it sends again


def solve_segments(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    axis: int,
    reverse: bool,
    window: Window,
    precision: str,
    segment_bytes: int | None = None,
) -> None:
    """Solve into `x` on CuPy's current GPU, and wait for the result.

    Parameters
    ----------
    a, u, x : ndarray
        Coefficients, inputs and result, of number types that kernels take together. The first two broadcast to the
        shape of the result. The result may be the inputs themselves.
    x0 : ndarray or None
        Initial states, in the type of the computation.
    axis : int
        Time, counted from the front.
    reverse, window, precision
        As for `recfact.gpu.solve`.
    segment_bytes : int, optional
        Memory of a slot. The default is `SEGMENT_BYTES`, more for a window that reaches far, and less if the GPU has
        less.

    Raises
    ------
    DeviceError
        If CUDA's compiler doesn't take a kernel, or if there is no memory for a segment. All resources are requested
        before anything is written to `x`. If the GPU fails later, `x` holds the segments that came before.
    """
    import cupy

    if x.size == 0:
        return
    n = x.shape[axis]
    a, u = (array.reshape((1,) * (x.ndim - array.ndim) + array.shape) for array in (a, u))
    blocks = blocks_of(window, n)
    carries = blocks.terms is None
    lag = int(reverse and carries)
    if lag:
        # From its other end a state can be carried on. There a coefficient leads into the step after its own.
        a, u, x = (np.flip(array, axis) for array in (a, u, x))
        reverse = False
    dtype = accumulator(x.dtype) if carries else x.dtype  # states that are carried on aren't rounded
    halo = 0 if blocks.terms is None else blocks.length * blocks.terms
    period, least = (FULL_PERIOD, 1) if carries else (blocks.length, blocks.length)
    step_bytes = x.size // n * dtype.itemsize + sum(_steps(v, axis, 0, 1).nbytes for v in (a, u) if v.shape[axis] == n)
    initial = None if x0 is None else uploaded(x0)
    carrier = cupy.empty(x.shape[:axis] + x.shape[axis + 1 :] if carries else 0, dtype)

    def sizes(steps: int, start: int) -> tuple[int, ...]:
        """Return the bytes of a segment's coefficients, inputs, result and scratch, and compile its kernels."""
        shapes = (_lengthened(array.shape, axis, steps) for array in (a, u, x))
        arrays = [laid_out(shape, kind) for shape, kind in zip(shapes, (a.dtype, u.dtype, dtype), strict=True)]
        before = initial if start == 0 else of_cupy(carrier) if carries else None
        scratch = scratch_bytes(Solve(arrays[0], arrays[1], arrays[2], before, axis, window, reverse, precision))
        return *(prod(array.shape) * array.dtype.itemsize for array in arrays), scratch

    def needed(steps: int) -> int:
        return sum(sizes(steps, 0))

    length = _segment_length(n, needed, step_bytes, halo, period, least, segment_bytes)
    cuts = list(_segments(n, length, halo, reverse))
    kinds = {(stop - start, min(start, 1)) for start, _, _, stop in cuts}
    slots = _slots(len(cuts), [max(same) for same in zip(*(sizes(*kind) for kind in kinds), strict=True)])
    for slot in slots:
        follow(slot.stream, cupy.cuda.get_current_stream())  # others may still use this memory on that stream
    if halo > (len(slots) - 1) * length and np.may_share_memory(x, u):
        u = u.copy()  # u already holds results when a later segment sends its steps again
    state, carried = initial, None
    try:
        for (start, first, last, stop), slot in zip(cuts, cycle(slots), strict=False):
            slot.collect()
            with slot.stream:
                coefficients = slot.a.send(_coefficients(a, axis, start, stop, lag))
                inputs = slot.u.send(_steps(u, axis, start, stop))
                result = slot.x.on_gpu(_lengthened(x.shape, axis, stop - start), dtype)
                if carried is not None:
                    slot.stream.wait_event(carried)
                before = state if carries or start == 0 else None
                run(Solve(coefficients, inputs, result, before, axis, window, reverse, precision), slot.scratch)
                if carries:
                    carrier[...] = result.taken(axis, stop - start - 1).as_cupy()  # the slot may be the next one's
                    state, carried = of_cupy(carrier), slot.stream.record()
                staged = slot.x.fetch(result)
            slot.kept = _steps(x, axis, first, last), _steps(staged, axis, first - start, last - start)
        for slot in slots:
            slot.collect()
    finally:
        for slot in slots:
            slot.stream.synchronize()  # before its memory is given back


def solve_sequences(
    a: Array,
    u: Array,
    x: Array,
    x0: Array | None,
    axis: int,
    reverse: bool,
    window: Window,
    precision: str,
    offsets: Array,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Solve sequences that lie one behind the other, as `solve_segments` solves one.

    Neighbours that take no more than `segment_bytes` are on the GPU together. A longer one comes there in segments.
    """
    if x.size == 0:
        return
    n = x.shape[axis]
    a, u = (array.reshape((1,) * (x.ndim - array.ndim) + array.shape) for array in (a, u))
    if x0 is not None:
        x0 = np.broadcast_to(x0, (*x.shape[:axis], len(offsets) - 1, *x.shape[axis + 1 :]))
    step_bytes = sum(_steps(array, axis, 0, 1).nbytes for array in (a, u, x) if array.shape[axis] == n)
    first = 0
    while first < len(offsets) - 1:
        room = int(offsets[first]) + segment_bytes // step_bytes
        last = max(first + 1, int(np.searchsorted(offsets, room, "right")) - 1)
        start, end = int(offsets[first]), int(offsets[last])
        own = [_steps(array, axis, start, end) for array in (a, u, x)]
        entering = None if x0 is None else _steps(x0, axis, first, last)
        if last == first + 1:
            entering = None if entering is None else entering.take(0, axis)
            solve_segments(own[0], own[1], own[2], entering, axis, reverse, window, precision)
        else:
            on_gpu = [uploaded(np.ascontiguousarray(array)) for array in own[:2]]
            result = empty_like(own[2].shape, x.dtype, False, on_gpu[0].device, on_gpu[1])
            before = None if entering is None else uploaded(np.ascontiguousarray(entering))
            asked = Solve(on_gpu[0], on_gpu[1], result, before, axis, window, reverse, precision)
            run(of_sequences(asked, offsets[first : last + 1] - start))
            own[2][...] = result.bits().get().view(x.dtype)
        first = last


def _slots(segments: int, sizes: list[int]) -> list[Slot]:
    """Return a slot for each segment, up to `SLOTS`, or as many as there is memory for."""
    import cupy

    slots: list[Slot] = []
    for stream in _streams(cupy.cuda.Device().id)[:segments]:
        try:
            slots.append(Slot(stream, *sizes))
        except MemoryError as error:
            if not slots:
                raise DeviceError(
                    f"solving these arrays of the host takes {sum(sizes)} bytes of the GPU's memory and as many of the "
                    f"host's pinned memory, got: {error}; free other memory, or solve on the host"
                ) from error
            break
    return slots


@cache
def _streams(device: int) -> tuple[Any, ...]:
    """Return a stream for each slot: the same for all solves on a GPU, because CuPy keeps memory for each stream."""
    import cupy

    with cupy.cuda.Device(device):
        return tuple(cupy.cuda.Stream(non_blocking=True) for _ in range(SLOTS))


class Segment(NamedTuple):
    """A segment of time: the steps `start` to `stop` are computed, and `first` to `last` of them are kept."""

    start: int
    first: int
    last: int
    stop: int


def _segments(n: int, length: int, halo: int, reverse: bool) -> Iterator[Segment]:
    for first in range(0, n, length):
        last = min(n, first + length)
        yield Segment(first if reverse else max(0, first - halo), first, last, min(n, last + halo) if reverse else last)


def _segment_length(
    n: int,
    needed: Callable[[int], int],
    step_bytes: int,
    halo: int,
    period: int,
    least: int,
    segment_bytes: int | None,
) -> int:
    """Return the steps of a segment without those sent again: all, whole periods, or as many as there is room for.

    There are at least as many as in a block of the window, however much room they take. `needed` returns the bytes of
    some steps with the scratch of their kernel, which isn't a multiple of `step_bytes`.
    """
    import cupy

    if segment_bytes is None:
        _, total = cupy.cuda.Device().mem_info
        wanted = max(SEGMENT_BYTES, (1 + HALO_SHARE) * halo * step_bytes)
        segment_bytes = min(int(MEMORY_SHARE * total) // SLOTS, wanted)
    most = min(n, segment_bytes // step_bytes - halo)
    while most > least and needed(min(n, most + halo)) > segment_bytes:
        most -= -(-most // 8)
    if most >= n - halo:
        return n
    return most - most % period if most >= period else max(least, most)


def _lengthened(shape: tuple[int, ...], axis: int, steps: int) -> tuple[int, ...]:
    """Return the shape of some steps of an array, or of its only step if that stands for all."""
    return shape if shape[axis] == 1 else (*shape[:axis], steps, *shape[axis + 1 :])


def _steps(array: Array, axis: int, start: int, stop: int) -> Array:
    """Return some steps of an array, or its only step if that stands for all."""
    return array if array.shape[axis] == 1 else array[(slice(None),) * axis + (slice(start, stop),)]


def _coefficients(a: Array, axis: int, start: int, stop: int, lag: int) -> Array:
    """Return the coefficients that lead into some steps. They stand `lag` places before the steps."""
    if start >= lag or a.shape[axis] == 1:
        return _steps(a, axis, start - lag, stop - lag)
    return np.concatenate((_steps(a, axis, 0, lag), _steps(a, axis, 0, stop - lag)), axis)  # the first isn't read


class Slot:
    """The resources of a segment: a stream, a buffer for each array, and scratch for its kernel, of given bytes."""

    def __init__(self, stream: Any, a: int, u: int, x: int, scratch: int) -> None:
        import cupy

        self.stream = stream
        self.scratch = cupy.empty(scratch, np.uint8)
        self.a, self.u, self.x = Buffer(a), Buffer(u), Buffer(x)
        self.kept: tuple[Array, Array] | None = None  # the place for results, and their place in the buffer

    def collect(self) -> None:
        """Wait for the results of the last segment, if there was one, and put them in their place."""
        if self.kept is None:
            return
        self.stream.synchronize()
        place, staged = self.kept
        with np.errstate(over="ignore"):
            place[...] = staged
        self.kept = None


class Buffer:
    """Pinned memory of the host, which the GPU can copy by itself, and as much memory of the GPU."""

    def __init__(self, size: int) -> None:
        import cupy

        self.host = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        self.memory = cupy.empty(size, np.uint8)

    def on_gpu(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        """Return the GPU's memory as an array."""
        return replace(laid_out(shape, dtype), owner=self.memory, address=self.memory.data.ptr)

    def send(self, array: Array) -> DeviceArray:
        """Start the copy of an array from the host to the GPU, on the current stream."""
        self.host[: array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        self.memory.data.copy_from_host_async(self.host.ctypes.data, array.nbytes)
        return self.on_gpu(array.shape, array.dtype)

    def fetch(self, array: DeviceArray) -> Array:
        """Start the copy of an array from the GPU to the host, on the current stream, and return its place there."""
        size = prod(array.shape) * array.dtype.itemsize
        self.memory.data.copy_to_host_async(self.host.ctypes.data, size)
        return self.host[:size].view(array.dtype).reshape(array.shape)
