"""The number formats that have names, and the names that people use for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from recfact.checks import boolean, did_you_mean, integer
from recfact.errors import DTypeError, OptionError, shown
from recfact.number_types import REALS
from recfact.precision.formats.float_format import FloatFormat, check_widths

_ieee = FloatFormat.from_bits


def p3109(bits: int, precision: int, *, signed: bool = True, extended: bool = True) -> FloatFormat:
    """Return a format of IEEE P3109 (the draft of 2025): ``k8p3`` and its kin.

    They have one zero and one NaN. Their bias is half of the exponent range.

    Parameters
    ----------
    bits : int
        Width, at least 3.
    precision : int
        Number of bits of the significand with the leading one. It is one more than the explicit fraction bits, and goes
        from 1 to `bits`, or to `bits` - 1 in a signed format.
    signed : bool, default True
        Whether there are negative numbers ("s" at the end of the name, or "u").
    extended : bool, default True
        Whether there are infinities ("e", or "f" for finite).

    Returns
    -------
    FloatFormat

    Raises
    ------
    OptionError
        If no such format is defined.

    Examples
    --------
    >>> p3109(8, 3)
    <FloatFormat p3109_k8p3se: 1 + 5 + 2 bits, bias 16, max 49152, inf, nan>
    >>> p3109(8, 8, signed=False, extended=False).max
    1.984375
    """
    bits, precision = integer(bits, "bits"), integer(precision, "precision")
    signed, extended = boolean(signed, "signed"), boolean(extended, "extended")
    exponent = bits - precision + (not signed)
    if bits < 3 or precision < 1 or exponent < 1:
        most = bits - signed
        raise OptionError(
            f"P3109 defines formats of at least 3 bits with a precision of 1 to {shown(most)} for {shown(bits)}, got "
            f"{shown(precision)}"
        )
    check_widths(exponent, precision - 1)
    return FloatFormat(
        f"p3109_k{bits}p{precision}{'su'[not signed]}{'fe'[extended]}",
        exponent,
        precision - 1,
        1 << (exponent - 1),
        nan_codes=0 if signed else 1,
        signed=signed,
        infinities=extended,
        negative_zero=False,
    )


FORMATS: Mapping[str, FloatFormat] = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            _ieee(5, 10, name="binary16"),
            _ieee(8, 23, name="binary32"),
            _ieee(11, 52, name="binary64"),
            _ieee(15, 112, name="binary128"),
            _ieee(8, 7, name="bfloat16"),
            _ieee(8, 10, name="tf32"),
            _ieee(5, 2, name="float8_e5m2"),
            _ieee(4, 3, nan="top", name="float8_e4m3fn"),
            _ieee(5, 2, bias=16, nan="negative-zero", name="float8_e5m2fnuz"),
            _ieee(4, 3, bias=8, nan="negative-zero", name="float8_e4m3fnuz"),
            _ieee(4, 3, bias=11, nan="negative-zero", name="float8_e4m3b11fnuz"),
            _ieee(4, 3, name="float8_e4m3"),
            _ieee(3, 4, name="float8_e3m4"),
            _ieee(3, 2, nan="none", name="float6_e3m2fn"),
            _ieee(2, 3, nan="none", name="float6_e2m3fn"),
            _ieee(2, 1, nan="none", name="float4_e2m1fn"),
            _ieee(8, 0, signed=False, zero=False, nan="top", name="float8_e8m0fnu"),
            *(p3109(8, precision) for precision in range(1, 8)),
        )
    }
)
"""The formats with names: IEEE 754 (2019), bfloat16 and tf32, those of OCP (OFP8 and MX 1.0, 2023) and of ml_dtypes of
8, 6 and 4 bits, and the signed extended ones of IEEE P3109 of 8 bits."""

# Compared without case, blanks, hyphens and underscores.
_ALIASES = {
    "binary16": ("float16", "fp16", "f16", "half", "e5m10"),
    "binary32": ("float32", "fp32", "f32", "single", "e8m23"),
    "binary64": ("float64", "fp64", "f64", "double", "float", "e11m52"),
    "binary128": ("float128", "fp128", "f128", "quad", "quadruple", "e15m112"),
    "bfloat16": ("bf16", "brain float", "e8m7"),
    "tf32": ("tensorfloat32", "tensor float 32", "tfloat32", "e8m10"),
    "float8_e5m2": ("fp8 e5m2", "e5m2", "ocp e5m2", "ofp8 e5m2"),
    "float8_e4m3fn": ("fp8 e4m3fn", "e4m3fn", "ocp e4m3", "ofp8 e4m3"),
    "float8_e5m2fnuz": ("fp8 e5m2fnuz", "e5m2fnuz"),
    "float8_e4m3fnuz": ("fp8 e4m3fnuz", "e4m3fnuz"),
    "float8_e4m3b11fnuz": ("fp8 e4m3b11fnuz", "e4m3b11fnuz", "fp8 e4m3b11", "e4m3b11", "float8 e4m3b11"),
    "float8_e3m4": ("fp8 e3m4", "e3m4"),
    "float6_e3m2fn": ("fp6 e3m2fn", "e3m2fn", "fp6 e3m2", "e3m2", "ocp e3m2", "float6 e3m2"),
    "float6_e2m3fn": ("fp6 e2m3fn", "e2m3fn", "fp6 e2m3", "e2m3", "ocp e2m3", "float6 e2m3"),
    "float4_e2m1fn": ("fp4 e2m1fn", "e2m1fn", "fp4 e2m1", "e2m1", "ocp e2m1", "float4 e2m1", "fp4", "float4"),
    "float8_e8m0fnu": ("fp8 e8m0fnu", "e8m0fnu", "fp8 e8m0", "e8m0", "ocp e8m0", "float8 e8m0"),
}
_E4M3 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e4m3")
_EIGHT = tuple(name for name, fmt in FORMATS.items() if fmt.bits == 8)
_AMBIGUOUS = {
    "e4m3": _E4M3,
    "fp8e4m3": _E4M3,
    "float8e4m3": _E4M3,
    "fp8": _EIGHT,
    "float8": _EIGHT,
    "fp6": ("float6_e3m2fn", "float6_e2m3fn"),
    "float6": ("float6_e3m2fn", "float6_e2m3fn"),
}


def plain_name(name: str) -> str:
    """Return the name of a format as names are compared."""
    return re.sub(r"[\s_-]", "", name).lower()


def stores_blocks(name: Any) -> bool:
    """Return whether it is a `BlockFormat`, whose file imports this one, or a name as those have."""
    return hasattr(name, "element") or (
        isinstance(name, str) and plain_name(name).startswith(("mxfp", "mxint", "nvfp"))
    )


_NAMES = {plain_name(alias): name for name in FORMATS for alias in (name, *_ALIASES.get(name, ()))}
_P3109 = re.compile(r"(?:p3109)?k(\d{1,2})p(\d{1,2})([su]?)([ef]?)|binary(\d{1,2})p(\d{1,2})([su]?)([ef]?)")


def format(name: Any) -> FloatFormat:
    """Return the format with a name, or of a NumPy dtype.

    Parameters
    ----------
    name : str, dtype, or FloatFormat
        One of these: a name in `FORMATS` or another usual name ("fp16", "half", "bf16", "fp8 e5m2"); a format of IEEE
        P3109 ("k8p3", "k6p2uf"); a floating-point dtype of NumPy, ml_dtypes or torch, or its name; a format itself.
        Case, blanks, hyphens and underscores in names don't matter.

    Returns
    -------
    FloatFormat

    Raises
    ------
    OptionError
        If there is no such format, if the name could mean several formats, or if it is a format of blocks.
    DTypeError
        If the dtype isn't a binary floating-point format.

    Examples
    --------
    >>> format("bf16")
    <FloatFormat bfloat16: 1 + 8 + 7 bits, bias 127, max 3.3895313892515355e+38, inf, nan>
    >>> format(np.float16).smallest_subnormal == 2.0**-24
    True
    >>> format("fp8 e4m3")
    Traceback (most recent call last):
    recfact.errors.OptionError: format must name one format, got 'fp8 e4m3'; that could mean float8_e4m3fn ...
    """
    if isinstance(name, FloatFormat):
        return name
    if stores_blocks(name):
        raise OptionError(
            "must be one of single numbers",
            "format",
            given=str(name),
            advice="formats of blocks (recfact.precision.block_format) only store numbers; pass the numbers that their "
            "round returns, and the format of what is computed with them",
        )
    if not isinstance(name, str):
        return _of_dtype(name)
    if name.lower() in FORMATS:
        return FORMATS[name.lower()]
    plain = plain_name(name)
    if plain in _AMBIGUOUS:
        meant = _described(_AMBIGUOUS[plain])
        raise OptionError(
            "must name one format", "format", given=name, advice=f"that could mean {meant}; use one of these names"
        )
    if plain in _NAMES:
        return FORMATS[_NAMES[plain]]
    if match := _P3109.fullmatch(plain):
        bits, precision, sign, domain = (part for part in match.groups() if part is not None)
        return p3109(int(bits), int(precision), signed=sign != "u", extended=domain != "f")
    try:
        return _of_dtype(np.dtype(name) if name.lstrip("<>=|")[:1] in "defg" else name)
    except (TypeError, ValueError, SyntaxError, DTypeError):
        hint = (
            did_you_mean(plain, _NAMES | {family: family for family in _AMBIGUOUS}) or f"there are {', '.join(FORMATS)}"
        )
        raise OptionError("must be the name of a floating-point format", "format", given=name, advice=hint) from None


def _described(names: tuple[str, ...]) -> str:
    if len(names) > 6:
        return ", ".join(names)
    return ", ".join(f"{name} ({repr(FORMATS[name]).split(', ', 2)[2].rstrip('>')})" for name in names)


def _of_dtype(kind: Any) -> FloatFormat:
    if type(kind).__module__ == "torch":
        name = str(kind).removeprefix("torch.")
    else:
        try:
            name = np.dtype(kind).name if isinstance(kind, type | np.dtype) else ""
        except TypeError:
            name = ""
    name = next((kind.format for kind in REALS.values() if kind.dtype.name == name), name)
    if name not in FORMATS:
        raise DTypeError(
            f"format must be a name, a FloatFormat, or a floating-point dtype of at most 64 bits, got {shown(kind)}; "
            "FloatFormat.from_bits makes other formats"
        )
    return FORMATS[name]
