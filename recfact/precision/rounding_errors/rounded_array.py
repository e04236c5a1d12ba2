"""An array whose every operation is rounded to a number format, so that ordinary NumPy code runs in that format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_rationals, as_reals
from recfact.precision.rounding_errors.arithmetic import Arithmetic
from recfact.precision.rounding_errors.elementary import exponential, logarithm, quotient


class RoundedArray(np.ndarray[Any, Any]):
    """Numbers of a format whose sums, products, quotients, logs and exps are rounded once, to nearest even.

    They are held in float64; where that doesn't hold the format, as Fractions, and floats if infinite or NaN.
    ``multiply.accumulate`` and ``add.accumulate`` round every partial result. Other functions of NumPy that compute
    raise an error: silent float64 arithmetic would be a wrong answer.

    Examples
    --------
    >>> from recfact.precision.formats.catalogue import format
    >>> a = rounded_array([1, 2**-11, 2**-11], format("float16"))
    >>> np.add.accumulate(a).tolist()
    [1.0, 1.0, 1.0]
    >>> np.log(a / 3).tolist()
    [-1.0986328125, -8.7265625, -8.7265625]
    """

    format: FloatFormat

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, RoundedArray):
            self.format = parent.format

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        operation = _operation(ufunc, self.format)
        plain = [np.asarray(operand, dtype=self.dtype) for operand in inputs]
        if method == "__call__" and not options:
            result = operation(*plain)
        elif method == "accumulate" and options.keys() <= {"axis"}:
            result = _accumulate(operation, plain[0], options.get("axis", 0))
        else:
            raise TypeError(f"no rounded form of numpy.{ufunc.__name__}.{method} with {', '.join(options) or 'that'}")
        return _of(result, self.format)


def rounded_array(values: Any, format: FloatFormat) -> RoundedArray:
    """Return `values`, rounded to the format, as an array that computes in it."""
    reals = as_reals(values, "values")
    return _of(Arithmetic(format).round(reals if format.fits_float64 else as_rationals(reals)), format)


def _of(values: Array, format: FloatFormat) -> RoundedArray:
    result = np.asarray(values).view(RoundedArray)
    result.format = format
    return result


def _operation(ufunc: np.ufunc, format: FloatFormat) -> Callable[..., Array]:
    """Return what stands in for a ufunc of NumPy."""
    arithmetic = Arithmetic(format)
    match ufunc:
        case np.multiply:
            return arithmetic.multiply
        case np.add:
            return arithmetic.add
        case np.subtract:
            return lambda x, y: arithmetic.add(x, -y)
        case np.divide:
            return lambda x, y: quotient(x, y, format)
        case np.log:
            return lambda x: logarithm(x, format)
        case np.exp:
            return lambda x: exponential(x, format)
    raise TypeError(f"no rounded form of numpy.{ufunc.__name__}; convert with numpy.asarray for float64 arithmetic")


def _accumulate(operation: Callable[..., Array], values: Array, axis: int) -> Array:
    result = values.copy()
    along = np.moveaxis(result, axis, 0)
    for step in range(1, len(along)):
        along[step, ...] = operation(along[step - 1, ...], along[step, ...])  # an object without the dots is no array
    return result
