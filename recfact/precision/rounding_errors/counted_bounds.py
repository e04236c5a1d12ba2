"""Bounds of rounding errors from counts of roundings alone, for algorithms that can't be run on bounds: the engine.

All that is used of an algorithm is that products of coefficients only grow by their neighbours, that an input enters a
state once, that what a step adds up it adds one after the other, and how many roundings N(i, j) the term of an input
has been through. A product of m coefficients takes m - 1 of them, in any order, and multiplying a state by it the m-th.
What is left of N(i, j) - (i - j) are sums. So if nothing underflows, the error is (1 + u)^N(i, j) - 1 of each term.

**Underflow.** A rounding then adds up to eta besides. (1) To a sum at step q, or a product in it: as if input q had
been wrong by so much. There are as many sums as the term that goes through all of them counts, no more than the largest
N(i, j) - (i - j) of an input j <= q. (2) To a product of the coefficients from p + 1 to q, at most i - j - 1 times in
the term of input j, which loses eta |L_iq| |L_pj| |u_j|: the coefficients in between are gone. Several such losses in
one term add up to no more than that, exp((i - j) eta g) times, with the largest product g of neighbours: k of them lie
side by side in at most binomial(i - j, k) ways, and what is left between two is at most g.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.containers import without_labels
from recfact.errors import DTypeError, ShapeError
from recfact.precision.exact.outward import enclose_value
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_reals
from recfact.precision.rounding_errors.error_bounds import SLACK, TINY, BoundArithmetic, sizes_of
from recfact.precision.rounding_errors.rounded_algorithms import operands_of
from recfact.precision.rounding_errors.rounding_counts import ABSENT, engine_counts
from recfact.precision.time_axis import time_first
from recfact.windows import Full, Window, WindowLike, check_window


def counted_bound(a: Any, u: Any, counts: Any, format: Any, *, axis: int = -1) -> Array:
    """Bound the rounding errors of every state by the counts of roundings of its terms.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, numbers of the format, which broadcast.
    counts : array_like of int, shape (n, n)
        N(i, j), as `factor_counts` returns them.
    format : str, dtype or FloatFormat
        The format that operations are rounded to, to nearest.
    axis : int, default -1
        The axis along which the recurrence runs, of what `a` and `u` broadcast to; of n steps.

    Returns
    -------
    ndarray of float64
        In the shape of the states, ``sum_j |L_ij| |u_j| ((1 + u)^N(i, j) - 1)`` with the unit roundoff u, and what
        underflow may add to that; rounded up, if nothing overflows. Infinite where that passes the range of float64, as
        it may where products of neighbouring coefficients pass that of the format.

    Raises
    ------
    ShapeError
        If the shapes don't fit together.
    DTypeError
        If coefficients and inputs aren't real numbers, or counts no integers.

    Notes
    -----
    O(n^2), where `forward_bound` takes O(n) for most algorithms. But this one takes any counts, and so those of the
    engine. Underflow counts as if each sum of a state lost half of the smallest number, and so did each product of
    coefficients, one less in a term than its lag. What a product lost is multiplied by the coefficients after it and
    by the state before it.

    Higham (2002), section 3.1; derived on the page on rounding bounds, equation (1).

    Examples
    --------
    >>> from recfact.precision import factor_counts
    >>> a, u = np.full(50, 0.1), np.ones(50)
    >>> bound = counted_bound(a, u, factor_counts("engine", 50, format="float64"), "float64")
    >>> bool(bound[-1] < 10 * 2.0**-53)
    True
    """
    a, u, _, axis = without_labels(a, u, None, axis)
    weights, inputs = time_first(as_reals(a, "a"), as_reals(u, "u"), axis)
    return np.moveaxis(counted_pairs(weights, inputs, counts, format).imag, 0, axis)


def engine_bound(a: Any, u: Any, format: Any, *, window: WindowLike = Full(), x0: Any = None, axis: int = -1) -> Array:
    """Bound the rounding errors of every state that `recfact.solve` computes on the CPU, in any layout.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, numbers of the format, which broadcast.
    format : str, dtype or FloatFormat
        binary32, binary64, binary16 or bfloat16.
    window : Full, Uniform, Jagged or str
        What is kept.
    x0 : scalar or array_like, optional
        State before the first step, which broadcasts against the result without `axis`.
    axis : int, default -1
        The axis of the result along which the recurrence runs.

    Returns
    -------
    ndarray of float64
        In the shape of the states, bounds of the distance of the computed states from the exact ones of the window,
        rounded up, if none overflows.

    Raises
    ------
    OptionError
        If the engine doesn't compute in the format.

    Notes
    -----
    Several sequences may lie in memory in any order: where that decides how often a state is rounded, as in windows of
    more than 8 lags, the bound is that of the order that rounds most often.

    Derived on the page on the engine ("Rounding"), from counts as in Higham (2002), section 3.1.

    Examples
    --------
    >>> engine_bound([0.5] * 3, [1.0] * 3, "float16") <= [0.0005, 0.0008, 0.0009]
    array([ True,  True,  True])
    """
    a, u, x0, axis = without_labels(a, u, x0, axis)
    weights, inputs, state = operands_of(a, u, x0, np.float64, axis)
    several = inputs.size != len(inputs)
    return np.moveaxis(engine_bounds(weights, inputs, state, format_of(format), check_window(window), several), 0, axis)


def engine_bounds(a: Array, u: Array, x0: Array | None, storage: FloatFormat, window: Window, several: bool) -> Array:
    """Return the bounds of `engine_bound` along axis 0; `several` sequences are solved together, or one at a time."""
    counts = engine_counts(len(u), window, storage.name, several)
    before = int(x0 is not None and len(u) > 0)
    if x0 is not None and before:  # a step more, before the first
        a, u = np.concatenate([a[:1], a]), np.concatenate([x0[None], u])
        first = np.where(counts[:, :1] == ABSENT, ABSENT, counts[:, :1] + 1)
        counts = np.pad(np.concatenate([first, counts], axis=1), ((1, 0), (0, 0)), constant_values=ABSENT)
    inner = storage if storage.fraction_bits >= 23 else FORMATS["binary32"]
    pairs = counted_pairs(a, u, counts, inner, losses=2)  # some products that underflow are rounded down
    if inner is not storage:
        pairs = _bounds(storage).rounded(pairs)
    return pairs.imag[before:]


def counted_pairs(a: Any, u: Any, counts: Any, format: Any, losses: int = 1) -> Array:
    """Return sizes of states and bounds of `counted_bound`, with time first, as complex numbers size + i error.

    A product of coefficients that underflows is wrong by `losses` times half of the smallest number, at most.
    """
    fmt = format_of(format)
    numbers = operands_of(a, u, None, np.float64 if fmt.fits_float64 else object, 0)[:2]
    weights, inputs = (sizes_of(values).real for values in numbers)
    n, table = len(inputs), _table(counts, len(inputs))
    bounds = _bounds(fmt)
    eta = bounds.quantum + bounds.sum_quantum
    distinct, places = np.unique(np.maximum(table, 0), return_inverse=True)
    factors = np.array([_factor(fmt, int(count)) for count in distinct])[places.reshape(n, n)]
    channels = (...,) + (None,) * (inputs.ndim - 1)

    # Row i of |L_ij| |u_j|, of |L_ij|, of the largest |L_pj| with p <= i, and of the largest |L_iq| |L_pj| with p <= q.
    terms, products, before, apart = (np.zeros(inputs.shape) for _ in range(4))
    pairs = np.zeros(inputs.shape, dtype=complex)
    with np.errstate(all="ignore"):
        for i in range(n):
            seen, row = slice(i), slice(i + 1)
            for part in (terms, products, apart):
                part[seen] = _product(part[seen], weights[i])
            terms[i], products[i], before[i], apart[i] = inputs[i], 1, 1, 1
            np.maximum(before[seen], products[seen], out=before[seen])
            np.maximum(apart[seen], before[seen], out=apart[seen])

            kept, lags = table[i, row] != ABSENT, i - np.arange(i + 1)
            extra = np.maximum.accumulate(np.where(kept, np.maximum(table[i, row] - lags, 0), 0))
            added = (extra * eta)[channels]
            cut = (np.maximum(lags - 1, 0) * (losses * eta))[channels]
            several = np.exp(np.max(lags) * losses * eta * before[row].max(axis=0) * SLACK)
            lost = _product(inputs[row] + added, _product(cut, apart[row] * several)) + _product(added, products[row])
            factor = factors[i, row][channels]
            errors = _product(terms[row], factor) + _product(lost, 1 + np.max(factor))
            pairs.real[i], pairs.imag[i] = _total(terms[row], kept), _total(errors, kept)
    return pairs


def _bounds(fmt: FloatFormat) -> BoundArithmetic:
    return BoundArithmetic(fmt, "nearest-even", "gradual")


def _table(counts: Any, n: int) -> Array:
    """Return counts as a square array of integers."""
    table = as_numpy(counts, "counts")
    if not np.can_cast(table.dtype, np.int64):
        raise DTypeError(f"counts must be integers, got an array of {table.dtype}; take those of factor_counts")
    if table.shape != (n, n):
        raise ShapeError(f"counts must be a square matrix over the {n} steps of a and u, got shape {table.shape}")
    return table.astype(np.int64)


def _factor(fmt: FloatFormat, count: int) -> float:
    """Return (1 + u)^count - 1, rounded up."""
    return enclose_value(lambda _, unit: (1 + unit) ** count - 1, Fraction(fmt.unit_roundoff))[1]


def _product(x: Array, y: Array) -> Array:
    """Return x y, rounded up; 0 times anything is 0."""
    return np.where((x == 0) | (y == 0), 0.0, x * y * SLACK + TINY)


def _total(parts: Array, kept: Array) -> Array:
    """Return the sum of the parts that are kept, rounded up."""
    own = parts[kept]
    return np.asarray(np.sum(own, axis=0) * (1 + len(own) * 2.0**-52) * SLACK)
