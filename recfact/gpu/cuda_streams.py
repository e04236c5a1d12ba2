"""The stream of a solve: the caller's, after all work that its arrays wait for, perhaps while it is captured.

The host never waits. A CUDA graph that captures a stream repeats the work on it at the same addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from recfact.errors import DeviceError

if TYPE_CHECKING:
    from recfact.gpu.device_arrays import DeviceArray

NULL_STREAM = (0, 1)  # its handles; CUDA never captures it


@contextmanager
def caller_stream(arrays: Collection[DeviceArray], device: int, tensors: bool) -> Iterator[None]:
    """Make the caller's GPU and stream CuPy's current ones.

    The caller's stream is the current one of the result's library. Arrays can come on other streams: that of the other
    library, or one that ``__cuda_array_interface__`` names. The solve waits for the work that these streams already
    hold, and they wait for the solve.

    Parameters
    ----------
    arrays : collection of DeviceArray
        All arrays that the solve reads or writes.
    device : int
        The GPU on which they are.
    tensors : bool
        Whether the result is a torch tensor, and not a CuPy array.
    """
    import cupy

    with ExitStack() as stack:
        stack.enter_context(cupy.cuda.Device(device))
        current = cupy.cuda.get_current_stream()
        handles = {"cupy": current.ptr}
        if any(array.library == "torch" for array in arrays):
            import torch

            handles["torch"] = torch.cuda.current_stream(device).cuda_stream
        mine = handles["torch" if tensors else "cupy"]
        stream = current if mine == current.ptr else stack.enter_context(foreign(mine))
        others = {handles.get(array.library, array.stream) for array in arrays}
        joined = [foreign(handle) for handle in others if handle is not None and handle != mine]
        if joined:
            check_uncaptured("takes arrays from several streams", "pass arrays of one library")
        for other in joined:
            follow(stream, other)
        yield
        for other in joined:
            follow(other, stream)


def is_captured() -> bool:
    """Say whether CuPy's current stream is captured into a graph."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    return bool(stream.ptr not in NULL_STREAM and stream.is_capturing())


def check_uncaptured(what: str, advice: str) -> None:
    """Raise an error if CuPy's current stream is captured into a graph.

    Memory from CuPy's pool doesn't belong to the graph, so it may hold something else when the graph is repeated. Work
    that waits for the host, or for streams that aren't captured, isn't repeated at all.

    Parameters
    ----------
    what : str
        What such a solve does.
    advice : str
        What to do instead.

    Raises
    ------
    DeviceError
        If the stream is captured.
    """
    if is_captured():
        raise DeviceError(f"a solve that {what} can't be captured into a CUDA graph; {advice}")


def follow(later: Any, earlier: Any) -> None:
    """Make a stream wait for all work that another one holds now."""
    import cupy

    later.wait_event(earlier.record(cupy.cuda.Event(disable_timing=True)))


def foreign(handle: int) -> Any:
    """Return a CuPy stream with the handle of another library's stream."""
    import cupy

    return cupy.cuda.Stream.from_external(_Handle(handle))


class _Handle:
    """The handle of a stream, as CUDA's stream protocol has it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
