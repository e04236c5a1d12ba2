"""Arguments of `vjp` and `jvp`. They are read with time first and in the type of the computation, and given back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recfact.array_functions import broadcast_to, in_type, is_half, namespace, widened
from recfact.arrays import (
    Array,
    as_numpy,
    as_operands,
    broadcast_shape,
    check_axis,
    check_no_state,
    check_step,
    converted,
    library_of,
    to_torch,
)
from recfact.containers import without_labels
from recfact.continuation import before_first, check_options, state_of
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.gradients.places import Place, places_of
from recfact.gradients.states import shape_after
from recfact.gradients.time_first import TimeFirst
from recfact.number_types import FLOAT32, accumulator
from recfact.offsets import check_offsets
from recfact.solve import solve
from recfact.state import State, turned
from recfact.state_parts import check_fits, holds_steps
from recfact.windows import Full, Window


class Given:
    """Arguments of a caller. Arrays are read with time first and in the type of the computation, and given back.

    Only halves on a GPU are read as they are, because kernels take them so.

    Attributes
    ----------
    types : tuple of two number types
        Those of the gradients of coefficients and inputs: that of the states, or with `own_types` those of `a` and `u`.
    """

    def __init__(
        self, a: Any, u: Any, x0: Any, axis: Any, offsets: Any, reverse: bool, own_types: bool = False
    ) -> None:
        libraries = {library_of(a), library_of(u)}
        self.on_gpu, self.reverse = "gpu" in libraries, reverse
        if self.on_gpu:
            self.leader = a if library_of(a) == "gpu" else u
            a, u = self._there(a), self._there(u)
            self.dtype = namespace(a).result_type(a, u)
        else:
            a, u, x0, axis = without_labels(a, u, x0, axis)
            a, u, self.dtype = as_operands(a, u)
        self.types = (a.dtype, u.dtype) if own_types and self.on_gpu else (self.dtype, self.dtype)
        self.sizes = math.prod(a.shape), math.prod(u.shape)
        self.x0 = x0
        self.tensors = "torch" in libraries
        shape = broadcast_shape(a, u)
        self.time = TimeFirst(shape, check_axis(axis, len(shape)))
        self.offsets = None if offsets is None else check_offsets(offsets, self.time.steps)

    def _there(self, value: Any) -> Any:
        """Return an array on the GPU, halves as they are, small integers as float32. Numbers become arrays."""
        if library_of(value) != "gpu":
            value = in_type(widened(self.leader.ravel()[:0]).sum() + value, self.leader.dtype)
        return value if value.dtype.itemsize > 2 or is_half(value) else in_type(value, FLOAT32)

    def steps(self, value: Any, name: str) -> Any:
        """Return an array that has a number for each step, with time first."""
        array = self._read(value, name)
        whole = self.time.shape
        missing = len(whole) - array.ndim
        if missing < 0 or any(one not in (1, full) for one, full in zip(array.shape, whole[missing:], strict=True)):
            raise ShapeError(f"must broadcast to the shape of the states, {whole}", name, given=tuple(array.shape))
        return self.time.front(array)

    def known(self, x: Any) -> Any:
        """Return the states, time first, or None if their type is narrower than that of the computation."""
        if x is None or not (self.on_gpu or self.dtype == accumulator(self.dtype)):
            return None
        states = self.steps(x, "x")
        return None if is_half(states) else states

    def initial(self, value: Any, name: str) -> Any:
        """Return initial states, the segments first, or None."""
        if value is None:
            return None
        if self.reverse:
            check_no_state(value)
        array = self._read(value, name)
        segments = None if self.offsets is None else len(self.offsets) - 1
        check_step(array.shape, self.time.beside(segments))
        return self.time.front_state(widened(array), segments)

    def _read(self, value: Any, name: str) -> Any:
        if self.on_gpu:
            return self._there(value)
        array, wide = as_numpy(value, name), accumulator(self.dtype)
        if wide.kind != "O" and (array.dtype.kind == "O" or not np.can_cast(array.dtype, wide, "same_kind")):
            raise DTypeError(f"must fit into {wide}, got {array.dtype}", name, advice="convert it, or make u wider")
        return converted(array, wide, name)

    @property
    def cuts(self) -> list[int]:
        """Where segments start, and where the last one ends. A sequence without offsets is one segment."""
        return [0, self.time.steps] if self.offsets is None else self.offsets.tolist()

    def states(
        self, state: Any, g_state: Any, x0: Any, initial: Any, window: Window, reverse: bool
    ) -> tuple[State, Array | None]:
        """Return the State that a solve continued, and the cotangents of the parts of the State that it returned.

        Both have an axis of segments before the others of a step.
        """
        if self.on_gpu:
            name = "g_state" if state is None else "state"
            advice = "copy them there, or pass x0 with window=Full()"
            raise OptionError("is for arrays on the host as yet, and these are on a GPU", name, advice=advice)
        others = {"x0": x0 is not None, "out": False, "algorithm": False, "device": False}
        check_options(state, g_state is not None, True, window, reverse, others)
        if state is None:
            step = (len(self.cuts) - 1, *self.time.beside(None))
            state = state_of(before_first(window, step, self.dtype, initial), window, self.dtype)
        else:
            check_fits(state, self.dtype, self.time.beside(None if self.offsets is None else len(self.cuts) - 1))
            state = turned(state, self._segments_first)
        if g_state is None:
            return state, None
        array, lead = self._read(g_state, "g_state"), 1 + holds_steps(window)
        whole = self.segments_back(np.empty(shape_after(state, self.cuts), bool), lead).shape
        if array.shape != whole:
            raise ShapeError(f"must have the shape of the parts of the State returned, {whole}", "g_state", given=array)
        return state, self._segments_first(array, lead)

    def _segments_first(self, array: Array, at: int) -> Array:
        """Return an array of a State with its axis of segments moved to the front of the axes of a step."""
        return np.expand_dims(array, at) if self.offsets is None else np.moveaxis(array, at + self.time.axis, at)

    def segments_back(self, array: Array, at: int) -> Array:
        """Return an array of a State with the axis of segments in the place of time, or without it."""
        return array.squeeze(at) if self.offsets is None else np.moveaxis(array, at, at + self.time.axis)

    def expanded(self, array: Any) -> Any:
        """Return an array in the shape of all states, time first."""
        return broadcast_to(array, (self.time.steps, *self.time.beside(None)))

    def solve(self, a: Any, u: Any, window: Window, reverse: bool) -> Any:
        """Solve in the segments, time first."""
        return solve_first(a, u, window, reverse, self.offsets)

    def wide_states(self, a: Any, u: Any, window: Window = Full()) -> Any:
        """Return states in the type that they are computed in, on a GPU, time first."""
        if not (is_half(a) and is_half(u)):
            return self.solve(a, u, window, False)
        xp, u = namespace(u), self.expanded(u)
        wide = xp.empty_like(u, dtype=widened(u[:0]).dtype)
        return solve(a, u, axis=0, offsets=self.offsets, window=window, out=wide)

    def places(self, out: Any, a: Any, u: Any, others: dict[str, Any]) -> list[Place | None]:
        """Return where the gradients of coefficients and inputs go, if the caller gave memory for them."""
        if self.on_gpu and out is not None:
            raise OptionError("is for arrays on the host as yet, and these are on a GPU", "out", advice="leave it out")
        # The arrays as they were given. Converted ones lie elsewhere.
        held = {} if out is None else {name: as_numpy(own, name) for name, own in others.items() if own is not None}
        return places_of(out, {"da": a, "du": u}, self.dtype, self.tensors, held)

    def room(self, place: Place | None) -> Array | None:
        """Return the memory of a place, time first, if it has room for each step."""
        if place is None:
            return None
        rows: Array = self.time.turned(place.array)
        return rows if len(rows) == self.time.steps else None

    def back(self, array: Any, like: Any, kind: Any, place: Place | None = None) -> Any:
        """Return a gradient with time where it was, summed to the shape of its argument, and in a number type."""
        shape = self.time.shape if like is None else np.shape(like)
        own = self.time.back(array, shape)
        return self._returned(own, kind) if place is None else place.filled(np.asarray(own))

    def back_initial(self, array: Any, like: Any) -> Any:
        """Return the gradient of initial states in their shape."""
        return self._returned(self.time.back_state(array, np.shape(like), self.offsets is not None), self.dtype)

    def _returned(self, array: Any, kind: Any) -> Any:
        if self.on_gpu:
            return in_type(array, kind)
        array = np.asarray(array, kind)
        return to_torch(np.ascontiguousarray(array)) if self.tensors else array


def solve_first(a: Any, u: Any, window: Window, reverse: bool, offsets: Any = None) -> Any:
    """Solve along the first axis."""
    return solve(a, u, axis=0, offsets=offsets, window=window, reverse=reverse)
