"""The style of recfact's figures.

Figures are ``Figure`` objects that are made without pyplot, so no display is needed. A block sets matplotlib's
parameters and then restores the caller's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from recfact.errors import GrowthWarning, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")

INK, PAPER = "#1b2330", "#fffffe"  # text and background, which the page replaces by its own colours

TITLE_SIZE = 9.5  # in points

_STYLE: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.usetex": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.grid": False,
    "axes.titlesize": TITLE_SIZE,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "recfact",
}


def check_drawing() -> None:
    """Check that figures can be drawn, before work is spent on them.

    Raises
    ------
    MissingExtraError
        If matplotlib isn't installed.
    """
    try:
        import matplotlib.style  # noqa: F401
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib; install it with: pip install matplotlib") from None


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of recfact inside this block, whatever the caller's matplotlib settings are.

    A recurrence that grows is drawn without a warning, because the report has already given it.
    """
    check_drawing()
    import matplotlib.style

    in_style = matplotlib.style.context(["default", _STYLE])
    with in_style, np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", GrowthWarning)
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Make the drawing function `draw` run inside `style`."""

    @wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with style():
            return draw(*args, **kwargs)

    return draw_in_style
