"""Complex numbers in registers: their real parts in one vector, their imaginary parts in another.

In memory the parts lie side by side. They are separated as rows and lanes are exchanged (`chunks`). In separate vectors
a product takes only the operations of complex arithmetic. Pairs in one vector would have to be doubled, signed and
swapped for each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from recfact.cpu.halves import splat
from recfact.cpu.numbers import Lanes
from recfact.cpu.vectors import Registers


class Pair(NamedTuple):
    """Real and imaginary parts: two vectors, or two scalars."""

    real: Any
    imaginary: Any


class PairRegisters(Registers):
    """Builds the LLVM code of operations on vectors of complex numbers. Scalars are as in kernels.

    The parameters are those of `Registers`.
    """

    def __init__(self, context: Any, builder: Any, lanes: Lanes) -> None:
        super().__init__(context, builder, lanes)
        reals = Registers(
            context, builder, Lanes("float64" if lanes.real == ir.DoubleType() else "float32", lanes.count)
        )
        self.reals = reals
        self.lane_bytes = reals.lane_bytes
        self.row_bytes = reals.row_bytes
        self.zero = Pair(reals.zero, reals.zero)
        self.one = Pair(reals.one, reals.zero)

    def splat(self, value: Any) -> Pair:
        """Spread a scalar over a vector."""
        return Pair(*map(self.reals.splat, self.parts_of(value)))

    def lane(self, x: Pair, index: int) -> Any:
        """Take one lane out of a vector."""
        return self.scalar(*(self.reals.lane(part, index) for part in x))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Return x y + z for vectors or scalars. Each part is rounded twice, as in `numbers.fused`."""
        fma, (a, b), (c, d), (e, f) = self.reals.fma, *map(self.parts_of, (x, y, z))
        real = fma(a, c, fma(self.b.fneg(b), d, e))
        imaginary = fma(a, d, fma(b, c, f))
        return Pair(real, imaginary) if isinstance(x, Pair) else self.scalar(real, imaginary)

    def multiply(self, x: Any, y: Any) -> Any:
        """Return x y for vectors or scalars."""
        fma, (a, b), (c, d) = self.reals.fma, *map(self.parts_of, (x, y))
        real = fma(a, c, self.b.fmul(self.b.fneg(b), d))
        imaginary = fma(a, d, self.b.fmul(b, c))
        return Pair(real, imaginary) if isinstance(x, Pair) else self.scalar(real, imaginary)

    def checked(self, x: Pair, checks: Pair) -> Pair:
        """Return `checks`, sums of zero times numbers, with the numbers of a vector added."""
        return Pair(*map(self.reals.checked, x, checks))

    def all_finite(self, checks: Pair) -> Any:
        """Return whether `checks` are zero in every lane."""
        return self.reals.all_finite(self.b.fadd(*checks))

    def vanishes(self, x: Pair) -> Any:
        """Return for each lane whether a number is zero."""
        return self.b.and_(*map(self.reals.vanishes, x))

    def select(self, flags: Any, x: Pair, y: Pair) -> Pair:
        """Return x in the lanes that are flagged, and y in the others."""
        return Pair(*(self.b.select(flags, *parts) for parts in zip(x, y, strict=True)))

    def decaying_product(self, factor: Pair, total: Pair) -> Pair:
        """Return the product of two vectors. Where it decays, the next smaller numbers replace its subnormal parts.

        A product may get stuck at subnormal numbers. Rounding may turn it, so that neither part shows this. Here each
        part is made smaller by at least the amount by which it was rounded up, so the product shrinks to zero. A
        `factor` of zero stays zero, whatever it is multiplied by.
        """
        product = self.multiply(factor, total)
        size = self.reals.fma(total.real, total.real, self.b.fmul(total.imaginary, total.imaginary))
        decays = self.b.fcmp_ordered("<", size, self.reals.one)
        product = self.select(decays, Pair(*map(self.lowered, product)), product)
        return self.select(self.vanishes(factor), self.zero, product)

    def lowered(self, x: Any) -> Any:
        """Return the next smaller numbers in place of those of a vector of reals that are subnormal."""
        least = 2.0 ** (-126 if x.type.element == ir.FloatType() else -1022)
        subnormal = self.b.fcmp_ordered("<", self.magnitude(x), splat(x.type, least))
        subnormal = self.b.and_(subnormal, self.b.fcmp_ordered("!=", x, self.reals.zero))
        return self.b.select(subnormal, self.reals.next_smaller(x), x)

    def shuffle(self, x: Pair, y: Pair, indices: Sequence[int]) -> Pair:
        """Pick lanes from x (0 .. count-1) and y (count ..)."""
        return Pair(*(self.reals.shuffle(part, other, indices) for part, other in zip(x, y, strict=True)))

    def parts_of(self, x: Any) -> Pair:
        """Return both parts of a number."""
        return x if isinstance(x, Pair) else Pair(*(self.b.extract_value(x, part) for part in (0, 1)))

    def scalar(self, real: Any, imaginary: Any) -> Any:
        """Return a scalar of two parts."""
        pair = self.b.insert_value(ir.Constant(ir.LiteralStructType([real.type] * 2), ir.Undefined), real, 0)
        return self.b.insert_value(pair, imaginary, 1)
