"""Gradients of a window on a GPU by one launch, and what initial states add to them.

Arrays have time on axis 0, and initial states their segments.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Protocol

from recfact.array_functions import broadcast_to
from recfact.arrays import Array
from recfact.gradients.initial_states import Starts
from recfact.gradients.time_first import summed
from recfact.windows import Window


class Gradients(NamedTuple):
    """The gradients of coefficients, inputs and initial states. The last is None without initial states."""

    da: Any
    du: Any
    d0: Any


class _Engine(Protocol):
    def __call__(self, a: Any, given: Any, g: Any, window: Window, offsets: Array | None) -> tuple[Any, Any] | None: ...


def by_one_launch(a: Any, given: Any, g: Any, x0: Any, window: Window, offsets: Array | None) -> Gradients | None:
    """Return the gradients, or None if no kernel makes them at once.

    Parameters
    ----------
    a, given, g : array, shape (n, ...)
        Coefficients; states where nothing is left out, and inputs with the initial states in them otherwise; and
        cotangents of the states.
    x0 : array, shape (N, ...), or None
        Initial states of the segments.
    """
    found = _engine()(a, given, g, window, offsets)
    if found is None:
        return None
    da, du = found
    if x0 is None:
        return Gradients(da, du, None)
    starts = Starts(len(a), offsets)
    entering = starts.taken(du)
    into = summed(broadcast_to(entering * x0, entering.shape), (len(entering), *a.shape[1:]))
    return Gradients(da + starts.spread(into), du, starts.taken(a) * entering)


@cache
def _engine() -> _Engine:
    """Return the GPU engine's function for gradients."""
    from recfact.gpu.gradients import gradients

    return gradients
