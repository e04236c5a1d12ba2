"""Properties that follow from the fields of a format: widths, codes, the limits of numpy.finfo, and a few more."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from recfact.checks import positive_integer
from recfact.precision.reals import Number, dyadic


class FormatLimits:
    """The derived properties of a ``FloatFormat``. Each is exact: a float if float64 holds it, otherwise a Fraction."""

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    nan_codes: int
    signed: bool
    infinities: bool
    subnormals: bool
    zero: bool
    negative_zero: bool

    @cached_property
    def bits(self) -> int:
        """Width of a code."""
        return self.signed + self.exponent_bits + self.fraction_bits

    @cached_property
    def max_code(self) -> int:
        """The code of the largest number. The code above it is infinity or the first NaN."""
        return (1 << (self.exponent_bits + self.fraction_bits)) - 1 - self.nan_codes - self.infinities

    @cached_property
    def has_nan(self) -> bool:
        """Whether any code is NaN."""
        return self.nan_codes > 0 or (self.signed and self.zero and not self.negative_zero)

    @cached_property
    def overflow(self) -> str:
        """The default result for too large numbers: "infinity", or else "nan", or else "saturate"."""
        return "infinity" if self.infinities else "nan" if self.has_nan else "saturate"

    def magnitude(self, code: int) -> Number:
        """Return the number with this code (of a positive number, at most ``max_code``), exactly."""
        p, code = self.fraction_bits, positive_integer(code, "code", least=0, most=self.max_code)
        significand, exponent = code & ((1 << p) - 1), code >> p
        if exponent == 0 and self.zero:
            return dyadic(significand if self.subnormals else 0, self.emin - p)
        return dyadic(significand + (1 << p), exponent - self.bias - p)

    @cached_property
    def fits_float64(self) -> bool:
        """Whether float64 holds every number of the format."""
        return self.fraction_bits <= 52 and self.emin - self.fraction_bits >= -1074 and self.emax <= 1023

    @cached_property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias if self.zero else -self.bias

    @cached_property
    def emax(self) -> int:
        """Exponent of the largest number, the floor of log2(max)."""
        numerator, denominator = Fraction(self.max).as_integer_ratio()
        return numerator.bit_length() - denominator.bit_length()  # exact: the denominator is a power of two

    @cached_property
    def max(self) -> Number:
        """The largest number."""
        return self.magnitude(self.max_code)

    @cached_property
    def min(self) -> Number:
        """The lowest number: -max, or the smallest of an unsigned format."""
        if self.signed:
            return -self.max
        return 0.0 if self.zero else self.smallest_normal

    @cached_property
    def smallest_normal(self) -> Number:
        """The smallest positive normal number, 2^emin."""
        return dyadic(1, self.emin)

    @cached_property
    def smallest_subnormal(self) -> Number:
        """The smallest positive number. In a format without subnormals it is normal."""
        return dyadic(1, self.emin - self.fraction_bits) if self.subnormals else self.smallest_normal

    @cached_property
    def eps(self) -> Number:
        """Distance from 1 to the next larger number: 2^-p, or 2^(emin - p) if 1 is subnormal."""
        return dyadic(1, max(0, self.emin) - self.fraction_bits)

    @cached_property
    def epsneg(self) -> Number:
        """Distance from 1 to the next smaller number."""
        return dyadic(1, max(-1, self.emin) - self.fraction_bits)

    @cached_property
    def unit_roundoff(self) -> Number:
        """Largest relative error of a rounding to nearest in the normal range, 2^-(p+1)."""
        return dyadic(1, -self.fraction_bits - 1)

    @cached_property
    def largest_below_one(self) -> Number:
        """The largest number below 1: 1 - 2^-(p+1), or less if 1/2 is subnormal."""
        if not self.subnormals and self.emin >= 0:
            return 0.0
        below = min(max(1 - Fraction(self.epsneg), Fraction(0)), Fraction(self.max))
        return below if self.fraction_bits > 52 else float(below)

    def __str__(self) -> str:
        return self.name
