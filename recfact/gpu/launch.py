"""From shapes, strides and number types to the launch of a kernel: pure arithmetic, the same with a GPU and without.

`plan` chooses the kernel, how time is split and how wide accesses are, and says why in words. The launcher for CuPy and
the emulator of the tests take the same `Launch`.
"""

from __future__ import annotations

from recfact.gpu import lines, tiles
from recfact.gpu.geometry import Operand, geometry_of
from recfact.gpu.parts import ENDLESS, Argument, Blocks, Device, Launch, Scratch
from recfact.windows import Full, Jagged, Uniform, Window

__all__ = ["Argument", "Device", "Launch", "Operand", "Scratch", "blocks_of", "plan"]


def blocks_of(window: Window, steps: int) -> Blocks:
    """Describe a window by blocks. One that leaves nothing out is the full one."""
    match window:
        case Full():
            return Blocks(ENDLESS, None)
        case Uniform(lags):
            blocks = Blocks(1, lags - 1)
        case Jagged(block, terms):
            blocks = Blocks(block, terms)
    last = max(steps - 1, 0) // blocks.length
    return Blocks(ENDLESS, None) if blocks.terms is not None and last <= blocks.terms else blocks


def plan(
    shape: tuple[int, ...],
    axis: int,
    a: Operand,
    u: Operand,
    x: Operand,
    x0: Operand | None,
    *,
    window: Window,
    reverse: bool,
    device: Device,
    precision: str = "full",
) -> Launch | None:
    """Plan the solve of x_i = a_i x_{i-1} + u_i along an axis.

    Parameters
    ----------
    shape, axis
        Shape of the result, and time in it.
    a, u, x, x0 : Operand
        Coefficients (of the inputs' number type, or float32 for inputs in half precision), inputs, result (of the
        inputs' number type, or float32 likewise), initial states (of the number type computed in).
    window : Full, Uniform or Jagged
        What is kept of the transfer operator.
    reverse : bool
        Apply the transpose.
    device : Device
        Compute capability and number of multiprocessors.
    precision : {"full", "paper"}
        "paper" stores L_t in half precision once, as the paper does; "full" in two terms.

    Returns
    -------
    Launch or None
        None if the result is empty.

    Raises
    ------
    ShapeError
        If the arrays have too many dimensions that don't run on into each other.

    Examples
    --------
    >>> from recfact import Jagged
    >>> rows = Operand("bfloat16", (2 * 16 * 4096, 32, 2))
    >>> shared = Operand("bfloat16", (2 * 4096, 2, 0))
    >>> launch = plan(
    ...     (128, 4096, 16), 1, shared, rows, rows, None, window=Jagged(16), reverse=False, device=Device((9, 0), 132)
    ... )
    >>> launch.kernel, launch.grid, launch.reasons[0]
    ('b2p', (384, 1, 1), 'b2p: sweep would have 1.9 warps on a multiprocessor, and b2p has 11.6')
    """
    geometry = geometry_of(shape, axis, a, u, x, x0)
    if geometry.steps == 0 or geometry.batch * geometry.heads * geometry.channels == 0:
        return None
    blocks = blocks_of(window, geometry.steps)
    if blocks.terms is not None and blocks.terms > 1:
        return lines.sliding(geometry, blocks, reverse, device)
    return tiles.choose(geometry, blocks, reverse, device, precision == "full")
