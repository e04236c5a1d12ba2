"""The package as a whole: what importing it costs and what it exposes."""

import ast
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest

import recfact

ROOT = Path(__file__).parent.parent
pages = pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
HEAVY = ("cupy", "torch", "numba", "llvmlite", "sympy", "matplotlib", "jinja2", "typer")


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after running `code`."""
    printing = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", printing], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


def test_importing_recfact_leaves_heavy_libraries_alone():
    assert modules_after("import recfact").isdisjoint(HEAVY)


@pytest.mark.parametrize("name", recfact.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(recfact, name).__doc__


def test_public_names_are_sorted_and_unique():
    assert list(recfact.__all__) == sorted(set(recfact.__all__))


@pytest.mark.parametrize(
    "room",
    [recfact.data, recfact.factorizations, recfact.precision, recfact.precision.exact],
    ids=lambda room: room.__name__,
)
def test_a_room_lists_its_public_names_alone(room):
    assert dir(room) == sorted(room.__all__)
    assert all(hasattr(room, name) for name in dir(room))


def test_precision_declares_to_type_checkers_what_it_loads():
    """Its lists agree: the names, the modules that they are loaded from, and the imports that type checkers read."""
    tree = ast.parse(Path(recfact.precision.__file__).read_text())
    declared = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("recfact.")
        for alias in node.names
    }
    loaded = {name: f"recfact.precision.{module}" for name, module in recfact.precision._MODULES.items()}
    assert declared == loaded | {"exact": "recfact.precision"}
    assert set(declared) == set(recfact.precision.__all__)


def test_the_package_finds_its_files_where_it_is_installed():
    """A module that asks for its own place could reach what stands around a checkout; importlib.resources can't."""
    asking = [path for path in (ROOT / "recfact").rglob("*.py") if re.search(r"\b__(file|path)__\b", path.read_text())]
    assert asking == []


def test_python_runs_the_package_as_the_command():
    arguments = [sys.executable, "-m", "recfact", "horizon", "0.5", "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "python -m recfact horizon" in done.stdout


def test_the_package_lists_its_public_names_and_rooms():
    rooms = {name for name in dir(recfact) if isinstance(getattr(recfact, name), ModuleType)}
    assert rooms - {"gpu"} == {"data", "errors", "factorizations", "precision"}
    assert sorted({*dir(recfact)} - rooms) == sorted([*recfact.__all__, "__version__"])


def test_a_room_is_there_without_a_second_import():
    assert "recfact" in modules_after("import recfact; recfact.data.load_co2, recfact.factorizations.truncate")


def test_every_public_name_stands_in_the_api_reference():
    listed = set(re.findall(r"^ +(\w+)$", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE))
    errors = {name for name, value in vars(recfact.errors).items() if isinstance(value, type)}
    assert {*recfact.__all__, *recfact.gpu.__all__, *errors} - listed == set()


def test_version_is_the_one_installed():
    try:
        installed = version("recfact")
    except PackageNotFoundError:
        pytest.skip("recfact runs from its source tree here, it is not installed")
    assert recfact.__version__ == installed


@pages
def test_every_example_stands_in_a_python_block(page):
    # Only python blocks are run (conftest.py); an example anywhere else would look tested and not be.
    outside = re.sub(r"^```python\n.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert ">>>" not in outside


@pages
def test_links_have_a_text(page):
    # Sphinx would fill in the title of the page, GitHub shows nothing.
    assert "[](" not in page.read_text()


@pages
def test_numbered_formulas_have_one_line(page):
    # Sphinx wraps a formula with line breaks in a split environment, where MathJax refuses a tag; no build would tell.
    formulas = page.read_text().split("$$")[1::2]
    assert [formula for formula in formulas if r"\tag" in formula and r"\\" in formula] == []
