"""The constructions of the blocks of L side by side: over coefficients, block lengths and formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from recfact.arrays import Array, as_numpy, check_axis
from recfact.checks import LONGEST, choice, positive_integer, several
from recfact.containers import without_labels
from recfact.errors import ShapeError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.materialization.construction_errors import MaterializationErrors, MeasuredBlocks
from recfact.precision.materialization.construction_table import ConstructionRow, MaterializationTable
from recfact.precision.materialization.constructions import METHODS

Family = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _gates(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return the logistic function of normal variates, as in an untrained gate."""
    return 1 / (1 + np.exp(-rng.standard_normal(shape)))


def _with_resets(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.1, 0.0, _gates(rng, shape))


def _first_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return gates with a zero at the start of each block, which isn't part of L."""
    gates = _gates(rng, shape)
    gates[..., 0] = 0
    return gates


COEFFICIENT_FAMILIES: dict[str, Family] = {
    "sigmoid(N)": _gates,
    "U(0, 1)": lambda rng, shape: rng.uniform(0, 1, shape),
    "U(0.9, 1)": lambda rng, shape: rng.uniform(0.9, 1, shape),
    "1 - U(0, 1/32)": lambda rng, shape: 1 - rng.uniform(0, 1 / 32, shape),
    "U(1, 1.05)": lambda rng, shape: rng.uniform(1, 1.05, shape),
    "U(-1, 1)": lambda rng, shape: rng.uniform(-1, 1, shape),
    "10% zeros": _with_resets,
    "first one zero": _first_zero,
}
"""Draws of coefficients, of a generator and a shape (blocks, block): logistic gates, uniform ones, slow decay, slow
growth, both signs, gates with resets, and gates whose block begins with a reset."""


ARITHMETICS = tuple(
    dict.fromkeys(
        Arithmetic(name, accumulate) for name in ("float16", "bfloat16", "float32") for accumulate in (None, "float32")
    )
)


def materialization_table(
    coefficients: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    block: int | Sequence[int] = 16,
    format: Any = ARITHMETICS,
    method: str | Sequence[str] = METHODS,
    blocks: int = 200,
    seed: int = 0,
    axis: int = -1,
) -> MaterializationTable:
    """Compare the constructions of the blocks of L over coefficients, block lengths and formats.

    Parameters
    ----------
    coefficients : sequence of str, or mapping of str to array_like, optional
        Names of `COEFFICIENT_FAMILIES` to draw from, by default all of them. Or your own coefficients by name: they are
        cut into consecutive blocks along `axis`, and steps that don't fill a block are left out.
    block : int or sequence of int, default 16
        Block lengths.
    format : str, dtype, FloatFormat, Arithmetic, or sequence of these
        Formats of coefficients and result, or arithmetics that accumulate in another format. None may appear twice. By
        default these are float16, bfloat16 and float32, each alone and with accumulation in float32.
    method : str or sequence of str
        The constructions to compare.
    blocks : int, default 200
        Number of blocks to draw.
    seed : int, default 0
        Seed of the draws. A family is drawn once for each block length, and then rounded to each format.
    axis : int, default -1
        The axis of your own coefficients along which the recurrence runs.

    Returns
    -------
    MaterializationTable

    Raises
    ------
    OptionError
        If there is no such family, method or format, if float64 doesn't hold a format, or if a coefficient isn't finite
        in one.
    ShapeError
        If coefficients are shorter than a block, or have no such axis.

    Notes
    -----
    `recfact.materialize` names the sources of the constructions. How they are measured is explained on the page on
    blocks as dense matrices.

    Examples
    --------
    >>> families = ["10% zeros", "1 - U(0, 1/32)"]
    >>> print(materialization_table(families, format="bfloat16", method=("cumprod", "segsum", "ratio")))
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
    cases = dict.fromkeys(map(Arithmetic.of, several(format, "format")))
    rows = []
    for name, source in named.items():
        for length in lengths:
            a = _draw(source, name, (blocks, length), seed, axis)
            for how in cases:
                measured = MeasuredBlocks(a, how)
                rows += [_row(name, measured.errors(each)) for each in methods]
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
