"""Lines of gradients: what a thread of `backward` and `backward_window` owns, and which threads share coefficients."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View
from recfact.gpu.lines import Lines, lines_of, narrowed, steps_with_room
from recfact.gpu.solves import ENDLESS, Sequences

GRADIENT_BYTES = 160  # that a thread has under way, in registers
MOST_STEPS = 8  # that a thread has under way
MOST_LANES = 32  # that add up gradients of coefficients
WRITTEN = ("du", "da")


class GradientLines(NamedTuple):
    """What threads of gradients own.

    Parameters
    ----------
    lines : Lines
        The numbers of a thread. Its coefficients move as many steps at once as their gradients can.
    steps : int
        That are on their way at once: as many as stay in registers.
    lanes : int
        Threads next to each other that share their coefficients, and add up the gradients of these.
    """

    lines: Lines
    steps: int
    lanes: int

    @property
    def macros(self) -> dict[str, object]:
        """The macros that follow from this."""
        return {"LANES": self.lanes, **self.lines.chunks(self.steps)}

    @property
    def reason(self) -> str:
        """Why, in words."""
        return f"{self.lines.reason}, {self.lanes} threads share coefficients"


def gradient_lines(
    geometry: Geometry, block: int, sequences: Sequences | None, most: int = ENDLESS
) -> GradientLines | None:
    """Choose what a thread owns, or return None if the sums of coefficients aren't what kernels make.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs, and beside them states or inputs, and gradients of
        coefficients.
    block : int
        Steps of a block. No access crosses from one block into the next.
    sequences : Sequences, optional
        What time is made of.
    most : int, optional
        Channels of a thread.
    """
    lines, (beside, sums) = lines_of(geometry, block, ENDLESS if sequences is None else sequences.unit), geometry.beside
    if lines.time_contiguous:
        lines = _along_time(lines, beside, sums)
    else:
        lines = narrowed(lines, min(lines.channels, most), (beside, sums) if sums.channel else (beside,))
    lanes = _lanes(lines, sums)
    if lanes is None:
        return None
    step_bytes = 2 * lines.channels * geometry.u.type.size + lines.coefficients * geometry.a.type.size
    return GradientLines(lines, steps_with_room(MOST_STEPS, lines.access, step_bytes, GRADIENT_BYTES), lanes)


def _along_time(lines: Lines, beside: View, sums: View) -> Lines:
    """Return lines whose accesses of several steps are those of all arrays. Coefficients may move one by one."""
    width = lines.access
    while width > 1 and not (beside.step == beside.type.size and beside.moves(width, step=False, channel=True)):
        width //= 2
    views = lines.geometry.a, sums
    together = all(view.step == view.type.size and view.moves(width, step=False, channel=True) for view in views)
    reason = f"{width} steps in one access, because time is contiguous"
    return replace(
        lines, access=width, time_contiguous=width > 1, coefficient_steps=width if together else 1, reason=reason
    )


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
