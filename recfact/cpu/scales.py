"""Products of many coefficients, each kept as a number and a power of two, its scale.

Long products become subnormal. Subnormal numbers have fewer digits, and some processors take a hundred times as long to
compute with them. So a small product is kept as a larger number, and what it is multiplied by is multiplied by its
scale first. A product becomes zero below half of the smallest number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.halves import splat
from recfact.cpu.language import operation
from recfact.cpu.magnitudes import absolute
from recfact.cpu.numbers import every, from_vector, to_vector

# Steps after which a product that takes one coefficient a step gets another scale if it needs one. Until then
# coefficients of 1/7 don't make it subnormal, and each step waits for the one before it and not for this.
SPACING = 16


def scaled_anew(builder: Any, product: Any, scale: Any, size: Any) -> tuple[Any, Any]:
    """Return a number and a power of two whose product is `product` times `scale`. The number isn't subnormal.

    A small product gets a scale, and a large one loses it. `size` is the magnitude of `product`. All are scalars or
    vectors of reals.
    """
    kind = product.type
    power, least = exponents(kind)

    def constant(number: float) -> Any:
        return splat(kind, number) if isinstance(kind, ir.VectorType) else ir.Constant(kind, number)

    def between(lowest: float, highest: Any) -> Any:
        above = builder.fcmp_ordered(">", size, constant(lowest))
        return builder.and_(above, builder.fcmp_ordered("<", size, highest))

    one, low, high = (constant(2.0**exponent) for exponent in (0, -power, power))
    plain = builder.fcmp_ordered("==", scale, one)
    raised = builder.and_(plain, between(0.0, low))
    kept = builder.or_(plain, between(2.0**least, one))
    change = builder.select(raised, high, builder.select(kept, one, low))
    return builder.fmul(product, change), builder.select(raised, low, builder.select(kept, scale, one))


def exponents(kind: Any) -> tuple[int, int]:
    """Return the exponent of the power of two that raises products below its inverse, and that of the least raised."""
    return (80, -70) if getattr(kind, "element", kind) == ir.FloatType() else (512, -563)


@operation
def no_scale(lanes: Any) -> Any:
    """Return a scale of 1 for every lane."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        return from_vector(builder, lanes, splat(lanes.vector, 1.0))

    return lanes.value(lanes), codegen


@operation
def unscaled(lanes: Any, scale: Any) -> Any:
    """Return whether the scale of every lane is 1."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_ordered("==", vector, splat(vector.type, 1.0)))

    return types.boolean(lanes, lanes.value), codegen


@operation
def scaled(lanes: Any, scale: Any, value: Any) -> Any:
    """Return a value times a scale. Both parts of a complex number have the same scale."""

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        scale, value = (to_vector(builder, lanes, argument) for argument in args[1:])
        return from_vector(builder, lanes, builder.fmul(scale, value))

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def rescaled(lanes: Any, product: Any, scale: Any) -> Any:
    """Return products and their scales such that no product is subnormal.

    What they stand for changes only below the least number.
    """

    def codegen(context: Any, builder: Any, args: Any) -> Any:
        product, scale = (to_vector(builder, lanes, argument) for argument in args[1:])
        found = scaled_anew(builder, product, scale, absolute(builder, lanes, product))
        return [from_vector(builder, lanes, vector) for vector in found]

    return types.Tuple([lanes.value] * 2)(lanes, lanes.value, lanes.value), codegen
