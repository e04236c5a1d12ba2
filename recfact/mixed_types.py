"""Halves beside float32: they are converted in pieces that stay in a cache, without an array of the inputs' size.

Each piece is solved from the State that the last one left. Time is axis 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.continuation import solve_on
from recfact.number_types import FLOAT32
from recfact.past import Run
from recfact.state import State
from recfact.windows import Window

PIECE = 1 << 18  # numbers that are converted at once


def solve_mixed(
    run: Run, a: Array, u: Array, x: Array | None, x0: Array | None, state: State | None, window: Window
) -> State:
    """Solve halves and float32 into `x` of float32 or a half, if there is one. Return the State after the last step.

    `run` is as for `recfact.continuation.solve_on`, for arrays of float32.
    """
    steps = max(1, PIECE * len(u) // max(1, u.size))
    first = 0
    while state is None or first < len(u):
        with pieces(a, u, x, first, first + steps) as (own_a, own_u, own_x):
            state = solve_on(run, own_a, own_u, own_x, x0, state, 0, window, None)
        first, x0 = first + steps, None
    return state


def solve_mixed_segments(
    run: Run, a: Array, u: Array, x: Array, x0: Array | None, window: Window, offsets: Array
) -> None:
    """Solve segments of halves and float32 into `x`, as many at once as fit into a piece.

    `offsets` say where they start, and where the last one ends. `x0` has a state for each.
    """
    steps = max(1, PIECE * len(u) // max(1, u.size))
    index, count = 0, len(offsets) - 1
    while index < count:
        first = int(offsets[index])
        after = max(index + 1, int(np.searchsorted(offsets, first + steps, "right")) - 1)
        end = int(offsets[after])
        if end - first > steps:
            piece = slice(first, end)
            solve_mixed(run, a[piece], u[piece], x[piece], None if x0 is None else x0[index], None, window)
        elif end > first:
            entering = None if x0 is None else x0[index:after]
            with pieces(a, u, x, first, end) as (own_a, own_u, own_x):
                run(own_a, own_u, own_x, entering, window, offsets[index : after + 1] - first)
        index = after


@contextmanager
def pieces(a: Array, u: Array, x: Array | None, first: int, end: int) -> Iterator[tuple[Array, Array, Any]]:
    """Give pieces of coefficients and inputs in float32, and a piece for the states, which is then rounded to `x`."""
    piece = slice(first, end)
    own = None
    if x is not None:
        own = x[piece] if x.dtype == FLOAT32 else np.empty_like(x[piece], FLOAT32)
    yield a[piece].astype(FLOAT32), u[piece].astype(FLOAT32), own
    if x is not None and x.dtype != FLOAT32:
        with np.errstate(all="ignore"):
            x[piece] = own
