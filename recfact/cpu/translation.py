"""From the source of a kernel to LLVM's code.

Types follow from those of the arguments, line by line. A variable keeps the type of its first value. A helper becomes
part of its caller. Values of its arguments that are known at compile time decide its branches there, so branches that
aren't needed are never translated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from llvmlite import ir

from recfact.cpu.arithmetic import cast, chosen, combined, common, compared, known, literal, negative, truth
from recfact.cpu.language import Helper, Operation, Source, source_of
from recfact.cpu.numbers import LINE
from recfact.cpu.types import Tuple, Type, Value, int64, items, packed, void

NOTHING = Value(void, ())


class Slot(NamedTuple):
    """A variable in memory. LLVM moves it to registers."""

    type: Type
    places: tuple[Any, ...]


@dataclass
class Scope:
    """A call of a function that is being translated."""

    source: Source
    names: Mapping[str, Any]
    variables: dict[str, Value | Slot] = field(default_factory=dict)
    returns: list[tuple[Value, Any]] = field(default_factory=list)
    loops: list[tuple[Any, Any]] = field(default_factory=list)


class Translator:
    """Writes the code of a function of LLVM.

    Parameters
    ----------
    context
        What operations know of the processor.
    function : ir.Function
        The function to write.
    others : dict
        The functions of the module for helpers compiled apart, by helper and types of arguments.
    """

    def __init__(self, context: Any, function: ir.Function, others: dict[Any, tuple[ir.Function, Type]]) -> None:
        self.context = context
        self.function = function
        self.others = others
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.live = True
        self.scope: Scope

    def call(self, function: FunctionType, arguments: Sequence[Value]) -> Value:
        """Write the statements of a function, and return its result."""
        source = source_of(function)
        outside = getattr(self, "scope", None)
        scope = self.scope = Scope(source, function.__globals__)
        for name, value in zip(source.parameters, arguments, strict=True):
            if name in source.assigned:
                self.bind(name, value)
            else:
                scope.variables[name] = value
        self.statements(source.body)
        if self.live:
            scope.returns.append((NOTHING, self.b.block))
        if outside is not None:
            self.scope = outside
        self.live = bool(scope.returns)
        return self.joined(scope.returns) if self.live else NOTHING

    def joined(self, ways: Sequence[tuple[Value, Any]]) -> Value:
        """Go on behind blocks that end here. Each of them brings a value."""
        if len(ways) == 1:
            self.b.position_at_end(ways[0][1])
            return ways[0][0]
        kind = ways[0][0].type
        for value, _ in ways[1:]:
            kind = common(kind, value.type)
        after = self.function.append_basic_block("after")
        found = []
        for value, block in ways:
            self.b.position_at_end(block)
            found.append((cast(self.b, value, kind), self.b.block))
            self.b.branch(after)
        self.b.position_at_end(after)
        parts = []
        for place, part in enumerate(kind.registers):
            values = [value.parts[place] for value, _ in found]
            if all(value is values[0] for value in values):
                parts.append(values[0])
                continue
            phi = self.b.phi(part)
            for value, block in found:
                phi.add_incoming(value.parts[place], block)
            parts.append(phi)
        return Value(kind, tuple(parts))

    def bind(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        variables = self.scope.variables
        slot = variables.get(name)
        if slot is None and (name in self.scope.source.once or not value.parts):
            variables[name] = value
            return
        if slot is None:
            with self.b.goto_entry_block():
                slot = Slot(value.type, tuple(self.b.alloca(part) for part in value.type.registers))
            variables[name] = slot
        if isinstance(slot, Value):
            if slot.type != value.type:
                raise TypeError(f"the variable {name} is of type {slot.type} and of {value.type}")
            return
        for part, place in zip(cast(self.b, value, slot.type).parts, slot.places, strict=True):
            self.b.store(part, place)

    def statements(self, statements: Sequence[ast.stmt]) -> None:
        """Write statements, up to one that goes elsewhere."""
        for statement in statements:
            if not self.live:
                return
            try:
                self.statement(statement)
            except (TypeError, NameError) as error:
                if not hasattr(error, "__notes__"):
                    error.add_note(f"in a kernel: {ast.unparse(statement)}")
                raise

    def statement(self, node: ast.stmt) -> None:
        """Write a statement."""
        match node:
            case ast.Assign([target], value):
                self.assign(target, self.value(value))
            case ast.AnnAssign(target, _, ast.expr() as value):
                self.assign(target, self.value(value))
            case ast.AugAssign(ast.Name(name) as target, operator, value):
                left = self.value(ast.copy_location(ast.Name(name, ast.Load()), target))
                self.bind(name, combined(self.b, type(operator), left, self.value(value)))
            case ast.Expr(ast.Constant()):
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.Return(value):
                self.scope.returns.append((NOTHING if value is None else self.value(value), self.b.block))
                self.live = False
            case ast.If(test, body, others):
                self.choose(self.truth(test), body, others)
            case ast.While(test, body, []):
                self.repeat(test, body)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds, []), body, []):
                self.count(name, [self.value(bound) for bound in bounds], body)
            case ast.Break():
                self.leave(self.scope.loops[-1][1])
            case ast.Continue():
                self.leave(self.scope.loops[-1][0])
            case _:
                raise TypeError(f"kernels have no {type(node).__name__} of this kind")

    def assign(self, target: ast.expr, value: Value) -> None:
        """Give a value to a name, or its items to several names."""
        match target:
            case ast.Name(name):
                self.bind(name, value)
            case ast.Tuple(places) if isinstance(value.type, Tuple) and len(places) == len(value.type.items):
                for place, part in zip(places, items(value), strict=True):
                    self.assign(place, part)
            case _:
                raise TypeError(f"a value of type {value.type} can't be taken apart so")

    def leave(self, block: Any) -> None:
        """Go to a block."""
        self.b.branch(block)
        self.live = False

    def choose(self, condition: Value, body: Sequence[ast.stmt], others: Sequence[ast.stmt]) -> None:
        """Write a branch. If the condition is known at compile time, write only the side that is taken."""
        if known(condition) is not None:
            self.statements(body if known(condition) else others)
            return
        yes, no = (self.function.append_basic_block(name) for name in ("yes", "no"))
        self.b.cbranch(condition.parts[0], yes, no)
        ways = []
        for block, statements in ((yes, body), (no, others)):
            self.b.position_at_end(block)
            self.live = True
            self.statements(statements)
            if self.live:
                ways.append((NOTHING, self.b.block))
        self.live = bool(ways)
        if ways:
            self.joined(ways)

    def repeat(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        """Write a loop with a condition."""
        head, inside, after = (self.function.append_basic_block(name) for name in ("head", "inside", "after"))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.truth(test).parts[0], inside, after)
        self.inside(body, inside, head, after)

    def count(self, name: str, bounds: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        """Write a loop over a range. Its step is known at compile time."""
        start, stop, step = [literal(0), *bounds, literal(1)] if len(bounds) == 1 else [*bounds, literal(1)][:3]
        hop = known(step)
        if not hop:
            raise TypeError("the step of a range must be known")
        head, inside, turn, after = (self.function.append_basic_block(of) for of in ("head", "inside", "turn", "after"))
        before, low = self.b.block, cast(self.b, start, int64).parts[0]
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(low.type)
        index.add_incoming(low, before)
        self.b.cbranch(
            self.b.icmp_signed("<" if hop > 0 else ">", index, cast(self.b, stop, int64).parts[0]), inside, after
        )
        self.b.position_at_end(inside)
        self.bind(name, Value(int64, (index,)))
        self.inside(body, inside, turn, after)
        self.b.position_at_end(turn)
        index.add_incoming(self.b.add(index, step.parts[0], flags=["nsw"]), turn)
        self.b.branch(head)
        self.b.position_at_end(after)

    def inside(self, body: Sequence[ast.stmt], block: Any, following: Any, after: Any) -> None:
        """Write the statements of a loop, and go on behind it."""
        self.scope.loops.append((following, after))
        self.b.position_at_end(block)
        self.statements(body)
        if self.live:
            self.b.branch(following)
        self.scope.loops.pop()
        self.live = True
        self.b.position_at_end(after)

    def truth(self, node: ast.expr) -> Value:
        """Return whether an expression is true."""
        return truth(self.b, self.value(node))

    def value(self, node: ast.expr) -> Value:
        """Write an expression, and return its value."""
        match node:
            case ast.Constant(bool() | int() | float() as number):
                return literal(number)
            case ast.Name(name):
                return self.named(name)
            case ast.Tuple(parts):
                return packed([self.value(part) for part in parts])
            case ast.UnaryOp(ast.USub(), operand):
                return negative(self.b, self.value(operand))
            case ast.UnaryOp(ast.Not(), operand):
                return compared(self.b, ast.Eq, self.truth(operand), literal(False))
            case ast.BinOp(left, operator, right):
                return combined(self.b, type(operator), self.value(left), self.value(right))
            case ast.Compare(left, [relation], [right]):
                return compared(self.b, type(relation), self.value(left), self.value(right))
            case ast.BoolOp(operator, operands):
                return self.in_order(operands, isinstance(operator, ast.And))
            case ast.IfExp(test, yes, no):
                return self.either(self.truth(test), lambda: self.value(yes), lambda: self.value(no))
            case ast.Attribute(of, name):
                value = self.value(of)
                if isinstance(value.type, Tuple) and name in value.type.names:
                    return items(value)[value.type.names.index(name)]
                raise TypeError(f"a value of type {value.type} has no {name}")
            case ast.Subscript(of, ast.Slice(lower, upper, None)):
                value = self.value(of)
                ends = [None if end is None else known(self.value(end)) for end in (lower, upper)]
                return packed(items(value)[slice(*ends)])
            case ast.Subscript(of, place):
                index: int = known(self.value(place))
                return items(self.value(of))[index]
            case ast.Call(ast.Name(name), arguments, []):
                return self.called(name, [self.value(argument) for argument in arguments])
        raise TypeError(f"kernels have no {type(node).__name__} of this kind")

    def named(self, name: str) -> Value:
        """Return the value of a variable, or of a constant outside the function."""
        found = self.scope.variables.get(name)
        if isinstance(found, Slot):
            return Value(found.type, tuple(map(self.b.load, found.places)))
        if found is not None:
            return found
        constant = self.scope.names.get(name)
        if isinstance(constant, bool | int | float):
            return literal(constant)
        raise NameError(f"{name} has no value here")

    def in_order(self, operands: Sequence[ast.expr], all_of: bool) -> Value:
        """Return whether all conditions hold, or any. The others are only evaluated if the first doesn't decide."""
        first, *others = operands
        value = self.truth(first)
        if not others:
            return value
        rest = lambda: self.in_order(others, all_of)  # noqa: E731
        decided = lambda: literal(not all_of)  # noqa: E731
        return self.either(value, *((rest, decided) if all_of else (decided, rest)))

    def either(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """Return one of two values. Only that one is computed."""
        if known(condition) is not None:
            return yes() if known(condition) else no()
        blocks = [self.function.append_basic_block(name) for name in ("yes", "no")]
        self.b.cbranch(condition.parts[0], *blocks)
        ways = []
        for block, way in zip(blocks, (yes, no), strict=True):
            self.b.position_at_end(block)
            value = way()
            ways.append((value, self.b.block))
        return self.joined(ways)

    def called(self, name: str, arguments: Sequence[Value]) -> Value:
        """Return the result of a function on values."""
        function = self.scope.names.get(name)
        match function:
            case Helper(body, False):
                return self.call(body, arguments)
            case Helper():
                return self.apart(function, arguments)
            case Operation(define):
                return self.operated(define, arguments)
            case type() if hasattr(function, "_fields"):
                return packed(arguments, function)
        if name in ("min", "max"):
            value, *others = arguments
            for other in others:
                smaller = compared(self.b, ast.LtE if name == "min" else ast.GtE, value, other)
                value = chosen(self.b, smaller, value, other)
            return value
        raise NameError(f"kernels can't call {name}")

    def operated(self, define: Callable[..., Any], arguments: Sequence[Value]) -> Value:
        """Return the result of an operation on values."""
        signature, generate = define(*[value.type for value in arguments])
        given = [cast(self.b, value, kind) for value, kind in zip(arguments, signature.arguments, strict=True)]
        parts = [value.parts if isinstance(value.type, Tuple) else (*value.parts, None)[0] for value in given]
        found = generate(self.context, self.b, parts)
        kind = signature.return_type
        return Value(kind, tuple(found) if isinstance(kind, Tuple) else (found,) if kind.registers else ())

    def apart(self, helper: Helper, arguments: Sequence[Value]) -> Value:
        """Call a helper that is compiled as a separate function."""
        key = helper, tuple(value.type for value in arguments)
        if key not in self.others:
            self.others[key] = function_of(self.context, self.b.module, helper.function, key[1], self.others)
        function, kind = self.others[key]
        result = self.b.call(function, [part for value in arguments for part in value.parts])
        if len(kind.registers) < 2:
            return Value(kind, (result,) if kind.registers else ())
        return Value(kind, tuple(self.b.extract_value(result, place) for place in range(len(kind.registers))))


def function_of(
    context: Any, module: ir.Module, function: FunctionType, kinds: Sequence[Type], others: dict[Any, Any]
) -> tuple[ir.Function, Type]:
    """Write a function of LLVM for arguments of some types. Return it and the type of its result."""
    made = ir.Function(
        module,
        ir.FunctionType(ir.VoidType(), [part for kind in kinds for part in kind.registers]),
        module.get_unique_name(function.__name__),
    )
    made.linkage = "internal"
    made.attributes.add("noinline")
    made.attributes.add("nounwind")
    made.attributes.alignstack = LINE  # or else vectors that wait on the stack may lie across two lines
    translator = Translator(context, made, others)
    given = iter(made.args)
    values = [Value(kind, tuple(next(given) for _ in kind.registers)) for kind in kinds]
    result = translator.call(function, values)
    if len(result.type.registers) == 1:
        translator.b.ret(result.parts[0])
    elif result.type.registers:
        together = ir.Constant(ir.LiteralStructType(result.type.registers), ir.Undefined)
        for place, part in enumerate(result.parts):
            together = translator.b.insert_value(together, part, place)
        translator.b.ret(together)
    else:
        translator.b.ret_void()
    if result.type.registers:  # the type is only known now
        made.ftype.return_type = made.return_value.type = translator.b.block.terminator.operands[0].type
    return made, result.type
