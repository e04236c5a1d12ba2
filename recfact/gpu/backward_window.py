"""The plan of `backward_window`, whose threads own lines: gradients from inputs, of windows and the full recurrence."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View, Views
from recfact.gpu.lines import ACCESS_BYTES
from recfact.gpu.multiprocessors import KIB, WARPS_NEEDED, Device, warps_wanted
from recfact.gpu.plans import Argument, Launch, Scratch, packed, wide
from recfact.gpu.segments import LEAST_STEPS, Split, are_enough, at_work, cut, split_blocks
from recfact.gpu.solves import ENDLESS, PART_STEPS, Blocks, Sequences
from recfact.gpu.sums import MOST_LANES, GradientLines, gradient_lines, initial_gradient
from recfact.number_types import NUMBER_TYPES

MOST_CHANNELS = 16  # of a thread
MOST_TERMS = 8  # with more, registers spill
TERM_BYTES = 64  # that a thread of several channels carries back from the blocks after its own, in registers
LEAST_WARPS = 2  # that a multiprocessor must hold: solves, products and sums move several times as much
THREADS = 32  # of a thread block
SHARED_BYTES = 48 * KIB  # that a thread block has without asking for them
# Of a thread, if shared memory doesn't leave room for more: in blocks, with sums or several terms, and with many.
BLOCK_REGISTERS, MANY_REGISTERS, MOST_REGISTERS = 128, 168, 255
MANY_TERMS = 5
MANY_TERMS_NUMBERS = 8  # of an array that a thread has under way with so many: 8 steps of 2 channels spill


def backward_window(
    geometry: Geometry, blocks: Blocks, device: Device, sequences: Sequences | None = None
) -> Launch | None:
    """Plan the gradients of coefficients and inputs of a window, or of the full recurrence.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs, in reverse. Beside them are inputs and gradients of
        coefficients, and perhaps initial states, and the states that a solve of the full recurrence kept.
    blocks : Blocks
        Windows with a few blocks before each, or of blocks of one step, which keep as many lags as blocks; or all.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. The launch reads where each starts.

    Returns
    -------
    Launch or None
        None if this kernel isn't the one for it: there are many terms, what it keeps of blocks doesn't fit into shared
        memory, or there are few lines of the full recurrence.
    """
    carried, slides = blocks.terms is None, blocks.length == 1 and (blocks.terms or 0) > 1
    kept, scratch = carried and geometry.kept is not None, tuple[Scratch, ...]()
    if carried:
        blocks = Blocks(PART_STEPS, None)
        if not kept:
            geometry, scratch = _with_states(geometry)
    elif slides:
        blocks = Blocks(blocks.terms or 0, 1)
    length, terms = blocks.length, blocks.terms or 0
    if terms > MOST_TERMS:
        return None
    channels, fitted = MOST_CHANNELS, None
    while channels:
        one = _fitted(geometry, channels, blocks, slides, device, sequences)
        if fitted is not None and one.owned.parts > fitted.owned.parts:
            break
        held = one.owned.lines.channels
        channels = held // 2  # for more warps
        if terms * held * geometry.u.type.accumulator.itemsize > TERM_BYTES and held > 1:
            continue
        if one.shared_bytes <= SHARED_BYTES and one.room >= LEAST_WARPS:
            fitted = one
            if min(one.room, one.warps / device.multiprocessors) >= WARPS_NEEDED:
                break
    if fitted is None:
        return None
    owned, split = fitted.owned, fitted.split
    thread_blocks = owned.thread_blocks(THREADS, split.segments, sequences)
    if carried and not are_enough(thread_blocks, geometry.steps, sequences, device):
        return None
    inputs, sums = geometry.beside
    views: Views = {
        "a": geometry.a,
        "u": inputs,
        "g": geometry.u,
        "x0": geometry.x0,
        "du": geometry.x,
        "da": sums,
        "states": geometry.kept if carried else None,
    }
    return owned.launch(
        "backward_window",
        views,
        thread_blocks,
        THREADS,
        {
            "TERMS": terms,
            "SLIDES": int(slides),
            "CARRIED": int(carried),
            "KEPT": int(kept),
            "INITIAL": int(geometry.x0 is not None),
            "SEQUENCES": int(sequences is not None),
            "THREADS": THREADS,
            "RESIDENT": fitted.room,
        },
        (
            initial_gradient(views),
            *packed(sequences),
            *wide(steps=geometry.steps),
            Argument("block", "int", length),
            *wide(blocks=split.blocks, segments=split.segments),
        ),
        (
            f"backward_window: {fitted.warps / device.multiprocessors:.1f} warps on a multiprocessor",
            owned.reason,
            split.reason,
        ),
        shared_bytes=fitted.shared_bytes,
        scratch=scratch,
    )


def reads_kept(channels: int, sharing: int, steps: int, multiprocessors: int) -> bool:
    """Say whether gradients would start from states that a solve of halves keeps, before their layout is known.

    Of so many channels of the full recurrence, `sharing` share their coefficients. If these are many, a thread has
    several of them, so that no more threads add up than a warp has.
    """
    owned = 1
    while owned < ACCESS_BYTES // 2 and sharing > owned * MOST_LANES:
        owned *= 2
    return steps <= LEAST_STEPS or channels >= 32 * owned * WARPS_NEEDED * multiprocessors


def _with_states(geometry: Geometry) -> tuple[Geometry, tuple[Scratch, ...]]:
    """Return the gradients with a place for states, in memory that only the kernel uses."""
    kind = NUMBER_TYPES[geometry.u.type.accumulator]
    head = kind.size * geometry.channels
    batch = head * geometry.heads
    step = batch * geometry.batch
    view = View(kind, batch, head, kind.size, step, 0)
    states = Scratch("states", step * max(geometry.steps // PART_STEPS, 1), False)
    return replace(geometry, kept=view), (states,)


class _Fitted(NamedTuple):
    """Lines, what blocks take, warps that a multiprocessor holds, a split of time, and how many warps are at work."""

    owned: GradientLines
    shared_bytes: int
    room: int
    split: Split
    warps: int


def _fitted(
    geometry: Geometry,
    channels: int,
    blocks: Blocks,
    slides: bool,
    device: Device,
    sequences: Sequences | None,
) -> _Fitted:
    """Plan threads of at most so many channels."""
    length, terms = blocks.length, blocks.terms or 0
    under_way = MANY_TERMS_NUMBERS if terms >= MANY_TERMS else ENDLESS
    owned = gradient_lines(geometry, length, sequences, channels, under_way)
    lines = owned.lines
    # What a step keeps: states of its own block and of those before, what these add, and two sums and a product more.
    size, held = geometry.u.type.accumulator.itemsize, terms + 1
    step_bytes = size * ((held + terms + 2 * slides) * lines.channels + (held + slides) * lines.coefficients)
    shared_bytes = THREADS * length * step_bytes
    many = slides or terms > 1 or size > 4 or blocks.terms is None
    registers = MANY_REGISTERS if many else BLOCK_REGISTERS
    unpaired = owned.uneven or owned.lanes & (owned.lanes - 1) > 0  # such lanes keep where each looks
    crowded = sequences is not None and terms * size >= TERM_BYTES
    if (slides and size > 8) or terms >= MANY_TERMS or crowded or (unpaired and registers == MANY_REGISTERS):
        registers = MOST_REGISTERS
    elif unpaired:
        registers = MANY_REGISTERS
    room = device.limits.room(1, registers, shared_bytes)
    given, _ = geometry.beside
    warp_bytes = 32 * lines.channels * (geometry.u.type.size + given.type.size) * owned.steps
    wanted = warps_wanted(warp_bytes, max(room, 1), device)
    # A segment reads as many blocks after its own as before them. What sums in parts move leaves less for that.
    if blocks.terms is not None:
        blocks = blocks._replace(terms=2 * terms * min(owned.parts, 3))
    of_segment = owned.thread_blocks(THREADS) if sequences is None else Fraction(owned.places, owned.owners(THREADS))
    split = split_blocks(of_segment, geometry.steps, blocks, wanted, device, "block")
    if blocks.terms is None:
        split = split._replace(blocks=geometry.steps // length + 1)  # all, of each sequence
    split = cut(split, geometry.steps, length, sequences)
    warps = owned.thread_blocks(THREADS, split.segments)
    if sequences is not None:  # whose lines share warps
        warps = -(-at_work(owned.places, split, geometry.steps, length, sequences) // owned.owners(THREADS))
    return _Fitted(owned, shared_bytes, room, split, warps)
