"""Numbers inside kernels: loading, storing and fused multiply-adds, for one number or many at once.

A `Lanes` type says how numbers lie in memory (their storage) and how many are handled at once. A loaded value is a
numba scalar if that is one, and an LLVM vector otherwise: real and imaginary parts of complex numbers lie side by side
in it. float16 and bfloat16 become float32 as they are loaded and are rounded once, to nearest even, as they are
stored.

Addresses are 64-bit integers. The part that a loop changes is passed as an offset, so that LLVM sees one pointer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from recfact.cpu.halves import I16, I32, narrow, splat, widen
from recfact.number_types import NUMBER_TYPES

# The decorator of numba with a type that mypy can follow.
operation: Callable[[Callable[..., Any]], Any] = intrinsic

# Bytes that an address which is written past the caches must be a multiple of: processors have no such write without.
ALIGNED = 16

I8, I64 = ir.IntType(8), ir.IntType(64)


class Lanes(types.Type):  # type: ignore[misc]
    """How numbers lie in memory, and how many are handled at once.

    Parameters
    ----------
    storage : str
        The name of their dtype: one of `NUMBER_TYPES`.
    count : int
        How many.
    streams : bool, default False
        Whether they are written past the caches, to multiples of 16 bytes (`recfact.cpu.streaming`).
    """

    def __init__(self, storage: str, count: int, streams: bool = False) -> None:
        self.storage = storage
        self.type = NUMBER_TYPES[np.dtype(storage)]
        self.count = count
        self.streams = streams
        super().__init__(name=f"{storage}x{count}{'_streamed' if streams else ''}")

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are pairs of reals."""
        return self.type.is_complex

    @property
    def itemsize(self) -> int:
        """Bytes of one number in memory."""
        return self.type.size

    @property
    def state(self) -> Lanes:
        """The same number of lanes in the type that is computed in."""
        return Lanes(self.type.accumulator.name, self.count)

    @property
    def real(self) -> ir.Type:
        """LLVM's type of a real in registers."""
        return ir.DoubleType() if self.type.format == "binary64" else ir.FloatType()

    @property
    def vector(self) -> ir.VectorType:
        """LLVM's type of all the reals in registers."""
        return ir.VectorType(self.real, self.count * (2 if self.is_complex else 1))

    @property
    def value(self) -> types.Type:
        """The numba type of a value in registers."""
        if self.count > 1:
            return Vector(self.state.storage, self.count)
        return getattr(types, self.state.storage)


class Vector(types.Type):  # type: ignore[misc]
    """The numba type of `count` numbers in registers."""

    def __init__(self, storage: str, count: int) -> None:
        self.lanes = Lanes(storage, count)
        super().__init__(name=f"Vector({storage}x{count})")


@register_model(Lanes)
class LanesModel(models.OpaqueModel):  # type: ignore[misc]
    """A `Lanes` argument carries nothing at run time."""


@unbox(Lanes)
def unbox_lanes(typ: Any, obj: Any, c: Any) -> Any:
    """Ignore the object passed for a `Lanes` argument."""
    return NativeValue(c.context.get_dummy_value())


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """A `Vector` is a vector of LLVM."""

    def __init__(self, manager: Any, typ: Any) -> None:
        super().__init__(manager, typ, typ.lanes.vector)


def call(builder: Any, name: str, *operands: Any) -> Any:
    """Call LLVM's function `name` for vectors of the operands' type, which it also returns."""
    kind = operands[0].type
    suffix = {"float": "f32", "double": "f64"}[str(kind.element)]
    signature = ir.FunctionType(kind, [kind] * len(operands))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{kind.count}{suffix}")
    return builder.call(function, operands)


def shuffle(builder: Any, vector: Any, indices: list[int]) -> Any:
    """Return the vector of the elements of `vector` at `indices`."""
    pattern = ir.Constant(ir.VectorType(I32, len(indices)), indices)
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), pattern)


def to_vector(builder: Any, lanes: Lanes, value: Any) -> Any:
    """Return a value in registers as an LLVM vector of its reals."""
    if lanes.count > 1:
        return value
    parts = [builder.extract_value(value, i) for i in (0, 1)] if lanes.is_complex else [value]
    vector = ir.Constant(lanes.vector, ir.Undefined)
    for i, part in enumerate(parts):
        vector = builder.insert_element(vector, part, ir.Constant(I32, i))
    return vector


def from_vector(builder: Any, lanes: Lanes, vector: Any) -> Any:
    """Return an LLVM vector of reals as the value that numba knows; the inverse of `to_vector`."""
    if lanes.count > 1:
        return vector
    parts = [builder.extract_element(vector, ir.Constant(I32, i)) for i in range(vector.type.count)]
    if not lanes.is_complex:
        return parts[0]
    pair = ir.Constant(ir.LiteralStructType([lanes.real] * 2), ir.Undefined)
    for i, part in enumerate(parts):
        pair = builder.insert_value(pair, part, i)
    return pair


def pointer(builder: Any, kind: ir.Type, address: Any, offset: Any) -> Any:
    """Return a pointer to a `kind`, `offset` bytes behind an address."""
    start = builder.inttoptr(address, I8.as_pointer())
    return builder.bitcast(builder.gep(start, [offset]), kind.as_pointer())


def read(context: Any, builder: Any, lanes: Lanes, reals: int, address: Any, offset: Any) -> Any:
    """Load `reals` real numbers next to each other in memory as a vector."""
    half = lanes.type.is_half
    kind = ir.VectorType(I16 if half else lanes.real, reals)
    vector = builder.load(pointer(builder, kind, address, offset))
    vector.align = 1
    return widen(context, builder, lanes.storage, vector) if half else vector


def write(
    context: Any, builder: Any, lanes: Lanes, address: Any, offset: Any, vector: Any, finite: bool = False
) -> None:
    """Store a vector of reals next to each other in memory; `finite` says that all are."""
    if lanes.type.is_half:
        vector = narrow(context, builder, lanes.storage, vector, finite)
    put_bits(builder, lanes, address, offset, vector)


def put_bits(builder: Any, lanes: Lanes, address: Any, offset: Any, vector: Any) -> None:
    """Store a vector as it is, where and how numbers of `lanes` are stored."""
    stored = builder.store(vector, pointer(builder, vector.type, address, offset))
    stored.align = ALIGNED if lanes.streams else 1
    if lanes.streams:
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def fused(builder: Any, lanes: Lanes, a: Any, x: Any, u: Any) -> Any:
    """Return a x + u for vectors of reals: one rounding a step if they are real, two if they are complex."""
    if not lanes.is_complex:
        return call(builder, "fma", a, x, u)
    real_parts, imaginary_parts = crossed(builder, lanes, a)
    return call(builder, "fma", real_parts, x, call(builder, "fma", imaginary_parts, swapped(builder, x), u))


def crossed(builder: Any, lanes: Lanes, a: Any) -> tuple[Any, Any]:
    """Return what `a` multiplies x by, and what it multiplies x with its parts swapped by: (r, r) and (-i, i)."""
    pairs = range(0, 2 * lanes.count, 2)
    signs = ir.Constant(a.type, [ir.Constant(lanes.real, sign) for _ in pairs for sign in (-1.0, 1.0)])
    real_parts = shuffle(builder, a, [i for i in pairs for _ in (0, 1)])
    imaginary_parts = shuffle(builder, a, [i + 1 for i in pairs for _ in (0, 1)])
    return real_parts, builder.fmul(imaginary_parts, signs)


def swapped(builder: Any, x: Any) -> Any:
    """Return `x` with its real and imaginary parts exchanged."""
    return shuffle(builder, x, [i ^ 1 for i in range(x.type.count)])


def every(builder: Any, mask: Any) -> Any:
    """Return, as numba's boolean, whether all elements of a vector of bits are set."""
    bit = ir.IntType(1)
    signature = ir.FunctionType(bit, [mask.type])
    name = f"llvm.vector.reduce.and.v{mask.type.count}i1"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [mask])


def nothing(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate no code, for an operation on types alone."""
    return context.get_dummy_value()


@operation
def single(typingctx: Any, lanes: Any) -> Any:
    """Return the same storage, one number at a time."""
    return Lanes(lanes.storage, 1)(lanes), nothing


@operation
def accumulator(typingctx: Any, lanes: Any) -> Any:
    """Return as many lanes in the type that is computed in."""
    return lanes.state(lanes), nothing


@operation
def width(typingctx: Any, lanes: Any) -> Any:
    """Return the number of lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(I64, lanes.count)

    return types.int64(lanes), codegen


@operation
def size(typingctx: Any, lanes: Any) -> Any:
    """Return the bytes that all lanes take in memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(I64, lanes.count * lanes.itemsize)

    return types.int64(lanes), codegen


@operation
def integer(typingctx: Any, address: Any, index: Any) -> Any:
    """Load one of the 64-bit integers at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(pointer(builder, I64, args[0], builder.mul(args[1], ir.Constant(I64, 8))))

    return types.int64(types.int64, types.int64), codegen


@operation
def put_integer(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store one of the 64-bit integers at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], pointer(builder, I64, args[0], builder.mul(args[1], ir.Constant(I64, 8))))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@operation
def load(typingctx: Any, lanes: Any, address: Any, offset: Any) -> Any:
    """Load as many numbers as there are lanes, next to each other in memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return from_vector(builder, lanes, read(context, builder, lanes, lanes.vector.count, *args[1:]))

    return lanes.value(lanes, types.int64, types.int64), codegen


@operation
def load_shared(typingctx: Any, lanes: Any, address: Any, offset: Any) -> Any:
    """Load one number into every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = lanes.vector.count // lanes.count
        number = read(context, builder, lanes, parts, *args[1:])
        return from_vector(builder, lanes, shuffle(builder, number, list(range(parts)) * lanes.count))

    return lanes.value(lanes, types.int64, types.int64), codegen


@operation
def store(typingctx: Any, lanes: Any, address: Any, offset: Any, value: Any) -> Any:
    """Store as many numbers as there are lanes, next to each other in memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write(context, builder, lanes, args[1], args[2], to_vector(builder, lanes, args[3]))
        return context.get_dummy_value()

    return types.void(lanes, types.int64, types.int64, lanes.value), codegen


@operation
def drain(typingctx: Any, lanes: Any) -> Any:
    """Wait until all that was written past the caches is in memory, where other threads look for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if lanes.streams:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(lanes), codegen


@operation
def fma(typingctx: Any, lanes: Any, a: Any, x: Any, u: Any) -> Any:
    """Return a x + u: rounded once if real, each part twice if complex."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vectors = [to_vector(builder, lanes, value) for value in args[1:]]
        return from_vector(builder, lanes, fused(builder, lanes, *vectors))

    return lanes.value(lanes, lanes.value, lanes.value, lanes.value), codegen


@operation
def multiply(typingctx: Any, lanes: Any, a: Any, x: Any) -> Any:
    """Return a x."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, x = (to_vector(builder, lanes, value) for value in args[1:])
        if not lanes.is_complex:
            return from_vector(builder, lanes, builder.fmul(a, x))
        real_parts, imaginary_parts = crossed(builder, lanes, a)
        product = call(builder, "fma", real_parts, x, builder.fmul(imaginary_parts, swapped(builder, x)))
        return from_vector(builder, lanes, product)

    return lanes.value(lanes, lanes.value, lanes.value), codegen


@operation
def nought(typingctx: Any, lanes: Any) -> Any:
    """Return zero in every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return from_vector(builder, lanes, splat(lanes.vector, 0.0))

    return lanes.value(lanes), codegen


@operation
def all_finite(typingctx: Any, lanes: Any, value: Any) -> Any:
    """Return whether no part of a value is infinite or NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_ordered("ord", builder.fsub(vector, vector), splat(vector.type, 0.0)))

    return types.boolean(lanes, lanes.value), codegen


@operation
def all_nan(typingctx: Any, lanes: Any, value: Any) -> Any:
    """Return whether every part of a value is NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return every(builder, builder.fcmp_unordered("uno", vector, vector))

    return types.boolean(lanes, lanes.value), codegen


@operation
def any_nan(typingctx: Any, lanes: Any, value: Any) -> Any:
    """Return whether some part of a value is NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = to_vector(builder, lanes, args[1])
        return builder.not_(every(builder, builder.fcmp_ordered("ord", vector, vector)))

    return types.boolean(lanes, lanes.value), codegen
