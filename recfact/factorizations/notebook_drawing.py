"""Small self-contained drawings of matrices and of products for notebooks. Every entry is an SVG square.

Frames and letters have the colour of the text around them, so the drawings can be read on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from recfact.arrays import Array
from recfact.factorizations.matrix_looks import full_scale, hues, key_entries, opacities

DRAWN = 32
"""Rows and columns drawn at most."""

APPLIED = 1 << 16
"""Size beyond which a notebook doesn't wait for products with an operator; only the caption is shown."""

CELL, SMALL, SIDE = 10, 4, 160
"""Side of a square, in pixels, and in a product the least one and the side of a matrix that is aimed at."""


def draw_corner(operator: LinearOperator) -> str:
    """Return HTML with the leading entries of `operator`, at most `DRAWN` per side, and a caption that says so.

    An empty operator, and one with more than `APPLIED` rows or columns, gives the caption alone.
    """
    caption = repr(operator)
    if not _is_drawn(operator):
        return _figure(caption)
    corner = _corner(operator)
    if corner.shape != operator.shape:
        caption += f", its leading {corner.shape[0]}x{corner.shape[1]} entries"
    return draw(corner, caption)


def draw(matrix: Array, caption: str) -> str:
    """Return HTML that draws a dense `matrix` of shape (rows, columns), with a key of its colours.

    Hue and opacity are those of `recfact.factorizations.matrix_looks`. Hovering over an entry shows its value.
    """
    return _figure(caption, _svg(matrix, full_scale(matrix), CELL, caption), _key([matrix]))


def draw_product(caption: str, pieces: Sequence[tuple[str, str, Any]]) -> str:
    """Return HTML that draws operators side by side in one scale of opacity, as a formula.

    Parameters
    ----------
    caption : str
        What is drawn.
    pieces : sequence of (str, str, Operator)
        The sign before each operator, its name, and the operator.
    """
    if not all(_is_drawn(operator) for _, _, operator in pieces):
        return _figure(caption)
    corners = [_corner(operator) for _, _, operator in pieces]
    if any(corner.shape != operator.shape for corner, (_, _, operator) in zip(corners, pieces, strict=True)):
        caption += f", at most {DRAWN} leading rows and columns of each"
    scale = full_scale(*corners)
    cell = max(SMALL, min(CELL, SIDE // max(max(corner.shape) for corner in corners)))
    drawn = [
        f"<span>{escape(sign)}</span>" * bool(sign)
        + f'<div style="text-align: center"><small>{escape(name)}</small><br>{_svg(corner, scale, cell, name)}</div>'
        for corner, (sign, name, _) in zip(corners, pieces, strict=True)
    ]
    row = f'<div style="display: flex; flex-wrap: wrap; align-items: center; gap: 8px">{"".join(drawn)}</div>'
    return _figure(caption, row, _key(corners))


def _is_drawn(operator: LinearOperator) -> bool:
    return min(operator.shape) > 0 and max(operator.shape) <= APPLIED


def _corner(operator: Any) -> Array:
    with np.errstate(all="ignore"):  # products that overflow are drawn as they come
        corner: Array = operator[:DRAWN, :DRAWN]
    return corner


def _figure(caption: str, *parts: str) -> str:
    return f"<figure><figcaption><code>{escape(caption)}</code></figcaption>{''.join(parts)}</figure>"


def _svg(matrix: Array, scale: float, cell: int, label: str) -> str:
    """Return the squares of a matrix in a frame."""
    rows, columns = matrix.shape
    opacity, colours = opacities(matrix, scale), hues(matrix)
    squares = [
        f'<rect x="{j * cell + 1.5}" y="{i * cell + 1.5}" width="{cell - 1}" height="{cell - 1}" '
        f'fill="{colours[i, j]}" fill-opacity="{opacity[i, j]:.3f}">'
        f"<title>[{i}, {j}] = {escape(str(matrix[i, j]))}</title></rect>"
        for i, j in np.argwhere(opacity > 0)
    ]
    width, height = columns * cell + 2, rows * cell + 2
    frame = (
        f'<path d="M.5 .5H{width - 0.5}V{height - 0.5}H.5Z" fill="none" stroke="currentColor" stroke-opacity=".45"/>'
    )
    return (
        f'<svg style="display: block" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">{frame}{"".join(squares)}</svg>'
    )


def _key(matrices: Sequence[Array]) -> str:
    """Return the key to the colours of matrices."""
    items = "".join(
        '<small style="white-space: nowrap; margin-right: 1em">'
        '<svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">'
        f'<path d="M0 0H10V10H0Z" fill="{hue}" fill-opacity="{opacity:.3f}"/></svg> {escape(text)}</small>'
        for hue, opacity, text in key_entries(*matrices)
    )
    return f"<div>{items}</div>" if items else ""
