"""What every run shares: tests, doctests of modules and the examples in documents."""

import os
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from importlib.util import find_spec

import mpmath
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

import recfact  # noqa: F401  # or pytest, given recfact/solve.py, puts the module in the place of the function

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything imports matplotlib: a run needs no display

collect_ignore_glob = [f"recfact/{room}/*" for room in ("torch", "dask") if not find_spec(room)]  # they import it
collect_ignore_glob += ["docs/conf.py", "docs/_extensions/*"]  # which import Sphinx
collect_ignore_glob += ["docs/tutorials/*.py"]  # which train a model

# The python blocks of README.md and docs/*.md run in order, one namespace a page.
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE), SkipParser()],
    pattern="*.md",
).pytest()


@pytest.fixture(autouse=True)
def mpmath_precision() -> Iterator[None]:
    """Start every test at mpmath's default precision, whatever the test before it set."""
    mpmath.mp.dps = mpmath.iv.dps = 15
    yield
    mpmath.mp.dps = mpmath.iv.dps = 15
