"""What the GPU tests solve: arrays in the layouts that people have, and their plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from recfact.gpu.launch import Device, Launch, Operand, plan
from recfact.windows import Window

NUMPY = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}
COMPUTED = {"float16": "float32", "bfloat16": "float32"}
H100 = Device((9, 0), 132)

# Shape and time axis for `heads` sequences of `n` steps with `d` channels.
LAYOUTS = {
    "head, time, channel": (lambda heads, n, d: (heads, n, d), 1),
    "time, head, channel": (lambda heads, n, d: (n, heads, d), 0),
    "head, channel, time": (lambda heads, n, d: (heads, d, n), 2),
}


def channel_axis(layout: str) -> int:
    return 1 if layout == "head, channel, time" else 2


@dataclass(frozen=True)
class Case:
    """A solve by its arrays; any may be a view with other strides."""

    a: np.ndarray
    u: np.ndarray
    x: np.ndarray
    axis: int
    x0: np.ndarray | None = None

    def operand(self, array: np.ndarray) -> Operand:
        """Describe an array broadcast to the result."""
        steps = (
            0 if extent == 1 and self.x.shape[k] != 1 else stride
            for k, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True))
        )
        return Operand(array.dtype.name, tuple(steps), array.ctypes.data % 16)

    def plan(self, window: Window, *, reverse: bool = False, device: Device = H100, precision: str = "full") -> Launch:
        launch = plan(
            self.x.shape,
            self.axis,
            self.operand(self.a),
            self.operand(self.u),
            self.operand(self.x),
            None if self.x0 is None else self.operand(self.x0),
            window=window,
            reverse=reverse,
            device=device,
            precision=precision,
        )
        assert launch is not None
        return launch


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
    """Plan a solve of contiguous arrays that needn't exist."""
    make, axis = LAYOUTS[layout]
    shape = make(heads, n, d)

    def operand(name: str, *left_out: int) -> Operand:
        strides, stride = [0] * 3, NUMPY[name].itemsize
        for k in (2, 1, 0):
            if k not in left_out:
                strides[k] = stride
                stride *= shape[k]
        return Operand(name, tuple(strides))

    a = operand(a_dtype or dtype, *((channel_axis(layout),) if shared else ()))
    u, x = operand(dtype), operand(out or dtype)
    x0 = operand(COMPUTED.get(dtype, dtype), axis) if initial else None
    launch = plan(shape, axis, a, u, x, x0, window=window, reverse=reverse, device=device, precision=precision)
    assert launch is not None
    return launch


def random_numbers(rng: np.random.Generator, shape: Any, dtype: str, size: float = 1.0) -> np.ndarray:
    numbers = rng.uniform(-size, size, shape)
    if dtype.startswith("complex"):
        numbers = (numbers + 1j * rng.uniform(-size, size, shape)) / np.sqrt(2)
    return numbers.astype(NUMPY[dtype])
