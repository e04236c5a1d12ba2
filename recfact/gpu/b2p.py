"""The plan of `b2p`, whose warps own tiles on tensor cores."""

from __future__ import annotations

from recfact.gpu.geometry import Geometry
from recfact.gpu.multiprocessors import warps_of_registers
from recfact.gpu.plans import (
    TILE,
    Argument,
    Blocks,
    Device,
    Launch,
    Split,
    first_block,
    initial_state,
    split_time,
    strides,
    warps_wanted,
    wide,
)

WARPS = 4  # of a thread block of b2p
REGISTERS, FEW_REGISTERS = 128, 96  # of a thread
BLACKWELL = (10, 0)  # compute capability from which few are enough for the same code
STAGES = 4  # tiles on their way to a warp; even, because two versions of the carriers take turns
STAGES_IN_TURN = 2  # where copies aren't asynchronous, so that only one tile is on its way
ASYNCHRONOUS = (8, 0)  # compute capability from which copies are
MOST_STEPS = 1 << 34  # tiles are counted in 32 bits
GROUP = 8  # numbers of an access
TILE_BYTES = 2 * TILE * TILE
ROW_NUMBERS = 24  # from row to row of a matrix in shared memory, which keeps lanes out of each other's banks


def obstacle(geometry: Geometry, blocks: Blocks, device: Device) -> str | None:
    """Return why tensor cores can't do a solve, or None if they can."""
    u, x = geometry.u, geometry.x
    least = u.type.tensor_cores
    if least is None:
        return f"{u.type.dtype} isn't a half-precision type"
    if device.capability < least:
        return f"{u.type.dtype} on tensor cores needs compute capability {least[0]}.{least[1]}"
    if not geometry.shared or geometry.channels < GROUP:
        return "fewer than 8 channels share their coefficients"
    if blocks.terms is not None and blocks.length % TILE:
        return f"blocks of {blocks.length} steps aren't whole tiles of {TILE}"
    if geometry.steps > MOST_STEPS:
        return "there are too many steps"
    along = geometry.time_contiguous
    if not along and not geometry.channels_contiguous:
        return "neither channels nor steps are contiguous"
    if (geometry.steps if along else geometry.channels) % GROUP:
        return "rows aren't whole groups of 8 numbers"
    if any(view.alignment(step=not along, channel=along) % 16 for view in (u, x)):
        return "rows aren't aligned to 16 bytes"
    return None


def units_of(geometry: Geometry) -> int:
    """Return how many warps own the tiles of one segment."""
    return geometry.batch * geometry.heads * -(-geometry.channels // TILE)


def stages_of(device: Device) -> int:
    """Return how many tiles a warp asks for ahead."""
    return STAGES if device.capability >= ASYNCHRONOUS else STAGES_IN_TURN


def registers_of(device: Device) -> int:
    """Return how many registers a thread may have."""
    return FEW_REGISTERS if device.capability >= BLACKWELL else REGISTERS


def shared_bytes(stages: int, split_factor: bool) -> int:
    """Return the shared memory of a thread block: tiles, the terms of L_t and the product in float32, and vectors."""
    matrices = stages + 1 + split_factor + 2
    return WARPS * (2 * ROW_NUMBERS * TILE * matrices + 4 * TILE * 6)


def room(device: Device, split_factor: bool) -> int:
    """Return how many warps a multiprocessor holds."""
    return device.limits.room(WARPS, registers_of(device), shared_bytes(stages_of(device), split_factor))


def b2p_split(geometry: Geometry, blocks: Blocks, device: Device, split_factor: bool) -> Split:
    """Split the time of `b2p` into segments."""
    if blocks.terms is None:
        return Split(1, 1, "one segment: the exact recurrence passes its state from tile to tile")
    count = -(-geometry.steps // blocks.length)
    ahead = stages_of(device) if device.capability >= ASYNCHRONOUS else 1
    wanted = warps_wanted(ahead * TILE_BYTES, room(device, split_factor), device)
    return split_time(units_of(geometry), count, blocks.terms, wanted, device)


def b2p(
    geometry: Geometry, blocks: Blocks, split: Split, reverse: bool, split_factor: bool, device: Device, why: str
) -> Launch:
    """Plan the block two-pass algorithm on tensor cores.

    Parameters
    ----------
    geometry : Geometry
        A solve to which there is no `obstacle`.
    blocks : Blocks
        Of whole tiles, with at most one before each; or the exact recurrence.
    split : Split
        From `b2p_split`.
    reverse : bool
        Apply the transpose.
    split_factor : bool
        Store L_t in two terms.
    device : Device
        Where it runs.
    why : str
        The first of the launch's reasons.
    """
    tiles = -(-geometry.steps // TILE)
    block = tiles if blocks.terms is None else blocks.length // TILE
    warps = units_of(geometry) * split.segments
    a, u, x = geometry.a, geometry.u, geometry.x
    macros = {
        "INPUT": u.type.c_type,
        "COEFFICIENT": a.type.c_type,
        "OUTPUT": x.type.c_type,
        "TIME_CONTIGUOUS": int(geometry.time_contiguous),
        "REVERSE": int(reverse),
        "SPLIT": int(split_factor),
        "STAGES": stages_of(device),
        "WARPS": WARPS,
        "RESIDENT": warps_of_registers(registers_of(device)),
        "WINDOW": blocks.window,
        "SINGLE": int(block == 1),
        "INITIAL": int(geometry.x0 is not None),
    }
    return Launch(
        "b2p",
        tuple((name, str(value)) for name, value in macros.items()),
        (-(-warps // WARPS), 1, 1),
        (32 * WARPS, 1, 1),
        0,
        (
            Argument("a", "const char*", "a"),
            Argument("u", "const char*", "u"),
            Argument("x", "char*", "x"),
            initial_state(geometry),
            wide("steps", geometry.steps),
            Argument("first", "int", first_block(tiles, block, reverse)),
            Argument("block", "int", block),
            Argument("blocks", "int", split.blocks),
            wide("segments", split.segments),
            wide("batch", geometry.batch),
            wide("heads", geometry.heads),
            wide("channels", geometry.channels),
            *(argument for argument in strides("a", a, a.step) if argument.name != "a_channel"),
            *strides("u", u, u.step),
            *strides("x", x, x.step),
            *strides("x0", geometry.x0, None),
        ),
        (),
        (why, "L_t in two terms" if split_factor else "L_t in one term, as in the paper", split.reason),
    )
