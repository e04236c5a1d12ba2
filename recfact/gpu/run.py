"""Runs of kernels for arrays on a GPU: the plan, found once for arrays of one kind, and the kernel's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from recfact.errors import ShapeError
from recfact.gpu import tuned
from recfact.gpu.compiler import function_of
from recfact.gpu.device_arrays import DeviceArray, scratch_for
from recfact.gpu.launch import alternatives, plan, plan_gradients
from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Argument, Launch, Scratch
from recfact.gpu.solves import NEIGHBOUR, Gradients, Solve, by_key, gradients_by_key

Asked = Solve[DeviceArray] | Gradients[DeviceArray]
PLANS_KEPT = 1024
SCRATCH_ALIGNMENT = 256  # bytes; CUDA's own allocations have no less


def run(solve: Solve[DeviceArray], scratch: Any = None) -> None:
    """Put a solve on the current stream.

    Parameters
    ----------
    solve : Solve
        With arrays on the current GPU.
    scratch : cupy.ndarray, optional
        Memory for the kernels, of at least `scratch_bytes`. By default it comes from the library of the result.
    """
    for part, prepared in launches_of(solve):
        if prepared is not None:
            start(part, prepared, scratch)


def launches_of(solve: Solve[DeviceArray]) -> Iterator[tuple[Solve[DeviceArray], Prepared | None]]:
    """Return the solve with its compiled launch, or its slices with theirs if there are too many dimensions.

    A launch is None if the result is empty.
    """
    try:
        prepared = prepared_for(solve)
    except ShapeError:
        for part in solve.slices():
            yield from launches_of(part)
        return
    yield solve, prepared


def start(asked: Asked, prepared: Prepared, scratch: Any = None) -> None:
    """Put a launch for arrays of this layout on the current stream."""
    if isinstance(asked, Solve) and prepared.rereads and asked.u.address == asked.x.address:
        start(asked._replace(u=asked.u.copied()), prepared, scratch)
        return
    places = {name: array.address for name, array in asked.arrays.items() if array is not None}
    wanted = [array for array in prepared.launch.scratch if array.name not in places]
    if wanted and scratch is None:
        scratch = scratch_for(asked.lender, _together(wanted))
    offset = 0
    for array in wanted:
        place = scratch.data + offset
        places[array.name] = place.ptr
        if array.zeroed:
            place.memset_async(0, array.bytes)
        offset += _aligned(array.bytes)
    prepared.start(places)


def scratch_bytes(solve: Solve[DeviceArray]) -> int:
    """Compile the kernels that `run` launches for arrays of this layout, and return their bytes of scratch."""
    return max((prepared.scratch_bytes for _, prepared in launches_of(solve) if prepared), default=0)


def _aligned(size: int) -> int:
    """Return the bytes from one array in scratch memory to the next."""
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def _together(arrays: Iterable[Scratch]) -> int:
    """Return the bytes of arrays in scratch memory."""
    return sum(_aligned(array.bytes) for array in arrays)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch, with everything to repeat it for other arrays of the same kind.

    Parameters
    ----------
    launch : Launch
        The plan.
    kernel : callable
        Compiled, as `function_of` returns it.
    arguments : tuple of (number or str, int)
        The arguments of the kernel: a NumPy number and 0, or the name of an array and an offset in bytes.
    rereads : bool
        Whether the result must not share memory with the inputs.
    scratch_bytes : int
        Bytes of all scratch arrays of the launch.
    """

    launch: Launch
    kernel: Any
    arguments: tuple[tuple[Any, int], ...]
    rereads: bool
    scratch_bytes: int

    def start(self, places: dict[str, int]) -> None:
        """Put the launch on the current stream, with arrays at these addresses."""
        launch = self.launch
        arguments = tuple(
            places[value] + offset if isinstance(value, str) else value for value, offset in self.arguments
        )
        self.kernel(launch.grid, launch.block, arguments, shared_mem=launch.shared_bytes)


def prepared_for(asked: Asked) -> Prepared | None:
    """Return the compiled launch of a solve, as `plan` or tuning chose it, or of gradients, as `plan_gradients` did.

    None and errors are theirs. The current GPU must be that of the arrays.
    """
    return prepare(isinstance(asked, Gradients), asked.key, asked.a.device)


@lru_cache(PLANS_KEPT)
def prepare(gradients: bool, key: tuple[Any, ...], device: int) -> Prepared | None:
    """Plan and compile once for all solves, or gradients, of one key."""
    launch = (_planned_gradients if gradients else _planned)(key, device)
    return None if launch is None else prepared_launch(launch, device)


def _planned_gradients(key: tuple[Any, ...], device: int) -> Launch | None:
    return plan_gradients(gradients_by_key(key), device_of(device))


def _planned(key: tuple[Any, ...], device: int) -> Launch | None:
    solve = by_key(key)
    kept = tuned.winner(device, tuned.kind_of(solve))
    launch = alternatives(solve, device_of(device)).get(kept) if kept else None
    return launch or plan(solve, device_of(device))


def forget_plans() -> None:
    """Plan launches anew from now on."""
    prepare.cache_clear()


def prepared_launch(launch: Launch, device: int) -> Prepared:
    """Compile the kernel of a launch for a GPU, the current one."""
    arguments = tuple(map(_value, launch.arguments))
    return Prepared(launch, function_of(launch, device), arguments, _rereads(launch), _together(launch.scratch))


def _rereads(launch: Launch) -> bool:
    """Return whether inputs are read after results may have been written to their place."""
    numbers = {argument.name: argument.value for argument in launch.arguments}
    halo = dict(launch.macros).get("WINDOW") == str(NEIGHBOUR) and numbers["segments"] != numbers["sequences"]
    return halo or launch.kernel == "sliding"


def _value(argument: Argument) -> tuple[Any, int]:
    """Return an argument for CuPy. NumPy's numbers have the size that the kernel reads."""
    if isinstance(argument.value, str):
        return argument.value, argument.offset
    return (np.int32 if argument.c_type == "int" else np.int64)(argument.value or 0), 0


@cache
def device_of(number: int) -> Device:
    """Return the properties of a GPU that a plan depends on."""
    import cupy

    device = cupy.cuda.Device(number)
    capability = device.compute_capability  # "90", "120"
    return Device((int(capability[:-1]), int(capability[-1])), device.attributes["MultiProcessorCount"])
