"""Solves of contiguous arrays by their shapes alone, to see what is planned and compiled for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recfact.gpu.launch import plan, plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import PART_STEPS, Gradients, Solve
from recfact.number_types import accumulator
from recfact.strides import Strided, contiguous
from recfact.windows import Full, Jagged, Uniform, Window

H100 = Device((9, 0), 132)

# Shape and time axis for `heads` sequences of `n` steps with `d` channels.
LAYOUTS: dict[str, tuple[Callable[[int, int, int], tuple[int, int, int]], int]] = {
    "head, time, channel": (lambda heads, n, d: (heads, n, d), 1),
    "time, head, channel": (lambda heads, n, d: (n, heads, d), 0),
    "head, channel, time": (lambda heads, n, d: (heads, d, n), 2),
}


def channel_axis(layout: str) -> int:
    """Return the axis of channels, along which coefficients may be shared."""
    return 1 if layout == "head, channel, time" else 2


def described(
    layout: str,
    heads: int,
    n: int,
    d: int,
    dtype: str,
    window: Window,
    *,
    shared: bool = True,
    a_dtype: str | None = None,
    out: str | None = None,
    initial: bool = False,
    reverse: bool = False,
    device: Device = H100,
    precision: str = "full",
) -> Launch:
    """Plan a solve of contiguous arrays that needn't exist.

    Parameters
    ----------
    layout : str
        One of `LAYOUTS`: the order of the axes.
    heads, n, d : int
        Sequences, steps, and channels of each.
    dtype : str
        Number type of the inputs; of coefficients and result, too, unless `a_dtype` and `out` say otherwise.
    window, reverse, precision
        As in `recfact.gpu.solves.Solve`.
    shared : bool
        Whether the channels of a head share their coefficients.
    initial : bool
        Whether there are initial states.
    device : Device
        Where it runs.

    Examples
    --------
    >>> from recfact import Jagged
    >>> described("head, time, channel", 128, 8192, 16, "bfloat16", Jagged(16)).kernel
    'b2p'
    """
    make, axis = LAYOUTS[layout]
    shape = make(heads, n, d)

    kind, single, step = np.dtype(dtype), list(shape), shape[:axis] + shape[axis + 1 :]
    if shared:
        single[channel_axis(layout)] = 1
    a = contiguous(np.dtype(a_dtype or dtype), tuple(single))
    u, x = contiguous(kind, shape), contiguous(np.dtype(out or dtype), shape)
    x0 = contiguous(accumulator(kind), step) if initial else None
    launch = plan(Solve(a, u, x, x0, axis, window, reverse, precision), device)
    if launch is None:
        raise ValueError(f"an example must have elements, got shape {shape}")
    return launch


def described_gradients(
    heads: int,
    n: int,
    d: int,
    dtype: str,
    window: Window,
    *,
    a_dtype: str | None = None,
    states: bool = True,
    kept: bool = False,
    shared: bool = True,
    device: Device = H100,
) -> Launch:
    """Plan the gradients of a window for contiguous arrays with time first.

    Coefficients are those of heads, or if they aren't shared so, those of channels, which the heads share. They and
    their gradients may have a number type of their own. States of the full recurrence may be given, in the type of the
    computation: all of them, or beside inputs those that a solve kept.
    """
    kind, shape = np.dtype(dtype), (n, heads, d)
    rows = contiguous(kind, shape)
    a = contiguous(np.dtype(a_dtype or dtype), (n, heads, 1) if shared else (n, 1, d))
    given = contiguous(accumulator(kind), shape) if window == Full() and states else rows
    parts = contiguous(accumulator(kind), (n // PART_STEPS, heads, d)) if kept else None
    launch = plan_gradients(Gradients(a, given, rows, rows, a, window, states=states, kept=parts), device)
    if launch is None:
        raise ValueError(f"an example must have lines for all of the GPU, got {heads} heads of {d} channels")
    return launch


def described_mixer(
    heads: int, groups: int, n: int, d: int, dtype: str, window: Window, *, device: Device = H100
) -> Launch:
    """Plan the mixer of a Phalanx layer for contiguous arrays with heads first, then time, and gates of groups."""
    kind = np.dtype(dtype)
    size = kind.itemsize

    def rows(count: int) -> Strided:
        """Describe an array with time as its first axis, as the mixer is called, and heads first in memory."""
        return Strided(kind, (n, count, d), (d * size, n * d * size, size))

    a = Strided(kind, (n, heads, 1), (size, n * size, 0))
    gates = rows(groups), rows(groups)
    launch = plan(Solve(a, rows(heads), rows(heads), None, 0, window, gates=gates), device)
    if launch is None:
        raise ValueError(f"an example must be a window of at most one term, got {window}")
    return launch


TARGETS = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))  # compute capabilities
HEADS, ROWS = "head, time, channel", "head, channel, time"


def kinds(device: Device = H100) -> dict[str, Launch]:
    """Plan a solve for each kernel, and for each way in which it moves tiles."""
    half = "bfloat16" if device.capability >= (8, 0) else "float16"
    gated = {"b2p with gates": described_mixer(128, 128, 8192, 16, half, Jagged(16), device=device)}
    return {
        "b2p": described(HEADS, 128, 8192, 16, half, Jagged(16), device=device),
        "b2p along time": described(ROWS, 128, 8192, 16, half, Jagged(16), device=device, reverse=True),
        **(gated if device.capability >= (8, 0) else {}),
        "sweep": described(HEADS, 8192, 8192, 16, half, Jagged(16), device=device),
        "sweep float32": described(HEADS, 8192, 8192, 16, "float32", Jagged(16), device=device),
        "sweep with gates": described_mixer(8192, 8, 8192, 16, half, Jagged(16), device=device),
        "chain": described(HEADS, 4, 8192, 16, half, Full(), device=device),
        "sliding": described(HEADS, 8192, 8192, 16, half, Uniform(64), device=device),
        "backward": described_gradients(8192, 8192, 16, "float32", Full(), device=device),
        "backward_window": described_gradients(8192, 8192, 16, "float32", Jagged(16), device=device),
        "backward_window of two terms": described_gradients(8192, 8192, 16, "float32", Jagged(16, 2), device=device),
        "backward_window of lags": described_gradients(8192, 8192, 16, "float32", Uniform(16), device=device),
        "backward_window of the full recurrence": described_gradients(
            8192, 8192, 16, half, Full(), states=False, device=device
        ),
        "backward_window from states that are kept": described_gradients(
            8192, 8192, 16, half, Full(), states=False, kept=True, device=device
        ),
        "backward_window with a of channels": described_gradients(
            8192, 8192, 16, "float32", Jagged(16), shared=False, device=device
        ),
        "backward with a of channels": described_gradients(
            8192, 8192, 16, "float32", Full(), shared=False, device=device
        ),
        "backward of halves": described_gradients(8192, 8192, 16, half, Full(), device=device),
        "backward_window of halves": described_gradients(8192, 8192, 16, half, Jagged(16), device=device),
        "backward_window of halves, a in float32": described_gradients(
            8192, 8192, 16, half, Jagged(16), a_dtype="float32", device=device
        ),
    }
