"""The plan of `b2p`, whose warps own tiles on tensor cores."""

from __future__ import annotations

from recfact.gpu.geometry import Geometry
from recfact.gpu.multiprocessors import Device, warps_of_registers, warps_wanted
from recfact.gpu.plans import Argument, Launch, packed, pointers, strides, texts, wide
from recfact.gpu.segments import Cost, at_work, cut, pace, split_blocks
from recfact.gpu.solves import Blocks, Sequences

TILE = 16  # steps and channels of a tile
WARPS = 4  # of a thread block of b2p
# Of a warp for a KiB: by the compute capability from which on it is so, whether there are gates, and whether blocks
# begin inside tiles. Counted in float16, which needs most, and rounded up to tens.
COSTS = {
    ((7, 5), False, False): Cost(210, 510),
    ((7, 5), False, True): Cost(290, 590),
    ((8, 0), False, False): Cost(190, 390),
    ((8, 0), False, True): Cost(250, 500),
    ((8, 0), True, False): Cost(160, 270),
    ((8, 0), True, True): Cost(200, 360),
    ((10, 0), False, False): Cost(180, 400),
    ((10, 0), False, True): Cost(270, 490),
    ((10, 0), True, False): Cost(150, 280),
    ((10, 0), True, True): Cost(190, 330),
}
REGISTERS, FEW_REGISTERS = 128, 96  # of a thread
BLACKWELL = 10  # major compute capability where few are enough, and memory wants more warps than many have room for
STAGES = 6  # tiles of a warp, one of them in work; an even number, because two versions of the carriers take turns
REGISTER_STAGES = 4  # if those on their way are in registers
GATE_STAGES = 4  # if inputs come with gates, as three tiles instead of one
ASYNCHRONOUS = (8, 0)  # compute capability from which copies to shared memory are asynchronous
MOST_STEPS = 1 << 34  # tiles are counted in 32 bits
GROUP = 8  # numbers of an access
TILE_BYTES = 2 * TILE * TILE
ROW_NUMBERS = 24  # distance of rows of a matrix in shared memory, so that lanes use different banks


def obstacle(geometry: Geometry, blocks: Blocks, device: Device, sequences: Sequences | None = None) -> str | None:
    """Return why tensor cores can't do a solve, or None if they can."""
    u, x, gates = geometry.u, geometry.x, geometry.beside
    least = u.type.tensor_cores
    if least is None:
        return f"{u.type.dtype} isn't a half-precision type"
    if device.capability < least:
        return f"{u.type.dtype} on tensor cores needs compute capability {least[0]}.{least[1]}"
    if gates and device.capability < ASYNCHRONOUS:
        return "gates on tensor cores need compute capability {}.{}".format(*ASYNCHRONOUS)
    if not geometry.shared or geometry.channels < GROUP:
        return "fewer than 8 channels share their coefficients"
    if blocks.terms is not None and blocks.length % TILE and (blocks.length < TILE or blocks.terms == 0):
        which = "shorter than" if blocks.length < TILE else "alone and not whole"
        return f"blocks of {blocks.length} steps are {which} tiles of {TILE}"
    if geometry.steps > MOST_STEPS:
        return "there are too many steps"
    along = geometry.time_contiguous
    if not along and not geometry.channels_contiguous:
        return "neither channels nor steps are contiguous"
    rows = geometry.steps if sequences is None else sequences.unit
    if (rows if along else geometry.channels) % GROUP:
        return "rows aren't whole groups of 8 numbers"
    if any(gate.channel != gate.type.size for gate in gates):
        return "channels of gates aren't contiguous"
    if not all(view.moves(GROUP, step=not along, channel=along) for view in (u, x, *gates)):
        return "rows aren't aligned to 16 bytes"
    return None


class B2P:
    """A solve by the block two-pass algorithm on tensor cores, to which there must be no `obstacle`.

    Parameters
    ----------
    geometry : Geometry
        The solve. Beside its arrays may be the gates k and q of a Phalanx layer.
    blocks : Blocks
        Windows with at most one block before each, or the exact recurrence.
    device : Device
        Where it runs.
    precision : {"full", "paper"}
        Store L_t in two terms, or in one.
    share : float
        As for `warps_wanted`.
    fewer : int
        Tiles fewer that a warp has than by default, an even number.
    sequences : Sequences, optional
        Which time is made of. Tiles and blocks count from the start of each.

    Attributes
    ----------
    units, warps : int
        Warps of one segment; and how many are at work.
    pace : float
        Cycles in which a multiprocessor moves a KiB.
    split : Split
        How time is split.
    """

    def __init__(
        self,
        geometry: Geometry,
        blocks: Blocks,
        device: Device,
        precision: str = "full",
        share: float = 1,
        fewer: int = 0,
        sequences: Sequences | None = None,
    ) -> None:
        self.geometry, self.sequences, self.split_factor = geometry, sequences, precision == "full"
        if blocks.terms is None:
            blocks = Blocks((geometry.steps // TILE + 2) * TILE, None)  # more than all tiles
        self.blocks = blocks
        self.asynchronous = device.capability >= ASYNCHRONOUS
        gated = bool(geometry.beside)
        self.stages = (GATE_STAGES if gated else STAGES if self.asynchronous else REGISTER_STAGES) - fewer
        self.registers = FEW_REGISTERS if device.capability[0] == BLACKWELL and not gated else REGISTERS
        shared = shared_bytes(self.stages if self.asynchronous else 1, self.split_factor, gated)
        room = device.limits.room(WARPS, self.registers, shared)
        # k v of the next tile is made early, so with gates one tile less is on its way all the time.
        ahead = (self.stages - 2) * TILE_BYTES * 3 if gated else (self.stages - 1) * TILE_BYTES
        wanted = warps_wanted(ahead, room, device, share)
        columns = -(-geometry.channels // TILE)
        self.units = units = geometry.batch * geometry.heads * columns  # warps of one segment
        together = split_blocks(units, geometry.steps, blocks, wanted, device, "tile")
        self.split = cut(together, geometry.steps, blocks.length, sequences)
        self.warps = at_work(units, self.split, geometry.steps, blocks.length, sequences)
        used = geometry.channels / (TILE * columns)  # share of tiles that isn't beyond the channels
        if gated:  # heads ask for the gates that they share one by one, and no cache is counted on
            used *= (2 + 2 / geometry.gate_heads) / 4
        cost = COSTS[generation(device), gated, blocks.terms is not None and blocks.length % TILE > 0]
        self.pace = pace(cost, self.warps, ahead, wanted, self.split, bool(blocks.terms), device) / used

    def launch(self, why: str) -> Launch:
        """Return the launch. `why` is the first of its reasons."""
        geometry, blocks, split, packs = self.geometry, self.blocks, self.split, self.sequences is not None
        first = geometry.first_block(blocks.length, packs)
        if geometry.reverse and not packs:
            first += -geometry.steps % TILE  # of the ragged tile, which is the first
        gates = dict(zip("kq", geometry.beside, strict=False))
        kept = {"kept": geometry.kept} if geometry.kept else {}
        views = {**geometry.views, **gates, **kept}  # the kernel goes backwards by itself
        macros = {
            "INPUT": geometry.u.type.c_type,
            "COEFFICIENT": geometry.a.type.c_type,
            "OUTPUT": geometry.x.type.c_type,
            "TIME_CONTIGUOUS": int(geometry.time_contiguous),
            "REVERSE": int(geometry.reverse),
            "SPLIT": int(self.split_factor),
            "STAGES": self.stages,
            "ASYNCHRONOUS": int(self.asynchronous),
            "WARPS": WARPS,
            "RESIDENT": warps_of_registers(self.registers),
            "WINDOW": blocks.window,
            "SINGLE": int(blocks.length == TILE),
            "SHIFTED": int(blocks.length % TILE > 0),
            "INITIAL": int(geometry.x0 is not None),
            "SEQUENCES": int(packs),
            "GATED": int(bool(gates)),
            "KEPT": geometry.every if kept else 0,
            "WRITES": int(geometry.written),
        }
        return Launch(
            "b2p",
            texts(macros),
            (-(-self.units * split.segments // WARPS), 1, 1),
            (32 * WARPS, 1, 1),
            0,
            (
                *pointers(views, written=("x", "kept")),
                *(wide(gate_heads=geometry.gate_heads) if gates else ()),
                *packed(self.sequences),
                *wide(steps=geometry.steps, first=first, block=blocks.length),
                Argument("blocks", "int", split.blocks),
                *wide(segments=split.segments, batch=geometry.batch, heads=geometry.heads, channels=geometry.channels),
                *strides(views, without=("a_channel",)),
            ),
            (),
            (why, "L_t in two terms" if self.split_factor else "L_t in one term, as in the paper", split.reason),
        )


def generation(device: Device) -> tuple[int, int]:
    """Return the compute capability whose costs are those of a device."""
    return max(since for since, *_ in COSTS if since <= device.capability)


def shared_bytes(tiles: int, split_factor: bool, gated: bool = False) -> int:
    """Return the shared memory of a thread block: tiles, the terms of L_t and the product in float32, and vectors.

    With gates, tiles of three arrays arrive without gaps between rows, and there are two terms of the inputs.
    """
    matrices = (2 if gated else tiles) + 1 + split_factor + 2
    return WARPS * (3 * tiles * TILE_BYTES * gated + 2 * ROW_NUMBERS * TILE * matrices + 4 * TILE * 8)
