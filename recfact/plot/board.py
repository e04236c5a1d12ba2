"""Figures whose parts are placed in inches, matrices among them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.factorizations.matrix_looks import hues, key_entries, opacities
from recfact.plot.style import INK, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 9.2
"""Width of a figure in inches."""


class Board:
    """A figure whose parts are placed by inches from its upper left corner.

    Parameters
    ----------
    width, height : float
        Size in inches.
    """

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=(width, height))
        self.width, self.height = width, height

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return new axes of the given size, in inches, without the lines above and to the right."""
        axes = self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def text(self, left: float, top: float, text: str, **options: Any) -> None:
        """Write `text` at a place, by default centred there."""
        self.figure.text(left / self.width, 1 - top / self.height, text, **{"ha": "center", "va": "center", **options})

    def matrix(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        matrix: Array,
        *,
        title: str = "",
        colours: Array | None = None,
        scale: float = 1.0,
        blocks: int | None = None,
    ) -> Axes:
        """Draw `matrix`, shape (rows, columns), as coloured cells.

        Parameters
        ----------
        left, top, width, height : float
            Place and size, in inches.
        matrix : ndarray, shape (rows, columns)
            The entries.
        title : str
            The title above.
        colours : ndarray of str, shape (rows, columns), optional
            Colour of each entry. By default it follows sign or phase, and the ones of a unit diagonal are grey.
        scale : float
            Magnitude drawn at full opacity.
        blocks : int, optional
            Draw lines after every `blocks` rows and columns.
        """
        rows, columns = matrix.shape
        axes = self.axes(left, top, width, height)
        axes.imshow(
            cell_colours(matrix, colours, scale),
            extent=(0, columns, rows, 0),
            interpolation="none",
            aspect="auto",
        )
        axes.set_axis_off()
        axes.plot(
            [0, 0, columns, columns, 0],
            [0, rows, rows, 0, 0],
            color=INK,
            linewidth=0.8,
            alpha=0.45,
            clip_on=False,
            zorder=3,
        )
        if 72 * min(width / columns, height / rows) > 3:  # in points; smaller cells would disappear between gaps
            axes.hlines(range(1, rows), 0, columns, color=PAPER, linewidth=0.7)
            axes.vlines(range(1, columns), 0, rows, color=PAPER, linewidth=0.7)
        if blocks is not None:
            axes.hlines(range(blocks, rows, blocks), 0, columns, color=INK, linewidth=0.5, alpha=0.45)
            axes.vlines(range(blocks, columns, blocks), 0, rows, color=INK, linewidth=0.5, alpha=0.45)
        if title:
            axes.set_title(title, y=1.0, pad=5)
        return axes

    def key(self, left: float, top: float, *matrices: Array) -> None:
        """Draw the key to the colours of matrices that are drawn at one scale, as in notebooks."""
        from matplotlib.patches import Rectangle

        for hue, opacity, text in key_entries(*matrices):
            where = (left / self.width, 1 - (top + 0.13) / self.height)
            self.figure.add_artist(Rectangle(where, 0.13 / self.width, 0.13 / self.height, color=hue, alpha=opacity))
            self.text(left + 0.18, top + 0.065, text, ha="left", fontsize=7.5)
            left += 0.3 + 0.056 * len(text)


def cell_colours(matrix: Array, colours: Array | None = None, scale: float = 1.0) -> Array:
    """Return the entries of `matrix` as RGBA, shape (rows, columns, 4), with the same looks as in notebooks.

    Examples
    --------
    >>> cell_colours(np.array([[1.0, 0.0, 0.01]]))[0, :, 3].round(3).tolist()
    [1.0, 0.0, 0.6]
    """
    from matplotlib.colors import to_rgb

    names, where = np.unique(hues(matrix) if colours is None else colours, return_inverse=True)
    rgba = np.empty((*matrix.shape, 4))
    rgba[..., :3] = np.array([to_rgb(name) for name in names.tolist()])[where.reshape(matrix.shape)]
    rgba[..., 3] = opacities(matrix, scale)
    return rgba


def drawable(values: Array) -> Array:
    """Return real `values` as float64. NaN, a gap in a line, stands for values that axes can't scale.

    Examples
    --------
    >>> drawable(np.array([1.0, np.inf, -1e305])).tolist()
    [1.0, nan, nan]
    """
    wide = np.array([_float(value) for value in values]) if values.dtype == object else values.astype(np.float64)
    return np.where(np.abs(wide) < 1e150, wide, np.nan)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # symbols, intervals, and integers beyond the floats
        return math.nan
