"""Numbers as people read them, and what the numbers of a recurrence say in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from recfact.precision.truncation.window_choice import WindowChoice
from recfact.precision.verification.result import Verification
from recfact.report.safety import FormatSafety
from recfact.report.summary import Summary
from recfact.report.window_costs import WindowCost, window_name, window_reach
from recfact.windows import Jagged
from recfact.written_numbers import at_most

_DIGITS, _RAISED = "−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"


def number(value: float) -> str:
    """Return `value` in three significant digits, very large and very small ones with a power of ten.

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
    """Return `value` as `number` does, rounded up, for a bound to stay one in print.

    Examples
    --------
    >>> number_at_most(0.79113), number_at_most(1234.5), number_at_most(0.25)
    ('0.792', '1235', '0.250')
    """
    return number(math.ceil(value) if 999 < value < 1e5 else at_most(value, 3))


def power_of_ten(exponent: int) -> str:
    """Return 10 to the `exponent` with its exponent raised.

    Examples
    --------
    >>> power_of_ten(-3), power_of_ten(0)
    ('10⁻³', '1')
    """
    return "1" if exponent == 0 else "10" + superscript(exponent)


def superscript(value: int) -> str:
    """Return `value` in raised digits.

    Examples
    --------
    >>> superscript(-16)
    '⁻¹⁶'
    """
    return str(value).replace("-", "−").translate(str.maketrans(_DIGITS, _RAISED))


def lowered(digits: str) -> str:
    """Return raised digits as plain ones.

    Examples
    --------
    >>> lowered("⁻¹⁶")
    '−16'
    """
    return digits.translate(str.maketrans(_RAISED, _DIGITS))


def coefficient(value: float) -> str:
    """Return `value` as `number` does, and its distance to 1 where three digits would hide that.

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
    >>> percent(0.0692), percent(1.0), percent(0.0), percent(3e-7), percent(2e48)
    ('6.9 %', '100 %', '0 %', '3.00×10⁻⁵ %', '2.00×10⁵⁰ %')
    """
    value = 100 * share
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{number(value)} %"
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:#.2g} %"


def percent_at_most(share: float) -> str:
    """Return `share` as `percent` does, rounded up.

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
    """Return how the first so many steps are called.

    Examples
    --------
    >>> first_steps(1), first_steps(12)
    ('the first step', 'the first 12 steps')
    """
    return "the first step" if count == 1 else f"the first {counted(count, 'step')}"


def after_first(count: int, n: int) -> str:
    """Return how many of the coefficients something is true of, with the verb; the first of the n isn't counted.

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


def findings(
    summary: Summary,
    costs: list[WindowCost],
    block: int,
    enough: Mapping[str, WindowChoice],
    formats: Sequence[FormatSafety],
) -> list[str]:
    """Return what the numbers say, in sentences.

    Horizon, amplification, the window asked for, the windows that are enough for all inputs, and what is safe in each
    number format.
    """
    said = [_horizon(summary), _amplification(summary)]
    proved = [format_finding(found) for found in formats]
    if summary.zeros:
        resets = after_first(summary.zeros, summary.n)
        said.append(
            f"{resets} exactly 0, where the sequence starts anew; the longest stretch without that is "
            f"{counted(summary.nilpotency_index, 'step')}."
        )
    if not math.isfinite(summary.largest_state):
        said.append(f"The states overflow {summary.dtype}, so what a window changes in them can't be said.")
        return [*said, *proved, *_warning(summary)]
    chosen = next(cost for cost in costs if cost.window == Jagged(block))
    if chosen.reach >= summary.n:
        said.append(f"{chosen.name} keeps all of so short a sequence.")
    elif chosen.relative_error_norm == 0:
        said.append(f"{chosen.name} changes no state, whatever the inputs are: it may be used without any loss.")
    else:
        changes = (
            f"the states by up to about {number(chosen.max_error)} for these inputs, "
            f"{percent(chosen.relative_error)} of the largest"
            if chosen.max_error
            else "no state for these inputs"
        )
        said.append(
            f"{chosen.name} changes {changes}; other inputs can lose up to "
            f"{percent_at_most(chosen.relative_error_norm)} of the largest state, and none more."
        )
    if summary.n > 1:
        said += [_enough(name, choice) for name, choice in enough.items()]
    return [*said, *proved, *_warning(summary)]


def _enough(name: str, choice: WindowChoice) -> str:
    if choice.window is None:
        return (
            f"No window shorter than the sequence is proved to lose no more of the largest state than {name}, whatever "
            f"the inputs are: {choice.reason}."
        )
    return (
        f"To lose no more of the largest state than {name}, whatever the inputs are, {window_name(choice.window)} is "
        f"enough: it reaches back {counted(window_reach(choice.window), 'step')} at most and is proved to lose "
        f"{_lost(choice.error)}."
    )


def _lost(error: float) -> str:
    return f"at most {percent_at_most(error)} of the largest state" if error else "nothing"


def _warning(summary: Summary) -> list[str]:
    return [f"Warning: {summary.warning}."] if summary.warning else []


def _horizon(summary: Summary) -> str:
    if summary.n == 1:
        return "There is one step, whose state is its input: nothing is remembered and nothing forgotten."
    limit = f"the eps of {summary.dtype}, {number(summary.eps)}"
    if summary.horizon >= summary.n - 1:
        return f"No input is ever forgotten: the first still weighs at least {limit}, in the last state."
    share = percent(summary.horizon / summary.n)
    return (
        f"An input is forgotten after {counted(summary.horizon, 'step')} at most ({share} of the sequence): beyond "
        f"that it weighs less than {limit}."
    )


def _amplification(summary: Summary) -> str:
    if summary.growth > 1:
        growing = after_first(summary.above_one, summary.n)
        return (
            f"{growing} above 1 in magnitude: a single input is amplified up to about "
            f"{number(summary.growth)} times, and inputs up to 1 give states up to about {number(summary.norm_inf)}."
        )
    return (
        "No coefficient after the first is above 1 in magnitude, so no single input is ever amplified; together, "
        f"inputs up to 1 give states up to about {number(summary.norm_inf)}."
    )


def format_finding(found: FormatSafety) -> str:
    """Return what is proved in one number format, in a sentence that says of which steps and of which numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import precision as pr
    >>> from recfact.report.safety import format_safety
    >>> print(format_finding(format_safety(np.full(200, 0.5), np.ones(200), pr.format("half"), 16)))
    In binary16, Jagged(10) costs no more than rounding: it is proved to lose at most 0.049 % of the largest
    state; in the first 200 steps of these inputs the states of Jagged(16) err by up to 0.000489, proved at most
    0.00392.
    """
    parts = []
    if found.ones:
        after = "after the first"
        become = f"1 coefficient {after} becomes" if found.ones == 1 else f"{found.ones} coefficients {after} become"
        parts.append(f"{become} exactly 1, which forgets nothing")
    if found.choice is not None:
        if found.window is None:
            parts.append(
                f"no window shorter than the sequence is proved to cost no more than rounding: {found.choice.reason}"
            )
        else:
            lost = _lost(found.choice.error)
            parts.append(f"{found.window} costs no more than rounding: it is proved to lose {lost}")
    if found.verification is not None:
        parts.append(_verified(found.verification))
    if found.unsaid:
        parts.append(found.unsaid)
    return f"In {found.format.name}, {'; '.join(parts)}."


def _verified(v: Verification) -> str:
    name, states = window_name(v.window), v.shape[0]
    steps = first_steps(states)
    if v.nonfinite == states:
        return f"in {steps} of these inputs every state of {name} overflows"
    proved = f"proved at most {number_at_most(v.total.bound)}" if v.total.holds else "which is NOT proved"
    overflow = f", but {v.nonfinite} of {states} overflow" if v.nonfinite else ""
    rounded = (
        f", beside the relative errors up to {percent_at_most(v.inputs_change)} of the {v.inputs_changed} coefficients "
        "and inputs that were rounded first"
    )
    return (
        f"in {steps} of these inputs the states of {name} err by up to {number_at_most(v.total.largest)}, "
        f"{proved}{overflow}{rounded if v.inputs_changed else ''}"
    )
