"""The block-scaled formats that have names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from recfact.errors import OptionError
from recfact.precision.formats.block_scaled import BlockFormat
from recfact.precision.formats.catalogue import FORMATS, plain_name, stores_blocks
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.fixed_point import fixed_point
from recfact.precision.formats.float_format import FloatFormat

BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            *(
                BlockFormat(name, FORMATS[element], 32, FORMATS["float8_e8m0fnu"])
                for name, element in (
                    ("mxfp8_e5m2", "float8_e5m2"),
                    ("mxfp8_e4m3", "float8_e4m3fn"),
                    ("mxfp6_e3m2", "float6_e3m2fn"),
                    ("mxfp6_e2m3", "float6_e2m3fn"),
                    ("mxfp4", "float4_e2m1fn"),
                )
            ),
            BlockFormat("mxint8", fixed_point("int8", 6), 32, FORMATS["float8_e8m0fnu"]),
            BlockFormat("nvfp4", FORMATS["float4_e2m1fn"], 16, FORMATS["float8_e4m3fn"], FORMATS["binary32"]),
        )
    }
)
"""The block-scaled formats with names: those of OCP MX 1.0 (2023), and NVIDIA's NVFP4."""


_NAMES = {**{plain_name(name): name for name in BLOCK_FORMATS}, "mxfp4e2m1": "mxfp4", "nvfp4e2m1": "nvfp4"}


def block_format(name: Any) -> BlockFormat:
    """Return the block-scaled format with a name.

    Parameters
    ----------
    name : str or BlockFormat
        A name in `BLOCK_FORMATS`, or a format itself. Case, blanks, hyphens and underscores don't matter.

    Returns
    -------
    BlockFormat

    Raises
    ------
    OptionError
        If there is no such format.

    Notes
    -----
    OCP Microscaling Formats (MX) Specification 1.0 (2023), and NVIDIA's NVFP4; see the page on number formats.

    Examples
    --------
    >>> block_format("MXFP8 E4M3")
    <BlockFormat mxfp8_e4m3: 32 of float8_e4m3fn share a float8_e8m0fnu, 8.25 bits a number>
    """
    if isinstance(name, BlockFormat):
        return name
    if isinstance(name, str) and plain_name(name) in _NAMES:
        return BLOCK_FORMATS[_NAMES[plain_name(name)]]
    raise OptionError(
        "must be the name of a block-scaled format",
        "format",
        given=name,
        advice=f"there are {', '.join(BLOCK_FORMATS)}; BlockFormat makes others",
    )


def number_format(name: Any) -> FloatFormat | BlockFormat:
    """Return the format with a name, of single numbers or of blocks.

    Raises
    ------
    OptionError, DTypeError
        As `format` and `block_format` do.

    Examples
    --------
    >>> number_format("bf16").bits, number_format("mxfp4").bits
    (16, 4.25)
    """
    if stores_blocks(name):
        return block_format(name)
    try:
        return format_of(name)
    except OptionError as error:
        if error.advice.startswith("there are"):
            error.advice += f", and of blocks {', '.join(BLOCK_FORMATS)}"
        raise
