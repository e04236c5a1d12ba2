"""The mixer of a Phalanx layer at the speed of memory, in cases where a single pass gives it.

The window must be the whole recurrence, or blocks that see at most the block before. Numbers must lie in C order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.backward import TILE
from recfact.cpu.engine import thread_count
from recfact.cpu.head_vectors import Heads, heads_in_vectors
from recfact.cpu.mixer_kernels import mix, mix_back
from recfact.cpu.numbers import LINE
from recfact.cpu.threads import run_all
from recfact.number_types import FLOAT32, FLOAT64
from recfact.windows import Window, blocks_within


@dataclass(frozen=True, slots=True)
class Mixer:
    """A mixer of one size: its sequences, steps, groups of heads, heads of a group, and channels of a head.

    `block` and `terms` say what the window keeps. The gradients start from a state every `tile` steps. `kept` is the
    shape of the states that enter tiles, (batch, tiles, heads, channels). None enter separate blocks.
    """

    lanes: Heads
    batch: int
    n: int
    groups: int
    heads: int
    channels: int
    tile: int
    block: int
    terms: int
    kept: tuple[int, ...]

    def mix(self, y: int, entering: int, a: int, q: int, k: int, v: int) -> None:
        """Compute q x + v, where x solves the recurrence with inputs k v.

        Parameters
        ----------
        y, a, q, k, v : address
            Results, coefficients, gates and values, (batch, n, heads) and (batch, n, groups or heads, channels). Gates
            of 1 are at address 0.
        entering : address
            Room for `kept` states, or 0 if nobody asks for gradients.
        """
        self._run(mix, (y, entering if self.kept[1] else 0, a, q, k, v), 2)

    def gradients(
        self, dv: int, dk: int, dq: int, da: int, g: int, entering: int, a: int, q: int, k: int, v: int
    ) -> None:
        """Compute the gradients of values, gates and coefficients from those of the results, `g`, all by address."""
        self._run(mix_back, (dv, dk, dq, da, g, entering, a, q, k, v), 2 * self.tile + 5)

    def _run(self, kernel: Any, addresses: tuple[int, ...], rows: int) -> None:
        """Run a kernel that keeps `rows` rows. Problems are as large as the caches, and the threads, let them be."""
        channels = self.heads * self.channels
        threads = thread_count(None, self.batch * self.n * self.groups * channels)
        together = most_together(self.groups, limits.ROOM // (rows * channels), self.batch * self.groups // threads)
        run = kernel[self.lanes]
        sizes = (self.n, self.groups, together, self.heads, self.channels, self.tile, self.block, self.terms)
        room = rows * together * channels * self.lanes.itemsize + LINE

        def work(first: int, last: int) -> None:
            area = np.empty(room, np.uint8)
            run(*addresses, first, last, *sizes, -(-address(area) // LINE) * LINE)

        problems = self.batch * self.groups // together
        if threads == 1:
            work(0, problems)
            return
        cuts = sorted({problems * part // threads for part in range(threads + 1)})
        run_all([partial(work, first, last) for first, last in pairwise(cuts)])


def mixed(a: Array, q: Array | None, k: Array | None, v: Array, window: Window) -> Array | None:
    """Return q x + v, where x solves the recurrence with inputs k v, or None if no kernel gives it at once.

    Parameters are those of `recfact.phalanx`.
    """
    gates = [gate for gate in (q, k) if gate is not None]
    if any(one.dtype != v.dtype or not one.flags.c_contiguous for one in (*gates, v)) or a.dtype != v.dtype:
        return None
    if len({gate.shape for gate in gates}) > 1:
        return None
    mixer = mixer_of(v.dtype, v.shape, gates[0].shape[-2] if gates else 1, window)
    if mixer is None:
        return None
    every, y = np.ascontiguousarray(np.broadcast_to(a, v.shape[:-1])), np.empty_like(v)
    at_q, at_k = (0 if gate is None else address(gate) for gate in (q, k))
    mixer.mix(address(y), 0, address(every), at_q, at_k, address(v))
    return y


@cache
def most_together(groups: int, room: int, share: int) -> int:
    """Return into how large equal parts to cut groups, of which some have room together and are a share of a thread."""
    most = max(1, min(groups, room, share))
    return next(size for size in range(most, 0, -1) if groups % size == 0)


@lru_cache(1 << 10)
def mixer_of(dtype: np.dtype[Any], values: tuple[int, ...], groups: int, window: Window) -> Mixer | None:
    """Return the mixer of values of a shape, (..., n, heads, channels), or None if no kernel has one.

    It is kept, because each call of a layer asks for it.
    """
    *lead, n, heads, channels = values
    block, terms = blocks_within(window, n)
    if dtype not in (FLOAT32, FLOAT64) or prod(values) == 0 or terms > 1 or channels % limits.FEW_LANES:
        return None
    if block < n and block > limits.BACKWARD_BLOCK:
        return None
    tile = block if block < n else TILE
    tiles = -(-n // tile) if terms or block >= n else 0
    batch, each = prod(lead), heads // groups
    lanes = heads_in_vectors(dtype.name, each, channels)
    kept = batch, tiles, heads, channels
    return Mixer(lanes, batch, n, groups, each, channels, tile, block, terms, kept)
