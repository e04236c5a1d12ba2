"""The powers of a coefficient as Kogge-Stone's algorithm computes them in a format: f <- round(f^2), lags 1, 2, 4 ...

Stage t multiplies what stands 2^t steps back by f_t. So the weight of an input d steps back is the product of the f_t
of the bits of d, lowest bit first and rounded after every factor.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from recfact.errors import OptionError
from recfact.precision.formats.rational_rounding import round_rational
from recfact.precision.reals import dyadic

if TYPE_CHECKING:
    from recfact.precision.formats.float_format import FloatFormat

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

        Rounding keeps order: whatever bits are chosen above, what comes from below must reach a level of its own. The
        weight of no lower bits is 1, the largest. So the largest lag takes each bit, from the top, whose factor alone
        reaches the level, and asks of the bits below for what that factor needs.
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
