"""The plan of `backward_window`, whose threads own lines: the gradients of windows, from their inputs."""

from __future__ import annotations

from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View, geometry_of
from recfact.gpu.gradient_lines import (
    are_enough,
    chunk_steps,
    gradient_lines,
    gradient_macros,
    gradient_places,
    gradient_pointers,
    stride_type,
)
from recfact.gpu.lines import Lines
from recfact.gpu.multiprocessors import KIB
from recfact.gpu.plans import (
    WARPS_NEEDED,
    Argument,
    Blocks,
    Device,
    Launch,
    Sequences,
    Split,
    split_time,
    warps_wanted,
    wide,
)
from recfact.strides import Strided

MOST_CHANNELS = 16  # of a thread
LEAST_WARPS = 2  # that a multiprocessor must hold: solves, products and sums move several times as much
THREADS = 32  # of a thread block
SHARED_BYTES = 48 * KIB  # that a thread block has without asking for them
ALONE, NEIGHBOUR, LAGS = 1, 2, 3  # values of the macro WINDOW
BLOCK_REGISTERS, LAG_REGISTERS = 128, 168  # of a thread, if shared memory doesn't leave room for more
ROWS = {ALONE: (2, 2), NEIGHBOUR: (3, 2), LAGS: (5, 3)}  # numbers that a step keeps: of a channel, of a coefficient


def backward_window(
    a: Strided,
    u: Strided,
    g: Strided,
    du: Strided,
    da: Strided,
    blocks: Blocks,
    device: Device,
    sequences: Sequences | None = None,
) -> Launch | None:
    """Plan the gradients of coefficients and inputs of a window along the first axis.

    Parameters
    ----------
    a, u, g : Strided
        Coefficients, inputs, and cotangents of the states, of one number type. They broadcast to the shape of the
        gradients of the inputs.
    du, da : Strided
        The gradients. The second broadcasts to the shape of the first, and is summed over channels that lie next to
        each other.
    blocks : Blocks
        Windows with at most one block before each, or of blocks of one step, which keep as many lags as blocks.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. The launch reads where each starts.

    Returns
    -------
    Launch or None
        None if nothing is to be computed, or if this kernel isn't the one for it: time is contiguous, what it keeps of
        a block doesn't fit into shared memory, sequences are few and long, or the gradients of coefficients are sums
        that it doesn't make.

    Raises
    ------
    ShapeError
        If the arrays have too many dimensions after merging those that lie in memory as one.
    """
    if 0 in du.shape or blocks.terms is None or (blocks.terms > 1 and blocks.length > 1):
        return None
    window, length = blocks.terms + 1, blocks.length
    if blocks.terms > 1:
        window, length = LAGS, blocks.terms
    geometry = geometry_of(0, a, g, du, None, False, beside=(u, da))
    inputs, sums = geometry.beside
    channels, fitted = MOST_CHANNELS, None
    while channels:
        one = _fitted(geometry, (inputs, sums), channels, window, length, device, sequences)
        if one is None:
            break
        channels = one.lines.channels // 2  # for more warps
        if one.shared_bytes <= SHARED_BYTES and one.room >= LEAST_WARPS:
            fitted = one
            if min(one.room, one.warps / device.multiprocessors) >= WARPS_NEEDED:
                break
    if fitted is None:
        return None
    lines, lanes, split, warps = fitted.lines, fitted.lanes, fitted.split, fitted.warps
    if sequences is not None and not are_enough(warps, geometry.steps, sequences, device):
        return None
    views = {"a": geometry.a, "u": inputs, "g": geometry.u, "du": geometry.x, "da": sums}
    stride = stride_type(views)
    return Launch(
        "backward_window",
        (
            *gradient_macros(lines, lanes, stride),
            ("WINDOW", str(window)),
            ("SEQUENCES", str(int(sequences is not None))),
            ("THREADS", str(THREADS)),
            ("RESIDENT", str(fitted.room)),
        ),
        (warps, 1, 1),
        (THREADS, 1, 1),
        fitted.shared_bytes,
        (
            *gradient_pointers(views),
            Argument("starts", "const long long*", None if sequences is None else "starts"),
            *wide(steps=geometry.steps),
            Argument("block", "int", length),
            *wide(blocks=split.blocks, segments=split.segments, batch=geometry.batch, heads=geometry.heads),
            *wide(lines=geometry.channels // lines.channels),
            *gradient_places(views, stride),
        ),
        (),
        (
            f"backward_window: {warps / device.multiprocessors:.1f} warps on a multiprocessor",
            f"{lines.reason}, {lanes} threads share coefficients",
            split.reason,
        ),
    )


class _Fitted(NamedTuple):
    """Lines, how many threads share coefficients, what blocks take, warps that a multiprocessor holds, and a split."""

    lines: Lines
    lanes: int
    shared_bytes: int
    room: int
    split: Split
    warps: int


def _fitted(
    geometry: Geometry,
    beside: tuple[View, View],
    channels: int,
    window: int,
    length: int,
    device: Device,
    sequences: Sequences | None,
) -> _Fitted | None:
    """Plan threads of at most so many channels, or return None if the sums aren't what the kernel makes."""
    found = gradient_lines(geometry, *beside, channels)
    if found is None:
        return None
    lines, size = found.lines, geometry.u.type.size
    of_channels, of_coefficients = ROWS[window]
    step_bytes = size * (of_channels * lines.channels + of_coefficients * lines.coefficients)
    shared_bytes = THREADS * length * step_bytes
    room = device.limits.room(1, LAG_REGISTERS if window == LAGS else BLOCK_REGISTERS, shared_bytes)
    if sequences is not None:
        return _Fitted(*found, shared_bytes, room, sequences.split, -(-lines.count * sequences.count // THREADS))
    wanted = warps_wanted(2 * 32 * lines.channels * size * chunk_steps(lines), max(room, 1), device)
    split = split_time(lines.warps, -(-geometry.steps // length), 1, wanted, device)
    return _Fitted(*found, shared_bytes, room, split, lines.warps * split.segments)
