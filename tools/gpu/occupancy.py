"""How many warps of a compiled kernel a multiprocessor holds."""

from __future__ import annotations

from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from tools.gpu.machine_code import Usage


def resident_warps(launch: Launch, used: Usage, device: Device) -> float:
    """Return how many warps of a launch a multiprocessor holds on average, while all that there is room for are there.

    Parameters
    ----------
    launch : Launch
        For its thread blocks.
    used : Usage
        Of its kernel, for the compute capability of the device.
    device : Device
        Where it runs.
    """
    warps = launch.block[0] // 32
    room = device.limits.room(warps, used.registers, used.shared + launch.shared_bytes)
    return min(room, warps * launch.grid[0] / device.multiprocessors)
