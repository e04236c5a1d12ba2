"""How notebooks and figures draw the entries of a matrix: hue shows the sign or phase, opacity the magnitude.

The magnitude is opacity and not lightness, so a drawing looks the same on light and on dark paper. The hues are those
of Okabe and Ito (2008). People with any kind of colour vision can tell them apart.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from recfact.arrays import Array

BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"

UNIT = "#7f8793"
"""The ones of an identity, and what a window drops."""

DECADES = 4
"""Powers of ten between the full and the faintest opacity."""

FAINTEST = 0.2
"""Opacity of the smallest entries: less can't be seen on dark paper."""

PHASES = {"1": BLUE, "i": GREEN, "−1": VERMILLION, "−i": PURPLE}
"""Hues of complex numbers by their phase, a quarter turn apart; those between are mixed."""


def magnitudes(matrix: Array) -> Array:
    """Return the absolute values as float64: 1 for a non-zero scalar that has none, infinity for NaN."""
    if matrix.dtype != object:
        sizes = np.abs(matrix).astype(np.float64)
        return np.where(np.isnan(sizes), np.inf, sizes)
    return np.array([_magnitude(entry) for entry in matrix.flat], dtype=np.float64).reshape(matrix.shape)


def _magnitude(entry: Any) -> float:
    try:
        size = float(abs(entry))
    except (TypeError, ValueError, OverflowError):  # symbols, intervals, and integers beyond the floats
        return 0.0 if entry == 0 else 1.0
    return math.inf if math.isnan(size) else size


def full_scale(*matrices: Array) -> float:
    """Return the magnitude to draw at full opacity: the largest finite one, or 1 if all entries are 0."""
    sizes = np.concatenate([magnitudes(matrix).ravel() for matrix in matrices])
    return float(sizes[np.isfinite(sizes)].max(initial=0.0)) or 1.0


def opacities(matrix: Array, scale: float) -> Array:
    """Return the opacity of each entry.

    It falls with the logarithm of the magnitude, from 1 at `scale` to `FAINTEST` at 10^-DECADES times `scale` and
    below. Zeros are transparent. Infinity and NaN look like the largest entry.

    Examples
    --------
    >>> opacities(np.array([[1.0, 0.0, 0.01]]), 1.0).round(3).tolist()
    [[1.0, 0.0, 0.6]]
    """
    sizes = magnitudes(matrix)
    with np.errstate(divide="ignore"):
        level = 1 + (np.log10(sizes) - math.log10(scale)) / DECADES
    return np.where(sizes > 0, FAINTEST + (1 - FAINTEST) * np.clip(level, 0, 1), 0.0)


def hues(matrix: Array) -> Array:
    """Return a colour for each entry: blue if positive, vermillion if negative, grey for ones on the diagonal.

    Complex numbers have the colour of their phase. Scalars without a sign, such as symbols, are blue.
    """
    different, where = np.unique(phases(matrix), return_inverse=True)
    colours = np.array([phase_hue(phase) for phase in different.tolist()], dtype="<U7")[where.reshape(matrix.shape)]
    unit = (np.arange(matrix.shape[0])[:, None] == np.arange(matrix.shape[1])) & np.asarray(matrix == 1, dtype=bool)
    return np.where(unit, UNIT, colours)


def phase_hue(phase: float) -> str:
    """Return the colour of a complex number by its phase in radians.

    Examples
    --------
    >>> phase_hue(0.0) == BLUE, phase_hue(cmath.pi) == phase_hue(-cmath.pi) == VERMILLION, phase_hue(cmath.pi / 4)
    (True, True, '#008892')
    """
    wheel = list(PHASES.values())
    quarter, share = divmod(round(phase * 2 / math.pi, 9) % 4, 1)
    share = round(share, 9)  # the same after whole turns
    ends = (wheel[int(quarter) % 4], wheel[(int(quarter) + 1) % 4])
    first, second = ([int(hue[at : at + 2], 16) for at in (1, 3, 5)] for hue in ends)
    return "#" + "".join(f"{round(x + share * (y - x)):02x}" for x, y in zip(first, second, strict=True))


def phases(matrix: Array) -> Array:
    """Return the phase of each entry in radians: 0 for NaN and for scalars without a sign."""
    if matrix.dtype != object:
        angles = np.angle(matrix.astype(np.complex128))
        return np.where(np.isnan(angles), 0.0, angles)
    return np.array([_phase(entry) for entry in matrix.flat], dtype=np.float64).reshape(matrix.shape)


def _phase(entry: Any) -> float:
    try:
        phase = cmath.phase(complex(entry))
        return 0.0 if math.isnan(phase) else phase
    except (TypeError, ValueError, OverflowError):  # symbols, intervals, and integers beyond the floats
        return math.pi if _is_negative(entry) else 0.0


def _is_negative(entry: Any) -> bool:
    try:
        return bool(entry < 0)
    except TypeError:  # symbols have no order
        return False


def has_phases(matrix: Array) -> bool:
    """Say whether some entry is a complex number that isn't real."""
    return bool((np.abs(np.sin(phases(matrix))) > 1e-12).any())


def key_entries(*matrices: Array) -> list[tuple[str, float, str]]:
    """Return the key to the colours of matrices: the phases or signs, and the magnitudes if there are several.

    Each entry has a colour, an opacity and what they mean.

    Examples
    --------
    >>> [text for _, _, text in key_entries(np.array([[1.0, -0.5]]))]
    ['positive', 'negative', '1', '0.1', '0.01', '0.001', '≤ 0.0001']
    """
    scale, sizes = full_scale(*matrices), np.concatenate([magnitudes(matrix).ravel() for matrix in matrices])
    entries: list[tuple[str, float, str]] = []
    if any(has_phases(matrix) for matrix in matrices):
        entries += [(hue, 1.0, f"phase of {name}") for name, hue in PHASES.items()]
    elif any((hues(matrix) == VERMILLION).any() for matrix in matrices):
        entries += [(BLUE, 1.0, "positive"), (VERMILLION, 1.0, "negative")]
    if np.any((sizes > 0) & (sizes != scale)):
        levels = scale * 10.0 ** -np.arange(DECADES + 1)
        shown = [f"{level:.3g}" for level in levels]
        shown[-1] = f"≤ {shown[-1]}"
        opacity = opacities(levels[:, None], scale)[:, 0]
        entries += [(BLUE, float(level), text) for level, text in zip(opacity, shown, strict=True)]
    return entries
