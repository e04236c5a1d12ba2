"""The work of tasks on the chunks of a sequence. Chunks are arrays in memory, with time on axis 0.

The state before a chunk enters it. If the recurrence runs backwards, it is what the next chunk adds to the last input,
a_{n+1} x_{n+1}. Both are in the type that is computed in. They are None at the end of a sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.array_functions import broadcast_to, concatenate, namespace
from recfact.arrays import Array, library_of
from recfact.cuts import Piece, product_with_zeros
from recfact.number_types import NUMBER_TYPES, accumulator
from recfact.results import empty_product
from recfact.solve import solve
from recfact.state import State
from recfact.windows import Full, Window, blocks_and_terms

DType = np.dtype[Any]


def forward(
    a: Any, u: Any, x0: Any, entering: Any, piece: Piece, window: Window, dtype: DType, states: bool = True
) -> tuple[Any, Any]:
    """Return the states of a chunk, if they are wanted, and what enters the next one.

    Parameters
    ----------
    a, u : array, shape (n, ...)
        Coefficients and inputs.
    x0 : array, shape (N, ...), or None
        Initial states of the segments of the chunk. The state of a segment that began in an earlier chunk isn't read.
    entering : array, State or None
        What enters the chunk. In a window it is a State.
    dtype : dtype
        Number type of the states.
    """
    start = entering if piece.before else _row(x0, 0)
    if on_gpu(a, u):  # there are no States on GPUs yet
        a, u = _wide(a, dtype), _wide(u, dtype)
        x = (
            solve(a, u, x0=start, axis=0)
            if piece.has_one_segment
            else _segments(a, u, x0, start, piece, window, accumulator(dtype))
        )
        return x.astype(dtype, copy=False) if states else None, x[-1, ...].copy()
    if piece.has_one_segment:
        found = _on(a, u, start, window, return_state=True, states=states)
        x, state = found if states else (None, found)
        return x, _passed(state, window)
    last = piece.cuts[-2]
    state = _on(a[last:], u[last:], _row(x0, -1), window, return_state=True, states=False) if piece.behind else None
    return _segments(a, u, x0, start, piece, window, dtype) if states else None, _passed(state, window)


def _segments(a: Any, u: Any, x0: Any, start: Any, piece: Piece, window: Window, dtype: DType) -> Any:
    """Return the states of several segments. A state may enter the first of them."""
    x, first = _empty(a, u, dtype), 0
    if piece.before:
        first = piece.cuts[1]
        _on(a[:first], u[:first], start, window, out=x[:first])
    offsets = [cut - first for cut in piece.cuts if cut >= first]
    rows = None if x0 is None else x0[bool(first) :]
    a, u = a[first:], u[first:]
    solve(a, u, x0=rows, axis=0, window=window, offsets=offsets, out=x[first:], **_one_thread(a, u))
    return x


def _on(a: Array, u: Array, start: Any, window: Window, **options: Any) -> Any:
    """Solve one sequence from a state or a State."""
    entering = {"state" if isinstance(start, State) else "x0": start}
    return solve(a, u, axis=0, window=window, **_one_thread(a, u), **entering, **options)


def _passed(state: State | None, window: Window) -> Any:
    """Return what a chunk passes on: the State, or its last state alone if it holds nothing else."""
    return state.parts[0, ...] if isinstance(state, State) and window == Full() else state


def _row(x0: Any, number: int) -> Any:
    return None if x0 is None else x0[number, ...]


def backward(a: Any, u: Any, entering: Any, piece: Piece, dtype: DType) -> tuple[Any, Any]:
    """Return the states of a chunk of the transpose, and what it passes to the chunk before it."""
    wide = accumulator(dtype)
    x = u.astype(wide)
    if entering is not None:
        x[-1] += entering
    segments: dict[str, Any] = {} if piece.has_one_segment else {"offsets": piece.cuts}
    room: dict[str, Any] = {} if on_gpu(a, u) else {"out": x}
    x = solve(_wide(a, dtype), x, axis=0, reverse=True, **segments, **room, **_one_thread(a, u))
    leaving = (a[:1].astype(wide) * x[:1])[0, ...] if piece.before else None
    return x.astype(dtype, copy=False), leaving


def forward_map(a: Any, u: Any, x0: Any, piece: Piece, dtype: DType) -> tuple[Any, Any]:
    """Return the map x -> c x + v of a chunk. If a segment starts in it, nothing passes through, and c is None."""
    passes = piece.before > 0 and piece.has_one_segment
    # With a state of 0, unlike without a state, the first coefficient is read, as in the loop. It may be NaN.
    start = namespace(u).zeros_like(u[0, ...], dtype=accumulator(dtype)) if passes else None
    _, v = forward(a, u, x0, start, piece, Full(), dtype, states=False)
    return product(a, len(u), dtype) if passes else None, v


def backward_map(a: Any, u: Any, piece: Piece, dtype: DType) -> tuple[Any, Any]:
    """Return the map of a chunk of the transpose, as `forward_map` does."""
    _, v = backward(a, u, None, piece, dtype)
    return product(a, len(u), dtype) if piece.behind and piece.has_one_segment else None, v


def product(a: Any, steps: int, dtype: DType) -> Any:
    """Return the product of all coefficients of a chunk, the last one first, in the type that is computed in.

    A coefficient of 0 makes it 0, even if the product of the others is out of range.
    """
    wide = accumulator(dtype)
    a = broadcast_to(a, (steps, *a.shape[1:]))
    with np.errstate(all="ignore"):
        if on_gpu(a):
            c = a.astype(wide).prod(axis=0)
        else:
            nothing = np.broadcast_to(np.zeros((), dtype), a.shape)
            c = _on(a.astype(dtype, copy=False), nothing, 1, Full(), return_state=True, states=False).parts[0, ...]
        return product_with_zeros(c, a.astype(wide, copy=False)) if wide in NUMBER_TYPES else c


def forward_window(a: Any, u: Any, x0: Any, border: Any, piece: Piece, window: Window, dtype: DType) -> Any:
    """Return the states of a chunk in a window.

    Only its first steps see anything before the chunk. They are solved together with the earlier steps that they see.

    Parameters
    ----------
    border : tuple of (a, u), or None
        The steps before the chunk that its first step sees. None if a segment starts with the chunk.
    """
    block, terms = blocks_and_terms(window)
    first = _whole_blocks(piece, block)
    x = _empty(a, u, dtype)
    if first < len(x):
        rows = x0
        if x0 is not None and piece.before:  # here no state enters a segment that begins in an earlier chunk
            rows = concatenate([namespace(x0).zeros_like(x0[:1]), x0[1:]][first == piece.cuts[1] :])
        _between(a, u, rows, piece, window, False, first, x)
    seen = min(first + terms * block, piece.cuts[1]) if piece.before else 0
    if seen:
        known = len(border[1])
        own_a, own_u = (concatenate([old, new[:seen]]) for old, new in zip(border, (a, u), strict=True))
        start = _row(x0, 0) if known == piece.before else None
        x[:seen] = solve(own_a, own_u, x0=start, axis=0, window=window)[known:]
    return x


def backward_window(a: Any, u: Any, border: Any, piece: Piece, window: Window, dtype: DType) -> Any:
    """Return the states of a chunk in a transposed window. The border is the later steps that see its last one."""
    block, terms = blocks_and_terms(window)
    first = _whole_blocks(piece, block)
    x, last = _empty(a, u, dtype), piece.cuts[-2]
    if first < len(x):
        _between(a, u, None, piece, window, True, first, x)
    if border is not None:
        begun = last - piece.before * piece.has_one_segment
        late = max(begun + max(0, (len(x) - begun) // block - terms) * block, last, first)
        own_a, own_u = (concatenate([own[late:], new]) for own, new in zip((a, u), border, strict=True))
        x[late:] = solve(own_a, own_u, axis=0, window=window, reverse=True)[: len(x) - late]
    if first:  # steps of a block that began earlier; of the steps before them only the number matters
        missing, seen = piece.before % block, min(first + terms * block, piece.cuts[1])
        own_a, own_u = (
            concatenate([broadcast_to(namespace(own).zeros_like(own[:1]), (missing, *own.shape[1:])), own[:seen]])
            for own in (a, u)
        )
        if seen == len(x) and border is not None:
            own_a, own_u = (concatenate(pair) for pair in zip((own_a, own_u), border, strict=True))
        x[:first] = solve(own_a, own_u, axis=0, window=window, reverse=True)[missing : missing + first]
    return x


def _whole_blocks(piece: Piece, block: int) -> int:
    """Return where the first block of a window, or the second segment, starts in a piece."""
    return min(-piece.before % block, piece.cuts[1])


def _between(a: Any, u: Any, x0: Any, piece: Piece, window: Window, reverse: bool, first: int, x: Any) -> None:
    """Solve a chunk from one of its steps on, as if there were no other chunks."""
    segments: dict[str, Any] = {}
    if len(piece.cuts) > 2:
        segments = {"offsets": [0, *(cut - first for cut in piece.cuts if cut > first)]}
    elif x0 is not None:
        x0 = x0[0]
    options: dict[str, Any] = {"window": window, "reverse": reverse, **segments, **_one_thread(a, u)}
    solve(a[first:], u[first:], x0=x0, axis=0, out=x[first:], **options)


def _empty(a: Any, u: Any, dtype: DType) -> Any:
    """Return an array for the states, where the inputs are."""
    return namespace(u).empty(u.shape, dtype) if on_gpu(a, u) else empty_product(a, u, u.shape, dtype)


def _one_thread(a: Any, u: Any) -> dict[str, Any]:
    """Return the option for arrays on the host that leaves the other processors to other tasks."""
    return {} if on_gpu(a, u) else {"threads": 1}


def _wide(array: Any, dtype: DType) -> Any:
    """Return a half in the type that it is computed in, and any other array as it is."""
    wide = accumulator(dtype)
    return array if wide == dtype else array.astype(wide, copy=False)


def on_gpu(*arrays: Any) -> bool:
    """Say whether one of some arrays is on a GPU."""
    return "gpu" in map(library_of, arrays)
