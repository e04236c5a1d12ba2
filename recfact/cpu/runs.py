"""Runs: pieces of one sequence that are solved side by side, one in each lane of a vector.

A run consists of whole blocks of a window. The runs of a group follow each other in memory. Blocks start at the same
steps of each run, so all lanes start a block together. This needs a branch, and no flags for single lanes. So a state
takes the operations of the plain loop and is rounded as there.

Four steps of all runs, a *slice*, are exchanged between lanes and vectors at a time. In each run these four steps lie
next to each other in memory, forwards or backwards in each array. All addresses except `place` are those of the number
that comes first in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from recfact.cpu import numbers, types
from recfact.cpu.chunks import CHUNK, exchange, ordered
from recfact.cpu.directions import Directed
from recfact.cpu.language import nothing, operation
from recfact.cpu.numbers import LINE, PAGE, Lanes
from recfact.cpu.vectors import Registers

RUNS = 8  # in a group; with more, the places read and written at once wouldn't fit into the first-level cache


class Runs(Directed):
    """The lanes of a group of runs, and the direction of their steps.

    Parameters
    ----------
    storage : str
        Number type in memory.
    reverse : bool
        Whether the steps run from the last position to the first.
    flipped : str, default ""
        Which of the arrays x, u and a lie in memory the other way round.
    streams : bool, default False
        Whether the states go past the caches, from a stage (`recfact.cpu.stage`).
    channels : int, default 1
        How many numbers, next to each other, each step has. It is an argument of kernels: they aren't compiled for it.
    near : bool, default False
        Whether the next group waits in the first-level cache, and not in the second one: two groups have room there.
    """

    steps = 64  # pieces of a sequence are cut at its multiples

    def __init__(
        self,
        storage: str,
        reverse: bool,
        flipped: str = "",
        streams: bool = False,
        channels: int = 1,
        near: bool = False,
    ) -> None:
        super().__init__(storage, RUNS, reverse, flipped, streams)
        self.channels = channels
        self.near = near
        self.name = f"runs_{storage}_{'reverse' if reverse else 'forward'}" + (f"_flipped_{flipped}" if flipped else "")
        self.name += ("_streamed" if streams else "") + ("_near" if near else "")

    @property
    def order(self) -> Sequence[int]:
        """Positions in a slice, first step first."""
        return ordered(CHUNK, self.reverse)

    def side(self, array: str) -> Runs:
        """Return the runs of one array, in reverse if their steps run backwards in memory."""
        return Runs(self.storage, self.runs_backwards(array), near=self.near)


def places(r: Registers, address: Any, stride: Any) -> list[tuple[Any, Any]]:
    """Return where the runs of a slice lie: a place that is kept in a register, and the bytes from there on.

    The first four runs are counted from one place, and the others from a second one. LLVM would rather keep an address
    of each run of each array all the time. These are more than there are registers, so each would be loaded again.
    """
    first = numbers.pinned(r.b, address)
    halves = [first, numbers.pinned(r.b, r.b.add(first, r.b.mul(stride, r.index(CHUNK))))]
    return [(half, r.b.mul(stride, r.index(run))) for half in halves for run in range(CHUNK)]


@operation
def x_side(runs: Any) -> Any:
    """Return the runs of the states."""
    return runs.side("x")(runs), nothing


@operation
def u_side(runs: Any) -> Any:
    """Return the runs of the inputs."""
    return runs.side("u")(runs), nothing


@operation
def a_side(runs: Any) -> Any:
    """Return the runs of the coefficients."""
    return runs.side("a")(runs), nothing


@operation
def is_streamed(runs: Any) -> Any:
    """Return whether the states go past the caches."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(runs.streams))

    return types.boolean(runs), codegen


@operation
def load_slice(runs: Any, address: Any, stride: Any) -> Any:
    """Load a slice: four vectors, the first step first. The runs are `stride` bytes apart."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, runs)
        rows = [numbers.read(context, b, runs, CHUNK * r.parts, *place) for place in places(r, *args[1:])]
        pairs = [r.shuffle(rows[k], rows[k + CHUNK], range(RUNS)) for k in range(CHUNK)]
        vectors = exchange(r, pairs)
        return [vectors[k] for k in runs.order]

    return types.Tuple([runs.state.value] * CHUNK)(runs, types.int64, types.int64), codegen


@operation
def store_slice(runs: Any, address: Any, stride: Any, *vectors: Any) -> Any:
    """Store a slice. This is the inverse of `load_slice`."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, runs)
        _, address, stride, *vectors = args
        lanes, at = Lanes(runs.storage, CHUNK), places(r, address, stride)
        for k, pair in enumerate(exchange(r, [vectors[k] for k in runs.order])):
            for half in (0, 1):
                row = r.shuffle(pair, pair, range(half * CHUNK, half * CHUNK + CHUNK))
                numbers.write(context, b, lanes, *at[k + half * CHUNK], row)

    return types.void(runs, types.int64, types.int64, *[runs.state.value] * CHUNK), codegen


@operation
def entered(runs: Any, vector: Any, before: Any) -> Any:
    """Return for each run the number of the run before it in a vector, and for the first run `before`."""
    kept = Lanes(runs.state.storage, 1)

    def codegen(context: Any, b: Any, args: Any) -> Any:
        r = Registers(context, b, runs)
        return r.shuffle(args[1], r.splat(args[2]), [RUNS, *range(RUNS - 1)])

    return runs.state.value(runs, runs.state.value, kept.value), codegen


@operation
def lead(runs: Any) -> Any:
    """Return how many steps before the next group memory is asked for it, besides those of a group.

    The first steps of the last runs are asked for last and needed first. So a group that waits in
    the second-level cache needs more time.
    """

    def codegen(context: Any, b: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), 0 if runs.near else PAGE // runs.itemsize)

    return types.int64(runs), codegen


@operation
def fetch(runs: Any, address: Any) -> Any:
    """Ask memory for the numbers of four vectors, which will be needed soon. Any address is allowed."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        for offset in range(0, CHUNK * runs.count * runs.itemsize, LINE):
            numbers.prefetch(b, b.add(args[1], ir.Constant(args[1].type, offset)), far=not runs.near)

    return types.void(runs, types.int64), codegen
