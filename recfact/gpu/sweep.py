"""The plan of `sweep`, whose threads own lines: the exact recurrence, blocks alone, or blocks with one before them."""

from __future__ import annotations

from math import gcd

from recfact.gpu.geometry import Geometry
from recfact.gpu.lines import ACCESS_BYTES, THREADS, Lines, lines_of, narrowed, steps_with_room
from recfact.gpu.multiprocessors import Device, warps_of_registers, warps_wanted
from recfact.gpu.plans import Launch, packed, wide
from recfact.gpu.segments import Cost, at_work, cut, pace, split_blocks
from recfact.gpu.solves import ENDLESS, LAST, Blocks, Sequences

WIDEST_REGISTERS, WIDE_REGISTERS, NARROW_REGISTERS = 128, 96, 80  # of a thread
NARROW_BYTES = 1024  # of a warp's chunk
COST = Cost(60, 110)  # of a warp for a KiB, counted where most are needed, and rounded up to tens
CHUNK_BYTES = 192  # of a thread's chunk and its coefficients, in registers


class Sweep:
    """A solve by `sweep`.

    Parameters
    ----------
    geometry : Geometry
        The solve. Beside its arrays may be the gates k and q of a Phalanx layer, or a place for states that are kept.
    blocks : Blocks
        Windows with at most one block before each, or the exact recurrence.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. Blocks count from the start of each.
    share : float
        As for `warps_wanted`.

    Attributes
    ----------
    lines : Lines
        The numbers that a thread owns.
    wanted, warps : int
        How many warps keep the GPU busy, and how many are at work.
    split : Split
        How time is split.
    pace : float
        Cycles in which a multiprocessor moves a KiB.
    """

    def __init__(
        self,
        geometry: Geometry,
        blocks: Blocks,
        device: Device,
        sequences: Sequences | None = None,
        share: float = 1,
    ) -> None:
        self.geometry, self.blocks, self.sequences = geometry, blocks, sequences
        self.lines = lines_of(geometry, blocks.length, ENDLESS if sequences is None else sequences.unit)
        self.kept = {"kept": geometry.kept} if geometry.kept else {}
        self.lines = narrowed(self.lines, self.lines.channels, (*geometry.beside, *self.kept.values()))
        self.steps = chunk_steps(self.lines)
        streams = 1 + len(geometry.beside)
        ahead = 32 * self.lines.channels * geometry.u.type.size * self.steps * streams  # bytes of a warp's next chunk
        # Halves beside coefficients or results in float32 fill registers with both, and with states twice as wide. So
        # do numbers of 8 bytes, and the places where blocks begin inside a chunk. On capability 7.5 gates take more
        # than elsewhere if coefficients move one by one. A place for last states beside all others is held to the end.
        mixed = max(geometry.a.type.size, geometry.x.type.size) > geometry.u.type.size
        gated = streams > 1 and self.lines.coefficient_steps == 1 and device.capability < (8, 0)
        ends = geometry.kept is not None and geometry.every == LAST and geometry.written
        full = mixed or gated or ends or geometry.u.type.size == 8 or blocks.length % self.steps > 0
        wide = WIDEST_REGISTERS if full else WIDE_REGISTERS
        self.registers = NARROW_REGISTERS if ahead <= NARROW_BYTES else wide
        wanted = warps_wanted(ahead, device.limits.room(THREADS // 32, self.registers), device, share)
        self.wanted = wanted.wanted
        own = self.lines.warps_of_segment(THREADS, sequences)
        together = split_blocks(own, geometry.steps, blocks, wanted, device, "step")
        self.split = cut(together, geometry.steps, blocks.length, sequences)
        self.warps = self.lines.thread_blocks(32, self.split.segments)
        if sequences is not None:  # whose lines share warps
            self.warps = -(-at_work(self.lines.count, self.split, geometry.steps, blocks.length, sequences) // 32)
        used = self.lines.count / (32 * self.lines.warps)  # share of lanes that have a line
        self.pace = pace(COST, self.warps, ahead, wanted, self.split, bool(blocks.terms), device) / used

    def launch(self, why: str) -> Launch:
        """Return the launch. `why` is the first of its reasons."""
        geometry, length, split, sequences = self.geometry, self.blocks.length, self.split, self.sequences
        gates = dict(zip("kq", geometry.beside, strict=False))
        return self.lines.launch(
            "sweep",
            {**geometry.swept, **gates, **self.kept},
            self.lines.thread_blocks(THREADS, split.segments, sequences),
            THREADS,
            {
                "INITIAL": int(geometry.x0 is not None),
                **self.lines.chunks(self.steps),
                "WINDOW": self.blocks.window,
                "UNIT": gcd(length, self.steps),
                "THREADS": THREADS,
                "RESIDENT": warps_of_registers(self.registers),
                "SEQUENCES": int(sequences is not None),
                "GATED": int(bool(gates)),
                "KEPT": geometry.every if self.kept else 0,
                "WRITES": int(geometry.written),
            },
            (
                *(wide(gate_heads=geometry.gate_heads) if gates else ()),
                *packed(sequences),
                *wide(
                    steps=geometry.steps,
                    first=ENDLESS if length == ENDLESS else geometry.first_block(length, sequences is not None),
                    block=length,
                    blocks=split.blocks,
                    segments=split.segments,
                ),
            ),
            (why, self.lines.reason, split.reason),
            written=("x", "kept"),
        )


def chunk_steps(lines: Lines) -> int:
    """Return the steps of a chunk: as many as stay in registers."""
    vectors = lines.own or (lines.time_contiguous and lines.coefficient_steps > 1)
    heavy = vectors or lines.geometry.a.type.size == ACCESS_BYTES  # coefficients fill registers, too
    steps = max((16 if lines.access > 1 else 8) // (1 + heavy), lines.access)
    inputs = (1 + len(lines.geometry.beside)) * lines.channels  # and gates
    step_bytes = inputs * lines.geometry.u.type.size + lines.coefficients * lines.geometry.a.type.size
    return steps_with_room(steps, lines.access, step_bytes, CHUNK_BYTES)
