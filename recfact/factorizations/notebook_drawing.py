"""Matrices as small self-contained drawings for notebooks: one SVG square an entry, its opacity the magnitude."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array

DRAWN = 32
"""Rows and columns drawn at most."""

APPLIED = 1 << 16
"""Size beyond which a notebook doesn't wait for products with an operator; only the caption is shown."""

CELL = 10
POSITIVE, NEGATIVE = "#2456a6", "#b3401f"


def draw_corner(operator: LinearOperator) -> str:
    """Return HTML with the leading entries of `operator`, at most `DRAWN` a side, and a caption saying what is shown.

    The caption alone is returned for an empty operator and for one with more than `APPLIED` rows or columns.
    """
    caption = repr(operator)
    rows, columns = (min(size, DRAWN) for size in operator.shape)
    if rows == 0 or columns == 0 or max(operator.shape) > APPLIED:
        return f"<figure><figcaption><code>{escape(caption)}</code></figcaption></figure>"
    if (rows, columns) != operator.shape:
        caption += f", its leading {rows}x{columns} entries"
    unit_columns = np.eye(operator.shape[1], columns, dtype=int).astype(operator.dtype)
    with np.errstate(all="ignore"):  # products that overflow are drawn as they come
        corner = operator.matmat(unit_columns)[:rows]
    return draw(corner, caption)


def draw(matrix: Array, caption: str) -> str:
    """Return HTML that draws a dense `matrix` of shape (rows, columns).

    Opacity is the magnitude relative to the largest finite one; blue is positive or complex, red negative. Scalars
    without a magnitude, such as symbols, are drawn at full strength. Hovering over an entry shows its value.
    """
    rows, columns = matrix.shape
    sizes = np.array([[magnitude(entry) for entry in row] for row in matrix])
    largest = max(sizes[np.isfinite(sizes)], default=0.0) or 1.0
    squares = [
        f'<rect x="{j * CELL}" y="{i * CELL}" width="{CELL - 1}" height="{CELL - 1}" '
        f'fill="{NEGATIVE if is_negative(matrix[i, j]) else POSITIVE}" '
        f'fill-opacity="{0.12 + 0.88 * min(sizes[i, j] / largest, 1.0):.3f}">'
        f"<title>[{i}, {j}] = {escape(str(matrix[i, j]))}</title></rect>"
        for i, j in np.argwhere(sizes != 0)
    ]
    width, height = columns * CELL, rows * CELL
    return (
        f"<figure><figcaption><code>{escape(caption)}</code></figcaption>"
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(caption)}">{"".join(squares)}</svg></figure>'
    )


def magnitude(entry: Any) -> float:
    """Return the absolute value as a float; 1 for a non-zero scalar that has none, infinity for NaN."""
    try:
        size = float(abs(entry))
    except (TypeError, ValueError, OverflowError):  # symbols, intervals, and integers beyond the floats
        return 0.0 if entry == 0 else 1.0
    return np.inf if np.isnan(size) else size


def is_negative(entry: Any) -> bool:
    """Say whether a scalar is known to be a negative real number."""
    try:
        return bool(entry < 0)
    except TypeError:  # complex numbers and symbols have no order
        return False
