"""`vjp` for lazy arrays: the graph of the gradients of all chunks, and of what these depend on beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize

from recfact.cuts import Piece, composed, mapped
from recfact.dask.chunk_gradients import ends, gradient, gradient_in_window
from recfact.dask.copies import copied
from recfact.dask.fusion import fused
from recfact.dask.operands import Operands, broadcast, check_lazy, key_of
from recfact.dask.plans import Graph
from recfact.dask.work import Work
from recfact.errors import OptionError
from recfact.number_types import accumulator
from recfact.windows import Full, WindowLike, check_window, window_text


def vjp(
    a: Any,
    u: Any,
    g: Any,
    *,
    x0: Any = None,
    axis: int | str = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of the arguments of `recfact.dask.solve`, from those of its result, as lazy arrays.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, as for `recfact.dask.solve`.
    g : array_like
        Cotangents of the states. They broadcast to the shape of the states, and are cut into the same chunks.
    x0, axis, reverse, window, offsets
        As for `recfact.dask.solve`.

    Returns
    -------
    da, du : dask.array.Array
        Gradients of coefficients and inputs, in their shapes, as for `recfact.gradients.vjp`.
    d0 : dask.array.Array or None
        The gradient of `x0`, in its shape. None without `x0`.

    Raises
    ------
    ShapeError, OptionError, DTypeError, ArrayTypeError
        As `recfact.dask.solve`. Also for chunks on a GPU.

    Notes
    -----
    For the whole recurrence, the maps of all chunks in both directions come first, and then `recfact.gradients.vjp` of
    each chunk. For a window it is `vjp` of each chunk together with the steps around it that the window connects to it.
    All chunks are loaded twice. The reversed recurrence is the transpose, so that inputs and cotangents change places.

    Examples
    --------
    >>> import dask.array as da, recfact as rf
    >>> a, u, g = da.full(3, 0.5, chunks=2), da.arange(1.0, 4.0, chunks=2), da.from_array([0.0, 0.0, 1.0], chunks=2)
    >>> [array.compute().tolist() for array in rf.dask.vjp(a, u, g, x0=8.0)]
    [[2.0, 2.5, 4.5], [0.25, 0.5, 1.0], 0.125]
    """
    window = check_window(window)
    shapes = [np.shape(value) for value in (a, u, () if x0 is None else x0)]
    given = Operands(a, u, x0, axis, reverse, offsets)
    if given.on_gpu:
        raise OptionError("vjp takes only chunks on the host, got chunks on a GPU; copy them to the host")
    g = g if isinstance(g, da.Array) else da.asarray(g)
    check_lazy(g, "g")
    g = broadcast(g, given.shape).rechunk(given.chunks)
    token = tokenize(
        *(None if array is None else array.name for array in (given.a, given.u, given.x0, g)),
        given.axis,
        given.reverse,
        window_text(window),
        given.pieces,
    )
    work = Work(given.axis, False, window, given.dtype)
    graph = Graph(given, Side(given.axis, False, window, given.dtype), token)
    back = Graph(given, Side(given.axis, True, window, given.dtype), tokenize(token, "back"))
    arrays, again = [given.a, given.u, g], copied([given.a, given.u, g], token)
    if window == Full():
        _through_states(graph, back, work, g, again)
    else:
        _through_windows(graph, back, work, g, again)
    graph.fill_in(KINDS)
    names = [f"recurrence-{kind}-{token}" for kind in KINDS]
    layers = fused(names, {**graph.tasks, **back.tasks}, [*arrays, *again, *_there(given.x0)])
    wide = meta_from_array(given.meta, dtype=accumulator(given.dtype))
    found = [da.Array(layers, name, given.chunks, meta=wide) for name in names]
    if given.x0 is not None:
        found.append(_initial(given, found[1], offsets))
    # Halves are added up first and then rounded once.
    of_a, of_u, *of_x0 = (_summed(own, shape).astype(given.dtype) for own, shape in zip(found, shapes, strict=False))
    return given.wrap(of_a), given.wrap(of_u), of_x0[0] if of_x0 else None


KINDS = ["da", "du"]


def _through_states(graph: Graph, back: Graph, work: Work, g: Any, again: list[Any]) -> None:
    """Add the tasks of the whole recurrence: what enters chunks from both sides, and the gradients of each chunk."""
    given = graph.given
    for column in given.columns() if given.pieces else []:
        maps = []
        for piece in given.pieces if len(given.pieces) > 1 else []:
            place = given.place(column, piece.number)
            chunks = (key_of(array, place) for array in again)
            task = partial(both_maps, work, given.reverse, piece)
            maps.append(graph.add("maps", place, task, *chunks, graph.x0(column, piece)))
        before = list(graph.scan(maps[:-1], column, None, ()))
        behind = list(back.scan(maps[:0:-1], column, None, ()))[::-1]
        for piece, state, cotangent in zip(given.pieces, before, behind, strict=True):
            own = partial(gradient, work, given.reverse, piece)
            _add(graph, column, piece, own, g, graph.x0(column, piece), state, cotangent)


class Side(Work):
    """The tasks of one direction, whose map is one of the two that `both_maps` returns."""

    __slots__ = ()

    @property
    def merging(self) -> tuple[Callable[..., Any], Callable[..., Any]]:  # type: ignore[override]
        """The functions that merge maps."""
        side = int(self.reverse)
        return partial(_mapped, side), partial(_composed, side)


def _mapped(side: int, maps: tuple[Any, Any], entering: Any) -> Any:
    return mapped(maps[side], entering)


def _composed(side: int, maps: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    found = composed([both[side] for both in maps])
    return found, found


def both_maps(
    work: Work, reverse: bool, piece: Piece, a: Any, u: Any, g: Any, x0: Any
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the map of a chunk for states, and that of its transpose for cotangents. So they are loaded once."""
    if reverse:
        u, g = g, u
    return work.map(piece, a, u, x0), replace(work, reverse=True).map(piece, a, g, None)


def _through_windows(graph: Graph, back: Graph, work: Work, g: Any, again: list[Any]) -> None:
    """Add the tasks of a window: the steps at both ends of each chunk that others depend on, and the gradients."""
    given = graph.given
    lengths = [piece.end - piece.start for piece in given.pieces]
    heads = [0, *(piece.steps_behind(work.window) for piece in given.pieces[:-1])]
    tails = [*(piece.steps_before(work.window) for piece in given.pieces[1:]), 0]
    for column in given.columns():
        for piece, head, tail, length in zip(given.pieces, heads, tails, lengths, strict=True):
            place = given.place(column, piece.number)
            task = partial(ends, work, min(head, length), min(tail, length))
            graph.add("ends", place, task, *(key_of(array, place) for array in again))
        for at, piece in enumerate(given.pieces):
            near = graph.near(at), back.near(len(lengths) - 1 - at)
            borders = ([(graph.name("ends"), *given.place(column, other.number)) for other in side] for side in near)
            own = partial(gradient_in_window, work, given.reverse, piece)
            _add(graph, column, piece, own, g, graph.x0(column, piece, work.window), *borders)


def _add(graph: Graph, column: tuple[int, ...], piece: Piece, task: Any, g: Any, *others: Any) -> None:
    place = graph.given.place(column, piece.number)
    chunk = graph.chunk(column, piece, graph.given.a, graph.given.u)
    both = graph.add("vjp", place, task, *chunk, key_of(g, place), *others)
    for number, kind in enumerate(KINDS):
        graph.add(kind, place, itemgetter(number), both)


def _initial(given: Operands, of_u: Any, offsets: Any) -> Any:
    """Return the gradients of the initial states: those of the first inputs times the first coefficients."""
    # dask takes from an array in pieces of the mean length of its chunks. This mean mustn't be below 1.
    sizes = {given.axis: tuple(size for size in of_u.chunks[given.axis] if size) or (0,)}
    of_u = of_u.rechunk(sizes)
    a = da.broadcast_to(given.a, of_u.shape).rechunk(of_u.chunks)
    starts = [piece.start + cut for piece in given.pieces for cut in piece.cuts[:-1] if cut or not piece.before]
    rows = da.take(a, starts, given.axis) * da.take(of_u, starts, given.axis)
    if offsets is None:
        return da.take(rows, 0, given.axis) if starts else da.zeros_like(da.take(of_u, [], given.axis).sum(given.axis))
    lengths = np.diff(np.asarray(offsets))
    nothing = da.zeros_like(da.take(of_u, [], given.axis).sum(given.axis, keepdims=True))
    places = np.where(lengths > 0, np.cumsum(lengths > 0) - 1, len(starts))
    return da.take(da.concatenate([rows, nothing], given.axis), places, given.axis)


def _there(x0: Any) -> list[Any]:
    return [] if x0 is None else [x0]


def _summed(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a lazy array summed to a shape that broadcasts to that of the array."""
    missing = array.ndim - len(shape)
    axes = tuple(d for d in range(missing, array.ndim) if shape[d - missing] == 1 != array.shape[d])
    array = array.sum(axis=axes, keepdims=True) if axes else array
    return array.sum(axis=tuple(range(missing))) if missing else array
