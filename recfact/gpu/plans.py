"""What the plans of all kernels are made of: the launch itself, its arguments, and how time is split.

Tuning table (measured on no GPU yet; each number is a bound from the machine):

==================  =======  ==================================================================================
name                value    why
==================  =======  ==================================================================================
BYTES_WANTED        32 KiB   on their way to a multiprocessor: they cover the latency of memory at full bandwidth
MOST_WARPS          32       wanted on a multiprocessor, however little each has on its way
WARPS_NEEDED        4        with fewer, a multiprocessor's four schedulers don't all have work
SEGMENT_BLOCKS      20       blocks of a segment for one block read twice: at most 5 % more is read
SHORT_BLOCKS        8        the same where otherwise fewer than WARPS_NEEDED would run
SLOT_BYTES          48 KiB   shared memory that a thread block gets without asking for more
==================  =======  ==================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View

BYTES_WANTED = 32 * 1024
MOST_WARPS = 32
WARPS_NEEDED = 4
SEGMENT_BLOCKS = 20
SHORT_BLOCKS = 8
SLOT_BYTES = 48 * 1024
TILE = 16  # steps and channels of a tensor-core tile
STAGES = 4  # tiles on their way to a warp of b2p
ENDLESS = 1 << 62  # steps of a block that never ends; a multiple of every chunk

FULL, ALONE, NEIGHBOUR = 0, 1, 2  # values of the macro WINDOW


class Device(NamedTuple):
    """What of a GPU a plan depends on."""

    capability: tuple[int, int]
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel: a number, or an array by name with an offset in bytes (None for a null pointer)."""

    name: str
    c_type: str
    value: int | str | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """An array that only the kernel uses."""

    name: str
    bytes: int
    zeroed: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and all that it takes to launch it."""

    kernel: str
    macros: tuple[tuple[str, str], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
    scratch: tuple[Scratch, ...]
    reasons: tuple[str, ...]


class Blocks(NamedTuple):
    """A window as the kernels see it: blocks of `length` steps that see `terms` blocks before them; None for all."""

    length: int
    terms: int | None

    @property
    def window(self) -> int:
        """The value of the macro WINDOW, for at most one block before."""
        return FULL if self.terms is None else (NEIGHBOUR if self.terms else ALONE)


class Split(NamedTuple):
    """How time is split: `blocks` of a segment, and how many segments there are."""

    blocks: int
    segments: int
    reason: str


def warps_wanted(warp_bytes: int, device: Device) -> int:
    """Return how many warps keep enough on its way to all multiprocessors, if each has `warp_bytes`."""
    return min(-(-BYTES_WANTED // warp_bytes), MOST_WARPS) * device.multiprocessors


def split_time(warps: int, blocks: int, halo: int, warp_bytes: int, device: Device) -> Split:
    """Split time into segments, each of which reads `halo` blocks twice, so that there are enough warps.

    Parameters
    ----------
    warps : int
        Of one segment.
    blocks : int
        Of all time.
    halo : int
        Blocks that a segment reads before its own.
    warp_bytes : int
        That each warp has on their way.
    device : Device
        To be kept busy.
    """
    wanted, needed = warps_wanted(warp_bytes, device), WARPS_NEEDED * device.multiprocessors
    most = blocks // (SEGMENT_BLOCKS * halo) if halo else blocks
    segments = max(1, min(-(-wanted // warps), most))
    reason = f"{wanted} warps wanted"
    if segments * warps < needed and halo:
        segments = max(segments, min(-(-needed // warps), blocks // (SHORT_BLOCKS * halo)))
        reason = f"{needed} warps needed, though segments are short"
    length = -(-blocks // segments)
    segments = -(-blocks // length)
    return Split(length, segments, f"{segments} segments of {length} blocks: {warps} warps each, {reason}")


def resident(warps: int, device: Device) -> float:
    """Return how many warps a multiprocessor has."""
    return warps / device.multiprocessors


def first_block(steps: int, length: int, reverse: bool) -> int:
    """Return the steps of the first block in the order of the sweep: in reverse that is the last one, perhaps short."""
    return (steps % length or length) if reverse else length


def strides(name: str, view: View | None, step: int | None, c_type: str = "long long") -> tuple[Argument, ...]:
    """Return the arguments that say where an operand's elements are, with the stride of time if there is one."""
    batch, head, channel = (0, 0, 0) if view is None else (view.batch, view.head, view.channel)
    arguments = [
        Argument(f"{name}_batch", "long long", batch),
        Argument(f"{name}_head", "long long", head),
        Argument(f"{name}_channel", "long long", channel),
    ]
    if step is not None:
        arguments.append(Argument(f"{name}_step", c_type, step))
    return tuple(arguments)


def wide(name: str, value: int) -> Argument:
    """Return an argument of 64 bits."""
    return Argument(name, "long long", value)


def initial_state(geometry: Geometry) -> Argument:
    """Return the argument for the initial states."""
    return Argument("x0", "const char*", None if geometry.x0 is None else "x0")
