"""What kernels do with numbers: loads, stores and arithmetic, for one number or many at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.halves import splat
from recfact.cpu.language import nothing, operation
from recfact.cpu.numbers import (
    I64,
    Lanes,
    call,
    every,
    from_vector,
    fused,
    pointer,
    product,
    read,
    shuffle,
    to_vector,
    write,
)


@operation
def single(lanes: Any) -> Any:
    """Return the same storage, one number at a time."""
    return Lanes(lanes.storage, 1)(lanes), nothing


@operation
def real_number(lanes: Any) -> Any:
    """Return one number of float64 at a time."""
    return Lanes("float64", 1)(lanes), nothing


@operation
def accumulator(lanes: Any) -> Any:
    """Return as many lanes in the type that is computed in."""
    return lanes.state(lanes), nothing


@operation
def streamed(lanes: Any) -> Any:
    """Return the same lanes, written past the caches."""
    return Lanes(lanes.storage, lanes.count, True)(lanes), nothing


@operation
def width(lanes: Any) -> Any:
    """Return the number of lanes."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return ir.Constant(I64, lanes.count)

    return types.int64(lanes), codegen


@operation
def size(lanes: Any) -> Any:
    """Return the bytes that all lanes take in memory."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return ir.Constant(I64, lanes.count * lanes.itemsize)

    return types.int64(lanes), codegen


@operation
def integer(address: Any, index: Any) -> Any:
    """Load one of the 64-bit integers at an address."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return builder.load(pointer(builder, I64, args[0], builder.mul(args[1], ir.Constant(I64, 8))))

    return types.int64(types.int64, types.int64), codegen


@operation
def put_integer(address: Any, index: Any, value: Any) -> Any:
    """Store one of the 64-bit integers at an address."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        builder.store(args[2], pointer(builder, I64, args[0], builder.mul(args[1], ir.Constant(I64, 8))))

    return types.void(types.int64, types.int64, types.int64), codegen


@operation
def load(lanes: Any, address: Any, offset: Any) -> Any:
    """Load as many numbers as there are lanes, next to each other in memory."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return from_vector(builder, lanes, read(context, builder, lanes, lanes.vector.count, *args[1:]))

    return lanes.value(lanes, types.int64, types.int64), codegen


@operation
def load_shared(lanes: Any, address: Any, offset: Any) -> Any:
    """Load one number into every lane."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        parts = lanes.vector.count // lanes.count
        number = read(context, builder, lanes, parts, *args[1:])
        return from_vector(builder, lanes, shuffle(builder, number, list(range(parts)) * lanes.count))

    return lanes.value(lanes, types.int64, types.int64), codegen


@operation
def store(lanes: Any, address: Any, offset: Any, value: Any) -> Any:
    """Store as many numbers as there are lanes, next to each other in memory."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        write(context, builder, lanes, args[1], args[2], to_vector(builder, lanes, args[3]))

    return types.void(lanes, types.int64, types.int64, lanes.value), codegen


@operation
def drain(lanes: Any) -> Any:
    """Wait until everything written past the caches is in memory, so that other threads find it there."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        if lanes.streams:
            builder.fence("seq_cst")

    return types.void(lanes), codegen


@operation
def fma(lanes: Any, a: Any, x: Any, u: Any) -> Any:
    """Return a x + u. A real result is rounded once, each part of a complex one twice."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vectors = [to_vector(builder, lanes, value) for value in args[1:]]
        return from_vector(builder, lanes, fused(builder, lanes, *vectors))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def checked(lanes: Any, value: Any, checks: Any) -> Any:
    """Return `checks`, sums of zero times numbers, with those of `value` added: NaN where a part isn't finite."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vectors = [to_vector(builder, lanes, value) for value in args[1:]]
        zero = splat(lanes.vector, 0.0)
        return from_vector(builder, lanes, call(builder, "fma", vectors[0], zero, vectors[1]))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def multiply(lanes: Any, a: Any, x: Any) -> Any:
    """Return a x."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vectors = [to_vector(builder, lanes, value) for value in args[1:]]
        return from_vector(builder, lanes, product(builder, lanes, *vectors))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def add(lanes: Any, x: Any, y: Any) -> Any:
    """Return x + y."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        x, y = (to_vector(builder, lanes, value) for value in args[1:])
        return from_vector(builder, lanes, builder.fadd(x, y))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def total(lanes: Any, x: Any) -> Any:
    """Return the sum of all lanes, by halves, so that every processor rounds alike. Their number is a power of two."""
    one = Lanes(lanes.state.storage, 1)

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        while vector.type.count > one.vector.count:
            half = vector.type.count // 2
            low = shuffle(builder, vector, list(range(half)))
            vector = builder.fadd(low, shuffle(builder, vector, list(range(half, 2 * half))))
        return from_vector(builder, one, vector)

    return one.value(lanes, lanes.value), codegen


@operation
def nought(lanes: Any) -> Any:
    """Return zero in every lane."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return from_vector(builder, lanes, splat(lanes.vector, 0.0))

    return lanes.value(lanes), codegen


@operation
def all_finite(lanes: Any, value: Any) -> Any:
    """Return whether no part of a value is infinite or NaN."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_ordered("ord", builder.fsub(vector, vector), splat(vector.type, 0.0)))

    return types.boolean(lanes, lanes.value), codegen


@operation
def vanishes(lanes: Any, value: Any) -> Any:
    """Return whether a value is zero."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_ordered("==", vector, splat(vector.type, 0.0)))

    return types.boolean(lanes, lanes.value), codegen


@operation
def all_nan(lanes: Any, value: Any) -> Any:
    """Return whether every part of a value is NaN."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_unordered("uno", vector, vector))

    return types.boolean(lanes, lanes.value), codegen


@operation
def any_nan(lanes: Any, value: Any) -> Any:
    """Return whether some part of a value is NaN."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return builder.not_(every(builder, builder.fcmp_ordered("ord", vector, vector)))

    return types.boolean(lanes, lanes.value), codegen
