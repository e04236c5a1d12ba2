"""Pieces of a recurrence as affine maps: if x is the state before a piece, c x + v is the state after it.

c is the product of the coefficients of the piece, the last one first. v is the state that the piece reaches from zero.
Maps compose in the order of time, and composition is associative. Parallel algorithms, blocks and pieces rely on
nothing else. Scalars may be anything with + and *, and need not commute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from recfact.arrays import Array, as_operands, broadcast_shape, check_axis, initial_state, library_of, to_torch
from recfact.checks import positive_integer
from recfact.containers import without_labels
from recfact.errors import ShapeError
from recfact.number_types import accumulator
from recfact.recurrence import folded, forward

__all__ = ["carriers", "compose", "summarise"]


def __dir__() -> list[str]:
    return __all__


def summarise(a: Any, u: Any, *, axis: int | str = -1, block: int | None = None) -> tuple[Any, Any]:
    """Return the affine map x -> c x + v of a recurrence, or of each of its blocks, along an axis.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, as for `recfact.solve`. The first coefficient of a piece is part of its map.
    axis : int or str, default -1
        The axis of time. Labels are checked, and axes are named, as for `recfact.solve`.
    block : int, optional
        Number of steps in a block. The last block may be shorter. Without it all steps are one piece.

    Returns
    -------
    c, v : array
        The products of the coefficients, the last one first, and the states reached from zero. Their shape is that of
        the result of `recfact.solve` without `axis`, or with the blocks along `axis`. Without steps the map is the
        identity, c = 1 and v = 0. The results are tensors if `a` or `u` is one. float16 and bfloat16 give float32, in
        which the maps can be passed on.

    Raises
    ------
    ShapeError, DTypeError, ArrayTypeError
        As `recfact.solve`.
    OptionTypeError, OptionError
        If `block` isn't a positive integer.

    Notes
    -----
    Neighbouring maps are composed until one map is left of each piece. This takes ceil(log2 n) passes and 2 n
    operations in all, as in the up-sweep of Brent and Kung (1982). The input of a step d before the end passes through
    d + ceil(log2 n) roundings at most. If a product overflows and meets a zero state, the result is inf * 0 = NaN. The
    loop has 0 there.

    Examples
    --------
    >>> c, v = summarise([0.5, 0.5, 0.5], [1.0, 1.0, 1.0])
    >>> float(c), float(v)
    (0.125, 1.75)
    >>> summarise([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], block=2)
    (array([0.25, 0.5 ]), array([1.5, 1. ]))
    """
    tensors, a, u, _, time = _time_first(a, u, None, axis)
    if block is None and len(u) == 0:
        a, u = (np.full((1, *u.shape[1:]), identity, u.dtype) for identity in (1, 0))
    blocks = Blocks.of(len(u), len(u) if block is None else positive_integer(block, "block"))
    c, v = np.swapaxes(blocks.split(a, 1), 0, 1), np.swapaxes(blocks.split(u, 0), 0, 1)
    with np.errstate(all="ignore"):
        while len(c) > 1:
            joined, last = compose((c[1::2], v[1::2]), (c[:-1:2], v[:-1:2])), len(c) // 2 * 2
            c, v = np.concatenate([joined[0], c[last:]]), np.concatenate([joined[1], v[last:]])
    if block is None:
        return _returned(c[0, 0, ...], tensors), _returned(v[0, 0, ...], tensors)
    return _returned(np.moveaxis(c[0], 0, time), tensors), _returned(np.moveaxis(v[0], 0, time), tensors)


def compose(later: tuple[Any, Any], earlier: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the map of two pieces that follow each other: x -> c2 (c1 x + v1) + v2.

    Parameters
    ----------
    later, earlier : tuple of (c, v)
        The maps (c2, v2) and (c1, v1). They consist of arrays of any library, or of scalars. Arrays broadcast.

    Returns
    -------
    c, v : array or scalar
        c2 c1 and c2 v1 + v2.

    Raises
    ------
    ShapeError
        If `later` or `earlier` isn't a pair.

    Notes
    -----
    Composition is associative, and composing with (1, 0) changes nothing. So the maps are a semigroup in the sense of
    Blelloch (1990), and every parallel algorithm here is a scan over them.

    Examples
    --------
    >>> compose((3, 1), (5, 2))
    (15, 7)
    >>> a, u = np.full(5, 0.5), np.ones(5)
    >>> whole = compose(summarise(a[2:], u[2:]), summarise(a[:2], u[:2]))
    >>> whole == summarise(a, u)
    True
    """
    try:
        (c2, v2), (c1, v1) = later, earlier
    except (TypeError, ValueError):
        raise ShapeError(
            "compose takes two pairs (c, v), the later piece first, got something that isn't a pair; pass what "
            "summarise returns"
        ) from None
    return c2 * c1, c2 * v1 + v2


def carriers(c: Any, v: Any, *, x0: Any = None, terms: int | None = None, axis: int | str = -1) -> Any:
    """Return the states at the ends of pieces, from their maps: s[t] = c[t] s[t-1] + v[t].

    Parameters
    ----------
    c, v : array_like
        The maps of the pieces, in the order of time, as `summarise` returns them. They broadcast.
    x0 : array_like, optional
        State before the first piece, zero by default. It broadcasts against the result without `axis`. It counts as
        part of the first piece: v[0] + c[0] x0.
    terms : int, optional
        Number of pieces that a carrier remembers: its own and the ``terms - 1`` before it. This is what a jagged window
        of so many terms keeps. By default all are remembered.
    axis : int or str, default -1
        The axis of the pieces.

    Returns
    -------
    array
        The carriers, in the shape of the result of `recfact.solve`. They are a tensor if `c` or `v` is one. float16 and
        bfloat16 give float32.

    Raises
    ------
    ShapeError, DTypeError, ArrayTypeError
        As `recfact.solve`.
    OptionTypeError, OptionError
        If `terms` isn't an integer of at least 0.

    Notes
    -----
    With all terms this is a loop over the pieces, equation 2 of the page on blocks and carriers. With fewer, it is the
    sum of the first terms of T = I + CZ + (CZ)^2 + ..., by Horner's rule over all pieces at once (section 4.2 of the
    sliding window recurrences paper).

    Examples
    --------
    >>> c, v = summarise(np.full(6, 0.5), np.ones(6), block=2)
    >>> carriers(c, v)
    array([1.5    , 1.875  , 1.96875])
    >>> carriers(c, v, terms=1)
    array([1.5, 1.5, 1.5])
    """
    tensors, c, v, x0, time = _time_first(c, v, x0, axis)
    if terms is not None:
        terms = positive_integer(terms, "terms", least=0)
    if x0 is not None:
        x0 = initial_state(x0, v.shape[1:], v.dtype)
    with np.errstate(all="ignore"):
        states = carried(c, folded(c, v, x0), terms)
    return _returned(np.moveaxis(states, 0, time), tensors)


def carried(c: Array, v: Array, terms: int | None = None) -> Array:
    """Return `carriers` along axis 0, in the arithmetic of the arrays."""
    if terms is None:
        return forward(c, v)
    if terms == 0:
        return np.zeros_like(v)
    states = v.copy()
    for _ in range(1, min(terms, len(v))):
        states[1:] = c[1:] * states[:-1] + v[1:]
    return states


def products(a: Array, axis: int = 0) -> Array:
    """Return the running products a[i] a[i-1] ... a[0] along an axis, in this order of factors.

    They are rounded in the arithmetic of the array.
    """
    if type(a) is np.ndarray and a.dtype == object:
        return np.asarray(_LATER_TIMES_EARLIER.accumulate(a, axis=axis))
    return cast(Array, np.multiply.accumulate(a, axis=axis))


_LATER_TIMES_EARLIER = np.frompyfunc(lambda earlier, later: later * earlier, 2, 1)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The partition of n steps into blocks of `length` steps. The last block may be shorter.

    A sequence becomes an array of shape (count, length, ...), in which the last block is filled up with coefficients 1
    and inputs 0. So the state at the end of the last block is the state at the end of the sequence.
    """

    steps: int
    length: int

    @classmethod
    def of(cls, steps: int, length: int) -> Blocks:
        """Return the partition; a block longer than the sequence is cut to it."""
        return cls(steps, max(1, min(length, steps)))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.steps // self.length)

    def filled(self, x: Array, fill: int) -> Array:
        """Return `x` of shape (steps, ...) with the last block filled up."""
        missing = self.count * self.length - self.steps
        if missing == 0:
            return x
        return np.concatenate([x, np.full_like(x, fill, shape=(missing, *x.shape[1:]), order="C")])

    def split(self, x: Array, fill: int) -> Array:
        """Return `x` of shape (steps, ...) as (count, length, ...)."""
        return self.filled(x, fill).reshape(self.count, self.length, *x.shape[1:])

    def join(self, x: Array) -> Array:
        """Return `x` of shape (count, length, ...) as (steps, ...)."""
        return x.reshape(self.count * self.length, *x.shape[2:])[: self.steps]

    def each(self, x: Array) -> tuple[Array, ...]:
        """Return the blocks of `x` of shape (count, length), the last one cut to its own length."""
        sizes = [min(self.length, self.steps - t * self.length) for t in range(self.count)]
        return tuple(row[:size] for row, size in zip(x, sizes, strict=True))


def _time_first(a: Any, u: Any, x0: Any, axis: Any) -> tuple[bool, Array, Array, Any, int]:
    """Return whether one is a tensor, both arrays in one shape and type with time first, x0, and the axis."""
    a, u, x0, axis = without_labels(a, u, x0, axis)
    tensors = "torch" in {library_of(a), library_of(u)}
    a, u, dtype = as_operands(a, u)
    shape = broadcast_shape(a, u)
    time = check_axis(axis, len(shape))
    a, u = (
        np.moveaxis(np.broadcast_to(array.astype(accumulator(dtype), copy=False), shape), time, 0) for array in (a, u)
    )
    return tensors, a, u, x0, time


def _returned(array: Array, tensors: bool) -> Any:
    return to_torch(array) if tensors else array[()]
