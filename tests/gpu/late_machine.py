"""Machines whose GPUs aren't there: streams that work as late as they may, memory in pools, a record of what was done.

Work is put on streams, as on a GPU, and done only when the host waits for a stream, and then no more than what that
stream waits for. So a missing dependence between streams gives wrong numbers, and so does a buffer that is used again
too early. Memory comes from pools, one for each stream, which hand out again at once what was returned.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from recfact.gpu.plans import Launch

NULL = 0  # the handle of the stream that is current where no other is

ALIGNMENT = 512


def numbers_at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the numbers at an address."""
    if 0 in shape:
        return np.empty(shape, dtype)
    interface = {"version": 3, "shape": shape, "strides": strides, "typestr": f"|V{dtype.itemsize}"}
    return np.asarray(SimpleNamespace(__array_interface__={**interface, "data": (address, False)})).view(dtype)


class OutOfMemoryError(MemoryError):
    """CuPy's name for it."""


class Queue:
    """The work of a stream, in its order."""

    def __init__(self) -> None:
        self.work: list[Any] = []
        self.done = 0

    def run_until(self, count: int) -> None:
        while self.done < count:
            action = self.work[self.done]
            self.done += 1
            action()


@dataclass(frozen=True)
class Recorded:
    """A launch as the kernel got it, and where."""

    launch: Launch
    device: int
    stream: int
    done: int  # launches that were through by then


@dataclass
class Machine:
    """GPUs, what is asked of them, and what was done."""

    devices: int = 1
    capabilities: dict[int, str] = field(default_factory=lambda: defaultdict(lambda: "90"))
    multiprocessors: int = 132
    free_memory: int = 1 << 30  # that others leave
    total_memory: int = 1 << 31
    most_taken: int = 0
    compiler_log: str | None = None  # what the compiler says to each kernel
    launches: list[Recorded] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)  # streams that waited, and for which
    queues: dict[int, Queue] = field(default_factory=dict)
    blocks: dict[int, tuple[np.ndarray, int]] = field(default_factory=dict)  # by address, with its device
    pools: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    captured: set[int] = field(default_factory=set)  # streams, by their handles
    current: Any = field(default_factory=threading.local)
    streams_made: int = 0
    launches_done: int = 0

    @property
    def device(self) -> int:
        return getattr(self.current, "device", 0)

    @property
    def streams(self) -> list[Any]:
        """Those that were made current on the current GPU, in this thread, and still are."""
        stacks = self.current.__dict__.setdefault("stacks", {})
        return stacks.setdefault(self.device, [])

    @property
    def stream(self) -> int:
        """The handle of the current stream."""
        return self.streams[-1].ptr if self.streams else NULL

    def queue(self, handle: int) -> Queue:
        return self.queues.setdefault(handle, Queue())

    def put(self, action: Any, handle: int | None = None) -> None:
        """Put work on a stream, the current one by default."""
        self.queue(self.stream if handle is None else handle).work.append(action)

    def wait_for(self, handle: int) -> None:
        queue = self.queue(handle)
        queue.run_until(len(queue.work))

    @property
    def memory_taken(self) -> int:
        """Bytes of the current GPU that are in use: what was returned to a pool isn't."""
        made = sum(memory.nbytes - ALIGNMENT for memory, device in self.blocks.values() if device == self.device)
        idle = sum(size * len(returned) for (device, _, size), returned in self.pools.items() if device == self.device)
        return made - idle

    def allocate(self, size: int) -> tuple[int, tuple[int, int, int]]:
        """Return the address of memory, and the pool that it goes back to."""
        rounded = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        taken = self.memory_taken + rounded
        if taken > self.free_memory:
            raise OutOfMemoryError(f"Out of memory allocating {rounded} bytes")
        self.most_taken = max(taken, self.most_taken)
        pool = (self.device, self.stream, rounded)
        returned = self.pools.setdefault(pool, [])
        if returned:
            return returned.pop(), pool
        memory = np.full(rounded + ALIGNMENT, 255, np.uint8)  # NaN in every number type
        address = memory.ctypes.data + -memory.ctypes.data % ALIGNMENT
        self.blocks[address] = memory, self.device
        return address, pool

    def device_of(self, address: int) -> int:
        return next(
            (device for start, (memory, device) in self.blocks.items() if 0 <= address - start < memory.nbytes),
            self.device,
        )


machine = Machine()
