"""Lines of gradients: what a thread of `backward` and `backward_window` owns, and which lines share coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View, Views
from recfact.gpu.lines import Lines, lines_of, narrowed, steps_with_room
from recfact.gpu.plans import Argument, Launch, Scratch, wide
from recfact.gpu.solves import ENDLESS, Sequences
from recfact.number_types import NUMBER_TYPES

GRADIENT_BYTES = 160  # that a thread has under way, in registers
MOST_STEPS = 8  # that a thread has under way
MOST_LANES = 32  # that add up gradients of coefficients
AXES = ("channel", "head", "batch")


class GradientLines(NamedTuple):
    """What threads of gradients own.

    Parameters
    ----------
    lines : Lines
        The numbers of a thread. Its coefficients move as many steps at once as their gradients can.
    steps : int
        That are on their way at once: as many as stay in registers.
    axes : tuple of str
        In which order lines are counted: first along the axes that share coefficients.
    sharing : int
        Lines that share their coefficients, one behind the other.
    parts, lanes : int
        Groups of threads next to each other that add up the gradients of these, and threads of each. The last group may
        have fewer. With more than one, each has sums of its own.
    """

    lines: Lines
    steps: int
    axes: tuple[str, ...]
    sharing: int
    parts: int
    lanes: int

    @property
    def uneven(self) -> bool:
        """Whether the last group is smaller."""
        return self.parts * self.lanes > self.sharing

    @property
    def macros(self) -> dict[str, object]:
        """The macros that follow from this."""
        given, sums = self.lines.geometry.beside
        kind = NUMBER_TYPES[sums.type.accumulator] if self.parts > 1 else sums.type
        types = {"GIVEN": given.type.c_type, "SUM": kind.c_type}
        return {"LANES": self.lanes, "UNEVEN": int(self.uneven), **types, **self.lines.chunks(self.steps)}

    @property
    def reason(self) -> str:
        """Why, in words."""
        groups = "" if self.parts == 1 else f"{self.parts} times "
        most = "up to " if self.uneven else ""
        return f"{self.lines.reason}, {groups}{most}{self.lanes} threads share coefficients"

    @property
    def places(self) -> int:
        """How many threads own the lines of one segment, with those that the last groups lack."""
        return self.lines.count // self.sharing * self.parts * self.lanes

    def owners(self, threads: int) -> int:
        """Return how many of so many threads own lines. Groups are whole in each warp."""
        return threads // 32 * (32 // self.lanes * self.lanes)

    def thread_blocks(self, threads: int, segments: int = 1, sequences: Sequences | None = None) -> int:
        """Return how many groups of threads own the lines of all segments. One may have lines of several sequences."""
        owners = self.owners(threads)
        return -(-self.places // owners) * segments if sequences is None else -(-self.places * segments // owners)

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
        scratch: tuple[Scratch, ...] = (),
    ) -> Launch:
        """Return the launch of a kernel of gradients. Parameters are those of `Lines.launch`.

        If sums have parts, the kernel writes them to an array that it alone uses, "sums". It has one part behind the
        other, each laid out as the gradients of the coefficients, gaps and all, in the type of the computation.
        """
        sums, part = views["da"], 0
        assert sums is not None
        if self.parts > 1:
            sums = sums.widened(NUMBER_TYPES[sums.type.accumulator])
            part, views = self.lines.geometry.reach(sums), {**views, "da": sums}
        channels, heads, batch = (_extents(self.lines)[axis] for axis in self.axes)
        counted = replace(self.lines.geometry, channels=channels * self.lines.channels, heads=heads, batch=batch)
        launch = replace(self.lines, geometry=counted).launch(
            kernel,
            {name: view and self._by_lines(view) for name, view in views.items()},
            thread_blocks,
            threads,
            {**self.macros, **macros},
            (*own, *wide(sharing=self.sharing, da_part=part)),
            reasons,
            written=("du", "da", "states"),
            shared_bytes=shared_bytes,
            scratch=scratch,
        )
        if not part:
            return launch
        arguments = (replace(one, value="sums") if one.value == "da" else one for one in launch.arguments)
        return replace(
            launch, arguments=tuple(arguments), scratch=(*scratch, Scratch("sums", part * self.parts, False))
        )

    def _by_lines(self, view: View) -> View:
        """Return a view whose strides lead from line to line, in the order in which these are counted."""
        strides = {"channel": view.channel * self.lines.channels, "head": view.head, "batch": view.batch}
        channel, head, batch = (strides[axis] for axis in self.axes)
        return replace(view, channel=channel, head=head, batch=batch)


def gradient_lines(
    geometry: Geometry, block: int, sequences: Sequences | None, most: int = ENDLESS, under_way: int = ENDLESS
) -> GradientLines:
    """Choose what a thread owns.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs, and beside them states or inputs, and gradients of
        coefficients, which are sums along the axes that these don't have.
    block : int
        Steps of a block. No access crosses from one block into the next.
    sequences : Sequences, optional
        What time is made of.
    most : int, optional
        Channels of a thread.
    under_way : int, optional
        Numbers of an array that a thread has on their way, at most.
    """
    lines, (beside, sums) = lines_of(geometry, block, ENDLESS if sequences is None else sequences.unit), geometry.beside
    if lines.time_contiguous:
        lines = _along_time(lines, beside, sums)
    else:
        repeated = sums.channel and geometry.a.channel == 0  # one coefficient, with a gradient for each channel
        most = 1 if repeated else min(lines.channels, most)
        others = beside, sums if sums.channel else None, geometry.kept, geometry.x0
        lines = narrowed(lines, most, tuple(view for view in others if view))
    extents = _extents(lines)
    shared = [axis for axis in AXES if getattr(sums, axis) == 0]
    sharing = prod(extents[axis] for axis in shared)
    parts = -(-sharing // MOST_LANES)
    step_bytes = lines.channels * (geometry.u.type.size + beside.type.size) + lines.coefficients * geometry.a.type.size
    most_steps = max(1, min(MOST_STEPS, under_way // lines.channels))
    steps = steps_with_room(most_steps, lines.access, step_bytes, GRADIENT_BYTES)
    axes = (*shared, *(axis for axis in AXES if axis not in shared))
    return GradientLines(lines, steps, axes, sharing, parts, -(-sharing // parts))


def initial_gradient(views: Views) -> Argument:
    """Return the argument that points to the gradients of initial states, which lie as these do."""
    x0 = views["x0"]
    return Argument("d0", "char*", "d0" if x0 else None, x0.start if x0 else 0)


def _extents(lines: Lines) -> dict[str, int]:
    """Return how many lines there are along each axis."""
    geometry = lines.geometry
    return {"channel": geometry.channels // lines.channels, "head": geometry.heads, "batch": geometry.batch}


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
