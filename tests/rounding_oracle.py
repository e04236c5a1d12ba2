"""What rounding to a format is held to: the definition, in Fractions, and other libraries' descriptions of a format."""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache
from typing import Any

import gfloat
import ml_dtypes
import numpy as np
from gfloat.formats import format_info_p3109

from recfact.precision import FORMATS, FloatFormat
from recfact.precision.formats.catalogue import p3109

HALF = Fraction(1, 2)

# Every variant of P3109 of 8 bits, and of other widths the ones at both ends, or what float64 holds of them.
P3109 = [
    p3109(bits, precision, signed=signed, extended=extended)
    for signed in (True, False)
    for extended in (True, False)
    for bits, precisions in [
        (8, range(1, 9)),
        *((k, (1, 2, k - 2, k - 1, k)) for k in (3, 4, 5, 6, 7, 10)),
        (16, (11, 16)),
    ]
    for precision in sorted(set(precisions))
    if 1 <= precision <= bits - signed
]

# Those that no library has: without subnormals, with a bias of its own, without NaN, without sign.
HOME_MADE = [
    FloatFormat.from_bits(4, 3, subnormals=False, name="flushed"),
    FloatFormat.from_bits(5, 0, subnormals=False, infinities=True, nan="none", name="powers"),
    FloatFormat.from_bits(3, 2, bias=-2, name="from eight"),
    FloatFormat.from_bits(3, 2, bias=40, name="to one millionth"),
    FloatFormat.from_bits(4, 3, nan="none", infinities=True, name="all but nan"),
    FloatFormat.from_bits(4, 2, signed=False, name="positive"),
    FloatFormat.from_bits(4, 2, signed=False, zero=False, nan="none", name="positive, no zero"),
    FloatFormat.from_bits(4, 2, zero=False, name="no zero"),
    FloatFormat.from_bits(1, 6, nan="none", name="nearly fixed point"),
    FloatFormat.from_bits(1, 4, name="subnormals alone"),
    FloatFormat.from_bits(11, 2, name="as far as binary64"),
    FloatFormat.from_bits(11, 0, name="powers as far as binary64"),
    FloatFormat.from_bits(6, 5, bias=1070, name="below binary64's normals"),
]
ALL = [*FORMATS.values(), *(fmt for fmt in P3109 if fmt.name not in FORMATS), *HOME_MADE]
REPRESENTED = [fmt for fmt in ALL if fmt.bits <= 16 and fmt.fits_float64]


@cache
def magnitudes(fmt: FloatFormat) -> list[Fraction]:
    """Return the sizes of the numbers in the order of their codes, and the one that would follow the largest.

    With a zero the exponent field 0 means f 2^(emin - p), without one (1 + f/2^p) 2^(0 - bias).
    """
    p = fmt.fraction_bits
    beyond = (1 << (fmt.exponent_bits + p)) - fmt.nan_codes - fmt.infinities
    sizes = []
    for code in range(beyond + 1):
        field, fraction = divmod(code, 1 << p)
        if field == 0 and fmt.zero:
            digits, exponent = (fraction if fmt.subnormals else 0), 1 - fmt.bias - p
        else:
            digits, exponent = (1 << p) + fraction, field - fmt.bias - p
        sizes.append(Fraction(digits << exponent) if exponent >= 0 else Fraction(digits, 1 << -exponent))
    return sizes


@cache
def float_magnitudes(fmt: FloatFormat) -> np.ndarray[Any, Any]:
    """Return the same as float64, which may take the last one for infinity. Nobody may write to it."""
    *sizes, beyond = magnitudes(fmt)
    sizes = np.array([*map(float, sizes), float(beyond) if beyond < 2**1024 else math.inf])
    sizes.flags.writeable = False
    return sizes


def _choose(x: Fraction, low: Fraction, high: Fraction, low_is_even: bool, rounding: str, uniform: float) -> Fraction:
    """Return the neighbour of |x| that the rounding takes."""
    size = abs(x)
    if size == low:
        return low
    share = (size - low) / (high - low)
    return {
        "nearest-even": low if share < HALF or (share == HALF and low_is_even) else high,
        "nearest-away": low if share < HALF else high,
        "toward-zero": low,
        "up": high if x > 0 else low,
        "down": low if x > 0 else high,
        "stochastic": high if uniform < share else low,
    }[rounding]


def round_by_definition(
    fmt: FloatFormat,
    x: Any,
    rounding: str,
    underflow: str = "gradual",
    overflow: str | None = None,
    uniform: float = 0.0,
) -> Any:
    """Return `x` rounded to a format of at most 16 bits, as a Fraction, or a float if infinite or NaN."""
    overflow = fmt.overflow if overflow is None else overflow
    sizes = magnitudes(fmt)
    largest = sizes[-2]

    def missing(nearest: Fraction) -> Any:
        return math.nan if fmt.has_nan and overflow != "saturate" else nearest

    def beyond(negative: bool, overflow: str) -> Any:
        if negative and not fmt.signed:
            return missing(sizes[0])
        size: Any = {"infinity": math.inf, "nan": math.nan, "saturate": largest}[overflow]
        return -size if negative else size

    if isinstance(x, float) and math.isnan(x):
        return x
    if isinstance(x, float) and math.isinf(x):
        return beyond(x < 0, overflow)
    x = Fraction(x)
    size, smallest_normal = abs(x), Fraction(2) ** (1 - fmt.bias)
    if underflow == "flush-before" and size < smallest_normal:
        return Fraction(0)
    if x == 0 and not fmt.zero:
        return missing(sizes[0])

    if underflow == "flush-after" and size < smallest_normal:
        # With an unbounded exponent the numbers go on below the smallest normal one, half as far apart.
        gap = smallest_normal / 2 / (1 << fmt.fraction_bits)
        steps = size // gap
        even = steps % 2 == 0 if fmt.fraction_bits else True  # the code of half the smallest normal would be 0
        rounded = _choose(x, steps * gap, (steps + 1) * gap, even, rounding, uniform)
        rounded = rounded if rounded >= smallest_normal else Fraction(0)
    elif size >= sizes[-1]:
        rounded = sizes[-1]
    else:
        low = bisect_right(sizes, size) - 1
        if low < 0:  # a format without zero
            rounded = sizes[0]
        else:
            code_is_even = low % 2 == 0 if sizes[low] else True
            rounded = _choose(x, sizes[low], sizes[low + 1], code_is_even, rounding, uniform)
        if underflow == "flush-result" and rounded < smallest_normal:
            rounded = Fraction(0)

    if x < 0 and rounded and not fmt.signed:
        return missing(sizes[0])
    if rounded > largest:
        inward = rounding == "toward-zero" or rounding == ("up" if x < 0 else "down")
        return beyond(x < 0, "saturate" if inward else overflow)
    return -rounded if x < 0 else rounded


def ml_dtype(fmt: FloatFormat) -> np.dtype[Any] | None:
    """Return the format's type in NumPy or ml_dtypes."""
    name = {"binary16": "float16", "binary32": "float32", "binary64": "float64"}.get(fmt.name, fmt.name)
    if fmt not in FORMATS.values() or fmt.name in ("tf32", "binary128") or fmt.name.startswith("p3109"):
        return None
    return np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))


def gfloat_info(fmt: FloatFormat) -> gfloat.FormatInfo | None:
    """Return the format as gfloat describes it, from its own catalogue where it has the format."""
    known = {
        "float8_e5m2": gfloat.formats.format_info_ocp_e5m2,
        "float8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
        "float6_e3m2fn": gfloat.formats.format_info_ocp_e3m2,
        "float6_e2m3fn": gfloat.formats.format_info_ocp_e2m3,
        "float4_e2m1fn": gfloat.formats.format_info_ocp_e2m1,
        "float8_e8m0fnu": gfloat.formats.format_info_ocp_e8m0,
        "bfloat16": gfloat.formats.format_info_bfloat16,
        "binary16": gfloat.formats.format_info_binary16,
        "binary32": gfloat.formats.format_info_binary32,
        "binary64": gfloat.formats.format_info_binary64,
    }
    if fmt.name in known:
        return known[fmt.name]
    if fmt.name.startswith("p3109_"):
        return format_info_p3109(
            fmt.bits,
            fmt.fraction_bits + 1,
            gfloat.Signedness.Signed if fmt.signed else gfloat.Signedness.Unsigned,
            gfloat.Domain.Extended if fmt.infinities else gfloat.Domain.Finite,
        )
    if fmt not in FORMATS.values() or fmt.name in ("tf32", "binary128"):
        return None
    # The other 8-bit formats of ml_dtypes, which gfloat's descriptions cover although its catalogue doesn't.
    return gfloat.FormatInfo(
        fmt.name,
        k=8,
        precision={"e5m2": 3, "e3m4": 5}.get(fmt.name[7:11], 4),
        bias={"float8_e4m3": 7, "float8_e3m4": 3, "float8_e4m3b11fnuz": 11, "float8_e5m2fnuz": 16}.get(fmt.name, 8),
        is_signed=True,
        domain=gfloat.Domain.Finite if "fnuz" in fmt.name else gfloat.Domain.Extended,
        has_nz="fnuz" not in fmt.name,
        num_high_nans={"float8_e4m3": 7, "float8_e3m4": 15}.get(fmt.name, 0),
        has_subnormals=True,
        is_twos_complement=False,
    )
