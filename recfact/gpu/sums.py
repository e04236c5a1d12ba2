"""Lines of gradients: what a thread of `backward` and `backward_window` owns, and which threads share coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View, Views
from recfact.gpu.lines import Lines, lines_of, narrowed, steps_with_room
from recfact.gpu.plans import Argument, Launch, Scratch
from recfact.gpu.solves import ENDLESS, Sequences
from recfact.number_types import NUMBER_TYPES

GRADIENT_BYTES = 160  # that a thread has under way, in registers
MOST_STEPS = 8  # that a thread has under way
MOST_LANES = 32  # that add up gradients of coefficients


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
    parts : int
        Groups of so many threads that share them. With more than one, each has sums of its own.
    """

    lines: Lines
    steps: int
    lanes: int
    parts: int

    @property
    def macros(self) -> dict[str, object]:
        """The macros that follow from this."""
        given, sums = self.lines.geometry.beside
        kind = NUMBER_TYPES[sums.type.accumulator] if self.parts > 1 else sums.type
        types = {"GIVEN": given.type.c_type, "SUM": kind.c_type}
        return {"LANES": self.lanes, **types, **self.lines.chunks(self.steps)}

    @property
    def reason(self) -> str:
        """Why, in words."""
        groups = "" if self.parts == 1 else f"{self.parts} times "
        return f"{self.lines.reason}, {groups}{self.lanes} threads share coefficients"

    @property
    def warps(self) -> int:
        """How many warps own the lines of one segment. Groups of threads are whole in each."""
        return self.thread_blocks(32)

    def thread_blocks(self, threads: int, segments: int = 1, sequences: Sequences | None = None) -> int:
        """Return how many groups of threads own the lines of all segments."""
        return self.lines.thread_blocks(threads // 32 * (32 // self.lanes * self.lanes), segments, sequences)

    def launch(
        self,
        kernel: str,
        views: Views,
        thread_blocks: int,
        threads: int,
        macros: Mapping[str, object],
        own: Iterable[Argument],
        reasons: tuple[str, ...],
        shared_bytes: int = 0,
    ) -> Launch:
        """Return the launch of a kernel of gradients. Parameters are those of `Lines.launch`.

        If sums have parts, the kernel writes them to an array that it alone uses, "sums". It has one part behind the
        other, each laid out as the gradients of the coefficients, in the type of the computation.
        """
        every, scratch = {**self.macros, **macros}, 0
        sums = views["da"]
        if self.parts > 1 and sums is not None:
            geometry, size = self.lines.geometry, sums.type.accumulator.itemsize
            part = geometry.steps * geometry.batch * geometry.heads * size
            batch, head, step, start = (
                k * size // sums.type.size for k in (sums.batch, sums.head, sums.step, sums.start)
            )
            wide = View(NUMBER_TYPES[sums.type.accumulator], batch, head, part, step, sums.address, start)
            views, scratch = {**views, "da": wide}, part * self.parts
        launch = self.lines.launch(
            kernel, views, thread_blocks, threads, every, own, reasons, written=("du", "da"), shared_bytes=shared_bytes
        )
        if not scratch:
            return launch
        arguments = (replace(one, value="sums") if one.value == "da" else one for one in launch.arguments)
        return replace(launch, arguments=tuple(arguments), scratch=(Scratch("sums", scratch, False),))


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
    sharing = _sharing(lines, sums)
    if sharing is None:
        return None
    parts = next(k for k in range(1, sharing + 1) if sharing % k == 0 and sharing // k <= MOST_LANES)
    step_bytes = lines.channels * (geometry.u.type.size + beside.type.size) + lines.coefficients * geometry.a.type.size
    steps = steps_with_room(MOST_STEPS, lines.access, step_bytes, GRADIENT_BYTES)
    return GradientLines(lines, steps, sharing // parts, parts)


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


def _sharing(lines: Lines, sums: View) -> int | None:
    """Return how many threads share their coefficients, or None if the gradients of these are other sums."""
    geometry = lines.geometry
    if (sums.batch == 0 and geometry.batch > 1) or (sums.head == 0 and geometry.heads > 1):
        return None
    if geometry.steps > 1 and sums.step == 0:
        return None
    if sums.channel or geometry.channels == 1:
        return 1 if lines.coefficients == lines.channels else None
    return geometry.channels // lines.channels
