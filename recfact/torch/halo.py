"""The steps before its own that a rank needs in a window, sent by the ranks that hold them.

Arrays have time on axis 0. Sending is linear, and its transpose sends the gradients back and adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from recfact.cuts import Piece
from recfact.torch.ranks import Ranks
from recfact.windows import Window


@dataclass(frozen=True, slots=True)
class Halo:
    """Who sends which steps.

    Parameters
    ----------
    ranks : Ranks
    own, steps : int
        Number of steps of this rank, and of the steps before them that it needs.
    sends, reads : dict of slice
        By rank: which of its own steps this rank sends, and which of the steps that it needs come from there.
    """

    ranks: Ranks
    own: int
    steps: int
    sends: dict[int, slice]
    reads: dict[int, slice]

    @classmethod
    def of(cls, ranks: Ranks, pieces: dict[int, Piece], window: Window) -> Halo:
        """Return the halo of the piece of this rank."""
        needs = {rank: (piece.start - piece.steps_before(window), piece.start) for rank, piece in pieces.items()}
        holds = {rank: (piece.start, piece.end) for rank, piece in pieces.items()}
        need, hold = needs.get(ranks.rank, (0, 0)), holds.get(ranks.rank, (0, 0))
        reads = {rank: _overlap(need, other) for rank, other in holds.items() if rank != ranks.rank}
        sends = {rank: _overlap(hold, other) for rank, other in needs.items() if rank != ranks.rank}
        return cls(ranks, hold[1] - hold[0], need[1] - need[0], _some(sends), _some(reads))

    def moved(self, a: Tensor, u: Tensor, back: bool) -> tuple[Tensor, Tensor]:
        """Return the steps that this rank needs, or with `back` the sums of what was made of its own."""
        out, into, steps = (self.reads, self.sends, self.own) if back else (self.sends, self.reads, self.steps)
        width = prod(a.shape[1:]), prod(u.shape[1:])
        found = self.ranks.swap(
            {rank: torch.cat([one[place].reshape(-1) for one in (a, u)]) for rank, place in out.items()},
            {rank: (place.stop - place.start) * sum(width) for rank, place in into.items()},
            u,
        )
        a, u = (one.new_zeros(steps, *one.shape[1:]) for one in (a, u))
        for rank, place in into.items():
            parts = found[rank].split([(place.stop - place.start) * one for one in width])
            for one, part in zip((a, u), parts, strict=True):
                one[place] += part.reshape(place.stop - place.start, *one.shape[1:])
        return a, u


def _overlap(given: tuple[int, int], other: tuple[int, int]) -> slice:
    """Return which steps of a range lie in another range, counted from its start."""
    start, stop = max(given[0], other[0]), min(given[1], other[1])
    return slice(start - given[0], stop - given[0])


def _some(places: dict[int, slice]) -> dict[int, slice]:
    return {rank: place for rank, place in places.items() if place.start < place.stop}


class Moved(torch.autograd.Function):
    """`Halo.moved` with derivatives of any order.

    `recorded` requires gradients if those of any rank do. So all ranks take part in the exchange of the gradients.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, u: Tensor, recorded: Tensor, halo: Halo, back: bool) -> tuple[Tensor, Tensor]:
        """Return the steps that were sent here."""
        ctx.save_for_backward(recorded)
        ctx.halo, ctx.back = halo, back
        return halo.moved(a, u, back)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
        """Return the gradients, which are differentiable if torch asks for that."""
        (recorded,) = ctx.saved_tensors
        return *Moved.apply(*given, recorded, ctx.halo, not ctx.back), None, None, None
