"""Safe number formats and windows for given coefficients, with the numbers of the proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from recfact.arrays import Array
from recfact.precision import Arithmetic, BlockFormat, FloatFormat, choose_window, effective_horizon, verify
from recfact.precision.exact.scaled import magnitudes
from recfact.precision.formats.block_catalogue import number_format
from recfact.precision.horizons.effective_horizons import EffectiveHorizon
from recfact.precision.sequences import segments_of
from recfact.precision.truncation.window_choice import Candidate, WindowChoice
from recfact.precision.verification.result import Verification
from recfact.windows import Jagged

USUAL = ("binary32", "binary16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
"""The formats that a report looks at if it isn't asked for one."""

STEPS = 2048
"""Steps that are verified: the first ones of the sequence."""

REAL_ONLY = "errors are measured for real numbers only"
"""What is said of complex numbers instead."""


@dataclass(frozen=True, eq=False)
class FormatSafety:
    """Proved and measured results for one recurrence in one number format.

    Parameters
    ----------
    format : FloatFormat or BlockFormat
        The format.
    out_of_range : int
        Number of coefficients and inputs that the format can't hold. If there are any, nothing else is said.
    largest : float
        Largest magnitude of a coefficient after the first one, rounded to the format.
    ones : int
        Number of coefficients that rounding makes 1 in magnitude. They forget nothing.
    horizon : EffectiveHorizon, optional
        For each position, the lag from which on weights are below the unit roundoff.
    choice : WindowChoice, optional
        Windows whose truncation error is proved to be at most the unit roundoff times the largest state.
    verification : Verification, optional
        The errors of the report's jagged window on the first `STEPS` steps. There are none for complex numbers.
    unsaid : str
        What is unknown, and why. Empty if nothing is.
    """

    format: FloatFormat | BlockFormat
    out_of_range: int
    largest: float = float("nan")
    ones: int = 0
    horizon: EffectiveHorizon | None = None
    choice: WindowChoice | None = None
    verification: Verification | None = None
    unsaid: str = ""

    @property
    def unit_roundoff(self) -> Fraction:
        """The unit roundoff of the states."""
        return Fraction(computed_in(self.format).unit_roundoff)

    @property
    def good(self) -> Candidate | None:
        """The window to run, which is proved good enough, or None."""
        return None if self.choice is None else self.choice.recommended

    @property
    def window(self) -> str | None:
        """That window, as it is typed, or None."""
        return None if self.good is None else repr(self.good.window)

    @property
    def median_horizon(self) -> int | None:
        """Effective horizon of the median position."""
        return None if self.horizon is None else self.horizon.quantile(0.5)[0]

    @property
    def largest_horizon(self) -> int | None:
        """Effective horizon of the position that looks back furthest."""
        return None if self.horizon is None else self.horizon.largest

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None where nothing can be said."""
        return {
            "format": self.format.name,
            "unit_roundoff": float(self.unit_roundoff),
            "out_of_range": self.out_of_range,
            "largest": self.largest,
            "ones": self.ones,
            "median_horizon": self.median_horizon,
            "horizon": self.largest_horizon,
            "window": self.window,
            "window_error": self.good.error if self.good else None,
            "window_reason": "" if self.choice is None else self.choice.reason,
            "verification": None if self.verification is None else self.verification.to_dict(),
            "unsaid": self.unsaid,
        }


def chosen_formats(names: Sequence[str] = ()) -> tuple[FloatFormat | BlockFormat, ...]:
    """Return the formats called `names`, each once, or the usual ones for none.

    Raises
    ------
    OptionError
        If there is no such format.
    """
    return tuple(dict.fromkeys(map(number_format, names or USUAL)))


def computed_in(fmt: FloatFormat | BlockFormat) -> FloatFormat:
    """Return the format of states: binary32 if coefficients and inputs are stored in blocks."""
    return Arithmetic.of(fmt).format


def format_safety(a: Array, u: Array, fmt: FloatFormat | BlockFormat, block: int) -> FormatSafety:
    """Return the proved and measured results for a recurrence in a format.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs, n >= 1, real or complex, finite.
    fmt : FloatFormat or BlockFormat
        The format.
    block : int
        Block length of the jagged window to verify.

    Examples
    --------
    >>> found = format_safety(np.full(200, 0.9), np.ones(200), number_format("bfloat16"), 16)
    >>> found.largest, found.largest_horizon, found.window, found.verification.holds
    (0.8984375, 51, 'Jagged(64)', True)
    """
    return verified(format_needs(a, u, fmt), a, u, block)


def format_needs(a: Array, u: Array, fmt: FloatFormat | BlockFormat) -> FormatSafety:
    """Return what is proved about a recurrence in a format, as `format_safety` does, without the verification."""
    kept, inputs = rounded(a, fmt), rounded(u, fmt)
    lost = count_out_of_range(kept) + count_out_of_range(inputs)
    if lost:
        return FormatSafety(fmt, lost, unsaid=f"it can't hold {lost} of the coefficients and inputs")
    size, before = _magnitude(kept[1:]), _magnitude(a[1:])
    return FormatSafety(
        fmt,
        0,
        largest=float(size.max(initial=0)),
        ones=int(np.count_nonzero((size == 1) & (before != 1))),
        horizon=effective_horizon(kept, Fraction(computed_in(fmt).unit_roundoff)),
        choice=choose_window(magnitudes(kept), format=computed_in(fmt)),
        unsaid=REAL_ONLY if "c" in (a.dtype.kind, u.dtype.kind) else "",
    )


def verified(needs: FormatSafety, a: Array, u: Array, block: int) -> FormatSafety:
    """Return what `format_needs` returned with its verification, unless it says why there is none."""
    if needs.unsaid:
        return needs
    found = verify(a[:STEPS], u[:STEPS], window=Jagged(block), format=needs.format, algorithm="hierarchical")
    return replace(needs, verification=found)


def rounded(values: Array, fmt: FloatFormat | BlockFormat, axis: int = -1, offsets: Any = None) -> Array:
    """Return numbers as the format stores them, complex ones part by part; blocks lie along time, in each segment."""
    if values.dtype.kind == "c":
        return rounded(values.real, fmt, axis, offsets) + 1j * rounded(values.imag, fmt, axis, offsets)
    if isinstance(fmt, FloatFormat):
        return np.asarray(fmt.round(values))
    steps = np.moveaxis(np.atleast_1d(values), axis, 0)
    stored = [np.asarray(fmt.round(steps[segment], axis=0)) for segment in segments_of(offsets, len(steps))]
    return np.moveaxis(np.concatenate(stored), 0, axis).reshape(values.shape)


def count_out_of_range(values: Array) -> int:
    """Return how many rounded numbers have become infinite or NaN."""
    return int(np.count_nonzero(~np.isfinite(values if values.dtype.kind == "c" else values.astype(np.float64))))


def _magnitude(values: Array) -> Array:
    return np.abs(values).astype(np.float64)
