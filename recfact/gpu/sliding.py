"""The plan of `sliding`, whose threads own lines: windows of several blocks. Slots keep the results of blocks."""

from __future__ import annotations

from dataclasses import replace

from recfact.gpu.geometry import Geometry
from recfact.gpu.lines import THREADS, lines_of
from recfact.gpu.multiprocessors import WARPS_NEEDED, Device, warps_of_registers, warps_wanted
from recfact.gpu.plans import Argument, Launch, Scratch, packed, wide
from recfact.gpu.segments import cut, split_time
from recfact.gpu.solves import Blocks, Sequences

REGISTERS = 128  # of a thread
SLOT_BYTES = 48 * 1024


def sliding(geometry: Geometry, blocks: Blocks, device: Device, sequences: Sequences | None = None) -> Launch:
    """Plan a window of several blocks.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    blocks : Blocks
        Windows with several blocks before each.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. Blocks count from the start of each.
    """
    assert blocks.terms is not None
    lines = lines_of(geometry, 1)
    size = geometry.u.type.accumulator.itemsize
    channels = min(lines.channels, 2 if size == 4 else 1)
    lines = replace(lines, channels=channels, access=1, time_contiguous=False, own=lines.own and channels > 1)
    slot_bytes = blocks.terms * (lines.channels + lines.coefficients) * size
    # The slots of a thread block of one warp, if enough such thread blocks fit.
    room = device.limits.room(1, REGISTERS, slot_bytes * 32)
    shared = slot_bytes * 32 <= SLOT_BYTES and room >= WARPS_NEEDED
    if not shared:
        room = device.limits.room(THREADS // 32, REGISTERS)
    threads = 32 if shared else THREADS
    group = blocks.length * blocks.terms
    count = -(-geometry.steps // group)
    wanted = warps_wanted(32 * lines.channels * geometry.u.type.size, room, device)
    together = split_time(lines.warps_of_segment(threads, sequences), count, 1, wanted, device)
    split = cut(together, geometry.steps, group, sequences)
    where = "shared memory" if shared else "global memory, because shared memory is too small"
    return lines.launch(
        "sliding",
        geometry.swept,
        lines.thread_blocks(threads, split.segments, sequences),
        threads,
        {
            "INITIAL": int(geometry.x0 is not None),
            "SLOTS_SHARED": int(shared),
            "THREADS": threads,
            "RESIDENT": warps_of_registers(REGISTERS),
            "SEQUENCES": int(sequences is not None),
        },
        (
            Argument("slots", "char*", None if shared else "slots"),
            *packed(sequences),
            *wide(
                steps=geometry.steps,
                first=geometry.first_block(blocks.length, sequences is not None),
                block=blocks.length,
                terms=blocks.terms,
                groups=split.blocks,
                segments=split.segments,
            ),
        ),
        (
            f"sliding: the window has {blocks.terms + 1} blocks of {blocks.length} steps",
            f"{lines.channels} channels to a thread; what blocks leave is in {where}",
            split.reason.replace("blocks", "groups of blocks"),
        ),
        shared_bytes=slot_bytes * threads if shared else 0,
        scratch=() if shared else (Scratch("slots", slot_bytes * lines.count * split.segments, False),),
    )
