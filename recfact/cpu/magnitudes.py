"""Magnitudes: operations on absolute values, which bound the states on the way of a window.

All bounds are twice as large as they need to be, so the rounding of bounds and states doesn't matter. For a complex
number both parts are |re| + |im|. No part of a product exceeds the product of these sums.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.halves import splat
from recfact.cpu.language import operation
from recfact.cpu.numbers import Lanes, call, every, from_vector, shuffle, swapped, to_vector


def absolute(builder: Any, lanes: Lanes, vector: Any) -> Any:
    """Return the magnitudes of the numbers in a vector of reals."""
    parts = call(builder, "fabs", vector)
    return builder.fadd(parts, swapped(builder, parts)) if lanes.is_complex else parts


@operation
def grown(lanes: Any, bound: Any, a: Any, u: Any) -> Any:
    """Return the next step's bound |a| bound + 2 |u|. Numbers that aren't finite count as zero."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        bound, a, u = (to_vector(builder, lanes, value) for value in args[1:])
        zero = splat(lanes.vector, 0.0)

        def size(vector: Any) -> Any:
            sizes = absolute(builder, lanes, vector)
            return builder.select(builder.fcmp_ordered("<", sizes, splat(lanes.vector, float("inf"))), sizes, zero)

        twice = builder.fmul(size(u), splat(lanes.vector, 2.0))
        return from_vector(builder, lanes, call(builder, "fma", size(a), bound, twice))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def reached(lanes: Any, peak: Any, entry: Any, bound: Any) -> Any:
    """Return 2 peak |entry| + bound. It bounds the states that follow from an entry and products up to a peak."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        peak, entry, bound = (to_vector(builder, lanes, value) for value in args[1:])
        twice = builder.fmul(absolute(builder, lanes, entry), splat(lanes.vector, 2.0))
        return from_vector(builder, lanes, call(builder, "fma", peak, twice, bound))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def largest(lanes: Any, peak: Any, g: Any) -> Any:
    """Return the maximum of a peak and |g|."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        peak, g = (to_vector(builder, lanes, value) for value in args[1:])
        return from_vector(builder, lanes, call(builder, "maxnum", peak, absolute(builder, lanes, g)))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


def bits(vector: Any) -> ir.VectorType:
    """Return the type of a vector of integers as wide as the reals of `vector`."""
    return ir.VectorType(ir.IntType(32 if vector.type.element == ir.FloatType() else 64), vector.type.count)


@operation
def higher(lanes: Any, highest: Any, value: Any) -> Any:
    """Return the larger of a magnitude so far and the magnitude of a value, or NaN if one is NaN.

    The magnitude is |value|, or |value|^2 if complex. The bits of magnitudes, read as integers, are in the same order,
    and NaN is above all.
    """

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        highest, value = (to_vector(builder, lanes, argument) for argument in args[1:])
        if lanes.is_complex:
            value = builder.fmul(value, value)
            value = builder.fadd(value, swapped(builder, value))
        found, before = (builder.bitcast(vector, bits(value)) for vector in (call(builder, "fabs", value), highest))
        larger = builder.select(builder.icmp_unsigned(">", found, before), found, before)
        return from_vector(builder, lanes, builder.bitcast(larger, value.type))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def below(lanes: Any, highest: Any, limit: Any) -> Any:
    """Return whether the magnitude that `higher` found is at most a limit. NaN isn't."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        highest, limit = to_vector(builder, lanes, args[1]), args[2]
        if lanes.is_complex:
            limit = builder.fmul(limit, limit)
        bound = limit if lanes.real == ir.DoubleType() else builder.fptrunc(limit, lanes.real)
        most = builder.insert_element(ir.Constant(lanes.vector, ir.Undefined), bound, ir.Constant(ir.IntType(32), 0))
        most = shuffle(builder, most, [0] * most.type.count)
        return every(builder, builder.fcmp_ordered("<=", highest, most))

    return types.boolean(lanes, lanes.value, types.float64), codegen
