"""The language of kernels, and how a function in it is read.

It is a small part of Python. Values are 64-bit integers, bits, floats and vectors, and tuples and named tuples of
these. Statements are assignments, `if`, `while`, `for ... in range(...)` and `return`. Operations are LLVM's own
instructions (`recfact.cpu.operations`) and helpers in the same language.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Helper:
    """A function of the language that kernels may call. If `apart`, it is compiled as a separate function."""

    function: FunctionType
    apart: bool = False


@dataclass(frozen=True)
class Operation:
    """An operation of kernels in LLVM's own instructions.

    `define` takes the types of the arguments. It returns a signature for them, and the function that generates the
    code: ``generate(context, builder, arguments)``.
    """

    define: Callable[..., Any]


def operation(define: Callable[..., Any]) -> Any:
    """Make `define` an operation, as a decorator."""
    return Operation(define)


def nothing(context: Any, builder: Any, args: Any) -> Any:
    """Generate no code, for an operation on types only."""


class Source(NamedTuple):
    """A function as it is read: its parameters and statements, and the names that are bound once, at the top."""

    parameters: list[str]
    body: list[ast.stmt]
    once: frozenset[str]
    assigned: frozenset[str]


@cache
def source_of(function: FunctionType) -> Source:
    """Read a function."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    at_top = [part for part in tree.body if isinstance(part, ast.Assign | ast.AnnAssign)]
    stored, bound = names_stored(tree.body), names_stored(at_top)
    parameters = [parameter.arg for parameter in tree.args.args]
    counts = Counter([*parameters, *stored])
    once = frozenset(name for name in bound if counts[name] == 1)
    return Source(parameters, tree.body, once, frozenset(stored))


def names_stored(statements: Sequence[ast.stmt]) -> list[str]:
    """Return the names to which statements give values, each as many times as they do."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
