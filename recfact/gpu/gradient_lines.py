"""Lines of the kernels of gradients: what a thread owns, who shares its coefficients, and the parts of its launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from recfact.gpu.chain import LEAST_STEPS
from recfact.gpu.geometry import Geometry, View
from recfact.gpu.lines import INT_STRIDE, Lines, lines_of
from recfact.gpu.plans import ENDLESS, LAUNCH_STEPS, WARPS_NEEDED, Argument, Device, Sequences

CHUNK_BYTES = 160  # that a thread has under way, in registers
MOST_LANES = 32  # that add up what they have
WRITTEN = ("du", "da")


class GradientLines(NamedTuple):
    """The numbers that a thread owns, and how many threads share coefficients."""

    lines: Lines
    lanes: int


def gradient_lines(geometry: Geometry, beside: View, sums: View, most: int = ENDLESS) -> GradientLines | None:
    """Choose the numbers that a thread owns, or return None if the sums of coefficients aren't what kernels make.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs.
    beside, sums : View
        States or inputs, and gradients of coefficients.
    most : int, optional
        Channels of a thread.
    """
    if geometry.time_contiguous:
        return None
    lines = lines_of(geometry, ENDLESS)
    width = min(lines.channels, most)
    while width > 1 and any(
        view.alignment(step=True, channel=False) % min(width * view.type.size, 16)
        for view in (beside, sums)
        if view.channel
    ):
        width //= 2
    if beside.channel != beside.type.size or sums.channel not in (0, sums.type.size):
        width = 1  # not next to each other
    reason = lines.reason if width == lines.channels else f"{width} channels to a thread"
    lines = replace(lines, channels=width, own=lines.own and width > 1, reason=reason)
    lanes = _lanes(lines, sums)
    return None if lanes is None else GradientLines(lines, lanes)


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


def stride_type(views: Mapping[str, View]) -> str:
    """Return the C type of the strides of time."""
    return "int" if all(abs(view.step) * 16 < INT_STRIDE for view in views.values()) else "long long"


def chunk_steps(lines: Lines) -> int:
    """Return the steps that are on their way at once: as many as stay in registers."""
    geometry = lines.geometry
    step_bytes = 2 * lines.channels * geometry.u.type.size + lines.coefficients * geometry.a.type.size
    steps = 8
    while steps > 1 and steps * step_bytes > CHUNK_BYTES:
        steps //= 2
    return steps


def gradient_macros(lines: Lines, lanes: int, stride: str) -> tuple[tuple[str, str], ...]:
    """Return the macros that all kernels of gradients have."""
    geometry = lines.geometry
    return (
        ("INPUT", geometry.u.type.c_type),
        ("COEFFICIENT", geometry.a.type.c_type),
        ("OUTPUT", geometry.x.type.c_type),
        ("CHANNELS", str(lines.channels)),
        ("COEFFICIENTS", str(lines.coefficients)),
        ("LANES", str(lanes)),
        ("STRIDE", stride),
        *lines.chunks(chunk_steps(lines)),
    )


def gradient_pointers(views: Mapping[str, View]) -> tuple[Argument, ...]:
    """Return the arguments that point to the starts of arrays, by their names."""
    return tuple(
        Argument(name, "char*" if name in WRITTEN else "const char*", name, view.start) for name, view in views.items()
    )


def gradient_places(views: Mapping[str, View], stride: str) -> tuple[Argument, ...]:
    """Return the arguments that locate the elements of all arrays."""
    return tuple(
        Argument(f"{name}_{axis}", stride if axis == "step" else "long long", getattr(view, axis))
        for name, view in views.items()
        for axis in ("batch", "head", "channel", "step")
    )
