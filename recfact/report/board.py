"""Drawing matrices: colour says the sign or the part, opacity says the magnitude.

Opacity, not lightness, carries the magnitude, so a drawing reads the same on light and on dark paper. The hues are
those of Okabe and Ito (2008), which people with any kind of colour vision tell apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.report.style import BLUE, INK, PAPER, UNIT, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 9.2
"""Width of a figure in inches."""

DECADES = 4
"""Powers of ten between the full and the faintest opacity."""


class Board:
    """A figure whose parts are placed in inches from its upper left corner.

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
        """Return new axes of that size, in inches, with the lines above and to the right left out."""
        axes = self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def text(self, left: float, top: float, text: str, **options: Any) -> None:
        """Write `text` at that place; centred unless told otherwise."""
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
        hues: Array | None = None,
        scale: float = 1.0,
        blocks: int | None = None,
    ) -> Axes:
        """Draw `matrix`, shape (rows, columns), as coloured cells.

        Parameters
        ----------
        left, top, width, height : float
            Where, in inches.
        matrix : ndarray, shape (rows, columns)
            The entries.
        title : str
            Written above.
        hues : ndarray of str, shape (rows, columns), optional
            Colour of each entry; by sign if left out, with the ones of a unit diagonal in grey.
        scale : float
            Magnitude drawn at full opacity.
        blocks : int, optional
            Draw lines after every so many rows and columns.
        """
        rows, columns = matrix.shape
        axes = self.axes(left, top, width, height)
        axes.imshow(
            cell_colours(matrix, sign_hues(matrix) if hues is None else hues, scale),
            extent=(0, columns, rows, 0),
            interpolation="none",
            aspect="auto",
        )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.spines[:].set_alpha(0.45)
        if 72 * min(width / columns, height / rows) > 3:  # points: below that, gaps would eat the cells
            axes.hlines(range(1, rows), 0, columns, color=PAPER, linewidth=0.7)
            axes.vlines(range(1, columns), 0, rows, color=PAPER, linewidth=0.7)
        if blocks is not None:
            axes.hlines(range(blocks, rows, blocks), 0, columns, color=INK, linewidth=0.5, alpha=0.45)
            axes.vlines(range(blocks, columns, blocks), 0, rows, color=INK, linewidth=0.5, alpha=0.45)
        if title:
            axes.set_title(title, pad=5)
        return axes

    def magnitude_key(self, left: float, top: float, scale: float = 1.0) -> None:
        """Draw the key of the opacities: one cell for each power of ten."""
        magnitudes = scale * 10.0 ** -np.arange(DECADES + 1)
        for k, magnitude in enumerate(magnitudes):
            x = left + 0.62 * k
            self.matrix(x, top, 0.13, 0.13, np.array([[magnitude]]), hues=np.array([[BLUE]]), scale=scale)
            label = f"{magnitude:.3g}" if k < DECADES else f"≤ {magnitude:.3g}"
            self.text(x + 0.18, top + 0.065, label, ha="left", fontsize=7.5)


def cell_colours(matrix: Array, hues: Array, scale: float = 1.0) -> Array:
    """Return the colours of the entries of `matrix` as RGBA, shape (rows, columns, 4).

    Opacity falls with the logarithm of the magnitude, from 1 at `scale` to 0.1 at 10^-DECADES of it and below. Zeros
    are transparent; NaN is drawn like the largest.

    Examples
    --------
    >>> cell_colours(np.array([[1.0, 0.0, 0.01]]), np.full((1, 3), BLUE))[0, :, 3].round(3).tolist()
    [1.0, 0.0, 0.55]
    """
    from matplotlib.colors import to_rgb

    magnitude = np.nan_to_num(np.abs(matrix).astype(np.float64) / scale, nan=1.0, posinf=1.0)
    names, where = np.unique(hues, return_inverse=True)
    colours = np.empty((*matrix.shape, 4))
    colours[..., :3] = np.array([to_rgb(name) for name in names.tolist()])[where.reshape(matrix.shape)]
    with np.errstate(divide="ignore"):
        level = 1 + np.log10(magnitude) / DECADES
    colours[..., 3] = np.where(magnitude > 0, 0.1 + 0.9 * np.clip(level, 0, 1), 0.0)
    return colours


def drawable(values: Array) -> Array:
    """Return real `values` as float64, with NaN, which leaves a gap in a line, in the place of what axes can't scale.

    Examples
    --------
    >>> drawable(np.array([1.0, np.inf, -1e305])).tolist()
    [1.0, nan, nan]
    """
    wide = values.astype(np.float64)
    return np.where(np.abs(wide) < 1e150, wide, np.nan)


def sign_hues(matrix: Array) -> Array:
    """Return a colour for each entry: blue where positive, vermillion where negative, grey for ones on the diagonal."""
    hues = np.where(np.real(matrix) < 0, VERMILLION, BLUE)
    unit = (np.arange(matrix.shape[0])[:, None] == np.arange(matrix.shape[1])) & (matrix == 1)
    return np.where(unit, UNIT, hues)
