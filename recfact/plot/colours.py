"""The meaning of colours, the same in all figures. The colours of entries are in `matrix_looks`.

All can be told apart from each other, and from light and dark paper. Things that aren't listed are drawn in ink.
"""

from __future__ import annotations

from recfact.windows import Jagged, Window

JAGGED, UNIFORM = ("#e69f00", "#786400", "#8cb428"), "#00b4fa"
"""Colours of windows: jagged ones by their carrier terms, from one term on."""

FORMATS = ("#8c82f0", "#b4325a", "#007800", "#82b4a0", "#fa826e", "#d28cfa", "#825a64")
"""Colours of number formats, in the order in which a figure has them."""

TRUNCATION, ROUNDING = "#8c46aa", "#a08c3c"
"""Colours of the parts of an error."""


def window_colour(window: Window) -> str:
    """Return the colour of a window that leaves something out. More than three terms have the colour of one.

    Examples
    --------
    >>> window_colour(Jagged(16)), window_colour(Jagged(8, terms=2))
    ('#e69f00', '#786400')
    """
    if not isinstance(window, Jagged):
        return UNIFORM
    return JAGGED[window.terms - 1 if 1 <= window.terms <= len(JAGGED) else 0]
