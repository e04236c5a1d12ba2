"""A solve on a GPU, and its gradients: arrays and options, with numbers or by the layout of the arrays alone.

Kernels see a window as `Blocks`, and sequences that lie one behind the other in time as `Sequences`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from recfact.gpu.geometry import Geometry, gated_geometry, geometry_of
from recfact.strides import Strided
from recfact.windows import Window, blocks_and_terms

ENDLESS = 1 << 62  # steps of a block that never ends, a multiple of every chunk
PART_STEPS = 16  # from one state of the full recurrence that is kept for its gradients to the next
LAST = -1  # in its place: the last state of each sequence is kept
FULL, ALONE, NEIGHBOUR = 0, 1, 2  # values of the macro WINDOW


class Blocks(NamedTuple):
    """A window as the kernels see it.

    Parameters
    ----------
    length : int
        Steps of a block.
    terms : int or None
        How many blocks before its own a block sees. None for all.
    """

    length: int
    terms: int | None

    @property
    def window(self) -> int:
        """The value of the macro WINDOW, for at most one block before."""
        return FULL if self.terms is None else (NEIGHBOUR if self.terms else ALONE)


def blocks_of(window: Window, steps: int) -> Blocks:
    """Describe a window by blocks. A window that leaves nothing out is the full one."""
    block, terms = blocks_and_terms(window)
    return Blocks(block, terms) if steps > block * (terms + 1) else Blocks(ENDLESS, None)


@dataclass(frozen=True, slots=True)
class Sequences:
    """What a plan needs to know of sequences that lie one behind the other in time.

    Parameters
    ----------
    count : int
        How many there are.
    longest : int
        Steps of the longest.
    unit : int
        The largest power of two up to `ENDLESS` that divides where all of them start and end.
    """

    count: int
    longest: int
    unit: int


A = TypeVar("A", bound=Strided, covariant=True)


class Solve(NamedTuple, Generic[A]):
    """A solve of x_i = a_i x_{i-1} + u_i along an axis, perhaps with gates: of the inputs k u, to write q x + u.

    Parameters
    ----------
    a, u, x : DeviceArray or Strided
        Coefficients, inputs and result. Coefficients and result have the number type of the inputs, or float32 for
        inputs in half precision. The first two broadcast to the shape of the result, which may be the inputs
        themselves.
    x0 : DeviceArray, Strided or None
        Initial states, in the type of the computation. They broadcast to the result without its axis of time.
    axis : int
        Time, counted from the front.
    window : Window
        What is kept of the transfer operator.
    reverse : bool
        Apply the transpose.
    precision : {"full", "paper"}
        "paper" stores L_t in half precision once, as the paper does; "full" in two terms.
    sequences : Sequences, optional
        What time is made of. Initial states then have an axis for them in the place of time.
    starts : DeviceArray, optional
        Where each starts in the order of the sweep, and where the last one ends.
    gates : tuple of DeviceArray or Strided
        k and q of a Phalanx layer, or none. The last two axes of inputs and result are then heads and their features,
        and those of the gates are groups of heads and features.
    kept : DeviceArray or Strided, optional
        Where some states of the full recurrence go, in the type of the computation.
    every : int
        The steps from one of them to the next. Time has one place for so many steps there, and those of a sequence
        begin at the place of its first step. If it is `LAST`, time has a place for the last state of each sequence,
        which stays as it is if the sequence has no steps.
    written : bool
        Whether states go to `x`. Otherwise those that are kept are all that is wanted.
    """

    a: A
    u: A
    x: A
    x0: A | None
    axis: int
    window: Window
    reverse: bool = False
    precision: str = "full"
    sequences: Sequences | None = None
    starts: A | None = None
    gates: tuple[A, ...] = ()
    kept: A | None = None
    every: int = PART_STEPS
    written: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        x0, kept = (None if one is None else one.key for one in (self.x0, self.kept))
        gates = tuple(gate.key for gate in self.gates)
        asked = self.axis, self.window, self.reverse, self.precision, self.sequences
        return self.a.key, self.u.key, self.x.key, x0, kept, self.every, self.written, gates, *asked

    @property
    def arrays(self) -> dict[str, A | None]:
        """The arrays by the names that kernels have for them."""
        own: dict[str, A | None] = {"a": self.a, "u": self.u, "x": self.x, "x0": self.x0}
        return own | {"starts": self.starts, "kept": self.kept, **dict(zip("kq", self.gates, strict=False))}

    @property
    def lender(self) -> A:
        """The array whose library lends memory to kernels."""
        return self.x

    @property
    def geometry(self) -> Geometry:
        """The solve as the kernels see it. Raises ShapeError if it takes several launches."""
        if self.gates:
            return gated_geometry(self.axis, self.a, self.u, self.x, self.gates)
        count = 0 if self.sequences is None else self.sequences.count
        geometry = geometry_of(self.axis, self.a, self.u, self.x, self.x0, self.reverse, count, kept=self.kept)
        return replace(geometry, every=self.every, written=self.written)

    @property
    def blocks(self) -> Blocks:
        """The window as the kernels see it."""
        steps = self.x.shape[self.axis] if self.sequences is None else self.sequences.longest
        return blocks_of(self.window, steps)

    def slices(self) -> Iterator[Solve[A]]:
        """Return the solves of all slices along the shortest axis that isn't time."""
        shape, axis, x0 = self.x.shape, self.axis, self.x0
        _, k = min((length, k) for k, length in enumerate(shape) if k != axis and length > 1)
        among = [] if self.sequences is None else [self.sequences.count]
        a, u = self.a.broadcast_to(shape), self.u.broadcast_to(shape)
        x0 = None if x0 is None else x0.broadcast_to((*shape[:axis], *among, *shape[axis + 1 :]))
        for i in range(shape[k]):
            state = None if x0 is None else x0.taken(k if among else k - (k > axis), i)
            x, kept = self.x.taken(k, i), None if self.kept is None else self.kept.taken(k, i)
            yield self._replace(a=a.taken(k, i), u=u.taken(k, i), x=x, x0=state, kept=kept, axis=axis - (k < axis))


def by_key(key: tuple[Any, ...]) -> Solve[Strided]:
    """Return the solve of a key, without numbers."""
    a, u, x, x0, kept, every, written, gates, *asked = key
    before, parts = (None if one is None else Strided(*one) for one in (x0, kept))
    solve = Solve(Strided(*a), Strided(*u), Strided(*x), before, *asked)
    own = tuple(Strided(*gate) for gate in gates)
    return solve._replace(gates=own, kept=parts, every=every, written=written)


class Gradients(NamedTuple, Generic[A]):
    """Gradients of coefficients and inputs of a solve along the first axis.

    Parameters
    ----------
    a, given, g : DeviceArray or Strided
        Coefficients; states of the full recurrence, or inputs; and cotangents of the states, of number types that are
        computed in one type. They broadcast to the shape of the gradients of the inputs.
    du, da : DeviceArray or Strided
        The gradients, likewise. The second has all steps, and is summed over the axes along which it is broadcast to
        the shape of the first. A launch with an array "sums" writes parts of these sums to it instead.
    window : Window
        What is kept.
    sequences : Sequences, optional
        What time is made of.
    states : bool, default True
        Whether the states of the full recurrence are given. If not, and for windows, inputs are.
    kept : DeviceArray or Strided, optional
        Beside inputs of the full recurrence, the states that its solve kept.
    x0, d0 : DeviceArray or Strided, optional
        Initial states in the type of the computation, with sequences on their first axis if there are any, and their
        gradients, which lie in the same way.
    starts : DeviceArray, optional
        Where sequences start, and where the last one ends: in the order of the sweep back in time if states are read.
    """

    a: A
    given: A
    g: A
    du: Strided
    da: Strided
    window: Window
    sequences: Sequences | None = None
    states: bool = True
    kept: A | None = None
    x0: Strided | None = None
    d0: Strided | None = None
    starts: A | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        arrays = tuple(array.key for array in (self.a, self.given, self.g, self.du, self.da))
        kept, x0 = (None if one is None else one.key for one in (self.kept, self.x0))
        return arrays, self.window, self.sequences, self.states, kept, x0

    @property
    def arrays(self) -> dict[str, Strided | None]:
        """The arrays by the names that kernels have for them."""
        given = {"x" if self.reads_states else "u": self.given, "g": self.g, "states": self.kept}
        made = {"du": self.du, "da": self.da, "sums": self.da, "d0": self.d0}
        return {"a": self.a, **given, "x0": self.x0, "starts": self.starts, **made}

    @property
    def lender(self) -> A:
        """The array whose library lends memory to kernels."""
        return self.given

    @property
    def geometry(self) -> Geometry:
        """The transposed solve of the cotangents as the kernels see it. Raises ShapeError as a `Solve` does."""
        count = 0 if self.sequences is None else self.sequences.count
        beside = self.given, self.da
        return geometry_of(0, self.a, self.g, self.du, self.x0, True, count, beside, self.kept)

    @property
    def blocks(self) -> Blocks:
        """The window as the kernels see it."""
        return blocks_of(self.window, self.du.shape[0] if self.sequences is None else self.sequences.longest)

    @property
    def reads_states(self) -> bool:
        """Whether gradients start from all states."""
        return self.states and self.blocks.terms is None


def gradients_by_key(key: tuple[Any, ...]) -> Gradients[Strided]:
    """Return the gradients of a key, without numbers."""
    arrays, window, sequences, states, kept, x0 = key
    parts, before = (None if one is None else Strided(*one) for one in (kept, x0))
    a, given, g, du, da = (Strided(*array) for array in arrays)
    return Gradients(a, given, g, du, da, window, sequences, states, parts, before)
