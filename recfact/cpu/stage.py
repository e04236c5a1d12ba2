"""A buffer, the stage, for states on their way past the caches: groups of runs fill it, and whole lines leave it.

Runs write four numbers at a time at eight places of memory, so they never fill a cache line at once. So a group writes
to a stage in the first-level cache, in which its states lie in the same order as in memory. Full lines are sent to
memory. The last line is moved to the start of the stage, and the next group fills it. Numbers that share their line
with other memory are written through the caches.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.compilation import apart, helper
from recfact.cpu.halves import I32
from recfact.cpu.language import operation
from recfact.cpu.numbers import LINE, pointer
from recfact.cpu.operations import load, single, size, store
from recfact.cpu.runs import is_streamed
from recfact.cpu.tile_solvers import runs_in_reverse

SPARE = 3 * LINE  # bytes of a stage besides those of its group


def copied(b: Any, target: Any, source: Any) -> Any:
    """Copy a line, and return the instruction that writes it."""
    kind = ir.VectorType(I32, LINE // 4)
    line = b.load(pointer(b, kind, source, ir.Constant(source.type, 0)))
    line.align = LINE
    written = b.store(line, pointer(b, kind, target, ir.Constant(target.type, 0)))
    written.align = LINE
    return written


@operation
def copy_line(target: Any, source: Any) -> Any:
    """Copy a line."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        copied(b, *args)

    return types.void(types.int64, types.int64), codegen


@operation
def send_line(target: Any, source: Any) -> Any:
    """Copy a line past the caches."""

    def codegen(context: Any, b: Any, args: Any) -> Any:
        copied(b, *args).set_metadata("nontemporal", b.module.add_metadata([ir.Constant(I32, 1)]))

    return types.void(types.int64, types.int64), codegen


@helper
def staged(stage: int, low: int, address: int) -> Any:
    """Return the place on the stage of an address of memory, for a group whose lowest address is `low`."""
    return stage + LINE + address - (low & -LINE)


@helper
def kept_line(runs: Any, settled: int) -> Any:
    """Return the address of the line that is kept, which is that of the first step that isn't settled."""
    return (settled - 1 if runs_in_reverse(runs) else settled) & -LINE


@helper
def enter_stage(runs: Any, stage: int, edge: int, end: int, settled: int, x: int) -> Any:
    """Return where a group writes the state whose address is `x`: there, or on the stage if states go past the caches.

    The states of the group begin and end at the addresses `edge` and `end`. All steps before the address `settled` are
    in memory. The line that is kept moves beside the group.
    """
    if is_streamed(runs):
        low = min(edge, end)
        copy_line(staged(stage, low, kept_line(runs, settled)), stage)
        return staged(stage, low, x)
    return x


@helper
def write_plainly(runs: Any, place: int, first: int, last: int) -> None:
    """Write the numbers from one address to another. The first of them is at `place`."""
    one = single(runs)
    for offset in range(0, last - first, size(one)):
        store(one, first, offset, load(one, place, offset))


@helper
def leave_stage(runs: Any, stage: int, edge: int, end: int, settled: int) -> Any:
    """Send the states of a group from the stage, and return the new `settled`."""
    if is_streamed(runs):
        return send_lines(runs, stage, min(edge, end), max(edge, end), settled)
    return settled


@apart
def send_lines(runs: Any, stage: int, low: int, high: int, settled: int) -> int:
    """Send the full lines of a group, from address `low` to `high`, and keep the rest. Return the new `settled`."""
    if runs_in_reverse(runs):
        if settled & (LINE - 1) != 0:
            first = max(settled & -LINE, low)
            write_plainly(runs, staged(stage, low, first), first, settled)
            settled = first
        while settled - LINE >= low:
            settled -= LINE
            send_line(settled, staged(stage, low, settled))
    else:
        if settled & (LINE - 1) != 0:
            last = min((settled & -LINE) + LINE, high)
            write_plainly(runs, staged(stage, low, settled), settled, last)
            settled = last
        while settled + LINE <= high:
            send_line(settled, staged(stage, low, settled))
            settled += LINE
    copy_line(stage, staged(stage, low, kept_line(runs, settled)))
    return settled


@helper
def clear_stage(runs: Any, stage: int, settled: int, end: int) -> None:
    """Write the line that is kept on the stage, if there is one. The groups end at the address `end`."""
    if is_streamed(runs):
        place = stage - kept_line(runs, settled)
        if runs_in_reverse(runs):
            write_plainly(runs, place + end, end, settled)
        else:
            write_plainly(runs, place + settled, settled, end)
