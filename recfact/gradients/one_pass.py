"""The passes over memory in which engines make gradients. Importing an engine takes long, so it is imported last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recfact.array_functions import is_half
from recfact.arrays import Array
from recfact.gradients.arguments import Given
from recfact.gradients.differentials import Pass
from recfact.windows import Full, Window, blocks_within, within


def one_pass(
    given: Given, x0: Any, window: Window, da: Array | None, du: Array | None, kept: Any = None
) -> Pass | None:
    """Return the pass of the engine for these arguments, or None if it has none.

    Parameters
    ----------
    given : Given
        Arguments of a caller.
    x0 : array, or None
        Initial states.
    da, du : ndarray, or None
        Memory of the host that may receive the gradients.
    kept : array, or None
        What `solve_and_keep` kept on a GPU.
    """
    if given.on_gpu:
        return _on_gpu(given, x0, window, kept)
    if given.reverse or given.offsets is not None or x0 is not None or given.dtype.kind != "f":
        return None
    return _on_host(given, window, da, du)


def _on_gpu(given: Given, x0: Any, window: Window, kept: Any) -> Pass:
    from recfact.gpu.cuda_streams import check_uncaptured
    from recfact.gpu.gradients import gradients

    longest = given.time.steps if given.offsets is None else int(np.diff(given.offsets).max(initial=0))
    window = within(window, longest)
    whole = isinstance(window, Full)

    def check_steps() -> None:
        """Refuse what a graph of CuPy wouldn't own: memory that is neither an argument nor a result."""
        if not given.tensors:
            advice = "capture one of torch tensors, whose graphs own such memory"
            check_uncaptured("makes gradients in several steps, with memory of CuPy,", advice)

    def states(a: Any, u: Any) -> Any:
        if not given.reverse or (is_half(a) and is_half(u)):
            return None  # the kernel finds them, which moves less
        check_steps()
        return given.wide_states(a, u)

    def run(a: Any, u: Any, g: Any, x: Any) -> tuple[Any, Any, Any] | None:
        known = whole and x is not None
        read = given.expanded(x if known else u)
        sizes = math.prod(a.shape), math.prod(read.shape)
        # What is summed further is rounded after that.
        da, du = (
            kind if own == size else None for kind, own, size in zip(given.types, given.sizes, sizes, strict=True)
        )
        if given.reverse or x0 is not None or da is None or du is None:
            check_steps()
        parts = None if kept is None else given.time.turned(kept)
        found = gradients(a, read, given.expanded(g), window, given.offsets, (da, du), known, parts, x0)
        if found is None:
            check_steps()
        return found

    def transpose(a: Any, g: Any) -> Any:
        rounded = a.dtype == g.dtype == given.types[1] and given.sizes[1] == math.prod(given.time.shape)
        return given.solve(a, g, window, False) if rounded else given.wide_states(a, g, window)

    return Pass(states if whole else None, run, transpose)


def _on_host(given: Given, window: Window, da: Array | None, du: Array | None) -> Pass:
    from recfact.cpu.backward import gradients

    def run(a: Array, u: Array, g: Array, x: Array | None) -> tuple[Array, Array, None] | None:
        found = gradients(a, u, g, x, window, da, du)
        return found and (*found, None)

    def states(a: Array, u: Array) -> Any:
        return given.solve(a, u, window, False)

    return Pass(states if blocks_within(window, given.time.steps)[1] == 0 else None, run)
