"""The tasks of a solve: the functions of `blocks`, with time on any axis and for the wanted steps only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recfact.array_functions import beside, broadcast_to, concatenate, moveaxis
from recfact.cuts import Piece, composed, mapped
from recfact.dask.blocks import (
    DType,
    backward,
    backward_map,
    backward_window,
    forward,
    forward_map,
    forward_window,
    on_gpu,
)
from recfact.errors import ShapeError
from recfact.gradients.time_first import TimeFirst
from recfact.windows import Window


@dataclass(frozen=True, slots=True)
class Work:
    """The properties that all chunks of a solve share."""

    axis: int
    reverse: bool
    window: Window
    dtype: DType
    prefix: ClassVar[str] = "recurrence"
    merging: ClassVar[tuple[Callable[..., Any], Callable[..., Any]]] = mapped, composed

    def of(self, _: Piece) -> Work:
        """Return the tasks of one chunk. Those of a solve are alike."""
        return self

    def solved(self, piece: Piece, a: Any, u: Any, x0: Any, entering: Any) -> Any:
        """Return the states of a chunk, from what enters it."""
        return self.chained(piece, a, u, x0, entering)[0]

    def chained(self, piece: Piece, a: Any, u: Any, x0: Any, entering: Any, _: Any = None) -> tuple[Any, Any]:
        """Return the states of a chunk, and what enters the next one."""
        a, u, x0 = self.front(piece, a, u, x0)
        if self.reverse:
            x, leaving = backward(a, u, entering, piece, self.dtype)
        else:
            x, leaving = forward(a, u, x0, entering, piece, self.window, self.dtype)
        return self.back(x), leaving

    def map(self, piece: Piece, a: Any, u: Any, x0: Any) -> tuple[Any, Any]:
        """Return the map of what enters a chunk to what leaves it."""
        a, u, x0 = self.front(piece, a, u, x0)
        return backward_map(a, u, piece, self.dtype) if self.reverse else forward_map(a, u, x0, piece, self.dtype)

    def border(self, steps: int, a: list[Any], u: list[Any]) -> tuple[Any, ...]:
        """Return `steps` steps of coefficients and inputs beside a chunk: the last before it, or the first after it."""
        both = [self.front(None, own_a, own_u, None)[:2] for own_a, own_u in zip(a, u, strict=True)]
        found = []
        for parts in map(list, zip(*both, strict=True)):
            spare = sum(map(len, parts)) - steps  # steps of the farthest chunk
            if self.reverse:
                parts[-1] = parts[-1][: len(parts[-1]) - spare]
            else:
                parts[0] = parts[0][spare:]
            found.append(concatenate(parts))
        return tuple(found)

    def windowed(self, piece: Piece, a: Any, u: Any, x0: Any, border: Any) -> Any:
        """Return the states of a chunk in a window, from the steps around it that matter to them."""
        a, u, x0 = self.front(piece, a, u, x0)
        if self.reverse:
            return self.back(backward_window(a, u, border, piece, self.window, self.dtype))
        return self.back(forward_window(a, u, x0, border, piece, self.window, self.dtype))

    def front(self, piece: Piece | None, a: Any, u: Any, x0: Any) -> tuple[Any, Any, Any]:
        """Return arrays with time first, all steps of the inputs, and the initial states of a piece.

        Coefficients that channels share keep their axes of size 1.

        Raises
        ------
        ShapeError
            If a chunk hasn't the steps that its lazy array tells.
        """
        if on_gpu(a, u):
            a, u = (other if on_gpu(other) else beside(one, other) for one, other in ((u, a), (a, u)))
        turn = TimeFirst(np.broadcast_shapes(a.shape, u.shape), self.axis)
        a, u = turn.front(a), broadcast_to(turn.front(u), (turn.steps, *turn.beside(None)))
        if piece is not None and turn.steps != piece.end - piece.start:
            required = f"must have {piece.end - piece.start} steps, as its lazy array says"
            raise ShapeError(f"a chunk of a or u {required}, got {turn.steps}; say the chunks where the array is made")
        if x0 is not None and piece is not None:
            x0 = moveaxis(x0, self.axis, 0)[piece.segment : piece.segment + len(piece.cuts) - 1]
            x0 = beside(u, x0) if on_gpu(u) else x0
        return a, u, x0

    def back(self, x: Any) -> Any:
        """Return states with time where it was."""
        return moveaxis(x, 0, self.axis)
