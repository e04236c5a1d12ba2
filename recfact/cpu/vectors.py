"""Vectors of numbers in registers. The tiles of the CPU engine are built from them.

A vector is 64 bytes of accumulators: 16 in float32 and 8 in float64. LLVM fits it to the machine: one register with
AVX-512, two with AVX2, four with NEON or SSE. The lanes are the same everywhere. So the order of the arithmetic and
every bit of a result are the same as well. A complex number takes a lane of two reals, side by side as in memory, or
one lane in each of two vectors (`pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from recfact.cpu import numbers
from recfact.cpu.halves import I16, I32, narrow, splat, widen
from recfact.cpu.numbers import Lanes
from recfact.cpu.scales import scaled_anew

VECTOR = 64  # bytes


def vector_lanes(storage: str) -> Lanes:
    """Return the lanes of a vector of numbers that lie in memory as `storage`."""
    return Lanes(storage, 8 if Lanes(storage, 1).real == ir.DoubleType() else 16)


class Registers:
    """Builds the LLVM code of vector operations.

    Parameters
    ----------
    context, builder
        The properties of the processor, and the LLVM builder.
    lanes : Lanes
        The numbers in memory. The type of the accumulators follows from them.

    Attributes
    ----------
    exchanges : bool
        Whether tiles exchange rows and lanes, so that a lane has several steps.
    each : Registers
        The registers for a single vector. If there are several channels (`side_by_side`), a value is several vectors.
    """

    def __init__(self, context: Any, builder: Any, lanes: Lanes) -> None:
        self.context = context
        self.b = builder
        self.lanes = lanes
        self.count = lanes.count
        self.parts = 2 if lanes.is_complex else 1
        self.lane_bytes = lanes.state.itemsize
        self.row_bytes = lanes.count * lanes.itemsize
        self.exchanges = True
        self.each: Registers = self
        self.zero = splat(lanes.vector, 0.0)
        self.one = splat(lanes.vector, 1.0)

    def splat(self, value: Any) -> Any:
        """Spread a scalar over a vector."""
        if isinstance(value.type, ir.LiteralStructType):
            first = numbers.to_vector(self.b, Lanes(self.lanes.storage, 1), value)
            return self.shuffle(first, first, [0] * self.count)
        undefined = ir.Constant(ir.VectorType(value.type, self.count), ir.Undefined)
        first = self.b.insert_element(undefined, value, ir.Constant(I32, 0))
        return self.b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, self.count), [0] * self.count))

    def lane(self, x: Any, index: int) -> Any:
        """Take one lane out of a vector."""
        return self.b.extract_element(x, ir.Constant(I32, index))

    def step(self, x: Any, index: int) -> Any:
        """Return one lane of a vector, in all lanes."""
        return self.shuffle(x, x, [index] * self.count)

    def scalars(self, step: Any) -> Sequence[Any]:
        """Return what `step` or `splat` spread."""
        return [self.lane(step, 0)]

    def every_step(self, step: Any) -> Any:
        """Return the vector in which all lanes are what `step` or `splat` returned."""
        return step

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Return x y + z for vectors or scalars, rounded once."""
        return self._math("fma", x, y, z)

    def multiply(self, x: Any, y: Any) -> Any:
        """Return x y for vectors or scalars."""
        return self.b.fmul(x, y)

    def checked(self, x: Any, checks: Any) -> Any:
        """Return `checks`, a sum of zero times numbers, with the numbers of a vector added."""
        return self.fma(x, self.zero, checks)

    def vanishes(self, x: Any) -> Any:
        """Return for each lane whether a number is zero."""
        return self.b.fcmp_ordered("==", x, self.zero)

    def decaying_product(self, factor: Any, total: Any) -> Any:
        """Return the product of two vectors, or the next smaller numbers if products should have decayed but didn't.

        If each factor is above 1/2 in magnitude, a product that is rounded to nearest never underflows to zero. It gets
        stuck at a subnormal number. With either rounding the error is less than the smallest number. A `factor` of zero
        stays zero, whatever it is multiplied by.
        """
        product, before = self.multiply(factor, total), self.magnitude(factor)
        decays = self.b.fcmp_ordered("<", self.magnitude(total), self.one)
        decays = self.b.and_(decays, self.b.fcmp_ordered("<", before, splat(total.type, float("inf"))))
        stuck = self.b.fcmp_ordered("==", self.magnitude(product), before)
        product = self.b.select(self.b.and_(decays, stuck), self.next_smaller(product), product)
        return self.b.select(self.vanishes(factor), self.zero, product)

    def next_smaller(self, x: Any) -> Any:
        """Return the numbers next to those of a vector that are smaller in magnitude. None may be zero."""
        bits = ir.VectorType(ir.IntType(32 if x.type.element == ir.FloatType() else 64), x.type.count)
        return self.b.bitcast(self.b.sub(self.b.bitcast(x, bits), splat(bits, 1)), x.type)

    def rescaled(self, product: Any, scale: Any) -> tuple[Any, Any]:
        """Return a scalar and a power of two whose product is `product` times `scale`. The scalar isn't subnormal."""
        return scaled_anew(self.b, product, scale, self.magnitude(product))

    def magnitude(self, x: Any) -> Any:
        """Return the magnitudes of a vector, or that of a scalar."""
        return self._math("fabs", x)

    def shuffle(self, x: Any, y: Any, indices: Sequence[int]) -> Any:
        """Pick lanes from x (0 .. count-1) and y (count ..)."""
        places = [self.parts * index + part for index in indices for part in range(self.parts)]
        return self.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(places)), places))

    def test(self, word: Any, positions: Sequence[int]) -> Any:
        """Return for each lane whether the bit of a 64-bit integer at the lane's position is set."""
        bits = 64 if self.lanes.real == ir.DoubleType() else 32
        kind = ir.IntType(bits)
        vector = ir.VectorType(kind, self.count)
        halves = [word if bits == 64 else self.b.trunc(word, kind)]
        if max(positions) >= bits:
            halves.append(self.b.trunc(self.b.lshr(word, ir.Constant(word.type, bits)), kind))
        words = [self.splat(half) for half in halves]
        if len(words) > 1:
            half_of = [lane + position // bits * self.count for lane, position in enumerate(positions)]
            words = [self.shuffle(words[0], words[1], half_of)]
        chosen = ir.Constant(vector, [ir.Constant(kind, 1 << position % bits) for position in positions])
        return self.b.icmp_unsigned("!=", self.b.and_(words[0], chosen), splat(vector, 0))

    def select(self, flags: Any, x: Any, y: Any) -> Any:
        """Return x in the lanes that are flagged, and y in the others."""
        return self.b.select(flags, x, y)

    def repeat(
        self, count: Any, body: Callable[[Any, Sequence[Any]], Sequence[Any]], values: Sequence[Any]
    ) -> list[Any]:
        """Return `values` after `count` turns. `body` makes the next values from the number of the turn and the values.

        If `count` is a bit, it is a condition: one turn or none.
        """
        if count.type == ir.IntType(1):
            count = self.b.zext(count, ir.IntType(64))
        before, turn, after = self.b.block, self.b.append_basic_block("turn"), self.b.append_basic_block("after")
        self.b.cbranch(self.b.icmp_signed(">", count, ir.Constant(count.type, 0)), turn, after)
        self.b.position_at_end(turn)
        index = self.b.phi(count.type)
        inside = [self.b.phi(value.type) for value in values]
        results = list(body(index, inside))
        following = self.b.add(index, ir.Constant(count.type, 1))
        end = self.b.block
        self.b.cbranch(self.b.icmp_signed("<", following, count), turn, after)
        index.add_incoming(ir.Constant(count.type, 0), before)
        index.add_incoming(following, end)
        self.b.position_at_end(after)
        found = []
        for phi, value, result in zip(inside, values, results, strict=True):
            phi.add_incoming(value, before)
            phi.add_incoming(result, end)
            last = self.b.phi(value.type)
            last.add_incoming(value, before)
            last.add_incoming(result, end)
            found.append(last)
        return found

    def interleave(self, x: Any, y: Any, width: int, span: int) -> tuple[Any, Any]:
        """Alternate runs of `width` lanes of x and y, from the low and from the high half of every `span` lanes."""
        halves = []
        for start in (0, span // 2):
            runs = [
                range(at, at + width)
                for base in range(start, self.count, span)
                for first in range(base, base + span // 2, width)
                for at in (first, self.count + first)
            ]
            halves.append(self.shuffle(x, y, [lane for run in runs for lane in run]))
        return halves[0], halves[1]

    def all_finite(self, checks: Any) -> Any:
        """Return whether `checks`, a sum of zero times the numbers to check, is zero in every lane."""
        return numbers.every(self.b, self.b.fcmp_ordered("==", checks, self.zero))

    def at(self, base: Any, offset: int | Any) -> Any:
        """Return the address `offset` bytes behind `base`."""
        return self.b.add(base, ir.Constant(base.type, offset) if isinstance(offset, int) else offset)

    def load(self, address: Any) -> Any:
        """Load a vector of numbers as they lie in memory."""
        return numbers.read(self.context, self.b, self.lanes, self.count, address, ir.Constant(address.type, 0))

    def load_pairs(self, address: Any) -> Any:
        """Load 16 pairs of halves as integers, the first of a pair in the low bits."""
        return self._load_bits(ir.VectorType(I32, 16), address)

    def load_halves(self, address: Any) -> Any:
        """Load 32 halves as integers."""
        return self._load_bits(ir.VectorType(I16, 32), address)

    def widened(self, bits: Any) -> Any:
        """Return halves, given as integers, in float32."""
        return widen(self.context, self.b, self.lanes.storage, bits)

    def narrowed(self, x: Any) -> Any:
        """Return finite numbers rounded to halves, as integers."""
        return narrow(self.context, self.b, self.lanes.storage, x, finite=True)

    def store(self, x: Any, address: Any) -> None:
        """Store a vector of finite numbers as they lie in memory."""
        numbers.write(self.context, self.b, self.lanes, address, ir.Constant(address.type, 0), x, finite=True)

    def store_bits(self, x: Any, address: Any) -> None:
        """Store what `load_pairs` or `load_halves` loads."""
        numbers.put_bits(self.b, self.lanes, address, ir.Constant(address.type, 0), x)

    def index(self, value: int) -> Any:
        """Return a constant integer."""
        return ir.Constant(ir.IntType(64), value)

    def nonzero(self, word: Any) -> Any:
        """Return 1 if an integer isn't 0, or else 0, as a bit."""
        return self.b.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    def trailing_zeros(self, word: Any) -> Any:
        """Return the place of the lowest bit of an integer, or 64 if there is none."""
        return self.b.cttz(word, ir.Constant(ir.IntType(1), 0))

    def load_number(self, address: Any, number: Any) -> Any:
        """Load one of the accumulators at an address."""
        return self.b.load(self._number_at(address, number))

    def store_number(self, x: Any, address: Any, number: Any) -> None:
        """Store one of the accumulators at an address."""
        self.b.store(x, self._number_at(address, number))

    def _number_at(self, address: Any, number: Any) -> Any:
        offset = self.b.mul(number, self.index(self.lanes.state.itemsize))
        return numbers.pointer(self.b, self.lanes.real, address, offset)

    def load_accumulators(self, address: Any) -> Any:
        """Load a vector from scratch memory."""
        return self._scratch.load(address)

    def store_accumulators(self, x: Any, address: Any) -> None:
        """Store a vector in scratch memory."""
        self._scratch.store(x, address)

    @property
    def _scratch(self) -> Registers:
        return Registers(self.context, self.b, self.lanes.state)

    def _load_bits(self, kind: Any, address: Any) -> Any:
        loaded = self.b.load(numbers.pointer(self.b, kind, address, ir.Constant(address.type, 0)))
        loaded.align = 1
        return loaded

    def _math(self, name: str, *args: Any) -> Any:
        """Call LLVM's function `name` of vectors or scalars. The result has their type."""
        kind = args[0].type
        wide = isinstance(kind, ir.VectorType)
        number = {"float": "f32", "double": "f64"}[str(kind.element if wide else kind)]
        return self._call(f"llvm.{name}.{f'v{kind.count}' if wide else ''}{number}", kind, *args)

    def _call(self, name: str, result: Any, *args: Any) -> Any:
        signature = ir.FunctionType(result, [arg.type for arg in args])
        return self.b.call(numbers.declared(self.b.module, signature, name), args)
