"""The horizons of number formats side by side: the paper's table, and more formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from recfact.errors import OptionError
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.horizons.actual_horizons import actual_horizon, stored_coefficient
from recfact.precision.horizons.horizon import KINDS, UNDERFLOWS, exact_magnitude, horizon
from recfact.printed_table import Column, PrintedTable, Row
from recfact.written_numbers import Power, given, scientific, short

PAPER_FORMATS = ("binary32", "binary16", "bfloat16", "float8_e5m2", "float8_e4m3fn")
"""The formats of the paper's table, in its order."""


def horizon_table(formats: Any = None, rho: Any = None) -> PrintedTable:
    """Return the computational horizons of formats, as a table that prints itself.

    Parameters
    ----------
    formats : name, FloatFormat, dtype, or an iterable of them, optional
        All of `recfact.precision.FORMATS` if not given, those of the paper's table first.
    rho : number or str, or a list or tuple of them, optional
        Bounds on the coefficients. They are taken exactly, as `horizon` does. If not given, the bound is the largest
        number below 1 of each format, because no stored coefficient below 1 exceeds it.

    Returns
    -------
    PrintedTable
        It prints itself. ``table.rows`` holds one dict for each format and rho. Its names are ``format``,
        ``fraction_bits``, ``exponent_bits``, ``bias``, ``rho`` and ``emin`` (the smallest normal number is 2^emin), and
        for the horizons ``normal``, ``subnormal``, ``tail_normal`` and ``tail_subnormal``. Horizons that need
        subnormals are None for a format without them.

    Raises
    ------
    OptionError
        If there is no such format, or a rho is negative or NaN.

    Notes
    -----
    The columns are those of the table in the sliding window recurrences paper, and two more for the tail horizons.

    Examples
    --------
    >>> print(horizon_table(["fp32", "e4m3fn"]))
    format          p  e bits  bias        rho     eps  eps 2^-p   k for eps  k for eps 2^-p
    binary32       23       8   127  1 - 2^-24  2^-126    2^-149  1465264032      1732732863
    float8_e4m3fn   3       4     7     0.9375    2^-6      2^-9          64              96
    <BLANKLINE>
    format         tail for eps  tail for eps 2^-p
    binary32         1744361943         2011830774
    float8_e4m3fn           107                139
    >>> [row["normal"] for row in horizon_table("half", rho=["0.9", "0.99"])]
    [92, 965]
    """
    rates = list(rho) if isinstance(rho, list | tuple) else [rho]
    rows = tuple(_row(fmt, rate) for fmt in several_formats(formats) for rate in rates)
    return PrintedTable(rows, _COLUMNS, _NAMES)


def several_formats(formats: Any) -> list[FloatFormat]:
    """Return the formats that an argument names: one or several. None means all of the catalogue."""
    if formats is None:
        return [FORMATS[name] for name in dict.fromkeys((*PAPER_FORMATS, *FORMATS))]
    single = isinstance(formats, str | FloatFormat | type) or getattr(formats, "shape", None) == ()
    if single or not isinstance(formats, Iterable):
        formats = [formats]
    return [format_of(fmt) for fmt in formats]


def _row(fmt: FloatFormat, rate: Any) -> Row:
    rho = fmt.largest_below_one if rate is None else exact_magnitude(rate, "rho")
    horizons = {
        ("tail_" if kind == "tail" else "") + underflow: horizon(rho, fmt, kind, underflow)
        if fmt.subnormals or underflow == "normal"
        else None
        for kind in KINDS
        for underflow in UNDERFLOWS
    }
    return {
        "format": fmt.name,
        "fraction_bits": fmt.fraction_bits,
        "exponent_bits": fmt.exponent_bits,
        "bias": fmt.bias,
        "rho": rho,
        "emin": fmt.emin,
        **horizons,
    }


def _smallest(row: Row) -> Power | None:
    return None if row["subnormal"] is None else Power(row["emin"] - row["fraction_bits"])


def actual_horizon_table(formats: Any = None, rho: Any = None) -> PrintedTable:
    """Return how far back an input matters if products are rounded, beside the horizons of exact products.

    Parameters
    ----------
    formats : name, FloatFormat, dtype, or an iterable of them, optional
        All of `recfact.precision.FORMATS` if not given, those of the paper's table first.
    rho : number or str, or a list or tuple of them, optional
        Coefficients, each rounded to the format. If not given, the largest number below 1 of each format.

    Returns
    -------
    PrintedTable
        It prints itself. If a weight stagnates, it prints at which value and from which lag on. Its rows have the names
        ``format`` and ``rho``, and these:

        * ``normal`` and ``subnormal``: the pointwise horizons of exact products.
        * ``nearest``, ``toward_zero`` and ``flushed``: the last lag with a weight other than zero, for products in
          order. They are rounded to nearest even, truncated, or rounded to nearest with subnormals flushed.
        * ``kogge_stone``: the same lag for the products of Kogge-Stone.
        * ``fp32``: the same lag for products in order in binary32. ``fp32_normal`` is the last lag with a normal
          weight there.
        * ``..._stays_at`` and ``..._stays_from``: where a weight stagnates. Its horizon is infinite. None if the weight
          becomes zero.

        None also stands for what a format can't do (it has no zero, or binary32 doesn't hold it), and for powers that
        would take too long to follow.

    Raises
    ------
    OptionError
        If there is no such format, or a rho is negative or NaN.

    Notes
    -----
    Derived on the page on computational horizons ("What really happens").

    Examples
    --------
    >>> print(actual_horizon_table(["fp16", "e4m3fn"]))
    format               rho  exact normal  exact subnormal          nearest  toward zero  flushed
    binary16       1 - 2^-11         19869            34061  2^-14 from 14336        15359    14336
    float8_e4m3fn     0.9375            64               96     2^-6 from 48           55       48
    ...
    """
    rates = list(rho) if isinstance(rho, list | tuple) else [rho]
    rows = tuple(_actual_row(fmt, rate) for fmt in several_formats(formats) for rate in rates)
    return PrintedTable(rows, _ACTUAL_COLUMNS, _ACTUAL_NAMES)


_VARIANTS: dict[str, dict[str, str]] = {
    "nearest": {},
    "toward_zero": {"rounding": "toward-zero"},
    "flushed": {"underflow": "flush-after"},
    "kogge_stone": {"algorithm": "kogge-stone"},
    "fp32": {"algorithm": "fp32-accumulate"},
}


def _actual_row(fmt: FloatFormat, rate: Any) -> Row:
    stored = fmt.largest_below_one if rate is None else stored_coefficient(fmt, rate)
    row: dict[str, Any] = {
        "format": fmt.name,
        "rho": stored,
        "normal": horizon(stored, fmt),
        "subnormal": horizon(stored, fmt, underflow="subnormal") if fmt.subnormals else None,
    }
    for name, options in _VARIANTS.items():
        try:
            actual = actual_horizon(fmt, stored, **options)
        except OptionError:  # not in this format, or too long
            actual = None
        row[name] = actual and actual.last_nonzero
        row[f"{name}_stays_at"] = actual and actual.stagnates_at
        row[f"{name}_stays_from"] = actual and actual.stagnates_from
    row["fp32_normal"] = actual and actual.last_normal
    return row


DIGITS = 10
"""Digits of the longest lag that is printed in full; the rows hold all of them exactly."""


def _lag(name: str) -> Callable[[Row], Any]:
    """Return the cell for a lag; a long one is written in decimal with an exponent."""

    def cell(row: Row) -> Any:
        lag = row[name]
        return scientific(math.log10(lag)) if isinstance(lag, int) and lag >= 10**DIGITS else lag

    return cell


_COLUMNS = (
    Column("format", "Format", lambda row: row["format"], words=True),
    Column("p", "$p$", lambda row: row["fraction_bits"]),
    Column("e bits", "$e$ bits", lambda row: row["exponent_bits"]),
    Column("bias", "Bias", lambda row: row["bias"]),
    Column("rho", r"$\rho$", lambda row: given(row["rho"])),
    Column("eps", r"$\epsilon$", lambda row: Power(row["emin"])),
    Column("eps 2^-p", r"$\epsilon \cdot 2^{-p}$", _smallest),
    Column("k for eps", "$k$ (normal)", _lag("normal")),
    Column("k for eps 2^-p", "$k$ (with subnormals)", _lag("subnormal")),
    Column("tail for eps", "tail $k$ (normal)", _lag("tail_normal")),
    Column("tail for eps 2^-p", "tail $k$ (with subnormals)", _lag("tail_subnormal")),
)
_NAMES = (
    "format", "fraction_bits", "exponent_bits", "bias", "rho", "emin",
    "normal", "subnormal", "tail_normal", "tail_subnormal",
)  # fmt: skip


def _last(name: str) -> Callable[[Row], Any]:
    """Return the cell for the last lag, or for the value at which a weight stays and the lag from which it does."""

    def cell(row: Row) -> Any:
        if row[f"{name}_stays_at"] is None:
            return row[name]
        return [short(row[f"{name}_stays_at"]), f" from {row[f'{name}_stays_from']}"]

    return cell


_ACTUAL_COLUMNS = (
    Column("format", "Format", lambda row: row["format"], words=True),
    Column("rho", r"$\rho$", lambda row: given(row["rho"])),
    Column("exact normal", "exact (normal)", _lag("normal")),
    Column("exact subnormal", "exact (with subnormals)", _lag("subnormal")),
    Column("nearest", "nearest", _last("nearest")),
    Column("toward zero", "toward zero", _last("toward_zero")),
    Column("flushed", "flushed", _last("flushed")),
    Column("Kogge-Stone", "Kogge-Stone", _last("kogge_stone")),
    Column("in fp32, normal", "in fp32 (normal)", lambda row: row["fp32_normal"]),
    Column("in fp32", "in fp32", _last("fp32")),
)
_ACTUAL_NAMES = (
    "format", "rho", "normal", "subnormal",
    *(f"{name}{part}" for name in _VARIANTS for part in ("", "_stays_at", "_stays_from")),
    "fp32_normal",
)  # fmt: skip
