"""What a kernel moves, counted where there is no GPU: by the emulator, from PTX."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import ml_dtypes
import numpy as np

from recfact.errors import MissingExtraError
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.solves import PART_STEPS
from recfact.number_types import accumulator
from recfact.windows import Window
from tools.gpu.emulator import execute
from tools.gpu.examples import H100, LAYOUTS, channel_axis, described_gradients, described_mixer
from tools.gpu.machine_code import missing_tools


class Traffic(NamedTuple):
    """What a launch moved, beside the bytes of the arrays that it was for: all numbers are ratios."""

    read: float
    written: float
    moved: float
    sector_efficiency: float
    share_by_16_bytes: float
    wavefront_excess: float


@cache
def traffic(launch: Launch, layout: str, heads: int, n: int, d: int) -> Traffic:
    """Run the launch of a bfloat16 solve in the emulator, thread blocks taking turns, and see that it makes no mistake.

    Parameters
    ----------
    launch : Launch
        As `tools.gpu.examples.described` plans it for the shape.
    layout, heads, n, d
        As there.

    Raises
    ------
    MissingExtraError
        If there is no compiler of CUDA, or no g++ to build the emulator.
    """
    if (missing := missing_tools()) is not None:
        raise MissingExtraError(missing)
    rng = np.random.default_rng(0)
    make, _ = LAYOUTS[layout]
    shape = make(heads, n, d)
    shared = tuple(1 if axis == channel_axis(layout) else extent for axis, extent in enumerate(shape))
    arrays = {
        "a": rng.uniform(-1, 1, shared).astype(ml_dtypes.bfloat16),
        "u": rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16),
        "x": np.empty(shape, ml_dtypes.bfloat16),
    }
    report = execute(launch, arrays, H100.capability).check()
    moved = report.arrays
    return Traffic(
        (moved["u"].read + moved["a"].read) / (arrays["u"].nbytes + arrays["a"].nbytes),
        moved["x"].written / arrays["x"].nbytes,
        sum(array.read + array.written for array in moved.values()) / sum(array.nbytes for array in arrays.values()),
        report.sector_efficiency,
        report.share_by_16_bytes,
        report.wavefront_excess,
    )


@cache
def gradient_traffic(
    window: Window, heads: int, n: int, d: int, dtype: str, a_dtype: str, given: str, shared: bool
) -> float:
    """Return the bytes that gradients move, over those of a, x or u, g, du and da, as `traffic` does.

    They are `given` states, "x", inputs, "u", or inputs and the states that a solve kept, "kept". Other parameters are
    those of `described_gradients`.
    """
    if (missing := missing_tools()) is not None:
        raise MissingExtraError(missing)
    rng = np.random.default_rng(0)
    shape, single = (n, heads, d), (n, heads, 1) if shared else (n, 1, d)
    shapes = {"a": single, "x": shape, "u": shape, "g": shape, "du": shape, "da": single}
    shapes["states"] = (n // PART_STEPS, heads, d)
    kind, own, wide = np.dtype(dtype), np.dtype(a_dtype), accumulator(np.dtype(dtype))
    types = {"a": own, "x": wide, "da": own, "states": wide}
    states, kept = given == "x", given == "kept"
    device = Device(H100.capability, 1)
    launch = described_gradients(
        heads, n, d, dtype, window, a_dtype=a_dtype, states=states, kept=kept, shared=shared, device=device
    )
    scratch = {array.name for array in launch.scratch}
    used = [str(one.value) for one in launch.arguments if one.value in shapes.keys() - scratch]
    arrays = {name: rng.uniform(-1, 1, shapes[name]).astype(types.get(name, kind)) for name in used}
    report = execute(launch, arrays, H100.capability, outputs=("du", "da")).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    return moved / sum(array.nbytes for name, array in arrays.items() if name != "states")


@cache
def mixer_traffic(window: Window, heads: int, groups: int, n: int, d: int) -> tuple[float, float]:
    """Return the bytes that a mixer in bfloat16 moves, over those of its arrays and over those of three passes.

    These are a product k v, a solve, and q x + v. Each reads and writes its arrays once.
    """
    if (missing := missing_tools()) is not None:
        raise MissingExtraError(missing)
    rng = np.random.default_rng(0)
    shapes = {"a": (heads, n), "k": (groups, n, d), "q": (groups, n, d), "u": (heads, n, d), "x": (heads, n, d)}
    arrays = {name: rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}
    launch = described_mixer(heads, groups, n, d, "bfloat16", window, device=Device(H100.capability, 1))
    report = execute(launch, arrays, H100.capability).check()
    moved = sum(array.read + array.written for array in report.arrays.values())
    a, gate, one = (arrays[name].nbytes for name in "aku")
    three = (gate + 2 * one) + (a + 2 * one) + (gate + 3 * one)
    return moved / sum(array.nbytes for array in arrays.values()), moved / three
