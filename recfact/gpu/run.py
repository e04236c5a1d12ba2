"""Runs of kernels for arrays on a GPU: the plan, found once for arrays of one kind, and the kernel's arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from recfact.errors import ShapeError
from recfact.gpu import tuned
from recfact.gpu.capture import check_uncaptured
from recfact.gpu.device_arrays import DeviceArray, scratch_for
from recfact.gpu.geometry import geometry_of
from recfact.gpu.launch import alternatives, plan
from recfact.gpu.modules import function_of
from recfact.gpu.plans import NEIGHBOUR, Argument, Device, Launch, Sequences
from recfact.strides import Key, Strided
from recfact.windows import Window

PLANS_KEPT = 1024
PLACES = ("a", "u", "x", "x0", "starts")
SCRATCH_ALIGNMENT = 256  # bytes; CUDA's own allocations have no less


class Solve(NamedTuple):
    """A solve for `run`, on the current GPU.

    Parameters
    ----------
    a, u, x : DeviceArray
        Coefficients, inputs and result, of number types that `plan` takes together. The first two broadcast to the
        shape of the result. The result may be the inputs themselves.
    x0 : DeviceArray or None
        Initial states, in the type of the computation. They broadcast to the result without its axis of time.
    axis : int
        Time, counted from the front.
    window, reverse, precision
        As for `recfact.gpu.solve`.
    sequences : Sequences, optional
        What time is made of. Initial states then have an axis for them in the place of time.
    starts : DeviceArray, optional
        Where each starts in the order of the sweep, and where the last one ends.
    """

    a: DeviceArray
    u: DeviceArray
    x: DeviceArray
    x0: DeviceArray | None
    axis: int
    window: Window
    reverse: bool
    precision: str
    sequences: Sequences | None = None
    starts: DeviceArray | None = None


def run(solve: Solve, scratch: Any = None) -> None:
    """Put a solve on the current stream.

    Parameters
    ----------
    solve : Solve
        With arrays on the current GPU.
    scratch : cupy.ndarray, optional
        Memory for the kernels, of at least `scratch_bytes`. By default it comes from the library of the result.
    """
    try:
        prepared = _prepared_for(solve)
    except ShapeError:  # too many dimensions that can't be merged
        for part in _slices(solve):
            run(part, scratch)
        return
    if prepared is not None:
        start(solve, prepared, scratch)


def start(solve: Solve, prepared: Prepared, scratch: Any = None) -> None:
    """Put a launch for arrays of this layout on the current stream."""
    a, u, x, x0, starts = solve.a, solve.u, solve.x, solve.x0, solve.starts
    if prepared.rereads and u.address == x.address:
        start(solve._replace(u=u.copied()), prepared, scratch)
        return
    places = {
        name: array.address for name, array in zip(PLACES, (a, u, x, x0, starts), strict=True) if array is not None
    }
    if prepared.launch.scratch and scratch is None:
        scratch = scratch_for(x, prepared.scratch_bytes)
    offset = 0
    for array in prepared.launch.scratch:
        place = scratch.data + offset
        places[array.name] = place.ptr
        if array.zeroed:
            place.memset_async(0, array.bytes)
        offset += _aligned(array.bytes)
    prepared.start(places)


def scratch_bytes(solve: Solve) -> int:
    """Compile the kernels that `run` launches for arrays of this layout, and return their bytes of scratch."""
    try:
        prepared = _prepared_for(solve)
    except ShapeError:
        return max(map(scratch_bytes, _slices(solve)))
    return 0 if prepared is None else prepared.scratch_bytes


def _slices(solve: Solve) -> Iterator[Solve]:
    """Return the solves of all slices along the shortest axis that isn't time."""
    a, u, x, x0, axis, *_ = solve
    _, k = min((length, k) for k, length in enumerate(x.shape) if k != axis and length > 1)
    among = [] if solve.sequences is None else [solve.sequences.count]
    step = (*x.shape[:axis], *among, *x.shape[axis + 1 :])
    a, u = a.broadcast_to(x.shape), u.broadcast_to(x.shape)
    x0 = None if x0 is None else x0.broadcast_to(step)
    for i in range(x.shape[k]):
        state = None if x0 is None else x0.taken(k if among else k - (k > axis), i)
        yield solve._replace(a=a.taken(k, i), u=u.taken(k, i), x=x.taken(k, i), x0=state, axis=axis - (k < axis))


def goes_together(solve: Solve) -> bool:
    """Say whether one launch solves all sequences, or some for slices of arrays of many dimensions."""
    try:
        return _prepared_for(solve) is not None
    except ShapeError:
        return all(map(goes_together, _slices(solve)))


def explained(solve: Solve) -> list[str]:
    """Compile the kernels that `run` launches for arrays of this layout, and return the reason for each."""
    try:
        prepared = _prepared_for(solve)
    except ShapeError:
        return [reason for part in _slices(solve) for reason in explained(part)]
    return [] if prepared is None else [prepared.launch.reasons[0]]


def _aligned(size: int) -> int:
    """Return the bytes from one array in scratch memory to the next."""
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def _prepared_for(solve: Solve) -> Prepared | None:
    """Return the launch for arrays that are laid out like these, or None if the result is empty."""
    a, u, x, x0, *asked, _ = solve
    return _prepared(a.key, u.key, x.key, None if x0 is None else x0.key, *asked, x.device)


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


@lru_cache(PLANS_KEPT)
def _prepared(
    a: Key,
    u: Key,
    x: Key,
    x0: Key | None,
    axis: int,
    window: Window,
    reverse: bool,
    precision: str,
    sequences: Sequences | None,
    device: int,
) -> Prepared | None:
    """Plan a launch and compile its kernel, or return None if the result is empty or sequences are better apart."""
    check_uncaptured("compiles its kernel", "do the same solve once before")
    arrays = axis, Strided(*a), Strided(*u), Strided(*x), None if x0 is None else Strided(*x0)
    options: dict[str, Any] = {"window": window, "reverse": reverse, "precision": precision}
    options["device"] = device_of(device)
    launch = None
    if sequences is None:
        kept = tuned.winner(device, tuned.kind_of(geometry_of(*arrays, reverse), window, precision))
        launch = alternatives(*arrays, **options).get(kept) if kept else None
    launch = launch or plan(*arrays, **options, sequences=sequences)
    return None if launch is None else prepared_launch(launch, device)


def kind_of(solve: Solve) -> str:
    """Return a text for all solves of the kind of this one. Raises ShapeError if it takes several launches."""
    a, u, x, x0, axis, window, reverse, precision, *_ = solve
    return tuned.kind_of(geometry_of(axis, a, u, x, x0, reverse), window, precision)


def alternatives_of(solve: Solve) -> dict[str, Prepared]:
    """Return a compiled launch by each kernel that can do a solve.

    Raises
    ------
    ShapeError
        If it takes several launches.
    """
    a, u, x, x0, axis, window, reverse, precision, *_ = solve
    options: dict[str, Any] = {"window": window, "reverse": reverse, "precision": precision}
    launches = alternatives(axis, a, u, x, x0, **options, device=device_of(x.device))
    return {name: prepared_launch(launch, x.device) for name, launch in launches.items()}


def forget_plans() -> None:
    """Plan solves anew from now on."""
    _prepared.cache_clear()


def prepared_launch(launch: Launch, device: int) -> Prepared:
    """Compile the kernel of a launch for a GPU, the current one."""
    arguments, size = tuple(map(_value, launch.arguments)), sum(_aligned(array.bytes) for array in launch.scratch)
    return Prepared(launch, function_of(launch, device), arguments, _rereads(launch), size)


def _rereads(launch: Launch) -> bool:
    """Return whether inputs are read after results may have been written to their place."""
    segments = next((argument.value for argument in launch.arguments if argument.name == "segments"), 1)
    macros = dict(launch.macros)
    halo = macros.get("WINDOW") == str(NEIGHBOUR) and segments != 1 and macros.get("SEQUENCES") != "1"
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
