"""The passes over memory in which engines make gradients. Importing an engine takes long, so it is imported last."""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.gradients.arguments import Given
from recfact.gradients.differentials import Pass
from recfact.windows import Full, Window, blocks_within


def one_pass(given: Given, x0: Any, window: Window, da: Array | None, du: Array | None) -> Pass | None:
    """Return the pass of the engine for these arguments, or None if it has none.

    Parameters
    ----------
    given : Given
        Arguments of a caller.
    x0 : array, or None
        Initial states.
    da, du : ndarray, or None
        Memory of the host that may receive the gradients.
    """
    if given.on_gpu:
        return _on_gpu(given, window)
    if given.reverse or given.offsets is not None or x0 is not None or given.dtype.kind != "f":
        return None
    return _on_host(window, given.time.steps, da, du)


def _on_gpu(given: Given, window: Window) -> Pass:
    from recfact.gpu.gradients import gradients

    longest = given.time.steps if given.offsets is None else int(np.diff(given.offsets).max(initial=0))
    whole = blocks_within(window, longest) == (longest, 0)

    def run(a: Any, u: Any, g: Any, x: Any) -> tuple[Any, Any] | None:
        read = given.expanded(x if whole else u)
        return gradients(a, read, given.expanded(g), Full() if whole else window, given.offsets)

    return Pass(whole, run)


def _on_host(window: Window, steps: int, da: Array | None, du: Array | None) -> Pass:
    from recfact.cpu.backward import gradients

    def run(a: Array, u: Array, g: Array, x: Array | None) -> tuple[Array, Array] | None:
        return gradients(a, u, g, x, window, da, du)

    return Pass(blocks_within(window, steps)[1] == 0, run)
