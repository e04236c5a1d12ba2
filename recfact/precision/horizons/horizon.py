"""How far back an input matters when every coefficient is at most rho: the computational horizon.

After k steps the weight of an input is at most rho^k. The pointwise horizon is the last k at which rho^k is still at
least eps. The tail horizon is the first k after which all later weights together are below eps:

    pointwise   min {k >= 0 : rho^j < eps for all j > k}
    tail        min {k >= 0 : rho^(k+1) / (1 - rho) < eps}

Both are the floor of a quotient of logarithms, log t / log rho, with t = eps or t = eps (1 - rho). Enclosures of the
logarithms decide the floor. If the quotient is an integer, an exact comparison decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from recfact.checks import choice
from recfact.errors import DTypeError, OptionError, shown
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.reals import as_rational, one_bound, read_number
from recfact.written_numbers import short

if TYPE_CHECKING:
    from recfact.precision.reals import Number

KINDS = ("pointwise", "tail")
UNDERFLOWS = ("normal", "subnormal")

MOST_BITS = 1 << 14
"""More bits of a logarithm aren't computed, because that would take seconds, and soon hours."""


def horizon(rho: Any, format_or_eps: Any, kind: str = "pointwise", underflow: str = "normal") -> int | float:
    """Return how many steps an input matters when no coefficient is larger than `rho` in magnitude.

    Parameters
    ----------
    rho : float, int, Fraction, Decimal, mpf or str
        Bound on the magnitude of the coefficients, taken exactly: 0.99 is the float64, ``"0.99"`` is 99/100.
    format_or_eps : str, FloatFormat, dtype, or a number as `rho`
        The smallest weight eps that counts. A format stands for its smallest number.
    kind : {"pointwise", "tail"}
        What is compared with eps: each single weight, or the sum of all weights further back.
    underflow : {"normal", "subnormal"}
        Which smallest number of the format is meant: 2^emin ("normal") or 2^(emin - p) ("subnormal").

    Returns
    -------
    int, or ``math.inf``
        "pointwise": the smallest k >= 0 with rho^j < eps for all j > k. "tail": the smallest k >= 0 with
        rho^(k+1) + rho^(k+2) + ... < eps. Infinite if there is no such k.

    Raises
    ------
    OptionError
        If `rho` or eps is negative or NaN, if an option isn't one of those above, if the format has no subnormals, or
        if the logarithms would need more than 16,384 bits, as those of ``1 - Fraction(1, 2**200000)`` do.
    DTypeError
        If `rho` or eps isn't a real number.

    See Also
    --------
    recfact.precision.horizon_table : The horizons of formats side by side.
    recfact.precision.actual_horizon : Where a product that is rounded at every step ends.
    recfact.precision.effective_horizon : How far back given coefficients look.

    Notes
    -----
    The definitions are those of the sliding window recurrences paper (its section on the computational horizon). Its
    formula for the pointwise horizon, ceil(log eps / log rho), is one too large unless the quotient is an integer. Its
    formula for the tail horizon, ceil(log(eps (1 - rho)) / log rho) - 1, is one too small if the quotient is an
    integer. The integers in its table are right.

    Examples
    --------
    >>> horizon(1 - 2.0**-24, "float32"), horizon(1 - 2.0**-24, "float32", underflow="subnormal")
    (1465264032, 1732732863)
    >>> horizon("0.99", "bfloat16"), horizon(0.5, 0.25), horizon(0.5, 0.25, kind="tail"), horizon(1, "half")
    (8689, 2, 3, inf)
    """
    choice(kind, "kind", KINDS)
    choice(underflow, "underflow", UNDERFLOWS)
    rate = exact_magnitude(one_bound(rho, "effective_horizon"), "rho")
    eps = threshold(format_or_eps, underflow)
    if eps == 0:
        return math.inf
    if rate >= 1:
        forgotten = kind == "pointwise" and (eps == math.inf or (rate == 1 and eps > 1)) and rate != math.inf
        return 0 if forgotten else math.inf
    if rate == 0 or eps == math.inf:
        return 0
    rate = Fraction(rate)
    return last_power(rate, Fraction(eps) * (1 - rate) if kind == "tail" else Fraction(eps))


def last_power(rho: Fraction, level: Fraction) -> int:
    """Return the largest k >= 0 with rho^k >= level, or 0, for 0 < rho < 1 and level > 0: floor(log level / log rho).

    Examples
    --------
    >>> last_power(Fraction(1, 2), Fraction(1, 1000)), last_power(Fraction(1, 2), Fraction(1, 1024))
    (9, 10)
    """
    from mpmath.ctx_iv import MPIntervalContext
    from mpmath.libmp import round_floor, to_int

    if level >= 1:
        return 0
    context = MPIntervalContext()  # of our own, so that no caller's precision changes
    context.prec = 128
    compared = -1
    while True:
        bottom = context.log(context.mpf(rho.numerator) / rho.denominator)
        top = context.log(context.mpf(level.numerator) / level.denominator)
        if bottom.b < 0:
            quotient = top / bottom
            low, high = (int(to_int(end, round_floor)) for end in quotient._mpi_)
            if low == high:
                return max(low, 0)
            # A candidate is an integer between them. Where it is no solution, more digits decide.
            if high == low + 1 and high != compared:
                compared = high
                if _is_power(rho, high, level):
                    return high
        context.prec *= 2
        if context.prec > MOST_BITS:
            raise OptionError(
                f"logarithms of {MOST_BITS} bits don't decide the horizon of rho = {short(rho)} down to {short(level)}"
                "; pass a rho further from 1, or one of fewer digits"
            )


def _is_power(rho: Fraction, k: int, level: Fraction) -> bool:
    """Return whether rho^k = level. Both are in lowest terms, so numerators and denominators must agree."""
    return _is_integer_power(rho.numerator, k, level.numerator) and _is_integer_power(
        rho.denominator, k, level.denominator
    )


def _is_integer_power(base: int, k: int, value: int) -> bool:
    # A power of k times as many bits is not computed to be compared with a short number.
    return (base.bit_length() - 1) * k < value.bit_length() and base**k == value


def exact_magnitude(value: Any, name: str) -> Number:
    """Return a number that is at least 0 as a Fraction, or as a float if it is infinite.

    Raises
    ------
    OptionError
        If it is negative or NaN, or a string that is no number.
    DTypeError
        If it is no real number.
    """
    given = value
    if isinstance(value, str):
        try:
            value = read_number(value)
        except ValueError:
            raise OptionError("must be a number such as '0.99' or '63/64'", name, given=value) from None
    if isinstance(value, bool):
        raise DTypeError(f"{name} must be a number, got the boolean {value}; pass a float or a string")
    number = as_rational(value)
    if not number >= 0:
        required = "bounds magnitudes and must be at least 0"
        raise OptionError(required, name, given=given, advice="pass its magnitude")
    return number


def threshold(format_or_eps: Any, underflow: str) -> Number:
    """Return eps: the number that was passed, or the smallest number of a format.

    Raises
    ------
    OptionError
        If it is negative or NaN, if it is neither a number nor the name of a format, or if it is a format without
        subnormals and these are asked for.
    """
    if isinstance(format_or_eps, str):
        try:
            read_number(format_or_eps)
        except ValueError:
            format_or_eps = format_of(format_or_eps)
    if not isinstance(format_or_eps, FloatFormat) and _is_number(format_or_eps):
        if underflow == "subnormal":
            raise OptionError(
                f"underflow='subnormal' needs a format, got eps = {shown(format_or_eps)}; pass the smaller number as "
                "eps"
            )
        return exact_magnitude(format_or_eps, "eps")
    fmt = format_of(format_or_eps)
    if underflow == "normal":
        return fmt.smallest_normal
    if not fmt.subnormals:
        raise OptionError(f"{fmt} has no subnormals; pass underflow='normal'")
    return fmt.smallest_subnormal


def _is_number(value: Any) -> bool:
    """Return whether `value` is a number, and neither a type nor a dtype."""
    if isinstance(value, type):
        return False
    return isinstance(value, str) or any(hasattr(value, name) for name in ("as_integer_ratio", "_mpf_", "__float__"))
