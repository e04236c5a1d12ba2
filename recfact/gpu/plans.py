"""What the plans of all kernels are made of: the launch itself, its arguments, and how time is split.

The constants here and in the files of kernels, and the limits in `multiprocessors`, are what kernels are tuned by. They
are bounds from the machine or estimates, and measured on no GPU yet; the page on tuning says why each is what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View
from recfact.gpu.multiprocessors import Multiprocessor, multiprocessor_of

WARPS_NEEDED = 4
SEGMENT_BLOCKS = 20
SHORT_BLOCKS = 8
TILE = 16  # steps and channels of a tensor-core tile
ENDLESS = 1 << 62  # steps of a block that never ends; a multiple of every chunk

FULL, ALONE, NEIGHBOUR = 0, 1, 2  # values of the macro WINDOW


@dataclass(frozen=True, slots=True)
class Device:
    """What of a GPU a plan depends on.

    Parameters
    ----------
    capability : tuple of int
        Compute capability.
    multiprocessors : int
        How many there are.
    limits : Multiprocessor
        What each of them has room for.
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
        As the kernel calls it.
    c_type : str
        In CUDA C++.
    value : int, str or None
        A number, the name of an array, or None for a null pointer.
    offset : int
        Bytes from the first element of the array to where the pointer is.
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
        By which arguments refer to it.
    bytes : int
        Of memory.
    zeroed : bool
        Whether all must be 0 when the kernel starts.
    """

    name: str
    bytes: int
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and all that it takes to launch it.

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
        In the order of the kernel.
    scratch : tuple of Scratch
        Arrays that it needs besides a, u, x and x0.
    reasons : tuple of str
        Why this kernel, with such accesses or products, and with time split like this.
    """

    kernel: str
    macros: tuple[tuple[str, str], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    scratch: tuple[Scratch, ...]
    reasons: tuple[str, ...]


class Blocks(NamedTuple):
    """A window as the kernels see it.

    Parameters
    ----------
    length : int
        Steps of a block.
    terms : int or None
        How many blocks before its own a block sees; None for all.
    """

    length: int
    terms: int | None

    @property
    def window(self) -> int:
        """The value of the macro WINDOW, for at most one block before."""
        return FULL if self.terms is None else (NEIGHBOUR if self.terms else ALONE)


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
        Whether more is read twice than where there are warps enough.
    """

    blocks: int
    segments: int
    reason: str
    short: bool = False


def warps_wanted(warp_bytes: int, room: int, device: Device) -> int:
    """Return how many warps keep enough on its way to all multiprocessors, if there is room for so many.

    Parameters
    ----------
    warp_bytes : int
        That each warp has on their way.
    room : int
        Warps that a multiprocessor holds. With more, some would run when the others are done, and leave it idle.
    device : Device
        To be kept busy.
    """
    enough = max(-(-device.limits.bytes_wanted // warp_bytes), WARPS_NEEDED)
    return min(enough, room) * device.multiprocessors


def split_time(warps: int, blocks: int, halo: int, wanted: int, device: Device) -> Split:
    """Split time into segments, each of which reads `halo` blocks twice, so that there are enough warps.

    Parameters
    ----------
    warps : int
        Of one segment.
    blocks : int
        Of all time.
    halo : int
        Blocks that a segment reads before its own.
    wanted : int
        Warps, from `warps_wanted`.
    device : Device
        To be kept busy.
    """
    needed = WARPS_NEEDED * device.multiprocessors
    most = blocks // (SEGMENT_BLOCKS * halo) if halo else blocks
    segments = max(1, min(-(-wanted // warps), most))
    reason = f"{wanted} warps wanted"
    short = segments * warps < needed and halo > 0
    if short:
        segments = max(segments, min(-(-needed // warps), blocks // (SHORT_BLOCKS * halo)))
        reason = f"{needed} warps needed, though segments are short"
    length = -(-blocks // segments)
    segments = -(-blocks // length)
    return Split(length, segments, f"{segments} segments of {length} blocks: {warps} warps each, {reason}", short)


def split_blocks(warps: int, steps: int, blocks: Blocks, wanted: int, device: Device, part: str) -> Split:
    """Split time where blocks end, if it can be: a kernel of the exact recurrence goes from `part` to `part`."""
    if blocks.terms is None:
        return Split(1, 1, f"one segment: the exact recurrence passes its state from {part} to {part}")
    return split_time(warps, -(-steps // blocks.length), blocks.terms, wanted, device)


def pointers(geometry: Geometry, views: tuple[View, View, View]) -> tuple[Argument, ...]:
    """Return the arguments that point to where coefficients, inputs, result and initial states start."""
    a, u, x = views
    x0 = geometry.x0
    return (
        Argument("a", "const char*", "a", a.start),
        Argument("u", "const char*", "u", u.start),
        Argument("x", "char*", "x", x.start),
        Argument("x0", "const char*", None) if x0 is None else Argument("x0", "const char*", "x0", x0.start),
    )


def places(geometry: Geometry, views: tuple[View, View, View], step: str = "long long") -> tuple[Argument, ...]:
    """Return the arguments that say where elements of all arrays are: strides, those of time in the C type `step`."""
    strides = [
        (f"{name}_{axis}", step if axis == "step" else "long long", getattr(view, axis, 0))
        for name, view in zip(("a", "u", "x", "x0"), (*views, geometry.x0), strict=True)
        for axis in ("batch", "head", "channel", "step")
    ]
    return tuple(Argument(*stride) for stride in strides[:-1])  # initial states have no steps


def wide(**values: int) -> tuple[Argument, ...]:
    """Return arguments of 64 bits."""
    return tuple(Argument(name, "long long", value) for name, value in values.items())
