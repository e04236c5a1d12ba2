"""From shapes, strides and number types to the launch of a kernel: pure arithmetic, the same with a GPU and without.

`plan` chooses the kernel, `lines` and `b2p` how time is split and how wide accesses are; each says why in words. The
launcher for CuPy and the emulator of `tools/gpu` take the same `Launch`.
"""

from __future__ import annotations

from recfact.gpu.b2p import b2p, b2p_split, obstacle, units_of
from recfact.gpu.geometry import Geometry, Operand, geometry_of
from recfact.gpu.lines import CHAIN_STEPS, chain, lines_of, sliding, sweep, sweep_split, sweep_wanted, warps_of
from recfact.gpu.plans import ENDLESS, WARPS_NEEDED, Blocks, Device, Launch, resident
from recfact.windows import Full, Jagged, Uniform, Window


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
    window : Full, Uniform, Jagged or str
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
        return sliding(geometry, blocks, reverse, device)
    return _choose(geometry, blocks, reverse, device, precision == "full")


def _choose(geometry: Geometry, blocks: Blocks, reverse: bool, device: Device, split_factor: bool) -> Launch:
    """Plan a window of at most two blocks, or the exact recurrence, with the kernel that fits it."""
    lines = lines_of(geometry, reverse, blocks.length)
    split = sweep_split(geometry, lines, blocks, device)
    warps = warps_of(geometry, lines) * split.segments
    exact = blocks.terms is None
    enough = WARPS_NEEDED * device.multiprocessors if exact else sweep_wanted(geometry, lines, blocks, device)
    plenty = warps >= enough and not split.short
    has = f"{resident(warps, device):.1f} warps on a multiprocessor"
    if warps >= enough and not plenty:
        has += " in short segments"
    reason = obstacle(geometry, blocks, device)
    # Along contiguous time a lane of `sweep` has a row of its own, and each request touches 32 half-used sectors.
    if plenty and (reason is not None or not geometry.time_contiguous):
        return sweep(geometry, lines, blocks, split, reverse, f"sweep: {has} are enough, and it issues least")
    if reason is None:
        tile_split = b2p_split(geometry, blocks, device, split_factor)
        tile_warps = units_of(geometry) * tile_split.segments
        if not exact or tile_warps >= enough:
            why = f"b2p: sweep would have {has}, and b2p has {resident(tile_warps, device):.1f}"
            if plenty:
                why = "b2p: time is contiguous, and it reads and writes whole sectors, which sweep doesn't"
            return b2p(geometry, blocks, tile_split, reverse, split_factor, device, why)
        reason = f"b2p would have {resident(tile_warps, device):.1f}"
    if exact and not plenty and geometry.steps > CHAIN_STEPS:
        return chain(geometry, lines, reverse, f"chain: sweep would have {has} ({reason})")
    return sweep(geometry, lines, blocks, split, reverse, f"sweep: {has}, and not b2p: {reason}")
