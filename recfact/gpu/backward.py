"""The plan of `backward`, whose threads own lines: the gradients of the full recurrence, from its states."""

from __future__ import annotations

from dataclasses import replace

from recfact.gpu.chain import LEAST_STEPS
from recfact.gpu.geometry import View, geometry_of
from recfact.gpu.lines import INT_STRIDE, THREADS, Lines, lines_of
from recfact.gpu.multiprocessors import warps_of_registers
from recfact.gpu.plans import ENDLESS, LAUNCH_STEPS, WARPS_NEEDED, Argument, Device, Launch, Sequences, wide
from recfact.strides import Strided

REGISTERS = 128  # of a thread
CHUNK_BYTES = 160  # that a thread has under way, in registers
MOST_LANES = 32  # that add up what they have


def backward(
    a: Strided,
    g: Strided,
    x: Strided,
    du: Strided,
    da: Strided,
    device: Device,
    sequences: Sequences | None = None,
) -> Launch | None:
    """Plan the gradients of coefficients and inputs of the full recurrence along the first axis.

    Parameters
    ----------
    a, g, x : Strided
        Coefficients, cotangents of the states, and states, of one number type. The first two broadcast to the shape of
        the states.
    du, da : Strided
        The gradients, the first in the shape of the states. The second broadcasts to it, and is summed over channels
        that lie next to each other.
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
    if geometry.time_contiguous:
        return None
    lines = _narrowed(lines_of(geometry, ENDLESS), states, sums)
    count = 1 if sequences is None else sequences.count
    warps = -(-lines.count * count // 32)
    longest, short = geometry.steps, LEAST_STEPS
    if sequences is not None:
        longest, short = sequences.longest, max(LEAST_STEPS, LAUNCH_STEPS * count)
    enough = warps >= WARPS_NEEDED * device.multiprocessors or longest <= short
    lanes = _lanes(lines, sums)
    if lanes is None or not enough:
        return None
    n, views = geometry.steps, geometry.swept()
    all_views = dict(
        zip(
            ("a", "g", "x", "du", "da"),
            (views[0], views[1], states.backwards(n - 2), views[2], sums.backwards(n - 1)),
            strict=True,
        )
    )
    stride = "int" if all(abs(view.step) * 16 < INT_STRIDE for view in all_views.values()) else "long long"
    step_bytes = 2 * lines.channels * geometry.u.type.size + lines.coefficients * geometry.a.type.size
    steps = 8
    while steps > 1 and steps * step_bytes > CHUNK_BYTES:
        steps //= 2
    macros = {
        "INPUT": geometry.u.type.c_type,
        "COEFFICIENT": geometry.a.type.c_type,
        "OUTPUT": geometry.x.type.c_type,
        "CHANNELS": lines.channels,
        "COEFFICIENTS": lines.coefficients,
        "LANES": lanes,
        "SEQUENCES": int(sequences is not None),
        "STRIDE": stride,
        **dict(lines.chunks(steps)),
        "THREADS": THREADS,
        "RESIDENT": warps_of_registers(REGISTERS),
    }
    written = ("du", "da")
    return Launch(
        "backward",
        tuple((name, str(value)) for name, value in macros.items()),
        (-(-lines.count * count // THREADS), 1, 1),
        (THREADS, 1, 1),
        0,
        (
            *(
                Argument(name, "char*" if name in written else "const char*", name, view.start)
                for name, view in all_views.items()
            ),
            Argument("starts", "const long long*", None if sequences is None else "starts"),
            *wide(steps=geometry.steps, segments=count, batch=geometry.batch, heads=geometry.heads),
            *wide(lines=geometry.channels // lines.channels),
            *(
                Argument(f"{name}_{axis}", stride if axis == "step" else "long long", getattr(view, axis))
                for name, view in all_views.items()
                for axis in ("batch", "head", "channel", "step")
            ),
        ),
        (),
        (
            f"backward: {warps / device.multiprocessors:.1f} warps on a multiprocessor",
            lines.reason,
            f"{lanes} threads share coefficients",
        ),
    )


def _narrowed(lines: Lines, *views: View) -> Lines:
    """Return lines of fewer channels, if the addresses of further arrays don't allow wider accesses."""
    width = lines.channels
    while width > 1 and any(
        view.channel and view.alignment(step=True, channel=False) % min(width * view.type.size, 16) for view in views
    ):
        width //= 2
    return replace(lines, channels=width, own=lines.own and width > 1)


def _lanes(lines: Lines, sums: View) -> int | None:
    """Return how many threads share their coefficients, or None if the gradients of these are other sums."""
    geometry = lines.geometry
    if (sums.batch == 0 and geometry.batch > 1) or (sums.head == 0 and geometry.heads > 1):
        return None
    if geometry.steps > 1 and sums.step == 0:
        return None
    if sums.channel or geometry.channels == 1:
        return 1 if lines.coefficients == lines.channels else None
    lanes = geometry.channels // lines.channels
    return lanes if lanes <= MOST_LANES and lanes & (lanes - 1) == 0 else None
