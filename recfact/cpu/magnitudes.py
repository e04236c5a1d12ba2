"""Magnitudes: operations on absolute values, which bound the states on the way of a window.

All bounds are twice what they need be, so that the rounding of neither bounds nor states matters. A complex number
counts as |re| + |im| in both parts: no part of a product exceeds the product of these.
"""

from __future__ import annotations

from typing import Any

from recfact.cpu.halves import splat
from recfact.cpu.numbers import Lanes, call, from_vector, operation, swapped, to_vector


def absolute(builder: Any, lanes: Lanes, vector: Any) -> Any:
    """Return the magnitudes of the numbers in a vector of reals."""
    parts = call(builder, "fabs", vector)
    return builder.fadd(parts, swapped(builder, parts)) if lanes.is_complex else parts


@operation
def grown(typingctx: Any, lanes: Any, bound: Any, a: Any, u: Any) -> Any:
    """Return |a| bound + 2 |u|, taking numbers that aren't finite for zero: a bound's way from step to step."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bound, a, u = (to_vector(builder, lanes, value) for value in args[1:])
        zero = splat(lanes.vector, 0.0)

        def size(vector: Any) -> Any:
            sizes = absolute(builder, lanes, vector)
            return builder.select(builder.fcmp_ordered("<", sizes, splat(lanes.vector, float("inf"))), sizes, zero)

        twice = builder.fmul(size(u), splat(lanes.vector, 2.0))
        return from_vector(builder, lanes, call(builder, "fma", size(a), bound, twice))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def reached(typingctx: Any, lanes: Any, peak: Any, entry: Any, bound: Any) -> Any:
    """Return 2 peak |entry| + bound: a bound of the states that an entry and products up to a peak lead to."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        peak, entry, bound = (to_vector(builder, lanes, value) for value in args[1:])
        twice = builder.fmul(absolute(builder, lanes, entry), splat(lanes.vector, 2.0))
        return from_vector(builder, lanes, call(builder, "fma", peak, twice, bound))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def largest(typingctx: Any, lanes: Any, peak: Any, g: Any) -> Any:
    """Return the maximum of a peak and |g|."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        peak, g = (to_vector(builder, lanes, value) for value in args[1:])
        return from_vector(builder, lanes, call(builder, "maxnum", peak, absolute(builder, lanes, g)))

    return lanes.value(lanes, lanes.value, lanes.value), codegen
