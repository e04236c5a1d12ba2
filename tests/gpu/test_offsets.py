"""Offsets beyond 2^31, in the kernels' PTX: arrays spread over addresses of which only their elements have memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from gpu.bounds import bound
from gpu.cases import H100, NUMPY, Case, random_numbers

from recfact.gpu.launch import plan
from recfact.gpu.solves import Solve
from recfact.strides import Strided
from recfact.windows import Full, Jagged, Uniform, Window
from tools.gpu.emulator import Buffer, execute

N, D = 264, 16
BEYOND = 5 << 31  # as 32 bits it would be negative
STEP = (1 << 26) - 64  # so long that few of them are beyond 2^31, and all within a chunk are not
# Strides of batches, heads, steps and channels, the small ones in numbers and the others in bytes; and the type of the
# strides of time, where a kernel has a choice.
PLACES: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "heads": ((7 << 32, BEYOND, D, 1), "int"),
    "heads backwards": ((-7 << 32, -BEYOND, D, 1), "int"),
    "steps": ((2 * D, D, STEP, 1), "int"),
    "far steps": ((2 * D, D, BEYOND, 1), "long long"),
    "channels": ((1 << 40, 3 << 37, 1, BEYOND), "int"),
}
KERNELS: dict[str, tuple[str, Window]] = {
    "sweep": ("float32", Jagged(16)),
    "sliding": ("float32", Uniform(9)),
    "chain": ("float32", Full()),
    "b2p": ("bfloat16", Jagged(16)),
}


@dataclass(frozen=True)
class Spread:
    """An array, and the same spread over addresses."""

    values: np.ndarray
    buffer: Buffer
    place: Strided


def strides_of(place: str, size: int) -> tuple[int, ...]:
    """Return the strides in bytes, for numbers of some bytes."""
    return tuple(stride if abs(stride) > 2 * D else stride * size for stride in PLACES[place][0])


def spread(values: np.ndarray, strides: tuple[int, ...], role: str = "in") -> Spread:
    """Lay elements out by other strides, with memory behind runs of neighbours only."""
    strides = tuple(s if extent > 1 else values.itemsize for s, extent in zip(strides, values.shape, strict=True))
    along = strides.index(values.itemsize)
    runs = np.ascontiguousarray(np.moveaxis(values, along, -1))
    outer = [s for axis, s in enumerate(strides) if axis != along]
    places = {sum(i * s for i, s in zip(at, outer, strict=True)): runs[at] for at in np.ndindex(runs.shape[:-1])}
    low, high = min(places), max(places) + values.itemsize * runs.shape[-1]
    pieces = {place - low: run for place, run in places.items()}
    place = Strided(values.dtype, values.shape, strides)
    return Spread(np.moveaxis(runs, -1, along), Buffer(pieces, high - low, role, pointer=-low), place)


@pytest.mark.machine_code
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_offsets_beyond_32_bits(kernel, place, reverse):
    dtype, window = KERNELS[kernel]
    rng, shape = np.random.default_rng(0), (2, 2, N, D)
    strides = strides_of(place, NUMPY[dtype].itemsize)
    a = spread(random_numbers(rng, (2, 2, N, 1), dtype), strides)
    u = spread(random_numbers(rng, shape, dtype), strides)
    x = spread(np.full(shape, np.nan, NUMPY[dtype]), strides, "out")
    arrays = {"a": a.buffer, "u": u.buffer, "x": x.buffer}
    x0 = None
    if place.startswith("heads") and not reverse:
        x0 = spread(random_numbers(rng, (2, 2, 1, D), "float32"), strides_of(place, 4))
        arrays["x0"] = x0.buffer
    places = a.place, u.place, x.place, x0 and x0.place.taken(2, 0)
    launch = plan(Solve(*places, 2, window, reverse), H100)
    assert launch is not None
    assert launch.kernel == kernel
    stride = PLACES[place][1]
    assert dict(launch.macros).get("STRIDE", stride) == stride
    assert all(buffer.bytes > 1 << 32 for buffer in arrays.values())
    execute(launch, arrays, H100.capability).check()
    case = Case(a.values, u.values, x.values, 2, x0 and x0.values)
    expected, most = bound(launch, case, window, reverse, flushed=True)
    assert (np.abs(np.moveaxis(x.values, 2, 0).astype(np.float64) - expected) <= most).all()
