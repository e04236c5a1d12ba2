"""Codes of the numbers of a format: integers made of sign, exponent field and fraction, one after the other."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy
from recfact.errors import DTypeError, OptionError, shown
from recfact.precision.formats.limits import FormatLimits
from recfact.precision.reals import Number, as_rational, as_reals

LISTED_BITS = 16  # formats up to this width are tabulated


def encode(fmt: FormatLimits, values: Any) -> Any:
    """Return the codes of numbers of the format; see ``FloatFormat.encode``."""
    reals = as_reals(values, "values")
    if reals.dtype.kind == "O" or fmt.bits > 64:
        codes = np.empty(reals.shape, dtype=object)
        codes.reshape(-1)[:] = [_code(fmt, as_rational(value), value) for value in reals.flat]
    else:
        codes = _codes(fmt, reals.reshape(-1)).reshape(reals.shape)
    codes = codes.astype(code_dtype(fmt), copy=False)
    if codes.ndim:
        return codes
    return int(codes) if not isinstance(values, np.generic | np.ndarray) else codes[()]


def code_dtype(fmt: FormatLimits) -> np.dtype[Any]:
    """Return the smallest unsigned integer type that holds the codes, or object beyond 64 bits."""
    for width in (8, 16, 32, 64):
        if fmt.bits <= width:
            return np.dtype(f"uint{width}")
    return np.dtype(object)


def nan_code(fmt: FormatLimits) -> int:
    """Return the code that stands for NaN: the quiet one of IEEE 754, the highest, or that of -0."""
    p = fmt.fraction_bits
    if p and fmt.nan_codes == (1 << p) - 1 and fmt.infinities:
        return fmt.max_code + 1 + (1 << (p - 1))
    if fmt.nan_codes:
        return (1 << (fmt.exponent_bits + p)) - 1
    return 1 << (fmt.bits - 1)


def _codes(fmt: FormatLimits, x: Array) -> Array:
    p = fmt.fraction_bits
    size = np.abs(x)
    number = np.isfinite(x)
    with np.errstate(all="ignore"):
        significand, exponent = np.frexp(np.where(number, size, 0.0))
        leading = np.where(significand > 0, np.maximum(exponent - 1, fmt.emin), fmt.emin)
        scaled = np.ldexp(significand, exponent - leading + p)
        valid = number & (scaled == np.rint(scaled)) & (size <= fmt.max)
    if not fmt.subnormals:
        valid &= (size >= fmt.smallest_normal) | ((size == 0) & fmt.zero)
    if not fmt.signed:
        valid &= x >= 0
    # An exponent step further is 2^p codes further, subnormals are their own codes.
    steps = np.where(valid, leading - fmt.emin - (not fmt.zero), 0).astype(np.int64)
    codes = np.where(valid, scaled, 0.0).astype(np.int64) + (steps << p)

    if fmt.infinities:
        infinite = np.isinf(x) & ((x > 0) | fmt.signed)
        codes[infinite] = fmt.max_code + 1
        valid |= infinite
    if fmt.signed:
        negative = np.signbit(x) & ((x != 0) | fmt.negative_zero)
        codes = codes.astype(np.uint64) | (negative.astype(np.uint64) << np.uint64(fmt.bits - 1))
    missing = np.isnan(x)
    if fmt.has_nan:
        codes[missing] = nan_code(fmt)
        valid |= missing
    if not valid.all():
        _refuse(fmt, x[~valid].flat[0])
    return codes


def _code(fmt: FormatLimits, number: Number, given: Any) -> int:
    p = fmt.fraction_bits
    if isinstance(number, float) and math.isnan(number):
        return nan_code(fmt) if fmt.has_nan else _refuse(fmt, given)
    negative = number < 0 or (isinstance(given, float) and math.copysign(1.0, given) < 0 and fmt.negative_zero)
    if isinstance(number, float):
        code = fmt.max_code + 1 if fmt.infinities else _refuse(fmt, given)
    else:
        size = abs(number)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()  # of a dyadic number; others are refused
        leading = max(exponent, fmt.emin)
        scaled = size / Fraction(2) ** (leading - p)
        absent = (size < fmt.smallest_normal and not fmt.subnormals) if size else not fmt.zero
        if scaled.denominator != 1 or size > fmt.max or absent:
            _refuse(fmt, given)
        code = int(scaled) + ((leading - fmt.emin - (not fmt.zero)) << p) if size else 0
    if negative and not fmt.signed:
        _refuse(fmt, given)
    return code | (negative << (fmt.bits - 1))


def _refuse(fmt: FormatLimits, value: Any) -> Any:
    raise OptionError(
        f"values to encode must be numbers of {fmt}, got {shown(value)}; round them first, with {fmt}.round"
    )


def decode(fmt: FormatLimits, codes: Any) -> Any:
    """Return the numbers that have these codes; see ``FloatFormat.decode``."""
    array = as_numpy(codes, "codes")
    integers = array.dtype.kind in "iu" or all(isinstance(code, int) for code in array.astype(object).flat)
    if not integers:
        raise DTypeError(
            f"codes must be integers, got an array of {array.dtype}; to get the codes of numbers, encode them"
        )
    if array.size and not (array.min() >= 0 and int(array.max()) < 1 << fmt.bits):
        raise OptionError(
            f"codes of {fmt} go from 0 to 2^{fmt.bits} - 1, got {shown(array.min())} to {shown(array.max())}; mask the "
            "bits above"
        )
    if not fmt.fits_float64:
        numbers = np.empty(array.shape, dtype=object)
        numbers.reshape(-1)[:] = [_number(fmt, int(code)) for code in array.flat]
    elif fmt.bits <= LISTED_BITS:
        numbers = _table(fmt)[array.astype(np.intp)]
    else:
        numbers = _numbers(fmt, array.astype(np.uint64).reshape(-1)).reshape(array.shape)
    return numbers[()] if not isinstance(codes, int) or not fmt.fits_float64 else float(numbers)


def finite_values(fmt: FormatLimits) -> Array:
    """Return every number of the format, ascending; see ``FloatFormat.values``."""
    if fmt.bits > LISTED_BITS:
        raise OptionError(
            f"formats of up to {LISTED_BITS} bits are listed, {fmt} has {fmt.bits}; decode the codes that you need"
        )
    numbers = decode(fmt, np.arange(1 << fmt.bits))
    if numbers.dtype == object:
        finite = [number for number in numbers.tolist() if isinstance(number, Fraction)]
        exact = np.empty(len(set(finite)), dtype=object)
        exact[:] = sorted(set(finite))
        return exact
    return np.unique(numbers[(numbers >= fmt.min) & (numbers <= fmt.max)]) + 0  # both zeros become the positive one


@lru_cache(maxsize=64)
def _table(fmt: FormatLimits) -> Array:
    return _numbers(fmt, np.arange(1 << fmt.bits, dtype=np.uint64))


def _numbers(fmt: FormatLimits, codes: Array) -> Array:
    p = fmt.fraction_bits
    size_bits = fmt.exponent_bits + p
    size = (codes & np.uint64((1 << size_bits) - 1)).astype(np.int64)
    finite = np.minimum(size, fmt.max_code)
    field, fraction = finite >> p, finite & ((1 << p) - 1)
    bottom = (field == 0) & fmt.zero
    significand = np.where(bottom, fraction * fmt.subnormals, fraction + (1 << p))
    numbers = np.ldexp(
        significand.astype(np.float64), (np.where(bottom, fmt.emin, field - fmt.bias) - p).astype(np.int32)
    )
    if fmt.infinities:
        numbers[size == fmt.max_code + 1] = np.inf
    if fmt.signed:
        numbers = np.where(codes >> np.uint64(size_bits) == 1, -numbers, numbers)
    numbers[size > fmt.max_code + fmt.infinities] = np.nan
    if fmt.signed and fmt.zero and not fmt.negative_zero:
        numbers[codes == 1 << size_bits] = np.nan
    return numbers


def _number(fmt: FormatLimits, code: int) -> Number:
    size_bits = fmt.exponent_bits + fmt.fraction_bits
    size, negative = code & ((1 << size_bits) - 1), bool(code >> size_bits)
    if size > fmt.max_code + fmt.infinities or (negative and size == 0 and fmt.zero and not fmt.negative_zero):
        return math.nan
    number = math.inf if size > fmt.max_code else Fraction(fmt.magnitude(size))
    return -number if negative else number
