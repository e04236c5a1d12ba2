"""The style of recfact's figures, and how they become files or parts of a page.

Figures are ``Figure`` objects made without pyplot, inside a block that sets matplotlib's parameters and puts the
caller's back: no display is needed and nothing of the caller's changes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from recfact.errors import GrowthWarning, MissingExtraError
from recfact.report.files import check_destination, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")

INK, PAPER = "#1b2330", "#fffffe"  # text and background; the page replaces both by its own colours
BLUE, VERMILLION, GREEN, ORANGE, PURPLE = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7"
UNIT = "#7f8793"  # the ones of an identity, and what a window drops

PICTURE_SUFFIXES = (".png", ".svg")

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
    "axes.titlesize": 9.5,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "recfact",
}


def check_drawing() -> None:
    """Check, before work is spent on it, that figures can be drawn.

    Raises
    ------
    MissingExtraError
        If matplotlib isn't installed.
    """
    try:
        import matplotlib.style  # noqa: F401
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib; install it with: pip install matplotlib") from None


def check_picture(path: Path) -> None:
    """Check, before work is spent on it, that a picture can be drawn and come to stand at `path`.

    Raises
    ------
    OptionError
        If the ending is neither .png nor .svg.
    DataFileError
        If `path` is a directory, or in none.
    MissingExtraError
        If matplotlib isn't installed.
    """
    check_destination(path, PICTURE_SUFFIXES)
    check_drawing()


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of recfact inside this block, whatever the caller's matplotlib settings are.

    A recurrence that grows is drawn without a warning: the report has said it already.
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


def save(figure: Figure, path: Path) -> None:
    """Write `figure` to `path` as .png or .svg on white paper; the file appears whole or not at all.

    Raises
    ------
    OptionError
        If the ending is another one.
    DataFileError
        If the file can't be written.
    """
    check_destination(path, PICTURE_SUFFIXES)
    kind = path.suffix.lower()
    with style(), replacing(path) as stream:
        metadata = {"Date": None} if kind == ".svg" else {}
        figure.savefig(stream, format=kind[1:], dpi=200, facecolor="white", metadata=metadata)


def inline_svg(figure: Figure, label: str) -> str:
    """Return `figure` as an <svg> element for a page: it takes its text colour and font from there.

    Parameters
    ----------
    figure : Figure
        A figure drawn in `style`.
    label : str
        What the picture shows, for readers who don't see it.
    """
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<g) id="[^"]*"', r"\1", svg)  # ids that nothing refers to, and that repeat from figure to figure
    svg = re.sub(r"\s*font-family: [^;\"]*;?", "", svg)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)")
    width, height = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups()  # type: ignore[union-attr]
    head = f'<svg role="img" aria-label="{escape(label, quote=True)}" viewBox="0 0 {width} {height}">'
    return re.sub(r"^<svg[^>]*>", lambda _: head, svg)
