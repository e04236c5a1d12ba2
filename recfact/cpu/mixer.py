"""The mixer of a Phalanx layer at the speed of memory, in cases where a single pass gives it.

The window must be the whole recurrence, or blocks that see at most the block before. Numbers must lie in C order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from recfact.cpu import limits
from recfact.cpu.addresses import address
from recfact.cpu.backward import TILE
from recfact.cpu.channels import lanes_of
from recfact.cpu.engine import thread_count
from recfact.cpu.mixer_kernels import mix, mix_back
from recfact.cpu.numbers import LINE
from recfact.cpu.threads import run_all
from recfact.number_types import FLOAT32, FLOAT64
from recfact.windows import Window, blocks_within


@dataclass(frozen=True, slots=True)
class Mixer:
    """A mixer of one size: its sequences, steps, groups of heads, heads of a group, and channels of a head.

    `block` and `terms` say what the window keeps.
    """

    dtype: np.dtype[Any]
    batch: int
    n: int
    groups: int
    heads: int
    channels: int
    block: int
    terms: int

    @property
    def tile(self) -> int:
        """Steps after which a state is kept for the gradients."""
        return self.block if self.block < self.n else TILE

    @property
    def kept(self) -> tuple[int, ...]:
        """The shape of the states that enter tiles, (batch, tiles, heads, channels). No states enter separate blocks."""
        tiles = -(-self.n // self.tile) if self.terms or self.block >= self.n else 0
        return self.batch, tiles, self.groups * self.heads, self.channels

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
        self._run(mix, (y, entering, a, q, k, v), 2)

    def gradients(
        self, dv: int, dk: int, dq: int, da: int, g: int, entering: int, a: int, q: int, k: int, v: int
    ) -> None:
        """Compute the gradients of values, gates and coefficients from those of the results, `g`, all by address."""
        self._run(mix_back, (dv, dk, dq, da, g, entering, a, q, k, v), 2 * self.tile + 4)

    def _run(self, kernel: Any, addresses: tuple[int, ...], rows: int) -> None:
        """Run a kernel that keeps `rows` rows. Problems are as large as the caches, and the threads, let them be."""
        group, itemsize = self.heads * self.channels, self.dtype.itemsize
        threads = thread_count(None, self.batch * self.n * self.groups * group)
        divisors = (size for size in range(self.groups, 0, -1) if self.groups % size == 0)
        together = next(
            size
            for size in divisors
            if size == 1 or (rows * size * group <= limits.ROOM and self.batch * self.groups // size >= threads)
        )
        width = LINE // itemsize
        width = min(width, self.channels & -self.channels)
        run = kernel[lanes_of(self.dtype, width, False)]
        sizes = (self.n, self.groups, together, self.heads, self.channels, self.tile, self.block, self.terms)
        bytes = (rows * together * group + self.groups * self.heads * width) * itemsize

        def work(first: int, last: int) -> None:
            area = np.empty(bytes + LINE, np.uint8)
            run(*addresses, first, last, *sizes, -(-address(area) // LINE) * LINE)

        problems = self.batch * self.groups // together
        cuts = sorted({problems * part // threads for part in range(threads + 1)})
        calls: list[Callable[[], None]] = [partial(work, first, last) for first, last in pairwise(cuts)]
        run_all(calls)


def mixer_of(dtype: np.dtype[Any], values: tuple[int, ...], groups: int, window: Window) -> Mixer | None:
    """Return the mixer of values of a shape, (..., n, heads, channels), or None if no kernel has one."""
    *lead, n, heads, channels = values
    block, terms = blocks_within(window, n)
    if dtype not in (FLOAT32, FLOAT64) or prod(values) == 0 or terms > 1 or channels % limits.FEW_LANES:
        return None
    if block < n and block > limits.BACKWARD_BLOCK:
        return None
    return Mixer(dtype, prod(lead), n, groups, heads // groups, channels, block, terms)
