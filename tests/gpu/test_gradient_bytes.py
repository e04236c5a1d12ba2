"""What plans of gradients move, by arithmetic: at most a tenth more than the bytes of their arrays."""

from __future__ import annotations

from math import prod

import numpy as np
from gpu.cases import H100, NUMPY

from recfact.gpu.launch import plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import Gradients
from recfact.number_types import accumulator
from recfact.strides import Strided, contiguous
from recfact.windows import check_window

AXES = {
    "none": "bhd",
    "channels": "bh",
    "heads": "bd",
    "batches": "hd",
    "batches and heads": "d",
    "batches and channels": "h",
    "heads and channels": "b",
    "all": "",
}
"""Which axes coefficients have, besides time, where they share those that are named."""
WINDOWS = ("full", "jagged:16", "jagged:5:3", "jagged:24:1", "jagged:2:8", "uniform:2", "uniform:12", "uniform:49")
TYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float32", "complex128": "complex128"}


def in_memory(kind: str, lengths: dict[str, int], order: str) -> Strided:
    """Describe an array with axes t, b, h and d, which lie in another order in memory."""
    stored = contiguous(NUMPY[kind], tuple(lengths[axis] for axis in order))
    axes = [order.index(axis) for axis in "tbhd"]
    return Strided(stored.dtype, tuple(stored.shape[k] for k in axes), tuple(stored.strides[k] for k in axes))


def moved_over_needed(launch: Launch, arrays: list[Strided]) -> float:
    """Return the bytes that a launch and the sums of its parts move, over those of a, x or u, g, du and da.

    The emulator counts those of a launch, in other tests.
    """
    a, given, g, du, da = ((prod(array.shape) * array.dtype.itemsize) for array in arrays)
    numbers, macros = {one.name: one.value for one in launch.arguments}, dict(launch.macros)
    lanes, sharing = int(macros["LANES"]), numbers["sharing"]
    parts = -(-sharing // lanes)
    a_moved, sums = a * parts, da
    if parts > 1:
        sums = da + 2 * sum(one.bytes for one in launch.scratch)
    halo = 0.0
    if launch.kernel == "backward_window":
        blocks = -(-numbers["steps"] // numbers["block"])
        halo = (numbers["segments"] - numbers["sequences"]) * int(macros["TERMS"]) / blocks  # of sequences, at most
    moved = (a_moved + given) * (1 + 2 * halo) + g * (1 + halo) + du + sums
    return moved / (a + given + g + du + da)


def planned(
    lengths: dict[str, int],
    order: str,
    axes: str,
    kind: str,
    window: str,
    device: Device,
    offsets: np.ndarray | None = None,
) -> tuple[Launch | None, list[Strided]]:
    """Plan the gradients of arrays of these lengths, and return the layouts of the arrays as well."""
    single = {axis: length if axis == "t" or axis in axes else 1 for axis, length in lengths.items()}
    rows, shared = in_memory(kind, lengths, order), in_memory(TYPES[kind], single, order)
    given = in_memory(accumulator(NUMPY[kind]).name, lengths, order) if window == "full" else rows
    arrays = [shared, given, rows, rows, shared]
    sequences = None if offsets is None else sequences_of(offsets)
    return plan_gradients(Gradients(*arrays, check_window(window), sequences), device), arrays


def test_plans_move_at_most_a_tenth_more(rng):
    lengths = {"t": 16, "b": 7, "h": 8, "d": 8}  # powers of two up to which lengths go
    devices = [Device((7, 5), 40), Device((8, 0), 132), H100, Device((12, 0), 1)]
    planned_kernels = set()
    for _ in range(1200):
        kind, window, name = (str(rng.choice(options)) for options in (list(TYPES), WINDOWS, list(AXES)))
        order = rng.choice(["tbhd", "bthd", "bhtd", "bhdt"])
        own = {axis: int(2 ** rng.uniform(4 * (axis == "t"), most)) for axis, most in lengths.items()}
        cuts = rng.integers(0, own["t"], rng.integers(1, 6))
        offsets = np.array([0, *sorted(cuts), own["t"]]) if rng.integers(2) else None
        launch, arrays = planned(own, order, AXES[name], kind, window, devices[rng.integers(4)], offsets)
        if launch is None:
            continue
        planned_kernels.add((launch.kernel, name))
        numbers = {one.name: one.value for one in launch.arguments}
        few = numbers["sharing"] in {*range(33, 48), 65, 66}  # of which groups have few, and of few bytes
        few = few and kind in ("bfloat16", "float16") and numbers["segments"] > numbers.get("sequences", 1)
        assert moved_over_needed(launch, arrays) <= (1.13 if few else 1.1), (own, order, name, kind, window)
    assert len(planned_kernels) == 2 * len(AXES)
