"""The cost of each algorithm: depth, operations, memory traffic and stored entries, counted rather than estimated.

The counts are those of the algorithms as they are written, for n steps, blocks of l steps (the last may be shorter) and
d channels that share the coefficients:

* depth: number of steps that must follow each other. Each step has any number of simultaneous multiply-adds. Sums run
  from left to right.
* multiplications, additions: products of coefficients are formed once, and applied once per channel.
* words: numbers read from and written to main memory. A stage reads each number that it uses once. It writes each
  number that it changes once, in place. Every factor of a flat algorithm is a stage. The work inside a block belongs to
  one stage and stays in fast memory. The hierarchical algorithms have three stages: local solves, carriers,
  reconstruction. B2P has one, because a block gets the carrier from its neighbour at work beside it.
* nonzeros: multipliers of a vector that the algorithm stores, without the unit diagonals.

The hierarchical algorithms solve their b carriers sequentially. Their name says how the blocks are solved. B2P uses
"gemm" and keeps only the last carrier.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from operator import itemgetter
from typing import Any

from recfact.algorithms import doubling, down_sweep, up_sweep
from recfact.checks import positive_integer
from recfact.errors import OptionError
from recfact.printed_table import Column, PrintedTable, Tabular


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one algorithm. The module says how it is counted.

    Parameters
    ----------
    algorithm : str
        Name of the algorithm.
    depth : int
        Number of steps that must follow each other.
    multiplications, additions : int
        Number of scalar operations.
    words : int
        Numbers moved to and from main memory.
    nonzeros : int
        Stored multipliers.
    """

    algorithm: str
    depth: int
    multiplications: int
    additions: int
    words: int
    nonzeros: int


_NAMES = tuple(field.name for field in fields(Cost))
_COLUMNS = tuple(Column(name, name, itemgetter(name), words=name == "algorithm") for name in _NAMES)


@dataclass(frozen=True, slots=True, repr=False)
class CostTable(Tabular):
    """Costs of all algorithms for one problem. It is a `Tabular`, so it prints itself. Iteration gives its rows.

    Parameters
    ----------
    n, block, channels : int
        The problem: number of steps, block length, and number of channels that share the coefficients.
    rows : tuple of Cost
        One for each algorithm.
    """

    n: int
    block: int
    channels: int
    rows: tuple[Cost, ...]

    def __iter__(self) -> Iterator[Cost]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, algorithm: str) -> Cost:
        """Return the row of an algorithm. If there is none, raise KeyError with the names."""
        for row in self.rows:
            if row.algorithm == algorithm:
                return row
        raise KeyError(f"no algorithm {algorithm!r}; the table has {', '.join(row.algorithm for row in self.rows)}")

    def table(self) -> PrintedTable:
        """Return what is printed."""
        title = f"n = {self.n}, block = {self.block}, channels = {self.channels}"
        return PrintedTable(tuple(map(asdict, self.rows)), _COLUMNS, _NAMES, title)

    def _record(self) -> dict[str, Any]:
        return {"n": self.n, "block": self.block, "channels": self.channels, "rows": self.to_rows()}


def cost_table(n: int, *, block: int = 16, channels: int = 1) -> CostTable:
    """Return the depth, operations, words moved and non-zeros of every algorithm side by side.

    Parameters
    ----------
    n : int
        Number of steps, at least 1.
    block : int, default 16
        Block length of the hierarchical algorithms and B2P.
    channels : int, default 1
        Number of sequences that share the coefficients.

    Returns
    -------
    CostTable
        Rows "sequential", "kogge-stone", "brent-kung", "hierarchical gemm", "hierarchical scan",
        "hierarchical sequential" and "b2p". All are exact except B2P, which truncates.

    Raises
    ------
    TypeError, OptionError
        If an argument isn't an integer of at least 1, or if `n` is longer than a sequence can be.

    Notes
    -----
    The head of the module `recfact.factorizations.algorithm_costs` says how each column is counted.

    Examples
    --------
    >>> print(cost_table(1024, block=16))
    n = 1024, block = 16, channels = 1
    algorithm                depth  multiplications  additions  words  nonzeros
    sequential                1023             1023       1023   3070      1023
    kogge-stone                 10            17411       9217  36868      9217
    brent-kung                  19             3049       2036  10170      2036
    hierarchical gemm           92            16415       8750   7226      8750
    hierarchical scan           67             7327       4206   7226      4206
    hierarchical sequential     78             2975       2030   7226      2030
    b2p                         30            16353       8688   3070      8688
    """
    n, block, channels = (
        positive_integer(value, name) for value, name in ((n, "n"), (block, "block"), (channels, "channels"))
    )
    if n > sys.maxsize:
        raise OptionError(f"n must be at most {sys.maxsize}, the longest sequence there can be, got {n}")
    steps = channels * (n - 1)
    rows = (
        Cost("sequential", n - 1, steps, steps, one_pass(n, channels), n - 1),
        flat("kogge-stone", kogge_stone_stages(n), channels),
        flat("brent-kung", brent_kung_stages(n), channels),
        *(hierarchical(n, block, channels, solver) for solver in LOCAL),
        b2p(n, block, channels),
    )
    return CostTable(n, block, channels, rows)


def one_pass(n: int, channels: int) -> int:
    """Return the words of one pass: all coefficients and inputs are read, all states but the first are written."""
    return n - 1 + channels * (2 * n - 1) if n > 1 else 0


@dataclass(frozen=True, slots=True)
class Stage:
    """One factor of a flat algorithm, in numbers.

    Parameters
    ----------
    updates : int
        Rows that change.
    touched : int
        Rows that change or are read.
    formed : int
        Products of coefficients formed for later factors.
    read : int
        Coefficients read, for the updates and for the products.
    """

    updates: int
    touched: int
    formed: int
    read: int


def kogge_stone_stages(n: int) -> Iterator[Stage]:
    """Yield the stages of Kogge-Stone."""
    for rows, lag in doubling(n):
        updates = len(rows)
        yield Stage(updates, updates + min(updates, lag), formed=max(updates - lag, 0), read=updates)


def brent_kung_stages(n: int) -> Iterator[Stage]:
    """Yield the stages of Brent-Kung."""
    for rows, _ in up_sweep(n):
        updates = len(rows)
        yield Stage(updates, 2 * updates, formed=updates - 1, read=2 * updates - 1)
    for rows, _ in down_sweep(n):
        yield Stage(len(rows), 2 * len(rows), formed=0, read=len(rows))


def flat(algorithm: str, stages: Iterator[Stage], channels: int) -> Cost:
    """Return the cost of a chain of factors."""
    depth = formed = updates = words = 0
    for stage in stages:
        depth += 1
        formed += stage.formed
        updates += stage.updates
        words += stage.read + stage.formed + channels * (stage.touched + stage.updates)
    return Cost(algorithm, depth, formed + channels * updates, channels * updates, words, updates)


@dataclass(frozen=True, slots=True)
class Local:
    """Solving the recurrence in one block and forming its propagation factors g.

    Parameters
    ----------
    depth : int
        Number of steps that must follow each other.
    formed : int
        Multiplications of coefficients without g.
    formed_with_g : int
        Multiplications of coefficients with g.
    updates : int
        Multiply-adds per channel, which is also the number of multipliers.
    """

    depth: int
    formed: int
    formed_with_g: int
    updates: int


def local_gemm(length: int) -> Local:
    """Form the block of L row by row, multiply by it, and take g from its first column."""
    formed = (length - 1) * (length - 2) // 2
    return Local(max(length - 2, 0) + length - 1, formed, formed + length - 1, length * (length - 1) // 2)


def local_scan(length: int) -> Local:
    """Run the stages of Kogge-Stone. They also give g, if they go on multiplying the first rows."""
    stages = list(kogge_stone_stages(length))
    updates = sum(stage.updates for stage in stages)
    return Local(len(stages), sum(stage.formed for stage in stages), updates, updates)


def local_sequential(length: int) -> Local:
    """Run the recurrence, and the products g beside it."""
    return Local(length - 1, 0, length - 1, length - 1)


LOCAL: dict[str, Callable[[int], Local]] = {"gemm": local_gemm, "scan": local_scan, "sequential": local_sequential}


@dataclass(frozen=True, slots=True)
class LocalStage:
    """The local solves of all blocks and their propagation factors, which the first block doesn't need.

    Parameters
    ----------
    blocks : int
        Number of blocks.
    depth, formed, updates : int
        As for `Local`, over all blocks.
    entered : int
        Rows that a carrier enters: all except those of the first block.
    words : int
        Numbers moved.
    """

    blocks: int
    depth: int
    formed: int
    updates: int
    entered: int
    words: int


def local_stage(n: int, block: int, channels: int, solver: str) -> LocalStage:
    """Return the counts of the local solves."""
    blocks = -(-n // block)
    lengths = [min(block, n)] * (blocks > 1) + [n - (blocks - 1) * block]
    first, last = LOCAL[solver](lengths[0]), LOCAL[solver](lengths[-1])
    formed, updates = first.formed, (blocks - 1) * first.updates + last.updates
    if blocks > 1:
        formed += (blocks - 2) * first.formed_with_g + last.formed_with_g
    # A block of one step has nothing to solve, and g begins with a coefficient that is already in memory.
    single = blocks if lengths[0] == 1 else int(lengths[-1] == 1)
    entered, propagation = n - lengths[0], n - lengths[0] - (blocks - 1)
    read = n - 1 - (single - (lengths[0] == 1))
    words = read + propagation + channels * (n - single + n - blocks)
    return LocalStage(blocks, first.depth, formed, updates, entered, words)


def hierarchical(n: int, block: int, channels: int, solver: str) -> Cost:
    """Return the cost of the three stages: local solves, carriers, reconstruction."""
    local = local_stage(n, block, channels, solver)
    borders = local.blocks - 1
    carried = max(borders - 1, 0)  # the first carrier is a local state, and no block follows the last one
    words = local.words + local.entered + channels * (2 * local.entered + borders)
    if carried:
        words += carried + channels * (borders + carried)
    updates = local.updates + carried + local.entered
    return Cost(
        f"hierarchical {solver}",
        local.depth + carried + (borders > 0),
        local.formed + channels * updates,
        channels * updates,
        words,
        updates,
    )


def b2p(n: int, block: int, channels: int) -> Cost:
    """Return the cost of B2P: local solves by matrix products, and the neighbour's last local state as the carrier."""
    local = local_stage(n, block, channels, "gemm")
    updates = local.updates + local.entered
    return Cost(
        "b2p",
        local.depth + (local.blocks > 1),
        local.formed + channels * updates,
        channels * updates,
        one_pass(n, channels),
        updates,
    )
