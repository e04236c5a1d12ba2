"""The public names of a package, each loaded when it is first asked for, from where the stub beside the package says.

``__init__.pyi`` has each name once: type checkers and editors read it, and so does `attach`, as SPEC 1 of the
Scientific Python ecosystem has it. In it ``from package.module import name as name`` is what a module defines, and
``from package import module as module`` a module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return what a package is to have as ``__getattr__``, ``__dir__`` and ``__all__``.

    Parameters
    ----------
    package : str
        The package that is being imported, its ``__name__``.

    Returns
    -------
    load : callable
        Returns what has a public name, and keeps it in the package.
    names : callable
        Returns all public names, sorted: those of modules, and of what the package itself defines, too.
    exported : list of str
        The names that ``from package import *`` brings: modules aren't among them.
    """
    statements = ast.parse(files(package).joinpath("__init__.pyi").read_text(encoding="utf-8")).body
    places = {
        alias.name: str(statement.module)
        for statement in statements
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    own = [
        statement.target.id
        for statement in statements
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        place = places[name]
        value = import_module(f"{package}.{name}") if place == package else getattr(import_module(place), name)
        setattr(sys.modules[package], name, value)
        return value

    for name, place in places.items():
        if place == f"{package}.{name}":
            load(name)  # or whoever imports the module would put it in place of what it defines

    return load, lambda: sorted([*places, *own]), sorted(name for name, place in places.items() if place != package)
