"""How time is split into segments, so that enough warps run, and how fast they then move memory.

The constants here and in the files of kernels, and the limits in `multiprocessors`, are bounds from the machine or
estimates, measured on no GPU yet. The page on tuning gives the reason for each.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from recfact.gpu.multiprocessors import KIB, SCHEDULERS, WARPS_NEEDED, Device, Warps
from recfact.gpu.solves import Blocks, Sequences

SEGMENT_BLOCKS = 20
SHORT_BLOCKS = 8
WAVES = 8
LEAST_STEPS = 256  # up to so many, warps needn't be enough
LAUNCH_STEPS = 64  # that a thread of `sweep` takes while the host launches another kernel
FLIGHT_CYCLES = 2000  # in which memory delivers what a multiprocessor wants on its way: 1.25 us at 1.6 GHz


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


def split_time(warps: int | Fraction, blocks: int, halo: int, wanted: Warps, device: Device) -> Split:
    """Split time into segments, each of which reads `halo` blocks twice, so that there are enough warps.

    Parameters
    ----------
    warps : int or Fraction
        Of one segment: in whole thread blocks, if these don't hold parts of several.
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


def whole_waves(warps: int | Fraction, blocks: int, halo: int, most: int, places: int) -> int:
    """Return the segments, up to `most`, that are done first where not all of them run at once.

    All segments take equally long, so a wave with one of them takes as long as a wave that fills the GPU. With more
    than `WAVES` waves, or as many segments, what the last wave leaves idle no longer matters.
    """
    few = range(1, max(1, min(most, WAVES * -(-places // warps))) + 1)
    return min(few, key=lambda segments: -(-segments * warps // places) * (-(-blocks // segments) + halo))


def split_blocks(
    warps: int | Fraction,
    steps: int,
    blocks: Blocks,
    wanted: Warps,
    device: Device,
    part: str,
) -> Split:
    """Split time where blocks end, if it can be: a kernel of the exact recurrence goes from `part` to `part`."""
    if blocks.terms is None:
        return Split(1, 1, f"one segment: the exact recurrence passes its state from {part} to {part}")
    return split_time(warps, -(-steps // blocks.length), blocks.terms, wanted, device)


def cut(split: Split, steps: int, length: int, sequences: Sequences | None) -> Split:
    """Return a split of sequences, given that of one sequence of as many steps.

    Parameters
    ----------
    split : Split
        In blocks of `length` steps.
    steps : int
        Of all sequences together.
    length : int
        Of a block.
    sequences : Sequences or None
        What time is made of, if not of one sequence. They stay whole if none is longer than two segments. Otherwise
        each may have a segment more than it needs, because segments are counted without a table.
    """
    if sequences is None:
        return split
    count = f"{sequences.count} sequences"
    if sequences.longest <= 2 * split.blocks * length:
        return Split(steps // length + 1, sequences.count, f"{count}, each from end to end")
    segments = sequences.count + steps // (split.blocks * length)
    return split._replace(segments=segments, reason=f"{count}, cut as one would be: {split.reason}")


def at_work(units: int, split: Split, steps: int, length: int, sequences: Sequences | None) -> int:
    """Return how many of the `units` of all segments have work, on average, while the longest segment has.

    Parameters are those of `cut`, with the split that it returned.
    """
    if sequences is None:
        return units * split.segments
    return min(units * split.segments, -(-units * steps // min(sequences.longest, split.blocks * length)))


def are_enough(warps: int, steps: int, sequences: Sequences | None, device: Device) -> bool:
    """Say whether so many warps keep the GPU busy, or whether there are so few steps that it doesn't matter."""
    short = LEAST_STEPS
    if sequences is not None:
        steps, short = sequences.longest, max(short, LAUNCH_STEPS * sequences.count)
    return warps >= WARPS_NEEDED * device.multiprocessors or steps <= short


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
