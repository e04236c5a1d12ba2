"""How many warps a multiprocessor of compute capability 9.0 holds, and what it has for each."""

from __future__ import annotations

from recfact.gpu.machine_code import MachineCode
from recfact.gpu.plans import Launch

WARPS = 64
THREAD_BLOCKS = 32
REGISTERS = 64 * 1024
REGISTERS_AT_ONCE = 256  # given to a warp
SHARED_BYTES = 228 * 1024
RESERVED_SHARED_BYTES = 1024  # of each thread block


def resident_warps(launch: Launch, code: MachineCode, multiprocessors: int) -> float:
    """Return how many warps of a launch one of these multiprocessors holds on average, while all that fit are there."""
    warps = launch.block[0] // 32
    registers = -(-32 * code.registers // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    shared = code.shared + launch.shared_bytes + RESERVED_SHARED_BYTES
    most = min(WARPS // warps, THREAD_BLOCKS, REGISTERS // (registers * warps), SHARED_BYTES // shared)
    return warps * min(most, launch.grid[0] / multiprocessors)
