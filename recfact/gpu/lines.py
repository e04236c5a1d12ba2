"""Lines, which the threads of all kernels but `b2p` own, and the launches of these kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

from recfact.gpu.geometry import Geometry, View, Views
from recfact.gpu.plans import Argument, Launch, Scratch, pointers, strides, texts, wide
from recfact.gpu.solves import ENDLESS, Sequences

THREADS = 128  # of most thread blocks of `sweep` and `sliding`
ACCESS_BYTES = 16  # the widest access
INT_STRIDE = 1 << 30  # strides of time below this fit into 32-bit arithmetic, even 16 of them together


@dataclass(frozen=True, slots=True)
class Lines:
    """The numbers that a thread owns, and how they move.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    channels : int
        Next to each other in memory, moved at once.
    access : int
        Steps moved at once, more than 1 only of a single channel.
    time_contiguous : bool
        Whether several steps move at once. Kernels of chunks are compiled for that.
    own : bool
        Whether each of several channels has coefficients of its own.
    coefficient_steps : int
        Steps whose coefficients can move at once; 1 if channels have their own.
    reason : str
        Why.
    """

    geometry: Geometry
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

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self.geometry.batch * self.geometry.heads * (self.geometry.channels // self.channels)

    @property
    def warps(self) -> int:
        """How many warps own the lines of one segment."""
        return -(-self.count // 32)

    def thread_blocks(self, threads: int, segments: int = 1, sequences: Sequences | None = None) -> int:
        """Return how many groups of threads own the lines of all segments. One may have lines of several sequences."""
        if sequences is not None:
            return -(-self.count * segments // threads)
        return -(-self.count // threads) * segments

    def warps_of_segment(self, threads: int, sequences: Sequences | None) -> int | Fraction:
        """Return how many warps a segment adds, in thread blocks of so many threads."""
        return self.thread_blocks(threads) * threads // 32 if sequences is None else Fraction(self.count, 32)

    def launch(
        self,
        kernel: str,
        views: Views,
        thread_blocks: int,
        threads: int,
        macros: Mapping[str, object],
        own: Iterable[Argument],
        reasons: tuple[str, ...],
        *,
        without: Collection[str] = (),
        written: Collection[str] = ("x",),
        shared_bytes: int = 0,
        scratch: tuple[Scratch, ...] = (),
    ) -> Launch:
        """Return the launch of a kernel whose threads own these lines.

        Parameters
        ----------
        kernel, macros, reasons, shared_bytes, scratch
            As in `Launch`, the macros without those that follow from the lines.
        views : dict of str to View
            The arrays in the order of the sweep, of which some are `written`.
        thread_blocks, threads : int
            How many there are, and threads of each.
        own : iterable of Argument
            The arguments that only this kernel has, `without` those that it doesn't have of others.
        """
        geometry = self.geometry
        near = all(abs(view.step) * 16 < INT_STRIDE for name, view in views.items() if view and name != "x0")
        stride = "int" if near else "long long"
        every = {
            "INPUT": geometry.u.type.c_type,
            "COEFFICIENT": geometry.a.type.c_type,
            "OUTPUT": geometry.x.type.c_type,
            "CHANNELS": self.channels,
            "COEFFICIENTS": self.coefficients,
            "STRIDE": stride,
            **macros,
        }
        extents = wide(batch=geometry.batch, heads=geometry.heads, lines=geometry.channels // self.channels)
        return Launch(
            kernel,
            texts(every),
            (thread_blocks, 1, 1),
            (threads, 1, 1),
            shared_bytes,
            (*pointers(views, written), *own, *extents, *strides(views, stride, without)),
            scratch,
            reasons,
        )

    def chunks(self, steps: int) -> dict[str, object]:
        """Return the macros of kernels that move chunks of several steps."""
        return {
            "STEPS": steps,
            "TIME_CONTIGUOUS": int(self.time_contiguous),
            "TIME_ACCESS": self.access,
            "COEFFICIENT_STEPS": min(self.coefficient_steps, steps),
            "REVERSE": int(self.geometry.reverse and self.time_contiguous),
        }


def lines_of(geometry: Geometry, block: int, unit: int = ENDLESS) -> Lines:
    """Choose the numbers that a thread owns, with the widest access that the addresses allow.

    Parameters
    ----------
    geometry : Geometry
        The solve.
    block : int
        Steps of a block. No access crosses from one block into the next.
    unit : int, optional
        A power of two that divides where sequences start and end.
    """
    a, u, x = geometry.a, geometry.u, geometry.x
    along = a.step == a.type.size and not geometry.reverse  # backwards, coefficients stand one place off
    most = ACCESS_BYTES // u.type.size
    if geometry.time_contiguous:
        width = most
        while width > 1 and (
            block % width
            or unit % width
            or (geometry.reverse and geometry.steps % width)
            or not all(view.moves(width, step=False, channel=True) for view in (u, x))
        ):
            width //= 2
        aligned = a.moves(width, step=False, channel=True)
        reason = f"{width} steps in one access, because time is contiguous"
        return Lines(geometry, 1, width, True, False, width if along and aligned else 1, reason)
    coefficient_steps = gcd(min(a.alignment(step=False, channel=True) // a.type.size, unit), block) if along else 1
    if not geometry.channels_contiguous or not (geometry.shared or a.channel == a.type.size):
        return Lines(
            geometry,
            1,
            1,
            False,
            False,
            coefficient_steps,
            "one channel to a thread, because channels aren't contiguous",
        )
    own = not geometry.shared
    views: tuple[View, ...] = (a, u, x) if own else (u, x)
    width = most
    while width > 1 and (
        geometry.channels % width or not all(view.moves(width, step=True, channel=False) for view in views)
    ):
        width //= 2
    own = own and width > 1
    return Lines(geometry, width, 1, False, own, 1 if own else coefficient_steps, f"{width} channels in one access")


def steps_with_room(most: int, least: int, step_bytes: int, room: int) -> int:
    """Return how many steps have room in registers: the `most`, halved until they do, or the `least`."""
    while most > least and most * step_bytes > room:
        most //= 2
    return most


def narrowed(lines: Lines, width: int, beside: tuple[View, ...]) -> Lines:
    """Return lines of at most so many channels, of which the arrays beside a solve move as many at once."""
    while width > 1 and not all(view.moves(width, step=True, channel=False) for view in beside):
        width //= 2
    if any(view.channel != view.type.size for view in beside):
        width = 1  # not next to each other
    reason = lines.reason if width == lines.channels else f"{width} channels to a thread"
    return replace(lines, channels=width, own=lines.own and width > 1, reason=reason)
