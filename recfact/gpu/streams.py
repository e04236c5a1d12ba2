"""The stream on which a solve runs: the caller's, behind all that its arrays wait for. The host never waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from recfact.gpu.device_arrays import DeviceArray


@contextmanager
def caller_stream(arrays: Iterable[DeviceArray], device: int) -> Iterator[None]:
    """Make the caller's GPU and stream CuPy's current ones.

    That is torch's current stream if an array is a tensor, and CuPy's current stream otherwise. If arrays come on other
    streams (CuPy's, beside tensors; one named by ``__cuda_array_interface__``), it waits for what these hold already,
    and they wait for the solve.

    Parameters
    ----------
    arrays : iterable of DeviceArray
        All that the solve reads and writes.
    device : int
        The GPU on which they are.
    """
    import cupy

    with ExitStack() as stack:
        stack.enter_context(cupy.cuda.Device(device))
        current = cupy.cuda.get_current_stream()
        libraries = {array.library for array in arrays}
        stream = current
        if "torch" in libraries:
            import torch

            stream = foreign(torch.cuda.current_stream(device).cuda_stream)
        if stream.ptr != current.ptr:
            stack.enter_context(stream)
        others = {array.stream for array in arrays if array.stream is not None}
        if "cupy" in libraries:
            others.add(current.ptr)
        joined = [foreign(handle) for handle in others - {stream.ptr}]
        for other in joined:
            follow(stream, other)
        yield
        for other in joined:
            follow(other, stream)


def follow(later: Any, earlier: Any) -> None:
    """Make a stream wait for all that another one holds by now."""
    import cupy

    later.wait_event(earlier.record(cupy.cuda.Event(disable_timing=True)))


def foreign(handle: int) -> Any:
    """Return a stream of CuPy's with the handle of one that isn't."""
    import cupy

    return cupy.cuda.Stream.from_external(_Handle(handle))


class _Handle:
    """The handle of a stream, as CUDA's stream protocol has it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
