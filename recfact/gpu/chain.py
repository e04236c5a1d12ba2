"""The plan of `chain`, whose threads own lines: the exact recurrence with time split among thread blocks."""

from __future__ import annotations

from dataclasses import replace

from recfact.gpu.lines import Lines, narrowed, steps_with_room
from recfact.gpu.multiprocessors import warps_of_registers
from recfact.gpu.plans import Argument, Launch, Scratch, packed, wide
from recfact.gpu.solves import Sequences

WARPS, REGISTERS = 11, 80  # that own steps, of a tile; of a thread
MOST_REGISTERS = 96  # where packed sequences or solves from an x0 keep states: on 10.0 and 12.0 they spilled
CHUNK_BYTES = 160  # in registers of a thread


def chain_steps(lines: Lines) -> int:
    """Return the steps that a warp of `chain` owns: as many as its registers hold until their states are known."""
    # A number that doesn't move together with the next step takes a register of its own.
    inputs = max(lines.channels * lines.geometry.u.type.size, 4 if lines.access == 1 else 0)
    coefficients = max(lines.coefficients * lines.geometry.a.type.size, 4 if lines.coefficient_steps == 1 else 0)
    steps = 8 if lines.channels > 1 else 32
    return steps_with_room(steps, lines.access, inputs + coefficients, CHUNK_BYTES)


def chain(lines: Lines, why: str, sequences: Sequences | None = None) -> Launch:
    """Plan the exact recurrence with time split among thread blocks.

    Parameters
    ----------
    lines : Lines
        From `lines_of`, for a block that never ends.
    why : str
        The first of the launch's reasons.
    sequences : Sequences, optional
        Which time is made of. Tiles take no notice of where they end.
    """
    if lines.own:  # 8 channels of halves with their coefficients, widened, are too much for the registers
        lines = replace(lines, channels=min(lines.channels, 4))
    kept = {"kept": lines.geometry.kept} if lines.geometry.kept else {}
    lines = narrowed(lines, lines.channels, tuple(kept.values()))
    geometry, steps, columns = lines.geometry, chain_steps(lines), lines.warps
    registers = MOST_REGISTERS if kept and (sequences is not None or geometry.x0 is not None) else REGISTERS
    rows = -(-geometry.steps // (WARPS * steps))
    tiles = columns * rows
    size = geometry.u.type.accumulator.itemsize
    return lines.launch(
        "chain",
        {**geometry.swept, **kept},
        tiles,
        32 * (WARPS + 1),
        {
            "INITIAL": int(geometry.x0 is not None),
            "SEQUENCES": int(sequences is not None),
            "KEPT": geometry.every if kept else 0,
            "WRITES": int(geometry.written),
            **lines.chunks(steps),
            "WARPS": WARPS,
            "RESIDENT": warps_of_registers(registers),
        },
        (
            Argument("counters", "unsigned int*", "counters"),
            Argument("aggregates", "char*", "aggregates"),
            Argument("states", "char*", "states"),
            *packed(sequences),
            *wide(steps=geometry.steps, columns=columns),
        ),
        (why, lines.reason, f"{rows} tiles of {WARPS * steps} steps in time, {columns} of 32 lines each"),
        written=("x", "kept"),
        scratch=(
            Scratch("counters", 4 * (1 + tiles), True),
            Scratch("aggregates", tiles * 32 * (lines.channels + lines.coefficients) * size, False),
            Scratch("states", tiles * 32 * lines.channels * size, False),
        ),
    )
