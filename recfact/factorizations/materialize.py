"""The transfer operators of blocks as dense matrices, by four constructions and a variant."""

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.affine import products
from recfact.arrays import Array, as_numpy, check_axis, check_scalars
from recfact.checks import choice
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, ShapeError, shown
from recfact.factorizations.scalars import number_type, of_one_type, quotients, scalars_that_fit


def materialize(a: Any, method: str = "cumprod", *, axis: int = -1) -> Array:
    """Form the transfer operator of every block of coefficients: L[i, j] = a[i] a[i-1] ... a[j+1] for i >= j.

    Every step of a construction is rounded to the dtype of `a`. For the accuracy of a wide accumulator, cast `a` to
    float32 before and the result back after. `recfact.precision.rounded_materialize` runs the same constructions in
    any other number format, and `recfact.precision.materialization_table` compares their errors.

    Parameters
    ----------
    a : array_like
        Coefficients of one block of l steps, or of many blocks along other axes. Integers become float64. An object
        array may hold any scalars. The first coefficient isn't part of L, but "ratio", "reciprocal" and "log-outer"
        read it.
    method : {"cumprod", "segsum", "log-outer", "ratio", "reciprocal"}, default "cumprod"
        ============ ============================================== ====================================================
        "cumprod"    cumulative products down each column           any scalar and any sign; the error of an entry at
                                                                    lag d is at most that of d - 1 multiplications
        "segsum"     exp of cumulative sums of logs down each       zeros exact; NaN below a negative coefficient. The
                     column                                         most accurate where all entries are near 1
        "log-outer"  exp of differences of prefix sums of logs      NaN from the first zero or negative coefficient on;
                                                                    cancellation near the diagonal
        "ratio"      quotients of prefix products g[i] / g[j]       NaN or inf where a prefix product is or underflows
                                                                    to 0, L itself being regular there
        "reciprocal" products g[i] * (1 / g[j])                     as "ratio", and where 1 / g[j] overflows
        ============ ============================================== ====================================================

    axis : int, default -1
        The axis of `a` along which the steps of a block follow each other.

    Returns
    -------
    ndarray, shape (..., l, l)
        Unit lower triangular matrices of the dtype of `a`, with exact zeros above the diagonal. The shape is that of
        `a` without `axis`, followed by the axes of the matrices.

    Raises
    ------
    ShapeError
        If `a` is a scalar, or has no such axis.
    ArrayTypeError
        If it can't be read as an array of numbers, as `recfact.solve`.
    DTypeError
        If the elements aren't numbers, or if they have no logarithm and `method` needs it (``Fraction``, symbols).
    OptionError
        If `method` isn't one of these, or if it would divide exact scalars by zero.

    Notes
    -----
    Overflow, underflow and the NaN of the table show in the result. They raise no NumPy warning. The logarithm of a
    negative number depends on the number type: NaN for floats, a complex number for ``mpf``.

    "cumprod" is the linear-space construction of the sliding window recurrences paper (section 3.2). "segsum" is that
    of Dao and Gu (2024). "ratio" is the generator representation of semiseparable matrices (Vandebril, Van Barel and
    Mastronardi, 2008). "reciprocal" is the same, computed as tril(g g^-T) is written. "log-outer" is its logarithm.

    Examples
    --------
    >>> materialize([0.0, 0.5, 0.5, 0.25])
    array([[1.    , 0.    , 0.    , 0.    ],
           [0.5   , 1.    , 0.    , 0.    ],
           [0.25  , 0.5   , 1.    , 0.    ],
           [0.0625, 0.125 , 0.25  , 1.    ]])
    >>> materialize(np.ones((3, 2, 16))).shape
    (3, 2, 16, 16)
    """
    construct = CONSTRUCTIONS[choice(method, "method", tuple(CONSTRUCTIONS))]
    given, _, _, axis = without_labels(a, a, None, axis)
    coefficients = as_numpy(given, "a")
    coefficients = coefficients.astype(number_type(coefficients.dtype), copy=False)
    if coefficients.ndim == 0:
        raise ShapeError(
            f"a must have at least one axis (the steps of a block), got the scalar {shown(a)}; pass a sequence"
        )
    coefficients = np.moveaxis(coefficients, check_axis(axis, coefficients.ndim), -1)
    check_scalars(coefficients, "a")
    with np.errstate(all="ignore"), scalars_that_fit(coefficients.dtype):
        matrices = construct(coefficients)
    np.copyto(matrices, 0, where=~np.tri(coefficients.shape[-1], dtype=bool))
    return of_one_type(matrices)


def _repeat_below(a: Array, neutral: int) -> Array:
    """Return a[i] at [i, j] below the diagonal and the neutral element on and above it."""
    steps = a.shape[-1]
    tiled = np.full_like(a, neutral, shape=(*a.shape, steps))
    np.copyto(tiled, a[..., :, None], where=np.tri(steps, k=-1, dtype=bool))
    return tiled


def _cumprod(a: Array) -> Array:
    return products(_repeat_below(a, 1), axis=-2)


def _segsum(a: Array) -> Array:
    log, exp = _logarithm(a)
    return np.asarray(exp(np.add.accumulate(_repeat_below(log(a), 0), axis=-2)))


def _log_outer(a: Array) -> Array:
    log, exp = _logarithm(a)
    prefix = np.add.accumulate(log(a), axis=-1)
    return np.asarray(exp(prefix[..., :, None] - prefix[..., None, :]))


def _prefix_products(a: Array) -> Array:
    prefix = products(a, axis=-1)
    if _has_own_scalars(prefix) and any(product == 0 for product in prefix.flat):
        raise OptionError(
            "this method divides by the products a[0] ... a[j], and one of them is zero; use 'cumprod', which doesn't "
            "divide"
        )
    return prefix


def _ratio(a: Array) -> Array:
    prefix = _prefix_products(a)
    return np.asarray(quotients(prefix[..., :, None], prefix[..., None, :]))


def _reciprocal(a: Array) -> Array:
    prefix = _prefix_products(a)
    return np.asarray(prefix[..., :, None] * quotients(np.ones_like(prefix), prefix)[..., None, :])


CONSTRUCTIONS: dict[str, Callable[[Array], Array]] = {
    "cumprod": _cumprod,
    "segsum": _segsum,
    "log-outer": _log_outer,
    "ratio": _ratio,
    "reciprocal": _reciprocal,
}
"""The constructions by name: of an array of coefficients, along its last axis, in its own arithmetic.

The caller sees to the entries above the diagonal.
"""


def _logarithm(a: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return the elementwise logarithm and exponential of the scalars in `a`."""
    if not _has_own_scalars(a) or a.size == 0:
        return np.log, np.exp
    # Real and complex numbers of mpmath have their context as `context`. Its intervals have it as `ctx`.
    context = getattr(a.flat[0], "context", None) or getattr(a.flat[0], "ctx", None)
    if context is None:
        raise DTypeError(
            f"this method takes logarithms, which scalars of type {type(a.flat[0]).__name__} don't have here; use "
            '"cumprod", or convert to floats or mpf'
        )
    return np.frompyfunc(context.log, 1, 1), np.frompyfunc(context.exp, 1, 1)


def _has_own_scalars(a: Array) -> bool:
    """Return whether the scalars in `a` do the arithmetic themselves, and not a special array class."""
    return type(a) is np.ndarray and a.dtype == object
