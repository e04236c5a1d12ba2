"""Four vectors at once.

Memory is fastest where a loop reads some vectors in a row, of each array in turn, before it writes any: four take up
to a third off the time of one by one, because a read doesn't wait for the writes before it.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.compilation import helper
from recfact.cpu.numbers import fma, load, load_shared, size, store, width


@helper
def vector_step(lanes: Any, lane: int) -> int:
    """Return the bytes from one vector to the next, a constant where there are several lanes: they have no gaps.

    A loop over constant offsets is half as many instructions, and so has twice as many reads under way.
    """
    step: int = size(lanes) if width(lanes) > 1 else lane
    return step


@helper
def load_four(lanes: Any, array: int, at: int, step: int) -> Any:
    """Return four vectors."""
    return (
        load(lanes, array, at),
        load(lanes, array, at + step),
        load(lanes, array, at + 2 * step),
        load(lanes, array, at + 3 * step),
    )


@helper
def load_shared_four(lanes: Any, array: int, at: int, lane: int) -> Any:
    """Return four vectors of coefficients, which are four times the same if the channels share them."""
    common = load_shared(lanes, array, at)
    if lane == 0:
        return common, common, common, common
    return load_four(lanes, array, at, vector_step(lanes, lane))


@helper
def fma_four(lanes: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c of four vectors each."""
    return (
        fma(lanes, a[0], b[0], c[0]),
        fma(lanes, a[1], b[1], c[1]),
        fma(lanes, a[2], b[2], c[2]),
        fma(lanes, a[3], b[3], c[3]),
    )


@helper
def store_four(lanes: Any, array: int, at: int, step: int, values: Any) -> None:
    """Write four vectors."""
    store(lanes, array, at, values[0])
    store(lanes, array, at + step, values[1])
    store(lanes, array, at + 2 * step, values[2])
    store(lanes, array, at + 3 * step, values[3])
