"""The package as a whole: what importing it costs and what it exposes."""

import ast
import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from processes import run_in_child

import recfact

ROOT = Path(__file__).parent.parent
pages = pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
ARRAYS = ("pandas", "xarray", "polars", "dask", "jax", "jaxlib")
HEAVY = ("cupy", "torch", "llvmlite", "sympy", "matplotlib", "jinja2", "typer", *ARRAYS)


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a process has that ran `code` alone."""
    printing = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(run_in_child(printing).split())


def test_importing_recfact_leaves_heavy_libraries_alone():
    assert modules_after("import recfact, recfact.dask, recfact.torch").isdisjoint(HEAVY)


def test_who_only_solves_does_not_wait_for_what_factorizations_need():
    code = "import sys, recfact; recfact.solve([0.5], [1.0]); print('scipy.sparse.linalg' in sys.modules)"
    assert run_in_child(code).split() == ["False"]


def test_no_library_is_imported_to_find_out_what_an_array_is():
    calls = "rf.solve([0.5], [1.0]); rf.solve(0.5, memoryview(np.ones(3))); rf.solve(0.5, np.ones((3, 2)).T, x0=(1, 2))"
    assert modules_after(f"import numpy as np, recfact as rf; {calls}").isdisjoint({*ARRAYS, "torch", "cupy"})


@pytest.mark.parametrize("name", recfact.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(recfact, name).__doc__


@pytest.mark.parametrize(
    "room",
    [recfact.affine, recfact.data, recfact.factorizations, recfact.gradients, recfact.precision.exact],
    ids=lambda room: room.__name__,
)
def test_a_room_lists_its_public_names_alone(room):
    assert dir(room) == sorted(room.__all__)
    assert all(hasattr(room, name) for name in dir(room))


OPTIONAL = {
    "torch": pytest.mark.torch,
    "dask": pytest.mark.skipif(find_spec("dask") is None, reason="dask is not installed"),
}
STUBS = [
    pytest.param(stub, id=stub.parent.name, marks=OPTIONAL.get(stub.parent.name, ()))
    for stub in sorted((ROOT / "recfact").rglob("*.pyi"))
]
with_stubs = pytest.mark.parametrize("stub", STUBS)


def stubbed(stub: Path) -> tuple[ModuleType, dict[str, object]]:
    """Return a package, and what its stub imports where Python runs it, as if no loader were there."""
    names: dict[str, object] = {}
    exec(compile(stub.read_text(), stub, "exec"), names)
    names = {name: value for name, value in names.items() if not name.startswith("__")}
    return import_module(".".join(stub.parent.relative_to(ROOT).parts)), names


@with_stubs
def test_a_package_has_what_its_stub_imports_and_nothing_else(stub):
    package, names = stubbed(stub)
    for name, value in names.items():
        assert getattr(package, name) is package.__getattr__(name) is value
    own = {"__version__"} if package is recfact else set()
    assert dir(package) == sorted(names.keys() | own)
    assert package.__all__ == sorted(name for name, value in names.items() if not isinstance(value, ModuleType))


@with_stubs
def test_a_stub_has_each_name_once_and_exports_it(stub):
    aliases = [alias for node in ast.parse(stub.read_text()).body if hasattr(node, "names") for alias in node.names]
    assert [alias for alias in aliases if alias.asname != alias.name] == []  # else it is the stub's own
    assert len({alias.name for alias in aliases}) == len(aliases)


@with_stubs
def test_public_functions_and_classes_are_pickled_by_name(stub):
    for value in stubbed(stub)[1].values():
        if isinstance(value, FunctionType | type):
            assert pickle.loads(pickle.dumps(value)) is value


@with_stubs
def test_what_is_not_there_is_told_with_what_is(stub):
    package, names = stubbed(stub)
    name = f"{max(names)}x"
    with pytest.raises(AttributeError, match=f"^module '{package.__name__}' has no attribute '{name}'$") as caught:
        getattr(package, name)
    assert (caught.value.name, caught.value.obj) == (name, package)  # Python suggests names from these


@with_stubs
def test_a_star_imports_what_is_exported(stub):
    package, _ = stubbed(stub)
    code = f"from {package.__name__} import *\nprint(*(name for name in dir() if name[:2] != '__'))"
    assert run_in_child(code).split() == package.__all__


@with_stubs
def test_a_module_never_takes_the_place_of_what_it_defines(stub):
    """Importing package.name puts the module into the package, where a function of that name must stay."""
    package, names = stubbed(stub)
    for name, value in names.items():
        if not isinstance(value, ModuleType) and find_spec(f"{package.__name__}.{name}"):
            code = f"import {package.__name__}.{name}, {package.__name__} as package; print(callable(package.{name}))"
            assert run_in_child(code).split() == ["True"]


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
    assert rooms - {"gpu", "torch"} == {
        "affine",
        "dask",
        "data",
        "errors",
        "factorizations",
        "gradients",
        "plot",
        "precision",
    }
    assert sorted({*dir(recfact)} - rooms) == sorted([*recfact.__all__, "__version__"])


def test_a_room_is_there_without_a_second_import():
    assert "recfact" in modules_after("import recfact; recfact.data.load_co2, recfact.factorizations.truncate")


def test_every_public_name_stands_in_the_api_reference():
    listed = set(re.findall(r"^ +(\w+)$", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE))
    errors = {
        name for name, value in vars(recfact.errors).items() if inspect.isclass(value) and issubclass(value, Exception)
    }
    rooms = recfact.affine, recfact.gpu, recfact.gradients, recfact.torch
    assert {*recfact.__all__, *(name for room in rooms for name in room.__all__), *errors} - listed == set()


def test_version_is_the_one_installed():
    try:
        installed = version("recfact")
    except PackageNotFoundError:
        pytest.skip("recfact runs from its source tree here, it is not installed")
    assert recfact.__version__ == installed


def test_the_citation_and_the_changelog_name_this_version():
    assert f"\nversion: {recfact.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (
        re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
        == recfact.__version__
    )


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
    # Sphinx wraps a formula with line breaks in a split environment, where a tag is refused; no build would tell.
    formulas = page.read_text().split("$$")[1::2]
    assert [formula for formula in formulas if r"\tag" in formula and r"\\" in formula] == []


def test_links_of_the_readme_lead_somewhere():
    # Sphinx holds the links of the pages, and doesn't see these.
    for target in re.findall(r'(?:\]\(|src=")([^)"]+)', (ROOT / "README.md").read_text()):
        file, _, place = target.partition("#")
        page = ROOT / (file or "README.md")
        assert page.is_file(), target
        headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE) if place else []
        assert place in ["", *(re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings)], target
