"""The window to choose for coefficients or a bound of them, and how far back their states look."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.errors import DataFileError
from recfact.precision import (
    BlockFormat,
    EffectiveHorizon,
    FloatFormat,
    WindowChoice,
    choose_window,
    effective_horizon,
    horizon,
)
from recfact.precision.exact.scaled import magnitudes
from recfact.precision.truncation.truncation_bounds import magnitude
from recfact.report.safety import computed_in, count_out_of_range, rounded
from recfact.windows import window_text
from recfact.written_numbers import as_text, short


@dataclass(frozen=True, eq=False)
class WindowAdvice:
    """A window that is proved good enough, and the horizon down to the same limit.

    Parameters
    ----------
    format : FloatFormat or BlockFormat, optional
        The format whose unit roundoff is the limit, if a format was given. Where coefficients are stored in blocks, the
        limit is that of binary32, in which states then are.
    choice : WindowChoice
        The window.
    horizon : EffectiveHorizon, int, or math.inf
        The lag from which on weights are below the limit: one for each position, or one for a bound of all
        coefficients.
    changed : bool, default False
        Whether the format changed coefficients.
    """

    format: FloatFormat | BlockFormat | None
    choice: WindowChoice
    horizon: EffectiveHorizon | float
    changed: bool = False

    @property
    def typed(self) -> str | None:
        """The window to run as the option --window takes it, or None."""
        best = self.choice.recommended
        return None if best is None else window_text(best.window)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        reach = self.horizon
        both = (reach.largest, reach.quantile(0.5)[0]) if isinstance(reach, EffectiveHorizon) else (reach, reach)
        return {
            "format": self.format and self.format.name,
            "tol": float(self.choice.tol),
            "relative_to": self.choice.relative_to,
            "window": None if self.choice.window is None else window_text(self.choice.window),
            "error": self.choice.error,
            "fastest": None if self.choice.fastest is None else window_text(self.choice.fastest.window),
            "fastest_error": None if self.choice.fastest is None else self.choice.fastest.error,
            "worst": self.choice.worst,
            "reason": self.choice.reason,
            "candidates": self.choice.to_rows(),
            "horizon": both[0],
            "median_horizon": both[1],
        }

    def to_text(self, width: int | None = None) -> str:
        """Return both as text for a terminal of `width` characters."""
        lines = [self.choice.to_text(width)]
        if self.format and self.changed:
            lines.append(f"(for coefficients as {self.format} stores them)")
        if self.typed:
            lines.append(f"(to type: --window {self.typed})")
        if isinstance(self.horizon, EffectiveHorizon):
            lines.append(str(self.horizon))
        else:
            limit = as_text(short(self.choice.tol))
            fall = (
                f"never fall below {limit}" if self.horizon == inf else f"are below {limit} after {self.horizon} steps"
            )
            lines.append(f"horizon: weights {fall}")
        return "\n".join(lines)


def window_advice(
    a: Array | str,
    fmt: FloatFormat | BlockFormat | None,
    tol: Any,
    relative_to: str,
    block: int | None,
    axis: int = -1,
    offsets: Any = None,
    device: str | None = None,
) -> WindowAdvice:
    """Return the window to choose and the horizon.

    Parameters
    ----------
    a : ndarray or str
        Real or complex coefficients. They are rounded to the format if there is one. A single one stands for sequences
        of any length. A string is a bound of the coefficients, written as a number.
    fmt, tol : FloatFormat or BlockFormat, and str, one of them None
        The largest loss allowed: the unit roundoff of a format, or a number.
    relative_to, block, axis, offsets, device
        As for `choose_window`.

    Raises
    ------
    DataFileError
        If the format can't hold the coefficients.

    Examples
    --------
    >>> found = window_advice("0.9", None, "0.01", "state", None)
    >>> found.typed, found.horizon
    ('jagged:48', 43)
    """
    options: dict[str, Any] = {"relative_to": relative_to, "block": block, "device": device}
    goal = None if fmt is None else computed_in(fmt)
    if isinstance(a, str):
        rho = magnitude(a, "rho")
        choice = choose_window(rho, tol, format=goal, **options)
        return WindowAdvice(fmt, choice, horizon(rho, choice.tol))
    kept = a if fmt is None else rounded(a, fmt, axis, offsets)
    if fmt is not None and (lost := count_out_of_range(kept)):
        raise DataFileError(f"{fmt.name} can't hold {lost} of the coefficients; choose a format of more range")
    choice = choose_window(magnitudes(kept), tol, format=goal, axis=axis, offsets=offsets, **options)
    reach = (
        effective_horizon(kept, choice.tol, axis=axis, offsets=offsets)
        if kept.ndim
        else horizon(float(np.abs(kept)), choice.tol)
    )
    return WindowAdvice(fmt, choice, reach, not np.array_equal(kept, a))
