"""The horizons of number formats, drawn against the size of the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from recfact.checks import several
from recfact.plot.board import PLAIN_TITLE, WIDTH, Board
from recfact.plot.colours import FORMATS
from recfact.plot.style import INK, styled
from recfact.precision import format, horizon
from recfact.precision.formats.float_format import FloatFormat
from recfact.written_numbers import power_of_ten, superscript

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DISTANCES = [Fraction(1, 1 << k) * Fraction(step, 4) for k in range(1, 14) for step in (4, 3)]
"""Values of 1 - rho at which horizons are drawn, from 1/2 down to about 2^-14."""


@styled
def formats(formats: Sequence[FloatFormat | str]) -> Figure:
    """Draw the horizon of formats against the largest coefficient rho, pointwise and of the whole tail.

    Parameters
    ----------
    formats : sequence of FloatFormat or str
        At most seven formats. Each has a solid and a dashed line.

    Returns
    -------
    matplotlib.figure.Figure
        On the left, weights below the unit roundoff count as nothing. On the right, those below the smallest normal
        number do.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.formats(["float16", "bfloat16"])
    """
    drawn = [format(each) for each in several(formats, "formats")]
    board = Board(WIDTH, 3.5)
    roundoff = "until weights are below the unit roundoff", [Fraction(fmt.unit_roundoff) for fmt in drawn]
    smallest = "until weights are below the smallest normal number", [Fraction(fmt.smallest_normal) for fmt in drawn]
    for left, (title, levels) in ((0.6, roundoff), (5.3, smallest)):
        axes = board.axes(left, 0.35, 3.85, 2.2)
        for fmt, level, colour in zip(drawn, levels, FORMATS, strict=False):
            _lines(axes, fmt.name, level, colour)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.invert_xaxis()
        axes.set_xticks([2.0**-k for k in range(1, 14, 3)])
        axes.xaxis.set_major_formatter(lambda value, _: f"1 − 2{superscript(round(np.log2(value)))}")
        axes.yaxis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
        axes.yaxis.set_minor_formatter("")
        axes.minorticks_off()
        axes.set_title(title, **PLAIN_TITLE)
        axes.set_xlabel("largest coefficient ρ")
    board.figure.axes[0].set_ylabel("steps")
    board.figure.axes[0].plot([], [], "--", color=INK, linewidth=1.2, label="all weights further back together")
    handles, labels = board.figure.axes[0].get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=len(labels), borderaxespad=0.2)
    return board.figure


def _lines(axes: Axes, name: str, level: Fraction, colour: str) -> None:
    """Draw both horizons of one threshold. A logarithmic scale can't show a horizon of 0."""
    x = [float(distance) for distance in DISTANCES]
    for kind, line, label in (("pointwise", "-", name), ("tail", "--", None)):
        steps = np.array([horizon(1 - distance, level, kind) for distance in DISTANCES], dtype=float)
        axes.plot(x, np.where(steps > 0, steps, np.nan), line, color=colour, linewidth=1.2, label=label)
