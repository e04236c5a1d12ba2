"""Solves that CUDA graphs can't capture: a graph repeats the work of a stream at the same addresses."""

from __future__ import annotations

from recfact.errors import DeviceError

NULL_STREAM = (0, 1)  # its handles; CUDA never captures it


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
