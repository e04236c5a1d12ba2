"""The launch of a kernel from shapes, strides and number types: pure arithmetic, the same with and without a GPU.

`plan` chooses the kernel. The file of each kernel decides how time is split and how wide accesses are. Each choice
comes with its reason in words. The launcher for CuPy and the emulator of `tools/gpu` take the same `Launch`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recfact.errors import ShapeError
from recfact.gpu.b2p import B2P, obstacle
from recfact.gpu.backward import backward
from recfact.gpu.backward_window import backward_window
from recfact.gpu.chain import chain
from recfact.gpu.geometry import Geometry, geometry_of
from recfact.gpu.lines import lines_of
from recfact.gpu.multiprocessors import WARPS_NEEDED, Device
from recfact.gpu.plans import Launch
from recfact.gpu.segments import LEAST_STEPS
from recfact.gpu.sliding import sliding
from recfact.gpu.solves import Blocks, Sequences, Solve, blocks_of
from recfact.gpu.sweep import Sweep
from recfact.strides import Strided
from recfact.windows import Window

SHARES = {"": 1, ", half the warps": 0.5, ", twice the warps": 2}  # of what memory wants on its way


def plan(solve: Solve[Strided], device: Device) -> Launch | None:
    """Plan a solve.

    Parameters
    ----------
    solve : Solve
        Its arrays by their layout, and its options. For sequences, the launch reads where each starts.
    device : Device
        Compute capability and number of multiprocessors.

    Returns
    -------
    Launch or None
        None if the result is empty, or if with gates several launches are better: a product, a solve, and a product
        and a sum, because the window has several terms, there are too few lines for the whole recurrence, or time is
        contiguous.

    Raises
    ------
    ShapeError
        If the arrays have too many dimensions after merging those that lie in memory as one, or if heads that share
        gates can't be counted.

    Examples
    --------
    >>> from recfact import Jagged
    >>> from recfact.number_types import BFLOAT16
    >>> from recfact.strides import contiguous
    >>> rows, shared = contiguous(BFLOAT16, (128, 4096, 16)), contiguous(BFLOAT16, (128, 4096, 1))
    >>> launch = plan(Solve(shared, rows, rows, None, 1, Jagged(16)), Device((9, 0), 132))
    >>> launch.kernel, launch.grid, launch.reasons[0]
    ('b2p', (384, 1, 1), 'b2p: sweep would have 1.9 warps on a multiprocessor, and b2p has 11.6')
    """
    if 0 in solve.x.shape:
        return None
    geometry, blocks = solve.geometry, solve.blocks
    several = blocks.terms is not None and blocks.terms > 1
    if solve.gates and (several or geometry.time_contiguous):
        return None
    if several:
        return sliding(geometry, blocks, device, solve.sequences)
    return _choose(geometry, blocks, device, solve.precision, solve.sequences)


def plan_gradients(
    a: Strided,
    given: Strided,
    g: Strided,
    du: Strided,
    da: Strided,
    *,
    window: Window,
    device: Device,
    sequences: Sequences | None = None,
    states: bool = True,
    kept: Strided | None = None,
    x0: Strided | None = None,
) -> Launch | None:
    """Plan the gradients of coefficients and inputs along the first axis.

    Parameters
    ----------
    a, given, g : Strided
        Coefficients; states of the full recurrence, or inputs; and cotangents of the states, of number types that are
        computed in one type. They broadcast to the shape of the gradients of the inputs.
    du, da : Strided
        The gradients, likewise. The second has all steps, and is summed over the axes along which it is broadcast to
        the shape of the first. If the launch has an array "sums", it writes parts of these sums there.
    window : Window
        What is kept.
    device : Device
        Compute capability and number of multiprocessors.
    sequences : Sequences, optional
        What time is made of. `backward` reads where they start in the order of its sweep back in time,
        `backward_window` forward.
    states : bool, default True
        Whether the states of the full recurrence are given. If not, inputs are.
    kept : Strided, optional
        Beside inputs of the full recurrence, the states that its solve kept.
    x0 : Strided, optional
        Initial states in the type of the computation, with sequences on their first axis if there are any. The launch
        writes their gradients, which lie in the same way, to an array "d0".

    Returns
    -------
    Launch or None
        None if nothing is to be computed, or if no kernel makes both at once. The arrays may have too many dimensions.
    """
    if 0 in du.shape:
        return None
    blocks = blocks_of(window, du.shape[0] if sequences is None else sequences.longest)
    try:
        count = 0 if sequences is None else sequences.count
        geometry = geometry_of(0, a, g, du, x0, True, count, beside=(given, da), kept=kept)
    except ShapeError:
        return None
    if blocks.terms is None and states:
        return backward(geometry, device, sequences)
    return backward_window(geometry, blocks, device, sequences)


def alternatives(solve: Solve[Strided], device: Device) -> dict[str, Launch]:
    """Plan a solve in each way that may be the fastest: by each kernel, and with more or fewer warps and stages.

    Parameters and errors are those of `plan`. The names of plans say how they differ, and none is there twice. There
    are none where `plan` has none.
    """
    derived = plan(solve, device)
    if derived is None:
        return {}
    if derived.kernel == "sliding":
        return {"sliding": derived}
    geometry, blocks = solve.geometry, solve.blocks
    why = "when it was timed, it was the fastest"
    found = {
        f"sweep{how}": Sweep(geometry, blocks, device, share=share).launch(f"sweep{how}: {why}")
        for how, share in SHARES.items()
    }
    if obstacle(geometry, blocks, device) is None:
        ways: dict[str, dict[str, Any]] = {f"b2p{how}": {"share": share} for how, share in SHARES.items()}
        if not solve.gates:  # which leave no tile to spare
            ways["b2p, fewer stages"] = {"fewer": 2}
        tiles = {name: B2P(geometry, blocks, device, solve.precision, **way) for name, way in ways.items()}
        found |= {name: one.launch(f"{name}: {why}") for name, one in tiles.items()}
    if blocks.terms is None and not solve.gates:
        found["chain"] = chain(lines_of(geometry, blocks.length), f"chain: {why}")
    different: dict[str, Launch] = {}
    for name, launch in found.items():
        if all(replace(launch, reasons=other.reasons) != other for other in different.values()):
            different[name] = launch
    return different


def _choose(
    geometry: Geometry, blocks: Blocks, device: Device, precision: str, sequences: Sequences | None
) -> Launch | None:
    """Plan a window of at most two blocks, or the exact recurrence, with the kernel that fits it.

    With gates there is None where it would be `chain`, which doesn't take them.
    """
    sweep, reason = Sweep(geometry, blocks, device, sequences), obstacle(geometry, blocks, device, sequences)
    exact = blocks.terms is None
    enough = WARPS_NEEDED * device.multiprocessors if exact else sweep.wanted
    plenty = sweep.warps >= enough and not sweep.split.short
    has = f"{sweep.warps / device.multiprocessors:.1f} warps on a multiprocessor"
    if sweep.warps >= enough and not plenty:
        has += " in short segments"
    # If time is contiguous, a lane of `sweep` has a row of its own. Each request then touches 32 half-used sectors.
    if plenty and (reason is not None or not geometry.time_contiguous):
        return sweep.launch(f"sweep: {has} are enough, and it issues least")
    if reason is None:
        b2p = B2P(geometry, blocks, device, precision, sequences=sequences)
        would_have = f"{b2p.warps / device.multiprocessors:.1f}"
        if not exact or b2p.warps >= enough:
            if sweep.pace <= b2p.pace and not geometry.time_contiguous:
                paces = f"{sweep.pace:.0f} cycles for a KiB, and b2p takes {b2p.pace:.0f}"
                return sweep.launch(f"sweep: {has} take {paces}")
            why = f"b2p: sweep would have {has}, and b2p has {would_have}"
            if plenty:
                why = "b2p: time is contiguous, and it reads and writes whole sectors, which sweep doesn't"
            return b2p.launch(why)
        reason = f"b2p would have {would_have}"
    if exact and not plenty and (geometry.steps if sequences is None else sequences.longest) > LEAST_STEPS:
        if geometry.beside:
            return None
        lines = lines_of(geometry, blocks.length)
        return chain(lines, f"chain: sweep would have {has} ({reason})", sequences)
    return sweep.launch(f"sweep: {has}, and not b2p: {reason}")
