"""Plans of the kernels in plain arithmetic, whose threads own lines: `sweep`, `sliding` and `chain`."""

from __future__ import annotations

from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View
from recfact.gpu.multiprocessors import warps_of_registers
from recfact.gpu.plans import (
    ENDLESS,
    SLOT_BYTES,
    WARPS_NEEDED,
    Argument,
    Blocks,
    Device,
    Launch,
    Scratch,
    Split,
    first_block,
    initial_state,
    split_time,
    strides,
    warps_wanted,
    wide,
)

THREADS = 128  # of a thread block of `sweep`
WIDE_REGISTERS, NARROW_REGISTERS, SLIDING_REGISTERS = 96, 80, 128  # of a thread
NARROW_BYTES = 1024  # of a warp's chunk
CHAIN_WARPS, CHAIN_REGISTERS = 11, 80  # that own steps, of a tile of `chain`; of a thread
CHAIN_STEPS = 256  # with no more, `sweep` is preferred to `chain`
CHAIN_CHUNK_BYTES = 160  # in registers of a thread of `chain`
ACCESS_BYTES = 16  # the widest access
INT_STRIDE = 1 << 30  # strides of time below this, 16 of them together, leave 32-bit arithmetic room


class Lines(NamedTuple):
    """What a thread owns, and how it moves.

    Parameters
    ----------
    channels : int
        Next to each other in memory, moved at once.
    access : int
        Steps moved at once, more than 1 only of a single channel.
    time_contiguous : bool
        Whether it moves steps at once, as kernels of chunks are compiled for.
    own : bool
        Whether each of several channels has coefficients of its own.
    coefficient_steps : int
        Steps whose coefficients can move at once; 1 if channels have their own.
    reason : str
        Why.
    """

    channels: int
    access: int
    time_contiguous: bool
    own: bool
    coefficient_steps: int
    reason: str

    @property
    def coefficients(self) -> int:
        """How many coefficients a step of a line has."""
        return self.channels if self.own else 1


def lines_of(geometry: Geometry, reverse: bool, block: int) -> Lines:
    """Choose what a thread owns: the widest access that the addresses allow.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    reverse : bool
        Apply the transpose.
    block : int
        Steps of a block; no access goes from one into the next.
    """
    a, u, x = geometry.a, geometry.u, geometry.x
    along = a.step == a.size and not reverse  # backwards, coefficients stand one place off
    most = ACCESS_BYTES // u.size
    if geometry.time_contiguous:
        width = most
        while width > 1 and (
            block % width
            or (reverse and geometry.steps % width)
            or any(view.alignment(step=False, channel=True) % min(width * view.size, ACCESS_BYTES) for view in (u, x))
        ):
            width //= 2
        aligned = a.alignment(step=False, channel=True) % min(width * a.size, ACCESS_BYTES) == 0
        reason = f"{width} steps in one access, because time is contiguous"
        return Lines(1, width, True, False, width if along and aligned else 1, reason)
    coefficient_steps = a.alignment(step=False, channel=True) // a.size if along else 1
    if not geometry.channels_contiguous or not (geometry.shared or a.channel == a.size):
        return Lines(
            1, 1, False, False, coefficient_steps, "one channel to a thread, because channels aren't contiguous"
        )
    own = not geometry.shared
    views: tuple[View, ...] = (a, u, x) if own else (u, x)
    width = most
    while width > 1 and (
        geometry.channels % width
        or any(view.alignment(step=True, channel=False) % min(width * view.size, ACCESS_BYTES) for view in views)
    ):
        width //= 2
    own = own and width > 1
    return Lines(width, 1, False, own, 1 if own else coefficient_steps, f"{width} channels in one access")


def count_of(geometry: Geometry, lines: Lines) -> int:
    """Return how many lines there are."""
    return geometry.batch * geometry.heads * (geometry.channels // lines.channels)


def warps_of(geometry: Geometry, lines: Lines) -> int:
    """Return how many warps own the lines of one segment."""
    return -(-count_of(geometry, lines) // 32)


class Frame(NamedTuple):
    """What all three kernels share of their arguments and macros."""

    pointers: tuple[Argument, ...]
    strides: tuple[Argument, ...]
    macros: tuple[tuple[str, str], ...]


def frame_of(geometry: Geometry, lines: Lines, reverse: bool) -> Frame:
    """Return pointers, strides and macros of a sweep, with a thread for each line.

    Backwards, the pointers are at the first step of the sweep, the coefficient that leads into a step stands one place
    behind it, and strides are negative.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    lines : Lines
        What a thread owns.
    reverse : bool
        Apply the transpose.
    """
    last = geometry.steps - 1 if reverse else 0
    sign = -1 if reverse else 1
    a, u, x = geometry.a, geometry.u, geometry.x
    fits = all(abs(view.step) * 16 < INT_STRIDE for view in (a, u, x))
    stride = "int" if fits else "long long"
    pointers = (
        Argument("a", "const char*", "a", (last + reverse) * a.step),
        Argument("u", "const char*", "u", last * u.step),
        Argument("x", "char*", "x", last * x.step),
        initial_state(geometry),
    )
    described = (
        *strides("a", a, sign * a.step, stride),
        *strides("u", u, sign * u.step, stride),
        *strides("x", x, sign * x.step, stride),
        *strides("x0", geometry.x0, None),
    )
    macros = (
        ("INPUT", u.type.c_type),
        ("COEFFICIENT", a.type.c_type),
        ("OUTPUT", x.type.c_type),
        ("CHANNELS", str(lines.channels)),
        ("COEFFICIENTS", str(lines.coefficients)),
        ("STRIDE", stride),
        ("INITIAL", str(int(geometry.x0 is not None))),
    )
    return Frame(pointers, described, macros)


def chunk_macros(lines: Lines, reverse: bool, steps: int) -> tuple[tuple[str, str], ...]:
    """Return the macros of kernels that move chunks of several steps."""
    return (
        ("STEPS", str(steps)),
        ("TIME_CONTIGUOUS", str(int(lines.time_contiguous))),
        ("TIME_ACCESS", str(lines.access)),
        ("COEFFICIENT_STEPS", str(min(lines.coefficient_steps, steps))),
        ("REVERSE", str(int(reverse and lines.time_contiguous))),
    )


def extents(geometry: Geometry, lines: Lines) -> tuple[Argument, ...]:
    """Return the arguments that count lines."""
    return (
        wide("batch", geometry.batch),
        wide("heads", geometry.heads),
        wide("lines", geometry.channels // lines.channels),
    )


def chunk_steps(geometry: Geometry, lines: Lines, block: int) -> int:
    """Return the steps of a chunk: as many as stay in registers, and a whole number of them to a block."""
    vectors = lines.own or (lines.time_contiguous and lines.coefficient_steps > 1)
    heavy = vectors or geometry.a.size == ACCESS_BYTES  # coefficients fill registers, too
    steps = max((16 if lines.access > 1 else 8) // (1 + heavy), lines.access)
    while block % steps:
        steps //= 2
    return steps


def sweep_split(geometry: Geometry, lines: Lines, blocks: Blocks, device: Device) -> Split:
    """Split the time of a sweep into segments."""
    if blocks.terms is None:
        return Split(1, 1, "one segment: the exact recurrence passes its state from step to step")
    count = -(-geometry.steps // blocks.length)
    wanted = sweep_wanted(geometry, lines, blocks, device)
    return split_time(warps_of(geometry, lines), count, blocks.terms, wanted, device)


def sweep_wanted(geometry: Geometry, lines: Lines, blocks: Blocks, device: Device) -> int:
    """Return how many warps of `sweep` keep a GPU busy."""
    room = device.limits.room(THREADS // 32, sweep_registers(geometry, lines, blocks))
    return warps_wanted(warp_bytes(geometry, lines, blocks), room, device)


def sweep_registers(geometry: Geometry, lines: Lines, blocks: Blocks) -> int:
    """Return how many registers a thread of `sweep` may have."""
    return NARROW_REGISTERS if warp_bytes(geometry, lines, blocks) <= NARROW_BYTES else WIDE_REGISTERS


def warp_bytes(geometry: Geometry, lines: Lines, blocks: Blocks) -> int:
    """Return the bytes that a warp of `sweep` has on their way: of its next chunk."""
    return 32 * lines.channels * geometry.u.size * chunk_steps(geometry, lines, blocks.length)


def sweep(geometry: Geometry, lines: Lines, blocks: Blocks, split: Split, reverse: bool, why: str) -> Launch:
    """Plan a sweep: full, blocks alone, or blocks with one before them.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    lines : Lines
        From `lines_of`, for these blocks.
    blocks : Blocks
        With at most one before each; or the exact recurrence.
    split : Split
        From `sweep_split`.
    reverse : bool
        Apply the transpose.
    why : str
        The first of the launch's reasons.
    """
    frame = frame_of(geometry, lines, reverse)
    chunks = chunk_macros(lines, reverse, chunk_steps(geometry, lines, blocks.length))
    resident = warps_of_registers(sweep_registers(geometry, lines, blocks))
    own = (("WINDOW", str(blocks.window)), ("THREADS", str(THREADS)), ("RESIDENT", str(resident)))
    first = ENDLESS if blocks.length == ENDLESS else first_block(geometry.steps, blocks.length, reverse)
    all_lines = count_of(geometry, lines)
    return Launch(
        "sweep",
        (*frame.macros, *chunks, *own),
        (-(-all_lines // THREADS) * split.segments, 1, 1),
        (THREADS, 1, 1),
        0,
        (
            *frame.pointers,
            wide("steps", geometry.steps),
            wide("first", first),
            wide("block", blocks.length),
            wide("blocks", split.blocks),
            wide("segments", split.segments),
            *extents(geometry, lines),
            *frame.strides,
        ),
        (),
        (why, lines.reason, split.reason),
    )


def sliding(geometry: Geometry, blocks: Blocks, reverse: bool, device: Device) -> Launch:
    """Plan a window of several blocks.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    blocks : Blocks
        With several before each.
    reverse : bool
        Apply the transpose.
    device : Device
        To be kept busy.
    """
    assert blocks.terms is not None
    lines = lines_of(geometry, reverse, 1)
    size = geometry.u.type.accumulator.itemsize
    channels = min(lines.channels, 2 if size == 4 else 1)
    lines = lines._replace(channels=channels, access=1, time_contiguous=False, own=lines.own and channels > 1)
    slot_bytes = blocks.terms * (lines.channels + lines.coefficients) * size
    # Slots of a thread block of one warp, if there is room for enough of them.
    room = device.limits.room(1, SLIDING_REGISTERS, slot_bytes * 32)
    shared = slot_bytes * 32 <= SLOT_BYTES and room >= WARPS_NEEDED
    if not shared:
        room = device.limits.room(THREADS // 32, SLIDING_REGISTERS)
    threads = 32 if shared else THREADS
    count = -(-geometry.steps // (blocks.length * blocks.terms))
    wanted = warps_wanted(32 * lines.channels * geometry.u.size, room, device)
    split = split_time(warps_of(geometry, lines), count, 1, wanted, device)
    all_lines = count_of(geometry, lines)
    grid = -(-all_lines // threads) * split.segments
    frame = frame_of(geometry, lines, reverse)
    resident = warps_of_registers(SLIDING_REGISTERS)
    own = (("SLOTS_SHARED", str(int(shared))), ("THREADS", str(threads)), ("RESIDENT", str(resident)))
    where = "shared memory" if shared else "global memory, because shared memory is too small"
    return Launch(
        "sliding",
        (*frame.macros, *own),
        (grid, 1, 1),
        (threads, 1, 1),
        slot_bytes * threads if shared else 0,
        (
            *frame.pointers,
            Argument("slots", "char*", None if shared else "slots"),
            wide("steps", geometry.steps),
            wide("first", first_block(geometry.steps, blocks.length, reverse)),
            wide("block", blocks.length),
            wide("terms", blocks.terms),
            wide("groups", split.blocks),
            wide("segments", split.segments),
            *extents(geometry, lines),
            *frame.strides,
        ),
        () if shared else (Scratch("slots", slot_bytes * all_lines * split.segments, False),),
        (
            f"sliding: the window has {blocks.terms + 1} blocks of {blocks.length} steps",
            f"{lines.channels} channels to a thread; what blocks leave is in {where}",
            split.reason.replace("blocks", "groups of blocks"),
        ),
    )


def chain_steps(geometry: Geometry, lines: Lines) -> int:
    """Return the steps that a warp of `chain` owns: as many as its registers hold until their states are known."""
    # What doesn't move together with the next step takes a register of its own.
    inputs = max(lines.channels * geometry.u.size, 4 if lines.access == 1 else 0)
    coefficients = max(lines.coefficients * geometry.a.size, 4 if lines.coefficient_steps == 1 else 0)
    steps = 8 if lines.channels > 1 else 32
    while steps > lines.access and steps * (inputs + coefficients) > CHAIN_CHUNK_BYTES:
        steps //= 2
    return steps


def chain(geometry: Geometry, lines: Lines, reverse: bool, why: str) -> Launch:
    """Plan the exact recurrence with time split among thread blocks.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    lines : Lines
        From `lines_of`, for a block that never ends.
    reverse : bool
        Apply the transpose.
    why : str
        The first of the launch's reasons.
    """
    if lines.own:  # 8 channels of halves with their coefficients, widened, are too much for the registers
        lines = lines._replace(channels=min(lines.channels, 4))
    steps = chain_steps(geometry, lines)
    frame = frame_of(geometry, lines, reverse)
    all_lines = count_of(geometry, lines)
    columns = -(-all_lines // 32)
    rows = -(-geometry.steps // (CHAIN_WARPS * steps))
    tiles = columns * rows
    size = geometry.u.type.accumulator.itemsize
    own = (("WARPS", str(CHAIN_WARPS)), ("RESIDENT", str(warps_of_registers(CHAIN_REGISTERS))))
    return Launch(
        "chain",
        (*frame.macros, *chunk_macros(lines, reverse, steps), *own),
        (tiles, 1, 1),
        (32 * (CHAIN_WARPS + 1), 1, 1),
        0,
        (
            *frame.pointers,
            Argument("counters", "unsigned int*", "counters"),
            Argument("aggregates", "char*", "aggregates"),
            Argument("states", "char*", "states"),
            wide("steps", geometry.steps),
            wide("columns", columns),
            *extents(geometry, lines),
            *frame.strides,
        ),
        (
            Scratch("counters", 4 * (1 + tiles), True),
            Scratch("aggregates", tiles * 32 * (lines.channels + lines.coefficients) * size, False),
            Scratch("states", tiles * 32 * lines.channels * size, False),
        ),
        (why, lines.reason, f"{rows} tiles of {CHAIN_WARPS * steps} steps in time, {columns} of 32 lines each"),
    )
