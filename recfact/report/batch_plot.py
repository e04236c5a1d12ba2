"""Pictures of what many sequences need: sorted by horizon, and as a map of the array that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recfact.arrays import Array
from recfact.factorizations.matrix_looks import DECADES
from recfact.plot.board import WIDTH, Board
from recfact.plot.colours import FORMATS
from recfact.plot.distributions import message
from recfact.plot.style import styled
from recfact.report.batch import SequenceNeeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEQUENCES = "How far back each of many sequences looks, and where the worst are"
"""What the picture shows."""

ROWS, COLUMNS = 64, 256
"""The most cells of a map: of more sequences, each cell tells the worst of several."""


@styled
def batch_figure(needs: Sequence[SequenceNeeds]) -> Figure:
    """Draw the largest horizon of each sequence: sorted, a line for each format, and as a map for the first format.

    Parameters
    ----------
    needs : sequence of SequenceNeeds
        What the sequences need, at most seven of them with horizons.
    """
    if all(found.horizons is None for found in needs):
        return message("the coefficients are out of range of the formats")
    drawn = [(found.format.name, found.horizons) for found in needs if found.horizons is not None]
    name, horizons = drawn[0]
    cells = cells_of(horizons.by_sequence)
    board = Board(WIDTH, 3.3)
    axes = board.axes(0.6, 0.35, 3.6, 2.1)
    for (label, each), colour in zip(drawn, FORMATS, strict=False):
        ranked = np.sort(each.by_sequence, axis=None)[::-1]
        axes.step(np.arange(1, len(ranked) + 1), ranked, where="post", color=colour, linewidth=1.4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("symlog", base=2, linthresh=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.minorticks_off()
    axes.set_ylim(bottom=np.floor(min(each.by_sequence.min() for _, each in drawn) / 2))
    axes.set_xlabel("sequences, the worst first")
    axes.set_ylabel("steps back")
    axes.set_title("how far each sequence looks back", loc="left")
    # Opacity falls with the logarithm of the drawn value, over `DECADES` of it. Here it falls over the cells' range.
    least, most = int(cells.min()), int(cells.max())
    shares = (cells - least) / (most - least) if least < most else np.ones(cells.shape)
    hues = np.full(cells.shape, FORMATS[0])
    board.matrix(4.9, 0.35, WIDTH - 5.05, 2.1, 10.0 ** (DECADES * (shares - 1)), colours=hues)
    scale = f"faint is {least} steps, full {most}" if least < most else f"{most} steps everywhere"
    board.text(4.9, 0.17, f"where they are, in {name}: {scale}", ha="left")
    lines, labels = axes.get_legend_handles_labels()
    board.figure.legend(lines, labels, loc="lower center", ncols=min(len(labels), 5), borderaxespad=0.2)
    return board.figure


def cells_of(horizons: Array) -> Array:
    """Return horizons as the cells of a map: the last axis across, the others down, at most `ROWS` by `COLUMNS`.

    Examples
    --------
    >>> cells_of(np.arange(12).reshape(2, 2, 3)).shape, cells_of(np.arange(600)).shape, cells_of(np.array(3)).shape
    ((4, 3), (1, 200), (1, 1))
    """
    columns = horizons.shape[-1] if horizons.ndim else 1
    cells = horizons.reshape(-1, columns)
    for axis, most in ((0, ROWS), (1, COLUMNS)):
        together = -(-cells.shape[axis] // most)
        cells = np.maximum.reduceat(cells, np.arange(0, cells.shape[axis], together), axis=axis)
    return cells
