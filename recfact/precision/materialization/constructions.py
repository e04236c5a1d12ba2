"""The constructions of the blocks of L in a number format, and proved bounds for their errors.

The constructions are those of `recfact.materialize`, the very code: it runs on arrays whose operations round to the
format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import choice
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, ShapeError, shown
from recfact.factorizations.materialize import CONSTRUCTIONS
from recfact.factorizations.scalars import number_type
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.materialization.laws import error_bound
from recfact.precision.reals import in_decimal
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.rounded_array import rounded_array

METHODS = tuple(CONSTRUCTIONS)


def rounded_materialize(
    a: Any, method: str = "cumprod", *, format: Any, accumulate: Any = None, axis: int = -1
) -> Array:
    """Form the transfer operators of blocks with every operation rounded to a number format, to nearest even.

    Parameters
    ----------
    a : array_like
        Real coefficients of one block of l steps, or of many along other axes; first rounded to `format`.
    method : {"cumprod", "segsum", "log-outer", "ratio", "reciprocal"}, default "cumprod"
        The construction, as in `recfact.materialize`. Logarithms and exponentials are correctly rounded.
    format : str, dtype or FloatFormat
        The format of the coefficients and of the result.
    accumulate : str, dtype or FloatFormat, optional
        The format of every operation, such as "float32", if it isn't that of the coefficients: the result is then
        rounded to `format` once, at the end.
    axis : int, default -1
        The axis of `a` along which the steps of a block follow each other.

    Returns
    -------
    ndarray of float64, shape (..., l, l)
        The shape of `a` without `axis`, and the axes of the matrices. Numbers of the format; NaN and infinity where the
        construction makes them. For a format with numbers that float64 doesn't hold, such as "binary128", an array of
        Fractions, and floats where infinite or NaN.

    Raises
    ------
    OptionError
        If there is no such method or format, the format lacks zero or negative numbers, or a coefficient isn't finite
        in it.
    ShapeError
        If `a` is a scalar, or has no such axis.

    Notes
    -----
    The constructions' sources stand with `recfact.materialize`; their errors are treated on the page on blocks as dense
    matrices.

    Examples
    --------
    >>> rounded_materialize([0.0, 0.3, 0.3], format="bfloat16")
    array([[1.        , 0.        , 0.        ],
           [0.30078125, 1.        , 0.        ],
           [0.09033203, 0.30078125, 1.        ]])
    >>> blocks = rounded_materialize([0.0, 0.5, 0.5, 0.5], "segsum", format="binary128")
    >>> blocks[2, 0], float(blocks[3, 0] - blocks[2, 0] / 2) * 2**112
    (Fraction(1, 4), 0.125)
    """
    storage, wide = formats_of(format, accumulate)
    return construct(coefficients_of(a, storage, axis), choice(method, "method", METHODS), storage, wide)


def materialization_bound(
    a: Any, method: str = "cumprod", *, format: Any, accumulate: Any = None, axis: int = -1
) -> Array:
    """Return proved bounds for the errors of `rounded_materialize`, entry by entry, from the coefficients alone.

    Parameters
    ----------
    a, method, format, accumulate, axis
        As for `rounded_materialize`.

    Returns
    -------
    ndarray of float64, shape (..., l, l)
        Bounds of the absolute error, rounded up, underflow included. Infinity where there is none: where a quotient or
        a logarithm fails, or a number may overflow.

    Raises
    ------
    OptionError
        If there is no such method or format, float64 doesn't hold a format, the format lacks zero or negative numbers,
        or a coefficient isn't finite in it.
    ShapeError
        If `a` is a scalar, or has no such axis.

    Notes
    -----
    The module `recfact.precision.materialization.laws` says how each construction's bound comes about and what it is in
    closed form: the classical error analysis of products and sums (Higham, 2002, chapter 3), step by step.

    Examples
    --------
    >>> materialization_bound([1.0, 0.75, 0.75, 0.75], format="float16")[3, 0] / 0.75**3 * 2**11  # two roundings
    np.float64(2.000488281715775)
    """
    storage, wide = measured_formats(format, accumulate)
    return error_bound(coefficients_of(a, storage, axis), choice(method, "method", METHODS), storage, wide)


def formats_of(format: Any, accumulate: Any) -> tuple[FloatFormat, FloatFormat]:
    """Return the format of coefficients and results, and that of the operations."""
    storage = format_of(format)
    wide = storage if accumulate is None else format_of(accumulate)
    for name, each in (("format", storage), ("accumulate", wide)):
        if not (each.zero and each.signed):
            required = "must have zero and negative numbers, because blocks of L hold zeros and logarithms are negative"
            raise OptionError(required, name, given=each.name, advice="pick a format that has both")
    if not wide.holds(storage):
        required = f"must be a format that holds every number of {storage}"
        raise OptionError(required, "accumulate", given=wide.name, advice="pass a wider one")
    return storage, wide


def measured_formats(format: Any, accumulate: Any) -> tuple[FloatFormat, FloatFormat]:
    """Return them where float64 holds their numbers, as errors and bounds in float64 require."""
    storage, wide = formats_of(format, accumulate)
    for name, each in (("format", storage), ("accumulate", wide)):
        if not each.fits_float64:
            raise OptionError(
                "must be one whose numbers float64 holds, in which errors are measured and bounded",
                name,
                given=each.name,
                advice="exact fractions have no such limit, in recfact.precision.rounded_materialize",
            )
    return storage, wide


def coefficients_of(a: Any, storage: FloatFormat, axis: int) -> Array:
    """Return `a` rounded to the format, with time last, as float64 or as Fractions if that doesn't hold the format."""
    a, _, _, axis = without_labels(a, a, None, axis)
    given = as_numpy(a, "a")
    if given.ndim == 0:
        raise ShapeError(
            f"a must have at least one axis (the steps of a block), got the scalar {shown(a)}; pass a sequence"
        )
    if number_type(given.dtype).kind == "c":
        raise DTypeError("the constructions are rounded for real coefficients, got complex ones; pass their magnitudes")
    rounded = np.asarray(rounded_array(np.moveaxis(given, check_axis(axis, given.ndim), -1), storage))
    with np.errstate(invalid="ignore"):
        finite = rounded - rounded == 0  # np.isfinite doesn't take Fractions
    if not finite.all():
        raise OptionError(
            f"coefficients must be finite in {storage.name}, whose largest number is {in_decimal(storage.max)}; "
            f"{np.count_nonzero(~finite)} of {rounded.size} are not"
        )
    return rounded


def construct(a: Array, method: str, storage: FloatFormat, wide: FloatFormat) -> Array:
    """Run a construction on coefficients of the format `storage` with every operation rounded to `wide`."""
    with np.errstate(all="ignore"):
        blocks = np.asarray(CONSTRUCTIONS[method](rounded_array(a, wide)))
    return Arithmetic(storage).round(np.where(np.tri(a.shape[-1], dtype=bool), blocks, 0))
