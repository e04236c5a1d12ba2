"""The constructions of the blocks of L side by side: over coefficients, block lengths and formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import LONGEST, choice, positive_integer, several
from recfact.containers import without_labels
from recfact.errors import ShapeError
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.materialization.coefficient_families import COEFFICIENT_FAMILIES
from recfact.precision.materialization.construction_errors import MaterializationErrors, materialization_errors
from recfact.precision.materialization.construction_table import ConstructionRow, MaterializationTable
from recfact.precision.materialization.constructions import METHODS


def materialization_table(
    coefficients: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    block: int | Sequence[int] = 16,
    format: Any = ("float16", "bfloat16", "float32"),
    accumulate: Any = (None, "float32"),
    method: str | Sequence[str] = METHODS,
    blocks: int = 200,
    seed: int = 0,
    axis: int = -1,
) -> MaterializationTable:
    """Compare the constructions of the blocks of L over coefficients, block lengths and formats.

    Parameters
    ----------
    coefficients : sequence of str, or mapping of str to array_like, optional
        Names of `COEFFICIENT_FAMILIES` to draw from, all of them by default; or your own coefficients by name,
        cut into consecutive blocks along `axis`. Steps that don't fill a block are left out.
    block : int or sequence of int, default 16
        Block lengths.
    format, accumulate : str, dtype, FloatFormat, or sequence of these
        Formats of coefficients and result, and formats of the operations; None stands for that of the coefficients.
        Every pair is a case, but none appears twice.
    method : str or sequence of str
        The constructions to compare.
    blocks : int, default 200
        Number of blocks to draw.
    seed : int, default 0
        Seed of the draws. A family is drawn once for a block length and rounded to each format.
    axis : int, default -1
        The axis of your own coefficients along which the recurrence runs.

    Returns
    -------
    MaterializationTable

    Raises
    ------
    OptionError
        If there is no such family, method or format, float64 doesn't hold a format, or a coefficient isn't finite in
        one.
    ShapeError
        If coefficients are shorter than a block, or have no such axis.

    Notes
    -----
    The constructions' sources stand with `recfact.materialize`; how they are measured is said on the page on blocks as
    dense matrices.

    Examples
    --------
    >>> families = ["10% zeros", "1 - U(0, 1/32)"]
    >>> print(
    ...     materialization_table(families, format="bfloat16", accumulate=None, method=("cumprod", "segsum", "ratio"))
    ... )
    relative error in %, median / largest, and failures in % of the entries
    coefficients    block  format    cumprod     segsum        ratio              use
    10% zeros       16     bfloat16  0.15 / 1.7  0.44 / 12     0.2 / 1.4, nan 39  cumprod
    1 - U(0, 1/32)  16     bfloat16  0.14 / 1.5  0.077 / 0.43  0.2 / 2            segsum
    """
    named: Mapping[str, Any]
    if coefficients is None or not isinstance(coefficients, Mapping):
        names = tuple(COEFFICIENT_FAMILIES) if coefficients is None else several(coefficients, "coefficients")
        named = {
            choice(name, "coefficients", tuple(COEFFICIENT_FAMILIES)): COEFFICIENT_FAMILIES[name] for name in names
        }
    else:
        named = coefficients
    blocks, seed = positive_integer(blocks, "blocks", most=LONGEST), positive_integer(seed, "seed", least=0)
    lengths = [positive_integer(length, "block", most=LONGEST) for length in several(block, "block")]
    methods = [choice(each, "method", METHODS) for each in several(method, "method")]
    cases = dict.fromkeys(
        (storage, storage if inside is None else format_of(inside))
        for storage in map(format_of, several(format, "format"))
        for inside in several(accumulate, "accumulate")
    )
    rows = []
    for name, source in named.items():
        for length in lengths:
            a = _draw(source, name, (blocks, length), seed, axis)
            for storage, wide in cases:
                rows += [
                    _row(name, materialization_errors(a, each, format=storage, accumulate=wide)) for each in methods
                ]
    return MaterializationTable(tuple(rows))


def _draw(source: Any, name: str, shape: tuple[int, int], seed: int, axis: int) -> Array:
    """Return blocks of coefficients: drawn, or cut from those given."""
    if callable(source):
        own = [seed, shape[1], *str(name).encode()]
        return as_numpy(source(np.random.default_rng(own), shape), f"coefficients {name!r}")
    source, _, _, axis = without_labels(source, source, None, axis)
    given, length = as_numpy(source, f"coefficients {name!r}"), shape[1]
    time = check_axis(axis, given.ndim) if given.ndim else 0
    if given.ndim == 0 or given.shape[time] < length or given.size == 0:
        raise ShapeError(
            f"coefficients {name!r} must have at least the {length} steps of a block along axis {axis}, and not be "
            f"empty, got shape {given.shape}; pass a shorter block"
        )
    given = np.moveaxis(given, time, -1)
    whole = given.shape[-1] // length * length
    return given[..., :whole].reshape(*given.shape[:-1], -1, length)


def _row(name: str, errors: MaterializationErrors) -> ConstructionRow:
    measured = errors.measured
    p5, p25, median, p75, p95, largest = errors.quantile(0.05, 0.25, 0.5, 0.75, 0.95, 1.0).tolist()
    counted = max(errors.entries, 1)
    return ConstructionRow(
        coefficients=name,
        block=errors.block,
        format=errors.format.name,
        accumulate=errors.accumulate.name,
        method=errors.method,
        blocks=errors.blocks,
        entries=errors.entries,
        measured=measured.size,
        nan=errors.nan / counted,
        inf=errors.inf / counted,
        lost=errors.lost / counted,
        invented=errors.invented / counted,
        zero=errors.zero / counted,
        underflow=errors.underflow / counted,
        overflow=errors.overflow / counted,
        mean=float(measured.mean()) if measured.size else math.nan,
        p5=p5,
        p25=p25,
        median=median,
        p75=p75,
        p95=p95,
        largest=largest,
        ratio=errors.ratio,
    )
