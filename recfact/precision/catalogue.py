"""The number formats by name."""

from __future__ import annotations

from types import MappingProxyType

from recfact.errors import OptionError
from recfact.precision.formats import FloatFormat

_make = FloatFormat.from_bits
FORMATS = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            _make(5, 10, name="binary16"),
            _make(8, 23, name="binary32"),
            _make(11, 52, name="binary64"),
            _make(15, 112, name="binary128"),
            _make(8, 7, name="bfloat16"),
            _make(8, 10, name="tf32"),
            _make(4, 3, nan="top", name="float8_e4m3fn"),
            _make(5, 2, name="float8_e5m2"),
            _make(4, 3, bias=8, nan="negative-zero", name="float8_e4m3fnuz"),
            _make(5, 2, bias=16, nan="negative-zero", name="float8_e5m2fnuz"),
            _make(4, 3, bias=11, nan="negative-zero", name="float8_e4m3b11fnuz"),
            _make(4, 3, name="float8_e4m3"),
            _make(3, 4, name="float8_e3m4"),
            _make(3, 2, nan="none", name="float6_e3m2fn"),
            _make(2, 3, nan="none", name="float6_e2m3fn"),
            _make(2, 1, nan="none", name="float4_e2m1fn"),
            _make(8, 0, signed=False, zero=False, nan="top", name="float8_e8m0fnu"),
        )
    }
)
_ALIASES = {"float16": "binary16", "fp16": "binary16", "float32": "binary32", "fp32": "binary32", "float64": "binary64", "bf16": "bfloat16", "fp8 e5m2": "float8_e5m2"}


def format(name: str | FloatFormat) -> FloatFormat:  # noqa: A001
    """Return the format of a name."""
    if isinstance(name, FloatFormat):
        return name
    name = _ALIASES.get(str(name), str(name))
    if name in FORMATS:
        return FORMATS[name]
    raise OptionError(f"unknown format {name!r}")
