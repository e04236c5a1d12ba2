"""`ewm` for lazy arrays, chunk by chunk."""

from __future__ import annotations

from typing import Any

import dask.array as da
from dask.base import tokenize

from recfact.arrays import library_of
from recfact.averages import check_average
from recfact.checks import choice
from recfact.containers import container_of_any
from recfact.dask.averaging import Averaging
from recfact.dask.copies import copied
from recfact.dask.fusion import fused
from recfact.dask.operands import Operands
from recfact.dask.plans import Graph, workers
from recfact.dask.solver import METHODS
from recfact.errors import ArrayTypeError, DTypeError, OptionError
from recfact.number_types import REALS
from recfact.windows import Full, WindowLike


def ewm(
    u: Any,
    *,
    halflife: Any = None,
    tau: Any = None,
    span: float | None = None,
    com: float | None = None,
    alpha: float | None = None,
    times: Any = None,
    adjust: bool = True,
    ignore_na: bool = False,
    min_periods: int = 0,
    bias: bool = False,
    offsets: Any = None,
    axis: int | str = -1,
    window: WindowLike = Full(),
    stat: str = "mean",
    method: str = "auto",
) -> Any:
    """Return exponentially weighted statistics along an axis of a dask array, later and chunk by chunk.

    Parameters
    ----------
    u : dask.array.Array or xarray.DataArray
        Real values. NaN and infinity count as missing.
    halflife, tau, span, com, alpha, times, adjust, ignore_na, min_periods, bias, offsets, axis, window, stat
        As for `recfact.ewm`. Times are in memory.
    method : {"auto", "chain", "carriers"}, default "auto"
        As for `recfact.dask.solve`. "carriers" is for ``adjust=True``. With a window each chunk reads the steps before
        it that the window sees, which is "carriers" too.

    Returns
    -------
    dask.array.Array or xarray.DataArray
        The statistics, in the number type of `recfact.ewm` and in the chunks of `u`.

    Raises
    ------
    OptionError, ShapeError
        (ValueErrors) As `recfact.ewm`. Also if chunks have unknown sizes, or if a method doesn't go with other options.
    DTypeError, ArrayTypeError, OptionTypeError
        (TypeErrors) As `recfact.ewm`. Also if `u` isn't lazy.

    Notes
    -----
    From chunk to chunk pass the sum of all weights, the mean, the variance and its correction. "chain" gives the same
    bits as `recfact.ewm`, wherever chunks are cut. "carriers" first finds these numbers for each chunk alone, and then
    merges them (Chan, Golub and LeVeque, 1979, for weights that decay), which rounds a few times a chunk more.

    Examples
    --------
    >>> import dask.array as da, recfact as rf
    >>> rf.dask.ewm(da.from_array([1.0, 2.0, 4.0], chunks=2), alpha=0.5).compute()
    array([1.        , 1.66666667, 3.        ])
    """
    choice(method, "method", METHODS)
    held = u.data if container_of_any(u) == "xarray" else u
    if not isinstance(held, da.Array):
        raise ArrayTypeError(
            f"u must be an array of dask, got {type(u).__name__}; pass it to recfact.ewm, or make one with "
            "dask.array.from_array"
        )
    given = Operands(1.0, u, None, axis, False, offsets)
    if library_of(held._meta) == "gpu":
        raise ArrayTypeError("u must have chunks on the host, got chunks on a GPU; copy them with cupy.asnumpy")
    if given.dtype not in {kind.dtype for kind in REALS.values()}:
        raise DTypeError(f"u must hold real numbers, got {held.dtype}; convert them to float64")
    decay = {"halflife": halflife, "tau": tau, "span": span, "com": com, "alpha": alpha}
    options = {"adjust": adjust, "ignore_na": ignore_na, "min_periods": min_periods, "bias": bias}
    wanted = check_average(given.shape[given.axis], decay, times, offsets, window, stat, **options)
    work = Averaging(given.axis, wanted, given.dtype)
    for piece in given.pieces:
        wanted.weighting.ages(piece.start, piece.end)  # raises an error if times fall
    method = _chosen(given, work, method)
    token = tokenize(given.u.name, given.axis, wanted, given.pieces, method)
    graph, arrays = Graph(given, work, token), [given.a, given.u]
    if method == "chain":
        graph.chain()
    else:
        again = copied([given.a, given.u], token)
        (graph.carriers if wanted.window == Full() else graph.read)(*again)
        arrays += again
    graph.fill_in(["states"])
    name = graph.name("states")
    return given.wrap(da.Array(fused([name], graph.tasks, arrays), name, given.chunks, meta=given.meta))


def _chosen(given: Operands, work: Averaging, method: str) -> str:
    """Return the method that "auto" stands for."""
    if work.window != Full():
        if method == "chain":
            raise OptionError('must be "carriers" or "auto" in a window', "method", given=method)
        return "carriers"
    if not work.wanted.weighting.adjust:
        if method == "carriers":
            raise OptionError('must be "chain" or "auto" with adjust=False', "method", given=method)
        return "chain"
    if method != "auto":
        return method
    return "chain" if sum(1 for _ in given.columns()) >= workers() else "carriers"
