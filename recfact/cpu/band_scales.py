"""Slices of uniform windows by runs, where a product of coefficients may be small: it is kept with a scale.

A product of more than SPACING steps can become subnormal. So SPACING steps after it began, and again after as many, it
has a *turn*: it gets a scale if it needs one. Turns are counted from the end of a block at which the product began,
wherever the block lies in the slices: so its bits don't depend on them. The slices between, of products without scales,
are those of `band_runs`.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.chunks import CHUNK
from recfact.cpu.compilation import apart, helper
from recfact.cpu.operations import fma, load, multiply, nought, size, store
from recfact.cpu.scales import SPACING, no_scale, rescaled, scaled, unscaled

NEVER = 1 << 62


@helper
def turn_mask(lags: int) -> int:
    """Return which bits of an offset tell the place of a turn. Products of short blocks have none."""
    return SPACING - 1 if lags > SPACING else NEVER


@helper
def turn_on(offset: int, lags: int, mask: int) -> int:
    """Return how many steps into a slice the product of a block has a turn, if there are less than CHUNK.

    The next block begins `offset` steps into the slice.
    """
    return (offset - lags) & mask


@helper
def turn_back(offset: int, lags: int, mask: int) -> int:
    """Return `turn_on` for the product that begins at the end of a block, which is `offset` steps into the slice."""
    passed = offset if offset >= CHUNK - 1 else offset + lags
    return (passed - NEVER) & mask


@apart
def scaled_back(
    kept: Any, copies: int, sums: int, ends: int, offset: int, lags: int, factor: Any, scale: Any, added: Any
) -> Any:
    """Store the suffix sums of a slice. Return the map of its steps, with a scale, and whether all scales are 1.

    At `copies` are the coefficient and the input of each step.
    """
    word = size(kept)
    turn = turn_back(offset, lags, SPACING - 1)
    for k in range(CHUNK - 1, -1, -1):
        a, u = load(kept, copies, 2 * k * word), load(kept, copies, (2 * k + 1) * word)
        if ends & (1 << k):
            store(kept, sums, k * word, nought(kept))
            factor, scale, added = a, no_scale(kept), u
        else:
            if k == turn and (offset >= CHUNK or k > offset):
                factor, scale = rescaled(kept, factor, scale)
            store(kept, sums, k * word, added)
            added = fma(kept, factor, scaled(kept, scale, u), added)
            factor = multiply(kept, factor, a)
    return factor, scale, added, unscaled(kept, scale)


@apart
def scaled_on(
    kept: Any, copies: int, sums: int, starts: int, offset: int, lags: int, product: Any, scale: Any, state: Any
) -> Any:
    """Solve a slice. Return the product, its scale and the state of its block so far, and whether all scales are 1.

    At `copies` are the coefficient and the input of each step, and in the end the step's state in place of the
    coefficient.
    """
    word = size(kept)
    turn = turn_on(offset, lags, SPACING - 1)
    for k in range(CHUNK):
        a, u = load(kept, copies, 2 * k * word), load(kept, copies, (2 * k + 1) * word)
        if starts & (1 << k):
            product, scale, state = a, no_scale(kept), u
        else:
            if k == turn and k < offset:
                product, scale = rescaled(kept, product, scale)
            product, state = multiply(kept, product, a), fma(kept, a, state, u)
        store(kept, copies, 2 * k * word, fma(kept, product, scaled(kept, scale, load(kept, sums, k * word)), state))
    return product, scale, state, unscaled(kept, scale)
