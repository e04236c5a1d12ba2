"""LLVM vectors of the CPU engine: loads, stores, shuffles and arithmetic on 64 bytes of accumulators.

The functions build LLVM code and are used by the intrinsics of `tiles`. A `Lanes` says what one vector holds: 16
float32 or 8 float64 accumulators, read from and written to memory as one of four storage types. float16 and bfloat16
are widened to float32 as they are loaded and rounded to nearest even as they are stored.

LLVM fits the vectors to the machine: one register with AVX-512, two with AVX2, four with NEON or SSE. The lanes, and so
the order of the arithmetic and every bit of the result, are the same everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

INT16, INT32 = ir.IntType(16), ir.IntType(32)


@dataclass(frozen=True)
class Lanes:
    """One vector of accumulators and how it lies in memory.

    Parameters
    ----------
    storage : {'float32', 'float64', 'float16', 'bfloat16'}
        The number type in memory.
    """

    storage: str

    @cached_property
    def double(self) -> bool:
        """Whether the accumulators are float64 (float32 otherwise)."""
        return self.storage == "float64"

    @cached_property
    def count(self) -> int:
        """Numbers in a vector."""
        return 8 if self.double else 16

    @cached_property
    def itemsize(self) -> int:
        """Bytes of a number in memory."""
        return {"float32": 4, "float64": 8}.get(self.storage, 2)

    @cached_property
    def scalar(self) -> Any:
        """LLVM type of an accumulator."""
        return ir.DoubleType() if self.double else ir.FloatType()

    @cached_property
    def number(self) -> Any:
        """Numba type of an accumulator."""
        return types.float64 if self.double else types.float32

    @cached_property
    def vector(self) -> Any:
        """LLVM type of a vector of accumulators."""
        return ir.VectorType(self.scalar, self.count)

    @property
    def accumulators(self) -> "Lanes":
        """The lanes of scratch memory that holds accumulators."""
        return Lanes("float64" if self.double else "float32")

    def constant(self, value: float) -> Any:
        """A vector of equal constants."""
        return ir.Constant(self.vector, [value] * self.count)


def call(b: Any, name: str, result: Any, *args: Any) -> Any:
    """Call the LLVM intrinsic `name`."""
    signature = ir.FunctionType(result, [arg.type for arg in args])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), args)


def fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z, rounded once; vectors or scalars."""
    wide = isinstance(x.type, ir.VectorType)
    number = "f64" if (x.type.element if wide else x.type) == ir.DoubleType() else "f32"
    return call(b, f"llvm.fma.{f'v{x.type.count}' if wide else ''}{number}", x.type, x, y, z)


def shuffle(b: Any, x: Any, y: Any, indices: Sequence[int]) -> Any:
    """Pick lanes from x (0 ..) and y (count ..)."""
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(INT32, len(indices)), list(indices)))


def splat(b: Any, lanes: Lanes, value: Any) -> Any:
    """Spread a scalar over a vector."""
    undefined = ir.Constant(lanes.vector, ir.Undefined)
    first = b.insert_element(undefined, value, ir.Constant(INT32, 0))
    return shuffle(b, first, undefined, [0] * lanes.count)


def lane(b: Any, x: Any, index: int) -> Any:
    """Take one lane out of a vector."""
    return b.extract_element(x, ir.Constant(INT32, index))


def shift(b: Any, lanes: Lanes, x: Any, low: Any) -> Any:
    """Move every lane up by one; lane 0 takes the last lane of `low`."""
    return shuffle(b, x, low, [2 * lanes.count - 1, *range(lanes.count - 1)])


def all_true(b: Any, mask: Any) -> Any:
    """Return whether every lane of a vector of bits is set."""
    return call(b, f"llvm.vector.reduce.and.v{mask.type.count}i1", ir.IntType(1), mask)


def address(b: Any, base: Any, offset: int | Any) -> Any:
    """Return `base` plus `offset` bytes."""
    return b.add(base, ir.Constant(base.type, offset) if isinstance(offset, int) else offset)


def _raw(lanes: Lanes) -> Any:
    """Type of a vector as it lies in memory."""
    return ir.VectorType(INT16, lanes.count) if lanes.itemsize == 2 else lanes.vector


def _widen(b: Any, lanes: Lanes, raw: Any) -> Any:
    if lanes.storage == "float16":
        return b.fpext(b.bitcast(raw, ir.VectorType(ir.HalfType(), lanes.count)), lanes.vector)
    if lanes.storage == "bfloat16":
        wide = ir.VectorType(INT32, lanes.count)
        return b.bitcast(b.shl(b.zext(raw, wide), ir.Constant(wide, [16] * lanes.count)), lanes.vector)
    return raw


def _narrow(b: Any, lanes: Lanes, x: Any) -> Any:
    if lanes.storage == "float16":
        return b.bitcast(b.fptrunc(x, ir.VectorType(ir.HalfType(), lanes.count)), _raw(lanes))
    if lanes.storage == "bfloat16":
        wide = ir.VectorType(INT32, lanes.count)

        def every(value: int) -> Any:
            return ir.Constant(wide, [value] * lanes.count)

        bits = b.bitcast(x, wide)
        kept = b.lshr(bits, every(16))
        # Round to nearest, ties to even: add just under half, and the last kept bit.
        rounded = b.lshr(b.add(b.add(bits, every(0x7FFF)), b.and_(kept, every(1))), every(16))
        quiet = b.or_(kept, every(0x40))
        return b.trunc(b.select(b.fcmp_unordered("uno", x, x), quiet, rounded), _raw(lanes))
    return x


def load(b: Any, lanes: Lanes, at: Any) -> Any:
    """Load a vector from an address of any alignment."""
    raw = b.load(b.inttoptr(at, _raw(lanes).as_pointer()))
    raw.align = 1
    return _widen(b, lanes, raw)


def store(b: Any, lanes: Lanes, x: Any, at: Any) -> None:
    """Store a vector at an address of any alignment."""
    b.store(_narrow(b, lanes, x), b.inttoptr(at, _raw(lanes).as_pointer())).align = 1


def first_lanes(b: Any, lanes: Lanes, count: Any) -> Any:
    """Return the mask of the lanes below `count` (an LLVM integer, clamped by the comparison)."""
    wide = ir.VectorType(count.type, lanes.count)
    undefined = ir.Constant(wide, ir.Undefined)
    spread = shuffle(b, b.insert_element(undefined, count, ir.Constant(INT32, 0)), undefined, [0] * lanes.count)
    return b.icmp_signed("<", ir.Constant(wide, list(range(lanes.count))), spread)


def load_masked(b: Any, lanes: Lanes, at: Any, mask: Any, fill: float) -> Any:
    """Load the lanes of `mask`; the others take `fill` and their memory isn't touched."""
    raw = _raw(lanes)
    name = f"llvm.masked.load.v{lanes.count}{_memory_suffix(lanes)}.p0"
    at = b.inttoptr(at, raw.as_pointer())
    got = call(b, name, raw, at, ir.Constant(INT32, 1), mask, ir.Constant(raw, None))
    return b.select(mask, _widen(b, lanes, got), lanes.constant(fill))


def store_masked(b: Any, lanes: Lanes, x: Any, at: Any, mask: Any) -> None:
    """Store the lanes of `mask` and leave the memory of the others untouched."""
    raw = _raw(lanes)
    name = f"llvm.masked.store.v{lanes.count}{_memory_suffix(lanes)}.p0"
    at = b.inttoptr(at, raw.as_pointer())
    call(b, name, ir.VoidType(), _narrow(b, lanes, x), at, ir.Constant(INT32, 1), mask)


def _memory_suffix(lanes: Lanes) -> str:
    return {2: "i16", 4: "f32", 8: "f64"}[lanes.itemsize]


def transpose(b: Any, lanes: Lanes, rows: Sequence[Any]) -> list[Any]:
    """Exchange row numbers with lane numbers: the bits of the one trade places with the low bits of the other.

    `rows` are a power of two of vectors, at most `lanes.count`. With R rows, lane h R + r of result k is lane h R + k of
    row r: each run of R consecutive numbers moves into one lane. The exchange is its own inverse.
    """
    count = lanes.count
    result = list(rows)
    distance = 1
    while distance < len(rows):
        low = [count + i - distance if i & distance else i for i in range(count)]
        high = [count + i if i & distance else i + distance for i in range(count)]
        for i in range(len(rows)):
            if not i & distance:
                x, y = result[i], result[i + distance]
                result[i], result[i + distance] = shuffle(b, x, y, low), shuffle(b, x, y, high)
        distance *= 2
    return result
