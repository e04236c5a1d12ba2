"""How far back the positions of a sequence look in number formats, as a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.errors import OptionTypeError
from recfact.plot.board import PLAIN_TITLE, WIDTH, Board
from recfact.plot.colours import FORMATS
from recfact.plot.style import styled
from recfact.precision.horizons.effective_horizons import EffectiveHorizon

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def horizons(horizons: Mapping[str, EffectiveHorizon]) -> Figure:
    """Draw the share of positions that look back further than a number of steps, a line for each format.

    Parameters
    ----------
    horizons : mapping of str to EffectiveHorizon
        Effective horizons by the name of the format, at most seven.

    Examples
    --------
    >>> from recfact import plot, precision
    >>> figure = plot.horizons({"float16": precision.effective_horizon([0.5] * 40, "float16")})
    """
    given: Any = horizons
    if not isinstance(given, Mapping) or not all(isinstance(each, EffectiveHorizon) for each in given.values()):
        raise OptionTypeError("must have an EffectiveHorizon for each name", "horizons", given=given)
    board = Board(WIDTH, 3.1)
    axes = board.axes(0.6, 0.35, WIDTH - 0.75, 1.85)
    furthest = max((found.largest for found in horizons.values()), default=0)
    for (name, found), colour in zip(horizons.items(), FORMATS, strict=False):
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
    title = "positions that still see inputs further back, until weights are below the unit roundoff"
    axes.set_title(title, **PLAIN_TITLE)
    handles, labels = axes.get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=min(max(len(labels), 1), 5), borderaxespad=0.2)
    return board.figure


@styled
def message(text: str) -> Figure:
    """Draw only a sentence that says why there is nothing to draw."""
    board = Board(WIDTH, 0.8)
    board.text(WIDTH / 2, 0.4, text)
    return board.figure
