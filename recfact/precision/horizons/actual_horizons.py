"""How far back an input matters in a format's own arithmetic, where every product of coefficients is rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from recfact.checks import choice
from recfact.errors import OptionError
from recfact.plain_records import PlainRecord
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import REPEATABLE, UNDERFLOWS
from recfact.precision.horizons.horizon import exact_magnitude
from recfact.precision.horizons.rounded_powers import doubled_product, iterated_product
from recfact.precision.reals import Number, in_decimal
from recfact.written_numbers import as_text, short

ALGORITHMS = ("sequential", "kogge-stone", "fp32-accumulate")


@dataclass(frozen=True, slots=True, repr=False)
class ActualHorizon(PlainRecord):
    """How far back an input matters if an algorithm rounds the powers of a constant coefficient.

    Parameters
    ----------
    format : FloatFormat
        Format of the coefficient.
    arithmetic : FloatFormat
        Format of the products.
    rho : float or Fraction
        The coefficient, a number of the format.
    rounding, underflow, algorithm : str
        How products are rounded, and in which order they are taken.
    last_nonzero : int or ``math.inf``
        The last lag at which the weight of an input isn't zero. Infinite if the weight never becomes zero.
    last_normal : int or ``math.inf``
        The last lag at which the weight is at least the smallest normal number of the arithmetic. Infinite if it always
        is.
    stagnates_from : int or None
        The first lag from which on the weight stays at `stagnates_at`. None if the weight becomes zero, or grows.
    stagnates_at : float, Fraction or None
        The weight other than zero that stays. None if there is none.
    zero_factor : int or None
        For "kogge-stone", the distance 2^t of the first factor that is zero. None if no factor is.

    Notes
    -----
    Derived on the page on computational horizons ("What really happens").
    """

    format: FloatFormat
    arithmetic: FloatFormat
    rho: Number
    rounding: str
    underflow: str
    algorithm: str
    last_nonzero: int | float
    last_normal: int | float
    stagnates_from: int | None = None
    stagnates_at: Number | None = None
    zero_factor: int | None = None

    def __str__(self) -> str:
        return f"{_written(self.rho)} in {self.format}, {self.algorithm}, {self.rounding}, {self.underflow}: {self.end}"

    def __repr__(self) -> str:
        return f"<ActualHorizon {self}>"

    @property
    def end(self) -> str:
        """Where the weight ends, in words."""
        if self.stagnates_at is not None:
            first = _lag(self.stagnates_from)
            if self.algorithm == "kogge-stone":
                return f"factors stay at {_written(self.stagnates_at)} from distance {first} on, none is 0"
            return f"stays at {_written(self.stagnates_at)} from lag {first} on, and never is 0"
        if self.last_nonzero == math.inf:
            return "grows, and never is 0"
        zero = "" if self.zero_factor is None else f"; the factor of distance {_lag(self.zero_factor)} is 0"
        return f"last other than 0 at lag {_lag(self.last_nonzero)}{zero}"


def actual_horizon(
    format: Any,
    rho: Any = None,
    *,
    rounding: str = "nearest-even",
    algorithm: str = "sequential",
    underflow: str = "gradual",
) -> ActualHorizon:
    """Return how far back an input matters if every product is rounded to a format.

    Parameters
    ----------
    format : name, FloatFormat or dtype
        Format of the coefficient.
    rho : number or str, optional
        The coefficient, at least 0. It is rounded to the nearest number of the format, as a stored coefficient is. If
        not given, it is the largest number of the format below 1.
    rounding : {"nearest-even", "nearest-away", "toward-zero", "up", "down"}
        How each product is rounded.
    algorithm : {"sequential", "kogge-stone", "fp32-accumulate"}
        The order and the format of the products. "sequential": x <- rho x. "kogge-stone": the squares f <- f^2.
        "fp32-accumulate": x <- rho x in binary32, as kernels do with narrow coefficients.
    underflow : {"gradual", "flush-before", "flush-after", "flush-result"}
        What happens to products below the smallest normal number, as in ``FloatFormat.round``.

    Returns
    -------
    ActualHorizon
        It prints itself.

    Raises
    ------
    OptionError
        If an option isn't one of those above or doesn't go with the format. If `rho` is negative or NaN. If 1 isn't a
        number of the format. If squares are asked for in a format of more than 2048 fraction bits. If following the
        powers of `rho` would take too long. That only happens in formats with many fraction bits, and for a `rho` that
        is neither far from 1 nor near it. Powers of numbers far from 1 end soon. Numbers near 1 lose the same amount
        in many steps, which are followed as one.

    See Also
    --------
    recfact.precision.horizon : The horizon of exact products.

    Notes
    -----
    Take rho = 1 - 2^-(p+1). Each step takes away one unit in the last place, so 2^p steps halve the product. It falls
    faster than the exact powers. Where it ends depends on the rounding:

    * Nearest even: it stays at 2^emin after 2^p (-emin) steps, because half a unit is there a tie that goes back up.
    * Truncation: it reaches zero after 2^p (1 - emin) steps.
    * Flushed subnormals: step 2^p (-emin) is the last with a product other than zero.

    Derived on the page on computational horizons ("What really happens"), proofs included.

    Examples
    --------
    >>> print(actual_horizon("float16"))
    1 - 2^-11 in binary16, sequential, nearest-even, gradual: stays at 2^-14 from lag 14336 on, and never is 0
    >>> actual_horizon("float32", rounding="toward-zero").last_nonzero
    1065353215
    >>> print(actual_horizon("bfloat16", "0.9", algorithm="kogge-stone"))
    0.8984375 in bfloat16, kogge-stone, nearest-even, gradual: last other than 0 at lag 870; ...
    """
    fmt = format_of(format)
    choice(rounding, "rounding", REPEATABLE)
    choice(algorithm, "algorithm", ALGORITHMS)
    choice(underflow, "underflow", UNDERFLOWS)
    arithmetic = FORMATS["binary32"] if algorithm == "fp32-accumulate" else fmt
    rate = fmt.largest_below_one if rho is None else stored_coefficient(fmt, rho)
    if arithmetic.round(Fraction(1), underflow=underflow) != 1:
        raise OptionError(f"the weight at lag 0 is 1, which {arithmetic} with underflow={underflow!r} doesn't have")
    if arithmetic.round(Fraction(rate)) != rate:
        raise OptionError(f"binary32 doesn't hold {_written(rate)}, a number of {fmt}; pass algorithm='sequential'")
    result = partial(ActualHorizon, fmt, arithmetic, rate, rounding, underflow, algorithm)
    if rate > 1:
        return result(math.inf, math.inf)
    if algorithm == "kogge-stone":
        return result(**doubled_product(arithmetic, Fraction(rate), rounding, underflow))
    product = iterated_product(arithmetic, Fraction(rate), rounding, underflow)
    last_normal = math.inf if product.last_normal is None else product.last_normal
    if product.reaches_zero:
        return result(product.last.step, last_normal)
    return result(math.inf, last_normal, product.last.step, product.last.value)


def stored_coefficient(fmt: FloatFormat, rho: Any) -> Number:
    """Return a number rounded to the format, as the format stores it; `horizon` says which numbers it may be.

    Raises
    ------
    OptionError
        If it is negative or NaN, or out of the range of the format.
    """
    number = exact_magnitude(rho, "rho")
    stored = fmt.round(number)
    if not math.isfinite(stored):
        raise OptionError(
            f"must be in the range of {fmt}, whose largest number is {in_decimal(fmt.max)}", "rho", given=rho
        )
    return _exact(stored)


def _exact(number: Fraction) -> Number:
    """Return a number as a float if that is exact."""
    return float(number) if float(number) == number else number


def _written(number: Number) -> str:
    return as_text(short(number))


def _lag(lag: Any) -> str:
    """Return a number of steps, shortened beyond what Python writes."""
    return str(lag) if lag < 2**1023 else str(short(Fraction(lag)))
