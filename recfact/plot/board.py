"""Figures whose parts are placed in inches, matrices among them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.factorizations.matrix_looks import hues, key_entries, opacities
from recfact.plot.style import INK, PAPER, TITLE_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 9.2
"""Width of a figure in inches."""

GAP = (math.nan, math.nan)
"""Between points of a line, where it breaks. Many pieces of one line are drawn faster than many lines."""

PLAIN_TITLE: dict[str, Any] = {"loc": "left", "y": 1.0}
"""A title of axes that have no common factor above their ordinate, for which matplotlib would lay out all labels."""


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
        self.figure.suppressComposite = True  # else all matrices would become one image of few pixels
        self.width, self.height = width, height

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return new axes of the given size, in inches, without the lines above and to the right."""
        axes = self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    @cached_property
    def sheet(self) -> Axes:
        """Axes over the whole figure, in inches from its upper left corner: all matrices share them."""
        sheet = self.figure.add_axes((0, 0, 1, 1))
        sheet.set(xlim=(0, self.width), ylim=(self.height, 0), autoscale_on=False)
        sheet.set_axis_off()
        return sheet

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
    ) -> None:
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
        across, down = left + width * np.arange(columns + 1) / columns, top + height * np.arange(rows + 1) / rows
        self.sheet.imshow(
            cell_colours(matrix, colours, scale),
            extent=(left, left + width, top + height, top),
            interpolation="none",
            aspect="auto",
        )
        if 72 * min(width / columns, height / rows) > 3:  # in points; smaller cells would disappear between gaps
            self._grid(across, down, slice(1, -1), color=PAPER, linewidth=0.7)
        if blocks is not None:
            self._grid(across, down, slice(blocks, -1, blocks), color=INK, linewidth=0.5, alpha=0.45)
        self.sheet.plot(across[[0, 0, -1, -1, 0]], down[[0, -1, -1, 0, 0]], color=INK, linewidth=0.8, alpha=0.45)
        if title:
            self.text(left + width / 2, top - 5 / 72, title, va="baseline", fontsize=TITLE_SIZE)

    def _grid(self, across: Array, down: Array, some: slice, **options: Any) -> None:
        """Draw some of the lines between columns and between rows, all as one path."""
        upright = [point for x in across[some] for point in ((x, down[0]), (x, down[-1]), GAP)]
        level = [point for y in down[some] for point in ((across[0], y), (across[-1], y), GAP)]
        self.sheet.plot(*np.transpose(upright + level), solid_capstyle="butt", **options)

    def key(self, left: float, top: float, *matrices: Array) -> None:
        """Draw the key to the colours of matrices that are drawn at one scale, as in notebooks."""
        from matplotlib.patches import Rectangle

        for hue, opacity, text in key_entries(*matrices):
            self.sheet.add_patch(Rectangle((left, top), 0.13, 0.13, color=hue, alpha=opacity))
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
