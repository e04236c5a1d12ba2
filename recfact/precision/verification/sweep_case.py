"""One case of a sweep: what was run, and how to run it again by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recfact.arrays import Array
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.verification.case_families import draw
from recfact.precision.verification.result import Verification
from recfact.precision.verification.verify import verify
from recfact.windows import Window


@dataclass(frozen=True, slots=True)
class Variant:
    """How states are computed: the algorithm, the window and the arithmetic.

    Parameters
    ----------
    algorithm : str
        What computes the states.
    window : Full, Uniform, Jagged or str
        What is kept.
    accumulate : FloatFormat or None
        The format of the operations, if it isn't that of the states.
    fma : bool
        Whether products and sums are fused.
    rounding, underflow : str
        As in `rounded_solve`.
    """

    algorithm: str
    window: Window
    accumulate: FloatFormat | None = None
    fma: bool = False
    rounding: str = "nearest-even"
    underflow: str = "gradual"

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `rounded_solve` and `forward_bound` that say so."""
        return {
            "window": self.window,
            "accumulate": self.accumulate,
            "fma": self.fma,
            "rounding": self.rounding,
            "underflow": self.underflow,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence of a sweep, which its own seed draws again.

    Parameters
    ----------
    format : FloatFormat
        The number format.
    variant : Variant
        How its states are computed.
    family : str
        The family that it is from.
    n, channels, seed : int
        What `draw` was called with.
    channel : int
        Which of the sequences drawn it is.
    """

    format: FloatFormat
    variant: Variant
    family: str
    n: int
    channels: int
    seed: int
    channel: int

    def inputs(self) -> tuple[Array, Array]:
        """Return its coefficients and inputs, of shape (n,)."""
        a, u = draw(self.family, self.format, self.n, self.channels, self.seed)
        return a[:, self.channel], u[:, self.channel]

    def verify(self) -> Verification:
        """Verify it by itself."""
        a, u = self.inputs()
        return verify(a, u, format=self.format, algorithm=self.variant.algorithm, **self.variant.options())
