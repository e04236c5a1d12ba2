"""Where the engine changes its way: sizes from which on a thread, a write past the caches, another loop is worth it.

All of them are read here at the time of a call, as ``limits.NAME``, so that a test can make them small and reach with a
few hundred steps what otherwise takes millions, or pretend to have more processors than there are.
"""

from __future__ import annotations

import os

# No machine gains from more threads, and a slip of the caller mustn't start them.
MOST_THREADS = 256

# Numbers below which a second thread costs more than it saves.
WORTH_THREADS = 1 << 18

# Threads that gain by reading pieces of a row twice. Two would gain where memory answers both twice as fast as one of
# them, and lose a quarter where one of them alone keeps it busy.
WORTH_TWO_PASSES = 3

# Steps of a row whose totals are formed from zero, so that they don't wait for the state that enters them: a power of
# two and whole tiles. The order of the arithmetic follows from it, as from no other of these but the next three.
SEGMENT = 1 << 16

# Steps below which many rows are better solved side by side.
SHORT = 64

# Steps of a segment, on average, from which on segments are solved one after the other: each of them fills all threads,
# and a call of its own costs nothing.
LONG_SEGMENT = 1 << 21

# Times that a piece of a window is as long, at least, as what another thread has to solve before it.
WORTH_HALO = 4

# Tiles that the uniform window takes at a time: what it reads twice and writes in between is to stay in a cache.
BAND_TILES = 64

# States up to which a window is followed by plain loops.
MOST_STATES = 8

# Numbers in the scratch area of a problem of channels: states that stay in the second-level cache, and what long
# windows keep, for which rows of memory that aren't cut are worth more than a cache.
ROOM = 1 << 16
SLIDING_ROOM = 1 << 20

# Channels to which rows of them are cut for threads at least: what memory fetches ahead in a shorter piece is lost.
LEAST = 1 << 12

# Problems whose addresses are in memory at once.
BATCH = 1 << 16

# Bytes of a result from which on channels are streamed, and rows, whose arithmetic hides more of what memory takes.
STREAMED = 1 << 23
STREAMED_ROWS = 1 << 26

# Steps of a streamed row from which on its last tile doesn't count, which is put together elsewhere and read once more.
LONG = 1 << 16

# Bytes of a streamed problem of channels from which on its first step doesn't count, which LLVM may write as it writes
# elsewhere (if in float16): memory takes long over lines that are written in both ways.
PROBLEM = 1 << 12

# Bytes next to each other from which on half a line at both ends doesn't count.
WIDE = 1 << 12


def processors() -> int:
    """Return how many processors the process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
