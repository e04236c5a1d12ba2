"""The constructions of the blocks of L in a number format, and proved bounds for their errors.

The constructions are those of `recfact.materialize`. The same code runs on arrays whose operations round to the format.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import choice
from recfact.containers import without_labels
from recfact.errors import DTypeError, OptionError, ShapeError, shown
from recfact.factorizations.materialize import CONSTRUCTIONS
from recfact.factorizations.scalars import number_type
from recfact.precision.arithmetic import Arithmetic, Rounded
from recfact.precision.materialization.exact_blocks import exact_blocks
from recfact.precision.materialization.laws import error_bound
from recfact.precision.reals import in_decimal

METHODS = tuple(CONSTRUCTIONS)


def rounded_materialize(a: Any, method: str = "cumprod", *, format: Any, axis: int = -1) -> Array:
    """Form the transfer operators of blocks with every operation rounded to a number format, to nearest even.

    Parameters
    ----------
    a : array_like
        Real coefficients of one block of l steps, or of many blocks along other axes. They are first rounded to
        `format`.
    method : {"cumprod", "segsum", "log-outer", "ratio", "reciprocal"}, default "cumprod"
        The construction, as in `recfact.materialize`. Logarithms and exponentials are correctly rounded.
    format : str, dtype, FloatFormat or Arithmetic
        The format of the coefficients and of the result. Or an arithmetic that accumulates in a wider format and rounds
        the result once, at the end, such as ``Arithmetic("float16", accumulate="float32")``.
    axis : int, default -1
        The axis of `a` along which the steps of a block follow each other.

    Returns
    -------
    ndarray of float64, shape (..., l, l)
        Numbers of the format, and NaN and infinity where the construction gives them. The shape is that of `a` without
        `axis`, followed by the axes of the matrices. If float64 doesn't hold the numbers of the format, as for
        "binary128", they are Fractions, or floats if infinite or NaN.

    Raises
    ------
    OptionError
        If there is no such method or format, if the format lacks zero or negative numbers, if a coefficient isn't
        finite in it, or if the arithmetic has other options.
    ShapeError
        If `a` is a scalar, or has no such axis.

    Notes
    -----
    `recfact.materialize` names the sources of the constructions. Their errors are treated on the page on blocks as
    dense matrices.

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
    arithmetic = arithmetic_of(format)
    return construct(coefficients_of(a, arithmetic, axis), choice(method, "method", METHODS), arithmetic)


def materialization_bound(a: Any, method: str = "cumprod", *, format: Any, axis: int = -1) -> Array:
    """Return proved bounds of the errors of `rounded_materialize` for every entry, from the coefficients alone.

    Parameters
    ----------
    a, method, format, axis
        As for `rounded_materialize`.

    Returns
    -------
    ndarray of float64, shape (..., l, l)
        Bounds of the absolute error, rounded up. They include underflow. They are infinite where there is no bound: if
        a quotient or a logarithm fails, or if a number may overflow.

    Raises
    ------
    OptionError
        If there is no such method or format, if float64 doesn't hold a format, if the format lacks zero or negative
        numbers, or if a coefficient isn't finite in it.
    ShapeError
        If `a` is a scalar, or has no such axis.

    Notes
    -----
    The bounds follow the classical error analysis of products and sums (Higham, 2002, chapter 3), step by step. The
    module `recfact.precision.materialization.laws` derives the bound of each construction and gives its closed form.

    Examples
    --------
    >>> materialization_bound([1.0, 0.75, 0.75, 0.75], format="float16")[3, 0] / 0.75**3 * 2**11  # two roundings
    np.float64(2.000488281715775)
    """
    how = measured_arithmetic(format)
    coefficients = np.asarray(coefficients_of(a, how, axis))
    choice(method, "method", METHODS)
    return error_bound(coefficients, exact_blocks(coefficients), method, how.format, how.accumulate)


def arithmetic_of(format: Any) -> Arithmetic:
    """Return the arithmetic of a construction."""
    how = Arithmetic.of(format)
    if not (how.format.zero and how.format.signed):
        required = "must have zero and negative numbers, because blocks of L hold zeros and logarithms are negative"
        raise OptionError(required, "format", given=how.format.name, advice="pick a format that has both")
    if not how.contained:
        required = f"must be a format that holds every number of {how.format}"
        raise OptionError(required, "accumulate", given=how.accumulate.name, advice="pass a wider one")
    if how.options.keys() - {"accumulate"}:
        raise OptionError(f"constructions round to nearest even, and each operation alone, got {how}; leave that out")
    return how


def measured_arithmetic(format: Any) -> Arithmetic:
    """Return the arithmetic, if float64 holds the numbers of its formats. Errors and bounds in float64 need that."""
    how = arithmetic_of(format)
    for name, each in (("format", how.format), ("accumulate", how.accumulate)):
        if not each.fits_float64:
            raise OptionError(
                "must be one whose numbers float64 holds, in which errors are measured and bounded",
                name,
                given=each.name,
                advice="exact fractions have no such limit, in recfact.precision.rounded_materialize",
            )
    return how


def coefficients_of(a: Any, arithmetic: Arithmetic, axis: int) -> Array:
    """Return `a` rounded to the format, with time last, as float64 or, if that doesn't hold the format, Fractions."""
    a, _, _, axis = without_labels(a, a, None, axis)
    given = as_numpy(a, "a")
    if given.ndim == 0:
        raise ShapeError(
            f"a must have at least one axis (the steps of a block), got the scalar {shown(a)}; pass a sequence"
        )
    if number_type(given.dtype).kind == "c":
        raise DTypeError("the constructions are rounded for real coefficients, got complex ones; pass their magnitudes")
    storage = arithmetic.format
    rounded = np.asarray(Arithmetic(storage).array(np.moveaxis(given, check_axis(axis, given.ndim), -1)))
    with np.errstate(invalid="ignore"):
        finite = rounded - rounded == 0  # np.isfinite doesn't take Fractions
    if not finite.all():
        raise OptionError(
            f"coefficients must be finite in {storage.name}, whose largest number is {in_decimal(storage.max)}; "
            f"{np.count_nonzero(~finite)} of {rounded.size} are not"
        )
    return rounded


def construct(a: Array, method: str, arithmetic: Arithmetic) -> Array:
    """Run a construction on numbers of the format with every operation rounded."""
    with np.errstate(all="ignore"):
        blocks = np.asarray(CONSTRUCTIONS[method](cast(Any, arithmetic.array(a))))
    lower = np.where(np.tri(a.shape[-1], dtype=bool), blocks, 0)
    return Rounded(arithmetic.format, arithmetic).round(lower)
