"""Python's operators inside kernels: on integers of 64 bits, bits and floats, folded where both sides are constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from recfact.cpu.types import Tuple, Type, Value, boolean, float32, float64, int64

FLOATS = (float32, float64)

FOLDED: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

INTEGERS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
REALS: dict[type[ast.AST], str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
RELATIONS: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def literal(value: bool | int | float) -> Value:
    """Return a constant of Python as a value of kernels."""
    kind = boolean if isinstance(value, bool) else int64 if isinstance(value, int) else float64
    return Value(kind, (ir.Constant(kind.registers[0], int(value) if kind is boolean else value),))


def known(value: Value) -> Any:
    """Return the number of a value if it is known at compile time, or else None."""
    part = value.parts[0] if value.type in (int64, boolean) else None
    return part.constant if isinstance(part, ir.Constant) and isinstance(part.constant, int) else None


def cast(builder: Any, value: Value, kind: Type) -> Value:
    """Return a value in another type, if Python would accept it as one of that type.

    Raises
    ------
    TypeError
        If Python wouldn't accept it.
    """
    if value.type == kind:
        return value
    (part,) = value.parts if len(value.parts) == 1 else (None,)
    if value.type == boolean and kind == int64:
        found = known(value)
        return Value(int64, (builder.zext(part, int64.registers[0]),)) if found is None else literal(int(found))
    if value.type in (int64, boolean) and kind in FLOATS:
        return Value(kind, (builder.sitofp(cast(builder, value, int64).parts[0], kind.registers[0]),))
    if value.type in FLOATS and kind in FLOATS:
        change = builder.fpext if kind == float64 else builder.fptrunc
        return Value(kind, (change(part, kind.registers[0]),))
    raise TypeError(f"a value of type {value.type} stands where one of {kind} is wanted")


def common(first: Type, second: Type) -> Type:
    """Return the type of a value that may come from either of two places."""
    if first == second:
        return first
    if {first, second} == {int64, boolean}:
        return int64
    if isinstance(first, Tuple) and isinstance(second, Tuple) and len(first.items) == len(second.items):
        return Tuple([common(*pair) for pair in zip(first.items, second.items, strict=True)], first.kind)
    raise TypeError(f"a value is of type {first} or {second}, whichever way it comes")


def truth(builder: Any, value: Value) -> Value:
    """Return whether a number isn't zero."""
    return value if value.type == boolean else compared(builder, ast.NotEq, value, literal(0))


def compared(builder: Any, relation: type[ast.AST], left: Value, right: Value) -> Value:
    """Return whether two numbers are in a relation. With NaN, only `!=` holds."""
    if left.type in FLOATS or right.type in FLOATS:
        kind = left.type if left.type in FLOATS else right.type
        (x,), (y,) = (cast(builder, value, kind).parts for value in (left, right))
        compare = builder.fcmp_unordered if relation is ast.NotEq else builder.fcmp_ordered
        return Value(boolean, (compare(RELATIONS[relation], x, y),))
    constants = known(left), known(right)
    if None not in constants:
        return literal(bool(FOLDED[relation](*constants)))
    (x,), (y,) = (cast(builder, value, int64).parts for value in (left, right))
    return Value(boolean, (builder.icmp_signed(RELATIONS[relation], x, y),))


def combined(builder: Any, operation: type[ast.AST], left: Value, right: Value) -> Value:
    """Return the result of an operator on two numbers. Integers are divided as in Python, by anything but zero."""
    real = left.type in FLOATS or right.type in FLOATS
    if operation not in (REALS if real else FOLDED):
        raise TypeError(f"kernels have no {operation.__name__} of {left.type} and {right.type}")
    if real:
        kind = left.type if left.type in FLOATS else right.type
        (x,), (y,) = (cast(builder, value, kind).parts for value in (left, right))
        return Value(kind, (getattr(builder, REALS[operation])(x, y),))
    constants = known(left), known(right)
    if None not in constants:
        found = FOLDED[operation](*map(int, constants))
        return literal((found + (1 << 63)) % (1 << 64) - (1 << 63))
    if left.type == right.type == boolean and operation in (ast.BitAnd, ast.BitOr, ast.BitXor):
        return Value(boolean, (getattr(builder, INTEGERS[operation])(left.parts[0], right.parts[0]),))
    (x,), (y,) = (cast(builder, value, int64).parts for value in (left, right))
    if operation in INTEGERS:
        return Value(int64, (getattr(builder, INTEGERS[operation])(x, y),))
    zero = ir.Constant(x.type, 0)
    left_over = builder.srem(x, y)
    below = builder.icmp_signed("<", builder.xor(left_over, y), zero)
    below = builder.and_(below, builder.icmp_signed("!=", left_over, zero))
    if operation is ast.Mod:
        return Value(int64, (builder.select(below, builder.add(left_over, y), left_over),))
    return Value(int64, (builder.sub(builder.sdiv(x, y), builder.zext(below, x.type)),))


def negative(builder: Any, value: Value) -> Value:
    """Return minus a number."""
    if value.type in FLOATS:
        return Value(value.type, (builder.fneg(value.parts[0]),))
    return combined(builder, ast.Sub, literal(0), value)


def chosen(builder: Any, condition: Value, yes: Value, no: Value) -> Value:
    """Return one of two values. Both are computed already."""
    kind = common(yes.type, no.type)
    pairs = zip(cast(builder, yes, kind).parts, cast(builder, no, kind).parts, strict=True)
    return Value(kind, tuple(builder.select(condition.parts[0], x, y) for x, y in pairs))
