"""`solve` for lazy arrays, chunk by chunk."""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask.base import tokenize

from recfact.checks import choice
from recfact.dask.copies import copied
from recfact.dask.fusion import fused
from recfact.dask.operands import Operands
from recfact.dask.plans import Graph, steps_beside, workers
from recfact.dask.work import Work
from recfact.errors import OptionError
from recfact.windows import Full, WindowLike, check_window, window_text

METHODS = ("auto", "chain", "carriers")


def solve(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int | str = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
    method: str = "auto",
) -> Any:
    """Solve the recurrence x_i = a_i x_{i-1} + u_i along an axis of dask arrays, later and chunk by chunk.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs as for `recfact.solve`. At least one of them is a dask array, or an xarray over one.
        Along an axis that both have, they are cut into the same chunks.
    x0 : array_like, optional
        Initial state, as for `recfact.solve`. It may be lazy.
    axis, reverse, window, offsets
        As for `recfact.solve`.
    method : {"auto", "chain", "carriers"}, default "auto"
        "chain" passes the state from chunk to chunk. It loads every chunk once. Several sequences run side by side.

        "carriers" works on all chunks at the same time, and loads them twice. The first time is for the map of a chunk,
        or in a window for the steps around other chunks that these depend on.

        "auto" takes the chain if the other axes have a chunk for every worker, or if a window is longer than chunks.
        Otherwise it takes "carriers".

    Returns
    -------
    dask.array.Array or xarray.DataArray
        The states, in the number type of `recfact.solve` and in the chunks of `a` and `u`. The chunks are arrays of the
        same library as those of `a` and `u`.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) As `recfact.solve`. Also if chunks have unknown sizes, or if they differ.
    DTypeError, ArrayTypeError
        (TypeErrors) As `recfact.solve`. Also if neither array is lazy.

    Notes
    -----
    A chunk maps the state x that enters it to c x + v. Here c is the product of its coefficients, and v the state that
    it reaches from zero. This is the hierarchical decomposition of the sliding window recurrences paper, with chunks as
    blocks.

    The error bound is that of `recfact.solve` with one more rounding for each chunk: gamma_N with N = i - j + 7 plus
    the number of chunks between. If a product of coefficients overflows, "carriers" may overflow as well. "chain" only
    overflows if the states do. States pass from chunk to chunk in the type that is computed in: float32 for halves.

    A worker needs the memory of three chunks for each task that it runs. In a window, chunks on GPUs have no chain.

    Examples
    --------
    >>> import dask.array as da, recfact as rf
    >>> a, u = da.full(8, 0.5, chunks=3), da.ones(8, chunks=3)
    >>> x = rf.dask.solve(a, u)
    >>> x.chunks
    ((3, 3, 2),)
    >>> bool((x.compute() == rf.solve(a.compute(), u.compute())).all())
    True
    """
    window = check_window(window)
    choice(method, "method", METHODS)
    given = Operands(a, u, x0, axis, reverse, offsets)
    work = Work(given.axis, given.reverse, window, given.dtype)
    method = chosen(given, work, method)
    names = [None if array is None else array.name for array in (given.a, given.u, given.x0)]
    token = tokenize(*names, given.axis, given.reverse, window_text(window), given.pieces, method)
    graph = Graph(given, work, token)
    arrays = [given.a, given.u, *([] if given.x0 is None else [given.x0])]
    if method == "chain":
        graph.chain()
    else:
        again = copied([given.a, given.u], token)
        (graph.carriers if window == Full() else graph.read)(*again)
        arrays += again
    graph.fill_in(["states"])
    name = f"recurrence-states-{token}"
    layers = fused([name], graph.tasks, arrays)
    return given.wrap(da.Array(layers, name, given.chunks, meta=given.meta))


def chosen(given: Operands, work: Work, method: str) -> str:
    """Return the method that "auto" stands for."""
    stateless = work.window != Full() and (given.on_gpu or work.reverse)
    if method == "chain" and stateless:
        raise OptionError(
            'must be "carriers" or "auto" for windows that run backwards or on a GPU', "method", given=method
        )
    if method != "auto":
        return method
    if stateless:
        return "carriers"
    beside = 0 if work.window == Full() else sum(steps_beside(piece, work) for piece in given.pieces)
    apart = sum(1 for _ in given.columns())
    return "chain" if apart >= workers() or beside > given.shape[given.axis] else "carriers"
