"""Arguments of a caller: lazy arrays, how they are cut into chunks, and the number type that tasks compute in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import isnan
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from recfact.arrays import (
    SCALARS,
    Array,
    as_numpy,
    broadcast_shape,
    check_axis,
    check_no_state,
    check_state,
    library_of,
    result_dtype,
)
from recfact.checks import boolean
from recfact.containers import container_of_any, unwrapped
from recfact.cuts import pieces
from recfact.errors import ArrayTypeError, ShapeError
from recfact.number_types import accumulator
from recfact.offsets import check_offsets

Key = tuple[Any, ...]


class Operands:
    """Coefficients and inputs as lazy arrays, and the properties of the result.

    Attributes
    ----------
    a, u : dask.array.Array
        Coefficients and inputs. They broadcast against each other, chunk by chunk.
    x0 : dask.array.Array or None
        Initial states, in the shape of the result with a row for each segment in the place of time.
    axis : int
        The axis of time, counted from the front.
    dtype, meta
        The number type of the states, and an empty array of the library that holds them.
    pieces : list of Piece
        The chunks along time, without empty ones.
    wrap : callable
        Returns a lazy result as an array with the labels that the arguments had.
    """

    def __init__(self, a: Any, u: Any, x0: Any, axis: Any, reverse: Any, offsets: Any) -> None:
        self.reverse = boolean(reverse, "reverse")
        self.wrap: Callable[[Any], Any] = lambda result: result
        if "xarray" in (container_of_any(a), container_of_any(u)):
            a, u, x0, axis, self.wrap = unwrapped(frozenset({"xarray"}), a, u, x0, axis, None)
        if not any(isinstance(array, da.Array) for array in (a, u)):
            raise ArrayTypeError(
                f"a or u must be an array of dask, got {type(a).__name__} and {type(u).__name__}; pass these to "
                "recfact.solve, or make one with dask.array.from_array"
            )
        a, u = (
            array if isinstance(array, (da.Array, *SCALARS)) else _read(array, name)
            for name, array in (("a", a), ("u", u))
        )
        for name, array in (("a", a), ("u", u)):
            if isinstance(array, da.Array):
                check_lazy(array, name)
        self.dtype = result_dtype(*(x if isinstance(x, SCALARS) else np.empty(0, x.dtype) for x in (a, u)))
        a, u = (np.asarray(x, self.dtype) if isinstance(x, SCALARS) else x for x in (a, u))
        self.shape = broadcast_shape(a, u)
        self.axis = check_axis(axis, len(self.shape))
        lead = max((x for x in (a, u) if isinstance(x, da.Array)), key=lambda x: (x.size, x is u))
        self.a, self.u = (
            joined(x, self.shape) if isinstance(x, da.Array) else _cut_like(x, lead, self.shape) for x in (a, u)
        )
        self.chunks = common_chunks(self.a, self.u, self.shape)
        metas = [x._meta for x in (self.u, self.a)]
        self.on_gpu = "gpu" in map(library_of, metas)
        lead_meta = next((meta for meta in metas if library_of(meta) == "gpu"), metas[0])
        self.meta = meta_from_array(lead_meta, ndim=len(self.shape), dtype=self.dtype)
        steps = self.shape[self.axis]
        cuts = np.array([0, steps]) if offsets is None else check_offsets(offsets, steps)
        filled = np.flatnonzero(np.diff(cuts))
        self.pieces = list(pieces(self.chunks[self.axis], [*cuts[filled].tolist(), steps]))
        self.x0 = None if x0 is None else self._initial(x0, None if offsets is None else len(cuts) - 1, filled)

    def _initial(self, x0: Any, segments: int | None, filled: Array) -> Any:
        """Return initial states as a lazy array with a row for each segment that has steps."""
        if self.reverse:
            check_no_state(x0)
        before, behind = self.shape[: self.axis], self.shape[self.axis + 1 :]
        step = (*before, *([] if segments is None else [segments]), *behind)
        if isinstance(x0, da.Array):
            check_lazy(x0, "x0")
        else:
            x0 = _read(x0, "x0")
        whole = "one step of the result" if segments is None else "the result with one step for each segment"
        check_state(x0.dtype, x0.shape, accumulator(self.dtype), step, whole)
        x0 = broadcast(x0 if isinstance(x0, da.Array) else da.from_array(x0, chunks=-1), step)
        x0 = x0[(*(slice(None),) * self.axis, None)] if segments is None else x0  # expand_dims mistakes empty chunks
        x0 = x0.rechunk({d: -1 if d == self.axis else self.chunks[d] for d in range(x0.ndim)})
        return x0 if segments is None else da.take(x0, filled, self.axis)

    def columns(self) -> Iterator[tuple[int, ...]]:
        """Yield the places of chunks along all axes but time."""
        counts = [len(sizes) for sizes in self.chunks]
        return product(*(range(count) for d, count in enumerate(counts) if d != self.axis))

    def place(self, column: tuple[int, ...], number: int) -> tuple[int, ...]:
        """Return the place of a chunk along all axes."""
        return (*column[: self.axis], number, *column[self.axis :])

    def empty_chunks(self) -> list[int]:
        """Return the numbers of the chunks along time that have no steps."""
        return [number for number, steps in enumerate(self.chunks[self.axis]) if not steps]


def key_of(array: Any, place: tuple[int, ...]) -> Key:
    """Return the key of the chunk of an array that belongs to a chunk of the result."""
    own = place[len(place) - array.ndim :]
    return (array.name, *(at if count > 1 else 0 for at, count in zip(own, array.numblocks, strict=True)))


def check_lazy(array: Any, name: str) -> None:
    """Raise ShapeError if dask doesn't know how long the chunks of an array are."""
    if any(isnan(size) for sizes in array.chunks for size in sizes):
        raise ShapeError(
            f"{name} must have chunks of known sizes, got {array.chunks}; call its compute_chunk_sizes() first, or "
            "say the shape where it is made"
        )
    library_of(array._meta)  # raises an error for arrays that recfact doesn't take, such as masked ones


def joined(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a lazy array whose axes that broadcast to `shape` are one chunk. dask may have empty chunks beside it."""
    behind = shape[len(shape) - array.ndim :]
    cut = [d for d, count in enumerate(array.numblocks) if count > 1 and array.shape[d] == 1 != behind[d]]
    return array.rechunk(dict.fromkeys(cut, 1)) if cut else array


def broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a lazy array broadcast to a shape."""
    return da.broadcast_to(joined(array, shape), shape)


def common_chunks(a: Any, u: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the chunks of the result. Coefficients and inputs must have the same chunks.

    Raises
    ------
    ShapeError
        If they haven't.
    """
    chunks = []
    for d, size in enumerate(shape):
        own = {}
        for name, array in (("a", a), ("u", u)):
            at = d - len(shape) + array.ndim
            if at >= 0 and array.shape[at] == size:
                own[name] = array.chunks[at], at
        found = {sizes for sizes, _ in own.values()}
        if len(found) > 1:
            raise ShapeError(
                f"a and u must be cut into the same chunks, got {own['a'][0]} and {own['u'][0]} along axis {d}; pass "
                f"a.rechunk({{{own['a'][1]}: u.chunks[{own['u'][1]}]}})"
            )
        chunks.append(found.pop())
    return tuple(chunks)


def _read(value: Any, name: str) -> Any:
    """Return an array in memory, on a GPU or not."""
    return value if library_of(value) == "gpu" else as_numpy(value, name)


def _cut_like(array: Any, lead: Any, shape: tuple[int, ...]) -> Any:
    """Return an array in memory as a lazy one, cut like another array along axes of the same length."""
    theirs = dict(enumerate(lead.chunks, len(shape) - lead.ndim))
    own = [theirs.get(d, (0,)) for d in range(len(shape) - array.ndim, len(shape))]
    chunks = tuple(sizes if sum(sizes) == size else (size,) for sizes, size in zip(own, array.shape, strict=True))
    return da.from_array(array, chunks=chunks, asarray=False)
