"""What the GPU tests solve: arrays in the layouts that people have, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from recfact.gpu.launch import plan
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import Solve
from recfact.strides import Strided
from recfact.windows import Window
from tools.gpu.examples import H100 as H100
from tools.gpu.examples import LAYOUTS as LAYOUTS
from tools.gpu.examples import channel_axis as channel_axis
from tools.gpu.examples import described as described

NUMPY = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}
COMPUTED = {"float16": "float32", "bfloat16": "float32"}


def strided(array: np.ndarray) -> Strided:
    """Describe an array of the host."""
    return Strided(array.dtype, array.shape, array.strides, array.ctypes.data)


@dataclass(frozen=True)
class Case:
    """A solve by its arrays; any may be a view with other strides."""

    a: np.ndarray
    u: np.ndarray
    x: np.ndarray
    axis: int
    x0: np.ndarray | None = None

    def plan(self, window: Window, *, reverse: bool = False, device: Device = H100, precision: str = "full") -> Launch:
        x0 = None if self.x0 is None else strided(self.x0).taken(self.axis, 0)
        places = map(strided, (self.a, self.u, self.x))
        launch = plan(Solve(*places, x0, self.axis, window, reverse, precision), device)
        assert launch is not None
        return launch


def in_order(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return the same numbers with the axes in this order in memory, the outermost first."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def along_time(array: np.ndarray) -> np.ndarray:
    """Return the same numbers with time, their first axis, next to each other in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def random_numbers(rng: np.random.Generator, shape: Any, dtype: str, size: float = 1.0) -> np.ndarray:
    numbers = rng.uniform(-size, size, shape)
    if dtype.startswith("complex"):
        numbers = (numbers + 1j * rng.uniform(-size, size, shape)) / np.sqrt(2)
    return numbers.astype(NUMPY[dtype])


def in_turn_at(places: Sequence[Any], cases: Sequence[Any]) -> list[Any]:
    """Return parameters: each case at one of the places, in turn, and at the others in the exhaustive run alone."""
    return [
        pytest.param(place, case, marks=[] if k % len(places) == at else pytest.mark.exhaustive)
        for at, place in enumerate(places)
        for k, case in enumerate(cases)
    ]
