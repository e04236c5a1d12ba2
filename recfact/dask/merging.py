"""Exponentially weighted statistics of chunks that follow each other, merged (Chan, Golub and LeVeque, 1979).

Seven numbers continue a column after some values: those of `recfact.cpu.average_kernels.Average`, in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recfact.arrays import Array
from recfact.decay import Decay


class Part(NamedTuple):
    """The statistics of a chunk, or of chunks that follow each other, and the time that passes in them.

    Parameters
    ----------
    passed : bool
        Whether what enters passes through. Otherwise a group starts here.
    state : ndarray, shape (columns, 7)
        What continues each column afterwards, if nothing has entered.
    until, rest : ndarray, shape (columns,)
        The time until the last value, and after it. Without values all time is after it.
    """

    passed: bool
    state: Array
    until: Array
    rest: Array


def through(decay: Decay, part: Part, entering: Array | None) -> Array:
    """Return what continues columns after a part, from what enters it."""
    if entering is None or not part.passed:
        return part.state
    count, left, gone, mean, total, spread, correction = entering.T
    own_count, own_left, own_gone, own_mean, own_total, own_spread, own_correction = part.state.T
    aged, after, none = decay.weights(part.until), decay.weights(part.rest), own_count == 0
    before, own = left * aged, own_left + own_gone  # the sums of weights when the last value came
    with np.errstate(all="ignore"):
        share = np.where(none, 0, own / (before + own))
        rest = np.where(none, 1, before / (before + own))
        away = own_mean - mean
        merged = np.where(np.isfinite(away), mean + share * away, rest * mean + share * own_mean)
        columns = (
            count + own_count,
            (before + own) * after,
            np.where(none, gone, 0) + (before + own) * (1 - after),
            merged,
            total * aged * after + own_total,
            rest * spread + share * own_spread + rest * (share * away) * away,
            rest * rest * correction + share * share * own_correction + 2 * rest * share,
        )
    return np.stack(columns, axis=1)


def composed(decay: Decay, parts: list[Part]) -> Part:
    """Return parts that follow each other as one."""
    found = parts[0]
    for part in parts[1:]:
        none = part.state[:, 0] == 0
        until = np.where(none, found.until, found.until + found.rest + part.until)
        rest = np.where(none, found.rest + part.rest, part.rest)
        found = Part(found.passed and part.passed, through(decay, part, found.state), until, rest)
    return found
