"""Numbers inside kernels: how they lie in memory and in registers, one or many at once, and LLVM's code for them.

A `Lanes` type says how numbers lie in memory (their storage) and how many are handled at once. If it is one, a loaded
value is a scalar. Otherwise it is an LLVM vector, in which real and imaginary parts of complex numbers lie side by
side. float16 and bfloat16 become float32 when they are loaded. They are rounded once, to nearest even, when they are
stored.

Addresses are 64-bit integers. The part that a loop changes is passed as an offset, so that LLVM sees one pointer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from recfact.cpu import types
from recfact.cpu.halves import I16, I32, narrow, widen
from recfact.number_types import NUMBER_TYPES

# Alignment in bytes of addresses that are written past the caches. Processors have no such writes to others.
ALIGNED = 16

LINE = 64  # bytes of a cache line, and of the widest vector
PAGE = 4096  # bytes

I8, I64 = ir.IntType(8), ir.IntType(64)


class Lanes(types.Type):
    """How numbers lie in memory, and how many are handled at once.

    Parameters
    ----------
    storage : str
        The name of their dtype: one of `NUMBER_TYPES`.
    count : int
        Number of lanes.
    streams : bool, default False
        Whether they are written past the caches, to multiples of 16 bytes (`recfact.cpu.uncached_writes`).
    """

    def __init__(self, storage: str, count: int, streams: bool = False) -> None:
        self.storage = storage
        self.type = NUMBER_TYPES[np.dtype(storage)]
        self.count = count
        self.streams = streams
        super().__init__(f"{storage}x{count}{'_streamed' if streams else ''}")

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
        """The type of a value in registers."""
        if self.count > 1:
            return Vector(self.state.storage, self.count)
        return types.NUMBERS[self.state.storage]


class Vector(types.Type):
    """The type of `count` numbers in registers: a vector of LLVM."""

    def __init__(self, storage: str, count: int) -> None:
        super().__init__(f"vector({storage}x{count})", [Lanes(storage, count).vector])


def declared(module: ir.Module, signature: ir.FunctionType, name: str) -> ir.Function:
    """Return a function of LLVM, declared in a module that calls it."""
    return module.globals.get(name) or ir.Function(module, signature, name)


def pinned(builder: Any, address: Any) -> Any:
    """Return an address. LLVM doesn't see that it is the same, so it derives no other address ahead of a loop."""
    return builder.call(ir.InlineAsm(ir.FunctionType(I64, [I64]), "", "=r,0"), [address])


def prefetch(builder: Any, address: Any, far: bool = False) -> None:
    """Ask memory for the line at an address, to read it soon. The address need not be valid.

    The line goes to the first-level cache, or if `far` to the second one.
    """
    place = builder.inttoptr(address, I8.as_pointer())
    locality = 2 if far else 3
    options = [ir.Constant(ir.IntType(32), option) for option in (0, locality, 1)]  # to read, close, data
    kind = ir.FunctionType(ir.VoidType(), [place.type, *(option.type for option in options)])
    builder.call(declared(builder.module, kind, "llvm.prefetch.p0i8"), [place, *options])


def call(builder: Any, name: str, *operands: Any) -> Any:
    """Call LLVM's function `name` for vectors of the operands' type. The result has this type as well."""
    kind = operands[0].type
    suffix = {"float": "f32", "double": "f64"}[str(kind.element)]
    signature = ir.FunctionType(kind, [kind] * len(operands))
    return builder.call(declared(builder.module, signature, f"llvm.{name}.v{kind.count}{suffix}"), operands)


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
    """Return an LLVM vector of reals as a value of kernels. This is the inverse of `to_vector`."""
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
    """Store a vector of reals next to each other in memory. `finite` says that all reals are finite."""
    if lanes.type.is_half:
        vector = narrow(context, builder, lanes.storage, vector, finite)
    put_bits(builder, lanes, address, offset, vector)


def put_bits(builder: Any, lanes: Lanes, address: Any, offset: Any, vector: Any) -> None:
    """Store the bits of a vector unchanged, at the place and in the way of numbers of `lanes`."""
    stored = builder.store(vector, pointer(builder, vector.type, address, offset))
    stored.align = ALIGNED if lanes.streams else 1
    if lanes.streams:
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def fused(builder: Any, lanes: Lanes, a: Any, x: Any, u: Any) -> Any:
    """Return a x + u for vectors of reals. A step has one rounding for real numbers, and two for complex numbers."""
    if not lanes.is_complex:
        return call(builder, "fma", a, x, u)
    real_parts, imaginary_parts = crossed(builder, lanes, a)
    return call(builder, "fma", real_parts, x, call(builder, "fma", imaginary_parts, swapped(builder, x), u))


def product(builder: Any, lanes: Lanes, a: Any, x: Any) -> Any:
    """Return a x for vectors of reals."""
    if not lanes.is_complex:
        return builder.fmul(a, x)
    real_parts, imaginary_parts = crossed(builder, lanes, a)
    return call(builder, "fma", real_parts, x, builder.fmul(imaginary_parts, swapped(builder, x)))


def crossed(builder: Any, lanes: Lanes, a: Any) -> tuple[Any, Any]:
    """Return the factors of a product by `a`: (r, r) for x, and (-i, i) for x with its parts swapped."""
    pairs = range(0, 2 * lanes.count, 2)
    signs = ir.Constant(a.type, [ir.Constant(lanes.real, sign) for _ in pairs for sign in (-1.0, 1.0)])
    real_parts = shuffle(builder, a, [i for i in pairs for _ in (0, 1)])
    imaginary_parts = shuffle(builder, a, [i + 1 for i in pairs for _ in (0, 1)])
    return real_parts, builder.fmul(imaginary_parts, signs)


def swapped(builder: Any, x: Any) -> Any:
    """Return `x` with its real and imaginary parts exchanged."""
    return shuffle(builder, x, [i ^ 1 for i in range(x.type.count)])


def every(builder: Any, mask: Any) -> Any:
    """Return whether all elements of a vector of bits are set."""
    bit = ir.IntType(1)
    signature = ir.FunctionType(bit, [mask.type])
    name = f"llvm.vector.reduce.and.v{mask.type.count}i1"
    return builder.call(declared(builder.module, signature, name), [mask])
