"""The roofline: each kernel's time against that of a copy of as many bytes, on the GPU at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from recfact.gpu.benchmark import COPY, HEADS, PAPER, bfloat16s
from recfact.gpu.gradients import gradients
from recfact.gpu.mixer import gated_solve
from recfact.gpu.run import prepared_for, start
from recfact.gpu.solver import solve
from recfact.gpu.timing import Call, Effort, time_calls
from recfact.gpu.warm import warm_up
from recfact.windows import Full, Jagged, Uniform, Window, window_text

CHANNELS, STEPS, SHORT = 16, 8192, 1024
WIDE = 64  # times as many heads, where a kernel wants many
SHARING = 16  # heads that share gates
SOLVED, GRADIENTS, GATED = "", "gradients of ", "gates and "  # what is timed, in words


@dataclass(frozen=True)
class Case:
    """What is timed. Coefficients are shared by the channels of a head.

    Parameters
    ----------
    type : {"bfloat16", "float32"}
        Of all numbers.
    window : Window
        What is kept.
    heads, steps : int
        How many; there are 16 channels. Time comes first, or before the channels.
    what : {SOLVED, GRADIENTS, GATED}
        A solve, gradients, or a solve with the gates of a Phalanx layer.
    """

    type: str
    window: Window
    heads: int
    steps: int
    what: str = SOLVED

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.what}{window_text(self.window)}, {self.heads} x {self.steps} x {CHANNELS} {self.type}"


@dataclass(frozen=True)
class Roof:
    """A kernel, its solve, the bytes that it must move, and seconds: its own, those of a copy, and the paper's."""

    kernel: str
    solve: str
    bytes: int
    seconds: float
    copy: float
    paper: float | None

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds

    @property
    def of_copy(self) -> float:
        """Speed relative to a copy's."""
        return self.copy / self.seconds


def cases(longest: int) -> list[Case]:
    """Return cases of at most so many steps, which take all kernels on a large GPU."""
    steps, short = min(STEPS, longest), min(SHORT, longest)
    return [
        Case("bfloat16", Jagged(16), HEADS, steps),
        Case("bfloat16", Jagged(52), HEADS, steps),
        Case("float32", Jagged(16), WIDE * HEADS, short),
        Case("float32", Jagged(52), WIDE * HEADS, short),
        Case("float32", Uniform(64), HEADS, steps),
        Case("float32", Full(), 4, steps),
        Case("bfloat16", Jagged(16), HEADS, steps, GATED),
        Case("float32", Jagged(16), WIDE * HEADS, short, GATED),
        Case("float32", Full(), WIDE * HEADS, short, GRADIENTS),
        Case("float32", Jagged(16), HEADS, steps, GRADIENTS),
        Case("float32", Uniform(16), HEADS, steps, GRADIENTS),
        Case("bfloat16", Jagged(16), HEADS, steps, GRADIENTS),
    ]


def measure_roofline(effort: Effort) -> Iterator[Roof]:
    """Time all cases. Parameters and errors are those of `recfact.gpu.benchmark.measure`."""
    for case in cases(max(effort.lengths)):
        prepared = _prepared(case)
        if prepared is None:
            continue
        kernel, call, size = prepared
        seconds = time_calls({COPY: _copy(size // 2), kernel: call}, effort)
        known = case.what == SOLVED and (case.type, case.window, case.heads) == ("bfloat16", Jagged(16), 128)
        paper = PAPER.get(case.steps) if known else None
        yield Roof(kernel, case.name, size, seconds[kernel], seconds[COPY], paper)


Prepared = tuple[str, Call, int]  # the kernel that is launched, the call, and the bytes that it must move


def _prepared(case: Case) -> Prepared | None:
    """Return what is timed, or None if no one kernel does it."""
    return {SOLVED: _solved, GRADIENTS: _gradients, GATED: _gated}[case.what](case)


def _solved(case: Case) -> Prepared:
    shape, shared = (case.heads, case.steps, CHANNELS), (case.heads, case.steps, 1)
    a, u, x = (_full(case.type, own) for own in (shared, shape, shape))
    (reason,) = warm_up(a, u, axis=1, window=case.window)
    call = partial(solve, a, u, axis=1, window=case.window, out=x)
    return reason.split(":")[0], call, a.nbytes + 2 * u.nbytes


def _gradients(case: Case) -> Prepared | None:
    shape, shared = (case.steps, case.heads, CHANNELS), (case.steps, case.heads, 1)
    a, given, g = (_full(case.type, own) for own in (shared, shape, shape))
    call = partial(gradients, a, given, g, case.window, types=(a.dtype, g.dtype))
    if call() is None:
        return None
    kernel = "backward" if case.window == Full() else "backward_window"
    return kernel, call, 2 * a.nbytes + 3 * given.nbytes


def _gated(case: Case) -> Prepared | None:
    shape = case.steps, case.heads, CHANNELS
    gate = case.steps, max(case.heads // SHARING, 1), CHANNELS
    a, q, k, v = (_full(case.type, own) for own in (shape[:2], gate, gate, shape))
    with gated_solve(a, q, k, v, case.window) as own:
        prepared = None if own is None else prepared_for(own)
    if own is None or prepared is None:
        return None
    return prepared.launch.kernel, partial(start, own, prepared), a.nbytes + 2 * (q.nbytes + v.nbytes)


def _full(kind: str, shape: tuple[int, ...]) -> Any:
    import cupy

    if kind == "bfloat16":
        return bfloat16s(0x3F00, shape)
    array = cupy.empty(shape, np.float32)
    array.fill(0.5)
    return array


def _copy(size: int) -> Call:
    import cupy

    source, target = (cupy.empty(size, np.uint8) for _ in range(2))
    return partial(target.data.copy_from_device_async, source.data, size)
