"""The powers of a coefficient as a format computes them: x <- round(rho x), followed exactly to where it ends.

A number of a format is an integer M times the distance of its neighbours. While M stays in one binade, rho M is rounded
to an integer, and the step takes away c = M - round(rho M), which falls with M. So all steps of one c are a single
one here, and every binade that begins with the same M as the one before is like it, up to where numbers become
subnormal. The largest number below 1 has c = 1 throughout: 2^p steps a binade, whatever p is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from recfact.errors import OptionError
from recfact.precision.formats.rational_rounding import round_rational
from recfact.precision.reals import Number, dyadic

if TYPE_CHECKING:
    from recfact.precision.formats.float_format import FloatFormat

MOST_RUNS = 2_000_000
"""Most runs of equal steps that are followed, a few seconds' work."""

# Twice what (1 - rho) M may be below the c that a step takes away, at most.
_REACH = {"nearest-even": 1, "nearest-away": 1, "toward-zero": 2, "down": 2, "up": 0}


@dataclass(frozen=True, slots=True)
class Point:
    """After `step` steps the product is `significand` * 2^`exponent`."""

    step: int
    significand: int
    exponent: int

    @property
    def value(self) -> Number:
        """The product, as a float where that is exact, else as a Fraction."""
        return dyadic(self.significand, self.exponent)


@dataclass(frozen=True, slots=True)
class Product:
    """Where the rounded powers of a coefficient end.

    Parameters
    ----------
    last_normal : int or None
        The last step with a product of at least the smallest normal number; None if all have.
    last : Point
        The last step with a product other than zero; if there is none, the first step of those that stay the same.
    reaches_zero : bool
        Whether the next product is zero. If not, all that follow are like the last.
    """

    last_normal: int | None
    last: Point
    reaches_zero: bool


def iterated_product(fmt: FloatFormat, rho: Fraction, rounding: str, underflow: str) -> Product:
    """Follow the powers of `rho`, each rounded to the format, from 1 down to zero or to where they stay.

    Parameters
    ----------
    fmt : FloatFormat
        The format of the products. 1 must be one of its numbers, and not be flushed.
    rho : Fraction
        The coefficient, a dyadic number, 0 <= rho <= 1.
    rounding, underflow : str
        As in ``FloatFormat.round``, without "stochastic".

    Raises
    ------
    OptionError
        If there are more than MOST_RUNS runs of equal steps.
    """
    walk = _Walk(fmt, rho, rounding, underflow)
    if walk.expected_runs() > MOST_RUNS:
        raise _too_long(fmt, rho)
    at = Point(0, 1 << min(fmt.fraction_bits, -walk.lowest), max(-fmt.fraction_bits, walk.lowest))
    entries: dict[int, Point] = {}  # the first point of each binade, by its significand
    last_normal = None if walk.is_normal(at) else -1
    for _ in range(MOST_RUNS):
        following = walk.run(at)
        if (following.significand, following.exponent) == (at.significand, at.exponent):
            return Product(last_normal, at, reaches_zero=False)
        if last_normal is None and not walk.is_normal(following):
            last_normal = following.step - 1
        if following.significand == 0:
            return Product(last_normal, at, reaches_zero=True)
        if following.exponent < at.exponent:
            like = entries.setdefault(following.significand, following)
            if like is not following:
                # Whatever came after the like point comes again, in smaller binades, while these are normal.
                fall = like.exponent - following.exponent
                times = (following.exponent - walk.lowest) // fall
                following = Point(
                    following.step + times * (following.step - like.step),
                    following.significand,
                    following.exponent - times * fall,
                )
                entries.clear()
        at = following
    raise _too_long(fmt, rho)


def _too_long(fmt: FloatFormat, rho: Fraction) -> OptionError:
    return OptionError(
        f"the powers of 1 - {float(1 - rho):.6g} in {fmt} are too long to follow, with more than {MOST_RUNS} runs of "
        "equal steps; horizon() says how far the exact powers reach, and a rho nearer to or further from 1 takes fewer"
    )


class _Walk:
    """One step, or as many equal steps as there are, of the product."""

    def __init__(self, fmt: FloatFormat, rho: Fraction, rounding: str, underflow: str) -> None:
        self.fmt, self.rho, self.rounding, self.underflow = fmt, rho, rounding, underflow
        self.numerator, self.shift = rho.numerator, rho.denominator.bit_length() - 1
        self.lowest = fmt.emin - fmt.fraction_bits
        self.complement = (1 << self.shift) - self.numerator
        self.hidden = 1 << fmt.fraction_bits

    def expected_runs(self) -> float:
        """Return about how many runs of equal steps there are."""
        gap = self.complement / (1 << self.shift)
        if not gap or not self.numerator:
            return 1.0
        # A binade takes ln 2 / gap steps, which take away up to gap 2^(p+1) different amounts, and begins at one of
        # about as many points; the second time at one of them all is known.
        amounts = gap * 2.0 * self.hidden + 1.0
        return min(math.log(2) / gap, amounts) * min(max(-self.fmt.emin, 1), amounts)

    def is_normal(self, at: Point) -> bool:
        """Return whether the product is at least the smallest normal number."""
        return at.significand >= self.hidden

    def run(self, at: Point) -> Point:
        """Return the point after all steps that take away the same from `at`, or after one that leaves the binade."""
        M = at.significand
        rounded = self.rounded(M)
        c = M - rounded
        if self.is_normal(at):
            # Below its binade a product has closer neighbours: it must be in there before it is rounded.
            least = -(-(self.hidden << self.shift) // self.numerator) if self.numerator else M + 1
        else:
            least = c + 1
        if least > M:
            return self.single(at)
        if c == 0:
            return at
        least = max(least, self.least(c))
        steps = (M - least) // c + 1
        return Point(at.step + steps, M - steps * c, at.exponent)

    def rounded(self, significand: int) -> int:
        """Return rho M rounded to an integer."""
        product = self.numerator * significand
        whole = product >> self.shift
        rest = product - (whole << self.shift)
        if not rest or self.rounding in ("toward-zero", "down"):
            return whole
        if self.rounding == "up":
            return whole + 1
        beyond = 2 * rest - (1 << self.shift)
        return whole + (beyond > 0 or (beyond == 0 and (self.rounding == "nearest-away" or bool(whole & 1))))

    def least(self, c: int) -> int:
        """Return the smallest M from which a step takes away c."""
        # M > (c - reach) / (1 - rho), or that itself, as ties go.
        least = -(-(2 * c - _REACH[self.rounding] << self.shift) // (2 * self.complement))
        return least if least - self.rounded(least) == c else least + 1

    def single(self, at: Point) -> Point:
        """Return the point after one step, by the format's own rounding."""
        value = Fraction(self.rho * at.significand) * Fraction(2) ** at.exponent
        rounded = Fraction(round_rational(self.fmt, value, self.rounding, self.underflow, "saturate"))
        if not rounded:
            return Point(at.step + 1, 0, self.lowest)
        top = rounded.numerator.bit_length() - rounded.denominator.bit_length()  # exact: a power of two divides it
        exponent = max(top - self.fmt.fraction_bits, self.lowest)
        return Point(at.step + 1, int(rounded / Fraction(2) ** exponent), exponent)
