"""Sentences on what the numbers of a report say about a recurrence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recfact.plot.window_costs import WindowCost
from recfact.precision.truncation.window_choice import WindowChoice
from recfact.precision.verification.result import Verification
from recfact.report.safety import REAL_ONLY, FormatSafety
from recfact.report.summary import Summary
from recfact.report.words import (
    after_first,
    counted,
    first_steps,
    number,
    number_at_most,
    percent,
    percent_at_most,
    with_powers,
)
from recfact.windows import Jagged


def findings(
    summary: Summary,
    costs: list[WindowCost],
    block: int,
    enough: Mapping[str, WindowChoice],
    formats: Sequence[FormatSafety],
    unit: str = "",
) -> list[str]:
    """Return the findings as sentences. States are in their `unit`.

    They tell the horizon, the amplification, the cost of the chosen window, the windows that are enough for all inputs,
    and the windows that are safe in number formats.
    """
    said = [_horizon(summary), _amplification(summary)]
    proved = _safe_windows(formats)
    if summary.zeros:
        resets = after_first(summary.zeros, summary.n)
        said.append(
            f"{resets} exactly 0, so the sequence starts anew there. The longest stretch without a 0 is "
            f"{counted(summary.nilpotency_index, 'step')}."
        )
    if not math.isfinite(summary.largest_state):
        said.append(f"The states overflow {summary.dtype}, so the effect of a window on them is unknown.")
        return [*said, *proved, *_warning(summary)]
    chosen = next(cost for cost in costs if cost.window == Jagged(block))
    if chosen.reach >= summary.n:
        said.append(f"{chosen.name} keeps everything, because the sequence is so short.")
    elif chosen.relative_error_norm == 0:
        said.append(f"{chosen.name} changes no state, whatever the inputs are: it may be used without any loss.")
    else:
        changes = (
            f"the states by up to about {f'{number(chosen.max_error)} {unit}'.rstrip()} for these inputs, "
            f"{percent(chosen.relative_error)} of the largest"
            if chosen.max_error
            else "no state for these inputs"
        )
        said.append(
            f"{chosen.name} changes {changes}. Other inputs can lose up to "
            f"{percent_at_most(chosen.relative_error_norm)} of the largest state, but no more."
        )
    if summary.n > 1:
        said += _enough(enough)
    return [*said, *proved, *_warning(summary)]


def _enough(enough: Mapping[str, WindowChoice]) -> list[str]:
    """Return a sentence on the windows that are enough, the strictest limit last, and one on a limit without."""
    proved = {choice.window: limit for limit, choice in enough.items() if choice.window}
    windows = [f"{window!r} loses at most {limit}" for window, limit in proved.items()]
    said = [f"Whatever the inputs are, {' and '.join(windows)} of the largest state."] if windows else []
    for limit, choice in enough.items():
        if choice.window is None:
            said.append(
                f"No window shorter than the sequence is proved to lose at most {limit} of the largest state, whatever "
                f"the inputs are: {with_powers(choice.reason)}."
            )
            break
    return said


def _lost(error: float) -> str:
    return f"at most {percent_at_most(error)} of the largest state" if error else "nothing"


def _warning(summary: Summary) -> list[str]:
    return [f"Warning: {summary.warning}."] if summary.warning else []


def _horizon(summary: Summary) -> str:
    if summary.n == 1:
        return "There is one step, whose state is its input: nothing is remembered and nothing forgotten."
    limit = f"the eps of {summary.dtype}, {number(summary.eps)}"
    if summary.horizon >= summary.n - 1:
        return f"No input is ever forgotten: the first one still weighs at least {limit}, in the last state."
    share = percent(summary.horizon / summary.n)
    return (
        f"An input is forgotten after {counted(summary.horizon, 'step')} at most ({share} of the sequence): beyond "
        f"that it weighs less than {limit}."
    )


def _amplification(summary: Summary) -> str:
    if summary.growth > 1:
        growing = after_first(summary.above_one, summary.n)
        return (
            f"{growing} above 1 in magnitude. A single input is amplified up to about "
            f"{number(summary.growth)} times, and inputs up to 1 give states up to about {number(summary.norm_inf)}."
        )
    return (
        "No coefficient after the first is above 1 in magnitude, so no single input is ever amplified. Together, "
        f"inputs up to 1 give states up to about {number(summary.norm_inf)}."
    )


def _safe_windows(formats: Sequence[FormatSafety]) -> list[str]:
    """Return one sentence for all formats without peculiarities, and some for each of the others."""
    plain = [found for found in formats if _is_plain(found)]
    if len(plain) < 2:
        plain = []
    windows = [f"{found.window} in {found.format.name}" for found in plain]
    said = []
    if windows:
        listed = f"{', '.join(windows[:-1])} and {windows[-1]}"
        said.append(f"These windows cost no more than rounding, whatever the inputs are: {listed}.")
    said += [format_finding(found) for found in formats if found not in plain]
    if any(found.unsaid == REAL_ONLY for found in formats):
        said.append(f"In number formats, {REAL_ONLY}.")
    return said


def _is_plain(found: FormatSafety) -> bool:
    """Say whether a format has a good window, and errors, if they are measured, that are finite and within bounds."""
    if found.ones or found.window is None:
        return False
    if found.verification is None:
        return found.unsaid == REAL_ONLY
    return bool(found.verification.holds) and not found.verification.nonfinite


def format_finding(found: FormatSafety) -> str:
    """Return sentences on what is proved in one number format, for which steps and for which numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from recfact import precision as pr
    >>> from recfact.report.safety import format_safety
    >>> print(format_finding(format_safety(np.full(200, 0.5), np.ones(200), pr.format("half"), 16)))
    In binary16, Jagged(16) costs no more than rounding: it is proved to lose at most 0.00077 % of the largest
    state. In the first 200 steps of these inputs the states of Jagged(16) err by up to 0.000489, proved at most
    0.00392.
    """
    parts = []
    if found.ones:
        after = "after the first"
        become = f"1 coefficient {after} becomes" if found.ones == 1 else f"{found.ones} coefficients {after} become"
        parts.append(f"{become} exactly 1, which forgets nothing")
    if found.choice is not None:
        if found.good is None:
            reason = with_powers(found.choice.reason)
            parts.append(f"no window shorter than the sequence is proved to cost no more than rounding: {reason}")
        else:
            lost = _lost(found.good.error)
            parts.append(f"{found.window} costs no more than rounding: it is proved to lose {lost}")
    if found.verification is not None:
        parts += _verified(found.verification)
    if found.unsaid not in ("", REAL_ONLY):
        parts.append(found.unsaid)
    first, *others = parts
    return " ".join([f"In {found.format.name}, {first}.", *(f"{part[0].upper()}{part[1:]}." for part in others)])


def _verified(v: Verification) -> list[str]:
    name, states = repr(v.window), v.shape[0]
    steps = first_steps(states)
    if v.nonfinite == states:
        return [f"in {steps} of these inputs every state of {name} overflows"]
    proved = f"proved at most {number_at_most(v.total.bound)}" if v.total.holds else "which is NOT proved"
    overflow = f", but {v.nonfinite} of {states} overflow" if v.nonfinite else ""
    error = number_at_most(v.total.largest)
    said = [f"in {steps} of these inputs the states of {name} err by up to {error}, {proved}{overflow}"]
    if v.inputs_changed:
        said.append(
            f"rounding to the format first changed {v.inputs_changed} of the coefficients and inputs, with relative "
            f"errors up to {percent_at_most(v.inputs_change)}"
        )
    return said
