"""Sphinx extension: formulas become MathML when the pages are built, so that they need no script and no network.

A formula that can't be converted is a warning, so ``sphinx -W`` stops at it.
"""

import re
from html import escape

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

CONVERTER = LatexToMathML(annotation=True, fancy_error=False)  # the annotation keeps the TeX, for who copies a formula

BEHIND = re.compile(r"(-th\b)?[.,;:?)\]]*")
"""What stays on the line of the formula before it, because browsers break lines there."""


def converted(node: nodes.math | nodes.math_block, *, display: bool) -> str:
    """Return the MathML of a formula."""
    source = node.astext()
    if r"\tag" in source:
        source = rf"\begin{{equation}}{source}\end{{equation}}"  # where alone TeX allows a number
    try:
        formula: str = CONVERTER.convert_with_local_state(source, displaystyle=display)
    except LatexError as error:
        logging.getLogger(__name__).warning("no MathML for the formula %r: %s", source, error, location=node)
        return f"<code>{escape(source)}</code>"
    # Browsers leave room around brackets of a given size, because they may stand on either side.
    return formula.replace("<mo minsize", '<mo lspace="0" rspace="0" minsize')


def take_punctuation(_app: Sphinx, doctree: nodes.document) -> None:
    """Give formulas what stands right behind them."""
    for node in list(doctree.findall(nodes.math)):
        place = node.parent.index(node) + 1
        behind = node.parent[place] if place < len(node.parent) else None
        if isinstance(behind, nodes.Text) and (marks := BEHIND.match(behind)):
            node["marks"] = marks[0]
            node.parent[place] = nodes.Text(behind[marks.end() :])


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    self.body.append(f'<span class="math">{converted(node, display=False)}{node.get("marks", "")}</span>')
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(f"{converted(node, display=True)}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("doctree-read", take_punctuation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
