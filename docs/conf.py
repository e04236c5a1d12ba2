"""How Sphinx builds the documents: ``python -m sphinx -W docs docs/_build``.

The examples in the pages are not run here but by pytest, page by page (see conftest.py).
"""

import recfact

project = "recfact"
author = "the recfact authors"
copyright = "2026, the recfact authors"
release = version = recfact.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types with shapes
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"recfact {release}"
html_static_path = ["_static"]
templates_path = ["_templates"]
