"""Time solves on a GPU against copies of as many bytes, over the lengths of the paper's figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from operator import methodcaller
from typing import Any

import numpy as np

from recfact.arrays import to_torch
from recfact.gpu.availability import require
from recfact.gpu.solver import solve
from recfact.gpu.timing import Call, Effort, time_calls
from recfact.number_types import BFLOAT16
from recfact.windows import Full, Jagged

HEADS, CHANNELS = 128, 16
PAPER = {
    1 << 10: 0.0432e-3,
    1 << 11: 0.0740e-3,
    1 << 12: 0.115e-3,
    1 << 13: 0.201e-3,
    1 << 14: 0.362e-3,
    1 << 15: 0.682e-3,
    1 << 16: 1.31e-3,
    1 << 17: 2.568e-3,
    1 << 18: 5.055e-3,
    1 << 19: 10.033e-3,
}
"""Seconds of the paper's B2P by length, on an H100: its figure of the time of a mixer's forward pass."""

COPY = "copy"
SOLVES = ("Jagged(16)", "Full()")
LONG, SHARE = 1 << 16, 0.9  # a number of steps, and the required speed for at least so many, relative to a copy's
SHORT, SHORT_SECONDS = 1 << 10, 12e-6
ONE, HALF = 0x3F80, 0x3F00  # bfloat16


FULL = Effort(tuple(PAPER), rounds=11, calls=10, busy=1 << 32)
SMOKE = Effort((1 << 10,), rounds=1, calls=1, busy=1 << 10)


@dataclass(frozen=True)
class Row:
    """Median times in seconds for one length, by the name of the call. All calls but `missing` move `bytes`."""

    steps: int
    bytes: int
    seconds: dict[str, float]
    missing: dict[str, str]

    def of_copy(self, name: str) -> float:
        """Return the time of a copy of as many bytes, relative to that of a call: 1 is the speed of memory."""
        return self.seconds[COPY] / self.seconds[name]


@dataclass(frozen=True)
class Goal:
    """A requirement on a solve, and the measured value. Of several lengths, the one furthest from it counts.

    Parameters
    ----------
    solve : str
        Its name in `Row.seconds`.
    name : str
        The quantity: a speed relative to a copy's, or a time in seconds.
    relation, asked : str, float
        ">=" or "<", and the number.
    steps, measured, paper : int, float, float, or None
        The length, the value of the solve there, and the paper's value. None if no such length was measured.
    """

    solve: str
    name: str
    relation: str
    asked: float
    steps: int | None = None
    measured: float | None = None
    paper: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the requirement is met. None if it wasn't measured."""
        if self.measured is None:
            return None
        return self.measured >= self.asked if self.relation == ">=" else self.measured < self.asked

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**asdict(self), "met": self.met}


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return the requirements on both solves, with measured values. The paper's speed is relative to the same copy."""
    short = next((row for row in rows if row.steps == SHORT), None)
    found = []
    for name in SOLVES:
        long = min((row for row in rows if row.steps >= LONG), key=methodcaller("of_copy", name), default=None)
        speed = () if long is None else (long.steps, long.of_copy(name), long.seconds[COPY] / PAPER[long.steps])
        time = () if short is None else (SHORT, short.seconds[name], PAPER[SHORT])
        found.append(Goal(name, f"speed relative to a copy's, from {LONG} steps on", ">=", SHARE, *speed))
        found.append(Goal(name, f"time of {SHORT} steps", "<", SHORT_SECONDS, *time))
    return found


def measure(effort: Effort, step: Callable[[str], None]) -> Iterator[Row]:
    """Time all calls for each length.

    Parameters
    ----------
    effort : Effort
        `FULL`, which takes a minute and 13 GiB of the GPU's memory, or `SMOKE`, which only shows that everything runs.
    step : callable
        Is called with a word on what comes next.

    Raises
    ------
    DeviceError
        If solves can't run on this machine's GPU.
    """
    require()
    for steps in effort.lengths:
        step(f"{steps} steps")
        size = 2 * HEADS * steps * (2 * CHANNELS + 1)
        calls, missing = calls_of(steps, size // 2)
        yield Row(steps, size, time_calls(calls, effort), missing)


def calls_of(steps: int, half: int) -> tuple[dict[str, Call], dict[str, str]]:
    """Return the timed calls by name, and why others are missing. Copies and sums read and write `half` bytes."""
    import cupy

    u, x = (bfloat16s(ONE, (HEADS, steps, CHANNELS)) for _ in range(2))
    a = bfloat16s(HALF, (HEADS, steps, 1))
    source, target = (cupy.empty(half // 4, np.float32) for _ in range(2))
    source.fill(1)
    calls: dict[str, Call] = {
        COPY: partial(target.data.copy_from_device_async, source.data, half),
        "multiply": partial(cupy.multiply, *(array.view(np.float16) for array in (a, u)), out=x.view(np.float16)),
        "Jagged(16)": partial(solve, a, u, axis=1, window=Jagged(16), out=x),
        "Full()": partial(solve, a, u, axis=1, window=Full(), out=x),
        "cupy.cumsum": partial(cupy.cumsum, source, out=target),
    }
    missing = {}
    if find_spec("torch") is None:
        missing["torch.cumsum"] = "torch isn't installed"
    else:
        import torch

        if torch.cuda.is_available():
            one, other = map(to_torch, (source, target))
            calls["torch.cumsum"] = partial(torch.cumsum, one, 0, out=other)
        else:
            missing["torch.cumsum"] = "torch has no CUDA"
    return calls, missing


def bfloat16s(bits: int, shape: tuple[int, ...]) -> Any:
    """Return an array full of one bfloat16: CuPy fills it as integers."""
    import cupy

    array = cupy.empty(shape, np.uint16)
    array.fill(bits)
    return array.view(BFLOAT16)
