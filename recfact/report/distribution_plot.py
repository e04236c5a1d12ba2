"""How far back the positions of a sequence look in number formats, as a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from recfact.precision.horizons.effective_horizons import EffectiveHorizon
from recfact.report.board import WIDTH, Board
from recfact.report.horizon_plot import COLOURS
from recfact.report.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def distribution_figure(horizons: Mapping[str, EffectiveHorizon]) -> Figure:
    """Draw the share of positions that look back further than so many steps, a line for each format.

    Parameters
    ----------
    horizons : mapping of str to EffectiveHorizon
        Effective horizons by the name of the format, at most seven.
    """
    board = Board(WIDTH, 3.1)
    axes = board.axes(0.6, 0.35, WIDTH - 0.75, 1.85)
    furthest = max((found.largest for found in horizons.values()), default=0)
    for (name, found), colour in zip(horizons.items(), COLOURS, strict=False):
        lags = np.unique(np.concatenate([[0], found.lags]))
        share = 1 - np.searchsorted(np.sort(found.lags), lags, side="right") / len(found)
        axes.step(lags, 100 * share, where="post", color=colour, linewidth=1.5, label=f"{name} (up to {found.largest})")
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.set_xlim(0, max(2 * furthest, 4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.minorticks_off()
    axes.set_ylim(0, 104)
    axes.set_ylabel("positions in %")
    axes.set_xlabel("steps back")
    axes.set_title(
        "positions that still see inputs further back, until weights are below the unit roundoff", loc="left"
    )
    handles, labels = axes.get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=min(max(len(labels), 1), 5), borderaxespad=0.2)
    return board.figure


@styled
def message_figure(text: str) -> Figure:
    """Draw nothing but a sentence on why there is nothing to draw."""
    board = Board(WIDTH, 0.8)
    board.text(WIDTH / 2, 0.4, text)
    return board.figure
