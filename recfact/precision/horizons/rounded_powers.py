"""The powers of a coefficient as a format computes them, followed exactly to where they end.

**One after the other**, x <- round(rho x). A number of a format is an integer M times the distance of its neighbours.
While M stays in one binade, rho M is rounded to an integer. The step takes away c = M - round(rho M), and c falls with
M. So all steps with the same c are done as a single one. A binade that begins with the same M as the binade before has
the same steps, until numbers become subnormal. For the largest number below 1, c is always 1: each binade takes 2^p
steps, whatever p is.

**By squares**, f <- round(f^2), as the algorithm of Kogge and Stone makes its factors. Stage t multiplies the value 2^t
steps back by f_t. So the weight of an input d steps back is the product of the f_t for the bits of d. The lowest bit
comes first, and every product is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from recfact.errors import OptionError
from recfact.precision.formats.rounding import round_rational
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
        """The product: a float if that is exact, otherwise a Fraction."""
        return dyadic(self.significand, self.exponent)


@dataclass(frozen=True, slots=True)
class Product:
    """Where the rounded powers of a coefficient end.

    Parameters
    ----------
    last_normal : int or None
        The last step whose product is at least the smallest normal number. None if all are.
    last : Point
        The last step whose product isn't zero. If the product never becomes zero, the first step from which it stays
        the same.
    reaches_zero : bool
        Whether the next product is zero. If not, all later products equal the last.
    """

    last_normal: int | None
    last: Point
    reaches_zero: bool


def iterated_product(fmt: FloatFormat, rho: Fraction, rounding: str, underflow: str) -> Product:
    """Follow the powers of `rho`, each rounded to the format, from 1 until they are zero or stay the same.

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
        # A binade takes ln 2 / gap steps. They take away up to gap 2^(p+1) different amounts. A binade begins at one of
        # about as many points, and when a point comes again, all that follows is known.
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


MOST_FRACTION_BITS = 1 << 11
"""A format of more takes as many squares, and more than seconds."""


def doubled_product(fmt: FloatFormat, rho: Fraction, rounding: str, underflow: str) -> dict[str, Any]:
    """Return where the weights of Kogge-Stone's algorithm end, as the fields of ``ActualHorizon``.

    Parameters
    ----------
    fmt : FloatFormat
        The format of the products.
    rho : Fraction
        The coefficient, a number of the format, 0 <= rho <= 1.
    rounding, underflow : str
        As in ``FloatFormat.round``, without "stochastic".

    Raises
    ------
    OptionError
        If the format has more than MOST_FRACTION_BITS.
    """
    if fmt.fraction_bits > MOST_FRACTION_BITS:
        raise OptionError(
            f"squares are followed in formats of up to {MOST_FRACTION_BITS} fraction bits, got {fmt}; pass a narrower "
            "one, or algorithm='sequential'"
        )
    stages = _Stages(fmt, rounding, underflow)
    factors = [rho]
    while factors[-1] and (square := stages.rounded(factors[-1] ** 2)) != factors[-1]:
        factors.append(square)
    stuck = factors[-1]
    normal = Fraction(fmt.smallest_normal)
    smallest = Fraction(fmt.smallest_subnormal) if underflow == "gradual" else normal
    fields: dict[str, Any] = {
        "last_normal": math.inf if stuck >= normal else stages.last_lag(factors, normal),
        "last_nonzero": math.inf if stuck else stages.last_lag(factors, smallest),
    }
    if stuck:
        exact = dyadic(stuck.numerator, 1 - stuck.denominator.bit_length())
        return fields | {"stagnates_from": 1 << (len(factors) - 1), "stagnates_at": exact}
    return fields | {"zero_factor": 1 << (len(factors) - 1)}


class _Stages:
    def __init__(self, fmt: FloatFormat, rounding: str, underflow: str) -> None:
        self.fmt, self.rounding, self.underflow = fmt, rounding, underflow

    def rounded(self, value: Fraction) -> Fraction:
        return Fraction(round_rational(self.fmt, value, self.rounding, self.underflow, "saturate"))

    def last_lag(self, factors: list[Fraction], level: Fraction) -> int:
        """Return the last lag at which the weight is at least `level`, a number of the format; -1 if there is none.

        Rounding keeps the order of numbers. So once the upper bits of a lag are chosen, the product of its lower bits
        must reach a level of its own. Without lower bits that product is 1, its largest value. The largest lag is
        therefore found from the top bit down. It takes a bit if the factor of that bit alone reaches the level. The
        lower bits must then reach the level that this factor needs.
        """
        if level > 1:  # which is the weight at lag 0
            return -1
        lag = 0
        for t in reversed(range(len(factors))):
            if factors[t] >= level:
                lag += 1 << t
                level = self.needed(factors[t], level)
        return lag

    def needed(self, factor: Fraction, level: Fraction) -> Fraction:
        """Return the smallest number of the format whose rounded product with `factor` is at least `level`."""

        def reaches(code: int) -> bool:
            return self.rounded(factor * Fraction(self.fmt.magnitude(code))) >= level

        high = self.fmt.encode(round_rational(self.fmt, level / factor, "up", "gradual", "saturate"))
        step = 1
        while high >= step and reaches(high - step):
            high, step = high - step, 2 * step
        low = max(high - step, -1)  # doesn't reach it, and high does
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return Fraction(self.fmt.magnitude(high))
