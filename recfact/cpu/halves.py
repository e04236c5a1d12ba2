"""float16 and bfloat16 in registers: they are widened to float32 exactly, and rounded back once, to nearest even.

The conversions use arithmetic that every processor has. Processors that can convert float16 themselves do so. The
results are the same, also for subnormal numbers, infinities and NaN.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

I16, I32 = ir.IntType(16), ir.IntType(32)


def splat(vector: ir.VectorType, number: Any) -> ir.Constant:
    """Return the constant vector whose elements are all `number`."""
    return ir.Constant(vector, [ir.Constant(vector.element, number)] * vector.count)


def widen(context: Any, builder: Any, storage: str, bits: Any) -> Any:
    """Return a vector of halves, given as 16-bit integers, as float32. This is exact."""
    floats = ir.VectorType(ir.FloatType(), bits.type.count)
    wide = ir.VectorType(I32, bits.type.count)
    if storage == "bfloat16":
        return builder.bitcast(builder.shl(builder.zext(bits, wide), splat(wide, 16)), floats)
    if has_float16(context):
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), bits.type.count)), floats)
    word = builder.zext(bits, wide)
    sign = builder.shl(builder.and_(word, splat(wide, 0x8000)), splat(wide, 16))
    # The fields of float16, moved into those of float32, mean 2^-112 times the number, except for inf and NaN.
    moved = builder.shl(builder.and_(word, splat(wide, 0x7FFF)), splat(wide, 13))
    number = builder.bitcast(builder.fmul(builder.bitcast(moved, floats), splat(floats, 2.0**112)), wide)
    special = builder.icmp_unsigned(">=", moved, splat(wide, 0x0F800000))
    number = builder.select(special, builder.or_(moved, splat(wide, 0x7F800000)), number)
    return builder.bitcast(builder.or_(number, sign), floats)


def narrow(context: Any, builder: Any, storage: str, floats: Any, finite: bool = False) -> Any:
    """Return a vector of float32 rounded to halves, to nearest even, as 16-bit integers. If `finite`, none is NaN."""
    halves = ir.VectorType(I16, floats.type.count)
    wide = ir.VectorType(I32, floats.type.count)
    word = builder.bitcast(floats, wide)
    if storage == "bfloat16":
        rounded = rounded_up_half(builder, word)
        if not finite:
            quiet = builder.or_(word, splat(wide, 0x400000))
            rounded = builder.select(builder.fcmp_unordered("uno", floats, floats), quiet, rounded)
        return builder.trunc(builder.lshr(rounded, splat(wide, 16)), halves)
    if has_float16(context):
        return builder.bitcast(builder.fptrunc(floats, ir.VectorType(ir.HalfType(), floats.type.count)), halves)
    sign = builder.lshr(builder.and_(word, splat(wide, 0x80000000)), splat(wide, 16))
    size = builder.and_(word, splat(wide, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(size, splat(wide, 13)), splat(wide, 1))
    rebias = (15 - 127 << 23) + 0xFFF & 0xFFFFFFFF
    normal = builder.lshr(builder.add(size, builder.add(odd, splat(wide, rebias))), splat(wide, 13))
    # Adding 1/2 shifts a number below 2^-14 into the last bits of a float32, rounded to multiples of 2^-24.
    tiny = builder.fadd(builder.bitcast(size, floats.type), splat(floats.type, 0.5))
    tiny = builder.sub(builder.bitcast(tiny, wide), splat(wide, 0x3F000000))
    nan = builder.icmp_unsigned(">", size, splat(wide, 0x7F800000))
    special = builder.select(nan, splat(wide, 0x7E00), splat(wide, 0x7C00))
    half = builder.select(builder.icmp_unsigned("<", size, splat(wide, 0x38800000)), tiny, normal)
    half = builder.select(builder.icmp_unsigned(">=", size, splat(wide, 0x47800000)), special, half)
    return builder.trunc(builder.or_(half, sign), halves)


def widen_pairs(builder: Any, pairs: Any) -> tuple[Any, Any]:
    """Return the first and the second of pairs of bfloat16, given as 32-bit integers, as float32. This is exact."""
    floats = ir.VectorType(ir.FloatType(), pairs.type.count)
    first = builder.shl(pairs, splat(pairs.type, 16))
    second = builder.and_(pairs, splat(pairs.type, 0xFFFF0000))
    return builder.bitcast(first, floats), builder.bitcast(second, floats)


def narrow_pairs(builder: Any, first: Any, second: Any) -> Any:
    """Return vectors of finite float32 rounded to pairs of bfloat16, to nearest even, as 32-bit integers."""
    wide = ir.VectorType(I32, first.type.count)
    low = builder.lshr(rounded_up_half(builder, builder.bitcast(first, wide)), splat(wide, 16))
    high = builder.and_(rounded_up_half(builder, builder.bitcast(second, wide)), splat(wide, 0xFFFF0000))
    return builder.or_(low, high)


def rounded_up_half(builder: Any, word: Any) -> Any:
    """Return the bits of float32 plus a number that rounds: the upper half is then their bfloat16, to nearest even."""
    odd = builder.and_(builder.lshr(word, splat(word.type, 16)), splat(word.type, 1))
    return builder.add(word, builder.add(odd, splat(word.type, 0x7FFF)))


def permutes_halves(context: Any) -> bool:
    """Return whether the target processor moves any 16-bit numbers of two vectors at once."""
    return has_float16(context) and "+avx512bw" in context.features


def has_float16(context: Any) -> bool:
    """Return whether the target processor converts float16 itself."""
    return "+f16c" in context.features
