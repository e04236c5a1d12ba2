"""Fixed-point numbers as a format: multiples of a power of two, with the codes of integers in two's complement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recfact.arrays import as_numpy
from recfact.precision.formats.encoding import code_dtype
from recfact.precision.formats.float_format import FloatFormat


@dataclass(frozen=True, repr=False)
class FixedPoint(FloatFormat):
    """A fixed-point format of numbers below 2: k / 2^p, with an integer k from -(2^(p+1) - 1) to 2^(p+1) - 1.

    These are the numbers of a floating-point format with one exponent bit: k is its fraction, with the exponent bit in
    front. So everything but the codes is that of such a format. The code of -2, which two's complement has as well,
    stays unused, so that the numbers are symmetric.

    Examples
    --------
    >>> fmt = fixed_point("int8", 6)
    >>> fmt.round([0.01, 1.0, 1.99, -3.0]).tolist(), fmt.encode([0.015625, 1.0, -1.0]).tolist()
    ([0.015625, 1.0, 1.984375, -1.984375], [1, 64, 192])
    """

    def encode(self, values: Any) -> Any:
        """Return the codes of numbers of this format, as ``FloatFormat.encode`` does: k modulo 2^(p+2)."""
        codes = super().encode(values)
        sign = 1 << (self.bits - 1)
        integers = np.where(np.asarray(codes) < sign, codes, 2 * sign - (np.asarray(codes, dtype=np.int64) - sign))
        found = (integers % (2 * sign)).astype(code_dtype(self))
        return int(found) if isinstance(codes, int) else found[()]

    def decode(self, codes: Any) -> Any:
        """Return the numbers that have these codes, as ``FloatFormat.decode`` does; the unused one is that of -2."""
        super().decode(codes)  # refuses what aren't codes
        given = as_numpy(codes, "codes").astype(np.int64)
        numbers = (given - (given >> (self.bits - 1) << self.bits)) * 2.0**-self.fraction_bits
        return float(numbers) if isinstance(codes, int) else numbers[()]


def fixed_point(name: str, fraction_bits: int) -> FixedPoint:
    """Return the fixed-point format with so many bits behind the point, and one before it beside the sign."""
    return FixedPoint(name, 1, fraction_bits, 1, nan_codes=0, infinities=False)
