"""Measured errors and their proved bounds, against the size of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recfact.arrays import Array
from recfact.checks import several
from recfact.errors import OptionTypeError
from recfact.plot.board import PLAIN_TITLE, WIDTH, Board, drawable
from recfact.plot.colours import ROUNDING, TRUNCATION
from recfact.plot.sequences import one_sequence
from recfact.plot.style import INK, styled
from recfact.precision import Arithmetic, BlockFormat, FloatFormat, verify
from recfact.precision.verification.result import Verification
from recfact.precision.verification.sweep import made_in
from recfact.windows import Jagged, Uniform
from recfact.written_numbers import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 256
"""Steps that a line is measured on: the first ones of the sequence."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

COLUMNS = 3

DEPTH = 1e-3
"""How far below the bound of rounding an error is drawn; what is smaller has no part in the total."""

LOOKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("total", {"color": INK, "alpha": 0.3, "linewidth": 3.2, "markersize": 7, "markeredgewidth": 0}),
    ("truncation", {"color": TRUNCATION, "linewidth": 1.2, "markersize": 3.5}),
    ("rounding", {"color": ROUNDING, "linewidth": 1.2, "markersize": 3.5}),
)
"""The errors, and how they are drawn: the sum below its parts, which often cover it."""


@dataclass(frozen=True)
class WindowSweep:
    """Verifications of windows of one kind, in one format.

    Parameters
    ----------
    title : str
        Their common properties, as the title of a panel.
    sizes : tuple of int
        Block lengths or numbers of lags.
    found : tuple of Verification
        The result for each of them.
    """

    title: str
    sizes: tuple[int, ...]
    found: tuple[Verification, ...]


def sweep_windows(
    a: Array,
    u: Array,
    format: Any,
    kind: type[Jagged] | type[Uniform] = Jagged,
    algorithm: str = "hierarchical",
    step: Callable[[str], None] = lambda _: None,
) -> WindowSweep:
    """Verify windows of all `SIZES` on the first steps of a sequence.

    Parameters
    ----------
    a, u : ndarray, shape (n,)
        Coefficients and inputs, real.
    format : str, dtype, FloatFormat, BlockFormat or Arithmetic
        The format, or the whole arithmetic.
    kind : Jagged or Uniform
        The kind of the windows.
    algorithm : str
        The algorithm that computes the states. "sequential" takes its place for windows that it doesn't make.
    step : callable, optional
        Called once for each of `SIZES`, with a word on what comes next.
    """
    how, found = Arithmetic.of(format), []
    for size in SIZES:
        step(f"trying {kind.__name__}({size})")
        window = kind(size)
        used = algorithm if made_in(algorithm, window, how) else "sequential"
        found.append(verify(a[:STEPS], u[:STEPS], window=window, format=how, algorithm=used))
    steps = min(len(a), STEPS)
    return WindowSweep(
        f"{kind.__name__}(k) in {how.operands or how.format}, {steps} step{'s' * (steps != 1)}", SIZES, tuple(found)
    )


def bounds(
    a: Any,
    u: Any,
    formats: Sequence[Arithmetic | FloatFormat | BlockFormat | str] = ("bfloat16",),
    kinds: Sequence[type[Jagged] | type[Uniform]] = (Jagged, Uniform),
    *,
    unit: str = "",
) -> Figure:
    """Draw the errors of windows of all `SIZES` in number formats, measured and proved, on the first `STEPS` steps.

    Parameters
    ----------
    a, u : array_like, shape (n,)
        Coefficients and inputs, real.
    formats : sequence of Arithmetic, FloatFormat, BlockFormat or str, default ("bfloat16",)
        The formats, or whole arithmetics.
    kinds : sequence of Jagged and Uniform
        Kinds of windows. There is a panel for each format and kind.
    unit : str
        Unit of the states, for the axis.

    Examples
    --------
    >>> from recfact import plot
    >>> figure = plot.bounds([0.5] * 20, [1.0] * 20, ["bfloat16"])
    """
    a, u = one_sequence(a, u)
    formats, kinds = several(formats, "formats"), several(kinds, "kinds")
    for kind in kinds:
        if kind is not Jagged and kind is not Uniform:
            raise OptionTypeError("must be Jagged or Uniform", "kinds", given=kind)
    if not isinstance(unit, str):
        raise OptionTypeError("must be a text", "unit", given=unit)
    return bound_figure([sweep_windows(a, u, each, kind) for each in formats for kind in kinds], unit)


@styled
def bound_figure(sweeps: Sequence[WindowSweep], unit: str = "") -> Figure:
    """Draw the largest errors of each sweep, dotted, below their bounds, as lines.

    Parameters
    ----------
    sweeps : sequence of WindowSweep
        A panel for each, three in a row.
    unit : str
        Unit of the states.
    """
    columns = min(len(sweeps), COLUMNS)
    rows = -(-len(sweeps) // columns)
    wide, high = (WIDTH - 0.6) / columns, 2.75
    board = Board(WIDTH, rows * high + 0.45)
    for k, sweep in enumerate(sweeps):
        left, top = 0.6 + wide * (k % columns), 0.3 + high * (k // columns)
        axes = board.axes(left, top, wide - 0.55, high - 0.75)
        _panel(axes, sweep)
        if k % columns == 0:
            axes.set_ylabel("largest error of a state" + (f" in {unit}" if unit else ""))
    first = board.figure.axes[0]
    first.plot([], [], "o", color=INK, markersize=4, label="measured exactly")
    first.plot([], [], "-", color=INK, linewidth=1.2, label="proved bound")
    handles, labels = first.get_legend_handles_labels()
    board.figure.legend(handles, labels, loc="lower center", ncols=len(labels), borderaxespad=0.2)
    return board.figure


def _panel(axes: Axes, sweep: WindowSweep) -> None:
    shown = []
    for name, look in LOOKS:
        checks = [getattr(found, name) for found in sweep.found]
        bound, largest = (_positive([getattr(check, part) for check in checks]) for part in ("bound", "largest"))
        axes.plot(sweep.sizes, bound, "-", label=name, **look)
        axes.plot(sweep.sizes, largest, "o", **look)
        shown += [value for value in (*bound, *largest) if value > 0]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if shown:
        floor = min((found.rounding.bound for found in sweep.found if found.rounding.bound > 0), default=0.0)
        axes.set_ylim(max(min(shown) / 2, DEPTH * floor), 2 * max(shown))
    else:
        axes.text(0.5, 0.5, "no error, or no finite one", transform=axes.transAxes, ha="center", va="center")
        axes.set_ylim(0.5, 2)
    axes.set_xticks(sweep.sizes)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))))
    axes.yaxis.set_minor_formatter("")
    axes.minorticks_off()
    axes.set_title(sweep.title, fontsize=8.5, **PLAIN_TITLE)
    axes.set_xlabel("k in steps: block length, or number of lags")


def _positive(values: Sequence[float]) -> Array:
    """Return the part of `values` that a logarithmic scale can show."""
    known = drawable(np.array(values, dtype=np.float64))
    return np.where(known > 0, known, np.nan)
