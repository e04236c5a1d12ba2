"""The public names of a package. Each is loaded on first use, from the module that the stub of the package names.

The stub ``__init__.pyi`` has each name once. Type checkers and editors read it, and so does `attach`, as in SPEC 1 of
the Scientific Python ecosystem. In the stub, ``from package.module import name as name`` is a name that a module
defines, and ``from package import module as module`` is a module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : str
        The package that is being imported, its ``__name__``.

    Returns
    -------
    load : callable
        Returns the object with a public name, and keeps it in the package.
    names : callable
        Returns all public names, sorted. They include modules, and the names that the package itself defines.
    exported : list of str
        The names that ``from package import *`` imports. Modules aren't among them.
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
            load(name)  # else an import of the module would put the module in the place of the name

    return load, lambda: sorted([*places, *own]), sorted(name for name, place in places.items() if place != package)
