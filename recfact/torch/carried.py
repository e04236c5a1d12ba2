"""The whole recurrence over several ranks, as one differentiable operator. Its derivatives are made of itself.

Each rank has a piece of the sequence: the pair (product c of its coefficients, last state v from zero). The ranks
gather all pairs, and each finds what enters its piece. Arrays have time on axis 0.

The recurrence that runs backwards is its transpose, x_i = u_i + a_{i+1} x_{i+1}. A piece then passes a_1 x_1 to the
piece before it. The operator also returns what entered, and takes a number that is added to what leaves. So the
gradient of the one is the other of the transpose, without an exchange of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recfact.array_functions import column
from recfact.cuts import Piece, mapped, product_with_zeros
from recfact.gradients.time_first import summed
from recfact.solve import solve
from recfact.torch.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Line:
    """The pieces of a sequence that ranks hold.

    Parameters
    ----------
    ranks : Ranks
    pieces : dict of Piece
        The pieces by rank. Ranks without steps have none.
    """

    ranks: Ranks
    pieces: dict[int, Piece]

    def passes(self, rank: int) -> bool:
        """Say whether what enters the piece of a rank leaves it, times the product of its coefficients."""
        piece = self.pieces.get(rank)
        return piece is None or bool(piece.before and piece.behind and piece.has_one_segment)

    def solved(self, a: Tensor, u: Tensor, added: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
        """Return the states of the piece of this rank, and what entered it. `added` is added to what leaves."""
        piece = self.pieces.get(self.ranks.rank)
        step, beside = u.shape[1:], a.shape[1:]
        x = torch.empty_like(u)

        def own_map() -> Tensor:
            c, v = a.new_ones(beside), torch.zeros_like(added)
            if piece is not None:
                v = _apart(a, u, x, piece, reverse) + added
                c = product_with_zeros(a.prod(0), a)
            return torch.cat([c.reshape(-1), v.reshape(-1)])

        shared = prod(beside)
        rows = self.ranks.gather(own_map, shared + prod(step), u)
        pairs = [
            (row[:shared].reshape(beside) if self.passes(rank) else None, row[shared:].reshape(step))
            for rank, row in enumerate(rows)
        ]
        earlier = pairs[: self.ranks.rank] if not reverse else pairs[: self.ranks.rank : -1]
        entering = reduce(lambda entering, pair: mapped(pair, entering), earlier, torch.zeros_like(added))
        if piece is None or not (piece.behind if reverse else piece.before):
            return x, torch.zeros_like(added)
        _entered(a, u, x, entering, piece, reverse)
        return x, entering


def _apart(a: Tensor, u: Tensor, x: Tensor, piece: Piece, reverse: bool) -> Tensor:
    """Solve a piece as if nothing entered it, as far as needed, and return what leaves it."""
    into, out = (piece.behind, piece.before) if reverse else (piece.before, piece.behind)
    first, last = (0, piece.cuts[-2]) if reverse else (piece.cuts[1], len(u))
    first, last = (first, last) if into else (0, len(u))
    if first < last:
        cuts = [cut - first for cut in piece.cuts if first <= cut <= last]
        segments: dict[str, Any] = {} if len(cuts) == 2 else {"offsets": cuts}
        solve(a[first:last], u[first:last], axis=0, reverse=reverse, out=x[first:last], **segments)
    if out and into and piece.has_one_segment:
        _entered(a, u, x, torch.zeros_like(u[0]), piece, reverse)
    if not out:
        return torch.zeros_like(u[0])
    return a[0] * x[0] if reverse else x[-1]


def _entered(a: Tensor, u: Tensor, x: Tensor, entering: Tensor, piece: Piece, reverse: bool) -> None:
    """Solve the segment of a piece that something enters."""
    if not reverse:
        end = piece.cuts[1]
        solve(a[:end], u[:end], x0=entering, axis=0, out=x[:end])
        return
    start = piece.cuts[-2]
    x[start:] = u[start:]
    x[-1] += entering
    solve(a[start:], x[start:], axis=0, reverse=True, out=x[start:])


class Carried(torch.autograd.Function):
    """`Line.solved` with derivatives of any order.

    `recorded` requires gradients if those of any rank do. So all ranks take part in the exchange of the gradients.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, u: Tensor, added: Tensor, recorded: Tensor, line: Line, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the states, and what entered."""
        x, entering = line.solved(a, u, added, reverse)
        ctx.save_for_backward(a, recorded, x, entering)
        ctx.line, ctx.reverse = line, reverse
        return x, entering

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
        """Return the gradients, which are differentiable if torch asks for that."""
        a, recorded, *found = ctx.saved_tensors
        g, g_entering = (one.conj() for one in given)
        back = Carried.apply(a, g, g_entering, recorded, ctx.line, not ctx.reverse)
        (x, entering), (y, _) = (back, found) if ctx.reverse else (found, back)
        da = None
        if ctx.needs_input_grad[0]:
            piece = ctx.line.pieces.get(ctx.line.ranks.rank)
            before = torch.cat([entering[None], x])[:-1]
            da = y * before
            if piece is not None:
                da = torch.where(column(da, _starts(piece)), 0, da)
            da = summed(da, a.shape).conj()
        return da, back[0].conj(), back[1].conj(), None, None, None


def _starts(piece: Piece) -> Any:
    """Return which steps of a piece start a segment."""
    starts = np.zeros(piece.end - piece.start, bool)
    starts[piece.cuts[bool(piece.before) : -1]] = True
    return starts
