"""Numbers in the form that people read, and words for counts."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from recfact.written_numbers import DIGITS, RAISED, at_most, power_of_ten


def number(value: float) -> str:
    """Return `value` in three significant digits. Very large and very small values have a power of ten.

    Examples
    --------
    >>> number(0.79188), number(2225), number(1.234e-7), number(0.0), number(float("inf")), number(-120000.0)
    ('0.792', '2225', '1.23×10⁻⁷', '0', '∞', '−1.20×10⁵')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e5):
        text = f"{int(value)}"
    elif 1e-4 <= abs(value) < 1e5:
        text = f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:.0f}"
    else:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}×{power_of_ten(int(exponent))}"
    return text.replace("-", "−")


def number_at_most(value: float) -> str:
    """Return `value` as `number` does, but rounded up, so that a printed bound stays a bound.

    Examples
    --------
    >>> number_at_most(0.79113), number_at_most(1234.5), number_at_most(0.25)
    ('0.792', '1235', '0.250')
    """
    return number(math.ceil(value) if 999 < value < 1e5 else at_most(value, 3))


def with_powers(text: str) -> str:
    """Return a sentence whose floats have powers of ten, as those of `number`.

    Examples
    --------
    >>> with_powers("a weight of 2.18e-07 in step 3")
    'a weight of 2.18×10⁻⁷ in step 3'
    """
    return re.sub(r"(?<=\d)e([+-]\d+)", lambda exponent: f"×{power_of_ten(int(exponent[1]))}", text)


def lowered(digits: str) -> str:
    """Return raised digits as plain ones.

    Examples
    --------
    >>> lowered("⁻¹⁶")
    '−16'
    """
    return digits.translate(str.maketrans(RAISED, DIGITS))


def coefficient(value: float) -> str:
    """Return `value` as `number` does, but as a distance to 1 if three digits would hide it.

    Examples
    --------
    >>> coefficient(0.7919), coefficient(1 - 2.0**-24), coefficient(1.0)
    ('0.792', '1 − 5.96×10⁻⁸', '1')
    """
    if value == 1 or abs(value - 1) >= 5e-3:
        return number(value)
    return f"1 {'−' if value < 1 else '+'} {number(abs(value - 1))}"


def percent(share: float) -> str:
    """Return `share` as a percentage.

    Examples
    --------
    >>> percent(0.0692), percent(0.0997), percent(1.0), percent(0.0), percent(3e-7), percent(2e48)
    ('6.9 %', '10 %', '100 %', '0 %', '3.00×10⁻⁵ %', '2.00×10⁵⁰ %')
    """
    value = 100 * share
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{number(value)} %"
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:#.2g} %"


def percent_at_most(share: float) -> str:
    """Return `share` as `percent` does, but rounded up.

    Examples
    --------
    >>> percent_at_most(0.1731), percent_at_most(0.0691), percent_at_most(0.5)
    ('18 %', '7.0 %', '50 %')
    """
    if 0.1 <= share < 1e3:
        return percent(math.ceil(Fraction(share) * 100) / 100)
    return percent(at_most(share, 2 if 1e-6 <= share < 0.1 else 3))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is 1.

    Examples
    --------
    >>> counted(1, "step"), counted(12, "step")
    ('1 step', '12 steps')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_steps(count: int) -> str:
    """Return words for the first `count` steps.

    Examples
    --------
    >>> first_steps(1), first_steps(12)
    ('the first step', 'the first 12 steps')
    """
    return "the first step" if count == 1 else f"the first {counted(count, 'step')}"


def after_first(count: int, n: int) -> str:
    """Return a count of coefficients after the first of n, as subject and verb of a sentence.

    Examples
    --------
    >>> after_first(2, 9), after_first(1, 9), after_first(8, 9), after_first(1, 2)  # doctest: +NORMALIZE_WHITESPACE
    ('2 of the 8 coefficients after the first are', '1 of the 8 coefficients after the first is',
     'All 8 coefficients after the first are', 'The only coefficient after the first is')
    """
    if count == n - 1:
        return (
            "The only coefficient after the first is" if count == 1 else f"All {count} coefficients after the first are"
        )
    return f"{count} of the {n - 1} coefficients after the first {'is' if count == 1 else 'are'}"
