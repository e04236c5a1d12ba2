"""The plan of `backward`, whose threads own lines: the gradients of the full recurrence, from its states."""

from __future__ import annotations

from recfact.gpu.geometry import Geometry, Views
from recfact.gpu.lines import ACCESS_BYTES, THREADS
from recfact.gpu.multiprocessors import Device, warps_of_registers
from recfact.gpu.plans import Launch, starts, wide
from recfact.gpu.segments import are_enough
from recfact.gpu.solves import ENDLESS, Sequences
from recfact.gpu.sums import gradient_lines, initial_gradient

REGISTERS = 128  # of a thread


def backward(geometry: Geometry, device: Device, sequences: Sequences | None = None) -> Launch | None:
    """Plan the gradients of coefficients and inputs of the full recurrence.

    Parameters
    ----------
    geometry : Geometry
        Coefficients, cotangents and gradients of inputs, in reverse. Beside them are states and gradients of
        coefficients, and perhaps initial states.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. The launch reads where each starts, in the order of the sweep back in time.

    Returns
    -------
    Launch or None
        None if this kernel isn't the one for it: there are too few lines for the GPU.
    """
    count = 1 if sequences is None else sequences.count
    for channels in (ENDLESS, ACCESS_BYTES // geometry.u.type.accumulator.itemsize):  # halves have more, if they can
        owned = gradient_lines(geometry, ENDLESS, sequences, channels)
        warps = owned.thread_blocks(32, count, sequences)
        if are_enough(warps, geometry.steps, sequences, device):
            break
    else:
        return None
    states, sums = geometry.beside
    read = {"a": geometry.a, "g": geometry.u, "x": states}
    written = {"du": geometry.x, "da": sums}
    last = geometry.steps - 1
    views: Views = {
        **{name: view.backwards(last) for name, view in read.items()},
        "x0": geometry.x0 and geometry.x0.backwards(count - 1),
        **{name: view.backwards(last) for name, view in written.items()},
    }
    return owned.launch(
        "backward",
        views,
        owned.thread_blocks(THREADS, count, sequences),
        THREADS,
        {
            "INITIAL": int(geometry.x0 is not None),
            "SEQUENCES": int(sequences is not None),
            "THREADS": THREADS,
            "RESIDENT": warps_of_registers(REGISTERS),
        },
        (initial_gradient(views), starts(sequences), *wide(steps=geometry.steps, segments=count)),
        (
            f"backward: {warps / device.multiprocessors:.1f} warps on a multiprocessor",
            owned.reason,
        ),
    )
