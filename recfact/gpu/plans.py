"""The parts of all kernels' plans: the launch itself, its arguments, and how time is split.

Kernels are tuned by the constants here and in the files of kernels, and by the limits in `multiprocessors`. They are
bounds from the machine or estimates, measured on no GPU yet. The page on tuning gives the reason for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from recfact.gpu.geometry import Views
from recfact.gpu.multiprocessors import KIB, SCHEDULERS, Multiprocessor, multiprocessor_of
from recfact.windows import Window, blocks_and_terms

WARPS_NEEDED = 4
SEGMENT_BLOCKS = 20
SHORT_BLOCKS = 8
WAVES = 8
LEAST_STEPS = 256  # up to so many, warps needn't be enough
FLIGHT_CYCLES = 2000  # in which memory delivers what a multiprocessor wants on its way: 1.25 us at 1.6 GHz
LAUNCH_STEPS = 64  # that a thread of `sweep` takes while the host launches another kernel
TILE = 16  # steps and channels of a tensor-core tile
ENDLESS = 1 << 62  # steps of a block that never ends, a multiple of every chunk

FULL, ALONE, NEIGHBOUR = 0, 1, 2  # values of the macro WINDOW


@dataclass(frozen=True, slots=True)
class Device:
    """The properties of a GPU that a plan depends on.

    Parameters
    ----------
    capability : tuple of int
        Compute capability.
    multiprocessors : int
        How many there are.
    limits : Multiprocessor
        The limits of each of them.
    """

    capability: tuple[int, int]
    multiprocessors: int
    limits: Multiprocessor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", multiprocessor_of(self.capability))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    Parameters
    ----------
    name : str
        Its name in the kernel.
    c_type : str
        In CUDA C++.
    value : int, str or None
        A number, the name of an array, or None for a null pointer.
    offset : int
        Bytes from the first element of the array to the pointer.
    """

    name: str
    c_type: str
    value: int | str | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """An array that only the kernel uses.

    Parameters
    ----------
    name : str
        The name that arguments refer to.
    bytes : int
        Its size.
    zeroed : bool
        Whether all its bytes must be 0 when the kernel starts.
    """

    name: str
    bytes: int
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and everything that its launch needs.

    Parameters
    ----------
    kernel : str
        Its name.
    macros : tuple of (str, str)
        Names and values that it is compiled with.
    grid, block : tuple of int
        Thread blocks of the launch, and threads of each.
    shared_bytes : int
        Shared memory of a thread block beyond what the source declares.
    arguments : tuple of Argument
        The arguments in the order of the kernel.
    scratch : tuple of Scratch
        The arrays that it needs besides a, u, x and x0.
    reasons : tuple of str
        The reasons for this kernel, for its accesses or products, and for the split of time.
    """

    kernel: str
    macros: tuple[tuple[str, str], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    scratch: tuple[Scratch, ...]
    reasons: tuple[str, ...]


def texts(macros: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return macros as a launch has them."""
    return tuple((name, str(value)) for name, value in macros.items())


class Blocks(NamedTuple):
    """A window as the kernels see it.

    Parameters
    ----------
    length : int
        Steps of a block.
    terms : int or None
        How many blocks before its own a block sees. None for all.
    """

    length: int
    terms: int | None

    @property
    def window(self) -> int:
        """The value of the macro WINDOW, for at most one block before."""
        return FULL if self.terms is None else (NEIGHBOUR if self.terms else ALONE)


def blocks_of(window: Window, steps: int) -> Blocks:
    """Describe a window by blocks. A window that leaves nothing out is the full one."""
    block, terms = blocks_and_terms(window)
    return Blocks(block, terms) if steps > block * (terms + 1) else Blocks(ENDLESS, None)


@dataclass(frozen=True, slots=True)
class Sequences:
    """What a plan needs to know of sequences that lie one behind the other in time.

    Parameters
    ----------
    count : int
        How many there are.
    longest : int
        Steps of the longest.
    unit : int
        The largest power of two up to `ENDLESS` that divides where all of them start and end.
    """

    count: int
    longest: int
    unit: int

    @property
    def split(self) -> Split:
        """How time is split: each is one segment."""
        return Split(0, self.count, f"{self.count} sequences, each from end to end")


class Split(NamedTuple):
    """How time is split.

    Parameters
    ----------
    blocks : int
        Of a segment.
    segments : int
        How many there are.
    reason : str
        Why.
    short : bool
        Whether segments are shorter than with enough warps, so that more is read twice.
    """

    blocks: int
    segments: int
    reason: str
    short: bool = False


class Warps(NamedTuple):
    """How many warps a kernel wants on a GPU.

    Parameters
    ----------
    wanted : int
        Warps that keep enough on its way to all multiprocessors, if there is room for so many.
    places : int
        Warps that the GPU holds at once. If there are more, they run in several waves.
    """

    wanted: int
    places: int


class Cost(NamedTuple):
    """What a KiB that a warp moves takes of it.

    Parameters
    ----------
    instructions : int
        That it issues.
    cycles : int
        That it takes if it is alone: its instructions wait for each other.
    """

    instructions: int
    cycles: int


def pace(cost: Cost, warps: int, warp_bytes: int, wanted: Warps, split: Split, carries: bool, device: Device) -> float:
    """Return the cycles in which a multiprocessor moves a KiB: what is slowest of memory, issue and waiting.

    Parameters
    ----------
    cost : Cost
        Of a warp.
    warps, warp_bytes : int
        How many there are, and bytes that each has on their way.
    wanted : Warps
        From `warps_wanted`.
    split : Split
        How time is split.
    carries : bool
        Whether segments see a block before them, which is then read twice.
    device : Device
        Where they run.
    """
    present = min(warps, wanted.places) / device.multiprocessors
    memory = FLIGHT_CYCLES * KIB / min(present * warp_bytes, device.limits.bytes_wanted)
    once = max(memory, cost.instructions / SCHEDULERS, cost.cycles / present)
    return once * (1 + 1 / split.blocks if carries and split.segments > 1 else 1)


def warps_wanted(warp_bytes: int, room: int, device: Device, share: float = 1) -> Warps:
    """Return how many warps a kernel wants.

    Parameters
    ----------
    warp_bytes : int
        Bytes that each warp has on their way.
    room : int
        Warps that a multiprocessor holds.
    device : Device
        To be kept busy.
    share : float
        How many of the bytes that memory wants on their way are asked for.
    """
    enough = max(ceil(share * device.limits.bytes_wanted / warp_bytes), WARPS_NEEDED)
    return Warps(min(enough, room) * device.multiprocessors, room * device.multiprocessors)


def are_enough(warps: int, steps: int, sequences: Sequences | None, device: Device) -> bool:
    """Say whether so many warps keep the GPU busy, or whether there are so few steps that it doesn't matter."""
    short = LEAST_STEPS
    if sequences is not None:
        steps, short = sequences.longest, max(short, LAUNCH_STEPS * sequences.count)
    return warps >= WARPS_NEEDED * device.multiprocessors or steps <= short


def split_time(warps: int, blocks: int, halo: int, wanted: Warps, device: Device) -> Split:
    """Split time into segments, each of which reads `halo` blocks twice, so that there are enough warps.

    Parameters
    ----------
    warps : int
        Of one segment, in whole thread blocks.
    blocks : int
        Of all time.
    halo : int
        Blocks that a segment reads before its own.
    wanted : Warps
        From `warps_wanted`.
    device : Device
        To be kept busy.
    """
    needed = min(WARPS_NEEDED * device.multiprocessors, wanted.places)
    most = max(1, blocks // (SEGMENT_BLOCKS * halo) if halo else blocks)
    segments = max(1, min(-(-wanted.wanted // warps), most))
    reason = f"{wanted.wanted} warps wanted"
    short = segments * warps < needed and halo > 0
    if short:
        most = max(1, blocks // (SHORT_BLOCKS * halo))
        segments = max(segments, min(-(-needed // warps), most))
        reason = f"{needed} warps needed, though segments are short"
    if segments * warps > wanted.places:
        segments = whole_waves(warps, blocks, halo, most, wanted.places)
        reason = f"room for {wanted.places}, {reason}"
    length = -(-blocks // segments)
    segments = -(-blocks // length)
    return Split(length, segments, f"{segments} segments of {length} blocks: {warps} warps each, {reason}", short)


def whole_waves(warps: int, blocks: int, halo: int, most: int, places: int) -> int:
    """Return the segments, up to `most`, that are done first where not all of them run at once.

    All segments take equally long, so a wave with one of them takes as long as a wave that fills the GPU. With more
    than `WAVES` waves, the idle part of the last one no longer matters.
    """
    few = range(1, max(1, min(most, WAVES * places // warps)) + 1)
    return min(few, key=lambda segments: -(-segments * warps // places) * (-(-blocks // segments) + halo))


def split_blocks(warps: int, steps: int, blocks: Blocks, wanted: Warps, device: Device, part: str) -> Split:
    """Split time where blocks end, if it can be: a kernel of the exact recurrence goes from `part` to `part`."""
    if blocks.terms is None:
        return Split(1, 1, f"one segment: the exact recurrence passes its state from {part} to {part}")
    return split_time(warps, -(-steps // blocks.length), blocks.terms, wanted, device)


def pointers(views: Views, written: Collection[str] = ("x",)) -> tuple[Argument, ...]:
    """Return the arguments that point to where arrays start. Without an array the pointer is null."""
    return tuple(
        Argument(name, "char*" if name in written else "const char*", name if view else None, view.start if view else 0)
        for name, view in views.items()
    )


def strides(views: Views, step: str = "long long", without: Collection[str] = ()) -> tuple[Argument, ...]:
    """Return the arguments that locate the elements of arrays, but those `without` which a kernel does.

    Strides of time are in the C type `step`, but for those of initial states, which have sequences in its place.
    """
    every = (
        Argument(f"{name}_{axis}", step if axis == "step" and name != "x0" else "long long", getattr(view, axis, 0))
        for name, view in views.items()
        for axis in ("batch", "head", "channel", "step")
    )
    return tuple(argument for argument in every if argument.name not in without)


def starts(sequences: Sequences | None) -> Argument:
    """Return the argument that points to where sequences start, in the order of the sweep."""
    return Argument("starts", "const long long*", None if sequences is None else "starts")


def wide(**values: int) -> tuple[Argument, ...]:
    """Return arguments of 64 bits."""
    return tuple(Argument(name, "long long", value) for name, value in values.items())
