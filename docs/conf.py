"""How Sphinx builds the documents: ``python -m sphinx -W docs docs/_build``.

The examples in the pages are not run here but by pytest, page by page (see conftest.py).
"""

import inspect

from scipy.sparse.linalg import LinearOperator

import recfact

project = "recfact"
author = "the recfact authors"
copyright = "2026, the recfact authors"
release = version = recfact.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types with shapes
numpydoc_show_class_members = False  # the class pages list them

html_theme = "furo"
html_title = f"recfact {release}"
html_static_path = ["_static"]
html_css_files = ["page.css"]
templates_path = ["_templates"]


def constructor_signature(app, what, name, obj, options, signature, returns):
    """Give an operator its own arguments, where Sphinx sees LinearOperator.__new__(*args, **kwargs)."""
    if what == "class" and issubclass(obj, LinearOperator):
        _, *parameters = inspect.signature(obj.__init__).parameters.values()
        plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
        return str(inspect.Signature(plain)), returns
    return None


def setup(app):
    """Connect what no setting can say."""
    app.connect("autodoc-process-signature", constructor_signature)
