"""Sizes at which the engine changes its method: to more threads, to writes past the caches, or to another loop.

They are read at every call, as ``limits.NAME``. So a test can make them small: a few hundred steps then reach code that
otherwise takes millions of steps. It can also pretend to have more processors than there are. The choice of a kernel
for a window is kept for the whole process, so the limits behind it can't change: `MOST_STATES`, `LONG_BLOCK`,
`LONG_RUN`, `ONE_START`, `LONG_LAGS` and `NARROW_STEP`. `NEAR_RUN`, `LEAST_BLOCKS` and `TABLED_RUN` are also behind it,
but there they only decide in which cache numbers wait. Mixers of a layer are kept with `FEW_LANES` and
`BACKWARD_BLOCK`: a test that changes these calls ``mixer_of.cache_clear()`` before and after.
"""

from __future__ import annotations

import os


def processors() -> int:
    """Return how many processors the process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# The largest number of threads: more than there are processors only get in each other's way.
MOST_THREADS = processors()

# Starting a thread and waiting for it takes as long as solving WORTH_THREADS numbers, so each thread has at least so
# many. Where there are two processors, both are used from WORTH_TWO_THREADS numbers on, if the caller doesn't say how
# many threads to use. There a single thread keeps memory busy. Other processes slow down one of two threads, and the
# other one then waits for it.
WORTH_THREADS = 1 << 20
WORTH_TWO_THREADS = 1 << 25

# Number of threads from which on it pays to read the pieces of a row twice. Two threads would gain if memory served two
# of them twice as fast as one. They lose a quarter if one of them alone keeps memory busy.
WORTH_TWO_PASSES = 3

# Number of steps of a row that are summed up together from a state of zero, so that they don't wait for the state
# before them. It is a power of two and consists of whole tiles. It decides the order of the arithmetic, as the next
# three limits do, and below LONG_BLOCK, ONE_START, LONG_LAGS and NARROW_STEP. The other limits don't.
SPAN = 1 << 16

# Number of steps below which it is faster to solve many rows side by side: with a window (SHORT), without (SHORT_ROW).
SHORT = 64
SHORT_ROW = 512

# Number of neighbours that is enough to solve rows as one sequence, if some lie next to each other and others apart.
MANY_ROWS = 64

# Average number of steps from which on segments are solved one after the other. Each of them then keeps all threads
# busy, and the cost of a separate call doesn't matter.
LONG_SEGMENT = 1 << 21

# A thread's piece of a window is at least this many times as long as the steps before it that must be solved again.
WORTH_HALO = 4

# Size of a run in bytes, if the blocks aren't longer. The numbers of a group of runs must fit into the first-level
# cache. It has room for less if tables of the group lie beside them, as for uniform windows and several channels
# (TABLED_RUN). A run of a jagged window has at least LEAST_BLOCKS blocks for each carrier term. Up to NEAR_RUN bytes
# of them the next group waits in the first-level cache, and else in the second one. That of a uniform window of up to
# WHOLE_SLICES lags consists of whole slices: in longer blocks, a slice that is cut is a small part.
# The next four say which windows are too long for runs:
# * LONG_BLOCK: bytes of accumulators in a block, times the number of terms.
# * LONG_RUN: the same where there are no tiles, for complex numbers and several channels. Then runs are faster as long
#   as a group of them fits into the second-level cache, and follow less than MOST_STATES states.
# * ONE_START: steps in a block of a jagged window. At most one longer block starts in a tile.
# * LONG_LAGS: lags of a uniform window of real numbers. Tiles are faster for more lags.
RUN = 320
TABLED_RUN = 256
LEAST_BLOCKS = 4
WHOLE_SLICES = 32
NEAR_RUN = 1024
LONG_BLOCK = 2048
LONG_RUN = 1 << 15
ONE_START = 64
LONG_LAGS = 256

# Number of tiles that the uniform window takes at a time. What it writes and reads again must stay in a cache.
BAND_TILES = 128

# Largest number of states of a window that plain loops follow.
MOST_STATES = 8

# Size of the scratch area of a problem of channels, in numbers. With ROOM the states stay in the second-level cache.
# Long windows that slide have SLIDING_ROOM: for them, long uncut rows of memory are worth more than a cache.
ROOM = 1 << 16
SLIDING_ROOM = 1 << 20

# Smallest number of channels to which threads cut rows of channels. In shorter pieces memory fetches too much in vain.
LEAST = 1 << 12

# Longest block, in steps, whose gradients are computed in one pass. Its channels must stay in the second-level cache.
BACKWARD_BLOCK = 1 << 9

# Steps of a run, if a block isn't longer, when the gradients of a row are computed run beside run. The scratch memory
# must stay in the first-level cache. A whole row of at most BACKWARD_SHORT steps is one run.
BACKWARD_RUN = 16
BACKWARD_SHORT = 1 << 10

# Bytes of accumulators in a step from which on plain loops over channels wait for memory, and not for the step before.
# Fewer are solved by tiles, if there is no window.
NARROW_STEP = 16

# If fewer than FEW_LANES channels lie next to each other, channels that lie further apart are copied to be neighbours.
# TURNED numbers of each are copied at a time.
FEW_LANES = 8
TURNED = 32

# Longest contiguous stretch that is copied as a whole: in numbers for windows that slide (LONGEST_COPY), and in bytes
# if only one state of each channel is followed (LONGEST_RUN).
LONGEST_COPY = 1 << 14
LONGEST_RUN = 448

# Smallest number of contiguous numbers in a piece, if there are few channels and they are long.
PIECE = 256

# Largest number of problems whose addresses are in memory at once.
BATCH = 1 << 16

# Size of a result in bytes from which on it is written past the caches: for channels (STREAMED) and for rows
# (STREAMED_ROWS). Rows hide more of the memory's time behind their arithmetic.
STREAMED = 1 << 23
STREAMED_ROWS = 1 << 24

# Number of steps from which on a row is streamed. Its last tile is put together elsewhere and read once more, and this
# cost no longer matters.
LONG = 1 << 16

# Size in bytes from which on a problem of channels is streamed. LLVM may write its first step through the caches (in
# float16). Memory is slow at lines that are written in both ways, and from this size on one step no longer matters.
PROBLEM = 1 << 12

# Number of contiguous bytes from which on the two partial cache lines at the ends no longer matter.
WIDE = 1 << 12


def most_blocks(block: int, step_bytes: int, least: int = 1, tabled: bool = False) -> int:
    """Return how many blocks of `block` steps a run has at most, and at least `least`. A step has `step_bytes`."""
    return max(1, least, (TABLED_RUN if tabled else RUN) // (block * step_bytes))


def fits_runs(lags: int, itemsize: int, real: bool) -> bool:
    """Return whether a uniform window is short enough for runs, if an accumulator has `itemsize` bytes."""
    return lags <= LONG_LAGS if real else lags * itemsize <= LONG_RUN


def is_narrow(channels: int, itemsize: int) -> bool:
    """Return whether tiles solve so many channels next to each other, if an accumulator has `itemsize` bytes."""
    return channels > 1 and channels * itemsize < NARROW_STEP


def least_steps(whole: bool) -> int:
    """Return the number of steps from which on several rows are solved one by one, `whole` or with a window."""
    return SHORT_ROW if whole else SHORT
