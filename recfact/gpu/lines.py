"""Lines, which the threads of `sweep`, `sliding` and `chain` own, and the parts that their launches share."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from recfact.gpu.geometry import Geometry, View
from recfact.gpu.plans import ENDLESS, Argument, places, pointers, wide

THREADS = 128  # of most thread blocks of `sweep` and `sliding`
ACCESS_BYTES = 16  # the widest access
INT_STRIDE = 1 << 30  # strides of time below this fit into 32-bit arithmetic, even 16 of them together


class Frame(NamedTuple):
    """The first and last arguments and the macros that all three kernels share."""

    pointers: tuple[Argument, ...]
    places: tuple[Argument, ...]
    macros: tuple[tuple[str, str], ...]


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

    def frame(self) -> Frame:
        """Return pointers, places of elements and macros, with a thread for each line."""
        geometry, views = self.geometry, self.geometry.swept()
        a, u, x = views
        fits = all(abs(view.step) * 16 < INT_STRIDE for view in views)
        stride = "int" if fits else "long long"
        extents = wide(batch=geometry.batch, heads=geometry.heads, lines=geometry.channels // self.channels)
        macros = (
            ("INPUT", u.type.c_type),
            ("COEFFICIENT", a.type.c_type),
            ("OUTPUT", x.type.c_type),
            ("CHANNELS", str(self.channels)),
            ("COEFFICIENTS", str(self.coefficients)),
            ("STRIDE", stride),
            ("INITIAL", str(int(geometry.x0 is not None))),
        )
        return Frame(pointers(geometry, views), (*extents, *places(geometry, views, stride)), macros)

    def chunks(self, steps: int) -> tuple[tuple[str, str], ...]:
        """Return the macros of kernels that move chunks of several steps."""
        return (
            ("STEPS", str(steps)),
            ("TIME_CONTIGUOUS", str(int(self.time_contiguous))),
            ("TIME_ACCESS", str(self.access)),
            ("COEFFICIENT_STEPS", str(min(self.coefficient_steps, steps))),
            ("REVERSE", str(int(self.geometry.reverse and self.time_contiguous))),
        )


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
            or any(
                view.alignment(step=False, channel=True) % min(width * view.type.size, ACCESS_BYTES) for view in (u, x)
            )
        ):
            width //= 2
        aligned = a.alignment(step=False, channel=True) % min(width * a.type.size, ACCESS_BYTES) == 0
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
        geometry.channels % width
        or any(view.alignment(step=True, channel=False) % min(width * view.type.size, ACCESS_BYTES) for view in views)
    ):
        width //= 2
    own = own and width > 1
    return Lines(geometry, width, 1, False, own, 1 if own else coefficient_steps, f"{width} channels in one access")
