"""What a GPU has room for, and how much it wants on its way from memory, by compute capability.

The limits are those of the technical specifications in the CUDA programming guide. The bytes wanted on their way are
those that memory delivers to a multiprocessor in 1.25 us, for one card of each compute capability, in whole 4 KiB. They
are an estimate, measured on no GPU. The page on tuning names the cards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

KIB = 1024
REGISTERS = 64 * KIB
REGISTERS_AT_ONCE = 256  # registers are given to a warp in units of this size
SCHEDULERS = 4  # each has a quarter of the registers
WARPS_NEEDED = 4  # of a multiprocessor, so that all its schedulers have work


class Multiprocessor(NamedTuple):
    """Limits of a multiprocessor.

    Parameters
    ----------
    warps, thread_blocks : int
        The most that it holds at once.
    shared_bytes : int
        Of shared memory.
    reserved_bytes : int
        The part of these that CUDA takes for itself in each thread block.
    bytes_wanted : int
        Bytes on their way from memory that keep memory busy.
    """

    warps: int
    thread_blocks: int
    shared_bytes: int
    reserved_bytes: int
    bytes_wanted: int

    def room(self, block_warps: int, registers: int, shared_bytes: int = 0) -> int:
        """Return how many warps of a kernel fit at once.

        Parameters
        ----------
        block_warps : int
            Warps of a thread block.
        registers : int
            Of a thread.
        shared_bytes : int
            Shared memory of a thread block, without what is reserved.
        """
        blocks = min(self.warps // block_warps, self.thread_blocks, warps_of_registers(registers) // block_warps)
        if shared_bytes:
            blocks = min(blocks, self.shared_bytes // (shared_bytes + self.reserved_bytes))
        return blocks * block_warps


MULTIPROCESSORS = {
    (7, 5): Multiprocessor(32, 16, 64 * KIB, 0, 12 * KIB),
    (8, 0): Multiprocessor(64, 32, 164 * KIB, KIB, 24 * KIB),
    (8, 6): Multiprocessor(48, 16, 100 * KIB, KIB, 16 * KIB),
    (8, 9): Multiprocessor(48, 24, 100 * KIB, KIB, 16 * KIB),
    (9, 0): Multiprocessor(64, 32, 228 * KIB, KIB, 32 * KIB),
    (10, 0): Multiprocessor(64, 32, 228 * KIB, KIB, 68 * KIB),
    (12, 0): Multiprocessor(48, 24, 100 * KIB, KIB, 16 * KIB),
}


def warps_of_registers(registers: int) -> int:
    """Return how many warps a multiprocessor has registers for, if each thread takes `registers`."""
    of_a_warp = -(-32 * registers // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    return SCHEDULERS * (REGISTERS // SCHEDULERS // of_a_warp)


def multiprocessor_of(capability: tuple[int, int]) -> Multiprocessor:
    """Return the limits for a compute capability: its own, or those of the nearest known one below.

    Examples
    --------
    >>> multiprocessor_of((8, 7)) == multiprocessor_of((8, 6))
    True
    """
    known = [one for one in MULTIPROCESSORS if one <= capability]
    return MULTIPROCESSORS[max(known, default=min(MULTIPROCESSORS))]


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
