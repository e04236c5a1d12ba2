"""The types of values inside kernels, and how each is held in LLVM's registers.

A value of a type is a tuple of its parts in registers. A number has one part. A type that is known completely at
compile time has none (`recfact.cpu.numbers.Lanes`). A tuple has the parts of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from llvmlite import ir


class Type:
    """A type of values in kernels. Two types of one class and name are equal.

    Parameters
    ----------
    name : str
        The name in messages and in names of files.
    registers : sequence of ir.Type
        The registers that hold a value.
    """

    def __init__(self, name: str, registers: Sequence[ir.Type] = ()) -> None:
        self.name = name
        self.registers = tuple(registers)

    def __call__(self, *arguments: Type) -> Signature:
        """Return the signature of an operation that returns this type."""
        return Signature(self, arguments)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.name == getattr(other, "name", None)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


class Tuple(Type):
    """Several values at once, by place. If `kind` is a class of named tuples, by name as well."""

    def __init__(self, items: Sequence[Type], kind: Any = None) -> None:
        self.items = tuple(items)
        self.kind = kind
        called = "tuple" if kind is None else kind.__name__
        super().__init__(f"{called}{self.items}", [part for item in items for part in item.registers])

    @property
    def names(self) -> Sequence[str]:
        """The names of its items, if they have names."""
        return () if self.kind is None else self.kind._fields


class Signature(NamedTuple):
    """The types of an operation's arguments and result."""

    return_type: Type
    arguments: tuple[Type, ...]


class Value(NamedTuple):
    """A value in a kernel."""

    type: Type
    parts: tuple[Any, ...]


void = Type("nothing")
boolean = Type("bool", [ir.IntType(1)])
int64 = Type("int64", [ir.IntType(64)])
float32 = Type("float32", [ir.FloatType()])
float64 = Type("float64", [ir.DoubleType()])
complex64 = Type("complex64", [ir.LiteralStructType([ir.FloatType()] * 2)])
complex128 = Type("complex128", [ir.LiteralStructType([ir.DoubleType()] * 2)])

NUMBERS = {kind.name: kind for kind in (float32, float64, complex64, complex128)}
"""What is computed in, by name."""


def items(value: Value) -> list[Value]:
    """Return the values of a tuple.

    Raises
    ------
    TypeError
        If the value isn't a tuple.
    """
    if not isinstance(value.type, Tuple):
        raise TypeError(f"a value of type {value.type} has no items")
    parts = iter(value.parts)
    return [Value(kind, tuple(islice(parts, len(kind.registers)))) for kind in value.type.items]


def packed(values: Sequence[Value], kind: Any = None) -> Value:
    """Return values as a tuple."""
    return Value(Tuple([value.type for value in values], kind), tuple(chain(*(value.parts for value in values))))
