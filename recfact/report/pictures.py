"""Figures as files, and as parts of a page."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from recfact.plot.style import INK, PAPER, check_drawing, style
from recfact.report.files import check_destination, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_SUFFIXES = (".png", ".svg")


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn and written to `path`, before work is spent on it.

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
        figure.savefig(stream, format=kind[1:], dpi=200, metadata=metadata)


def inline_svg(figure: Figure, label: str) -> str:
    """Return `figure` as an <svg> element for a page. It takes its text colour and font from the page.

    Parameters
    ----------
    figure : Figure
        A figure drawn in `style`.
    label : str
        Description of the picture, for readers who can't see it.
    """
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<g) id="[^"]*"', r"\1", svg)  # no reference needs these ids, and they repeat from figure to figure
    svg = re.sub(r"\s*font-family: [^;\"]*;?", "", svg)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)")
    width, height = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups()  # type: ignore[union-attr]
    head = f'<svg role="img" aria-label="{escape(label, quote=True)}" viewBox="0 0 {width} {height}">'
    return re.sub(r"^<svg[^>]*>", lambda _: head, svg)
