"""Geometry of a solve: arrays of any strides seen as (batch, head, channel, step), in few dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from recfact.errors import ShapeError
from recfact.number_types import NUMBER_TYPES, NumberType
from recfact.strides import ALIGNMENT, Axis, Strided, merged

MOST_DIMENSIONS = 3  # besides time: what the kernels' arguments describe


@dataclass(frozen=True, slots=True)
class View:
    """An array after dimensions were merged.

    Parameters
    ----------
    type : NumberType
        Of its numbers.
    batch, head, channel, step : int
        Bytes from element to element along each dimension.
    address : int
        Address of the first element. Only its remainder by 16 counts, so a number with this remainder does.
    start : int
        Bytes from the first element of the array to that address. It isn't 0 if the array is walked backwards.
    """

    type: NumberType
    batch: int
    head: int
    channel: int
    step: int
    address: int
    start: int = 0

    def alignment(self, *, step: bool, channel: bool) -> int:
        """Return the largest power of two up to 16 that divides the address of every element.

        If steps or channels are contiguous, their strides are left out and don't count.
        """
        strides = [self.address, self.batch, self.head]
        strides += [self.step] * step + [self.channel] * channel
        return gcd(ALIGNMENT, *strides)

    def moves(self, width: int, *, step: bool, channel: bool) -> bool:
        """Say whether as many numbers next to each other move in accesses of up to 16 bytes, wherever they lie."""
        return self.alignment(step=step, channel=channel) % min(width * self.type.size, ALIGNMENT) == 0

    def backwards(self, first: int) -> View:
        """Return the view that starts at step `first` and goes backwards."""
        bytes_ahead = first * self.step
        return replace(self, step=-self.step, address=self.address + bytes_ahead, start=self.start + bytes_ahead)

    def widened(self, kind: NumberType) -> View:
        """Return the view of an array of another number type whose numbers lie in the same order."""
        step, channel, head, batch, start = (
            bytes_ahead // self.type.size * kind.size
            for bytes_ahead in (self.step, self.channel, self.head, self.batch, self.start)
        )
        return replace(self, type=kind, step=step, channel=channel, head=head, batch=batch, start=start)


Views = Mapping[str, View | None]  # by the names of arrays in a kernel


@dataclass(frozen=True)
class Geometry:
    """A solve as the kernels see it.

    `steps` runs fastest, in the order of the recurrence. `channels` may share a coefficient. The steps of `x0` are the
    sequences that lie one behind the other, or there are none. Those of `kept` are the states that are kept, `every` so
    many steps or, if that is negative, at the end of each sequence. `x` has no memory if it isn't `written`. Time is
    contiguous if neighbouring steps of input and result are neighbours in memory. `reverse` asks for the transpose. The
    views are forward in any case. `beside` are what gradients read and write, or the gates k and q of a Phalanx layer,
    each for `gate_heads` heads.
    """

    reverse: bool
    steps: int
    batch: int
    heads: int
    channels: int
    a: View
    u: View
    x: View
    x0: View | None
    beside: tuple[View, ...] = ()
    gate_heads: int = 1
    kept: View | None = None
    every: int = 0
    written: bool = True

    @cached_property
    def time_contiguous(self) -> bool:
        """Whether steps, rather than channels, are next to each other in memory."""
        return not self.channels_contiguous and self.u.step == self.u.type.size and self.x.step == self.x.type.size

    @cached_property
    def channels_contiguous(self) -> bool:
        """Whether channels are next to each other in memory."""
        return self.channels > 1 and self.u.channel == self.u.type.size and self.x.channel == self.x.type.size

    @cached_property
    def shared(self) -> bool:
        """Whether the channels of a head share their coefficients."""
        return self.a.channel == 0 or self.channels == 1

    def reach(self, view: View) -> int:
        """Return the bytes from the first to the last number of one of its arrays, with both."""
        lengths, strides = (self.steps, self.batch, self.heads, self.channels), (view.step, view.batch, view.head)
        ahead = ((n - 1) * abs(step) for n, step in zip(lengths, (*strides, view.channel), strict=True))
        return view.type.size + sum(ahead)

    def first_block(self, length: int, sequences: bool = False) -> int:
        """Return the steps of the first block of the sweep. In reverse this is the last block, which may be short.

        It is 0 for sequences of many lengths.
        """
        if not self.reverse:
            return length
        return 0 if sequences else self.steps % length or length

    @property
    def views(self) -> dict[str, View | None]:
        """The arrays, forward."""
        return {"a": self.a, "u": self.u, "x": self.x if self.written else None, "x0": self.x0}

    @property
    def swept(self) -> dict[str, View | None]:
        """The arrays in the order of the sweep.

        In reverse, inputs and result start at the last step. Coefficients don't: the one that leads into a step stands
        one place behind it.
        """
        if not self.reverse:
            return self.views
        last = self.steps - 1
        return {**self.views, "a": self.a.backwards(last + 1), "u": self.u.backwards(last), "x": self.x.backwards(last)}


def geometry_of(
    axis: int,
    a: Strided,
    u: Strided,
    x: Strided,
    x0: Strided | None,
    reverse: bool,
    sequences: int = 0,
    beside: Sequence[Strided] = (),
    kept: Strided | None = None,
) -> Geometry:
    """Describe a solve.

    Parameters
    ----------
    axis : int
        Time, counted from the front.
    a, u, x : Strided
        Coefficients, inputs, result; the first two broadcast to the shape of the third.
    x0 : Strided or None
        Initial states; they broadcast to the result without time, or with one step for each sequence.
    reverse : bool
        Apply the transpose.
    sequences : int, default 0
        How many there are in time, if initial states have an axis for them.
    beside : sequence of Strided, optional
        Other arrays that broadcast to the shape of the result.
    kept : Strided, optional
        States that are kept, in the shape of the result but for their number.

    Raises
    ------
    ShapeError
        If more than three dimensions besides time are left after merging those that lie in memory as one.
    """
    arrays = [x, *(array.broadcast_to(x.shape) for array in (u, a, *beside))]
    if kept is not None:
        arrays.append(kept)
    if x0 is not None:
        x0 = x0.broadcast_to((*x.shape[:axis], *([sequences] if sequences else []), *x.shape[axis + 1 :]))
        arrays.append(x0)
    steps = [array.strides[axis] if array is not x0 or sequences else 0 for array in arrays]
    arrays = [array.taken(axis, 0) if array is not x0 or sequences else array for array in arrays]
    axes, starts = merged(arrays[0].shape, *(array.strides for array in arrays))
    if len(axes) > MOST_DIMENSIONS:
        raise ShapeError(
            f"the GPU engine takes arrays of at most {MOST_DIMENSIONS} dimensions besides time, after merging those "
            f"that lie in memory as one, got {len(axes)} for shape {x.shape}; copy the arrays to contiguous ones"
        )
    channels, heads, batch = axes + [Axis(1, (0,) * len(arrays))] * (MOST_DIMENSIONS - len(axes))
    x_view, u_view, a_view, *more = (
        View(
            NUMBER_TYPES[array.dtype],
            batch.strides[k],
            heads.strides[k],
            channels.strides[k],
            step,
            array.address + starts[k],
            starts[k],
        )
        for k, (array, step) in enumerate(zip(arrays, steps, strict=True))
    )
    lengths = x.shape[axis], batch.length, heads.length, channels.length
    x0_view = None if x0 is None else more.pop()
    kept_view = None if kept is None else more.pop()
    return Geometry(reverse, *lengths, a_view, u_view, x_view, x0_view, tuple(more), kept=kept_view)


def gated_geometry(axis: int, a: Strided, v: Strided, y: Strided, gates: Sequence[Strided]) -> Geometry:
    """Describe the mixer of a Phalanx layer.

    Parameters
    ----------
    axis : int
        Time, counted from the front.
    a : Strided
        Coefficients, which broadcast to the shape of the result.
    v, y : Strided, shape (..., heads, d)
        Values, and the result, whose strides aren't negative.
    gates : sequence of Strided, shape (..., groups, d)
        Of one shape, k and q. Head h has those of group ``h // (heads // groups)``.

    Returns
    -------
    Geometry
        The recurrence of the values. Beside it are the gates, whose strides of heads lead from group to group.

    Raises
    ------
    ShapeError
        As for `geometry_of`, and if groups can't be found by counting heads: if memory has another axis between heads
        and features, or heads merge with features.
    """
    heads, last = len(y.shape) - 2, len(y.shape) - 1
    together = y.shape[heads] // gates[0].shape[heads]
    uncounted = ShapeError("heads that share gates must lie next to their features, as an axis of their own")
    others = [step for at, step in enumerate(y.strides[:heads]) if at != axis and y.shape[at] > 1]
    if together > 1 and (
        y.shape[last] == 1 or not y.strides[last] < y.strides[heads] <= min(others, default=y.strides[heads])
    ):
        raise uncounted
    # As if each head had gates of its own: strides in parts of a byte let axes merge just as those of values do.
    parts = [1 if at == heads else together for at in range(len(y.shape))]
    spread = [
        replace(gate, shape=y.shape, strides=tuple(step * part for step, part in zip(gate.strides, parts, strict=True)))
        for gate in gates
    ]
    geometry = geometry_of(axis, a, v, y, None, False, beside=spread)
    if together > 1 and geometry.channels != y.shape[last]:  # heads became channels
        raise uncounted
    beside = tuple(
        replace(view, batch=view.batch // together, channel=view.channel // together, step=view.step // together)
        for view in geometry.beside
    )
    return replace(geometry, beside=beside, gate_heads=together)
