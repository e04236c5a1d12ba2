"""The plan of `backward`, whose threads own lines: the gradients of the full recurrence, from its states."""

from __future__ import annotations

from recfact.gpu.geometry import geometry_of
from recfact.gpu.gradient_lines import (
    are_enough,
    gradient_lines,
    gradient_macros,
    gradient_places,
    gradient_pointers,
    stride_type,
)
from recfact.gpu.lines import THREADS
from recfact.gpu.multiprocessors import warps_of_registers
from recfact.gpu.plans import Argument, Device, Launch, Sequences, wide
from recfact.strides import Strided

REGISTERS = 128  # of a thread


def backward(
    a: Strided,
    x: Strided,
    g: Strided,
    du: Strided,
    da: Strided,
    device: Device,
    sequences: Sequences | None = None,
) -> Launch | None:
    """Plan the gradients of coefficients and inputs of the full recurrence along the first axis.

    Parameters
    ----------
    a, x, g : Strided
        Coefficients, states, and cotangents of the states, of one number type. They broadcast to the shape of the
        gradients of the inputs.
    du, da : Strided
        The gradients. The second broadcasts to the shape of the first, and is summed over channels that lie next to
        each other.
    device : Device
        To be kept busy.
    sequences : Sequences, optional
        Which time is made of. The launch reads where each starts, in the order of the sweep back in time.

    Returns
    -------
    Launch or None
        None if nothing is to be computed, or if this kernel isn't the one for it: time is contiguous, there are too few
        lines for the GPU, or the gradients of coefficients are sums that it doesn't make.

    Raises
    ------
    ShapeError
        If the arrays have too many dimensions after merging those that lie in memory as one.
    """
    if 0 in x.shape:
        return None
    geometry = geometry_of(0, a, g, du, None, True, beside=(x, da))
    states, sums = geometry.beside
    gradients = gradient_lines(geometry, states, sums)
    if gradients is None:
        return None
    lines, lanes = gradients
    count = 1 if sequences is None else sequences.count
    warps = -(-lines.count * count // 32)
    if not are_enough(warps, geometry.steps, sequences, device):
        return None
    n, swept = geometry.steps, geometry.swept()
    views = {
        "a": swept[0],
        "g": swept[1],
        "x": states.backwards(n - 2),
        "du": swept[2],
        "da": sums.backwards(n - 1),
    }
    stride = stride_type(views)
    return Launch(
        "backward",
        (
            *gradient_macros(lines, lanes, stride),
            ("SEQUENCES", str(int(sequences is not None))),
            ("THREADS", str(THREADS)),
            ("RESIDENT", str(warps_of_registers(REGISTERS))),
        ),
        (-(-lines.count * count // THREADS), 1, 1),
        (THREADS, 1, 1),
        0,
        (
            *gradient_pointers(views),
            Argument("starts", "const long long*", None if sequences is None else "starts"),
            *wide(steps=geometry.steps, segments=count, batch=geometry.batch, heads=geometry.heads),
            *wide(lines=geometry.channels // lines.channels),
            *gradient_places(views, stride),
        ),
        (),
        (
            f"backward: {warps / device.multiprocessors:.1f} warps on a multiprocessor",
            lines.reason,
            f"{lanes} threads share coefficients",
        ),
    )
