"""How often the engine rounds a term of a state. The bounds of its errors are made of these counts.

Each coefficient that multiplies a term rounds it once at most, in any order of multiplication. Here the additional
roundings are counted: those of sums that a term enters without a coefficient. The tests run the engine on symbols to
check the counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.cpu import limits
from recfact.cpu.chunks import CHUNK
from recfact.cpu.engine import plainest
from recfact.cpu.vectors import vector_lanes
from recfact.number_types import FLOAT32, FLOAT64, accumulator
from recfact.windows import Full, Uniform, Window, blocks_and_terms


def extra_roundings(dtype: np.dtype[Any], window: Window, steps: int, several: bool = False) -> int:
    """Return the largest number of roundings of a term besides those of the coefficients that multiply it.

    Parameters
    ----------
    dtype : dtype
        A real number type of the engine.
    window : Window
        What is kept.
    steps : int
        Length of the sequence.
    several : bool
        Whether there may be other sequences beside it, in any layout.

    Notes
    -----
    Derived on the page on the engine ("Rounding"). Plain loops of channels have one, so they never exceed it.
    """
    window = plainest(window)
    block, terms = blocks_and_terms(window)
    if several and terms >= limits.MOST_STATES:  # channels add up suffix sums step by step
        return of_scan(FLOAT32) + min(block * (terms + 1), steps)
    match window:
        case Full():
            return of_scan(dtype)
        case Uniform(lags):  # each sub-tile of a suffix sum is an addend; sub-tiles of float64 are shorter
            return of_scan(FLOAT32) + 1 - (-min(lags, steps) // (CHUNK * vector_lanes(FLOAT64.name).count))
    return of_scan(FLOAT32)


def least_roundings(dtype: np.dtype[Any], window: Window, steps: int) -> int:
    """Return how many roundings any term of a window may have, even the most recent one.

    Runs sum step by step the part of a uniform window in the block before. So a recent term may have as many roundings
    as the oldest.
    """
    window = plainest(window)
    if isinstance(window, Uniform) and limits.fits_runs(window.lags, accumulator(dtype).itemsize, real=True):
        return min(window.lags, steps) - 1
    return 0


def of_scan(dtype: np.dtype[Any]) -> int:
    """Return the roundings of a scan: one each for entering a chunk, a sub-tile and a span, and one for each stage."""
    return 3 + (vector_lanes(dtype.name).count - 1).bit_length()
