"""Arrays in all the ways in which they may lie in memory."""

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]
DTYPES = [np.dtype(kind) for kind in ("f2", ml_dtypes.bfloat16, "f4", "f8", "c8", "c16", "i4", "?", ">f4")]


@dataclass(frozen=True)
class Layout:
    """A way to lay an array out.

    Parameters
    ----------
    order : tuple of int
        The axes, as memory holds them, the densest last.
    steps : tuple of int
        For each axis, the numbers from one to the next in memory, of its own axis; negative to walk backwards.
    offset : int
        Bytes before the array: not a multiple of its numbers, so that they aren't aligned.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
        """Return a view of a shape, and the memory that it is a view of, filled with NaN (all bits set)."""
        lengths = [shape[axis] * abs(self.steps[axis]) + (abs(self.steps[axis]) > 1) for axis in self.order]
        itemsize = np.dtype(dtype).itemsize
        memory = np.full(self.offset + int(np.prod(lengths)) * itemsize, 255, np.uint8)
        whole = np.ndarray(lengths, dtype, buffer=memory, offset=self.offset)
        view = whole.transpose(np.argsort(self.order)) if shape else whole
        for axis, (step, length) in enumerate(zip(self.steps, shape, strict=True)):
            view = np.moveaxis(np.moveaxis(view, axis, 0)[:: abs(step)][:length][:: 1 if step > 0 else -1], 0, axis)
        return view, memory

    def array(self, values: Array) -> Array:
        """Return a copy of an array in this layout."""
        view, _ = self.empty(values.shape, values.dtype)
        view[...] = values
        return view


@st.composite
def layouts(draw: st.DrawFn, axes: int) -> Layout:
    """Draw a layout; every second one is plain C order."""
    if draw(st.booleans()):
        return Layout(tuple(range(axes)), (1,) * axes)
    order = draw(st.permutations(range(axes)))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, -1, 2, -3])] * axes))
    return Layout(tuple(order), steps, draw(st.sampled_from([0, 0, 1, 3, 8])))


@st.composite
def operands(draw, dtypes=DTYPES, backwards=True):
    """Draw coefficients and inputs: each in a layout of its own, shared along axes or of length 1, or a number."""
    whole = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 5]), min_size=1, max_size=4))
    drawn = []
    for _ in "au":
        given_shape = [length if draw(st.sampled_from([True, True, False])) else 1 for length in whole]
        stored = [length if draw(st.sampled_from([True, True, True, False])) else 1 for length in given_shape]
        layout = draw(layouts(len(whole)))
        if not backwards:
            layout = replace(layout, steps=tuple(map(abs, layout.steps)), offset=0)
        array = np.broadcast_to(layout.array(np.ones(stored, draw(st.sampled_from(dtypes)))), given_shape)
        drawn.append(array[0] if given_shape[0] == 1 < len(whole) and draw(st.booleans()) else array)
    if draw(st.sampled_from([False] * 9 + [True])):
        drawn[draw(st.integers(0, 1))] = 0.5
    return drawn
