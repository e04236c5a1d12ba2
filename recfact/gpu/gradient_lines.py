"""Lines of the kernels of gradients: what a thread owns, and who shares its coefficients."""

from __future__ import annotations

from dataclasses import replace

from recfact.gpu.chain import LEAST_STEPS
from recfact.gpu.geometry import Geometry, View
from recfact.gpu.lines import Lines, lines_of, steps_with_room
from recfact.gpu.plans import ENDLESS, LAUNCH_STEPS, WARPS_NEEDED, Device, Sequences

CHUNK_BYTES = 160  # that a thread has under way, in registers
MOST_LANES = 32  # that add up what they have
WRITTEN = ("du", "da")


def gradient_lines(geometry: Geometry, most: int = ENDLESS) -> Lines | None:
    """Choose the numbers that a thread owns, or return None if the sums of coefficients aren't what kernels make.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs, and beside them states or inputs, and gradients of
        coefficients.
    most : int, optional
        Channels of a thread.
    """
    if geometry.time_contiguous:
        return None
    lines, (beside, sums) = lines_of(geometry, ENDLESS), geometry.beside
    width = min(lines.channels, most)
    while width > 1 and not all(view.moves(width, step=True, channel=False) for view in (beside, sums) if view.channel):
        width //= 2
    if beside.channel != beside.type.size or sums.channel not in (0, sums.type.size):
        width = 1  # not next to each other
    reason = lines.reason if width == lines.channels else f"{width} channels to a thread"
    lines = replace(lines, channels=width, own=lines.own and width > 1, reason=reason)
    lanes = _lanes(lines, sums)
    return None if lanes is None else replace(lines, lanes=lanes)


def _lanes(lines: Lines, sums: View) -> int | None:
    """Return how many threads share their coefficients, or None if the gradients of these are other sums."""
    geometry = lines.geometry
    if (sums.batch == 0 and geometry.batch > 1) or (sums.head == 0 and geometry.heads > 1):
        return None
    if geometry.steps > 1 and sums.step == 0:
        return None
    if sums.channel or geometry.channels == 1:
        return 1 if lines.coefficients == lines.channels else None
    lanes = geometry.channels // lines.channels
    return lanes if lanes <= MOST_LANES and lanes & (lanes - 1) == 0 else None


def are_enough(warps: int, steps: int, sequences: Sequences | None, device: Device) -> bool:
    """Say whether so many warps keep the GPU busy, or whether there are so few steps that it doesn't matter."""
    short = LEAST_STEPS
    if sequences is not None:
        steps, short = sequences.longest, max(short, LAUNCH_STEPS * sequences.count)
    return warps >= WARPS_NEEDED * device.multiprocessors or steps <= short


def chunk_steps(lines: Lines) -> int:
    """Return the steps that are on their way at once: as many as stay in registers."""
    geometry = lines.geometry
    step_bytes = 2 * lines.channels * geometry.u.type.size + lines.coefficients * geometry.a.type.size
    return steps_with_room(8, 1, step_bytes, CHUNK_BYTES)
