"""How Sphinx builds the documents: ``python -m sphinx -W docs docs/_build``.

The examples in the pages are not run here but by pytest, page by page (see conftest.py).
"""

import inspect
import sys
from importlib.util import find_spec
from pathlib import Path

from scipy.sparse.linalg import LinearOperator
from sphinx.ext import autosummary
from sphinx.pycode import ModuleAnalyzer

import recfact

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "recfact"
author = "the recfact developers"
copyright = "2026, the recfact developers"
release = version = recfact.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
]
exclude_patterns = ["_build", "_static"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"  # the tutorials are notebooks: what they print comes from this build
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_output_stderr = "remove"  # that something is compiled

autosummary_generate = True
autodoc_mock_imports = [name for name in ("torch", "dask") if not find_spec(name)]  # docstrings need neither
autodoc_typehints = "none"  # the docstrings say types with shapes
numpydoc_show_class_members = False  # the class pages list them

html_math_renderer = "mathml"
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


def whole_summary(doc, settings):
    """Return the first paragraph of a docstring; Sphinx stops at its first full stop, even one of "I + AZ + ..."."""
    return " ".join("\n".join(doc).strip().partition("\n\n")[0].split())


autosummary.extract_summary = whole_summary


def data_docstring(app, what, name, obj, options, lines):
    """Give data that a package loads on first use the text below its definition, which Sphinx seeks in the package."""
    if what == "data":
        short = name.rpartition(".")[2]
        for module in [each for each in sys.modules if each.startswith("recfact.")]:
            found = ModuleAnalyzer.for_module(module).find_attr_docs()
            if ("", short) in found and getattr(sys.modules[module], short) is obj:
                lines[:] = found["", short]


def setup(app):
    """Connect what no setting can say."""
    app.connect("autodoc-process-docstring", data_docstring, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", constructor_signature)
